// SPDX-License-Identifier: Apache-2.0
// The label explorer: one small chart per value of a label, all on one scale; two of them can be compared.
import {html} from "htm/preact";
import {useMemo} from "preact/hooks";
import {apiUrl, coverageOf, useData} from "../lib/api.js";
import {withMatcher} from "../lib/selector.js";
import {seconds, settledNow} from "../lib/time.js";
import {digitsOf, gauge, percent, perStep, rate, samplesOf} from "../lib/units.js";
import {href, patch} from "../lib/url.js";
import {bridged, complete, Spark} from "../parts/chart.js";
import {Choice} from "../parts/menu.js";
import {Box, Loaded} from "../parts/states.js";

const SHOWN = 60;
const sum = (a) => a.reduce((x, y) => x + y, 0);

export function Breakdown({p, q, range}) {
    const labels = useData(apiUrl("labels", {from: range.from, to: range.to, query: q.query, attributes: "false"}));
    const names = labels.data ?? [];
    const by = p.by || (names.includes("service.version") && q.query.includes("service.name") ? "service.version" : names.includes("service.name") ? "service.name" : names[0]);
    const data = useData(by && names.length ? apiUrl("series", {query: q.query, from: range.from, to: range.to, group_by: by}) : null, {live: range.live});
    const picked = (p.pick ?? "").split("\t").filter(Boolean);
    const toggle = (v) => patch({pick: (picked.includes(v) ? picked.filter((x) => x !== v) : [...picked, v].slice(-2)).join("\t")}, {replace: true});
    const end = range.live ? settledNow() : range.toMs, times = {from: seconds(range.live ? end - (range.toMs - range.fromMs) : range.fromMs), to: seconds(end)};
    return html`<div class="breakdown"><div class="bar"><${Choice} label="label" value=${by} options=${names.map((n) => [n, n])} onPick=${(v) => patch({by: v, pick: ""})} /><span class="grow"></span>
            ${picked.length === 2 ? html`<a class="button main" href=${href("compare", {query: withMatcher(q.query, by, picked[1]), base_query: withMatcher(q.query, by, picked[0]), ...times, base_from: times.from, base_to: times.to})}>Compare ${picked[0]} with ${picked[1]}</a>` : html`<span class="muted">Pick two to compare them.</span>`}</div>
        <${Loaded} of=${data} what="values" empty=${(d) => !d.series.length} nothing=${html`<${Box} title="Nothing to break down"><p>No profiles match in this range.</p><//>`}>${(d) => html`<${Grid} d=${d} by=${by} q=${q} p=${p} range=${range} picked=${picked} toggle=${toggle} />`}<//></div>`;
}

function Grid({d, by, q, p, range, picked, toggle}) {
    const cells = useMemo(() => {
        const n = complete(d, range.live);
        return d.series.map((s) => {
            const steps = s.values.map((v, i) => perStep(v, d.unit, d.type, s.coverage[i])), seen = steps.filter((v) => v !== null).length;
            // Of what is held at a time, the mean of the steps that have profiles.
            return {value: s.labels[by] ?? "", total: gauge(d.type) ? sum(s.values) / Math.max(1, seen) : sum(s.values), ns: sum(s.coverage), values: bridged(steps.slice(0, n))};
        }).sort((a, b) => b.total - a.total);
    }, [d, by]);
    const digits = (v) => digitsOf(samplesOf(v, d.unit, coverageOf(d).rate));
    const whole = sum(cells.map((c) => c.total)) || 1, top = Math.max(...cells.flatMap((c) => c.values.map((v) => v ?? 0)), 1e-12);
    return html`<div class="cells" tabindex="0" role="region" aria-label=${`values of ${by}`}>${cells.slice(0, SHOWN).map((c) => html`<article class="panel cell" key=${c.value}>
        <h2><label><input type="checkbox" checked=${picked.includes(c.value)} onChange=${() => toggle(c.value)} aria-label=${`compare ${c.value || "(none)"}`} /></label> <a class="fn" title=${c.value} href=${href("explore", {...p, view: "", by: "", pick: "", query: withMatcher(q.query, by, c.value)})}>${c.value || "(none)"}</a></h2>
        <${Spark} values=${c.values} top=${top} width=${200} height=${48} label=${`${c.value} over time`} />
        <p class="num muted">${rate(c.total, d.unit, d.type, c.ns, digits(c.total))} · ${percent(c.total / whole, undefined, digits(c.total))}</p></article>`)}</div>
        ${cells.length > SHOWN ? html`<p class="muted foot">The ${SHOWN} largest of ${cells.length} values.</p>` : ""}`;
}
