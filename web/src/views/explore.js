// SPDX-License-Identifier: Apache-2.0
// Explore: one selection in all views.
import {useEffect, useState} from "preact/hooks";
import {overFiles} from "../lib/api.js";
import {compareItems, exportItems, pictureTitle} from "../lib/export.js";
import {listen} from "../lib/keys.js";
import {matchedValue} from "../lib/selector.js";
import {before, middle, parseCell, rangeOf, seconds, settledNow, startOf, timeProblem} from "../lib/time.js";
import {href, patch} from "../lib/url.js";
import {urlProblem} from "../lib/wrong.js";
import {FileBar, Selector, TimePicker} from "../parts/bar.js";
import {drawKeys} from "../parts/filters.js";
import {LiveState} from "../parts/livestate.js";
import {MoreMenu, useNotes} from "../parts/marks.js";
import {Drop} from "../parts/menu.js";
import {GroupBy, Series, useLast} from "../parts/overtime.js";
import {useParams, useStatus} from "../parts/shell.js";
import {Loading, Wrong} from "../parts/states.js";
import {Pane, againstFirst, views} from "./explorepane.js";
import {hasSpans} from "./spans.js";
import {Trace} from "./trace.js";

// The parameters of every request about this selection. cell: a time that was selected in the heat map, by the
// times of samples.
export function ask(p, range) {
    const cell = parseCell(p.cell2) ?? parseCell(p.cell);
    const times = cell
        ? {from: String(cell[0]), to: String(cell[1]), times: "sample"}
        : {from: range.from, to: range.to};
    return {
        query: p.query || "cpu",
        ...times,
        trace_id: p.trace,
        span_id: p.span,
        profile: p.profile,
        focus: p.focus,
        ignore: p.ignore,
        hide: p.hide,
    };
}

export function Explore() {
    const p = useParams();
    const wrong = p && (timeProblem(p) || urlProblem(p));
    if (wrong)
        return (
            <>
                <h1 class="sr">Explore</h1>
                <Wrong text={wrong} />
            </>
        );
    if (p?.trace && !p.query) return <Trace />; // a link of a trace viewer
    return p ? (
        <Page p={p} />
    ) : (
        <>
            <h1 class="sr">Explore</h1>
            <Loading />
        </>
    );
}

// A comparison of this selection with the time just before, both as fixed times; of its halves if there was
// nothing before.
function compareLink(q, range) {
    const end = range.live ? settledNow() : range.toMs;
    let from;
    if (startOf(range) > range.fromMs) from = middle(end);
    else if (range.live) from = end - (range.toMs - range.fromMs);
    else from = range.fromMs;
    const b = before({fromMs: from, toMs: end});
    return href("compare", {
        query: q.query,
        from: seconds(from),
        to: seconds(end),
        base_query: q.query,
        base_from: b.from,
        base_to: b.to,
    });
}

function Page({p}) {
    const range = rangeOf(p);
    const view = views.some(([v]) => v === p.view) ? p.view : "flame";
    const q = ask(p, range),
        last = useLast(p, q, range);
    const [changes, changed] = useState(0);
    const files = overFiles.value; // known before this is rendered, so that nothing moves
    const notes = useNotes(!files, matchedValue(q.query, "service.name"), changes);
    useStatus();
    useEffect(
        () =>
            listen({
                ...Object.fromEntries(views.map(([v, , key]) => [key, () => patch({view: v === "flame" ? "" : v})])),
                ...drawKeys,
                R: () => patch({at: Date.now().toString(36)}, {replace: true}),
            }),
        [],
    );
    return (
        <>
            <h1 class="sr">Explore</h1>
            <div class="bar explore-bar">
                {files ? (
                    <FileBar query={q.query} />
                ) : (
                    <>
                        <Selector
                            query={q.query}
                            range={range}
                            onQuery={(query) => patch({query, zoom: "", profile: ""})}
                        />
                        <GroupBy p={p} q={q} range={range} />
                    </>
                )}
                <span class="grow" />
                {files ? (
                    ""
                ) : (
                    <>
                        <LiveState range={range} />
                        <TimePicker
                            range={range}
                            onPick={(r) => patch({...r, zoom: "", profile: "", cell: "", cell2: "", win: ""})}
                        />
                        {hasSpans() && (
                            <a
                                class="button"
                                href={href("spans", {
                                    service: matchedValue(q.query, "service.name"),
                                    from: p.from,
                                    to: p.to,
                                })}
                                title="Latency of spans, and what slow ones do"
                            >
                                Spans
                            </a>
                        )}
                        <a class="button" href={compareLink(q, range)} title="Compare with the time just before">
                            Compare
                        </a>
                    </>
                )}
                <Drop
                    label="Export"
                    items={() =>
                        p.cell2 && parseCell(p.cell)
                            ? compareItems(
                                  againstFirst(p, q),
                                  view === "flame" || view === "both" ? pictureTitle(q, range) : "",
                              )
                            : exportItems(q, range)
                    }
                />
                {files ? "" : <MoreMenu q={q} range={range} notes={notes} onChange={() => changed((n) => n + 1)} />}
            </div>
            {files ? "" : <Series p={p} q={q} range={range} notes={notes} />}
            <Pane p={p} q={q} range={range} view={view} last={last} />
        </>
    );
}
