// SPDX-License-Identifier: Apache-2.0
// The two times of a comparison, as pairs of milliseconds: how they move without covering each other, and what is to be
// said about where they lie.
export const SHORTEST = 2000;

/** @type {(a: number[], b: number[]) => number} */
export const overlap = (a, b) => Math.max(0, Math.min(a[1], b[1]) - Math.max(a[0], b[0]));

// The part of time that a timeline of both shows: with room at the sides, up to the present.
export function viewOf(base, now, present, wider = 1) {
    const lo = Math.min(base[0], now[0]),
        hi = Math.max(base[1], now[1]),
        room = (hi - lo) * 0.3 * wider;
    return [lo - room, Math.min(Math.max(present, hi), hi + room)];
}

// Whether a view that was chosen earlier still shows both well, so that nothing moves under the pointer.
export const stillFits = (view, base, now) =>
    view &&
    Math.min(base[0], now[0]) >= view[0] &&
    Math.max(base[1], now[1]) <= view[1] &&
    Math.max(base[1], now[1]) - Math.min(base[0], now[0]) > (view[1] - view[0]) * 0.2;

const nearest = (t, points, reach) =>
    points.reduce(
        (best, p) => (Math.abs(p - t) <= reach && (best === null || Math.abs(p - t) < Math.abs(best - t)) ? p : best),
        null,
    );

// A window that is moved ("move") or resized at one end ("from", "to") by ms. It snaps to points within reach,
// stays in the view and, unless they may overlap, on its side of the other one.
export function dragged(window, part, ms, {other, view, points, reach, apart}) {
    let [a, b] = window;
    const first = a + b <= other[0] + other[1];
    const low = apart && !first ? Math.max(view[0], other[1]) : view[0],
        high = apart && first ? Math.min(view[1], other[0]) : view[1];
    const stops = apart ? [...points, first ? other[0] : other[1]] : points;
    if (part === "from") {
        a = Math.round((a + ms) / 1000) * 1000;
        a = Math.min(Math.max(nearest(a, stops, reach) ?? a, low), b - SHORTEST);
    } else if (part === "to") {
        b = Math.round((b + ms) / 1000) * 1000;
        b = Math.max(Math.min(nearest(b, stops, reach) ?? b, high), a + SHORTEST);
    } else {
        const length = b - a,
            to = Math.round((a + ms) / 1000) * 1000;
        const left = nearest(to, stops, reach),
            right = nearest(to + length, stops, reach);
        if (left !== null && (right === null || Math.abs(left - to) <= Math.abs(right - to - length))) a = left;
        else a = right !== null ? right - length : to;
        a = Math.max(low, Math.min(a, high - length));
        b = Math.min(a + length, high);
        if (b - a < SHORTEST) return window;
    }
    return [a, b];
}

// "before" of the same length, directly ahead of now.
/** @type {(now: number[]) => number[]} */
export const justBefore = ([a, b]) => [a - (b - a), a];

// What is wrong with where two windows of the same selection lie: [{text, label, base or now: a better window}].
export function remarks(base, now, marks, clock) {
    const out = [],
        common = overlap(base, now);
    if (common > 0)
        out.push({
            text: "The two times overlap: what is in both tells nothing.",
            label: "Move before",
            base: justBefore(now),
        });
    const inside = (w) => marks.filter((m) => m.at > w[0] + 1500 && m.at < w[1] - 1500);
    const [crossed] = inside(base).slice(-1),
        [begun] = inside(now);
    if (crossed)
        out.push({
            text: `“before” includes the deploy of ${crossed.label} at ${clock(crossed.at)}.`,
            label: "End it there",
            base: [Math.min(base[0], crossed.at - SHORTEST), crossed.at],
        });
    if (begun)
        out.push({
            text: `“now” includes the deploy of ${begun.label} at ${clock(begun.at)}.`,
            label: "Start it there",
            now: [begun.at, now[1]],
        });
    return out;
}
