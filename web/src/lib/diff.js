// SPDX-License-Identifier: Apache-2.0
// How two selections differ: per covered second, by share, or in total; and which differences are more than sampling
// noise. A count of samples k has a standard error of √k, so a sampled value v of period t has one of √(v·t).
import {amount, gauge, percent, rate} from "./units.js";

export const modes = [["", "Per second"], ["share", "Share"], ["total", "Total"]];
const SIGNIFICANT = 3; // standard errors

// The mode that applies: values in use have no rate, and without covered time there is none either.
export function modeOf(params, type, cover) {
    const timed = cover?.base > 0 && cover?.ns > 0 && !gauge(type);
    if (params.mode === "share" || params.mode === "total") return params.mode;
    return timed ? "second" : params.mode === "second" || gauge(type) ? "total" : "share";
}

// tree: two columns. cover: {base, ns, rate}. whole: the totals of both sides, if the tree shows a part of them.
export function comparison({mode, unit, type, cover, whole}) {
    const scale = mode === "second" ? [1e9 / cover.base, 1e9 / cover.ns] : mode === "share" ? whole.map((v) => (v > 0 ? 1 / v : 0)) : [1, 1];
    const period = unit === "nanoseconds" && cover?.rate > 0 ? 1e9 / cover.rate : 0;
    const n = whole.map((v) => (period ? Math.max(1, v / period) : 0));
    // Variance of one side, in units of the mode. Half a sample is added: no sample does not mean no uncertainty.
    const variance = (v, c) => {
        const k = Math.max(0, v) / period + 0.5;
        if (mode === "share") return ((k / n[c]) * (1 - Math.min(1, k / n[c]) || 1 / n[c])) / n[c];
        return k * (period * scale[c]) ** 2;
    };
    const show = (v, c, digits) => (mode === "second" ? rate(v, unit, type, c ? cover.ns : cover.base, digits) : mode === "share" ? percent(v * scale[c], undefined, digits) : amount(v, unit, type, digits));
    const of = (before, now) => {
        const p = before * scale[0], q = now * scale[1], d = q - p;
        const [vp, vq] = period ? [variance(before, 0), variance(now, 1)] : [0, 0], error = Math.sqrt(vp + vq);
        const whole_ = mode === "share" && p >= 1 - 1e-12 && q >= 1 - 1e-12; // the root: its share cannot change
        return {p, q, d, error, ratio: p > 0 ? q / p - 1 : NaN, spread: p > 0 && q > 0 ? 2 * Math.sqrt(vp / p ** 2 + vq / q ** 2) : NaN, known: period > 0,
            significant: !whole_ && d !== 0 && (!period || Math.abs(d) >= SIGNIFICANT * error)};
    };
    return {mode, unit, type, period, scale, cover, of, show, samples: (v) => (period ? v / period : undefined)};
}

// "+87 %", "−3.2 %", "−99.93 %": what is left of something is not nothing.
function signed(ratio) {
    const a = Math.abs(ratio);
    return (ratio > 0 ? "+" : ratio < 0 ? "−" : "±") + percent(a, a >= 0.995 && a < 1 ? undefined : a >= 0.0995 ? 0 : 1);
}

// "+87 % ± 9 %", "×12.4", "new", "gone", "±0 %"; "" where a change has no meaning. What rests on few samples may be several times
// as much or as little: "+300 % (+90 % to +740 %)".
export function changeText(x) {
    if (!(x.p > 0)) return x.q > 0 ? "new" : "";
    if (!(x.q > 0)) return "gone";
    if (x.ratio > 9) return `×${(x.ratio + 1).toFixed(1)}`;
    if (!x.known) return signed(x.ratio);
    const times = x.ratio + 1, error = times * x.spread;
    const rough = (r) => signed(r > -0.95 ? Number(r.toPrecision(2)) : r);
    if (x.spread > 0.5) return `${rough(x.ratio)} (${rough(times * Math.exp(-x.spread) - 1)} to ${rough(times * Math.exp(x.spread) - 1)})`;
    return `${signed(x.ratio)} ± ${percent(error, error >= 0.0995 ? 0 : 1)}`;
}
