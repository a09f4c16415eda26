// SPDX-License-Identifier: Apache-2.0
// What the selected span did.
import {useState} from "preact/hooks";
import {serviceQuery} from "../lib/selector.js";
import {amount, count, duration, percent, typeTitle, sum} from "../lib/units.js";
import {href, patch} from "../lib/url.js";
import {FlamePane, useTree} from "./flamepane.js";
import {SearchBox} from "./search.js";
import {Box, Failed, Loading} from "./states.js";
import {FEW, Weak} from "./weak.js";

// What one span did, alone or with all below it.
export function Work({p, s, d}) {
    const [found, setFound] = useState(null),
        alone = p.alone === "1";
    const ask = {
        trace_id: p.trace,
        span_id: s.spanId,
        children: alone ? "" : "true",
        from: p.from,
        to: p.to,
        by: "filefunction",
        max_nodes: 8000,
    };
    const tree = useTree(ask, p.zoom, {}),
        t = tree.data,
        samples = alone ? s.samples : sum(below(d.spans, s).map((x) => x.samples));
    const explore = (type) =>
        href("explore", {
            query: serviceQuery(type, s.service),
            trace: p.trace,
            span: s.spanId,
            from: p.from || String(Math.floor(Number(s.start) / 1e9) - 60),
            to: p.to || String(Math.ceil((Number(s.start) + Number(s.duration)) / 1e9) + 60),
        });
    const type = t?.type ?? d.type,
        params = {...p, query: serviceQuery(type, s.service), sel: p.sel, focus: "", ignore: "", hide: ""};
    const has = t && t.total[0][0] > 0,
        unit = t?.unit ?? d.unit;
    return (
        <>
            <div class="toolbar">
                <span class="chip">
                    <span>
                        {alone ? "span" : "span and all below"} <b>{s.name}</b> · {s.spanId}
                    </span>
                </span>
                <button
                    aria-pressed={!!alone}
                    onClick={() => patch({alone: alone ? "" : "1", zoom: ""}, {replace: true})}
                >
                    This span alone
                </button>
                {has ? (
                    <span class="num total">
                        {amount(t.total[0][0], unit, type)} of {typeTitle(type)}
                        {alone && unit === "nanoseconds"
                            ? `, ${percent(t.total[0][0] / Number(s.duration), undefined, 2)} of ` +
                              `${duration(Number(s.duration))}`
                            : ""}{" "}
                        · {count(samples, "sample")}
                    </span>
                ) : (
                    ""
                )}
                <span class="grow" />
                <SearchBox value={p.search ?? ""} found={found} onInput={(v) => patch({search: v}, {replace: true})} />
                <a class="button" href={explore(type)}>
                    Explore
                </a>
            </div>
            <div class="pane">
                {tree.error && <Failed error={tree.error} reload={tree.reload} />}
                {!tree.error && !t && <Loading what="samples" />}
                {!tree.error && t && !has && (
                    <Box title="No samples in this span">
                        <p>
                            It took {duration(Number(s.duration))}
                            {samples
                                ? ""
                                : ": shorter than the time between samples, or its program is not profiled, or " +
                                  "does not link samples to spans"}{" "}
                            (libwick, the Go module and the Python package do).
                        </p>
                        <p>
                            <a class="button" href={href("spans", {service: s.service, name: s.name})}>
                                All spans of this name
                            </a>
                        </p>
                    </Box>
                )}
                {!tree.error && has && (
                    <Weak when={samples < FEW} text={`${count(samples, "sample")}: shares say little`}>
                        <FlamePane
                            tree={t}
                            params={params}
                            filters={false}
                            cover={{...tree.cover, ns: 0, rate: undefined}}
                            onFound={setFound}
                            rootName={s.name}
                            label={`Flame graph of ${s.name}`}
                        />
                    </Weak>
                )}
            </div>
        </>
    );
}

// A span and its descendants: they follow it, deeper.
export function below(spans, s) {
    const at = spans.indexOf(s),
        end = spans.findIndex((x, i) => i > at && x.depth <= s.depth);
    return spans.slice(at, end < 0 ? undefined : end);
}
