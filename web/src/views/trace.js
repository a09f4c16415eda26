// SPDX-License-Identifier: Apache-2.0
// One request: the spans of a trace as a waterfall, with the time that samples saw in each, and what the selected
// span did.
import {useMemo} from "preact/hooks";
import {apiUrl, useData} from "../lib/api.js";
import {seriesColor, themeOf} from "../lib/color.js";
import {serviceQuery} from "../lib/selector.js";
import {timeProblem} from "../lib/time.js";
import {amount, clock, count, duration, typeTitle, sum} from "../lib/units.js";
import {href, patch, route} from "../lib/url.js";
import {urlProblem} from "../lib/wrong.js";
import {Work} from "../parts/spanwork.js";
import {Box, Failed, Loading, Wrong} from "../parts/states.js";

const ROWS = 300;

// of a waterfall; the rest is counted

export function Trace() {
    const p = route.value.params,
        wrong = timeProblem(p) || urlProblem(p);
    if (wrong || !p.trace)
        return (
            <>
                <h1>Request</h1>
                <Wrong text={wrong || "The link names no trace: it looks like trace?trace=TRACE_ID&span=SPAN_ID."} />
            </>
        );
    return <Page p={p} key={p.trace} />;
}

function Page({p}) {
    const data = useData(apiUrl("trace", {trace_id: p.trace, from: p.from, to: p.to}));
    if (data.error)
        return (
            <>
                <h1>Request</h1>
                <Failed error={data.error} reload={data.reload} />
            </>
        );
    if (!data.data)
        return (
            <>
                <h1>Request</h1>
                <Loading what="the trace" />
            </>
        );
    const known = data.data.spans.filter((s) => s.start);
    if (!data.data.spans.length)
        return (
            <>
                <h1>Request</h1>
                <Box title="This trace is not known here">
                    <p>
                        No span and no sample of it has been received, or they were deleted. Send traces to the same
                        OTLP port as profiles; for samples without spans, add <code>{"&from=…&to=…"}</code> to the link.
                    </p>
                    <p>
                        <a class="button" href={href("spans")}>
                            Spans
                        </a>
                    </p>
                </Box>
            </>
        );
    return known.length ? <Request d={data.data} spans={known} p={p} /> : <Unknown d={data.data} p={p} />;
}

// Samples are linked to the trace, but its spans were not sent here.
function Unknown({d, p}) {
    const link = (s) =>
        href("explore", {
            query: serviceQuery(d.type, s.service),
            trace: p.trace,
            span: s.spanId,
            from: p.from,
            to: p.to,
        });
    return (
        <>
            <h1>Request</h1>
            <Box title="The spans of this trace were not sent to this server">
                <p>
                    {count(d.spans.length, "span")} of it {d.spans.length === 1 ? "has" : "have"} samples:
                </p>
                <ul>
                    {d.spans.slice(0, ROWS).map((s) => (
                        <li key={s.spanId}>
                            <a href={link(s)}>
                                {s.service || "(no service)"}: span {s.spanId}
                            </a>{" "}
                            <span class="num muted">{amount(s.value, d.unit, d.type)}</span>
                        </li>
                    ))}
                </ul>
            </Box>
        </>
    );
}

// Times are nanoseconds as text: differences fit a number.
const since = (from, ns) => Number(BigInt(ns) - from);

// Where the time of each span is its own: not in one of its children. [[from, to]], relative to the trace.
function ownTimes(spans, at) {
    const kids = new Map();
    for (const s of spans) kids.set(s.parentId, [...(kids.get(s.parentId) ?? []), s]);
    return new Map(
        spans.map((s) => {
            const [from, to] = at.get(s.spanId),
                own = [];
            let done = from;
            for (const [a, b] of (kids.get(s.spanId) ?? []).map((k) => at.get(k.spanId)).sort((x, y) => x[0] - y[0])) {
                if (a > done) own.push([done, Math.min(a, to)]);
                done = Math.max(done, b);
            }
            if (done < to) own.push([done, to]);
            return [s.spanId, own.filter(([a, b]) => b > a)];
        }),
    );
}

function Request({d, spans, p}) {
    const theme = themeOf(),
        services = [...new Set(spans.map((s) => s.service))];
    const {at, own, length, begin} = useMemo(() => {
        const begin = spans.map((s) => BigInt(s.start)).reduce((a, b) => (b < a ? b : a));
        const at = new Map(
            spans.map((s) => [s.spanId, [since(begin, s.start), since(begin, s.start) + Number(s.duration)]]),
        );
        return {at, own: ownTimes(spans, at), length: Math.max(1, ...[...at.values()].map(([, to]) => to)), begin};
    }, [spans]);
    const selected = spans.find((s) => s.spanId === p.span) ?? spans[0],
        root = spans[0];
    const sampled = spans.filter((s) => s.samples),
        seen = sum(spans.map((s) => s.value)),
        all = sum(spans.map((s) => Number(s.duration)));
    const facts = [
        `${duration(length)} from ${clock(Number(begin) / 1e6)}`,
        count(spans.length, "span"),
        services.length > 1 && `${services.length} services`,
        `${sampled.length} of them with samples`,
        d.unit === "nanoseconds" &&
            all > 0 &&
            `sampled: ${amount(seen, d.unit, d.type)} of ${typeTitle(d.type)}, of ${duration(all)} in all spans`,
    ].filter(Boolean);
    return (
        <>
            <div class="bar">
                <h1 class="wide" title={root.name}>
                    {root.service}: {root.name}
                </h1>
                <span class="grow" />
                {root.link && (
                    <a class="button" href={root.link}>
                        Open the trace
                    </a>
                )}
                <a
                    class="button"
                    href={href("spans", {service: root.service, name: root.name, sel: "slowest"})}
                    title="What the slowest spans of this name do differently"
                >
                    Slowest against the rest
                </a>
            </div>
            <p class="request-facts num muted">{facts.join(" · ")}</p>
            <div class="panel waterfall" role="region" aria-label="spans of the trace" tabindex={0}>
                <table>
                    <caption class="sr">spans of the trace, callers first</caption>
                    <colgroup>
                        <col class="who" />
                        <col />
                        <col class="time" />
                        <col class="time" />
                    </colgroup>
                    <thead>
                        <tr>
                            <th scope="col">span</th>
                            <th scope="col">when</th>
                            <th scope="col" class="num">
                                duration
                            </th>
                            <th scope="col" class="num">
                                sampled
                            </th>
                        </tr>
                    </thead>
                    <tbody>
                        {spans.slice(0, ROWS).map((s) => (
                            <Row
                                key={s.spanId}
                                s={s}
                                d={d}
                                at={at.get(s.spanId)}
                                own={own.get(s.spanId)}
                                length={length}
                                color={seriesColor(services.indexOf(s.service), theme)}
                                selected={s === selected}
                            />
                        ))}
                    </tbody>
                </table>
                {spans.length > ROWS ? (
                    <p class="muted foot">
                        {count(spans.length - ROWS, "later span")} {spans.length - ROWS === 1 ? "is" : "are"} not shown.
                    </p>
                ) : (
                    ""
                )}
            </div>
            <Work p={p} s={selected} d={d} />
        </>
    );
}

function Row({s, d, at: [from, to], own, length, color, selected}) {
    const x = (ns) => (100 * ns) / length,
        ns = to - from,
        mine = sum(own.map(([a, b]) => b - a));
    const seen = s.samples ? amount(s.value, d.unit, d.type) : "–",
        pick = () => patch({span: s.spanId, zoom: "", sel: ""}, {replace: true});
    const title =
        `${s.name}, ${s.service}: ${duration(ns)}, ${duration(mine)} of it not in spans below; ` +
        `${count(s.samples, "sample")}`;
    return (
        <tr class={(selected ? "on " : "") + (s.status === "error" ? "failed" : "")} title={title}>
            <th scope="row" style={{paddingLeft: `${8 + 14 * Math.min(s.depth, 12)}px`}}>
                <button class="plain" aria-pressed={!!selected} onClick={pick}>
                    <i class="dot" style={{background: color}} />
                    <span class="fn">{s.name}</span>{" "}
                    <span class="muted">
                        {s.service}
                        {s.status === "error" ? " · error" : ""}
                    </span>
                </button>
            </th>
            <td class="lane" onClick={pick}>
                <svg width="100%" height="14" preserveAspectRatio="none" viewBox="0 0 100 14" aria-hidden="true">
                    <rect x={x(from)} y="3" width={Math.max(0.15, x(ns))} height="8" fill={color} opacity="0.35" />
                    {own.map(([a, b]) => (
                        <rect key={a} x={x(a)} y="3" width={Math.max(0.1, x(b - a))} height="8" fill={color} />
                    ))}
                </svg>
            </td>
            <td class="num">{duration(ns)}</td>
            <td class="num muted">{seen}</td>
        </tr>
    );
}
