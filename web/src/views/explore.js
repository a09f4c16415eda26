// SPDX-License-Identifier: Apache-2.0
// Explore: one selection in all views.
import {html} from "htm/preact";
import {useEffect, useMemo, useState} from "preact/hooks";
import {apiUrl, overFiles, useData} from "../lib/api.js";
import {seriesColor, themeOf} from "../lib/color.js";
import {modeOf} from "../lib/diff.js";
import {compareItems, exportItems, pictureTitle} from "../lib/export.js";
import {listen} from "../lib/keys.js";
import {isDeploy, shortVersion} from "../lib/names.js";
import {parseSelector, printSelector, valueOf, withMatcher} from "../lib/selector.js";
import {before, middle, parseCell, rangeOf, seconds, settledNow, startOf, timeProblem} from "../lib/time.js";
import {amount, axisTitle, cost, digitsOf, duration, percent, rate, samplesOf, samplesText} from "../lib/units.js";
import {go, href, patch} from "../lib/url.js";
import {urlProblem} from "../lib/wrong.js";
import {FileBar, Selector, TimePicker} from "../parts/bar.js";
import {Chart} from "../parts/chart.js";
import {drawKeys, DrawOptions, Filters} from "../parts/filters.js";
import {Also, Hidden} from "../parts/hidden.js";
import {canExplain, Explain} from "../parts/explain.js";
import {MoreMenu, useNotes} from "../parts/marks.js";
import {DiffLegend} from "../parts/legend.js";
import {LiveState} from "../parts/livestate.js";
import {SearchBox} from "../parts/search.js";
import {FlamePane, useTree} from "../parts/flamepane.js";
import {Choice, Drop} from "../parts/menu.js";
import {useParams, useStatus} from "../parts/shell.js";
import {Box, Loaded, Loading, Wrong} from "../parts/states.js";
import {cellText, TimeMap} from "../parts/timemap.js";
import {Breakdown} from "./breakdown.js";
import {CallGraph} from "./callgraph.js";
import {FlameChart} from "./flamechart.js";
import {Profiles} from "./profiles.js";
import {Sandwich} from "./sandwich.js";
import {Source} from "./source.js";
import {hasSpans} from "./spans.js";
import {TopTable} from "./toptable.js";

export const views = [["flame", "Flame graph", "1"], ["table", "Table", "2"], ["both", "Both", "3"], ["graph", "Call graph", "4"],
    ["sandwich", "Callers", "5"], ["source", "Source", "6"], ["profiles", "Profiles", "7"], ["labels", "Labels", "8"], ["chart", "Flame chart", "9"]];
const NODES = 20000;

// The parameters of every request about this selection. cell: a time that was selected in the heat map, by the times of samples.
export function ask(p, range) {
    const cell = parseCell(p.cell2) ?? parseCell(p.cell);
    const times = cell ? {from: String(cell[0]), to: String(cell[1]), times: "sample"} : {from: range.from, to: range.to};
    return {query: p.query || "cpu", ...times, trace_id: p.trace, span_id: p.span, profile: p.profile,
        focus: p.focus, ignore: p.ignore, hide: p.hide};
}

const groupName = (labels) => Object.values(labels).join(" · ") || "(none)";

export function Explore() {
    const p = useParams();
    const wrong = p && (timeProblem(p) || urlProblem(p));
    if (wrong) return html`<h1 class="sr">Explore</h1><${Wrong} text=${wrong} />`;
    return p ? html`<${Page} p=${p} />` : html`<h1 class="sr">Explore</h1><${Loading} />`;
}

// A comparison of this selection with the time just before, both as fixed times; of its halves if there was nothing before.
function compareLink(q, range) {
    const end = range.live ? settledNow() : range.toMs;
    const from = startOf(range) > range.fromMs ? middle(end) : range.live ? end - (range.toMs - range.fromMs) : range.fromMs;
    const b = before({fromMs: from, toMs: end});
    return href("compare", {query: q.query, from: seconds(from), to: seconds(end), base_query: q.query, base_from: b.from, base_to: b.to});
}

function Page({p}) {
    const range = rangeOf(p);
    const view = views.some(([v]) => v === p.view) ? p.view : "flame";
    const q = ask(p, range);
    const [changes, changed] = useState(0);
    const files = overFiles.value; // known before this is rendered, so that nothing moves
    const notes = useNotes(!files, valueOf(q.query, "service.name"), changes);
    useStatus();
    useEffect(() => listen({...Object.fromEntries(views.map(([v, , key]) => [key, () => patch({view: v === "flame" ? "" : v})])), ...drawKeys,
        R: () => patch({at: Date.now().toString(36)}, {replace: true})}), []);
    return html`<h1 class="sr">Explore</h1>
        <div class="bar">
            ${files ? html`<${FileBar} query=${q.query} />` : html`<${Selector} query=${q.query} range=${range} onQuery=${(query) => patch({query, zoom: "", profile: ""})} />
            <${GroupBy} p=${p} q=${q} range=${range} />`}
            <span class="grow"></span>
            ${files ? "" : html`<${LiveState} range=${range} /><${TimePicker} range=${range} onPick=${(r) => patch({...r, zoom: "", profile: "", cell: "", cell2: "", win: ""})} />
            ${hasSpans() && html`<a class="button" href=${href("spans", {service: valueOf(q.query, "service.name"), from: p.from, to: p.to})} title="Latency of spans, and what slow ones do">Spans</a>`}
            <a class="button" href=${compareLink(q, range)} title="Compare with the time just before">Compare</a>`}
            <${Drop} label="Export" items=${() => (p.cell2 && parseCell(p.cell) ? compareItems(againstFirst(p, q), view === "flame" || view === "both" ? pictureTitle(q, range) : "") : exportItems(q, range))} />
            ${files ? "" : html`<${MoreMenu} q=${q} range=${range} notes=${notes} onChange=${() => changed((n) => n + 1)} />`}
        </div>
        ${files ? "" : html`<${Series} p=${p} q=${q} range=${range} notes=${notes} />`}
        <${Pane} p=${p} q=${q} range=${range} view=${view} />`;
}

// All services are grouped by service unless something else is chosen.
const NONE = "none";
const groupOf = (p, q) => (p.group === NONE ? "" : p.group || (p.timeless || valueOf(q.query, "service.name") || p.profile || p.trace || p.span ? "" : "service.name"));

function GroupBy({p, q, range}) {
    const labels = useData(apiUrl("labels", {from: range.from, to: range.to}));
    const group = groupOf(p, q);
    const items = () => [{label: "not grouped", checked: !group, run: () => patch({group: groupOf({...p, group: ""}, q) ? NONE : "", zoom: ""})},
        ...(labels.data ?? []).map((l) => ({label: l, checked: group === l, run: () => patch({group: l, zoom: ""})}))];
    return html`<${Drop} label=${group ? `by ${group}` : "group by"} cls=${group ? "" : "quiet"} items=${items} />`;
}

// The heat map of sample times instead of the chart of values.
function Times({p, q, range, pick}) {
    const heat = useData(apiUrl("heatmap", {query: q.query, from: range.from, to: range.to}), {live: range.live && !p.cell});
    const cells = [parseCell(p.cell), parseCell(p.cell2)].filter(Boolean), type = parseSelector(q.query).type || "cpu";
    const select = ([a, b]) => patch(cells.length === 1 ? {cell2: `${a}-${b}`, zoom: "", x: ""} : {cell: `${a}-${b}`, cell2: "", zoom: "", x: ""});
    const d = heat.data;
    return html`<div class=${"series heated" + (heat.loading ? " waiting" : "")}><div class="series-head muted">${pick}<span>${d ? untimed(d) : ""}</span></div>
        ${heat.error ? html`<p class="series-none muted">${heat.error.message}</p>` : !d ? "" : !d.samples ? html`<p class="series-none muted">${d.untimed ? "These profiles do not say when each sample was taken." : "No data in this time range."}</p>`
        : html`<${TimeMap} data=${d} cells=${cells} type=${type} unit=${unitOf(type)} onSelect=${select} />`}</div>`;
}

const unitOf = (type) => (/cpu|wall|block|mutex|lock|off_cpu/.test(type) ? "nanoseconds" : /space|bytes|heap$|alloc$/.test(type) ? "bytes" : "count");
const untimed = (d) => (d.untimed > 0 && d.samples ? `${percent(d.untimed / (d.timed + d.untimed))} of this has no sample times and is not shown` : "");

// What is selected in the heat map, with a way out.
function CellChips({p}) {
    const cells = [parseCell(p.cell), parseCell(p.cell2)].filter(Boolean);
    if (!cells.length) return "";
    const words = cells.length === 2 ? `${cellText(cells[1])}, against ${cellText(cells[0])}` : cellText(cells[0]);
    return html`<span class="chip times"><span title=${words}>samples of <b>${words}</b></span><button aria-label="the whole range" onClick=${() => patch({cell: "", cell2: "", zoom: ""})}>×</button></span>`;
}

function useSeries(p, q, range) {
    return useData(apiUrl("series", {query: q.query, from: range.from, to: range.to, group_by: groupOf(p, q)}), {live: range.live});
}

function Series({p, q, range, notes}) {
    const heated = p.top === "heat";
    const pick = html`<span class="tabs"><button class="tab" aria-pressed=${String(!heated)} onClick=${() => patch({top: "", cell: "", cell2: ""})}>Over time</button><button class="tab" aria-pressed=${String(heated)} title="When samples were taken, to the millisecond" onClick=${() => patch({top: "heat"})}>Heat map</button></span>`;
    return heated ? html`<${Times} p=${p} q=${q} range=${range} pick=${pick} />` : html`<${OverTime} p=${p} q=${q} range=${range} notes=${notes} pick=${pick} />`;
}

function OverTime({p, q, range, notes, pick: tabs}) {
    const series = useSeries(p, q, range), group = groupOf(p, q);
    const deploys = useDeploys(q, range), marks = [...deploys, ...notes.map((n) => ({at: Number(n.time) / 1e6, label: n.text, note: true}))];
    const brush = (a, b) => patch({from: seconds(Math.floor(a / 1000) * 1000), to: seconds(Math.ceil(b / 1000) * 1000), zoom: "", profile: "", win: ""}); // at least a second
    const pick = (ms) => {
        const step = Number(series.data.step) / 1e6, start = Number(series.data.from) / 1e6 + Math.floor((ms - Number(series.data.from) / 1e6) / step) * step;
        patch({from: seconds(start), to: seconds(start + Math.max(step, 1000)), view: "profiles", zoom: ""});
    };
    const theme = themeOf();
    const damage = series.data?.notes?.damaged ? html`<span class="more" title=${series.data.notes.damage}>${series.data.notes.damaged} damaged pieces are missing: wick store check</span>` : "";
    if (series.error || (series.data && !series.data.series.length))
        return html`<div class="series"><div class="series-head muted">${tabs}</div><p class="series-none muted">${series.error ? series.error.message : "No data in this time range."} ${damage}</p></div>`;
    if (!series.data) return html`<div class="series"><div class="series-head muted">${tabs}</div></div>`;
    const top = [...series.data.series].sort((a, b) => sum(b.values) - sum(a.values)).slice(0, 10);
    const data = {...series.data, series: top};
    const names = top.map((s) => groupName(s.labels) === "(none)" ? q.query : groupName(s.labels));
    return html`<div class=${"series" + (series.loading ? " waiting" : "")}>
        <div class="series-head muted"><span>${tabs} ${axisTitle(data.unit, data.type)} ${damage} <${Also} notes=${series.data.notes} query=${q.query} range=${range} /> <${Hidden} notes=${series.data.notes} query=${q.query} range=${range} /></span>${group ? html`<span class="keys">${names.map((n, i) => html`<button key=${n} class="key" title=${`only ${n}`} onClick=${() => patch({query: withMatcher(q.query, group, top[i].labels[group] ?? ""), group: "", zoom: ""})}><i class="dot" style=${{background: seriesColor(i, theme)}}></i>${n}</button>`)}</span>`
            : html`<span>drag to select a range, click a point for its individual profiles</span>`}</div>
        <${Chart} data=${data} names=${names} height=${104} onBrush=${brush} onPick=${pick} marks=${marks} range=${[range.fromMs, range.toMs]} live=${range.live}
            label=${`${axisTitle(data.unit, data.type)} over time, ${names.length} series`} /></div>`;
}

// Deploys of the selected service in the range, each at its first sample.
function useDeploys(q, range) {
    const service = valueOf(q.query, "service.name");
    const data = useData(service ? apiUrl("deploys", {query: q.query, from: range.from, to: range.to}) : null, {live: range.live}).data;
    return useMemo(() => (data?.deploys ?? []).filter((d, _, all) => d.deployed && isDeploy(d, all)).slice(-6).map((d) => ({at: Number(d.since) / 1e6, label: shortVersion(d.version)})), [data]);
}

const sum = (a) => a.reduce((x, y) => x + y, 0);

function Pane({p, q, range, view}) {
    const needTree = view === "flame" || view === "both" || view === "graph";
    const group = view === "graph" ? "" : groupOf(p, q);
    const two = p.cell2 && view !== "graph" && parseCell(p.cell) ? againstFirst(p, q) : null;
    const tree = useTree(needTree ? {...(two ?? q), by: "filefunction", max_nodes: p.nodes ?? NODES, group_by: two ? "" : group} : null, view === "graph" ? "" : p.zoom, {live: range.live && !p.cell});
    const [found, setFound] = useState(null);
    const status = useStatus().data, explains = canExplain() && !p.timeless, explaining = explains && view === "flame" && p.explain === "1";
    const cover = tree.cover;
    const t = tree.whole ?? tree.data;
    return html`<div class="toolbar">
            <${Choice} label="view" value=${view} options=${p.timeless ? views.filter(([v]) => v !== "profiles" && v !== "labels" && v !== "chart") : views} onPick=${(v) => patch({view: v === "flame" ? "" : v})} />
            <${SearchBox} value=${p.search ?? ""} found=${found} onInput=${(v) => patch({search: v}, {replace: true})} />
            <${Filters} params=${p} />
            ${p.profile && html`<span class="chip"><span>one profile <b>${p.profile.slice(0, 8)}</b></span><button aria-label="all profiles" onClick=${() => patch({profile: ""})}>×</button></span>`}
            <span class="grow"></span>
            ${explains && view === "flame" && html`<button aria-pressed=${String(explaining)} title="What stands out in this selection" onClick=${() => patch({explain: explaining ? "" : "1"})}>Explain</button>`}
            ${needTree && view !== "graph" && html`<${DrawOptions} params=${p} />`}
            ${(needTree || p.cell) && html`<div class="facts-line"><${CellChips} p=${p} />${needTree && html`<span class="num total" title=${coverTitle(cover)}>${t && html`<${Total} t=${t} cover=${cover} status=${status} column=${t.columns - 1} />`}</span>${t?.columns > 1 && html`<${DiffLegend} />`}`}</div>`}
        </div>
        <div class=${"pane pane-" + view}>${view === "profiles" ? html`<${Profiles} p=${p} q=${q} range=${range} />`
        : view === "sandwich" ? html`<${Sandwich} p=${p} q=${q} range=${range} />`
        : view === "source" ? html`<${Source} p=${p} q=${q} range=${range} />`
        : view === "labels" ? html`<${Breakdown} p=${p} q=${q} range=${range} />`
        : view === "chart" ? html`<${FlameChart} p=${p} q=${q} range=${range} />`
        : view === "table" ? html`<${TopTable} p=${p} q=${two ?? q} range=${p.cell ? null : range} diff=${!!two} />`
        : html`<${Loaded} of=${tree} what="profiles" empty=${(d) => !(d.total[0][0] > 0) && !(d.total[1]?.[0] > 0)} nothing=${html`<${Nothing} p=${p} q=${q} range=${range} />`}>
            ${(data) => view === "graph" ? html`<${CallGraph} tree=${data} params=${p} of=${tree.url} cover=${cover} />`
            : html`<div class=${view === "both" ? "split" : explaining ? "explained" : "whole"}>
                ${view === "both" && html`<${TopTable} p=${p} q=${q} range=${range} narrow />`}
                <${FlamePane} tree=${data} params=${p} cover=${cover} mode=${data.columns > 1 ? modeOf(p, data.type, cover) : ""} onFound=${setFound} rootName=${rootName(q.query, p.timeless)} />
                ${explaining && html`<${Explain} p=${p} q=${q} />`}</div>`}<//>`}
        </div>`;
}

// The second time of the heat map against the first.
function againstFirst(p, q) {
    const [a, b] = parseCell(p.cell);
    return {...q, base_query: q.query, base_from: String(a), base_to: String(b)};
}

// "of the whole selection; 12.3 min are covered by profiles"
const coverTitle = (cover) => (cover?.ns > 0 ? `of the whole selection; ${duration(cover.ns)} are covered by profiles` : "of the whole selection");

function rootName(query, timeless) {
    if (timeless) return "all";
    const s = parseSelector(query);
    return s.matchers.find((m) => m.name === "service.name" && m.op === "=")?.value ?? "all services";
}

function Total({t, cover, status, column = 0}) {
    const {type, unit} = t, v = t.total[column][0], n = samplesOf(v, unit, cover?.rate), digits = digitsOf(n);
    const money = status?.pricePerCoreHour ? cost(v, type, cover?.ns, status.pricePerCoreHour, status.currency) : "";
    const text = [amount(v, unit, type, digits), cover?.ns && rate(v, unit, type, cover.ns, digits), n !== undefined && `${samplesText(n)} at ${cover.rates.join("–")} Hz`, money].filter(Boolean).join(" · "), share = named(t);
    return html`<span key=${text + share}>${text}${share && html` · <span title="of what is drawn, by weight">${share}</span>`}</span>`; // as fresh()
}

// "N % of frames named" where some are not.
function named(t) {
    let no = 0, all = 0;
    for (let i = 1; i < t.n; i++) {
        if (t.isFolded(i)) continue;
        all += t.self[0][i];
        if (t.frames.fn[t.frame[i]] === 0) no += t.self[0][i];
    }
    return no > 0 ? `${percent(1 - no / all)} named` : "";
}

function Nothing({p, q, range}) {
    const s = parseSelector(q.query);
    const wider = range.live ? "now-1d" : "";
    return html`<${Box} title="No data for this selection">
        <p>No ${s.type || "cpu"} profiles ${s.matchers.length ? "match these labels" : "arrived"} in this range${p.focus || p.ignore ? ", or the frame filters exclude everything" : ""}.</p>
        <p>${wider && p.from !== wider ? html`<button onClick=${() => patch({from: wider, to: ""})}>Show the last day</button> ` : ""}
        ${s.matchers.length ? html`<button onClick=${() => patch({query: printSelector({type: s.type, matchers: []})})}>All services</button> ` : ""}
        ${p.focus || p.ignore || p.hide ? html`<button onClick=${() => patch({focus: "", ignore: "", hide: ""})}>Remove frame filters</button> ` : ""}
        <button onClick=${() => go("start", {})}>How to send profiles</button></p><//>`;
}
