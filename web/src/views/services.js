// SPDX-License-Identifier: Apache-2.0
// Services: trends of CPU, allocation, memory, locks and off-CPU time, versions and deploys, the biggest consumers, and what
// changed most.
import {html} from "htm/preact";
import {useMemo} from "preact/hooks";
import {apiUrl, useData} from "../lib/api.js";
import {shortName, shortVersion} from "../lib/names.js";
import {serviceQuery} from "../lib/selector.js";
import {rangeOf, seconds} from "../lib/time.js";
import {amount, clock, cost, percent, points, rate} from "../lib/units.js";
import {href, patch, route} from "../lib/url.js";
import {TimePicker, useTypes} from "../parts/bar.js";
import {Spark} from "../parts/chart.js";
import {useStatus} from "../parts/shell.js";
import {Box, Loaded, Loading} from "../parts/states.js";
import {Bar} from "../parts/table.js";

const types = [["cpu", "CPU"], ["alloc", "allocation"], ["heap", "heap"], ["lock", "locks"], ["offcpu", "off-CPU"]];
const sum = (a) => a.reduce((x, y) => x + y, 0);

// Per service: its values, total and covered time of one type, and when its versions were first seen.
function byService(data) {
    const out = new Map();
    if (!data) return out;
    const from = Number(data.from) / 1e6, step = Number(data.step) / 1e6;
    for (const s of data.series) {
        const name = s.labels["service.name"] ?? "";
        const e = out.get(name) ?? {values: s.values.map(() => 0), total: 0, ns: 0, versions: []};
        s.values.forEach((v, i) => (e.values[i] += v));
        e.total += sum(s.values);
        e.ns = Math.max(e.ns, sum(s.coverage));
        const version = s.labels["service.version"], at = s.values.findIndex((v) => v > 0);
        if (version && at >= 0) e.versions.push({version, since: from + at * step, first: at === 0});
        out.set(name, e);
    }
    for (const e of out.values()) e.versions.sort((a, b) => a.since - b.since);
    return out;
}

function Trend({type, of, unit}) {
    if (!of || !(of.total > 0)) return html`<span class="muted">–</span>`;
    const value = type === "heap" ? of.total / Math.max(1, of.values.filter((v) => v > 0).length) : of.total;
    return html`<span class="trend"><${Spark} values=${of.values} width=${72} height=${24} color=${types.findIndex((t) => t[0] === type)} label=${`${type} over time`} />
        <span class="num">${rate(value, unit, type, of.ns)}</span></span>`;
}

function Versions({list, name, range}) {
    if (!list?.length) return html`<span class="muted">–</span>`;
    const last = list[list.length - 1], prev = list[list.length - 2];
    return html`<span><span class="badge" title=${last.version}>${shortVersion(last.version)}</span> ${prev && !last.first ? html`<a class="small-link" title=${`${shortVersion(prev.version)} → ${shortVersion(last.version)}, deployed ${clock(last.since)}: compare the two`} href=${href("compare", {
        query: serviceQuery("cpu", name, {name: "service.version", op: "=", value: last.version}), base_query: serviceQuery("cpu", name, {name: "service.version", op: "=", value: prev.version}),
        from: range.from, to: range.to === "now" ? "" : range.to, base_from: range.from, base_to: range.to === "now" ? "" : range.to})}>deployed ${clock(last.since, {seconds: false})}</a>` : ""}</span>`;
}

export function Services() {
    const p = route.value.params;
    const range = rangeOf(p);
    const at = {from: range.from, to: range.to};
    const status = useStatus().data;
    useTypes();
    const list = useData(apiUrl("services", at));
    const cpu = useData(apiUrl("series", {query: "cpu", ...at, group_by: "service.name"}));
    const versions = useData(apiUrl("series", {query: "cpu", ...at, group_by: "service.name,service.version"}));
    const alloc = useData(apiUrl("series", {query: "alloc", ...at, group_by: "service.name"}));
    const heap = useData(apiUrl("series", {query: "heap", ...at, group_by: "service.name"}));
    const lock = useData(apiUrl("series", {query: "lock", ...at, group_by: "service.name"}));
    const off = useData(apiUrl("series", {query: "offcpu", ...at, group_by: "service.name"}));
    const sets = {cpu, alloc, heap, lock, offcpu: off};
    const maps = useMemo(() => Object.fromEntries(Object.entries(sets).map(([k, d]) => [k, byService(d.data)])), [cpu.data, alloc.data, heap.data, lock.data, off.data]);
    const deployed = useMemo(() => byService(versions.data), [versions.data]);
    // All at once: rows that arrive later would move others.
    const ready = list.data && [versions, ...Object.values(sets)].every((d) => d.data || d.error);
    const whole = sum([...maps.cpu.values()].map((e) => e.total)), covered = sum(cpu.data?.coverage ?? []);
    return html`<div class="bar"><h1>Services</h1><span class="grow"></span>
            ${whole > 0 && html`<span class="num total">${rate(whole, "nanoseconds", "cpu", covered)}${status?.pricePerCoreHour ? ` · ${cost(whole, "cpu", covered, status.pricePerCoreHour, status.currency)}` : ""}</span>`}
            <${TimePicker} range=${range} onPick=${(r) => patch(r)} /></div>
        ${!list.error && !ready ? html`<${Loading} what="services" />` : html`<div class="services"><${Loaded} of=${list} what="services" empty=${(d) => !d.length} nothing=${html`<${Box} title="No data received in this time range">
            <p><button onClick=${() => patch({from: "now-7d", to: ""})}>Show the last 7 days</button> <a class="button main" href=${href("start")}>How to send profiles</a></p><//>`}>
            ${(services) => html`<${Rows} services=${services} maps=${maps} deployed=${deployed} sets=${sets} range=${range} whole=${whole} status=${status} p=${p} />`}<//>
        <div class="two"><${Biggest} at=${at} /><${Changed} range=${range} /></div></div>`}`;
}

function Rows({services, maps, deployed, sets, range, whole, status, p}) {
    const present = types.filter(([t]) => maps[t].size);
    const rows = [...services].sort((a, b) => (maps.cpu.get(b.name)?.total ?? 0) - (maps.cpu.get(a.name)?.total ?? 0) || a.name.localeCompare(b.name));
    return html`<div class="panel scroll-x" tabindex="0" role="region" aria-label="services"><table class="trends"><caption class="sr">Services by CPU</caption><thead><tr><th scope="col">service</th>
        <th scope="col" class="num">share of CPU</th>${present.map(([t, title]) => html`<th scope="col">${title}</th>`)}<th scope="col">version</th>${status?.pricePerCoreHour ? html`<th scope="col" class="num">cost</th>` : ""}</tr></thead>
        <tbody>${rows.map((s) => {
            const c = maps.cpu.get(s.name);
            return html`<tr key=${s.name}><th scope="row" title=${s.name}><a href=${href("explore", {query: serviceQuery(s.types.includes("cpu") ? "cpu" : s.types[0], s.name), from: p.from, to: p.to})}>${s.name || "(unnamed)"}</a></th>
                <td class="num">${c && whole ? html`<${Bar} share=${c.total / whole}>${percent(c.total / whole)}<//>` : "–"}</td>
                ${present.map(([t]) => html`<td><a class="plain" tabindex="-1" href=${href("explore", {query: serviceQuery(t, s.name), from: p.from, to: p.to})}><${Trend} type=${t} of=${maps[t].get(s.name)} unit=${sets[t].data?.unit} /></a></td>`)}
                <td class="rest"><${Versions} list=${deployed.get(s.name)?.versions} name=${s.name} range=${range} /></td>
                ${status?.pricePerCoreHour ? html`<td class="num">${c ? cost(c.total, "cpu", c.ns, status.pricePerCoreHour, status.currency) : ""}</td>` : ""}</tr>`;
        })}</tbody></table></div>`;
}

function Biggest({at}) {
    const top = useData(apiUrl("top", {query: "cpu", ...at, sort: "self", limit: 14}));
    return html`<section class="panel tall" aria-label="biggest consumers"><h2>Top CPU consumers</h2>
        <${Loaded} of=${top} what="functions" empty=${(d) => !d.rows.length} nothing=${html`<p class="muted foot">No CPU profiles in this range.</p>`}>${(d) => html`<table><caption class="sr">functions by own CPU time</caption><thead><tr><th scope="col">function</th><th scope="col" class="num">self</th><th scope="col" class="num">share</th></tr></thead>
        <tbody>${d.rows.map((r) => html`<tr><td class="wide"><a class="fn" title=${r.name} href=${href("explore", {query: "cpu", from: at.from, to: at.to === "now" ? "" : at.to, view: "sandwich", fn: r.name})}>${shortName(r.name)}</a></td>
            <td class="num">${amount(r.self, d.unit, d.type)}</td><td class="num"><${Bar} share=${r.self / d.total}>${percent(r.self / d.total)}<//></td></tr>`)}</tbody></table>`}<//></section>`;
}

// Compares the later half of the range with the earlier one.
function Changed({range}) {
    const mid = seconds((range.fromMs + range.toMs) / 2);
    // Whole minutes, so that the request stays the same while the page is open.
    const m = String(Math.floor(mid / 60) * 60);
    const q = {query: "cpu", base_query: "cpu", base_from: range.live ? range.from : seconds(range.fromMs), base_to: m, from: m, to: range.live ? "" : seconds(range.toMs)};
    const top = useData(apiUrl("top", {...q, sort: "share", limit: 14}));
    return html`<section class="panel tall" aria-label="what changed most"><h2>What changed most <span class="muted">later half against earlier half</span></h2>
        <${Loaded} of=${top} what="changes" empty=${(d) => !d.rows.length || !d.total[0] || !d.total[1]} nothing=${html`<p class="muted foot">Only one half of this time range has profiles: nothing to compare.</p>`}>${(d) => html`<table><caption class="sr">functions whose share changed most</caption><thead><tr><th scope="col">function</th><th scope="col" class="num">before</th><th scope="col" class="num">now</th><th scope="col" class="num">change</th></tr></thead>
        <tbody>${d.rows.map((r) => {
            const a = r.self[0] / d.total[0], b = r.self[1] / d.total[1];
            return html`<tr><td class="wide"><a class="fn" title=${r.name} href=${href("compare", {...q, search: "^" + r.name.replace(/[.*+?^${}()|[\]\\]/g, "\\$&") + "$"})}>${shortName(r.name)}</a></td>
            <td class="num">${percent(a)}</td><td class="num">${percent(b)}</td><td class=${"num " + (b > a ? "more" : "less")}>${points(b - a)}</td></tr>`;
        })}</tbody></table>`}<//></section>`;
}
