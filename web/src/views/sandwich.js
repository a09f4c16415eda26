// SPDX-License-Identifier: Apache-2.0
// Callers above, callees below one function.
import {html} from "htm/preact";
import {useMemo} from "preact/hooks";
import {apiUrl, coverageOf, useData} from "../lib/api.js";
import {treeOfJson} from "../lib/tree.js";
import {amount, digitsOf, percent, rate, samplesOf, samplesText} from "../lib/units.js";
import {patch} from "../lib/url.js";
import {Flame} from "../flame/flame.js";
import {frameActions} from "../parts/flamepane.js";
import {Combo} from "../parts/combo.js";
import {useStatus} from "../parts/shell.js";
import {Box, Failed, fresh, Loading} from "../parts/states.js";

// The functions to choose from; the answer also has the total of the whole selection.
export const useFunctions = (q) => useData(apiUrl("top", {...q, sort: "total", limit: 500}));

export function FunctionPicker({p, top}) {
    const names = useMemo(() => [...new Set((top.data?.rows ?? []).map((r) => r.name).filter(Boolean))], [top.data]);
    return html`<div class="function-bar"><label>function <${Combo} label="function" placeholder="name of a function" free size=${52} value=${p.fn ?? ""} options=${names}
        onPick=${(fn) => patch({fn, file: ""})} /></label></div>`;
}

// The stacks above and below it.
export const useCallers = (p, q, range) => useData(p.fn ? apiUrl("callers", {...q, function: p.fn, max_nodes: 6000}) : null, {live: range.live});

// Each tree has its covered time, the whole answer the sampling rate.
export const coverOf = (callers) => { const {rate, rates} = coverageOf(callers); return {...coverageOf(callers?.callees), rate, rates}; };

// bare: without the field to choose a function.
export function Sandwich({p, q, range, bare = false}) {
    const status = useStatus().data;
    const data = useCallers(p, q, range);
    const trees = useMemo(() => data.data && {callers: treeOfJson(data.data.callers), callees: treeOfJson(data.data.callees)}, [data.data]);
    const top = useFunctions(q);
    const cover = coverOf(data.data);
    const actions = (node, t) => frameActions(node, t, p, status, "").filter((a) => a.hint !== "Enter");
    let body;
    if (!p.fn) body = html`<${Box} title="Pick a function"><p>Choose one above, or a row of the table, or “Callers and callees” in the menu of a frame.</p><//>`;
    else if (data.error) body = html`<${Failed} error=${data.error} reload=${data.reload} />`;
    else if (!trees) body = html`<${Loading} what="callers and callees" />`;
    else if (!(trees.callees.total[0][0] > 0)) body = html`<${Box} title="Not in this selection"><p>No sample in this time range contains <code>${p.fn}</code>.</p><//>`;
    else {
        const t = trees.callees, v = t.total[0][0], self = t.self[0][0], n = samplesOf(v, t.unit, cover.rate), d = digitsOf(n);
        const facts = [amount(v, t.unit, t.type, d), cover.ns && rate(v, t.unit, t.type, cover.ns, d), `self ${amount(self, t.unit, t.type, digitsOf(samplesOf(self, t.unit, cover.rate)))}`, `${percent(v / data.data.total, undefined, d)} of all`, n !== undefined && `${samplesText(n)} at ${cover.rates.join("–")} Hz`];
        body = html`<p class="num sandwich-sum"><b>${p.fn}</b> ${fresh(facts.filter(Boolean).join(" · "))}</p>
        <div class="sandwich">
            <section aria-label="callers"><h2>callers</h2><${Flame} tree=${trees.callers} flip=${true} search=${p.search ?? ""} cover=${cover} actions=${actions} label="Callers" inverted rootName=${p.fn} /></section>
            <section aria-label="callees"><h2>callees</h2><${Flame} tree=${trees.callees} search=${p.search ?? ""} cover=${cover} actions=${actions} label="Callees" rootName=${p.fn} /></section>
        </div>`;
    }
    return html`<div class="column">${!bare && html`<${FunctionPicker} p=${p} top=${top} />`}${body}</div>`;
}
