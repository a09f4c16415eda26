// SPDX-License-Identifier: Apache-2.0
// "12 % of CPU is in PHP, whose functions are not shown": for a selection whose answer says so (notes.hidden).
import {html} from "htm/preact";
import {apiUrl, get, useData} from "../lib/api.js";
import {parseSelector, printSelector} from "../lib/selector.js";
import {percent} from "../lib/units.js";
import {href} from "../lib/url.js";

const label = "wick.hidden_runtime";
const sum = (values) => values.reduce((a, b) => a + (Number(b) || 0), 0);

export function Hidden({notes, query, range}) {
    const data = useData(notes?.hidden ? apiUrl("series", {query, from: range.from, to: range.to, group_by: label}) : null).data;
    const all = data ? sum(data.series.map((s) => sum(s.values))) : 0;
    if (!all) return null;
    return data.series.filter((s) => s.labels[label] && sum(s.values) / all >= 0.005).map((s) => html`<span class="more" key=${s.labels[label]}
        title="Stacks of these processes have only the native functions of the interpreter.">· ${percent(sum(s.values) / all)} of CPU is in ${s.labels[label]}, whose functions are not shown</span> `);
}

// Who sent profiles of a type: the scope and the library of one of them, as OTLP names them.
async function senderOf(type, query, range) {
    const q = {query: printSelector({...parseSelector(query), type}), from: range.from, to: range.to};
    const {profiles} = await get(apiUrl("profiles", {...q, limit: 1}));
    if (!profiles.length) return "";
    const sent = await get(apiUrl("profile", {...q, profile: profiles[0].handle, format: "otlp-json"}));
    const r = sent.resourceProfiles?.[0], scope = r?.scopeProfiles?.[0]?.scope?.name;
    const sdk = r?.resource?.attributes?.find((a) => a.key === "telemetry.sdk.name")?.value?.stringValue;
    return [scope, sdk !== scope ? sdk : ""].filter(Boolean).join(", ");
}

// Which of two sources of the same processes is shown. The other one is stored as type cpu_also.
export function Also({notes, query, range}) {
    const key = notes?.also ? `senders of ${query} ${range.from} ${range.to}` : null;
    const both = useData(key, {via: key ? () => Promise.all([senderOf("cpu", query, range), senderOf("cpu_also", query, range)]) : null}).data;
    if (!notes?.also) return null;
    const [shown, other] = both ?? [];
    return html`<span class="muted" title="Two sources sent CPU time of the same processes. It is counted once: the source with spans is shown if there is one, otherwise libwick’s, then the agent’s.">· ${shown
        ? `shown: what ${shown} sent; ${other && other !== shown ? other : "a second source"} sent some of it as well` : "counted once: a second source sends some of it as well"}${" "}
        <a href=${href("explore", {query: printSelector({...parseSelector(query), type: "cpu_also"}), from: range.from, to: range.to === "now" ? "" : range.to})}>show the other</a></span>`;
}
