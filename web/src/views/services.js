// SPDX-License-Identifier: Apache-2.0
// Services: what matters first. The biggest consumers and what changed most, then services by CPU with trends and versions;
// programs that run for moments are folded.
import {html} from "htm/preact";
import {useMemo} from "preact/hooks";
import {apiUrl, coverageOf, useData} from "../lib/api.js";
import {changeText, comparison, modeOf} from "../lib/diff.js";
import {functionName, isBuildId, isDeploy, shortVersion} from "../lib/names.js";
import {serviceQuery} from "../lib/selector.js";
import {rangeOf, seconds, settledNow, startOf, timeProblem} from "../lib/time.js";
import {amount, clock, cost, digitsOf, moment, percent, perStep, rate, samplesOf} from "../lib/units.js";
import {href, patch, route} from "../lib/url.js";
import {TimePicker, useTypes} from "../parts/bar.js";
import {bridged, complete, Spark} from "../parts/chart.js";
import {LiveState} from "../parts/livestate.js";
import {useStatus} from "../parts/shell.js";
import {Box, fresh, Loaded, Loading, Wrong} from "../parts/states.js";
import {Bar} from "../parts/table.js";

const types = [["cpu", "CPU"], ["alloc", "allocation"], ["heap", "heap"], ["lock", "locks"], ["offcpu", "off-CPU"]];
const sum = (a) => a.reduce((x, y) => x + y, 0);
const ROWS = 10;

// Per service: its values over time, total and covered time of one type, and in how many steps it was seen.
function byService(data, live) {
    const out = new Map();
    if (!data) return out;
    const n = complete(data, live);
    for (const s of data.series) {
        const name = s.labels["service.name"] ?? "";
        const values = bridged(s.values.slice(0, n).map((v, i) => perStep(v, data.unit, data.type, s.coverage[i])));
        out.set(name, {values, total: sum(s.values), ns: sum(s.coverage), seen: s.values.filter((v) => v > 0).length});
    }
    return out;
}

// Programs of the system and shells, whatever else is known about them.
const system = /^(kernel$|kworker|ksoftirqd|kcompactd|kswapd|rcu_|migration|systemd(-\w+)?$|init$|dbus-(daemon|broker)|sshd?$|cron$|agetty|login$|bash$|sh$|dash$|zsh$|sudo$|apt(-get)?$|dpkg|ps$|ls$|grep$|sed$|awk$|cat$|find$|git$|make$|ninja$|cc1(plus)?$|gcc$|g\+\+$|as$|ld$|clang|rg$|top$|udevd|polkitd|rsyslogd|unknown_service$)/;

// A service is what keeps running: seen for at least half of the time that any program was seen, and not as processes that were too
// short to be identified, unless it uses much. What an SDK, a container or a pod has given a version that is not a build id is one
// in any case.
const MUCH = 0.05;
function isService(name, cpu, deploys, {steps, whole}) {
    if (system.test(name)) return false;
    if (deploys?.some((d) => d.version && !isBuildId(d.version))) return true;
    if (!cpu) return true; // no CPU time: another type is sent on purpose
    if (cpu.seen < Math.max(1, steps / 2)) return false;
    const unidentified = deploys?.some((d) => !d.version) && deploys.some((d) => d.version);
    return !unidentified || cpu.total >= MUCH * whole;
}

function Trend({type, of, unit}) {
    if (!of || !(of.total > 0)) return html`<span class="muted">–</span>`;
    const value = type === "heap" ? of.total / Math.max(1, of.seen) : of.total;
    return html`<span class="trend"><${Spark} values=${of.values} width=${72} height=${24} color=${types.findIndex((t) => t[0] === type)} label=${`${type} over time`} />
        <span class="num">${rate(value, unit, type, of.ns)}</span></span>`;
}

// The version that runs, and the deploy that brought it, with a link that compares it with the one before.
function Versions({list, name, range}) {
    const last = list?.find((d) => d.latest && d.version);
    if (!last) return html`<span class="muted">–</span>`;
    const prev = list.filter((d) => d !== last && d.version && Number(d.first) < Number(last.since)).sort((a, b) => Number(b.last) - Number(a.last))[0];
    const at = Number(last.since) / 1e6, ends = {from: seconds(range.fromMs), to: seconds(range.live ? settledNow() : range.toMs)};
    const link = prev && last.deployed && isDeploy(last, list) && href("compare", {query: serviceQuery("cpu", name, {name: "service.version", op: "=", value: last.version}),
        base_query: serviceQuery("cpu", name, {name: "service.version", op: "=", value: prev.version}), ...ends, base_from: ends.from, base_to: ends.to});
    return html`<span><span class="badge" title=${last.version}>${shortVersion(last.version)}</span> ${link ? html`<a class="small-link" title=${`${shortVersion(prev.version)} → ${shortVersion(last.version)}, since ${clock(at)}: compare the two`} href=${link}>${Number(last.first) < Number(last.since) ? "back" : "deployed"} ${moment(at)}</a>` : ""}</span>`;
}

const present = (list, type) => (list.data ?? []).some((s) => s.types.includes(type));

export function Services() {
    const p = route.value.params;
    const wrong = timeProblem(p);
    return wrong ? html`<h1>Services</h1><${Wrong} text=${wrong} />` : html`<${Page} p=${p} />`;
}

function Page({p}) {
    const range = rangeOf(p), live = range.live;
    const at = {from: range.from, to: range.to};
    const status = useStatus().data;
    useTypes();
    const list = useData(apiUrl("services", at), {live});
    const series = (type) => useData(type === "cpu" || present(list, type) ? apiUrl("series", {query: type, ...at, group_by: "service.name"}) : null, {live});
    const sets = {cpu: series("cpu"), alloc: series("alloc"), heap: series("heap"), lock: series("lock"), offcpu: series("offcpu")};
    const deploys = useData(apiUrl("deploys", {query: "cpu", ...at}), {live});
    const maps = useMemo(() => Object.fromEntries(Object.entries(sets).map(([k, d]) => [k, byService(d.data, live)])), Object.values(sets).map((d) => d.data));
    const versions = useMemo(() => Map.groupBy ? Map.groupBy(deploys.data?.deploys ?? [], (d) => d.service) : grouped(deploys.data?.deploys ?? []), [deploys.data]);
    // All at once: rows that arrive later would move others.
    const ready = list.data && [deploys, sets.cpu, ...Object.keys(sets).filter((t) => present(list, t)).map((t) => sets[t])].every((d) => d.data || d.error);
    const whole = sum([...maps.cpu.values()].map((e) => e.total)), covered = sum(sets.cpu.data?.coverage ?? []);
    const steps = sets.cpu.data ? sets.cpu.data.coverage.filter((c) => c > 0).length : 0;
    return html`<div class="bar"><h1>Services</h1><span class="grow"></span>
            ${whole > 0 && status && html`<span class="num total">${rate(whole, "nanoseconds", "cpu", covered)}${status?.pricePerCoreHour ? ` · ${cost(whole, "cpu", covered, status.pricePerCoreHour, status.currency)}` : ""}</span>`}
            <input class="filter" type="search" aria-label="filter services" placeholder="filter services" value=${p.search ?? ""} onInput=${(e) => patch({search: e.currentTarget.value}, {replace: true})} />
            <${LiveState} range=${range} /><${TimePicker} range=${range} onPick=${(r) => patch(r)} /></div>
        ${!list.error && !ready ? html`<${Loading} what="services" />` : html`<div class="services">
        <div class="two"><${Biggest} at=${at} live=${live} /><${Changed} range=${range} /></div>
        <${Loaded} of=${list} what="services" empty=${(d) => !d.length} nothing=${html`<${Box} title="No data received in this time range">
            <p><button onClick=${() => patch({from: "now-7d", to: ""})}>Show the last 7 days</button> <a class="button main" href=${href("start")}>How to send profiles</a></p><//>`}>
            ${(services) => html`<${Lists} services=${services} of=${{maps, versions, sets, range, whole, status, p, steps}} />`}<//></div>`}`;
}

function grouped(list) {
    const out = new Map();
    for (const d of list) out.set(d.service, [...(out.get(d.service) ?? []), d]);
    return out;
}

// Services above, programs that run for moments and the system's own folded below.
function Lists({services, of}) {
    const {maps, versions, p} = of;
    const low = (p.search ?? "").toLowerCase();
    const kept = services.filter((s) => s.name.toLowerCase().includes(low));
    const main = kept.filter((s) => isService(s.name, maps.cpu.get(s.name), versions.get(s.name), of)), rest = kept.filter((s) => !main.includes(s));
    const open = p.others === "1" || low !== "" || !main.length;
    return html`${main.length || !rest.length ? html`<${Rows} services=${main} of=${of} caption="services" none=${low ? `No service has “${p.search}” in its name.` : ""} />` : ""}
        ${rest.length ? html`<section class="fold"><button class="quiet" aria-expanded=${String(open)} onClick=${() => patch({others: open ? "" : "1"}, {replace: true})}><span aria-hidden="true">${open ? "▾" : "▸"}</span> ${rest.length} short-lived and system programs
            <span class="muted num">${percent(sum(rest.map((s) => maps.cpu.get(s.name)?.total ?? 0)) / (of.whole || 1))} of CPU</span></button>
            ${open && html`<${Rows} services=${rest} of=${of} caption="short-lived and system programs" />`}</section>` : ""}`;
}

const orders = {
    name: (of) => (a, b) => a.name.localeCompare(b.name),
    ...Object.fromEntries(types.map(([t]) => [t, (of) => (a, b) => (of.maps[t].get(b.name)?.total ?? 0) - (of.maps[t].get(a.name)?.total ?? 0) || a.name.localeCompare(b.name)])),
    version: (of) => (a, b) => since(of, b.name) - since(of, a.name) || a.name.localeCompare(b.name),
};
const since = (of, name) => Number(of.versions.get(name)?.find((d) => d.latest)?.since ?? 0);

function Head({title, by, p, num, plain}) {
    const mine = !plain && (p.sort || "cpu") === by;
    return html`<th scope="col" class=${num ? "num" : ""} aria-sort=${mine ? (by === "name" ? "ascending" : "descending") : undefined}><button class="head" onClick=${() => patch({sort: by === "cpu" ? "" : by}, {replace: true})}>${title}<span aria-hidden="true">${mine ? (by === "name" ? " ↑" : " ↓") : ""}</span></button></th>`;
}

function Rows({services, of, caption, none}) {
    const {maps, versions, sets, range, whole, status, p} = of;
    const shown = types.filter(([t]) => maps[t].size);
    const rows = [...services].sort((orders[p.sort] ?? orders.cpu)(of));
    const price = status?.pricePerCoreHour;
    return html`<div class="panel scroll-x" tabindex="0" role="region" aria-label=${caption}><table class="trends"><caption class="sr">${caption}</caption><thead><tr><${Head} title="service" by="name" p=${p} />
        <${Head} title="share of CPU" by="cpu" p=${p} num />${shown.map(([t, title]) => html`<${Head} key=${t} title=${title} by=${t} p=${p} plain=${t === "cpu"} />`)}<${Head} title="version" by="version" p=${p} />${price ? html`<th scope="col" class="num">cost</th>` : ""}</tr></thead>
        <tbody>${rows.map((s) => {
            const c = maps.cpu.get(s.name), n = samplesOf(c?.total ?? 0, "nanoseconds", coverageOf(sets.cpu.data).rate);
            return html`<tr key=${s.name}><th scope="row" title=${s.name}><a href=${href("explore", {query: serviceQuery(s.types.includes("cpu") ? "cpu" : s.types[0], s.name), from: p.from, to: p.to})}>${s.name || "(unnamed)"}</a></th>
                <td class="num" title=${n !== undefined ? `${Math.round(n)} samples` : undefined}>${c && whole ? html`<${Bar} share=${c.total / whole}>${percent(c.total / whole, undefined, digitsOf(n))}<//>` : "–"}</td>
                ${shown.map(([t]) => html`<td><a class="plain" tabindex="-1" href=${href("explore", {query: serviceQuery(t, s.name), from: p.from, to: p.to})}><${Trend} type=${t} of=${maps[t].get(s.name)} unit=${sets[t].data?.unit} /></a></td>`)}
                <td class="rest"><${Versions} list=${versions.get(s.name)} name=${s.name} range=${range} /></td>
                ${price ? html`<td class="num">${c ? cost(c.total, "cpu", c.ns, price, status.currency) : ""}</td>` : ""}</tr>`;
        })}</tbody></table>${!rows.length && none ? html`<p class="muted foot">${none}</p>` : ""}</div>`;
}

function Biggest({at, live}) {
    const top = useData(apiUrl("top", {query: "cpu", ...at, sort: "self", limit: ROWS}), {live});
    return html`<section class="panel tall" aria-label="biggest consumers"><h2>Biggest consumers <span class="muted">functions by their own CPU time</span></h2>
        <${Loaded} of=${top} what="functions" empty=${(d) => !d.rows.length} nothing=${html`<p class="muted foot">No CPU profiles in this range.</p>`}>${(d) => html`<table><caption class="sr">functions by own CPU time</caption><thead><tr><th scope="col">function</th><th scope="col" class="num">self</th><th scope="col" class="num">share</th></tr></thead>
        <tbody>${d.rows.map((r) => {
            const digits = digitsOf(samplesOf(r.self, d.unit, coverageOf(d).rate));
            return html`<tr><td class="wide"><a class="fn" title=${r.name} href=${href("explore", {query: "cpu", from: at.from, to: at.to === "now" ? "" : at.to, view: "sandwich", fn: r.name})}>${functionName(r.name)}</a></td>
            <td class="num">${amount(r.self, d.unit, d.type, digits)}</td><td class="num"><${Bar} share=${r.self / d.total}>${percent(r.self / d.total, undefined, digits)}<//></td></tr>`;
        })}</tbody></table>`}<//></section>`;
}


// Compares the later half of the range with the earlier one, per covered second. Changes within the sampling noise are left
// out.
function Changed({range}) {
    const end = range.live ? settledNow() : range.toMs, start = startOf(range), whole = (ms) => Math.floor(ms / 60e3) * 60; // one request a minute
    const to = range.live ? whole(end) : Math.floor(range.toMs / 1000), young = start > range.fromMs && to - start / 1000 > 20;
    const from = young ? Math.floor(start / 1000) : whole(range.live ? end - (range.toMs - range.fromMs) : start), mid = Math.floor((from + to) / 2);
    const q = {query: "cpu", base_query: "cpu", base_from: String(from), base_to: String(mid), from: String(mid), to: String(to)};
    const top = useData(apiUrl("top", {...q, sort: "delta", limit: 60}));
    const rows = (d) => {
        const cover = coverageOf(d), diff = comparison({mode: modeOf({}, d.type, cover), unit: d.unit, type: d.type, cover, whole: d.total});
        return {diff, list: d.rows.map((r) => ({r, x: diff.of(r.self[0], r.self[1])})).filter(({x}) => x.significant).sort((a, b) => Math.abs(b.x.d) - Math.abs(a.x.d)).slice(0, ROWS)};
    };
    return html`<section class="panel tall" aria-label="what changed most"><h2>What changed most <span class="muted">later half against earlier half, per second</span></h2>
        <${Loaded} of=${top} what="changes" empty=${(d) => !d.rows.length || !d.total[0] || !d.total[1]} nothing=${html`<p class="muted foot">Only one half of this time range has profiles: nothing to compare.</p>`}>${(d) => {
            const {diff, list} = rows(d);
            if (!list.length) return html`<p class="muted foot">Nothing changed by more than the sampling noise.</p>`;
            return html`<table><caption class="sr">functions whose rate changed most</caption><thead><tr><th scope="col">function</th><th scope="col" class="num">before</th><th scope="col" class="num">now</th><th scope="col" class="num change">change</th></tr></thead>
        <tbody>${list.map(({r, x}) => html`<tr><td class="wide"><a class="fn" title=${r.name} href=${href("compare", {...q, search: "^" + r.name.replace(/[.*+?^${}()|[\]\\]/g, "\\$&") + "$"})}>${functionName(r.name)}</a></td>
            <td class="num">${fresh(diff.show(r.self[0], 0, digitsOf(diff.samples(r.self[0]))))}</td><td class="num">${fresh(diff.show(r.self[1], 1, digitsOf(diff.samples(r.self[1]))))}</td><td class=${"num change " + (x.d > 0 ? "more" : "less")} title=${changeText(x)}>${fresh(changeText(x))}</td></tr>`)}</tbody></table>`;
        }}<//></section>`;
}
