#!/usr/bin/env bash
# The Python package: direct cost, slowdown beside its peers, import, memory, right shares
set -eu
cd "$(dirname "$0")/.."
make all >/dev/null
exec build/venv/bin/python bench/python_bench.py "$@"
