// SPDX-License-Identifier: Apache-2.0
// The lower part of Explore: the selection in one of its views, with what belongs to it.
import {pricedFor} from "../lib/upload.js";
import {useState} from "preact/hooks";
import {modeOf} from "../lib/diff.js";
import {parseSelector, matchedValue, printSelector} from "../lib/selector.js";
import {parseCell} from "../lib/time.js";
import {percent} from "../lib/units.js";
import {href, patch, go} from "../lib/url.js";
import {canExplain, Explain, Headline} from "../parts/explain.js";
import {DrawOptions, Filters} from "../parts/filters.js";
import {FlamePane, useTree} from "../parts/flamepane.js";
import {Naming} from "../parts/hidden.js";
import {DiffLegend} from "../parts/legend.js";
import {Choice} from "../parts/menu.js";
import {CellChips, groupOf} from "../parts/overtime.js";
import {Requests} from "../parts/requests.js";
import {SearchBox} from "../parts/search.js";
import {useStatus} from "../parts/shell.js";
import {Loaded, Box} from "../parts/states.js";
import {Breakdown} from "./breakdown.js";
import {CallGraph} from "./callgraph.js";
import {FlameChart} from "./flamechart.js";
import {Profiles} from "./profiles.js";
import {Sandwich} from "./sandwich.js";
import {Source} from "./source.js";
import {hasSpans} from "./spans.js";
import {TopTable} from "./toptable.js";
import {Total, coverTitle} from "../parts/total.js";

export const views = [
    ["flame", "Flame graph", "1", "Flame graph: merged stacks, the heaviest first (left heavy)"],
    ["table", "Table", "2"],
    ["both", "Both", "3"],
    ["graph", "Call graph", "4"],
    ["sandwich", "Callers", "5", "Callers and callees of one function (sandwich)"],
    ["source", "Source", "6"],
    ["profiles", "Profiles", "7"],
    ["labels", "Labels", "8"],
    ["chart", "Flame chart", "9", "Flame chart: what each thread did, in the order of time"],
];

const NODES = 20000;

const ofRange = ["profiles", "labels", "chart"];

const others = {profiles: Profiles, sandwich: Sandwich, source: Source, labels: Breakdown, chart: FlameChart};

export function Pane({p, q: all, range, view, last}) {
    const needTree = view === "flame" || view === "both" || view === "graph";
    const atEnd = last && p.of !== "mean" && !ofRange.includes(view),
        q = atEnd ? {...all, from: last.from, to: last.to} : all;
    const group = view === "graph" ? "" : groupOf(p, q);
    const two = p.cell2 && view !== "graph" && parseCell(p.cell) ? againstFirst(p, q) : null;
    const tree = useTree(
        needTree && last !== undefined
            ? {...(two ?? q), by: "filefunction", max_nodes: p.nodes ?? NODES, group_by: two ? "" : group}
            : null,
        view === "graph" ? "" : p.zoom,
        {live: range.live && !p.cell},
    );
    const [found, setFound] = useState(null);
    const status = useStatus().data,
        explains = canExplain() && !p.timeless,
        explaining = explains && view === "flame" && p.explain === "1";
    const service = matchedValue(q.query, "service.name"),
        traced = hasSpans() && service && view === "flame" && !p.trace,
        listing = traced && !explaining && p.requests === "1";
    const cover = tree.cover;
    const t = tree.whole ?? tree.data;
    const besides = explaining || listing ? "explained" : "whole",
        Other = others[view];
    return (
        <>
            <div class="toolbar">
                <Choice
                    label="view"
                    value={view}
                    options={
                        p.timeless ? views.filter(([v]) => v !== "profiles" && v !== "labels" && v !== "chart") : views
                    }
                    onPick={(v) => patch({view: v === "flame" ? "" : v})}
                />
                <SearchBox value={p.search ?? ""} found={found} onInput={(v) => patch({search: v}, {replace: true})} />
                <Filters params={p} />
                {p.trace && (
                    <span class="chip">
                        <a href={href("trace", {trace: p.trace, span: p.span})} title="The request">
                            {p.span ? (
                                <>
                                    span <b>{p.span.slice(0, 8)}</b> of{" "}
                                </>
                            ) : (
                                ""
                            )}
                            trace <b>{p.trace.slice(0, 8)}</b>
                        </a>
                        <button aria-label="all traces" onClick={() => patch({trace: "", span: ""})}>
                            ×
                        </button>
                    </span>
                )}
                {p.profile && (
                    <span class="chip">
                        <span>
                            one profile <b>{p.profile.slice(0, 8)}</b>
                        </span>
                        <button aria-label="all profiles" onClick={() => patch({profile: ""})}>
                            ×
                        </button>
                    </span>
                )}
                <span class="grow" />
                {explains && view === "flame" && (
                    <button
                        aria-pressed={!!explaining}
                        title="What stands out in this selection"
                        onClick={() => patch({explain: explaining ? "" : "1", requests: ""})}
                    >
                        Explain
                    </button>
                )}
                {traced && (
                    <button
                        aria-pressed={!!listing}
                        title="The slowest requests of this service in this range"
                        onClick={() => patch({requests: listing ? "" : "1", explain: ""})}
                    >
                        Requests
                    </button>
                )}
                {needTree && view !== "graph" && <DrawOptions params={p} />}
                {(needTree || p.cell) && (
                    <div class="facts-line">
                        <CellChips p={p} />
                        {needTree && (
                            <>
                                <span class="num total" title={coverTitle(cover)}>
                                    {t && (
                                        <Total
                                            t={t}
                                            cover={cover}
                                            status={pricedFor(q.query, status)}
                                            column={t.columns - 1}
                                            last={last}
                                            atEnd={atEnd}
                                        />
                                    )}{" "}
                                    <Naming notes={tree.notes} />
                                </span>
                                {t?.columns > 1 && <DiffLegend />}
                            </>
                        )}
                    </div>
                )}
            </div>
            {explains && <Headline p={p} q={all} live={range.live && !p.cell} />}
            <div class={"pane pane-" + view}>
                {view === "table" && <TopTable p={p} q={two ?? q} range={p.cell ? null : range} diff={!!two} />}
                {Other && <Other p={p} q={q} range={range} />}
                {!Other && view !== "table" && (
                    <Loaded
                        of={tree}
                        what="profiles"
                        empty={(d) => !(d.total[0][0] > 0) && !(d.total[1]?.[0] > 0)}
                        nothing={<Nothing p={p} q={q} range={range} />}
                    >
                        {(data) =>
                            view === "graph" ? (
                                <CallGraph tree={data} params={p} of={tree.url} cover={cover} />
                            ) : (
                                <div class={view === "both" ? "split" : besides}>
                                    {view === "both" && <TopTable p={p} q={q} range={range} narrow />}
                                    <FlamePane
                                        tree={data}
                                        params={p}
                                        cover={cover}
                                        mode={data.columns > 1 ? modeOf(p, data.type, cover) : ""}
                                        onFound={setFound}
                                        rootName={rootName(q.query, p.timeless)}
                                    />
                                    {explaining && <Explain p={p} q={all} />}
                                    {listing && <Requests ask={{service, from: all.from, to: all.to}} />}
                                </div>
                            )
                        }
                    </Loaded>
                )}
            </div>
        </>
    );
}

// The second time of the heat map against the first.
export function againstFirst(p, q) {
    const [a, b] = parseCell(p.cell);
    return {...q, base_query: q.query, base_from: String(a), base_to: String(b)};
}

function rootName(query, timeless) {
    if (timeless) return "all";
    const s = parseSelector(query);
    return s.matchers.find((m) => m.name === "service.name" && m.op === "=")?.value ?? "all services";
}

// "N % of frames named" where some are not.
export function named(t) {
    let no = 0,
        all = 0;
    for (let i = 1; i < t.n; i++) {
        if (t.isFolded(i)) continue;
        all += t.self[0][i];
        if (t.frames.fn[t.frame[i]] === 0) no += t.self[0][i];
    }
    return no > 0 ? `${percent(1 - no / all)} named` : "";
}

export function Nothing({p, q, range}) {
    const s = parseSelector(q.query);
    const wider = range.live ? "now-1d" : "";
    return (
        <Box title="No data for this selection">
            <p>
                No {s.type || "cpu"} profiles {s.matchers.length ? "match these labels" : "arrived"} in this range
                {p.focus || p.ignore ? ", or the frame filters exclude everything" : ""}.
            </p>
            <p>
                {wider && p.from !== wider ? (
                    <>
                        <button onClick={() => patch({from: wider, to: ""})}>Show the last day</button>{" "}
                    </>
                ) : (
                    ""
                )}
                {s.matchers.length ? (
                    <>
                        <button onClick={() => patch({query: printSelector({type: s.type, matchers: []})})}>
                            All services
                        </button>{" "}
                    </>
                ) : (
                    ""
                )}
                {p.focus || p.ignore || p.hide ? (
                    <>
                        <button onClick={() => patch({focus: "", ignore: "", hide: ""})}>
                            Remove frame filters
                        </button>{" "}
                    </>
                ) : (
                    ""
                )}
                <button onClick={() => go("start", {})}>How to send profiles</button>
            </p>
        </Box>
    );
}
