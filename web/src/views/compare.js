// SPDX-License-Identifier: Apache-2.0
// Compare: any two selections, as one coloured flame graph, as a table, or side by side.
import {html} from "htm/preact";
import {useEffect, useMemo, useState} from "preact/hooks";
import {apiUrl, overFiles, useCoverage, useData} from "../lib/api.js";
import {listen} from "../lib/keys.js";
import {shortVersion} from "../lib/names.js";
import {serviceQuery, valueOf} from "../lib/selector.js";
import {before, rangeOf, seconds} from "../lib/time.js";
import {columnOf} from "../lib/tree.js";
import {amount, percent, rate} from "../lib/units.js";
import {patch, route} from "../lib/url.js";
import {FileBar, Selector, TimePicker} from "../parts/bar.js";
import {DrawOptions, Filters} from "../parts/filters.js";
import {FlamePane, useTree} from "../parts/flamepane.js";
import {DiffLegend} from "../parts/legend.js";
import {Choice, Drop} from "../parts/menu.js";
import {SearchBox} from "../parts/search.js";
import {useParams, useStatus} from "../parts/shell.js";
import {Box, Loaded, Loading} from "../parts/states.js";
import {TopTable} from "./toptable.js";

const views = [["flame", "Difference", "1"], ["table", "Table", "2"], ["sides", "Side by side", "3"]];
const NODES = 20000;

// Base range and query if the URL has none: the time range just before.
function sides(p) {
    const now = rangeOf(p);
    const query = p.query || "cpu";
    const given = p.base_from || p.base_to;
    const base = given ? rangeOf(p, "base_") : rangeOf({...before(now)});
    const b = given ? base : {...base, from: before(now).from, to: before(now).to};
    return {now, base: b, query, baseQuery: p.base_query || query};
}

function Presets({p, s}) {
    const service = valueOf(s.query, "service.name");
    const list = useData(apiUrl("services", {from: s.now.from, to: s.now.to}));
    const mine = list.data?.find((x) => x.name === service);
    const shift = (ms) => ({base_query: s.query, base_from: seconds(s.now.fromMs - ms), base_to: seconds(s.now.toMs - ms), zoom: ""});
    const items = () => [
        {label: "the time just before", run: () => patch({base_query: s.query, base_from: before(s.now).from, base_to: before(s.now).to, zoom: ""})},
        {label: "an hour earlier", run: () => patch(shift(3600e3))}, {label: "yesterday", run: () => patch(shift(86400e3))}, {label: "a week ago", run: () => patch(shift(604800e3))},
        ...(mine && mine.versions.length > 1 ? ["-", ...mine.versions.slice(0, -1).map((v, i) => ({label: `version ${shortVersion(v)} → ${shortVersion(mine.versions[i + 1])}`, run: () => patch({
            base_query: serviceQuery("cpu", service, {name: "service.version", op: "=", value: v}), query: serviceQuery("cpu", service, {name: "service.version", op: "=", value: mine.versions[i + 1]}),
            base_from: p.from || "now-1h", base_to: p.to, zoom: ""})}))] : []),
        "-", {label: "swap sides", run: () => patch({query: s.baseQuery, from: s.base.from, to: s.base.to === "now" ? "" : s.base.to, base_query: s.query, base_from: s.now.from, base_to: s.now.to === "now" ? "" : s.now.to, zoom: ""})},
    ];
    return html`<${Drop} label="Compare with" items=${items} />`;
}

export function Compare() {
    const p = useParams();
    return p ? html`<${Page} p=${p} />` : html`<h1 class="sr">Compare</h1><${Loading} />`;
}

function Page({p}) {
    const s = sides(p);
    useStatus();
    const files = overFiles.value; // known before this is rendered, so that nothing moves
    const view = p.view === "table" || p.view === "sides" ? p.view : "flame";
    const q = {query: s.query, from: s.now.from, to: s.now.to, base_query: s.baseQuery, base_from: s.base.from, base_to: s.base.to, focus: p.focus, ignore: p.ignore, hide: p.hide};
    useEffect(() => listen({...Object.fromEntries(views.map(([v, , key]) => [key, () => patch({view: v === "flame" ? "" : v})])),
        i: () => patch({dir: route.peek().params.dir === "flame" ? "" : "flame"}), r: () => patch({rec: route.peek().params.rec === "1" ? "" : "1", zoom: ""}),
        o: () => patch({mine: route.peek().params.mine === "1" ? "" : "1", zoom: ""})}), []);
    const tree = useTree(view === "table" ? null : {...q, by: "filefunction", max_nodes: p.nodes ?? NODES}, p.zoom);
    const [found, setFound] = useState(null);
    const cover = useCoverage({query: q.query, from: q.from, to: q.to, base_query: q.base_query, base_from: q.base_from, base_to: q.base_to});
    return html`<h1 class="sr">Compare</h1>
        ${files ? html`<div class="bar"><${FileBar} query=${s.query} /></div>` : html`<div class="sides">
            <div class="side"><span class="side-name">before</span><${Selector} name="before: " query=${s.baseQuery} range=${s.base} onQuery=${(v) => patch({base_query: v, zoom: ""})} />
                <span class="grow"></span><${TimePicker} label="time before" range=${s.base} onPick=${(r) => patch({base_from: r.from, base_to: r.to, zoom: ""})} /></div>
            <div class="side"><span class="side-name">now</span><${Selector} name="now: " query=${s.query} range=${s.now} onQuery=${(v) => patch({query: v, zoom: ""})} />
                <span class="grow"></span><${TimePicker} label="time now" range=${s.now} onPick=${(r) => patch({...r, zoom: ""})} /></div></div>`}
        <div class="toolbar"><${Choice} label="view" value=${view} options=${views} onPick=${(v) => patch({view: v === "flame" ? "" : v})} />
            <${SearchBox} value=${p.search ?? ""} found=${found} onInput=${(v) => patch({search: v}, {replace: true})} /><${Filters} params=${p} />
            ${!files && html`<${Presets} p=${p} s=${s} />`}<span class="grow"></span>
            ${view !== "table" && tree.data && html`<${Sum} t=${tree.whole ?? tree.data} cover=${cover} />`}
            ${view === "flame" && html`<${DiffLegend} />`}${view !== "table" && html`<${DrawOptions} params=${p} diff=${view === "flame"} />`}</div>
        <div class="pane">${view === "table" ? html`<${TopTable} p=${p} q=${q} diff />`
        : html`<${Loaded} of=${tree} what="both selections" empty=${(d) => !(d.total[0][0] > 0) && !(d.total[1]?.[0] > 0)} nothing=${html`<${Box} title="Neither side has profiles">
            <p>Choose another time range or other labels above.</p><p><button onClick=${() => patch({from: "now-1d", to: "", base_from: "", base_to: ""})}>The last day against the day before</button></p><//>`}>
            ${(t) => view === "sides" ? html`<${Sides} t=${t} p=${p} cover=${cover} onFound=${setFound} />` : html`<${OneSided} t=${t} /><${FlamePane} tree=${t} params=${p} ns=${cover.ns} diff onFound=${setFound} rootName="both" label="Difference flame graph" />`}<//>`}</div>`;
}

function OneSided({t}) {
    const missing = !(t.total[0][0] > 0) ? "before" : !(t.total[1]?.[0] > 0) ? "now" : "";
    return missing && html`<p class="note" role="status">There are no profiles ${missing === "before" ? "on the side “before”" : "on the side “now”"}: everything looks ${missing === "before" ? "new" : "gone"}. Pick another time or version.</p>`;
}

function Sum({t, cover}) {
    const [a, b] = [t.total[0][0], t.total[1]?.[0] ?? 0];
    const timed = cover.base > 0 && cover.ns > 0;
    const ra = timed ? rate(a, t.unit, t.type, cover.base) : amount(a, t.unit, t.type), rb = timed ? rate(b, t.unit, t.type, cover.ns) : amount(b, t.unit, t.type);
    const change = a > 0 ? (timed ? b / cover.ns / (a / cover.base) : b / a) - 1 : NaN;
    return html`<span class="num total" title=${`${amount(a, t.unit, t.type)} before, ${amount(b, t.unit, t.type)} now`}>${ra} → ${rb}${isFinite(change) ? html` <span class=${change > 0 ? "more" : "less"}>${change > 0 ? "+" : "−"}${percent(Math.abs(change), 1)}</span>` : ""}</span>`;
}

function Sides({t, p, cover, onFound}) {
    const a = useMemo(() => columnOf(t, 0), [t]), b = useMemo(() => (t.columns > 1 ? columnOf(t, 1) : t), [t]);
    const params = p.color === "diff" ? {...p, color: ""} : p;
    return html`<div class="half-half"><section aria-label="before"><h2>before <span class="muted num">${amount(a.total[0][0], t.unit, t.type)}</span></h2><${FlamePane} tree=${a} params=${params} ns=${cover.base} rootName="before" label="Before" side /></section>
        <section aria-label="now"><h2>now <span class="muted num">${amount(b.total[0][0], t.unit, t.type)}</span></h2><${FlamePane} tree=${b} params=${params} ns=${cover.ns} onFound=${onFound} rootName="now" label="Now" side /></section></div>`;
}
