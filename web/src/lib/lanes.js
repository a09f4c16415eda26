// SPDX-License-Identifier: Apache-2.0
// What the flame chart shows: boxes of each thread, in the order of time.
import {digitsOf, percent, samplesText} from "./units.js";

export const WAITING = 1;

// The tree in numbers: of each node its parent (smaller than itself) and its depth; the root, 0, has depth 0.
function treeOf(d) {
    const parents = Uint32Array.from(d.parents),
        depth = new Uint16Array(parents.length);
    for (let i = 1; i < parents.length; i++) depth[i] = depth[parents[i]] + 1;
    return {parents, depth};
}

// Where a thread's stacks part: the number of frames that all begin with, of which each keeps at least its last
// one; and how deep they get beyond that. Boxes are made when a lane comes into view (boxesOf).
function shapeOf({parents, depth}, cells) {
    let at = cells[2] ?? 0,
        least = Infinity,
        most = 0;
    for (let i = 2; i < cells.length; i += 4) {
        let n = cells[i];
        least = Math.min(least, depth[n] - 1);
        most = Math.max(most, depth[n]);
        while (at !== n) {
            if (depth[n] >= depth[at]) n = parents[n];
            else at = parents[at];
        }
    }
    const common = cells.length > 4 ? Math.min(depth[at], least) : 0;
    return {common, rows: Math.max(1, Math.min(DEPTH, most - common))};
}

export const BOX = 5;

// numbers of a box: column, width in columns, depth, node, kind

// Boxes of a thread, BOX numbers each; neighbours of one path become one box. What all stacks begin with is left out.
export function boxesOf({parents, depth}, lane) {
    if (lane.boxes) return lane.boxes;
    const {
            t: {cells},
            common,
        } = lane,
        boxes = [],
        open = new Uint32Array(DEPTH),
        path = new Uint32Array(DEPTH);
    let n = 0; // boxes that are open, one at each depth
    for (let i = 0; i < cells.length; i += 4) {
        const column = cells[i],
            width = cells[i + 1],
            kind = cells[i + 3];
        let node = cells[i + 2],
            length = Math.min(DEPTH, depth[node] - common);
        while (depth[node] > common + length) node = parents[node];
        for (let k = length; k-- > 0; node = parents[node]) path[k] = node;
        n = Math.min(n, length);
        for (let k = 0; k < length; k++) {
            const b = open[k];
            if (k < n && boxes[b + 3] === path[k] && boxes[b + 4] === kind && boxes[b] + boxes[b + 1] === column) {
                boxes[b + 1] += width;
                continue;
            }
            n = k + 1;
            open[k] = boxes.length;
            boxes.push(column, width, k, path[k], kind);
        }
    }
    return (lane.boxes = Uint32Array.from(boxes));
}

export function lanesOf(d) {
    const tree = (d.tree ??= treeOf(d));
    let top = AXIS;
    return d.threads.map((t, i) => {
        const spans = d.spans.filter((s) => s.thread === i),
            lane = {t, top, spans, spanRows: spans.length ? 1 : 0, ...shapeOf(tree, t.cells), boxes: null};
        top += HEAD + lane.spanRows * SPAN + lane.rows * ROW + GAP;
        return lane;
    });
}

// The innermost function that all stacks of a lane are in; "" if there is none.
export function inFunction(d, {t, common}) {
    let n = t.cells[2] ?? 0;
    while (d.tree.depth[n] > common) n = d.tree.parents[n];
    return n ? d.names[d.frames[n]] : "";
}

export const ROW = 15,
    HEAD = 18,
    SPAN = 14,
    GAP = 8,
    AXIS = 20,
    MIN_NS = 200000n,
    DEPTH = 40;

export const threadName = (t) => `${t.name || t.service || "thread"}${t.id ? ` (${t.id})` : ""}`;

export function share(t, d) {
    const ns = Number(d.step) * d.columns;
    return d.sliced
        ? samplesText(t.samples)
        : `${percent(Math.min(1, t.running / ns), undefined, digitsOf(t.samples))} running` +
              `${t.waiting ? `, ${percent(Math.min(1, t.waiting / ns))} waiting` : ""}, ` +
              samplesText(t.samples);
}
