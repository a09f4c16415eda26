// SPDX-License-Identifier: Apache-2.0
// The upper part of Explore: the values over time, or the heat map of sample times, and what is grouped by.
import {useMemo} from "preact/hooks";
import {apiUrl, useData} from "../lib/api.js";
import {seriesColor, themeOf} from "../lib/color.js";
import {lastOf} from "../lib/gauge.js";
import {parseSelector, matchedValue, withMatcher} from "../lib/selector.js";
import {parseCell, seconds} from "../lib/time.js";
import {axisTitle, gauge, percent, sum} from "../lib/units.js";
import {patch} from "../lib/url.js";
import {Chart} from "./chart.js";
import {useDeploys} from "./deploys.js";
import {Also, Hidden} from "./hidden.js";
import {Drop} from "./menu.js";
import {cellText, TimeMap} from "./timemap.js";

const groupName = (labels) => Object.values(labels).join(" · ") || "(none)";

// Of values in use the end of the range is shown, unless the mean is asked for: {from, to, mean, max}. Undefined
// until it is known; null where a value is a sum.
export function useLast(p, q, range) {
    const wanted = !p.timeless && !p.cell && !p.profile && !p.trace && gauge(parseSelector(q.query).type || "cpu");
    const series = useSeries(p, q, range, wanted);
    return useMemo(() => {
        if (!wanted) return null;
        if (series.data) return lastOf(series.data, range.live);
        if (series.error) return null;
        return undefined;
    }, [wanted, series.data, series.error]);
}

// All services are grouped by service unless something else is chosen.
const NONE = "none";

export const groupOf = (p, q) =>
    p.group === NONE
        ? ""
        : p.group ||
          (p.timeless || matchedValue(q.query, "service.name") || p.profile || p.trace || p.span ? "" : "service.name");

export function GroupBy({p, q, range}) {
    const labels = useData(apiUrl("labels", {from: range.from, to: range.to}));
    const group = groupOf(p, q);
    const items = () => [
        {
            label: "not grouped",
            checked: !group,
            run: () => patch({group: groupOf({...p, group: ""}, q) ? NONE : "", zoom: ""}),
        },
        ...(labels.data ?? []).map((l) => ({label: l, checked: group === l, run: () => patch({group: l, zoom: ""})})),
    ];
    return <Drop label={group ? `by ${group}` : "group by"} cls={group ? "" : "quiet"} items={items} />;
}

const noTimes = (d) =>
    d.untimed ? "These profiles do not say when each sample was taken." : "No data in this time range.";

// The heat map of sample times instead of the chart of values.
function Times({p, q, range, pick}) {
    const heat = useData(apiUrl("heatmap", {query: q.query, from: range.from, to: range.to}), {
        live: range.live && !p.cell,
    });
    const cells = [parseCell(p.cell), parseCell(p.cell2)].filter(Boolean);
    const select = ([a, b]) =>
        patch(
            cells.length === 1
                ? {cell2: `${a}-${b}`, zoom: "", x: ""}
                : {cell: `${a}-${b}`, cell2: "", zoom: "", x: ""},
        );
    const d = heat.data,
        none = heat.error?.message ?? (d && !d.samples && noTimes(d));
    return (
        <div class={"series heated" + (heat.loading ? " waiting" : "")}>
            <div class="series-head muted">
                {pick}
                <span>{d ? untimed(d) : ""}</span>
            </div>
            {none && <p class="series-none muted">{none}</p>}
            {!none && d && <TimeMap data={d} cells={cells} type={d.type} unit={d.unit} onSelect={select} />}
        </div>
    );
}

const untimed = (d) =>
    d.untimed > 0 && d.samples
        ? `${percent(d.untimed / (d.timed + d.untimed))} of this has no sample times and is not shown`
        : "";

// What is selected in the heat map, with a way out.
export function CellChips({p}) {
    const cells = [parseCell(p.cell), parseCell(p.cell2)].filter(Boolean);
    if (!cells.length) return "";
    const words = cells.length === 2 ? `${cellText(cells[1])}, against ${cellText(cells[0])}` : cellText(cells[0]);
    return (
        <span class="chip times">
            <span title={words}>
                samples of <b>{words}</b>
            </span>
            <button aria-label="the whole range" onClick={() => patch({cell: "", cell2: "", zoom: ""})}>
                ×
            </button>
        </span>
    );
}

function useSeries(p, q, range, wanted = true) {
    return useData(
        wanted && apiUrl("series", {query: q.query, from: range.from, to: range.to, group_by: groupOf(p, q)}),
        {live: range.live},
    );
}

export function Series({p, q, range, notes}) {
    const heated = p.top === "heat";
    const pick = (
        <span class="tabs">
            <button class="tab" aria-pressed={!heated} onClick={() => patch({top: "", cell: "", cell2: ""})}>
                Over time
            </button>
            <button
                class="tab"
                aria-pressed={!!heated}
                title="When samples were taken, to the millisecond"
                onClick={() => patch({top: "heat"})}
            >
                Heat map
            </button>
        </span>
    );
    return heated ? (
        <Times p={p} q={q} range={range} pick={pick} />
    ) : (
        <OverTime p={p} q={q} range={range} notes={notes} pick={pick} />
    );
}

function OverTime({p, q, range, notes, pick: tabs}) {
    const series = useSeries(p, q, range),
        group = groupOf(p, q);
    const deploys = useDeploys(q.query, range),
        marks = [...deploys, ...notes.map((n) => ({at: Number(n.time) / 1e6, label: n.text, note: true}))];
    const brush = (a, b) =>
        patch({
            from: seconds(Math.floor(a / 1000) * 1000),
            to: seconds(Math.ceil(b / 1000) * 1000),
            zoom: "",
            profile: "",
            win: "",
        }); // at least a second
    const pick = (ms) => {
        const step = Number(series.data.step) / 1e6,
            start = Number(series.data.from) / 1e6 + Math.floor((ms - Number(series.data.from) / 1e6) / step) * step;
        patch({from: seconds(start), to: seconds(start + Math.max(step, 1000)), view: "profiles", zoom: ""});
    };
    const theme = themeOf();
    const damage = series.data?.notes?.damaged ? (
        <span class="more" title={series.data.notes.damage}>
            {series.data.notes.damaged} damaged pieces are missing: wick store check
        </span>
    ) : (
        ""
    );
    if (series.error || (series.data && !series.data.series.length))
        return (
            <div class="series">
                <div class="series-head muted">{tabs}</div>
                <p class="series-none muted">
                    {series.error ? series.error.message : "No data in this time range."} {damage}
                </p>
            </div>
        );
    if (!series.data)
        return (
            <div class="series">
                <div class="series-head muted">{tabs}</div>
            </div>
        );
    const top = [...series.data.series].sort((a, b) => sum(b.values) - sum(a.values)).slice(0, 10);
    const data = {...series.data, series: top};
    const names = top.map((s) => (groupName(s.labels) === "(none)" ? q.query : groupName(s.labels)));
    return (
        <div class={"series" + (series.loading ? " waiting" : "")}>
            <div class="series-head muted">
                <span>
                    {tabs} {axisTitle(data.unit, data.type)} {damage}{" "}
                    <Also notes={series.data.notes} query={q.query} range={range} />{" "}
                    <Hidden notes={series.data.notes} query={q.query} range={range} />
                </span>
                {group ? (
                    <span class="keys">
                        {names.map((n, i) => (
                            <button
                                key={n}
                                class="key"
                                title={`only ${n}`}
                                onClick={() =>
                                    patch({
                                        query: withMatcher(q.query, group, top[i].labels[group] ?? ""),
                                        group: "",
                                        zoom: "",
                                    })
                                }
                            >
                                <i class="dot" style={{background: seriesColor(i, theme)}} />
                                {n}
                            </button>
                        ))}
                    </span>
                ) : (
                    <span>drag to select a range, click a point for its individual profiles</span>
                )}
            </div>
            <Chart
                data={data}
                names={names}
                height={104}
                onBrush={brush}
                onPick={pick}
                marks={marks}
                range={[range.fromMs, range.toMs]}
                live={range.live}
                label={`${axisTitle(data.unit, data.type)} over time, ${names.length} series`}
            />
        </div>
    );
}
