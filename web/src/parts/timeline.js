// SPDX-License-Identifier: Apache-2.0
// The timeline of a comparison: the values over time, and two windows on it that are dragged and resized, by
// pointer and by keys. They snap to deploys.
import {useEffect, useRef, useState} from "preact/hooks";
import {apiUrl, useData} from "../lib/api.js";
import {seriesColor, themeOf} from "../lib/color.js";
import {matchedValue, withoutMatcher} from "../lib/selector.js";
import {sameDay, seconds} from "../lib/time.js";
import {axisTitle, clock, duration} from "../lib/units.js";
import {dragged, justBefore, remarks, SHORTEST, stillFits, viewOf} from "../lib/windows.js";
import {AXIS, Chart, RIGHT} from "./chart.js";
import {useDeploys} from "./deploys.js";

const VERSION = "service.version",
    REACH = 7,
    WIDER = 6;
const names = {base: "before", now: "now"};

const pair = (r) => [r.fromMs, r.toMs];
const text = ([a, b]) =>
    `${clock(a)} to ` + `${clock(b, {date: sameDay(a, b) ? "never" : "auto"})}` + `, ${duration((b - a) * 1e6)}`;

// s: {query, baseQuery, now, base} of Compare; onMove({base, now}): what has moved, in milliseconds.
export function Timeline({s, onMove}) {
    const base = pair(s.base),
        now = pair(s.now),
        apart = s.query === s.baseQuery;
    const kept = useRef(null),
        [wider, setWider] = useState(1),
        [held, hold] = useState(null);
    if (!stillFits(kept.current, base, now)) kept.current = viewOf(base, now, Date.now());
    const view = wider > 1 ? viewOf(base, now, Date.now(), WIDER) : kept.current;
    const range = {from: seconds(view[0]), to: seconds(view[1]), fromMs: view[0], toMs: view[1], live: false};
    const of = (query) => useData(query ? apiUrl("series", {query, from: range.from, to: range.to}) : null);
    const after = of(s.query),
        before = of(apart ? null : s.baseQuery);
    const marks = useDeploys(withoutMatcher(s.query, VERSION), range);
    const versions = matchedValue(s.query, VERSION) || matchedValue(s.baseQuery, VERSION),
        points = marks.map((m) => m.at);
    const shown = {base, now, ...held},
        theme = themeOf();
    const series =
        after.data && (apart || before.data)
            ? {...after.data, series: [...after.data.series.slice(0, 1), ...(before.data?.series.slice(0, 1) ?? [])]}
            : null;
    const say = versions || !apart ? [] : remarks(shown.base, shown.now, marks, clock);
    const brush = (a, b) => b - a >= SHORTEST && onMove({now: [a, b], ...(apart ? {base: justBefore([a, b])} : {})});
    return (
        <section class="series timeline" aria-label="times that are compared">
            <div class="series-head muted">
                <span class="timeline-says">
                    <span>{series ? axisTitle(series.unit, series.type) : ""}</span>
                    {say.length ? (
                        <span class="more" role="status" key={say[0].text}>
                            {say[0].text}{" "}
                            <button class="tab" onClick={() => onMove(say[0])}>
                                {say[0].label}
                            </button>
                        </span>
                    ) : (
                        <span key="hint">drag the windows or their edges; they snap to deploys</span>
                    )}
                </span>
                <span class="tabs end">
                    {!apart &&
                        [
                            ["now", 0],
                            ["before", 1],
                        ].map(([n, i]) => (
                            <span class="timeline-key">
                                <i class="dot" style={{background: seriesColor(i, theme)}} />
                                {n}
                            </span>
                        ))}
                    <button
                        class="tab"
                        aria-pressed={!!(wider > 1)}
                        title="Show more time around the two windows"
                        onClick={() => setWider(wider > 1 ? 1 : WIDER)}
                    >
                        wider
                    </button>
                </span>
            </div>
            {series?.series.length ? (
                <Chart
                    data={series}
                    names={apart ? ["all"] : ["now", "before"]}
                    quiet
                    height={104}
                    marks={marks}
                    range={view}
                    onBrush={brush}
                    label={`${axisTitle(series.unit, series.type)} around the two times`}
                />
            ) : (
                <p class="series-none muted">{after.error?.message ?? (after.data ? "No data in this time." : "")}</p>
            )}
            <div class="windows" style={{left: AXIS + 6 + "px", right: RIGHT + 6 + "px"}}>
                {["base", "now"].map((kind) => (
                    <Window
                        key={kind}
                        kind={kind}
                        at={shown[kind]}
                        view={view}
                        points={points}
                        other={shown[kind === "base" ? "now" : "base"]}
                        apart={apart}
                        onHold={(w) => hold(w && {[kind]: w})}
                        onMove={(w) => onMove({[kind]: w})}
                    />
                ))}
            </div>
        </section>
    );
}

function Window({kind, at, view, points, other, apart, onHold, onMove}) {
    const el = useRef(null),
        drag = useRef(null),
        share = (t) => ((t - view[0]) / (view[1] - view[0])) * 100;
    const perPixel = () => (view[1] - view[0]) / (el.current.parentNode.clientWidth || 1);
    const limits = (reach) => ({
        other,
        view: [view[0], Math.min(view[1], Math.max(Date.now(), at[1]))],
        points,
        reach,
        apart,
    });
    const by = (e) =>
        dragged(
            drag.current.from,
            drag.current.part,
            (e.clientX - drag.current.x) * perPixel(),
            limits(REACH * perPixel()),
        );
    const end = () => {
        drag.current = null;
        onHold(null);
    };
    useEffect(() => {
        const stop = (e) => e.key === "Escape" && drag.current && end();
        addEventListener("keydown", stop);
        return () => removeEventListener("keydown", stop);
    }, []);
    const keys = (e) => {
        const way = {ArrowLeft: -1, ArrowRight: 1}[e.key];
        if (!way || e.ctrlKey || e.metaKey) return;
        e.preventDefault();
        e.stopPropagation();
        const step = Math.max(1000, (view[1] - view[0]) / 100);
        const end = e.shiftKey ? "to" : "move";
        onMove(dragged(at, e.altKey ? "from" : end, way * step, limits(0)));
    };
    const left = Math.max(0, share(at[0])),
        right = Math.min(100, share(at[1]));
    return (
        <div
            class={"window " + names[kind]}
            ref={el}
            style={{left: left + "%", width: Math.max(0.4, right - left) + "%"}}
            tabindex={0}
            role="slider"
            aria-label={`time ${names[kind]}: arrow keys move it, with Shift its end, with Alt its start`}
            aria-valuemin={Math.round(view[0] / 1000)}
            aria-valuemax={Math.round(view[1] / 1000)}
            aria-valuenow={Math.round(at[0] / 1000)}
            aria-valuetext={text(at)}
            title={`${names[kind]}: ${text(at)}`}
            onKeyDown={keys}
            onPointerDown={(e) => {
                if (e.button) return;
                drag.current = {
                    part: /** @type {HTMLElement} */ (e.target).dataset.end ?? "move",
                    x: e.clientX,
                    from: at,
                };
                e.currentTarget.setPointerCapture(e.pointerId);
            }}
            onPointerMove={(e) => drag.current && onHold(by(e))}
            onPointerCancel={end}
            onPointerUp={(e) => {
                if (!drag.current) return;
                const w = by(e),
                    still =
                        w[0] === at[0] &&
                        w[1] === at[1] &&
                        w[0] === drag.current.from[0] &&
                        w[1] === drag.current.from[1];
                end();
                if (!still) onMove(w);
            }}
        >
            <span class="window-name">{names[kind]}</span>
            <i data-end="from" />
            <i data-end="to" />
        </div>
    );
}
