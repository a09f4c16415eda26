// SPDX-License-Identifier: Apache-2.0
// How two selections differ: per covered second, by share, or in total; and which differences are more than sampling
// noise. A count of samples k has a standard error of √k, so a sampled value v of period t has one of √(v·t).
import {amount, gauge, percent, points, rate, signOf} from "./units.js";

export const modes = [
    ["", "Per second"],
    ["share", "Share"],
    ["total", "Total"],
];
const SIGNIFICANT = 3; // standard errors

// The mode that applies: values in use have no rate, and without covered time there is none either.
export function modeOf(params, type, cover) {
    const timed = cover?.base > 0 && cover?.ns > 0 && !gauge(type);
    if (params.mode === "share" || params.mode === "total") return params.mode;
    if (timed) return "second";
    if (params.mode === "second" || gauge(type)) return "total";
    return "share";
}

// tree: two columns. cover: {base, ns, rate}. whole: the totals of both sides, if the tree shows a part of them.
/** @param {{mode: string, unit: string, type: string, whole: number[], cover?: any}} sides */
export function comparison({mode, unit, type, cover, whole}) {
    let scale;
    if (mode === "second") scale = [1e9 / cover.base, 1e9 / cover.ns];
    else if (mode === "share") scale = whole.map((v) => (v > 0 ? 1 / v : 0));
    else scale = [1, 1];
    const period = unit === "nanoseconds" && cover?.rate > 0 ? 1e9 / cover.rate : 0;
    const n = whole.map((v) => (period ? Math.max(1, v / period) : 0));
    // Variance of one side, in units of the mode. Half a sample is added: no sample does not mean no uncertainty.
    const variance = (v, c) => {
        const k = Math.max(0, v) / period + 0.5;
        if (mode === "share") return ((k / n[c]) * (1 - Math.min(1, k / n[c]) || 1 / n[c])) / n[c];
        return k * (period * scale[c]) ** 2;
    };
    const show = (v, c, digits) => {
        if (mode === "second") return rate(v, unit, type, c ? cover.ns : cover.base, digits);
        if (mode === "share") return percent(v * scale[c], undefined, digits);
        return amount(v, unit, type, digits);
    };
    const of = (before, now) => {
        const p = before * scale[0],
            q = now * scale[1],
            d = q - p;
        const [vp, vq] = period ? [variance(before, 0), variance(now, 1)] : [0, 0],
            error = Math.sqrt(vp + vq);
        const whole_ = mode === "share" && p >= 1 - 1e-12 && q >= 1 - 1e-12; // the root: its share cannot change
        return {
            p,
            q,
            d,
            error,
            ratio: p > 0 ? q / p - 1 : NaN,
            spread: p > 0 && q > 0 ? 2 * Math.sqrt(vp / p ** 2 + vq / q ** 2) : NaN,
            known: period > 0,
            significant: !whole_ && d !== 0 && (!period || Math.abs(d) >= SIGNIFICANT * error),
        };
    };
    // A difference as an amount with its sign, from the numbers of of(): "+1.2 cores", "−40 MB", "+3.1 pp".
    const delta = ({d}, digits) =>
        mode === "share"
            ? points(d)
            : signedText(
                  d,
                  mode === "second"
                      ? rate(Math.abs(d), unit, type, 1e9, digits)
                      : amount(Math.abs(d), unit, type, digits),
              );
    return {mode, unit, type, period, scale, cover, of, show, delta, samples: (v) => (period ? v / period : undefined)};
}

const signedText = (v, text) => signOf(v) + text;

// The class of a text about a change: orange, blue or grey.
export function changeClass(x) {
    if (!x.significant) return "muted";
    return x.d > 0 ? "more" : "less";
}

// The change as a box has room for it: "+63 %, +1.2 cores".
export function shortChange(x, diff, digits) {
    let ratio;
    if (!(x.p > 0)) ratio = "new";
    else if (!(x.q > 0)) ratio = "gone";
    else if (x.ratio > 9) ratio = `×${(x.ratio + 1).toFixed(1)}`;
    else ratio = signed(x.ratio);
    return `${ratio}, ${diff.delta(x, digits)}`;
}

// "+87 %", "−3.2 %", "−99.93 %": what is left of something is not nothing.
function signed(ratio) {
    const a = Math.abs(ratio);
    if (a >= 0.995 && a < 1) return signOf(ratio) + percent(a);
    return signOf(ratio) + percent(a, a >= 0.0995 ? 0 : 1);
}

// "+87 % ± 9 %", "×12.4", "new", "gone", "±0 %"; "" where a change has no meaning. What rests on few samples may
// be several times as much or as little: "+300 % (+90 % to +740 %)".
export function changeText(x) {
    if (!(x.p > 0)) return x.q > 0 ? "new" : "";
    if (!(x.q > 0)) return "gone";
    if (x.ratio > 9) return `×${(x.ratio + 1).toFixed(1)}`;
    if (!x.known) return signed(x.ratio);
    const times = x.ratio + 1,
        error = times * x.spread;
    const rough = (r) => signed(r > -0.95 ? Number(r.toPrecision(2)) : r);
    if (x.spread > 0.5)
        return (
            `${rough(x.ratio)} (${rough(times * Math.exp(-x.spread) - 1)} to ` +
            `${rough(times * Math.exp(x.spread) - 1)})`
        );
    return `${signed(x.ratio)} ± ${percent(error, error >= 0.0995 ? 0 : 1)}`;
}
