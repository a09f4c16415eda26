#!/usr/bin/env bash
# The network layer against raw TCP: gRPC calls of 197 kB on one core, and the memory of idle connections
set -eu
cd "$(dirname "$0")/.."
ninja -C "${BUILD:-build}" bench/bench_net >/dev/null
"${BUILD:-build}/bench/bench_net" "${1:-5}"
