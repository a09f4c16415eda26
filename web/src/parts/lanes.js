// SPDX-License-Identifier: Apache-2.0
// How the flame chart is drawn: lanes of boxes, spans and the axis of time.
import {hash, oklch} from "../lib/color.js";
import {shortName} from "../lib/names.js";
import {timeTicks} from "../lib/units.js";
import {AXIS, BOX, boxesOf, GAP, HEAD, inFunction, ROW, SPAN, share, threadName, WAITING} from "../lib/lanes.js";

// Functions of one package have one of HUES colours; the last style is that of waiting.
const HUES = [75, 100, 130, 160, 195, 225, 255, 285, 315, 15];

const stylesOf = (theme) => [
    ...HUES.map((h) => oklch(theme === "dark" ? 0.42 : 0.87, 0.06, h)),
    theme === "dark" ? "#33302d" : "#e9e6e2",
];

function hueOf(d, frame) {
    const kept = (d.hues ??= new Int8Array(d.names.length).fill(-1));
    if (kept[frame] < 0) kept[frame] = hash(shortName(d.names[frame]).split(/[.:]/)[0] || d.names[frame]) % HUES.length;
    return kept[frame];
}

export function paint(canvas, box, {d, lanes, from, length, drag, theme}) {
    const ratio = devicePixelRatio || 1,
        w = box.clientWidth,
        h = box.clientHeight,
        top = box.scrollTop,
        dark = theme === "dark";
    if (canvas.width !== w * ratio || canvas.height !== h * ratio) {
        canvas.width = w * ratio;
        canvas.height = h * ratio;
        canvas.style.height = h + "px";
    }
    const x = canvas.getContext("2d"),
        cw = w / d.columns,
        text = dark ? "#f3efe9" : "#1f1b16",
        muted = dark ? "#a39c94" : "#6b645d",
        styles = stylesOf(theme);
    x.setTransform(ratio, 0, 0, ratio, 0, 0);
    x.clearRect(0, 0, w, h);
    x.translate(0, -top);
    x.font = "11px system-ui, sans-serif";
    for (const l of lanes) {
        const end = l.top + HEAD + l.spanRows * SPAN + l.rows * ROW;
        if (end < top || l.top > top + h) continue;
        x.fillStyle = muted;
        const inside = inFunction(d, l);
        x.fillText(
            `${threadName(l.t)} · ${share(l.t, d)}${inside ? ` · in ${shortName(inside)}` : ""}`,
            4,
            l.top + 12,
            w - 8,
        );
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
    for (let b = 0; b < v.length; b += BOX)
        by[v[b + 4] === WAITING ? HUES.length : hueOf(d, d.frames[v[b + 3]])].push(b);
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
    const a = (Number(BigInt(s.start) - from) / Number(length)) * w,
        b = (Number(BigInt(s.end) - from) / Number(length)) * w;
    x.fillStyle = dark ? "#2c4a6e" : "#cfe0f7";
    x.fillRect(Math.max(0, a), y, Math.max(1, Math.min(w, b) - Math.max(0, a)), SPAN - 2);
    x.fillStyle = dark ? "#dbe9fb" : "#143a66";
    if (Math.min(w, b) - Math.max(0, a) > 30)
        label(
            x,
            s.name || "span " + s.spanId.slice(0, 8),
            Math.max(0, a) + 3,
            y + 10,
            Math.min(w, b) - Math.max(0, a) - 6,
        );
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
