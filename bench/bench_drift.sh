#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# How often drift is found and how often it is reported where there is none (docs/drift.md): the statistics on a simulated service.
#   bench/bench_drift.sh [TRIALS [WEEKS [SEED]]]
# The second pair of tables has seeds and kinds of noise that the limits of the test were not chosen with.
set -eu
cd "$(dirname "$0")/.."
ninja -C build -j2 bench/drift_sim >/dev/null
for new in "" -new; do
    build/bench/drift_sim "found$new" "${1:-400}" "${3:-1}"
    echo
    build/bench/drift_sim "false$new" "${2:-4}" "${3:-1}"
    echo
done
