// SPDX-License-Identifier: Apache-2.0
// Values in use (memory, goroutines): what counts is how much there is at the end of a range; mean and maximum go
// along.
import {complete} from "../parts/chart.js";

// series: an answer of `series`. Returns {from, to (ns as text): the last part of the range that has profiles,
// wide enough to hold one of each instance; mean, max}; null if there are none.
export function lastOf(series, live) {
    const n = series.coverage.length,
        step = Number(series.step),
        whole = Array.from({length: n}, (_, i) => series.series.reduce((sum, s) => sum + s.values[i], 0));
    const covered = [...whole.keys()].filter((i) => series.coverage[i] > 0),
        sure = complete(series, live);
    if (!covered.length) return null;
    const used = covered.filter((i) => i < sure),
        at = (used.length ? used : covered).at(-1),
        values = (used.length ? used : covered).map((i) => whole[i]);
    const to = BigInt(series.from) + BigInt(series.step) * BigInt(at + 1),
        from = to - BigInt(Math.max(step, Number(series.interval ?? 0)));
    return {
        from: String(from),
        to: String(to),
        atMs: Number(series.from) / 1e6 + (step * at) / 1e6,
        mean: values.reduce((a, b) => a + b, 0) / values.length,
        max: Math.max(...values),
    };
}
