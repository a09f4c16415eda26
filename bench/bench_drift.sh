#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# How often drift is found and how often it is reported where there is none (docs/drift.md): the statistics on a simulated service.
#   bench/bench_drift.sh [TRIALS [WEEKS]]
set -eu
cd "$(dirname "$0")/.."
ninja -C build -j2 bench/drift_sim >/dev/null
build/bench/drift_sim found "${1:-400}"
echo
build/bench/drift_sim false "${2:-4}"
