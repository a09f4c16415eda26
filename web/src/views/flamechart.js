// SPDX-License-Identifier: Apache-2.0
// The flame chart: what each thread did when, one lane per thread on one axis of time. Boxes are functions as in
// the flame graph, from left to right in the order of time; grey ones are waiting. Zooms from a day to
// milliseconds.
import {useEffect, useMemo, useRef, useState} from "preact/hooks";
import {apiUrl, useData} from "../lib/api.js";
import {themeOf} from "../lib/color.js";
import {BOX, WAITING, boxesOf, lanesOf, AXIS, GAP, HEAD, MIN_NS, ROW, SPAN, share, threadName} from "../lib/lanes.js";
import {parseCell} from "../lib/time.js";
import {clock, count, duration, samplesText} from "../lib/units.js";
import {href, patch} from "../lib/url.js";
import {paint} from "../parts/lanes.js";
import {Box, Loaded} from "../parts/states.js";

// The shown time: the part of the range that the user zoomed to, else the selected cell, else the range.
function windowOf(p, range) {
    const whole = parseCell(p.cell2) ??
        parseCell(p.cell) ?? [
            BigInt(Math.round(range.fromMs * 1e3)) * 1000n,
            BigInt(Math.round(range.toMs * 1e3)) * 1000n,
        ];
    return {whole, shown: parseCell(p.win) ?? whole};
}

export function FlameChart({p, q, range}) {
    const {whole, shown} = windowOf(p, range);
    const url = apiUrl("chart", {
        query: q.query,
        from: String(shown[0]),
        to: String(shown[1]),
        columns: 1400,
        limit: 64,
    });
    const live = range.live && !p.win && !p.cell;
    const data = useData(
        live ? apiUrl("chart", {query: q.query, from: range.from, to: range.to, columns: 1400, limit: 64}) : url,
        {live},
    );
    return (
        <div class="flamechart">
            <Loaded of={data} what="samples" empty={(d) => !d.threads.length} nothing={<Nothing d={data.data} />}>
                {(d) => <Lanes d={d} p={p} q={q} whole={whole} shown={shown} loading={data.loading} />}
            </Loaded>
        </div>
    );
}

function Nothing({d}) {
    return (
        <Box title="No samples with times">
            <p>
                {d?.untimed
                    ? "These profiles do not say when each sample was taken."
                    : "No thread was sampled in this time."}{" "}
                The agent, libwick and OpenTelemetry’s eBPF profiler send the times of samples; files of perf, JFR, V8,
                Chrome, the Firefox Profiler and speedscope have them.
            </p>
            <p>
                <button onClick={() => patch({win: "", cell: "", cell2: ""})}>Show the whole range</button>
            </p>
        </Box>
    );
}

/** @type {(window: bigint[], whole: bigint[]) => bigint[] | null} */
const clampWindow = ([a, b], whole) => {
    const length = b - a < MIN_NS ? MIN_NS : b - a;
    if (length >= whole[1] - whole[0]) return null;
    let from;
    if (a < whole[0]) from = whole[0];
    else if (a + length > whole[1]) from = whole[1] - length;
    else from = a;
    return [from, from + length];
};

/** @param {{d: any, p: any, q: any, whole: bigint[], shown: bigint[], loading: boolean}} props */
function Lanes({d, p, q, whole, shown, loading}) {
    const box = useRef(null),
        el = useRef(null),
        [tip, setTip] = useState(""),
        [drag, setDrag] = useState(null),
        start = useRef(null),
        theme = themeOf();
    const lanes = useMemo(() => lanesOf(d), [d]);
    const height = lanes.length
        ? lanes[lanes.length - 1].top +
          HEAD +
          lanes[lanes.length - 1].spanRows * SPAN +
          lanes[lanes.length - 1].rows * ROW +
          GAP
        : AXIS;
    const from = BigInt(d.from),
        length = BigInt(d.step) * BigInt(d.columns);
    useEffect(() => {
        const draw = () => el.current && paint(el.current, box.current, {d, lanes, from, length, drag, theme});
        draw();
        performance.mark("wick-chart-drawn");
        const watch = new ResizeObserver(draw),
            at = box.current;
        watch.observe(at);
        at.addEventListener("scroll", draw, {passive: true});
        return () => {
            watch.disconnect();
            at.removeEventListener("scroll", draw);
        };
    }, [lanes, theme, String(drag)]);
    const timeAt = (e) => {
        const r = el.current.getBoundingClientRect();
        return from + BigInt(Math.round(Math.min(1, Math.max(0, (e.clientX - r.left) / r.width)) * Number(length)));
    };
    const zoom = (w) => {
        const next = w && clampWindow(w, whole);
        patch({win: next ? `${next[0]}-${next[1]}` : ""}, {replace: !w});
    };
    /** @type {(num: bigint, den: bigint, at?: bigint) => void} */
    const scale = (num, den, at = shown[0] + (shown[1] - shown[0]) / 2n) => {
        const a = at - ((at - shown[0]) * num) / den,
            b = at + ((shown[1] - at) * num) / den;
        zoom([a, b]);
    };
    const move = (k) =>
        zoom([
            shown[0] + ((shown[1] - shown[0]) * BigInt(k)) / 4n,
            shown[1] + ((shown[1] - shown[0]) * BigInt(k)) / 4n,
        ]);
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
        const act = {
            "+": () => scale(1n, 2n),
            "=": () => scale(1n, 2n),
            "-": () => scale(2n, 1n),
            ArrowLeft: () => move(-1),
            ArrowRight: () => move(1),
            0: () => zoom(null),
            Escape: () => zoom(null),
        }[e.key];
        if (!act || e.ctrlKey || e.metaKey || e.altKey) return;
        e.preventDefault();
        act();
    };
    const tell = (e) => setTip(textAt(e, {d, lanes, from, el: el.current, box: box.current}));
    const zoomed = shown[0] !== whole[0] || shown[1] !== whole[1];
    return (
        <>
            <div class="bar">
                <span class="num">
                    {duration(Number(shown[1] - shown[0]))} from {clock(Number(shown[0] / 1000000n))}
                </span>
                <button aria-label="zoom in" onClick={() => scale(1n, 4n)}>
                    +
                </button>
                <button aria-label="zoom out" onClick={() => scale(4n, 1n)}>
                    −
                </button>
                <button aria-label="earlier" onClick={() => move(-2)} disabled={!zoomed}>
                    ←
                </button>
                <button aria-label="later" onClick={() => move(2)} disabled={!zoomed}>
                    →
                </button>
                {zoomed && <button onClick={() => zoom(null)}>Whole range</button>}
                <span class="muted">
                    {d.count > d.threads.length ? `the ${d.threads.length} busiest of ` : ""}
                    {count(d.count, "thread")}
                    {d.sliced ? ` · ${d.read} of ${d.columns} columns, 2 s of each: zoom in for all samples` : ""}
                    {loading ? " · loading…" : ""}
                </span>
                <span class="grow" />
                <span class="legend">
                    coloured: running <i class="dot wait" />
                    waiting (off-CPU)
                </span>
                {zoomed && (
                    <a
                        class="button"
                        href={href("explore", {
                            query: q.query,
                            from: p.from,
                            to: p.to,
                            cell: `${shown[0]}-${shown[1]}`,
                        })}
                        title="The flame graph of exactly this time"
                    >
                        Flame graph of this time
                    </a>
                )}
            </div>
            <div
                class="lanes"
                ref={box}
                tabindex={0}
                role="region"
                aria-label="flame chart"
                onKeyDown={keys}
                onPointerDown={(e) =>
                    e.button || ((start.current = timeAt(e)), box.current.setPointerCapture(e.pointerId))
                }
                onPointerMove={(e) => (tell(e), start.current !== null && setDrag([start.current, timeAt(e)]))}
                onPointerLeave={() => setTip("")}
                onPointerUp={(e) => {
                    const a = start.current,
                        b = timeAt(e);
                    start.current = null;
                    setDrag(null);
                    if (a !== null && Number(a > b ? a - b : b - a) > Number(length) / 200)
                        zoom(a < b ? [a, b] : [b, a]);
                }}
            >
                <div style={{height: height + "px"}}>
                    <canvas ref={el} role="img" aria-label={`what ${d.threads.length} threads did over time`} />
                </div>
            </div>
            <p class="muted num lane-tip" role="status">
                {tip || "Drag to zoom; Ctrl and the wheel zoom too; + − ← → 0 on the keyboard."}
            </p>
        </>
    );
}

// What is at a point, as text.
function textAt(e, {d, lanes, from, el, box}) {
    const r = el.getBoundingClientRect(),
        y = e.clientY - r.top + box.scrollTop,
        column = Math.floor(((e.clientX - r.left) / r.width) * d.columns);
    const time = from + BigInt(Math.max(0, column)) * BigInt(d.step),
        at = clock(Number(time / 1000000n)) + "." + String(Number((time / 1000000n) % 1000n)).padStart(3, "0");
    const lane = [...lanes].reverse().find((l) => y >= l.top);
    if (!lane) return at;
    const who = threadName(lane.t),
        inner = y - lane.top - HEAD;
    if (inner < 0) return `${at} · ${who}: ${share(lane.t, d)}`;
    if (inner < lane.spanRows * SPAN) {
        const s = lane.spans.find((x) => time >= BigInt(x.start) && time < BigInt(x.end));
        return s
            ? `${at} · ${who} · span ${s.name || s.spanId}, ${duration(Number(BigInt(s.end) - BigInt(s.start)))}`
            : `${at} · ${who}`;
    }
    const depth = Math.floor((inner - lane.spanRows * SPAN) / ROW);
    const v = boxesOf(d.tree, lane);
    let b = 0;
    while (b < v.length && !(v[b + 2] === depth && column >= v[b] && column < v[b] + v[b + 1])) b += BOX;
    if (b >= v.length) return `${at} · ${who}`;
    const ns = d.sliced ? null : v[b + 1] * Number(d.step);
    return (
        `${at} · ${who} · ${d.names[d.frames[v[b + 3]]]}${ns ? `, ${duration(ns)}` : ""}` +
        `${v[b + 4] === WAITING ? ", waiting" : ""} · the thread has ` +
        `${samplesText(lane.t.samples)}`
    );
}
