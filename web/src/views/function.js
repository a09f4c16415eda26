// SPDX-License-Identifier: Apache-2.0
// The page of one function: what it costs, how that developed over the chosen range by version, when it was first
// seen, who calls it, what it calls, its lines and its instructions.
import {useMemo} from "preact/hooks";
import {apiUrl, useData} from "../lib/api.js";
import {seriesColor, themeOf} from "../lib/color.js";
import {shortVersion} from "../lib/names.js";
import {matchedValue} from "../lib/selector.js";
import {rangeOf, timeProblem} from "../lib/time.js";
import {treeOfJson} from "../lib/tree.js";
import {amount, axisTitle, clock, cost, digitsOf, gauge, number, percent, rate, samplesOf, sum} from "../lib/units.js";
import {href, patch, route} from "../lib/url.js";
import {urlProblem} from "../lib/wrong.js";
import {AlertButton} from "../parts/alertbutton.js";
import {Selector, TimePicker} from "../parts/bar.js";
import {Chart} from "../parts/chart.js";
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
    return wrong ? (
        <>
            <h1 class="sr">Function</h1>
            <Wrong text={wrong} />
        </>
    ) : (
        <Page p={p} />
    );
}

function Page({p}) {
    const range = rangeOf(p),
        q = ask(p, range),
        top = useFunctions(q);
    return (
        <>
            <div class="bar">
                <h1 class="fn function-name" title={p.fn}>
                    {p.fn || "Function"}
                </h1>
                <span class="grow" />
                <LiveState range={range} />
                <TimePicker range={range} onPick={(r) => patch(r)} />
            </div>
            <div class="bar">
                <Selector query={q.query} range={range} onQuery={(query) => patch({query})} />
                <span class="grow" />
                {p.fn && (
                    <>
                        <AlertButton query={q.query} fn={p.fn} />
                        <a
                            class="button"
                            href={href("explore", {
                                query: p.query,
                                from: p.from,
                                to: p.to,
                                focus: `^${p.fn.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")}$`,
                            })}
                        >
                            Flame graph of its stacks
                        </a>
                    </>
                )}
            </div>
            {p.fn ? (
                <div class="services">
                    <Facts p={p} q={q} range={range} top={top} />
                    <Trend p={p} q={q} range={range} />
                    <section class="panel function-pane" aria-label="callers and callees">
                        <Sandwich p={p} q={q} range={range} bare />
                    </section>
                    <section class="panel function-pane" aria-label="source lines">
                        <h2>Lines</h2>
                        <Source p={p} q={q} range={range} bare />
                    </section>
                    <Assembly p={p} q={q} />
                </div>
            ) : (
                <>
                    <FunctionPicker p={p} top={top} />
                    <Box title="Pick a function">
                        <p>Choose one above.</p>
                    </Box>
                </>
            )}
        </>
    );
}

// Weight in the selection, rank, cost. The table has a row for each file that a Python function of this name is
// in; the page is about all of them.
function Facts({p, q, range, top}) {
    const status = useStatus().data,
        callers = useCallers(p, q, range).data,
        bySelf = useData(apiUrl("top", {...q, sort: "self", limit: 500})).data;
    const t = useMemo(() => callers && treeOfJson(callers.callees), [callers]),
        one = (title, value) => (
            <div>
                <dt>{title}</dt>
                <dd class="num">{value}</dd>
            </div>
        );
    if (!t || !top.data) return <dl class="panel facts">{one("total", "…")}</dl>;
    const total = t.total[0][0],
        self = t.self[0][0],
        cover = coverOf(callers),
        n = samplesOf(total, t.unit, cover.rate),
        digits = digitsOf(n),
        selfDigits = digitsOf(samplesOf(self, t.unit, cover.rate));
    if (!total) return <dl class="panel facts">{one("total", "not in this selection")}</dl>;
    const rows = top.data.rows,
        place = (list, by) => [...list].sort((a, b) => b[by] - a[by]).findIndex((r) => r.name === p.fn),
        at = place(rows, "total"),
        own = bySelf ? place(bySelf.rows, "self") : -1,
        files = new Set(rows.filter((r) => r.name === p.fn).map((r) => r.file)),
        [file] = files.size === 1 ? files : [];
    const money = cost(total, t.type, cover.ns, status);
    return (
        <dl class="panel facts">
            {one(
                "total",
                `${percent(total / callers.total, undefined, digits)} · ${amount(total, t.unit, t.type, digits)}`,
            )}
            {gauge(t.type) ? "" : one("rate", rate(total, t.unit, t.type, cover.ns, digits))}
            {one(
                "self",
                `${percent(self / callers.total, undefined, selfDigits)} · ${amount(self, t.unit, t.type, selfDigits)}`,
            )}
            {n !== undefined ? one("samples", `${number(Math.round(n))} at ${cover.rates.join("–")} Hz`) : ""}
            {at >= 0 ? one("rank by total", `${at + 1} of ${number(top.data.count)}`) : ""}
            {own >= 0 && self > 0 ? one("rank by self", `${own + 1} of ${number(top.data.count)}`) : ""}
            {money ? one("cost", money) : ""}
            {file
                ? one(
                      "file",
                      <span class="fn" title={file}>
                          {file.slice(file.lastIndexOf("/") + 1)}
                      </span>,
                  )
                : ""}
        </dl>
    );
}

// The chosen range, by version of the service or, without one, by service; and when the function was seen first.
function Trend({p, q, range}) {
    const service = matchedValue(q.query, "service.name"),
        by = service ? "service.version" : "service.name";
    const data = useData(
        apiUrl("series", {query: q.query, from: range.from, to: range.to, function: p.fn, group_by: by}),
        {live: range.live},
    );
    const nameOf = (s) => (service ? shortVersion(s.labels[by] ?? "") : s.labels[by]) || "(none)";
    return (
        <section class="panel" aria-label="trend">
            <h2>
                Trend <span class="muted">by {service ? "version" : "service"}</span>{" "}
                <FirstSeen p={p} q={q} by={by} nameOf={service && nameOf} />
            </h2>
            <div class="trend-box">
                <Loaded
                    of={data}
                    what="the trend"
                    empty={(d) => !seen(d).length}
                    nothing={<p class="muted foot">No sample of this range contains it.</p>}
                >
                    {(d) => {
                        const used = seen(d)
                                .sort((a, b) => sum(b.values) - sum(a.values))
                                .slice(0, 8),
                            names = used.map(nameOf);
                        return (
                            <>
                                <Chart
                                    data={{...d, series: used}}
                                    names={names}
                                    height={110}
                                    range={[range.fromMs, range.toMs]}
                                    live={range.live}
                                    label={`${axisTitle(d.unit, d.type)} over the chosen range`}
                                    onBrush={(a, b) =>
                                        patch({from: String(Math.round(a / 1000)), to: String(Math.round(b / 1000))})
                                    }
                                />
                                <p class="muted foot">
                                    {used.map((s, i) => (
                                        <span class="trend-key" key={names[i]}>
                                            <i class="dot" style={{background: seriesColor(i, themeOf())}} /> {names[i]}
                                        </span>
                                    ))}
                                </p>
                            </>
                        );
                    }}
                </Loaded>
            </div>
        </section>
    );
}

const seen = (d) => d.series.filter((s) => s.values.some((v) => v > 0));
const beganAt = (s) => s.values.findIndex((v) => v > 0);

// The first step in which a series has the function: {from, to (ns), series}; null if there is none.
function firstStep(d) {
    if (!d || !seen(d).length) return null;
    const s = seen(d).reduce((a, b) => (beganAt(b) < beganAt(a) ? b : a)),
        from = BigInt(d.from) + BigInt(d.step) * BigInt(beganAt(s));
    return {from: String(from), to: String(from + BigInt(d.step)), series: s, at: beganAt(s)};
}

// When it was seen first in the last 30 days: the first step, within it the first step, and within that the first
// profile.
function FirstSeen({p, q, by, nameOf}) {
    const ask = (range) => useData(range && apiUrl("series", {query: q.query, ...range, function: p.fn, group_by: by})),
        times = (step) => step && {from: step.from, to: step.to};
    const whole = ask({from: "now-30d"}),
        first = firstStep(whole.data),
        second = ask(first && first.at > 0 && times(first)),
        finer = firstStep(second.data);
    const list = useData(
        finer &&
            apiUrl("profiles", {
                query: q.query,
                ...times(finer),
                focus: `^${p.fn.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")}$`,
                sort: "time",
                limit: 1000,
            }),
    );
    if (!first || (first.at > 0 && !(finer && (list.data || list.error)) && !second.error)) return "";
    const series = (finer ?? first).series,
        span = finer ?? first,
        at = Math.min(...(list.data?.profiles ?? []).map((x) => Number(x.time) / 1e6));
    const later = whole.data.series.some(
        (s) => !s.values.some((v) => v > 0) && (s.coverage ?? []).some((v, i) => v > 0 && i < first.at),
    );
    let when;
    if (first.at === 0) when = "30 days ago or earlier";
    else if (Number.isFinite(at)) when = clock(at);
    else when = `between ${clock(Number(span.from) / 1e6)} and ${clock(Number(span.to) / 1e6)}`;
    return (
        <span class="muted" key={when}>
            {nameOf && whole.data.series.length > 1
                ? `first seen in ${nameOf(series)}, ${when}${later ? ", not in versions before it" : ""}`
                : `first seen ${when}`}
        </span>
    );
}
