// SPDX-License-Identifier: Apache-2.0
// Functions (files, lines, binaries, packages) by weight.
import {useMemo} from "preact/hooks";
import {apiUrl, coverageOf, useData} from "../lib/api.js";
import {changeClass, changeText, comparison, modeOf} from "../lib/diff.js";
import {functionName, shortName} from "../lib/names.js";
import {amount, digitsOf, number, percent, samplesOf} from "../lib/units.js";
import {patch} from "../lib/url.js";
import {Choice} from "../parts/menu.js";
import {Loaded, Box} from "../parts/states.js";
import {Bar, Table} from "../parts/table.js";

const LIMIT = 2000;
const granules = [
    ["function", "functions"],
    ["package", "packages"],
    ["file", "files"],
    ["line", "lines"],
    ["mapping", "binaries"],
];

function matcher(text) {
    if (!text) return () => true;
    try {
        const re = new RegExp(text, /[A-Z]/.test(text) ? "" : "i");
        return (r) => re.test(r.name) || re.test(r.file ?? "");
    } catch {
        return (r) => r.name.toLowerCase().includes(text.toLowerCase());
    }
}

// "cart.go:30": the file is named, since a function of one name may be in several.
const lineOf = (r) => {
    if (r.file) return `${r.file.slice(r.file.lastIndexOf("/") + 1)}:${r.line || "?"}`;
    if (r.line) return `line ${r.line}`;
    return "no line";
};

const label = (r) => r.name || "[unnamed]";

function nameCell(r, by) {
    const full = label(r);
    return (
        <span class="fn" title={full + (r.file ? `\n${r.file}${r.line ? ":" + r.line : ""}` : "")}>
            {by === "function" ? functionName(full) : shortName(full)}
            {by === "line" && <span class="muted"> {lineOf(r)}</span>}
            {r.kind && r.kind !== "native" ? (
                <>
                    {" "}
                    <span class="badge">{r.kind}</span>
                </>
            ) : (
                ""
            )}
        </span>
    );
}

function oneColumns(d, by, narrow) {
    const {total, unit, type} = d,
        {rate} = coverageOf(d);
    const digits = (v) => digitsOf(samplesOf(v, unit, rate)),
        share = (v) => <Bar share={v / total}>{percent(v / total, undefined, digits(v))}</Bar>;
    return [
        {key: "name", title: by, value: (r) => r.name, show: (r) => nameCell(r, by), cls: "wide"},
        ...(narrow
            ? []
            : [
                  {
                      key: "self",
                      title: "self",
                      num: true,
                      value: (r) => r.self,
                      show: (r) => amount(r.self, unit, type, digits(r.self)),
                  },
              ]),
        {key: "selfp", title: "self %", num: true, value: (r) => r.self, show: (r) => share(r.self)},
        ...(narrow
            ? []
            : [
                  {
                      key: "total",
                      title: "total",
                      num: true,
                      value: (r) => r.total,
                      show: (r) => amount(r.total, unit, type, digits(r.total)),
                  },
              ]),
        ...(narrow || !rate || unit !== "nanoseconds"
            ? []
            : [
                  {
                      key: "samples",
                      title: "samples",
                      num: true,
                      value: (r) => r.total,
                      show: (r) => number(Math.round(samplesOf(r.total, unit, rate))),
                  },
              ]),
        {key: "totalp", title: "total %", num: true, value: (r) => r.total, show: (r) => share(r.total)},
    ];
}

// Both sides and the change, per second, by share or in total (lib/diff.js).
function diffColumns(d, by, params) {
    const cover = coverageOf(d);
    const diff = comparison({mode: modeOf(params, d.type, cover), unit: d.unit, type: d.type, cover, whole: d.total});
    const side = (key, title, k, c) => ({
        key,
        title,
        num: true,
        value: (r) => diff.of(r[k][0], r[k][1])[c ? "q" : "p"],
        show: (r) => (r[k][c] ? diff.show(r[k][c], c, digitsOf(diff.samples(r[k][c]))) : "–"),
    });
    const change = (key, title, k) => ({
        key,
        title,
        num: true,
        value: (r) => diff.of(r[k][0], r[k][1]).d,
        show: (r) => {
            const x = diff.of(r[k][0], r[k][1]);
            if (!(r[k][0] || r[k][1])) return "";
            return (
                <span
                    class={changeClass(x)}
                    title={x.significant || !x.known ? undefined : "not significant: within the sampling noise"}
                >
                    {changeText(x)}
                </span>
            );
        },
    });
    return [
        {key: "name", title: by, value: (r) => r.name, show: (r) => nameCell(r, by), cls: "wide"},
        side("self0", "self before", "self", 0),
        side("self1", "self now", "self", 1),
        change("dself", "change of self", "self"),
        side("total0", "total before", "total", 0),
        side("total1", "total now", "total", 1),
        change("dtotal", "change of total", "total"),
    ];
}

// With base_* in q: a table of differences. select: a click selects a function instead of showing its callers and
// callees, as in the narrow table beside a flame graph.
/** @param {{p: any, q: any, range?: any, narrow?: boolean, diff?: boolean, select?: boolean}} props */
export function TopTable({p, q, range, narrow = false, diff = false, select = narrow}) {
    const by = granules.some(([g]) => g === p.rows) ? p.rows : "function";
    const heaviest = diff ? {sort: p.mode === "share" ? "share" : "delta"} : {};
    const data = useData(apiUrl("top", {...q, by, limit: LIMIT, ...heaviest}), {live: !!range?.live});
    const [, key, way] = /^(\w+?)([+-]?)$/.exec(p.sort ?? "") ?? [0, diff ? "dself" : "selfp", "-"];
    const sort = {key, up: way === "+"};
    const keep = useMemo(() => matcher(narrow ? "" : p.search), [p.search, narrow]);
    const rowKey = (r) => [r.name, r.file, r.line, r.kind].join("\0");
    const open = (r) =>
        patch(select ? {sel: p.sel === r.name ? "" : r.name} : {view: "sandwich", fn: r.name, zoom: ""});
    return (
        <div class="top-pane">
            {!narrow && (
                <Choice
                    label="rows"
                    value={by}
                    options={granules}
                    onPick={(v) => patch({rows: v === "function" ? "" : v})}
                />
            )}
            <Loaded
                of={data}
                what="the table"
                empty={(d) => !d.rows.length}
                nothing={
                    <Box title="Nothing to list">
                        <p>No samples match in this range.</p>
                    </Box>
                }
            >
                {(d) => {
                    const rows = d.rows.filter(keep),
                        picked = select && p.sel ? rows.find((r) => r.name === p.sel) : null;
                    // while the other kind loads, the old one stays
                    const columns = Array.isArray(d.total) ? diffColumns(d, by, p) : oneColumns(d, by, narrow);
                    return (
                        <>
                            <Table
                                caption={`${by}s by weight`}
                                columns={columns}
                                rows={rows}
                                sort={sort}
                                rowKey={rowKey}
                                onSort={(s) => patch({sort: s.key + (s.up ? "+" : "-")}, {replace: true})}
                                selected={picked ? rowKey(picked) : undefined}
                                onPick={by === "function" || by === "line" ? open : undefined}
                            />
                            {d.count > d.rows.length && (
                                <p class="muted foot">
                                    The {d.rows.length} largest of {d.count}.
                                </p>
                            )}
                        </>
                    );
                }}
            </Loaded>
        </div>
    );
}
