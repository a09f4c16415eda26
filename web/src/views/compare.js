// SPDX-License-Identifier: Apache-2.0
// Compare: any two selections, as one coloured flame graph, as a table, or side by side.
import {html} from "htm/preact";
import {useEffect, useMemo, useState} from "preact/hooks";
import {apiUrl, overFiles, useData} from "../lib/api.js";
import {modeOf, modes} from "../lib/diff.js";
import {compareItems, pictureTitle} from "../lib/export.js";
import {listen} from "../lib/keys.js";
import {shortVersion} from "../lib/names.js";
import {valueOf, withMatcher, withoutMatcher} from "../lib/selector.js";
import {before, middle, parseTime, rangeOf, relative, seconds, settledNow, timeProblem} from "../lib/time.js";
import {columnOf} from "../lib/tree.js";
import {amount} from "../lib/units.js";
import {go, patch} from "../lib/url.js";
import {urlProblem} from "../lib/wrong.js";
import {FileBar, Selector, TimePicker} from "../parts/bar.js";
import {drawKeys, DrawOptions, Filters} from "../parts/filters.js";
import {FlamePane, useTree} from "../parts/flamepane.js";
import {deploysOf, sidesOf} from "../parts/regression.js";
import {DiffLegend, DiffSum} from "../parts/legend.js";
import {Choice, Drop} from "../parts/menu.js";
import {SearchBox} from "../parts/search.js";
import {useParams, useStatus} from "../parts/shell.js";
import {Box, Loaded, Loading, Wrong} from "../parts/states.js";
import {TopTable} from "./toptable.js";

const views = [["flame", "Difference", "1"], ["table", "Table", "2"], ["sides", "Side by side", "3"]];
const NODES = 20000;

// The URL with both ranges as fixed times. What is before and what is now is evidence: the same link has to show the same
// numbers later. Null if the times are fixed already.
function pinned(p) {
    if (!relative(p.to) && !relative(p.from ?? "") && !relative(p.base_from) && !relative(p.base_to)) return null;
    const end = settledNow();
    const at = (text, missing) => (text ? seconds(parseTime(text, end)) : missing);
    const to = at(p.to, seconds(end)), from = at(p.from, seconds(middle(Number(to) * 1000)));
    const length = Number(to) - Number(from);
    const given = p.base_from || p.base_to;
    const base_to = given ? at(p.base_to, to) : from;
    const base_from = at(p.base_from, String(Number(base_to) - length));
    return {...p, from, to, base_from, base_to};
}

function sides(p) {
    const query = p.query || "cpu";
    return {now: rangeOf(p), base: rangeOf(p, "base_"), query, baseQuery: p.base_query || query};
}

function Presets({p, s}) {
    const service = valueOf(s.query, "service.name"), version = "service.version";
    const list = useData(service ? apiUrl("deploys", {query: withoutMatcher(s.query, version), from: s.now.from, to: s.now.to}) : null);
    const versions = (list.data?.deploys ?? []).filter((d) => d.service === service && d.version).sort((a, b) => Number(a.since) - Number(b.since)).map((d) => d.version);
    const shift = (ms) => ({base_query: s.query, base_from: seconds(s.now.fromMs - ms), base_to: seconds(s.now.toMs - ms), zoom: ""});
    const items = () => [
        {label: "the time just before", run: () => patch({base_query: s.query, base_from: before(s.now).from, base_to: before(s.now).to, zoom: ""})},
        {label: "an hour earlier", run: () => patch(shift(3600e3))}, {label: "yesterday", run: () => patch(shift(86400e3))}, {label: "a week ago", run: () => patch(shift(604800e3))},
        ...(versions.length > 1 ? ["-", ...versions.slice(0, -1).map((v, i) => ({label: `version ${shortVersion(v)} → ${shortVersion(versions[i + 1])}`, run: () => patch({
            base_query: withMatcher(s.query, version, v), query: withMatcher(s.query, version, versions[i + 1]), base_from: p.from, base_to: p.to, zoom: ""})}))] : []),
        "-", {label: "swap sides", run: () => patch({query: s.baseQuery, from: s.base.from, to: s.base.to, base_query: s.query, base_from: s.now.from, base_to: s.now.to, zoom: ""})},
    ];
    return html`<${Drop} label="Compare with" items=${items} />`;
}

// What is compared when the URL selects nothing: both sides of the latest deploy, or null without one. Undefined until it is known.
function useLatestDeploy(wanted) {
    const {data, error} = useData(wanted ? apiUrl("deploys", {query: "cpu", from: "now-1d"}) : null);
    return useMemo(() => {
        const [latest] = deploysOf(data?.deploys ?? []);
        return latest ? sidesOf(latest) : data || error || !wanted ? null : undefined;
    }, [data, error, wanted]);
}

const selecting = ["query", "from", "to", "base_query", "base_from", "base_to"];

export function Compare() {
    const p = useParams();
    const wrong = p && (timeProblem(p) || (p.base_from || p.base_to ? timeProblem(p, "base_") : "") || urlProblem(p));
    const bare = !!p && !p.timeless && selecting.every((k) => !p[k]);
    const latest = useLatestDeploy(bare);
    const fixed = p && !p.timeless && !wrong && latest !== undefined ? pinned({...p, ...latest}) ?? (latest && {...p, ...latest}) : null;
    useEffect(() => {
        if (fixed) go("compare", fixed, {replace: true});
    });
    if (wrong) return html`<h1 class="sr">Compare</h1><${Wrong} text=${wrong} />`;
    return p && latest !== undefined ? html`<${Page} p=${fixed ?? p} />` : html`<h1 class="sr">Compare</h1><${Loading} />`;
}

function Page({p}) {
    const s = sides(p);
    useStatus();
    const files = overFiles.value; // known before this is rendered, so that nothing moves
    const view = p.view === "table" || p.view === "sides" ? p.view : "flame";
    const q = {query: s.query, from: s.now.from, to: s.now.to, base_query: s.baseQuery, base_from: s.base.from, base_to: s.base.to, focus: p.focus, ignore: p.ignore, hide: p.hide};
    useEffect(() => listen({...Object.fromEntries(views.map(([v, , key]) => [key, () => patch({view: v === "flame" ? "" : v})])), ...drawKeys}), []);
    const tree = useTree(view === "table" ? null : {...q, by: "filefunction", max_nodes: p.nodes ?? NODES}, p.zoom);
    const [found, setFound] = useState(null);
    const cover = tree.cover, t = tree.whole ?? tree.data;
    const mode = t ? modeOf(p, t.type, cover) : p.mode || "second";
    return html`<h1 class="sr">Compare</h1>
        ${files ? html`<div class="bar"><${FileBar} query=${s.query} /></div>` : html`<div class="sides">
            <div class="side"><span class="side-name">before</span><${Selector} name="before: " query=${s.baseQuery} range=${s.base} onQuery=${(v) => patch({base_query: v, zoom: ""})} />
                <span class="grow"></span><${TimePicker} label="time before" range=${s.base} onPick=${(r) => patch({base_from: r.from, base_to: r.to || "now", zoom: ""})} /></div>
            <div class="side"><span class="side-name">now</span><${Selector} name="now: " query=${s.query} range=${s.now} onQuery=${(v) => patch({query: v, zoom: ""})} />
                <span class="grow"></span><${TimePicker} label="time now" range=${s.now} onPick=${(r) => patch({from: r.from, to: r.to || "now", zoom: ""})} /></div></div>`}
        <div class="toolbar"><${Choice} label="view" value=${view} options=${views} onPick=${(v) => patch({view: v === "flame" ? "" : v})} />
            <${Choice} label="compare by" value=${p.mode === "share" || p.mode === "total" ? p.mode : mode === "second" ? "" : mode} options=${files ? modes.slice(1) : modes} onPick=${(v) => patch({mode: v})} />
            <${SearchBox} value=${p.search ?? ""} found=${found} onInput=${(v) => patch({search: v}, {replace: true})} /><${Filters} params=${p} />
            ${!files && html`<${Presets} p=${p} s=${s} />`}<${Drop} label="Export" items=${() => compareItems(q, view === "flame" ? `${pictureTitle(q, s.now)} against ${pictureTitle({query: s.baseQuery}, s.base)}` : "")} /><span class="grow"></span>
            ${view !== "table" && html`<${DrawOptions} params=${p} diff=${view === "flame"} />`}</div>
        ${view !== "table" && html`<div class="diff-head">${t ? html`<${DiffSum} t=${t} cover=${cover} mode=${mode} />` : html`<span class="total"></span>`}<span class="grow"></span>${view === "flame" && html`<${DiffLegend} />`}</div>`}
        <div class="pane">${view === "table" ? html`<${TopTable} p=${p} q=${q} diff select />`
        : html`<${Loaded} of=${tree} what="both selections" empty=${(d) => !(d.total[0][0] > 0) && !(d.total[1]?.[0] > 0)} nothing=${html`<${Box} title="Neither side has profiles">
            <p>Choose another time range or other labels above.</p><p><button onClick=${() => patch({from: "now-1d", to: "now", base_from: "", base_to: ""})}>The last day against the day before</button></p><//>`}>
            ${(d) => view === "sides" ? html`<${Sides} t=${d} p=${p} cover=${cover} onFound=${setFound} />` : html`<${OneSided} t=${d} /><${FlamePane} tree=${d} params=${p} cover=${cover} mode=${mode} onFound=${setFound} rootName="both" label="Difference flame graph" />`}<//>`}</div>`;
}

function OneSided({t}) {
    const missing = !(t.total[0][0] > 0) ? "before" : !(t.total[1]?.[0] > 0) ? "now" : "";
    return missing && html`<p class="note" role="status">There are no profiles ${missing === "before" ? "on the side “before”" : "on the side “now”"}: everything looks ${missing === "before" ? "new" : "gone"}. Pick another time or version.</p>`;
}

function Sides({t, p, cover, onFound}) {
    const a = useMemo(() => columnOf(t, 0), [t]), b = useMemo(() => (t.columns > 1 ? columnOf(t, 1) : t), [t]);
    const params = p.color === "diff" ? {...p, color: ""} : p;
    const of = (ns) => cover && {...cover, ns}, before = {...params, query: p.base_query || p.query, from: p.base_from, to: p.base_to};
    return html`<div class="half-half"><section aria-label="before"><h2>before <span class="muted num">${amount(a.total[0][0], t.unit, t.type)}</span></h2><${FlamePane} tree=${a} params=${before} cover=${of(cover?.base)} rootName="before" label="Before" side /></section>
        <section aria-label="now"><h2>now <span class="muted num">${amount(b.total[0][0], t.unit, t.type)}</span></h2><${FlamePane} tree=${b} params=${params} cover=${of(cover?.ns)} onFound=${onFound} rootName="now" label="Now" side /></section></div>`;
}
