// SPDX-License-Identifier: Apache-2.0
// Alerts: what fires, the rules, and where messages are sent. Rules are written in wick.yaml.
import {html} from "htm/preact";
import {apiUrl, useData} from "../lib/api.js";
import {ago, number} from "../lib/units.js";
import {LiveState} from "../parts/livestate.js";
import {Box, Loaded} from "../parts/states.js";
import {Table} from "../parts/table.js";

const since = (text) => (text ? ago(Date.parse(text)) : "–");
const state = (s) => html`<span class=${"badge " + (s === "firing" ? "more" : "")}>${s}</span>`;
// Links lead to this server, whatever address it is known by elsewhere.
export const inside = (url) => {
    try {
        const u = new URL(url, location.href);
        return /^https?:$/.test(u.protocol) ? u.pathname + u.search : undefined;
    } catch {
        return undefined;
    }
};

const ruleColumns = [
    {key: "name", title: "rule", value: (r) => r.name, show: (r) => r.name},
    {key: "state", title: "state", value: (r) => r.state, show: (r) => state(r.state)},
    {key: "type", title: "type", value: (r) => r.type, show: (r) => r.type},
    {key: "selector", title: "selector", cls: "wide", value: (r) => r.selector ?? "", show: (r) => html`<code title=${r.selector}>${r.selector}</code>`},
    {key: "function", title: "function", value: (r) => r.function ?? "", show: (r) => r.function || "–"},
    {key: "for", title: "for", show: (r) => r.for || "–"},
    {key: "evaluated", title: "evaluated", num: true, value: (r) => Date.parse(r.evaluated ?? 0), show: (r) => since(r.evaluated)},
    {key: "error", title: "problem", show: (r) => (r.error ? html`<span class="more" title=${r.error}>${r.error}</span>` : "")},
];

export function AlertList({alerts}) {
    return html`<ul class="alert-list">${alerts.map((a) => html`<li key=${a.rule + a.service + a.function}>${state(a.state)} <b>${a.rule}</b> ${a.url && inside(a.url) ? html`<a href=${inside(a.url)}>${a.summary}</a>` : a.summary} <span class="muted num">${since(a.since)}</span>${a.delivery_error ? html` <span class="more">not delivered: ${a.delivery_error}</span>` : ""}</li>`)}</ul>`;
}

export function Alerts() {
    const data = useData(apiUrl("alerts"), {live: true});
    return html`<div class="bar"><h1>Alerts</h1><span class="grow"></span><${LiveState} range=${{live: true}} /></div><div class="services"><${Loaded} of=${data} what="alerts" empty=${(d) => !d.rules.length} nothing=${html`<${Box} title="No rules yet">
        <p>Rules are written in wick.yaml under <code>alerts:</code>. The page of a function makes one: <b>Alert on this</b>.</p><//>`}>${(d) => html`
        <section class="panel" aria-label="alerts"><h2>${d.alerts.length ? "Alerts" : "Nothing fires"}</h2><${AlertList} alerts=${d.alerts} /></section>
        <section class="panel" aria-label="rules"><h2>Rules <span class="muted num">evaluated every ${d.interval} s</span></h2><${Table} caption="all rules" columns=${ruleColumns} rows=${d.rules} rowKey=${(r) => r.name} sort=${{key: "name", up: true}} still /></section>
        ${d.targets?.length ? html`<section class="panel" aria-label="targets"><h2>Sent to</h2><ul class="alert-list">${d.targets.map((t) => html`<li key=${t.host}>${t.kind} <b>${t.host}</b> <span class="muted num">${number(t.sent)} sent, ${number(t.failed)} failed, ${number(t.waiting)} waiting</span>${t.error ? html` <span class="more">${t.error}</span>` : ""}</li>`)}</ul></section>` : ""}`}<//></div>`;
}
