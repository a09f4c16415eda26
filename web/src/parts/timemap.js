// SPDX-License-Identifier: Apache-2.0
// The heat map of sample times: time across in columns, the time within a column down, so that what happens within
// a second can be seen over minutes. Dragging selects a time; a second drag selects another one to compare with
// the first.
import {useEffect, useRef, useState} from "preact/hooks";
import {oklch, themeOf} from "../lib/color.js";
import {amount, clock, digitsOf, duration, samplesText, timeTicks} from "../lib/units.js";

const LEFT = 46,
    BOTTOM = 15,
    HEIGHT = 108;

const ms = (ns) => Number(ns / 1000n) / 1e3;

// "14:01:07.120 – 14:01:07.180"
/** @param {bigint[]} cell */
export function cellText([a, b]) {
    const one = (ns) => clock(ms(ns)) + "." + String(Math.floor(ms(ns)) % 1000).padStart(3, "0");
    return `${one(a)} – ${one(b)} (${duration(Number(b - a))})`;
}

// data: the answer to heatmap; cells: the selected times, at most two; onSelect([from, to]).
export function TimeMap({data, cells, type, unit, onSelect}) {
    const el = useRef(null),
        [drag, setDrag] = useState(null),
        [tip, setTip] = useState(""),
        start = useRef(null),
        theme = themeOf();
    const from = BigInt(data.from),
        step = BigInt(data.step),
        row = Number(data.step) / data.rows;
    useEffect(() => {
        const canvas = el.current,
            draw = () =>
                canvas.isConnected &&
                paint(canvas, data, drag ? [...(cells.length === 1 ? cells : []), drag] : cells, theme);
        draw();
        const watch = new ResizeObserver(draw);
        watch.observe(canvas);
        return () => watch.disconnect();
    }, [data, theme, String(cells), String(drag)]);
    const at = (e) => {
        const r = el.current.getBoundingClientRect(),
            clamp = (v, n) => Math.min(n - 1, Math.max(0, Math.floor(v * n)));
        return (
            clamp((e.clientX - r.left - LEFT) / (r.width - LEFT), data.columns) * data.rows +
            clamp((e.clientY - r.top) / (HEIGHT - BOTTOM), data.rows)
        );
    };
    const edge = (cell) =>
        from + BigInt(Math.floor(cell / data.rows)) * step + (BigInt(cell % data.rows) * step) / BigInt(data.rows);
    const times = (a, b) => [edge(Math.min(a, b)), edge(Math.max(a, b) + 1)];
    const tell = (e) => {
        const cell = at(e),
            v = data.values[cell] * data.scale,
            n = (v * data.samples) / data.timed;
        setTip(
            `${cellText(times(cell, cell))}: ${amount(v, unit, type, digitsOf(n))}` +
                `${v ? `, about ${samplesText(Math.max(1, n))}` : ""}`,
        );
    };
    let hint;
    if (cells.length === 2) hint = "The flame graph shows the second time against the first. Drag to begin again.";
    else if (cells.length === 1) hint = "Drag over another time to compare it with the first.";
    else hint = `Drag over cells to see what ran then; a row is ${duration(row)}.`;
    return (
        <div class="timemap">
            <canvas
                ref={el}
                role="img"
                aria-label={
                    `when samples were taken: ${data.columns} columns of ${duration(Number(data.step))}, ` +
                    `${data.samples} samples`
                }
                style={{height: HEIGHT + "px"}}
                onPointerDown={(e) =>
                    e.button ||
                    ((start.current = at(e)),
                    setDrag(times(start.current, start.current)),
                    e.currentTarget.setPointerCapture(e.pointerId))
                }
                onPointerMove={(e) => (tell(e), start.current !== null && setDrag(times(start.current, at(e))))}
                onPointerLeave={() => setTip("")}
                onPointerCancel={() => ((start.current = null), setDrag(null))}
                onPointerUp={(e) => {
                    if (start.current === null) return;
                    const s = times(start.current, at(e));
                    start.current = null;
                    setDrag(null);
                    onSelect(s);
                }}
            />
            <p class="muted num" role="status">
                {tip || hint}
            </p>
        </div>
    );
}

function shade(k, theme) {
    return theme === "dark" ? oklch(0.3 + 0.5 * k, 0.03 + 0.13 * k, 55) : oklch(0.95 - 0.45 * k, 0.03 + 0.13 * k, 50);
}

const outline = (i, theme) => {
    if (i) return theme === "dark" ? "#fb923c" : "#b83c08";
    if (theme === "dark") return "#7cb3ff";
    return "#1f5fbf";
};

function paint(canvas, data, cells, theme) {
    const ratio = devicePixelRatio || 1,
        w = canvas.clientWidth,
        {columns, rows, values} = data;
    canvas.width = w * ratio;
    canvas.height = HEIGHT * ratio;
    const x = canvas.getContext("2d"),
        cw = (w - LEFT) / columns,
        ch = (HEIGHT - BOTTOM) / rows,
        most = Math.max(1, Math.round(data.max / data.scale));
    x.scale(ratio, ratio);
    for (let i = 0; i < values.length; i++) {
        if (!values[i]) continue;
        const left = LEFT + Math.floor(i / rows) * cw,
            top = (i % rows) * ch;
        x.fillStyle = shade(Math.sqrt(values[i] / most), theme);
        x.fillRect(left, top, Math.max(1, cw - (cw > 3 ? 0.5 : 0)), Math.max(1, ch - (ch > 3 ? 0.5 : 0)));
    }
    x.fillStyle = theme === "dark" ? "#a39c94" : "#6b645d";
    x.font = "10.5px system-ui, sans-serif";
    x.textAlign = "right";
    for (const k of [0, 0.5, 1])
        x.fillText(duration(Number(data.step) * k), LEFT - 5, Math.max(9, k * (HEIGHT - BOTTOM)));
    x.textAlign = "center";
    for (const {part, text} of timeTicks(BigInt(data.from), BigInt(data.step) * BigInt(columns), (w - LEFT) / 90)) {
        const at = LEFT + part * (w - LEFT),
            half = x.measureText(text).width / 2;
        if (at - half >= LEFT - 20 && at + half <= w) x.fillText(text, at, HEIGHT - 3);
    }
    for (const [i, cell] of cells.entries()) frame(x, data, cell, {cw, ch, rows, columns}, outline(i, theme));
}

// The outline of a time: in its first and last column a part of the rows, between them all.
function frame(x, data, [a, b], {cw, ch, rows, columns}, color) {
    const per = Number(data.step) / rows,
        first = Math.max(0, Math.round(Number(a - BigInt(data.from)) / per)),
        last = Math.min(columns * rows, Math.round(Number(b - BigInt(data.from)) / per));
    if (last <= first) return;
    x.strokeStyle = color;
    x.fillStyle = color + "33";
    x.lineWidth = 1.5;
    for (let c = Math.floor(first / rows); c * rows < last; c++) {
        const top = Math.max(first - c * rows, 0),
            end = Math.min(last - c * rows, rows);
        const box = [LEFT + c * cw, top * ch, Math.max(cw, 2), Math.max((end - top) * ch, 2)];
        x.fillRect(...box);
        if (last - first <= rows * 2 || c === Math.floor(first / rows) || (c + 1) * rows >= last) x.strokeRect(...box);
    }
}
