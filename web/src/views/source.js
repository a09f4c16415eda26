// SPDX-License-Identifier: Apache-2.0
// A function's source with the weight of each line; only the weights where the server has no source.
import {useEffect, useMemo, useState} from "preact/hooks";
import {apiUrl, coverageOf, useData} from "../lib/api.js";
import {colored} from "../lib/syntax.js";
import {linksFor} from "../lib/links.js";
import {matchedValue} from "../lib/selector.js";
import {amount, clock, digitsOf, percent, samplesOf} from "../lib/units.js";
import {useStatus} from "../parts/shell.js";
import {Box, Loaded, Loading} from "../parts/states.js";
import {FunctionPicker, useFunctions, withHottest} from "./sandwich.js";

const AROUND = 12;

// Lines to show: the text if there is any, otherwise only lines with weight. gap marks a jump.
function listing(rows, text) {
    const weight = new Map();
    for (const r of rows) {
        const w = weight.get(r.line) ?? {self: 0, total: 0};
        w.self += r.self;
        w.total += r.total;
        weight.set(r.line, w);
    }
    const lines = [...weight.keys()].sort((a, b) => a - b);
    if (!text) return lines.map((n) => ({n, text: "", ...weight.get(n)}));
    const all = text.split("\n");
    const out = [],
        from = Math.max(1, lines[0] - AROUND),
        to = Math.min(all.length, lines[lines.length - 1] + AROUND);
    for (let n = from; n <= to; n++) out.push({n, text: all[n - 1], ...(weight.get(n) ?? {self: 0, total: 0})});
    return out;
}

export function Source({p: given, q, range, bare = false}) {
    const top = useFunctions(q),
        p = bare ? given : withHottest(given, top, true);
    const data = useData(
        p.fn || p.file ? apiUrl("lines", {...q, function: p.fn, file: p.fn ? undefined : p.file}) : null,
        {live: range.live},
    );
    const chosen = p.fn || p.file;
    return (
        <div class="column">
            {!bare && <FunctionPicker p={p} top={top} />}
            {!chosen && !top.data && !top.error && <Loading what="functions" />}
            {!chosen && (top.data || top.error) && (
                <Box title="Pick a function">
                    <p>Choose one above, or “Source lines” in the menu of a frame.</p>
                </Box>
            )}
            {chosen && (
                <Loaded
                    of={data}
                    what="lines"
                    empty={(d) => !d.rows.some((r) => r.line)}
                    nothing={
                        <Box title="No line numbers">
                            <p>
                                The profiles have no line numbers for <code>{p.fn || p.file}</code> in this range. Lines
                                come from the sender, or from debug information: <code>wick symbols upload BINARY</code>
                                .
                            </p>
                        </Box>
                    }
                >
                    {(d) => <Files d={d} p={p} q={q} range={range} />}
                </Loaded>
            )}
        </div>
    );
}

function Files({d, p, q, range}) {
    const files = useMemo(() => {
        const by = new Map();
        for (const r of d.rows) by.set(r.file ?? "", [...(by.get(r.file ?? "") ?? []), r]);
        // The file that was asked for comes first, then the one with the most weight.
        const weight = ([file, rows]) => {
            if (file === p.file) return Infinity;
            if (file) return rows.reduce((sum, r) => sum + r.total, 0);
            return -1;
        };
        return [...by].sort((a, b) => weight(b) - weight(a));
    }, [d, p.file]);
    const [shown, show] = useState(1); // one after the other: a file whose text came later would move those below it
    return (
        <div class="sources" tabindex={0} role="region" aria-label="source">
            {files.slice(0, shown).map(([file, rows], i) => (
                <File
                    key={file}
                    file={file}
                    rows={rows}
                    d={d}
                    p={p}
                    q={q}
                    range={range}
                    onReady={() => show((n) => Math.max(n, i + 2))}
                />
            ))}
        </div>
    );
}

function File({file, rows, d, p, q, range, onReady}) {
    const status = useStatus().data;
    const service = matchedValue(q.query, "service.name");
    const source = useData(file ? apiUrl("source", {file, missing: "ok"}) : null);
    const lines = useMemo(() => listing(rows, source.data?.text), [rows, source.data]);
    const modified = Number(source.data?.modified ?? 0) / 1e6,
        stale = useStale(modified, q, range);
    const waits = file && ((!source.data && !source.error) || stale === undefined);
    useEffect(() => void (waits || onReady()), [waits]);
    if (waits)
        return (
            <section class="source">
                <h2 class="path">{file}</h2>
            </section>
        ); // the table would move
    const whole = d.total || 1,
        {rate} = coverageOf(d),
        digits = (v) => digitsOf(samplesOf(v, d.unit, rate));
    const links = (line) => linksFor(status?.links, {file, line, function: p.fn, service});
    const first = links(lines[0]?.n ?? 1)[0];
    return (
        <section class="source">
            <h2 class="path">
                {file || "(no file)"}{" "}
                {first && (
                    <a href={links(hottest(lines))[0].href} target="_blank" rel="noopener noreferrer">
                        open in {first.name}
                    </a>
                )}
                {source.data?.origin && <span class="muted">{source.data.origin}</span>}
            </h2>
            {!source.data?.text && !source.loading && (
                <p class="muted">
                    Only the values of its lines are shown:{" "}
                    {source.data?.reason ?? "the server has no source for this file"}. Configure a directory or a link
                    to your forge under <code>source:</code> in wick.yaml.
                </p>
            )}
            {stale && (
                <p class="note">
                    This file was changed at {clock(modified)}, after the first profile of this range: lines may not
                    match.
                </p>
            )}
            <table class="code">
                <caption class="sr">lines of {file}</caption>
                <thead>
                    <tr>
                        <th scope="col" class="num">
                            self
                        </th>
                        <th scope="col" class="num">
                            total
                        </th>
                        <th scope="col" class="num">
                            %
                        </th>
                        <th scope="col" class="num">
                            line
                        </th>
                        <th scope="col">source</th>
                    </tr>
                </thead>
                <tbody>
                    {lines.map((l) => (
                        <tr class={l.total ? "" : "cold"}>
                            <td class="num">{l.self ? amount(l.self, d.unit, d.type, digits(l.self)) : ""}</td>
                            <td class="num">{l.total ? amount(l.total, d.unit, d.type, digits(l.total)) : ""}</td>
                            <td class="num">
                                <span
                                    class="heat"
                                    style={{opacity: l.total ? Math.min(1, 0.15 + (l.total / whole) * 1.5) : 0}}
                                />
                                {l.total ? percent(l.total / whole, undefined, digits(l.total)) : ""}
                            </td>
                            <td class="num muted">
                                {links(l.n)[0] ? (
                                    <a href={links(l.n)[0].href} target="_blank" rel="noopener noreferrer">
                                        {l.n}
                                    </a>
                                ) : (
                                    l.n
                                )}
                            </td>
                            <td>
                                <pre>{colored(l.text, file)}</pre>
                            </td>
                        </tr>
                    ))}
                </tbody>
            </table>
        </section>
    );
}

// Whether some profiles of the range are older than the file. Undefined until it is known.
function useStale(modified, q, range) {
    const {data, error} = useData(
        modified > range.fromMs ? apiUrl("deploys", {query: q.query, from: range.from, to: range.to}) : null,
    );
    if (!(modified > range.fromMs)) return false;
    if (data) return data.deploys.some((d) => Number(d.first) / 1e6 < modified);
    if (error) return false;
    return undefined;
}

const hottest = (lines) => lines.reduce((a, b) => (b.total > a.total ? b : a), lines[0])?.n ?? 1;
