#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The span index: spans per second of intake, synced to disk, bytes per span, and questions. Fails below 100,000 spans per second of CPU
# time (senders included) or above 80 bytes a span.
#   bench/bench_spans.sh [REQUESTS [SPANS]]
set -eu
cd "$(dirname "$0")/.."
ninja -C build -j2 bench/span_load >/dev/null
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
build/bench/span_load "$dir/spans" "${1:-500}" "${2:-500}" | tee "$dir/out"
awk '$1 == "spans_per_cpu_second" && $2 < 100000 || $1 == "bytes_per_span" && $2 > 80 {print "over the limit: " $0; bad = 1} END {exit bad}' "$dir/out"
