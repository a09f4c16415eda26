// SPDX-License-Identifier: Apache-2.0
// The call graph: functions as boxes sized by their own weight, calls as arrows sized by theirs. Laid out by dagre,
// drawn as SVG.
import dagre from "@dagrejs/dagre";
import {html} from "htm/preact";
import {useEffect, useMemo, useRef} from "preact/hooks";
import {oklch, painter, themeOf} from "../lib/color.js";
import {shortName} from "../lib/names.js";
import {amount, digitsOf, samplesOf, samplesText, shareText} from "../lib/units.js";
import {patch} from "../lib/url.js";
import {shape} from "../parts/flamepane.js";
import {Choice} from "../parts/menu.js";
import {useStatus} from "../parts/shell.js";

// Weights per function and per call; a function that is twice on a path counts once.
export function graphOf(tree, limit) {
    const {n, parent, frame, self, total, frames} = tree;
    const byName = new Map(), idOf = new Int32Array(frames.n).fill(-1), names = [], anyFrame = [];
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
    const selfOf = [], totalOf = [], edges = new Map();
    const path = [], on = new Map();
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
    const whole = total[0][0] || 1;
    const chosen = [...names.keys()].filter((g) => totalOf[g] / whole >= 0.002)
        .sort((a, b) => totalOf[b] + 2 * selfOf[b] - totalOf[a] - 2 * selfOf[a]).slice(0, limit);
    const keep = new Set(chosen);
    const calls = [];
    for (const [key, w] of edges) {
        const [a, b] = key.split(">").map(Number);
        if (a !== b && keep.has(a) && keep.has(b) && w / whole >= 0.002) calls.push({a, b, w});
    }
    return {nodes: chosen.map((g) => ({g, frame: anyFrame[g], self: selfOf[g], total: totalOf[g]})), calls, whole, left: names.length - chosen.length};
}

const cut = (s, n) => (s.length > n ? s.slice(0, n - 1) + "…" : s);

function place(graph, tree) {
    const g = new dagre.graphlib.Graph();
    g.setGraph({rankdir: "TB", nodesep: 14, ranksep: 34, marginx: 20, marginy: 20});
    g.setDefaultEdgeLabel(() => ({}));
    for (const n of graph.nodes) {
        n.name = tree.frames.function(n.frame) || `[${tree.frames.mapping(n.frame)}]`;
        n.size = 11 + 13 * Math.sqrt(Math.max(0, n.self) / graph.whole);
        n.lines = split(shortName(n.name));
        const chars = Math.max(...n.lines.map((l) => l.length), 14);
        g.setNode(String(n.g), {width: chars * n.size * 0.56 + 20, height: (n.lines.length + 1) * n.size * 1.3 + 12});
    }
    for (const c of graph.calls) g.setEdge(String(c.a), String(c.b), {minlen: 1, weight: Math.max(1, Math.round((c.w / graph.whole) * 40))});
    dagre.layout(g);
    return g;
}

// At most three lines, broken at separators of names.
function split(name) {
    if (name.length <= 26) return [name];
    const parts = name.match(/.{1,24}(?=[.:(/]|$)|.{1,24}/g) ?? [name];
    return parts.length > 3 ? [...parts.slice(0, 2), cut(parts.slice(2).join(""), 24)] : parts;
}

// Boxes are the warmer, the more of the total is their own.
function heat(share, theme) {
    const k = Math.min(1, Math.sqrt(Math.max(0, share) * 1.6));
    return theme === "dark" ? oklch(0.27 + 0.2 * k, 0.006 + 0.11 * k, 50) : oklch(0.97 - 0.19 * k, 0.004 + 0.115 * k, 60);
}

// of: names the selection; the picture keeps its place while the same one is refreshed.
export function CallGraph({tree: whole, params, of, cover}) {
    const own = useStatus().data?.ownCode;
    const tree = useMemo(() => shape(whole, params, own), [whole, params.mine, params.rec, params.frames, own]);
    const limit = Number(params.boxes) || 60;
    const theme = themeOf();
    const svg = useRef();
    const made = useMemo(() => {
        const graph = graphOf(tree, limit);
        return {graph, g: place(graph, tree)};
    }, [tree, limit]);
    const paint = useMemo(() => (params.color ? painter(tree, params.color, theme) : null), [tree, params.color, theme]);
    usePanZoom(svg, made.g.graph(), [of, limit, params.mine, params.rec, params.frames].join());
    const {graph, g} = made;
    const line = (points) => "M" + points.map((p) => `${p.x.toFixed(1)},${p.y.toFixed(1)}`).join(" L");
    return html`<div class="graph"><div class="graph-bar"><${Choice} label="boxes" value=${String(limit)} options=${[["30", "30"], ["60", "60"], ["120", "120"]]} onPick=${(v) => patch({boxes: v === "60" ? "" : v})} />
            <span class="muted">functions${graph.left > 0 ? `; ${graph.left} smaller ones are left out` : ""}. Warm boxes take time themselves, arrows are calls with their share. Drag moves, wheel zooms.</span></div>
        <svg ref=${svg} class="graph-svg" role="group" aria-label=${`Call graph of ${graph.nodes.length} functions`} tabindex="0">
            <defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" markerUnits="userSpaceOnUse" orient="auto"><path d="M0,0 L8,4 L0,8 z" class="edge-tip"/></marker></defs>
            ${graph.calls.map((c) => html`<path key=${c.a + ">" + c.b} class="edge" marker-end="url(#tip)" d=${line(g.edge(String(c.a), String(c.b)).points)} stroke-width=${(0.8 + 5 * (c.w / graph.whole)).toFixed(2)}><title>${shortName(name(graph, c.a))} → ${shortName(name(graph, c.b))}: ${shareText(c.w, graph.whole, tree.unit, cover?.rate)}${samplesAt(c.w, tree, cover)}</title></path>`)}
            ${graph.calls.filter((c) => c.w / graph.whole >= 0.05).map((c) => html`<${EdgeWeight} key=${c.a + "=" + c.b} points=${g.edge(String(c.a), String(c.b)).points} text=${shareText(c.w, graph.whole, tree.unit, cover?.rate)} />`)}
            ${graph.nodes.map((n) => html`<${GraphBox} key=${n.g} n=${n} at=${g.node(String(n.g))} tree=${tree} cover=${cover} whole=${graph.whole} fill=${paint ? paint(n.frame) : heat(n.self / graph.whole, theme)} />`)}
        </svg></div>`;
}

function EdgeWeight({points, text}) {
    const at = points[points.length >> 1];
    return html`<text class="edge-weight" x=${(at.x + 4).toFixed(1)} y=${at.y.toFixed(1)} font-size="10">${text}</text>`;
}

const name = (graph, g) => graph.nodes.find((n) => n.g === g).name;

// ", 120 samples at 99 Hz", where the rate is known.
function samplesAt(v, tree, cover) {
    const n = samplesOf(v, tree.unit, cover?.rate);
    return n === undefined ? "" : `, ${samplesText(n)} at ${cover.rates.join("–")} Hz`;
}

function GraphBox({n, at, tree, cover, whole, fill}) {
    const text = (v) => amount(v, tree.unit, tree.type, digitsOf(samplesOf(v, tree.unit, cover?.rate)));
    const pick = () => patch({view: "sandwich", fn: n.name, zoom: ""});
    const x = at.x - at.width / 2, y = at.y - at.height / 2;
    return html`<a class="box" href="#" role="button"
        onClick=${(e) => (e.preventDefault(), e.currentTarget.closest("svg").dataset.moved !== "1" && pick())} transform=${`translate(${x.toFixed(1)},${y.toFixed(1)})`}>
        <title>${`${n.name}\nself ${text(n.self)}, total ${text(n.total)}${samplesAt(n.total, tree, cover)}`}</title>
        <rect width=${at.width.toFixed(1)} height=${at.height.toFixed(1)} rx="3" fill=${fill} />
        ${n.lines.map((l, i) => html`<text x=${(at.width / 2).toFixed(1)} y=${(6 + (i + 1) * n.size * 1.25).toFixed(1)} font-size=${n.size.toFixed(1)} text-anchor="middle">${l}</text>`)}
        <text class="box-num" x=${(at.width / 2).toFixed(1)} y=${(6 + (n.lines.length + 1) * n.size * 1.25).toFixed(1)} font-size=${(n.size * 0.86).toFixed(1)} text-anchor="middle">${shareText(n.self, whole, tree.unit, cover?.rate)} of ${shareText(n.total, whole, tree.unit, cover?.rate)}</text></a>`;
}

// The part of a graph that is seen. The whole fits into the picture, as long as letters can be read; otherwise its top, where it begins.
function fitted(svg, size) {
    const width = Math.max(size.width, 200), height = Math.max(size.height, 200), r = svg.getBoundingClientRect();
    const scale = Math.max(Math.min(r.width / width, r.height / height, 1.8), 0.4);
    const w = r.width / scale, h = r.height / scale;
    return {x: (width - w) / 2, y: h > height ? (height - h) / 2 : 0, w, h};
}

// of: another graph is fitted anew.
function usePanZoom(ref, size, of) {
    useEffect(() => {
        const svg = ref.current;
        let v = fitted(svg, size);
        const set = () => svg.setAttribute("viewBox", `${v.x} ${v.y} ${v.w} ${v.h}`);
        set();
        const wheel = (e) => {
            e.preventDefault();
            const b = svg.getBoundingClientRect(), k = Math.exp(Math.max(-60, Math.min(60, e.deltaY)) / 250);
            const px = (e.clientX - b.left) / b.width, py = (e.clientY - b.top) / b.height;
            v = {x: v.x + v.w * px * (1 - k), y: v.y + v.h * py * (1 - k), w: v.w * k, h: v.h * k};
            set();
        };
        let drag = null;
        const down = (e) => {
            drag = {x: e.clientX, y: e.clientY};
            svg.dataset.moved = "0";
        };
        const move = (e) => {
            if (!drag || !(e.buttons & 1)) return;
            const b = svg.getBoundingClientRect();
            if (Math.abs(e.clientX - drag.x) + Math.abs(e.clientY - drag.y) > 3) svg.dataset.moved = "1";
            v.x -= ((e.clientX - drag.x) / b.width) * v.w;
            v.y -= ((e.clientY - drag.y) / b.height) * v.h;
            drag = {x: e.clientX, y: e.clientY};
            set();
        };
        const up = () => (drag = null);
        const keys = (e) => {
            const step = {ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1]}[e.key];
            const zoom = {"+": 0.8, "=": 0.8, "-": 1.25}[e.key];
            if (step) v = {...v, x: v.x + step[0] * v.w * 0.1, y: v.y + step[1] * v.h * 0.1};
            else if (zoom) v = {x: v.x + (v.w * (1 - zoom)) / 2, y: v.y + (v.h * (1 - zoom)) / 2, w: v.w * zoom, h: v.h * zoom};
            else return;
            e.preventDefault();
            set();
        };
        svg.addEventListener("wheel", wheel, {passive: false});
        svg.addEventListener("pointerdown", down);
        svg.addEventListener("pointermove", move);
        addEventListener("pointerup", up);
        svg.addEventListener("keydown", keys);
        return () => {
            svg.removeEventListener("wheel", wheel);
            svg.removeEventListener("pointerdown", down);
            svg.removeEventListener("pointermove", move);
            removeEventListener("pointerup", up);
            svg.removeEventListener("keydown", keys);
        };
    }, [of]);
}
