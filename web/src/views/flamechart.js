// SPDX-License-Identifier: Apache-2.0
// The flame chart: what each thread did when, one lane per thread on one axis of time. Boxes are functions as in the flame
// graph, from left to right in the order of time; grey ones are waiting. Zooms from a day to milliseconds.
import {html} from "htm/preact";
import {useEffect, useMemo, useRef, useState} from "preact/hooks";
import {apiUrl, useData} from "../lib/api.js";
import {hash, oklch, themeOf} from "../lib/color.js";
import {shortName} from "../lib/names.js";
import {parseCell} from "../lib/time.js";
import {clock, digitsOf, duration, percent, samplesText, timeTicks} from "../lib/units.js";
import {href, patch} from "../lib/url.js";
import {Box, Loaded} from "../parts/states.js";

const ROW = 15, HEAD = 18, SPAN = 14, GAP = 8, AXIS = 20, MIN_NS = 200000n, DEPTH = 40;
const WAITING = 1;

// The shown time: the part of the range that the user zoomed to, else the selected cell, else the range.
function windowOf(p, range) {
    const whole = parseCell(p.cell2) ?? parseCell(p.cell) ?? [BigInt(Math.round(range.fromMs * 1e3)) * 1000n, BigInt(Math.round(range.toMs * 1e3)) * 1000n];
    return {whole, shown: parseCell(p.win) ?? whole};
}

export function FlameChart({p, q, range}) {
    const {whole, shown} = windowOf(p, range);
    const url = apiUrl("chart", {query: q.query, from: String(shown[0]), to: String(shown[1]), columns: 1400, limit: 64});
    const live = range.live && !p.win && !p.cell;
    const data = useData(live ? apiUrl("chart", {query: q.query, from: range.from, to: range.to, columns: 1400, limit: 64}) : url, {live});
    return html`<div class="flamechart"><${Loaded} of=${data} what="samples" empty=${(d) => !d.threads.length} nothing=${html`<${Nothing} d=${data.data} />`}>
        ${(d) => html`<${Lanes} d=${d} p=${p} q=${q} whole=${whole} shown=${shown} loading=${data.loading} />`}<//></div>`;
}

function Nothing({d}) {
    return html`<${Box} title="No samples with times"><p>${d?.untimed ? "These profiles do not say when each sample was taken." : "No thread was sampled in this time."} The agent, libwick and OpenTelemetry’s eBPF profiler send the times of samples.</p>
        <p><button onClick=${() => patch({win: "", cell: "", cell2: ""})}>Show the whole range</button></p><//>`;
}

// The tree in numbers: of each node its parent (smaller than itself) and its depth; the root, 0, has depth 0.
function treeOf(d) {
    const parents = Uint32Array.from(d.parents), depth = new Uint16Array(parents.length);
    for (let i = 1; i < parents.length; i++) depth[i] = depth[parents[i]] + 1;
    return {parents, depth};
}

// Where a thread's stacks part: the number of frames that all begin with, of which each keeps at least its last one; and how
// deep they get beyond that. Boxes are made when a lane comes into view (boxesOf).
function shapeOf({parents, depth}, cells) {
    let at = cells[2] ?? 0, least = Infinity, most = 0;
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

const BOX = 5; // numbers of a box: column, width in columns, depth, node, kind

// Boxes of a thread, BOX numbers each; neighbours of one path become one box. What all stacks begin with is left out.
function boxesOf({parents, depth}, lane) {
    if (lane.boxes) return lane.boxes;
    const {t: {cells}, common} = lane, boxes = [], open = new Uint32Array(DEPTH), path = new Uint32Array(DEPTH);
    let n = 0; // boxes that are open, one at each depth
    for (let i = 0; i < cells.length; i += 4) {
        const column = cells[i], width = cells[i + 1], kind = cells[i + 3];
        let node = cells[i + 2], length = Math.min(DEPTH, depth[node] - common);
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

function lanesOf(d) {
    const tree = (d.tree ??= treeOf(d));
    let top = AXIS;
    return d.threads.map((t, i) => {
        const spans = d.spans.filter((s) => s.thread === i), lane = {t, top, spans, spanRows: spans.length ? 1 : 0, ...shapeOf(tree, t.cells), boxes: null};
        top += HEAD + lane.spanRows * SPAN + lane.rows * ROW + GAP;
        return lane;
    });
}

// The innermost function that all stacks of a lane are in; "" if there is none.
function inFunction(d, {t, common}) {
    let n = t.cells[2] ?? 0;
    while (d.tree.depth[n] > common) n = d.tree.parents[n];
    return n ? d.names[d.frames[n]] : "";
}

// Functions of one package have one of HUES colours; the last style is that of waiting.
const HUES = [75, 100, 130, 160, 195, 225, 255, 285, 315, 15];
const stylesOf = (theme) => [...HUES.map((h) => oklch(theme === "dark" ? 0.42 : 0.87, 0.06, h)), theme === "dark" ? "#33302d" : "#e9e6e2"];

function hueOf(d, frame) {
    const kept = (d.hues ??= new Int8Array(d.names.length).fill(-1));
    if (kept[frame] < 0) kept[frame] = hash(shortName(d.names[frame]).split(/[.:]/)[0] || d.names[frame]) % HUES.length;
    return kept[frame];
}

const clampWindow = ([a, b], whole) => {
    let length = b - a < MIN_NS ? MIN_NS : b - a;
    if (length >= whole[1] - whole[0]) return null;
    const from = a < whole[0] ? whole[0] : a + length > whole[1] ? whole[1] - length : a;
    return [from, from + length];
};

function Lanes({d, p, q, whole, shown, loading}) {
    const box = useRef(), el = useRef(), [tip, setTip] = useState(""), [drag, setDrag] = useState(null), start = useRef(null), theme = themeOf();
    const lanes = useMemo(() => lanesOf(d), [d]);
    const height = lanes.length ? lanes[lanes.length - 1].top + HEAD + lanes[lanes.length - 1].spanRows * SPAN + lanes[lanes.length - 1].rows * ROW + GAP : AXIS;
    const from = BigInt(d.from), length = BigInt(d.step) * BigInt(d.columns);
    useEffect(() => {
        const draw = () => el.current && paint(el.current, box.current, {d, lanes, from, length, drag, theme});
        draw();
        performance.mark("wick-chart-drawn");
        const watch = new ResizeObserver(draw), at = box.current;
        watch.observe(at);
        at.addEventListener("scroll", draw, {passive: true});
        return () => {
            watch.disconnect();
            at.removeEventListener("scroll", draw);
        };
    }, [lanes, theme, String(drag)]);
    const timeAt = (e) => {
        const r = el.current.getBoundingClientRect();
        return from + BigInt(Math.round((Math.min(1, Math.max(0, (e.clientX - r.left) / r.width))) * Number(length)));
    };
    const zoom = (w) => {
        const next = w && clampWindow(w, whole);
        patch({win: next ? `${next[0]}-${next[1]}` : ""}, {replace: !w});
    };
    const scale = (num, den, at = shown[0] + (shown[1] - shown[0]) / 2n) => {
        const a = at - ((at - shown[0]) * num) / den, b = at + ((shown[1] - at) * num) / den;
        zoom([a, b]);
    };
    const move = (k) => zoom([shown[0] + ((shown[1] - shown[0]) * BigInt(k)) / 4n, shown[1] + ((shown[1] - shown[0]) * BigInt(k)) / 4n]);
    useEffect(() => {
        const wheel = (e) => {
            if (!e.ctrlKey && !e.metaKey) return;
            e.preventDefault();
            if (e.deltaY < 0) scale(1n, 2n, timeAt(e));
            else scale(2n, 1n, timeAt(e));
        };
        const at = box.current;
        at.addEventListener("wheel", wheel, {passive: false});
        return () => at.removeEventListener("wheel", wheel);
    });
    const keys = (e) => {
        const act = {"+": () => scale(1n, 2n), "=": () => scale(1n, 2n), "-": () => scale(2n, 1n), ArrowLeft: () => move(-1), ArrowRight: () => move(1), 0: () => zoom(null), Escape: () => zoom(null)}[e.key];
        if (!act || e.ctrlKey || e.metaKey || e.altKey) return;
        e.preventDefault();
        act();
    };
    const tell = (e) => setTip(textAt(e, {d, lanes, from, el: el.current, box: box.current}));
    const zoomed = shown[0] !== whole[0] || shown[1] !== whole[1];
    return html`<div class="bar"><span class="num">${duration(Number(shown[1] - shown[0]))} from ${clock(Number(shown[0] / 1000000n))}</span>
            <button aria-label="zoom in" onClick=${() => scale(1n, 4n)}>+</button><button aria-label="zoom out" onClick=${() => scale(4n, 1n)}>−</button>
            <button aria-label="earlier" onClick=${() => move(-2)} disabled=${!zoomed}>←</button><button aria-label="later" onClick=${() => move(2)} disabled=${!zoomed}>→</button>${zoomed && html`<button onClick=${() => zoom(null)}>Whole range</button>`}
            <span class="muted">${d.count > d.threads.length ? `the ${d.threads.length} busiest of ${d.count} threads` : d.count === 1 ? "1 thread" : `${d.count} threads`}${d.sliced ? ` · ${d.read} of ${d.columns} columns, 2 s of each: zoom in for all samples` : ""}${loading ? " · loading…" : ""}</span>
            <span class="grow"></span><span class="legend">coloured: running <i class="dot wait"></i>waiting (off-CPU)</span>
            ${zoomed && html`<a class="button" href=${href("explore", {query: q.query, from: p.from, to: p.to, cell: `${shown[0]}-${shown[1]}`})} title="The flame graph of exactly this time">Flame graph of this time</a>`}</div>
        <div class="lanes" ref=${box} tabindex="0" role="region" aria-label="flame chart" onKeyDown=${keys}
            onPointerDown=${(e) => (e.button || ((start.current = timeAt(e)), box.current.setPointerCapture(e.pointerId)))}
            onPointerMove=${(e) => (tell(e), start.current !== null && setDrag([start.current, timeAt(e)]))} onPointerLeave=${() => setTip("")}
            onPointerUp=${(e) => {
                const a = start.current, b = timeAt(e);
                start.current = null;
                setDrag(null);
                if (a !== null && Number(a > b ? a - b : b - a) > Number(length) / 200) zoom(a < b ? [a, b] : [b, a]);
            }}><div style=${{height: height + "px"}}><canvas ref=${el} role="img" aria-label=${`what ${d.threads.length} threads did over time`}></canvas></div></div>
        <p class="muted num lane-tip" role="status">${tip || "Drag to zoom; Ctrl and the wheel zoom too; + − ← → 0 on the keyboard."}</p>`;
}

// What is at a point, as text.
function textAt(e, {d, lanes, from, el, box}) {
    const r = el.getBoundingClientRect(), y = e.clientY - r.top + box.scrollTop, column = Math.floor(((e.clientX - r.left) / r.width) * d.columns);
    const time = from + BigInt(Math.max(0, column)) * BigInt(d.step), at = clock(Number(time / 1000000n)) + "." + String(Number((time / 1000000n) % 1000n)).padStart(3, "0");
    const lane = [...lanes].reverse().find((l) => y >= l.top);
    if (!lane) return at;
    const who = threadName(lane.t), inner = y - lane.top - HEAD;
    if (inner < 0) return `${at} · ${who}: ${share(lane.t, d)}`;
    if (inner < lane.spanRows * SPAN) {
        const s = lane.spans.find((x) => time >= BigInt(x.start) && time < BigInt(x.end));
        return s ? `${at} · ${who} · span ${s.name || s.spanId}, ${duration(Number(BigInt(s.end) - BigInt(s.start)))}` : `${at} · ${who}`;
    }
    const depth = Math.floor((inner - lane.spanRows * SPAN) / ROW);
    const v = boxesOf(d.tree, lane);
    let b = 0;
    while (b < v.length && !(v[b + 2] === depth && column >= v[b] && column < v[b] + v[b + 1])) b += BOX;
    if (b >= v.length) return `${at} · ${who}`;
    const ns = d.sliced ? null : v[b + 1] * Number(d.step);
    return `${at} · ${who} · ${d.names[d.frames[v[b + 3]]]}${ns ? `, ${duration(ns)}` : ""}${v[b + 4] === WAITING ? ", waiting" : ""} · the thread has ${samplesText(lane.t.samples)}`;
}

const threadName = (t) => `${t.name || t.service || "thread"}${t.id ? ` (${t.id})` : ""}`;

function share(t, d) {
    const ns = Number(d.step) * d.columns;
    return d.sliced ? `${t.samples} samples` : `${percent(Math.min(1, t.running / ns), undefined, digitsOf(t.samples))} running${t.waiting ? `, ${percent(Math.min(1, t.waiting / ns))} waiting` : ""}, ${t.samples} samples`;
}

function paint(canvas, box, {d, lanes, from, length, drag, theme}) {
    const ratio = devicePixelRatio || 1, w = box.clientWidth, h = box.clientHeight, top = box.scrollTop, dark = theme === "dark";
    if (canvas.width !== w * ratio || canvas.height !== h * ratio) {
        canvas.width = w * ratio;
        canvas.height = h * ratio;
        canvas.style.height = h + "px";
    }
    const x = canvas.getContext("2d"), cw = w / d.columns, text = dark ? "#f3efe9" : "#1f1b16", muted = dark ? "#a39c94" : "#6b645d", styles = stylesOf(theme);
    x.setTransform(ratio, 0, 0, ratio, 0, 0);
    x.clearRect(0, 0, w, h);
    x.translate(0, -top);
    x.font = "11px system-ui, sans-serif";
    for (const l of lanes) {
        const end = l.top + HEAD + l.spanRows * SPAN + l.rows * ROW;
        if (end < top || l.top > top + h) continue;
        x.fillStyle = muted;
        const inside = inFunction(d, l);
        x.fillText(`${threadName(l.t)} · ${share(l.t, d)}${inside ? ` · in ${shortName(inside)}` : ""}`, 4, l.top + 12, w - 8);
        for (const s of l.spans) paintSpan(x, s, {from, length, w, y: l.top + HEAD, dark});
        paintBoxes(x, boxesOf(d.tree, l), {d, y0: l.top + HEAD + l.spanRows * SPAN, cw, styles, text, muted});
        x.fillStyle = dark ? "#3a3632" : "#e2ded9";
        x.fillRect(0, end + GAP / 2, w, 1);
    }
    paintAxis(x, {from, length, w, top, dark, muted});
    if (!drag) return;
    const [a, b] = drag.map((t) => (Number(t - from) / Number(length)) * w);
    x.fillStyle = dark ? "#fb923c44" : "#b83c0833";
    x.fillRect(Math.min(a, b), top, Math.abs(b - a), h);
}

// The boxes of a lane, one colour after the other, since a change of colour costs more than a box; then their names.
function paintBoxes(x, v, {d, y0, cw, styles, text, muted}) {
    const by = styles.map(() => []);
    for (let b = 0; b < v.length; b += BOX) by[v[b + 4] === WAITING ? HUES.length : hueOf(d, d.frames[v[b + 3]])].push(b);
    by.forEach((list, i) => {
        x.fillStyle = styles[i];
        for (const b of list) {
            const width = v[b + 1] * cw;
            x.fillRect(v[b] * cw, y0 + v[b + 2] * ROW, Math.max(0.6, width - (width > 3 ? 0.7 : 0)), ROW - 1);
        }
    });
    for (let b = 0; b < v.length; b += BOX) {
        if (v[b + 1] * cw < 26) continue;
        x.fillStyle = v[b + 4] === WAITING ? muted : text;
        label(x, shortName(d.names[d.frames[v[b + 3]]]), v[b] * cw + 3, y0 + v[b + 2] * ROW + 11, v[b + 1] * cw - 6);
    }
}

// Text that fits, cut from the right.
function label(x, text, left, y, width) {
    let s = text;
    if (x.measureText(s).width > width) {
        const n = Math.floor((s.length * width) / x.measureText(s).width) - 1;
        if (n < 2) return;
        s = s.slice(0, n) + "…";
    }
    x.fillText(s, left, y);
}

function paintSpan(x, s, {from, length, w, y, dark}) {
    const a = (Number(BigInt(s.start) - from) / Number(length)) * w, b = (Number(BigInt(s.end) - from) / Number(length)) * w;
    x.fillStyle = dark ? "#2c4a6e" : "#cfe0f7";
    x.fillRect(Math.max(0, a), y, Math.max(1, Math.min(w, b) - Math.max(0, a)), SPAN - 2);
    x.fillStyle = dark ? "#dbe9fb" : "#143a66";
    if (Math.min(w, b) - Math.max(0, a) > 30) label(x, s.name || "span " + s.spanId.slice(0, 8), Math.max(0, a) + 3, y + 10, Math.min(w, b) - Math.max(0, a) - 6);
}

// Times along the upper edge, which stays in view.
function paintAxis(x, {from, length, w, top, dark, muted}) {
    x.fillStyle = dark ? "#1b1917" : "#ffffff";
    x.fillRect(0, top, w, AXIS - 2);
    x.fillStyle = muted;
    for (const {part, text} of timeTicks(from, length, w / 90)) {
        x.fillRect(part * w, top + 13, 1, 5);
        if (part * w + 3 + x.measureText(text).width <= w) x.fillText(text, part * w + 3, top + 12);
    }
}
