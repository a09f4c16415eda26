#!/usr/bin/env bash
# Alert rules: CPU time of evaluating 1,000 rules over 50 services once a minute
set -eu
cd "$(dirname "$0")/.."
make all >/dev/null
exec build/venv/bin/python bench/alerts_bench.py "$@"
