// SPDX-License-Identifier: Apache-2.0
// A call graph of a tree: functions with the calls between them, from the hottest path outwards.

// Weights per function and per call; a function that is twice on a path counts once. limit: how many of the
// largest functions; 0: the hottest path with its neighbours, and those of the functions in grown.
export function graphOf(tree, limit, grown = []) {
    const {n, parent, frame, self, total, frames} = tree;
    const byName = new Map(),
        idOf = new Int32Array(frames.n).fill(-1),
        names = [],
        anyFrame = [];
    const id = (f) => {
        if (idOf[f] >= 0) return idOf[f];
        const name = frames.function(f) || "\0" + frames.mapping(f);
        let k = byName.get(name);
        if (k === undefined) {
            byName.set(name, (k = names.length));
            names.push(f);
            anyFrame.push(f);
        }
        return (idOf[f] = k);
    };
    const selfOf = [],
        totalOf = [],
        edges = new Map();
    const path = [],
        on = new Map();
    const depth = new Uint16Array(n);
    const {first, kids} = tree.children();
    const stack = [0];
    while (stack.length) {
        const i = stack.pop();
        depth[i] = i ? depth[parent[i]] + 1 : 0;
        while (path.length >= Math.max(1, depth[i]) && path.length) {
            const g = path.pop();
            const c = on.get(g) - 1;
            if (c) on.set(g, c);
            else on.delete(g);
        }
        if (i && !tree.isFolded(i)) {
            const g = id(frame[i]);
            selfOf[g] = (selfOf[g] ?? 0) + self[0][i];
            if (!on.has(g)) totalOf[g] = (totalOf[g] ?? 0) + total[0][i];
            const p = parent[i];
            if (p) {
                const key = id(frame[p]) + ">" + g;
                edges.set(key, (edges.get(key) ?? 0) + total[0][i]);
            }
            path.push(g);
            on.set(g, (on.get(g) ?? 0) + 1);
        } else if (i) {
            path.push(-1);
            on.set(-1, (on.get(-1) ?? 0) + 1);
        }
        for (let k = first[i]; k < first[i + 1]; k++) stack.push(kids[k]);
    }
    const whole = total[0][0] || 1,
        calls = [];
    for (const [key, w] of edges) {
        const [a, b] = key.split(">").map(Number);
        if (a !== b && w / whole >= SMALL) calls.push({a, b, w});
    }
    const large = [...names.keys()].filter((g) => totalOf[g] / whole >= SMALL);
    const all = {
        large,
        calls,
        selfOf,
        totalOf,
        nameOf: (g) => frames.function(anyFrame[g]) || `[${frames.mapping(anyFrame[g])}]`,
    };
    const chosen = limit
        ? large.sort((a, b) => totalOf[b] + 2 * selfOf[b] - totalOf[a] - 2 * selfOf[a]).slice(0, limit)
        : hottestPath(all, new Set(grown), whole);
    const keep = new Set(chosen),
        hidden = (g) =>
            new Set(
                calls.flatMap(({a, b}) => {
                    if (a === g && !keep.has(b)) return [b];
                    if (b === g && !keep.has(a)) return [a];
                    return [];
                }),
            ).size;
    return {
        /** @type {any[]} */
        nodes: chosen.map((g) => ({g, frame: anyFrame[g], self: selfOf[g], total: totalOf[g], more: hidden(g)})),
        calls: calls.filter(({a, b}) => keep.has(a) && keep.has(b)),
        whole,
        left: names.length - chosen.length,
    };
}

const SMALL = 0.002,
    VISIBLE = 0.01,
    PATH = 7,
    FIRST = 14;

// What is shown first: the heaviest calls down from the top to the function with the most self time, as many as
// can be read, and their heaviest neighbours; and all neighbours of the functions that were clicked.
function hottestPath({large, calls, selfOf, totalOf, nameOf}, grown, whole) {
    const hot = large.reduce((a, b) => (selfOf[b] > (selfOf[a] ?? -1) ? b : a), large[0]),
        keep = new Set(large.length ? [hot] : []),
        usual = new Set(large);
    for (let g = hot, n = 1; g !== undefined && n < PATH; n++) {
        g = calls.filter((c) => c.b === g && !keep.has(c.a)).sort((a, b) => b.w - a.w)[0]?.a;
        if (g !== undefined) keep.add(g);
    }
    const near = (g) =>
        calls
            .filter((c) => c.a === g || c.b === g)
            .map((c) => [c.a === g ? c.b : c.a, c.w])
            .filter(([o]) => usual.has(o));
    const beside = [...keep]
        .flatMap(near)
        .filter(([g, w]) => !keep.has(g) && w / whole >= VISIBLE)
        .sort((a, b) => b[1] - a[1] || totalOf[b[0]] - totalOf[a[0]]);
    for (const [g] of beside) if (keep.size < FIRST) keep.add(g);
    for (const g of large) if (grown.has(nameOf(g))) for (const [o] of [[g], ...near(g)]) keep.add(o);
    return [...keep];
}
