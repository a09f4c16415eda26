// SPDX-License-Identifier: Apache-2.0
// The label explorer: one small chart per value of a label, or per combination of the values of several, all on
// one scale; two of them can be compared. Any label or attribute can be chosen: those of series by a button, the
// others by name.
import {useMemo} from "preact/hooks";
import {apiUrl, coverageOf, useData} from "../lib/api.js";
import {withMatcher} from "../lib/selector.js";
import {seconds, settledNow} from "../lib/time.js";
import {digitsOf, gauge, percent, perStep, rate, samplesOf, samplesText, sum} from "../lib/units.js";
import {href, patch} from "../lib/url.js";
import {bridged, complete, Spark} from "../parts/chart.js";
import {Combo} from "../parts/combo.js";
import {Box, Loaded} from "../parts/states.js";

const SHOWN = 60,
    LABELS = 3;
const list = (text, separator) => (text ?? "").split(separator).filter(Boolean);
const title = (values) => values.map((v) => v || "(none)").join(" · ");

function usual(names, query) {
    const first = ["service.version", "service.name"].find(
        (n) => names.includes(n) && (n === "service.name" || query.includes("service.name")),
    );
    return [first ?? names[0]].filter(Boolean);
}

export function Breakdown({p, q, range}) {
    const at = {from: range.from, to: range.to, query: q.query};
    const labels = useData(apiUrl("labels", {...at, attributes: "false"})),
        all = useData(apiUrl("labels", at));
    const names = labels.data ?? [],
        chosen = list(p.by, ",").slice(0, LABELS),
        by = chosen.length ? chosen : usual(names, q.query);
    const data = useData(by.length && labels.data ? apiUrl("series", {...at, group_by: by.join(",")}) : null, {
        live: range.live,
    });
    const picked = list(p.pick, "\t")
        .filter((id) => valuesOf(id, by))
        .slice(0, 2);
    const toggle = (id) =>
        patch(
            {pick: (picked.includes(id) ? picked.filter((x) => x !== id) : [...picked, id].slice(-2)).join("\t")},
            {replace: true},
        );
    return (
        <div class="breakdown">
            <div class="bar">
                {labels.data ? <LabelPicker names={names} all={all.data ?? []} by={by} /> : ""}
                <span class="grow" />
                <CompareLink picked={picked} by={by} q={q} range={range} />
            </div>
            <Loaded
                of={data}
                what="values"
                empty={(d) => !d.series.length}
                nothing={
                    <Box title="Nothing to break down">
                        <p>No profiles match in this range.</p>
                    </Box>
                }
            >
                {(d) => <Grid d={d} by={by} q={q} p={p} range={range} picked={picked} toggle={toggle} />}
            </Loaded>
        </div>
    );
}

// A click adds a label or takes it away. At the limit, a new one takes the place of the last.
function LabelPicker({names, all, by}) {
    const pick = (by) => patch({by: by.join(","), pick: ""}),
        add = (n) => pick([...by.slice(0, LABELS - 1), n]);
    const shown = [...names, ...by.filter((n) => !names.includes(n))];
    return (
        <>
            <div class="choice" role="group" aria-label="labels">
                {shown.map((n) => (
                    <button
                        key={n}
                        aria-pressed={!!by.includes(n)}
                        onClick={() => (by.includes(n) ? by.length > 1 && pick(by.filter((x) => x !== n)) : add(n))}
                    >
                        {n}
                    </button>
                ))}
            </div>
            <Combo
                label="another label"
                placeholder="another label"
                value=""
                options={all.filter((n) => !shown.includes(n))}
                onPick={add}
                size={14}
            />
        </>
    );
}

// A cell in the URL: its values as JSON, because a value may have any character. null if the URL has something else.
function valuesOf(id, by) {
    try {
        const values = JSON.parse(id);
        return Array.isArray(values) && values.length === by.length ? values.map(String) : null;
    } catch {
        return null;
    }
}

const queryOf = (q, by, id) => valuesOf(id, by).reduce((query, v, i) => withMatcher(query, by[i], v), q.query);

function CompareLink({picked, by, q, range}) {
    if (picked.length !== 2) return <span class="muted">Pick two to compare them.</span>;
    const end = range.live ? settledNow() : range.toMs,
        from = seconds(range.live ? end - (range.toMs - range.fromMs) : range.fromMs),
        to = seconds(end);
    const [a, b] = picked.map((id) => title(valuesOf(id, by)));
    return (
        <a
            class="button main"
            href={href("compare", {
                query: queryOf(q, by, picked[1]),
                base_query: queryOf(q, by, picked[0]),
                from,
                to,
                base_from: from,
                base_to: to,
            })}
        >
            Compare {a} with {b}
        </a>
    );
}

function Grid({d, by, q, p, range, picked, toggle}) {
    const cells = useMemo(() => {
        const n = complete(d, range.live);
        return d.series
            .map((s) => {
                const steps = s.values.map((v, i) => perStep(v, d.unit, d.type, s.coverage[i])),
                    seen = steps.filter((v) => v !== null).length,
                    of = by.map((name) => s.labels[name] ?? "");
                // Of what is held at a time, the mean of the steps that have profiles.
                return {
                    id: JSON.stringify(of),
                    title: title(of),
                    total: gauge(d.type) ? sum(s.values) / Math.max(1, seen) : sum(s.values),
                    ns: sum(s.coverage),
                    values: bridged(steps.slice(0, n)),
                };
            })
            .sort((a, b) => b.total - a.total);
    }, [d, by.join()]);
    const samples = (v) => samplesOf(v, d.unit, coverageOf(d).rates.length === 1 ? coverageOf(d).rate : 0),
        digits = (v) => digitsOf(samplesOf(v, d.unit, coverageOf(d).rate));
    const whole = sum(cells.map((c) => c.total)) || 1,
        top = Math.max(...cells.flatMap((c) => c.values.map((v) => v ?? 0)), 1e-12);
    return (
        <>
            <div class="cells" tabindex={0} role="region" aria-label={`values of ${by.join(", ")}`}>
                {cells.slice(0, SHOWN).map((c) => (
                    <article class="panel cell" key={c.id}>
                        <h2>
                            <label>
                                <input
                                    type="checkbox"
                                    checked={picked.includes(c.id)}
                                    onChange={() => toggle(c.id)}
                                    aria-label={`compare ${c.title}`}
                                />
                            </label>{" "}
                            <a
                                class="fn"
                                title={c.title}
                                href={href("explore", {...p, view: "", by: "", pick: "", query: queryOf(q, by, c.id)})}
                            >
                                {c.title}
                            </a>
                        </h2>
                        <Spark values={c.values} top={top} width={200} height={48} label={`${c.title} over time`} />
                        <p
                            class="num muted"
                            title={samples(c.total) === undefined ? undefined : samplesText(samples(c.total))}
                        >
                            {rate(c.total, d.unit, d.type, c.ns, digits(c.total))} ·{" "}
                            {percent(c.total / whole, undefined, digits(c.total))}
                        </p>
                    </article>
                ))}
            </div>
            {cells.length > SHOWN ? (
                <p class="muted foot">
                    The {SHOWN} largest of {cells.length} values.
                </p>
            ) : (
                ""
            )}
        </>
    );
}
