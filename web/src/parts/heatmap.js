// SPDX-License-Identifier: Apache-2.0
// A heat map: time across, latency up on a logarithmic scale; the darker, the more spans. Dragging selects a part.
import {useEffect, useRef, useState} from "preact/hooks";
import {oklch, themeOf} from "../lib/color.js";
import {clock, count, duration, timeTicks} from "../lib/units.js";

const LEFT = 64,
    BOTTOM = 18,
    HEIGHT = 220,
    TICKS = 10,
    EDGE = 30;

// data: {from, step, bounds, counts}; selected: {slots: [a, b], rows: [a, b]} (both ends included) or null; onSelect.
export function HeatMap({data, selected, onSelect, label}) {
    const el = useRef(null),
        tip = useRef(null),
        [drag, setDrag] = useState(null),
        theme = themeOf();
    const slots = data.counts.length,
        rows = data.bounds.length - 1;
    const shown = drag ?? selected;
    useEffect(() => {
        const canvas = el.current,
            draw = () => canvas.isConnected && paint(canvas, data, shown, theme);
        draw();
        const watch = new ResizeObserver(draw);
        watch.observe(canvas);
        return () => watch.disconnect();
    }, [data, theme, JSON.stringify(shown)]);
    const cell = (e) => {
        const r = el.current.getBoundingClientRect();
        const x = (e.clientX - r.left - LEFT) / (r.width - LEFT),
            y = 1 - (e.clientY - r.top) / (HEIGHT - BOTTOM);
        const clamp = (v, n) => Math.min(n - 1, Math.max(0, Math.floor(v * n)));
        return {slot: clamp(x, slots), row: clamp(y, rows)};
    };
    const span = (a, b) => ({
        slots: [Math.min(a.slot, b.slot), Math.max(a.slot, b.slot)],
        rows: [Math.min(a.row, b.row), Math.max(a.row, b.row)],
    });
    const start = useRef(null);
    const tell = (e) => {
        const c = cell(e),
            t = Number(data.from) / 1e6 + (c.slot * Number(data.step)) / 1e6;
        tip.current.textContent =
            `${clock(t)} · ${duration(data.bounds[c.row])} to ${duration(data.bounds[c.row + 1])}: ` +
            `${count(data.counts[c.slot][c.row], "span")}`;
    };
    return (
        <div class="heatmap">
            <canvas
                ref={el}
                role="img"
                aria-label={label}
                style={{height: HEIGHT + "px"}}
                onPointerDown={(e) => ((start.current = cell(e)), e.currentTarget.setPointerCapture(e.pointerId))}
                onPointerMove={(e) => (tell(e), start.current && setDrag(span(start.current, cell(e))))}
                onPointerUp={(e) => {
                    if (!start.current) return;
                    const s = span(start.current, cell(e));
                    start.current = null;
                    setDrag(null);
                    onSelect(s);
                }}
            />
            <p class="muted num heat-tip" ref={tip}>
                Drag over the slow ones to see what they did differently.
            </p>
        </div>
    );
}

// Round latencies between two, on a logarithmic scale: [[part of the height, ns]], at most some eight.
function latencyTicks(least, most) {
    const all = [],
        steps = most / least > 3000 ? [1] : [1, 2, 5];
    for (let power = 10 ** Math.floor(Math.log10(least)); power <= most; power *= 10)
        for (const k of steps)
            if (k * power >= least && k * power <= most)
                all.push([Math.log((k * power) / least) / Math.log(most / least), k * power]);
    return all;
}

function paint(canvas, data, shown, theme) {
    const ratio = devicePixelRatio || 1,
        w = canvas.clientWidth,
        slots = data.counts.length,
        rows = data.bounds.length - 1;
    const text = theme === "dark" ? "#a39c94" : "#6b645d",
        most = Math.max(1, ...data.counts.flat());
    canvas.width = w * ratio;
    canvas.height = HEIGHT * ratio;
    const x = canvas.getContext("2d"),
        cw = (w - LEFT) / slots,
        ch = (HEIGHT - BOTTOM) / rows;
    x.scale(ratio, ratio);
    for (let s = 0; s < slots; s++)
        for (let r = 0; r < rows; r++) {
            const n = data.counts[s][r];
            if (!n) continue;
            const k = Math.log1p(n) / Math.log1p(most);
            x.fillStyle =
                theme === "dark"
                    ? oklch(0.3 + 0.5 * k, 0.03 + 0.13 * k, 55)
                    : oklch(0.95 - 0.45 * k, 0.03 + 0.13 * k, 50);
            x.fillRect(LEFT + s * cw, (rows - 1 - r) * ch, Math.max(1, cw - 0.5), Math.max(1, ch - 0.5));
        }
    x.fillStyle = text;
    x.font = "11px system-ui, sans-serif";
    x.textAlign = "right";
    for (const [part, v] of latencyTicks(Math.max(1, data.bounds[0]), data.bounds[rows]))
        x.fillText(duration(v, 1), LEFT - 6, Math.max(9, (1 - part) * (HEIGHT - BOTTOM) + 4));
    x.textAlign = "center";
    for (const {part, text: time} of timeTicks(BigInt(data.from), BigInt(slots) * BigInt(data.step), TICKS))
        x.fillText(time, Math.min(w - EDGE, LEFT + part * (w - LEFT)), HEIGHT - 4);
    if (!shown) return;
    x.strokeStyle = theme === "dark" ? "#fb923c" : "#b83c08";
    x.lineWidth = 2;
    x.strokeRect(
        LEFT + shown.slots[0] * cw,
        (rows - 1 - shown.rows[1]) * ch,
        (shown.slots[1] - shown.slots[0] + 1) * cw,
        (shown.rows[1] - shown.rows[0] + 1) * ch,
    );
}
