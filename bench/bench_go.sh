#!/usr/bin/env bash
# The Go module: CPU time of a program with a Provider, beside Go's own CPU profile, in shuffled rounds
set -eu
cd "$(dirname "$0")/.."
make all >/dev/null
exec python3 bench/go_bench.py "$@"
