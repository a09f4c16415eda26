// SPDX-License-Identifier: Apache-2.0
// Values over time, with a brush: dragging selects a range. A thin wrapper around uPlot.
import {useEffect, useRef} from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import {coverageOf} from "../lib/api.js";
import {seriesColor, themeOf} from "../lib/color.js";
import {inZone} from "../lib/settings.js";
import {axis, clock, perStep, samplesOf, samplesText, tick} from "../lib/units.js";

// Where the plot lies between the edges of the chart.
export const AXIS = 70,
    RIGHT = 26;

const ink = {light: {grid: "#ebe8e4", text: "#6b645d"}, dark: {grid: "#2a2826", text: "#a39c94"}};

// Points of an answer of `series` in the form for uPlot: [times, values…]. Steps that may still get profiles are
// left out while the range ends at now: a step is complete once it has ended and the profiles that begin in it
// have arrived.
const ARRIVAL = 5e9;
export function complete(data, live) {
    const step = Number(data.step),
        from = Number(data.from),
        n = data.series[0]?.values.length ?? 0;
    if (!live) return n;
    return Math.max(
        0,
        Math.min(n, Math.floor((Date.now() * 1e6 - Number(data.interval ?? 0) - ARRIVAL - from) / step)),
    );
}

// Steps without a profile of a series that sends less often than the chart has steps are not gaps: they become
// undefined, which the line crosses. Null is a gap: nothing came for longer than usual.
export function bridged(values) {
    const at = values.flatMap((v, i) => (v == null ? [] : [i])),
        apart = at
            .slice(1)
            .map((k, i) => k - at[i])
            .sort((a, b) => a - b);
    const usual = apart[apart.length >> 1] ?? 1;
    if (usual < 2 || at.length < 4 || usual > values.length / 6) return values; // not known, or not regular
    const out = values.slice();
    for (let k = 1; k < at.length; k++) if (at[k] - at[k - 1] <= usual * 1.5) out.fill(undefined, at[k - 1] + 1, at[k]);
    return out;
}

export function columns(data, live = false) {
    const step = Number(data.step),
        from = Number(data.from) / 1e9;
    const n = complete(data, live);
    const times = Array.from({length: n}, (_, i) => from + (i * step) / 1e9);
    return [
        times,
        ...data.series.map((s) =>
            bridged(s.values.slice(0, n).map((v, i) => perStep(v, data.unit, data.type, s.coverage[i]))),
        ),
    ];
}

// A point between two gaps has no line: it is drawn as a dot.
function lonely(u, i) {
    const v = u.data[i],
        alone = (k) => v[k] != null && (k === 0 || v[k - 1] === null) && (k === v.length - 1 || v[k + 1] === null);
    const found = v.flatMap((y, k) => (alone(k) ? [k] : []));
    return found.length ? found : false;
}

// The date at midnight, else the time. incr: seconds between ticks.
function tickText(ms, incr) {
    const [date, time] = clock(ms, {date: "always"}).split(" ");
    if (incr >= 86400 || time === "00:00:00") return date.slice(5);
    if (incr < 1) return `${time}.${String(Math.round(ms) % 1000).padStart(3, "0")}`;
    if (incr < 60) return time;
    return time.slice(0, 5);
}

function options({data, names, theme, width, height, onBrush, onPick, marks, quiet, most}) {
    const colorOf = (i) => (quiet && names.length === 1 ? ink[theme].text : seriesColor(i, theme));
    const {grid, text} = ink[theme];
    const line = {
        stroke: text,
        grid: {stroke: grid, width: 1},
        ticks: {stroke: grid, width: 1, size: 4},
        font: "11px system-ui, sans-serif",
    };
    return {
        width,
        height,
        padding: [6, RIGHT, 0, 0],
        legend: {show: false},
        cursor: {drag: {x: true, y: false, setScale: false}, points: {size: 6}, y: false},
        tzDate: (ts) => inZone(ts * 1000),
        scales: {x: {time: true}, y: {range: () => [0, most > 0 ? most * 1.08 : 1]}},
        axes: [
            {
                ...line,
                size: 22,
                space: (u, i, from, to) => (to - from < 1800 ? 84 : 50),
                values: (u, ticks, i, space, incr) => ticks.map((t) => tickText(t * 1000, incr)),
            },
            {...line, size: AXIS, gap: 4, values: (u, ticks) => ticks.map((t) => tick(t, data.unit, data.type))},
        ],
        series: [
            {},
            ...names.map((name, i) => ({
                label: name,
                stroke: colorOf(i),
                width: 1.5,
                points: {show: lonely},
                fill: names.length === 1 ? colorOf(0) + "22" : undefined,
            })),
        ],
        hooks: {
            setSelect: [
                (u) => {
                    if (u.select.width < 4) return;
                    const a = u.posToVal(u.select.left, "x"),
                        b = u.posToVal(u.select.left + u.select.width, "x");
                    u.setSelect({left: 0, top: 0, width: 0, height: 0}, false);
                    onBrush?.(a * 1000, b * 1000);
                },
            ],
            ready: [
                (u) =>
                    u.over.addEventListener("click", (e) => {
                        if (onPick && Math.abs((u.downX ?? e.clientX) - e.clientX) < 4)
                            onPick(u.posToVal(e.offsetX, "x") * 1000);
                    }),
                (u) => u.over.addEventListener("pointerdown", (e) => (u.downX = e.clientX)),
            ],
            draw: [(u) => (marks ?? []).map((m) => drawMark(u, m, text))],
        },
    };
}

// A vertical line with a label, for a deploy or a note. Notes are lower, so that both can be read.
function drawMark(u, {at, label, note}, color) {
    const x = Math.round(u.valToPos(at / 1000, "x", true));
    const {ctx, bbox} = u;
    if (x < bbox.left || x > bbox.left + bbox.width) return;
    ctx.save();
    ctx.strokeStyle = ctx.fillStyle = color;
    ctx.setLineDash([3, 3]);
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
    ctx.font = `${10 * devicePixelRatio}px system-ui, sans-serif`;
    const left = x > bbox.left + bbox.width * 0.85;
    ctx.textAlign = left ? "right" : "left";
    ctx.fillText(
        note ? `✎ ${label.slice(0, 60)}` : label,
        left ? x - 4 : x + 4,
        bbox.top + (note ? 24 : 10) * devicePixelRatio,
    );
    ctx.restore();
}

// data: an answer of `series`; names: of its series; onBrush(fromMs, toMs), onPick(ms); marks: [{at, label,
// note}]; quiet: a single line is grey.
/**
 * @param {{data: any, names: string[], label: string, quiet?: boolean, height?: number, marks?: any[],
 *     onBrush?: (a: number, b: number) => void, onPick?: (ms: number) => void, range?: number[], live?: boolean}} props
 */
export function Chart({data, names, quiet = false, height = 120, onBrush, onPick, marks, label, range, live = false}) {
    const el = useRef(null),
        plot = useRef(null),
        tip = useRef(null);
    const theme = themeOf();
    useEffect(() => {
        const host = el.current;
        const table = columns(data, live);
        const o = options({
            data,
            names,
            theme,
            width: host.clientWidth || 600,
            height,
            onBrush,
            onPick,
            marks,
            quiet,
            most: table
                .slice(1)
                .flat()
                .reduce((a, b) => (b > a ? b : a), 0),
        });
        if (range) o.scales.x.range = () => [range[0] / 1000, range[1] / 1000];
        o.hooks.setCursor = [(u) => showTip(u, tip.current, data, names, theme)];
        const u = new uPlot(/** @type {any} */ (o), table, host);
        plot.current = u;
        const watch = new ResizeObserver(() => u.setSize({width: host.clientWidth, height}));
        watch.observe(host);
        const leave = () => (tip.current.hidden = true);
        u.over.addEventListener("mouseleave", leave);
        return () => {
            watch.disconnect();
            u.destroy();
        };
    }, [data, names.join("\0"), theme, height, JSON.stringify(marks ?? null), range?.join()]);
    return (
        <div class="chart" role="img" aria-label={label} style={{height: height + "px"}}>
            <div ref={el} class="chart-host" />
            <div class="tip chart-tip" ref={tip} hidden />
        </div>
    );
}

// " · 78 samples"; how many of each rate there are in a step is not known.
function samplesAt(data, i, idx) {
    const {rate, rates} = coverageOf(data),
        n = samplesOf(data.series[i].values[idx], data.unit, rate);
    return n === undefined ? "" : ` · ${rates.length > 1 ? "about " : ""}${samplesText(n)}`;
}

function showTip(u, tip, data, names, theme) {
    const {idx, left} = u.cursor;
    if (idx === null || idx === undefined || left < 0) {
        tip.hidden = true;
        return;
    }
    const rows = names
        .map((name, i) => [name, u.data[i + 1][idx], i])
        .filter((r) => r[1] != null)
        .sort((a, b) => b[1] - a[1])
        .slice(0, 8);
    tip.textContent = "";
    const head = document.createElement("b");
    head.textContent = clock(u.data[0][idx] * 1000);
    tip.append(head);
    for (const [name, v, i] of rows) {
        const row = document.createElement("div"),
            dot = document.createElement("i"),
            text = document.createElement("span"),
            num = document.createElement("span");
        dot.className = "dot";
        dot.style.background = seriesColor(i, theme);
        text.textContent = name;
        num.className = "num";
        num.textContent =
            axis(v, data.unit, data.type) +
            (data.unit === "nanoseconds" && data.type === "cpu" ? " cores" : "") +
            samplesAt(data, i, idx);
        row.append(dot, text, num);
        tip.append(row);
    }
    tip.hidden = false;
    const x = left + u.bbox.left / devicePixelRatio;
    const wide = tip.offsetWidth;
    tip.style.left = (x + 14 + wide > u.width ? x - wide - 14 : x + 14) + "px";
}

// A small line without axes. values: numbers, or null where there is a gap.
// top: the value at the upper edge; the largest one unless given.
export function Spark({values, width = 120, height = 26, label, color = 0, top: scale = 0}) {
    const el = useRef(null);
    const theme = themeOf();
    useEffect(() => {
        const c = el.current,
            r = devicePixelRatio || 1;
        c.width = width * r;
        c.height = height * r;
        const x = c.getContext("2d");
        x.scale(r, r);
        x.clearRect(0, 0, width, height);
        const n = values.length,
            top = scale || Math.max(...values.map((v) => v ?? 0), 1e-12);
        if (n < 2) return;
        x.strokeStyle = seriesColor(color, theme);
        x.fillStyle = seriesColor(color, theme) + "1c";
        x.lineWidth = 1.4;
        x.lineJoin = x.lineCap = "round";
        const px = (i) => (i / (n - 1)) * width,
            py = (v) => height - 2 - (Math.max(0, v) / top) * (height - 5);
        for (let i = 0; i < n; i++) {
            if (values[i] == null) continue;
            const first = i;
            let last = i;
            x.beginPath();
            x.moveTo(px(i), py(values[i]));
            for (; i + 1 < n && values[i + 1] !== null; i++)
                if (values[i + 1] !== undefined) x.lineTo(px((last = i + 1)), py(values[last]));
            if (last === first) x.lineTo(px(first) + 0.01, py(values[first]));
            x.stroke();
            x.lineTo(px(last), height);
            x.lineTo(px(first), height);
            x.fill();
        }
    }, [values, theme, width, height, scale]);
    return (
        <canvas
            class="spark"
            ref={el}
            style={{width: width + "px", height: height + "px"}}
            role="img"
            aria-label={label}
        />
    );
}
