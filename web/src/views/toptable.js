// SPDX-License-Identifier: Apache-2.0
// Functions (files, lines, binaries, packages) by weight.
import {html} from "htm/preact";
import {useMemo} from "preact/hooks";
import {apiUrl, useData} from "../lib/api.js";
import {shortName} from "../lib/names.js";
import {amount, percent, points} from "../lib/units.js";
import {patch} from "../lib/url.js";
import {Choice} from "../parts/menu.js";
import {Loaded, Box} from "../parts/states.js";
import {Bar, Table} from "../parts/table.js";
import {exactly} from "../parts/filters.js";

const LIMIT = 2000;
const granules = [["function", "functions"], ["package", "packages"], ["file", "files"], ["line", "lines"], ["mapping", "binaries"]];

function matcher(text) {
    if (!text) return () => true;
    try {
        const re = new RegExp(text, /[A-Z]/.test(text) ? "" : "i");
        return (r) => re.test(r.name) || re.test(r.file ?? "");
    } catch {
        return (r) => r.name.toLowerCase().includes(text.toLowerCase());
    }
}

const label = (r) => r.name || "[unnamed]";

function nameCell(r, by) {
    const full = label(r);
    return html`<span class="fn" title=${full + (r.file ? `\n${r.file}${r.line ? ":" + r.line : ""}` : "")}>${by === "line" ? `${shortName(full)}:${r.line ?? "?"}` : shortName(full)}${r.kind && r.kind !== "native"
        ? html` <span class="badge">${r.kind}</span>` : ""}</span>`;
}

function oneColumns(d, by, narrow) {
    const {total, unit, type} = d;
    return [
        {key: "name", title: by, value: (r) => r.name, show: (r) => nameCell(r, by), cls: "wide"},
        ...(narrow ? [] : [{key: "self", title: "self", num: true, value: (r) => r.self, show: (r) => amount(r.self, unit, type)}]),
        {key: "selfp", title: "self %", num: true, value: (r) => r.self, show: (r) => html`<${Bar} share=${r.self / total}>${percent(r.self / total)}<//>`},
        ...(narrow ? [] : [{key: "total", title: "total", num: true, value: (r) => r.total, show: (r) => amount(r.total, unit, type)}]),
        {key: "totalp", title: "total %", num: true, value: (r) => r.total, show: (r) => html`<${Bar} share=${r.total / total}>${percent(r.total / total)}<//>`},
    ];
}

function diffColumns(d, by) {
    const {total, unit, type} = d;
    const share = (v, c) => v[c] / (total[c] || 1);
    const delta = (r, k) => share(r[k], 1) - share(r[k], 0);
    const cell = (x) => html`<span class=${x > 0.00005 ? "more" : x < -0.00005 ? "less" : ""}>${points(x)}</span>`;
    return [
        {key: "name", title: by, value: (r) => r.name, show: (r) => nameCell(r, by), cls: "wide"},
        {key: "self0", title: "self before", num: true, value: (r) => share(r.self, 0), show: (r) => percent(share(r.self, 0))},
        {key: "self1", title: "self now", num: true, value: (r) => share(r.self, 1), show: (r) => percent(share(r.self, 1))},
        {key: "dself", title: "change of self", num: true, value: (r) => delta(r, "self"), show: (r) => cell(delta(r, "self"))},
        {key: "total0", title: "total before", num: true, value: (r) => share(r.total, 0), show: (r) => percent(share(r.total, 0))},
        {key: "total1", title: "total now", num: true, value: (r) => share(r.total, 1), show: (r) => percent(share(r.total, 1))},
        {key: "dtotal", title: "change of total", num: true, value: (r) => delta(r, "total"), show: (r) => cell(delta(r, "total"))},
        {key: "abs", title: "now", num: true, value: (r) => r.total[1], show: (r) => amount(r.total[1], unit, type)},
    ];
}

// With base_* in q: a table of differences.
export function TopTable({p, q, narrow = false, diff = false}) {
    const by = p.rows || "function";
    const data = useData(apiUrl("top", {...q, by, limit: LIMIT, sort: diff ? "share" : undefined}));
    const [key, way] = (p.sort || (diff ? "dself-" : "selfp-")).match(/^(\w+?)([+-]?)$/)?.slice(1) ?? [];
    const sort = {key, up: way === "+"};
    const keep = useMemo(() => matcher(p.search), [p.search]);
    return html`<div class="top-pane">
        ${!narrow && html`<${Choice} label="rows" value=${by} options=${granules} onPick=${(v) => patch({rows: v === "function" ? "" : v})} />`}
        <${Loaded} of=${data} what="the table" empty=${(d) => !d.rows.length} nothing=${html`<${Box} title="Nothing to list"><p>No samples match in this range.</p><//>`}>
        ${(d) => {
            const rows = d.rows.filter(keep);
            const columns = diff ? diffColumns(d, by) : oneColumns(d, by, narrow);
            return html`<${Table} caption=${`${by}s by weight`} columns=${columns} rows=${rows} sort=${sort} rowKey=${(r) => r.name + "\0" + (r.file ?? "") + (r.line ?? "")}
                onSort=${(s) => patch({sort: s.key + (s.up ? "+" : "-")}, {replace: true})} selected=${undefined}
                onPick=${by === "function" || by === "line" ? (r) => patch(narrow ? {search: p.search === exactly(r.name) ? "" : exactly(r.name)} : {view: "sandwich", fn: r.name, zoom: ""}) : undefined} />
            ${d.count > d.rows.length && html`<p class="muted foot">The ${d.rows.length} largest of ${d.count}.</p>`}`;
        }}<//></div>`;
}
