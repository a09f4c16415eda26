// SPDX-License-Identifier: Apache-2.0
// Spans: names of spans by the time they take, the latency of one over time as a heat map, and what the selected
// spans did differently from all others of that name.
import {useState} from "preact/hooks";
import {apiUrl, useData} from "../lib/api.js";
import {modeOf} from "../lib/diff.js";
import {serviceQuery} from "../lib/selector.js";
import {rangeOf, timeProblem} from "../lib/time.js";
import {amount, count, duration, number, samplesOf, typeTitle} from "../lib/units.js";
import {href, patch, route} from "../lib/url.js";
import {TimePicker} from "../parts/bar.js";
import {Combo} from "../parts/combo.js";
import {FlamePane, useTree} from "../parts/flamepane.js";
import {HeatMap} from "../parts/heatmap.js";
import {DiffLegend} from "../parts/legend.js";
import {LiveState} from "../parts/livestate.js";
import {Examples} from "../parts/requests.js";
import {SearchBox} from "../parts/search.js";
import {useStatus} from "../parts/shell.js";
import {Box, fresh, Loaded, Wrong} from "../parts/states.js";
import {FEW, Weak} from "../parts/weak.js";
import {Table} from "../parts/table.js";

export const hasSpans = () => (useStatus().data?.questions ?? []).includes("span_names");

export function Spans() {
    const p = route.value.params,
        wrong = timeProblem(p),
        status = useStatus().data;
    if (wrong)
        return (
            <>
                <h1>Spans</h1>
                <Wrong text={wrong} />
            </>
        );
    if (status && !hasSpans())
        return (
            <>
                <h1>Spans</h1>
                <Box title="This server keeps no traces">
                    <p>
                        <a href={href("explore")}>Explore</a>
                    </p>
                </Box>
            </>
        );
    return <Page p={p} />;
}

function Page({p}) {
    const range = rangeOf(p),
        at = {from: range.from, to: range.to},
        live = range.live && !p.sel; // a selection keeps its place
    const services = useData(apiUrl("services", at));
    const names = useData(p.name ? null : apiUrl("span_names", {service: p.service, ...at, limit: 500}), {live});
    return (
        <>
            <div class="bar">
                <h1>Spans</h1>
                <Combo
                    label="service"
                    placeholder="all services"
                    value={p.service ?? ""}
                    options={["all services", ...(services.data ?? []).map((s) => s.name)]}
                    onPick={(v) => patch({service: v === "all services" ? "" : v, name: "", sel: ""})}
                />
                {p.name && (
                    <span class="chip">
                        <span>{p.name}</span>
                        <button aria-label="all spans" onClick={() => patch({name: "", sel: ""})}>
                            ×
                        </button>
                    </span>
                )}
                <span class="grow" />
                <LiveState range={{live}} />
                <TimePicker range={range} onPick={(r) => patch({...r, sel: ""})} />
            </div>
            {p.name ? (
                <OneName p={p} at={at} live={live} />
            ) : (
                <div class="pane">
                    <Loaded
                        of={names}
                        what="spans"
                        empty={(d) => !d.spans.length}
                        nothing={
                            <Box title="No traces in this range">
                                <p>
                                    Send traces to the same OTLP port as profiles: spans appear here, linked to what
                                    they did.
                                </p>
                            </Box>
                        }
                    >
                        {(d) => <Names list={d.spans} p={p} />}
                    </Loaded>
                </div>
            )}
        </>
    );
}

const columns = [
    {
        key: "name",
        title: "span",
        cls: "wide",
        value: (s) => s.name,
        show: (s) => (
            <span class="fn" title={s.name}>
                {s.name}
            </span>
        ),
    },
    {key: "service", title: "service", value: (s) => s.service, show: (s) => s.service},
    {key: "count", title: "count", num: true, value: (s) => s.count, show: (s) => number(s.count)},
    {
        key: "errors",
        title: "errors",
        num: true,
        value: (s) => s.errors,
        show: (s) => (s.errors ? <span class="more">{number(s.errors)}</span> : "0"),
    },
    ...["p50", "p95", "p99", "max", "total"].map((k) => ({
        key: k,
        title: k === "total" ? "total time" : k,
        num: true,
        value: (s) => Number(s[k]),
        show: (s) => duration(Number(s[k])),
    })),
];

function Names({list, p}) {
    const [, key, way] = /^(\w+?)([+-]?)$/.exec(p.sort ?? "") ?? [0, "total", "-"];
    return (
        <div class="top-pane">
            <Table
                caption="spans by time"
                columns={columns}
                rows={list}
                sort={{key, up: way === "+"}}
                rowKey={(s) => s.service + "\0" + s.name}
                still
                onSort={(s) => patch({sort: s.key + (s.up ? "+" : "-")}, {replace: true})}
                onPick={(s) => patch({name: s.name, service: s.service})}
            />
        </div>
    );
}

// sel: "slot-slot_row-row", or "slowest".
const parseSel = (text) => {
    const m = /^(\d+)-(\d+)_(\d+)-(\d+)$/.exec(text ?? "");
    return m ? {slots: [Number(m[1]), Number(m[2])], rows: [Number(m[3]), Number(m[4])]} : null;
};

function OneName({p, at, live}) {
    const heat = useData(apiUrl("span_heatmap", {service: p.service, span_name: p.name, ...at}), {live});
    return (
        <Loaded
            of={heat}
            what="latencies"
            empty={(d) => !d.count}
            nothing={
                <Box title="No such span in this range">
                    <p>Choose another range or another span.</p>
                </Box>
            }
        >
            {(d) => <Latency d={d} p={p} at={at} live={live} />}
        </Loaded>
    );
}

function Latency({d, p, at, live}) {
    const sel = parseSel(p.sel),
        edge = (slot) => String(BigInt(d.from) + BigInt(slot) * BigInt(d.step));
    const fits = sel && sel.slots[1] < d.counts.length && sel.rows[1] < d.bounds.length - 1 ? sel : null;
    const common = {service: p.service, span_name: p.name, ...at, by: "filefunction", max_nodes: 8000};
    let ask;
    if (fits)
        ask = {
            ...common,
            span_from: edge(fits.slots[0]),
            span_to: edge(fits.slots[1] + 1),
            min_duration: `${Math.round(d.bounds[fits.rows[0]])}ns`,
            max_duration: `${Math.round(d.bounds[fits.rows[1] + 1])}ns`,
            against: "rest",
        };
    else if (p.sel === "slowest") ask = {...common, slowest: 5};
    else ask = common;
    const tree = useTree(ask, p.zoom, {live}),
        [found, setFound] = useState(null);
    const examples = fits
        ? {
              service: p.service,
              span_name: p.name,
              from: edge(fits.slots[0]),
              to: edge(fits.slots[1] + 1),
              min_duration: ask.min_duration,
              max_duration: ask.max_duration,
          }
        : {service: p.service, span_name: p.name, ...at};
    const n = tree.data && samplesOf(tree.data.total[tree.data.columns - 1][0], tree.data.unit, tree.cover?.rate);
    const compared = tree.data?.columns > 1,
        params = {...p, query: p.service && serviceQuery("cpu", p.service), focus: "", ignore: "", hide: ""};
    let words;
    if (fits)
        words =
            `spans of ${duration(d.bounds[fits.rows[0]])} to ` +
            `${duration(d.bounds[fits.rows[1] + 1])} in the selected time, against all others of ` +
            "this name";
    else if (p.sel === "slowest") words = "the slowest 5 %, against the rest";
    else words = "all spans of this name";
    return (
        <>
            <div class="panel spans-heat">
                <HeatMap
                    data={d}
                    selected={fits}
                    label={`latency of ${p.name} over time, ${d.count} spans`}
                    onSelect={(s) => patch({sel: `${s.slots.join("-")}_${s.rows.join("-")}`, zoom: ""})}
                />
            </div>
            <div class="toolbar">
                <span class="num total">
                    {fresh(
                        [
                            `${count(d.count, "span")}, ${count(d.errors, "error")}`,
                            tree.data &&
                                !compared &&
                                `${amount(tree.data.total[0][0], tree.data.unit, tree.data.type)} of ` +
                                    `${typeTitle(tree.data.type)}`,
                            `shown: ${words}`,
                        ]
                            .filter(Boolean)
                            .join(" · "),
                    )}
                </span>
                <span class="grow" />
                <SearchBox value={p.search ?? ""} found={found} onInput={(v) => patch({search: v}, {replace: true})} />
                <button
                    aria-pressed={p.sel === "slowest"}
                    onClick={() => patch({sel: p.sel === "slowest" ? "" : "slowest", zoom: ""})}
                >
                    Slowest 5 %
                </button>
                {fits && <button onClick={() => patch({sel: "", zoom: ""})}>Clear the selection</button>}
                {compared && <DiffLegend />}
                <Examples ask={examples} />
            </div>
            <div class="pane">
                <Loaded
                    of={tree}
                    what="profiles of these spans"
                    empty={(t) => !(t.total[0][0] > 0) && !(t.total[1]?.[0] > 0)}
                    nothing={
                        <Box title="No samples of these spans">
                            <p>
                                No profile is linked to them: the sender has to link samples to spans, as libwick, the
                                Go module and the Python package do.
                            </p>
                        </Box>
                    }
                >
                    {(t) => (
                        <Weak
                            when={n !== undefined && n < FEW}
                            text={
                                `${typeTitle(t.type)}: ${count(Math.round(n), "sample")} of ` +
                                `${count(d.count, "span")}, shares say little`
                            }
                        >
                            <FlamePane
                                tree={t}
                                params={params}
                                filters={false}
                                cover={tree.cover}
                                mode={compared ? modeOf({mode: "share"}, t.type, tree.cover) : ""}
                                onFound={setFound}
                                rootName={p.name}
                                label={`Flame graph of ${p.name}`}
                            />
                        </Weak>
                    )}
                </Loaded>
            </div>
        </>
    );
}
