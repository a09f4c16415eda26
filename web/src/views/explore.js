// SPDX-License-Identifier: Apache-2.0
// Explore: one selection in all views.
import {html} from "htm/preact";
import {useEffect, useMemo, useState} from "preact/hooks";
import {apiUrl, get, overFiles, useCoverage, useData} from "../lib/api.js";
import {seriesColor, themeOf} from "../lib/color.js";
import {exportItems, savePng} from "../lib/export.js";
import {listen} from "../lib/keys.js";
import {shortVersion} from "../lib/names.js";
import {parseSelector, printSelector, valueOf, withMatcher} from "../lib/selector.js";
import {before, rangeOf, seconds} from "../lib/time.js";
import {joinTrees} from "../lib/tree.js";
import {amount, axisTitle, cost, duration, percent, rate} from "../lib/units.js";
import {go, href, patch, route} from "../lib/url.js";
import {FileBar, Selector, TimePicker} from "../parts/bar.js";
import {Chart} from "../parts/chart.js";
import {DrawOptions, Filters} from "../parts/filters.js";
import {Hidden} from "../parts/hidden.js";
import {SearchBox} from "../parts/search.js";
import {FlamePane, useTree} from "../parts/flamepane.js";
import {Choice, Drop} from "../parts/menu.js";
import {useParams, useStatus} from "../parts/shell.js";
import {Box, Loaded, Loading} from "../parts/states.js";
import {CallGraph} from "./callgraph.js";
import {Profiles} from "./profiles.js";
import {Sandwich} from "./sandwich.js";
import {Source} from "./source.js";
import {TopTable} from "./toptable.js";

export const views = [["flame", "Flame graph", "1"], ["table", "Table", "2"], ["both", "Both", "3"], ["graph", "Call graph", "4"],
    ["sandwich", "Callers", "5"], ["source", "Source", "6"], ["profiles", "Profiles", "7"]];
const GROUPS = 12, NODES = 20000;

// The parameters of every request about this selection.
export function ask(p, range) {
    return {query: p.query || "cpu", from: range.from, to: range.to, trace_id: p.trace, span_id: p.span, profile: p.profile,
        focus: p.focus, ignore: p.ignore, hide: p.hide};
}

const groupName = (labels) => Object.values(labels).join(" · ") || "(none)";

export function Explore() {
    const p = useParams();
    return p ? html`<${Page} p=${p} />` : html`<h1 class="sr">Explore</h1><${Loading} />`;
}

function Page({p}) {
    const range = rangeOf(p);
    const view = p.view || "flame";
    const q = ask(p, range);
    useStatus();
    const files = overFiles.value; // known before this is rendered, so that nothing moves
    useEffect(() => listen({...Object.fromEntries(views.map(([v, , key]) => [key, () => patch({view: v === "flame" ? "" : v})])),
        i: () => patch({dir: route.peek().params.dir === "flame" ? "" : "flame"}),
        r: () => patch({rec: route.peek().params.rec === "1" ? "" : "1", zoom: ""}),
        o: () => patch({mine: route.peek().params.mine === "1" ? "" : "1", zoom: ""}),
        R: () => patch({at: Date.now().toString(36)}, {replace: true})}), []);
    return html`<h1 class="sr">Explore</h1>
        <div class="bar">
            ${files ? html`<${FileBar} query=${q.query} />` : html`<${Selector} query=${q.query} range=${range} onQuery=${(query) => patch({query, zoom: "", profile: ""})} />
            <${GroupBy} p=${p} range=${range} />`}
            <span class="grow"></span>
            ${files ? "" : html`<${TimePicker} range=${range} onPick=${(r) => patch({...r, zoom: "", profile: ""})} />
            <a class="button" href=${href("compare", {query: q.query, from: p.from, to: p.to, base_query: q.query, base_from: before(range).from, base_to: before(range).to})}
                title="Compare with the time just before">Compare</a>`}
            <${Drop} label="Export" items=${() => exportItems(q, () => document.querySelector(".flame-box") && savePng(document.querySelector(".flame-box").wickEngine, "flame"))} />
        </div>
        ${files ? "" : html`<${Series} p=${p} q=${q} range=${range} />`}
        <${Pane} p=${p} q=${q} range=${range} view=${view} />`;
}

function GroupBy({p, range}) {
    const labels = useData(apiUrl("labels", {from: range.from, to: range.to}));
    const items = () => [{label: "not grouped", checked: !p.group, run: () => patch({group: "", zoom: ""})},
        ...(labels.data ?? []).map((l) => ({label: l, checked: p.group === l, run: () => patch({group: l, zoom: ""})}))];
    return html`<${Drop} label=${p.group ? `by ${p.group}` : "group by"} cls=${p.group ? "" : "quiet"} items=${items} />`;
}

function useSeries(p, q, range) {
    return useData(apiUrl("series", {query: q.query, from: range.from, to: range.to, group_by: p.group}));
}

function Series({p, q, range}) {
    const series = useSeries(p, q, range);
    const marks = useDeploys(q, range);
    const brush = (a, b) => patch({from: seconds(a), to: seconds(b), zoom: "", profile: ""});
    const pick = (ms) => {
        const step = Number(series.data.step) / 1e6, start = Number(series.data.from) / 1e6 + Math.floor((ms - Number(series.data.from) / 1e6) / step) * step;
        patch({from: seconds(start), to: seconds(start + Math.max(step, 1000)), view: "profiles", zoom: ""});
    };
    const theme = themeOf();
    const also = series.data?.notes?.also ? html`<span class="muted" title="Two sources sent CPU time of the same processes, for example an agent and an SDK. One of them is counted, the one with spans if there is one; the other is stored as type cpu_also.">counted once: a second source sends some of it as well</span>` : "";
    const damage = series.data?.notes?.damaged ? html`<span class="more" title=${series.data.notes.damage}>${series.data.notes.damaged} damaged pieces are missing: wick store check</span>` : "";
    if (series.error || (series.data && !series.data.series.length))
        return html`<div class="series"><p class="series-none muted">${series.error ? series.error.message : "No data in this time range."} ${damage}</p></div>`;
    if (!series.data) return html`<div class="series"></div>`;
    const top = [...series.data.series].sort((a, b) => sum(b.values) - sum(a.values)).slice(0, 10);
    const data = {...series.data, series: top};
    const names = top.map((s) => groupName(s.labels) === "(none)" ? q.query : groupName(s.labels));
    return html`<div class=${"series" + (series.loading ? " waiting" : "")}>
        <div class="series-head muted"><span>${axisTitle(data.unit, data.type)} ${damage} ${also} <${Hidden} notes=${series.data.notes} query=${q.query} range=${range} /></span>${p.group ? html`<span class="keys">${names.map((n, i) => html`<button key=${n} class="key" title=${`only ${n}`} onClick=${() => patch({query: withMatcher(q.query, p.group, top[i].labels[p.group] ?? ""), group: "", zoom: ""})}><i class="dot" style=${{background: seriesColor(i, theme)}}></i>${n}</button>`)}</span>`
            : html`<span>drag to select a range, click a point for its individual profiles</span>`}</div>
        <${Chart} data=${data} names=${names} height=${104} onBrush=${brush} onPick=${pick} marks=${marks} range=${[range.fromMs, range.toMs]}
            label=${`${axisTitle(data.unit, data.type)} over time, ${names.length} series`} /></div>`;
}

// When versions of the selected service first appeared in the range.
function useDeploys(q, range) {
    const service = valueOf(q.query, "service.name");
    const data = useData(service ? apiUrl("series", {query: q.query, from: range.from, to: range.to, group_by: "service.version"}) : null).data;
    return useMemo(() => {
        if (!data || !service) return [];
        const from = Number(data.from) / 1e6, step = Number(data.step) / 1e6;
        const seen = data.series.map((s) => ({version: s.labels["service.version"], at: s.values.findIndex((v) => v > 0)})).filter((s) => s.version && s.at > 0);
        const first = Math.min(...data.series.map((s) => s.values.findIndex((v) => v > 0)).filter((i) => i >= 0));
        return seen.filter((s) => s.at > first).slice(-6).map((s) => ({at: from + s.at * step, label: shortVersion(s.version)}));
    }, [data, service]);
}

const sum = (a) => a.reduce((x, y) => x + y, 0);

// One tree per value of the group-by label, below one root.
function useGrouped(p, q, range) {
    const series = useSeries(p, q, range);
    const values = useMemo(() => {
        if (!p.group || !series.data) return [];
        return series.data.series.map((s) => [s.labels[p.group] ?? "", sum(s.values)]).sort((a, b) => b[1] - a[1]).slice(0, GROUPS).map(([v]) => v);
    }, [series.data, p.group]);
    const key = p.group && values.length ? "group:" + JSON.stringify([q, p.group, values]) : null;
    const one = (v) => get(apiUrl("flame", {...q, query: withMatcher(q.query, p.group, v), by: "filefunction", max_nodes: 3000, format: "binary"}));
    return useData(key, {via: key ? async () => {
        const trees = await Promise.all(values.map(one));
        return joinTrees(values.map((v, i) => ({name: v || "(none)", tree: trees[i]})), trees[0]?.type ?? "", trees[0]?.unit ?? "");
    } : null});
}

function Pane({p, q, range, view}) {
    const needTree = view === "flame" || view === "both" || view === "graph";
    const grouped = useGrouped(needTree && view !== "graph" ? p : {}, q, range);
    const plain = useTree(needTree && !(p.group && view !== "graph") ? {...q, by: "filefunction", max_nodes: p.nodes ?? NODES} : null, view === "graph" ? "" : p.zoom);
    const tree = p.group && view !== "graph" ? grouped : plain;
    const [found, setFound] = useState(null);
    const status = useStatus().data;
    const cover = useCoverage(p.profile ? null : {query: q.query, from: q.from, to: q.to}), ns = cover.ns;
    const t = tree.whole ?? tree.data;
    return html`<div class="toolbar">
            <${Choice} label="view" value=${view} options=${p.timeless ? views.filter(([v]) => v !== "profiles") : views} onPick=${(v) => patch({view: v === "flame" ? "" : v})} />
            <${SearchBox} value=${p.search ?? ""} found=${found} onInput=${(v) => patch({search: v}, {replace: true})} />
            <${Filters} params=${p} />
            ${p.profile && html`<span class="chip"><span>one profile <b>${p.profile.slice(0, 8)}</b></span><button aria-label="all profiles" onClick=${() => patch({profile: ""})}>×</button></span>`}
            <span class="grow"></span>
            ${needTree && t && html`<span class="num total" title=${coverTitle(cover)}><${Total} t=${t} ns=${ns} status=${status} /></span>`}
            ${needTree && view !== "graph" && html`<${DrawOptions} params=${p} />`}
        </div>
        <div class=${"pane pane-" + view}>${view === "profiles" ? html`<${Profiles} p=${p} q=${q} range=${range} />`
        : view === "sandwich" ? html`<${Sandwich} p=${p} q=${q} range=${range} />`
        : view === "source" ? html`<${Source} p=${p} q=${q} range=${range} />`
        : view === "table" ? html`<${TopTable} p=${p} q=${q} range=${range} />`
        : html`<${Loaded} of=${tree} what="profiles" empty=${(d) => !(d.total[0][0] > 0)} nothing=${html`<${Nothing} p=${p} q=${q} range=${range} />`}>
            ${(data) => view === "graph" ? html`<${CallGraph} tree=${data} params=${p} ns=${ns} />`
            : html`<div class=${view === "both" ? "split" : "whole"}>
                ${view === "both" && html`<${TopTable} p=${p} q=${q} range=${range} narrow />`}
                <${FlamePane} tree=${data} params=${p} ns=${ns} onFound=${setFound} rootName=${rootName(q.query, p.timeless)} /></div>`}<//>`}
        </div>`;
}

// "of the whole selection; 12.3 min are covered by profiles, sampled at 19 Hz"
function coverTitle({ns, rate: hz}) {
    const sampled = !hz ? "" : `, sampled at ${Array.isArray(hz) ? hz.join(" to ") : hz} Hz`;
    return ns > 0 ? `of the whole selection; ${duration(ns)} are covered by profiles${sampled}` : "of the whole selection";
}

function rootName(query, timeless) {
    if (timeless) return "all";
    const s = parseSelector(query);
    return s.matchers.find((m) => m.name === "service.name" && m.op === "=")?.value ?? "all services";
}

function Total({t, ns, status}) {
    const {type, unit} = t, v = t.total[0][0];
    const money = status?.pricePerCoreHour ? cost(v, type, ns, status.pricePerCoreHour, status.currency) : "";
    return html`${amount(v, unit, type)}${ns ? html` · ${rate(v, unit, type, ns)}` : ""}${money && html` · ${money}`}${named(t)}`;
}

// "N % of frames named" where some are not.
function named(t) {
    let no = 0, all = 0;
    for (let i = 1; i < t.n; i++) {
        if (t.isFolded(i)) continue;
        all += t.self[0][i];
        if (t.frames.fn[t.frame[i]] === 0) no += t.self[0][i];
    }
    return no > 0 ? html` · <span title="of what is drawn, by weight">${percent(1 - no / all)} named</span>` : "";
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
