// SPDX-License-Identifier: Apache-2.0
// The page of one function: what it costs, how that developed over 30 days by version, when it was first seen, who calls it,
// what it calls, its lines and its instructions.
import {html} from "htm/preact";
import {useMemo} from "preact/hooks";
import {apiUrl, useData} from "../lib/api.js";
import {seriesColor, themeOf} from "../lib/color.js";
import {shortVersion} from "../lib/names.js";
import {valueOf} from "../lib/selector.js";
import {rangeOf, timeProblem} from "../lib/time.js";
import {treeOfJson} from "../lib/tree.js";
import {amount, axisTitle, clock, cost, digitsOf, number, percent, rate, samplesOf} from "../lib/units.js";
import {href, patch, route} from "../lib/url.js";
import {urlProblem} from "../lib/wrong.js";
import {AlertButton} from "../parts/alertbutton.js";
import {Selector, TimePicker} from "../parts/bar.js";
import {Chart, complete} from "../parts/chart.js";
import {LiveState} from "../parts/livestate.js";
import {useStatus} from "../parts/shell.js";
import {Box, Loaded, Wrong} from "../parts/states.js";
import {Assembly} from "./assembly.js";
import {ask} from "./explore.js";
import {coverOf, FunctionPicker, Sandwich, useCallers, useFunctions} from "./sandwich.js";
import {Source} from "./source.js";

export function FunctionPage() {
    const p = route.value.params;
    const wrong = timeProblem(p) || urlProblem(p);
    return wrong ? html`<h1 class="sr">Function</h1><${Wrong} text=${wrong} />` : html`<${Page} p=${p} />`;
}

function Page({p}) {
    const range = rangeOf(p), q = ask(p, range), top = useFunctions(q);
    return html`<div class="bar"><h1 class="fn function-name" title=${p.fn}>${p.fn || "Function"}</h1><span class="grow"></span><${LiveState} range=${range} /><${TimePicker} range=${range} onPick=${(r) => patch(r)} /></div>
        <div class="bar"><${Selector} query=${q.query} range=${range} onQuery=${(query) => patch({query})} /><span class="grow"></span>
            ${p.fn && html`<${AlertButton} query=${q.query} fn=${p.fn} /><a class="button" href=${href("explore", {query: p.query, from: p.from, to: p.to, focus: `^${p.fn.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")}$`})}>Flame graph of its stacks</a>`}</div>
        ${p.fn ? html`<div class="services"><${Facts} p=${p} q=${q} range=${range} top=${top} /><${Trend} p=${p} q=${q} />
            <section class="panel function-pane" aria-label="callers and callees"><${Sandwich} p=${p} q=${q} range=${range} bare /></section>
            <section class="panel function-pane" aria-label="source lines"><h2>Lines</h2><${Source} p=${p} q=${q} range=${range} bare /></section><${Assembly} p=${p} q=${q} range=${range} /></div>`
        : html`<${FunctionPicker} p=${p} top=${top} /><${Box} title="Pick a function"><p>Choose one above.</p><//>`}`;
}

// Weight in the selection, rank, cost. The table has a row for each file that a Python function of this name is in; the page is
// about all of them.
function Facts({p, q, range, top}) {
    const status = useStatus().data, callers = useCallers(p, q, range).data;
    const t = useMemo(() => callers && treeOfJson(callers.callees), [callers]), one = (title, value) => html`<div><dt>${title}</dt><dd class="num">${value}</dd></div>`;
    if (!t || !top.data) return html`<dl class="panel facts">${one("total", "…")}</dl>`;
    const total = t.total[0][0], self = t.self[0][0], cover = coverOf(callers), n = samplesOf(total, t.unit, cover.rate), digits = digitsOf(n), selfDigits = digitsOf(samplesOf(self, t.unit, cover.rate));
    if (!total) return html`<dl class="panel facts">${one("total", "not in this selection")}</dl>`;
    const rows = top.data.rows, at = rows.findIndex((r) => r.name === p.fn), files = new Set(rows.filter((r) => r.name === p.fn).map((r) => r.file)), [file] = files.size === 1 ? files : [];
    const money = status?.pricePerCoreHour ? cost(total, t.type, cover.ns, status.pricePerCoreHour, status.currency) : "";
    return html`<dl class="panel facts">
        ${one("total", `${percent(total / callers.total, undefined, digits)} · ${amount(total, t.unit, t.type, digits)}`)}${one("rate", rate(total, t.unit, t.type, cover.ns, digits))}
        ${one("self", `${percent(self / callers.total, undefined, selfDigits)} · ${amount(self, t.unit, t.type, selfDigits)}`)}${n !== undefined ? one("samples", `${number(Math.round(n))} at ${cover.rates.join("–")} Hz`) : ""}
        ${at >= 0 ? one("rank", `${at + 1} of ${top.data.count}, by total`) : ""}${money ? one("cost", money) : ""}${file ? one("file", html`<span class="fn" title=${file}>${file.slice(file.lastIndexOf("/") + 1)}</span>`) : ""}</dl>`;
}

// As long as there are profiles, up to 30 days; by version of the service or, without one, by service.
const spans = [["now-30d", "30 days"], ["now-1d", "a day"], ["now-2h", "2 hours"], ["now-15m", "15 minutes"]];
function Trend({p, q}) {
    const service = valueOf(q.query, "service.name"), by = service ? "service.version" : "service.name";
    const asked = [];
    for (const [from] of spans) asked.push(useData(asked.every((a) => tooShort(a.data)) ? apiUrl("series", {query: q.query, from, function: p.fn, group_by: by}) : null));
    const enough = asked.findIndex((a) => !tooShort(a.data)), at = enough < 0 ? spans.length - 1 : enough, data = asked[at];
    const range = useMemo(() => rangeOf({from: spans[at][0]}), [data.data]);
    return html`<section class="panel" aria-label="trend"><h2>Trend <span class="muted" key=${at}>${`${spans[at][1]}, by ${service ? "version" : "service"}`}</span></h2><div class="trend-box"><${Loaded} of=${data} what="the trend" empty=${(d) => !d.series.some((s) => s.values.some((v) => v > 0))} nothing=${html`<p class="muted foot">No sample of the last 30 days contains it.</p>`}>${(d) => {
        const nameOf = (s) => (service ? shortVersion(s.labels[by] ?? "") : s.labels[by]) || "(none)";
        const all = d.series.filter((s) => s.values.some((v) => v > 0)).sort((a, b) => sum(b.values) - sum(a.values)), used = all.slice(0, 8), names = used.map(nameOf);
        return html`<${Chart} data=${{...d, series: used}} names=${names} height=${110} range=${[range.fromMs, range.toMs]} live label=${`${axisTitle(d.unit, d.type)} over ${spans[at][1]}`}
            onBrush=${(a, b) => patch({from: String(Math.round(a / 1000)), to: String(Math.round(b / 1000))})} />
        <p class="muted foot">${service && all.length > 1 ? html`<b>${newcomer(d, all, nameOf)}</b> ` : ""}${used.map((s, i) => html`<span class="trend-key" key=${names[i]}><i class="dot" style=${{background: seriesColor(i, themeOf())}}></i> ${names[i]} ${first(d, s, spans[at][1])}</span>`)}</p>`;
    }}<//></div></section>`;
}

// Fewer than three points that are complete: a shorter range shows more.
function tooShort(d) {
    return !!d && new Set(d.series.flatMap((s) => s.values.slice(0, complete(d, true)).flatMap((v, i) => (v > 0 ? [i] : [])))).size < 3;
}

const sum = (a) => a.reduce((x, y) => x + y, 0);

// In which version the function was seen first, where an earlier version ran without it.
function newcomer(d, used, nameOf) {
    const began = (s) => s.values.findIndex((v) => v > 0), ran = (s) => (s.coverage ?? []).findIndex((v) => v > 0);
    const earliest = [...used].sort((a, b) => began(a) - began(b))[0];
    const without = d.series.some((s) => !used.includes(s) && ran(s) >= 0 && ran(s) < began(earliest));
    return `first seen in ${nameOf(earliest)}${without ? ", not in versions before it" : ""};`;
}

function first(d, s, span) {
    const at = s.values.findIndex((v) => v > 0);
    const edge = (k) => clock((Number(d.from) + k * Number(d.step)) / 1e6, {seconds: false});
    return at === 0 ? `seen for ${span} or longer` : `first seen ${edge(at)} to ${edge(at + 1)}`;
}
