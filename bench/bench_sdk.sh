#!/usr/bin/env bash
# libwick: cost of samples, slowdown, right totals, malloc hooks, memory
set -eu
cd "$(dirname "$0")/.."
make all >/dev/null
exec python3 bench/sdk_bench.py "$@"
