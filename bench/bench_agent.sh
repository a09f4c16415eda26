#!/usr/bin/env bash
# The host agent: BPF time a sample, what it costs at 99 Hz and beside short processes, memory, bytes an event, the slowdown of a full machine, off-CPU.
set -eu
cd "$(dirname "$0")/.."
ninja -C build src/cli/wick >/dev/null
exec python3 bench/bench_agent.py "$@"
