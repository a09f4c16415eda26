#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A drift query over 24 hours against the 24 hours before: at most 200 ms of CPU time
set -eu
cd "$(dirname "$0")/.."
[ -n "${WICK_BENCH_BUILT:-}" ] || make all >/dev/null
exec build/venv/bin/python bench/drift_query_bench.py "$@"
