// SPDX-License-Identifier: Apache-2.0
// Where each node of a tree lies: x and width as shares of the whole, depth, and children in drawing order. Typed
// arrays throughout, no recursion: a million nodes take some tens of milliseconds.
//
// Invariant: along kids[first[i]] … kids[first[i + 1]] x grows, so what a pixel shows is found by halving; with order
// "value" widths fall as well (the folded child, if any, comes last), so drawing stops at the first that is too narrow.
import {FOLDED} from "../lib/tree.js";

// by: "value" or "name"; scale of two columns: what their values are multiplied with (default: each by its own
// total, so that both are shares).
export function layout(tree, {by = "value", scale = null} = {}) {
    const {n} = tree;
    const w = widths(tree, scale);
    const lists = tree.children();
    const first = lists.first;
    const kids = by === "name" ? lists.kids : sortByWidth(tree, lists, w);
    const x = new Float64Array(n),
        depth = new Uint16Array(n);
    let deepest = 0;
    for (let i = 0; i < n; i++) {
        let at = x[i];
        const d = depth[i] + 1;
        for (let k = first[i], end = first[i + 1]; k < end; k++) {
            const c = kids[k];
            x[c] = at;
            at += w[c];
            depth[c] = d;
        }
        if (first[i] < first[i + 1] && d > deepest) deepest = d;
    }
    return {tree, x, w, depth, first, kids, rows: deepest + 1, sorted: by !== "name"};
}

function widths(tree, scale) {
    const {n, total, columns} = tree;
    const w = new Float64Array(n);
    const a = total[0],
        b = columns > 1 ? total[1] : null;
    let sa = 1,
        sb = 0;
    if (b) [sa, sb] = scale ?? [a[0] > 0 ? 1 / a[0] : 0, b[0] > 0 ? 1 / b[0] : 0];
    const whole = Math.max(0, a[0]) * sa + (b ? Math.max(0, b[0]) * sb : 0);
    if (whole > 0)
        for (let i = 0; i < n; i++) w[i] = (Math.max(0, a[i]) * sa + (b ? Math.max(0, b[i]) * sb : 0)) / whole;
    if (!(w[0] > 0)) w[0] = 1;
    return w;
}

function sortByWidth(tree, {first, kids}, w) {
    const {n, frame} = tree;
    const out = kids.slice();
    // Folded children are sorted last, whatever their width.
    const key = (i) => (frame[i] === FOLDED ? -1 : w[i]);
    for (let i = 0; i < n; i++) {
        const from = first[i],
            to = first[i + 1];
        if (to - from < 2) continue;
        if (to - from <= 12) {
            for (let k = from + 1; k < to; k++) {
                const node = out[k],
                    v = key(node);
                let j = k - 1;
                while (j >= from && key(out[j]) < v) {
                    out[j + 1] = out[j];
                    j--;
                }
                out[j + 1] = node;
            }
        } else out.subarray(from, to).sort((p, q) => key(q) - key(p) || p - q);
    }
    return out;
}

// The first child of i whose right edge is beyond position at.
export function childFrom(l, i, at) {
    let lo = l.first[i],
        hi = l.first[i + 1];
    while (lo < hi) {
        const mid = (lo + hi) >> 1,
            c = l.kids[mid];
        if (l.x[c] + l.w[c] <= at) lo = mid + 1;
        else hi = mid;
    }
    return lo;
}

// The node at a position and depth; -1 if there is none.
export function nodeAt(l, at, depth) {
    if (at < 0 || at >= l.w[0]) return -1;
    let i = 0;
    for (let d = 0; d < depth; d++) {
        const k = childFrom(l, i, at);
        if (k >= l.first[i + 1] || l.x[l.kids[k]] > at) return -1;
        i = l.kids[k];
    }
    return i;
}

export function parentOf(l, i) {
    return i ? l.tree.parent[i] : -1;
}

export function siblings(l, i) {
    if (!i) return {list: [0], at: 0};
    const p = l.tree.parent[i];
    const list = l.kids.subarray(l.first[p], l.first[p + 1]);
    return {list, at: list.indexOf(i)};
}

// Nodes whose frame matches, as one byte per node, and their share of the total (nested ones counted once).
export function searchNodes(l, text, {regexp = true} = {}) {
    if (!text) return null;
    const {tree} = l,
        {frames} = tree;
    let test,
        wrong = "";
    try {
        const re = regexp ? new RegExp(text, /[A-Z]/.test(text) ? "" : "i") : null;
        test = re ? (s) => re.test(s) : (s) => s.includes(text);
    } catch (e) {
        wrong = e.message.replace(/^Invalid regular expression: /, "");
        const low = text.toLowerCase();
        test = (s) => s.toLowerCase().includes(low);
    }
    const ofText = new Map(),
        hit = new Uint8Array(frames.n);
    const check = (off) => {
        let r = ofText.get(off);
        if (r === undefined) ofText.set(off, (r = test(frames.texts.at(off))));
        return r;
    };
    for (let f = 1; f < frames.n; f++)
        hit[f] =
            check(frames.fn[f]) ||
            (frames.fn[f] === 0 && check(frames.map[f])) ||
            (frames.file[f] !== 0 && check(frames.file[f]))
                ? 1
                : 0;
    const nodes = new Uint8Array(tree.n); // 1 matches, 2 is below a match
    let share = 0,
        count = 0;
    for (let i = 1; i < tree.n; i++) {
        const below = nodes[tree.parent[i]] !== 0;
        if (hit[tree.frame[i]]) {
            nodes[i] = 1;
            count++;
            if (!below) share += l.w[i];
        } else if (below) nodes[i] = 2;
    }
    return {nodes, share: share / l.w[0], count, wrong};
}
