// SPDX-License-Identifier: Apache-2.0
// "12 % of CPU is in PHP, whose functions are not shown": for a selection whose answer says so (notes.hidden).
import {html} from "htm/preact";
import {apiUrl, useData} from "../lib/api.js";
import {percent} from "../lib/units.js";

const label = "wick.hidden_runtime";
const sum = (values) => values.reduce((a, b) => a + (Number(b) || 0), 0);

export function Hidden({notes, query, range}) {
    const data = useData(notes?.hidden ? apiUrl("series", {query, from: range.from, to: range.to, group_by: label}) : null).data;
    const all = data ? sum(data.series.map((s) => sum(s.values))) : 0;
    if (!all) return null;
    return data.series.filter((s) => s.labels[label]).map((s) => html`<span class="more" key=${s.labels[label]}
        title="Stacks of these processes have only the native functions of the interpreter.">${percent(sum(s.values) / all)} of CPU is in ${s.labels[label]}, whose functions are not shown</span> `);
}
