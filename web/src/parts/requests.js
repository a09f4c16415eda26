// SPDX-License-Identifier: Apache-2.0
// The slowest requests of a service in a range, each with a link to its page.
import {apiUrl, useData} from "../lib/api.js";
import {clock, duration, number} from "../lib/units.js";
import {href, patch} from "../lib/url.js";
import {Loaded} from "./states.js";

const ROWS = 20;

export const requestLink = (s) => href("trace", {trace: s.traceId, span: s.spanId});

// ask: parameters that select the spans. A span whose caller is another service is a request, too; one that is
// called within is not.
export function Requests({ask, close = () => patch({requests: ""})}) {
    const data = useData(apiUrl("spans", {...ask, sort: "duration", limit: ROWS}));
    return (
        <aside class="explain" aria-label="slow requests">
            <h2>
                Slowest requests{" "}
                <button class="icon" aria-label="close" onClick={close}>
                    ×
                </button>
            </h2>
            <Loaded
                of={data}
                what="requests"
                empty={(d) => !d.spans.length}
                nothing={<p class="muted">No spans of this service in this range.</p>}
            >
                {(d) => (
                    <ol class="requests">
                        {d.spans.map((s) => (
                            <li key={s.traceId + s.spanId}>
                                <a href={requestLink(s)}>
                                    <b class="num">{duration(Number(s.duration))}</b> {s.name}
                                </a>{" "}
                                <span class="muted num">
                                    {clock(Number(s.start) / 1e6)}
                                    {s.samples
                                        ? ` · ${number(s.samples)} ${s.samples === 1 ? "sample" : "samples"}`
                                        : ""}
                                    {s.status === "error" ? " · error" : ""}
                                </span>
                            </li>
                        ))}
                    </ol>
                )}
            </Loaded>
        </aside>
    );
}

// A few of the spans that a selection contains, the slowest first.
export function Examples({ask}) {
    const data = useData(apiUrl("spans", {...ask, sort: "duration", limit: 5})).data;
    return (
        <p class="facts-line num examples">
            <span class="muted">slowest of them</span>{" "}
            {(data?.spans ?? []).map((s) => (
                <>
                    <a
                        key={s.spanId}
                        href={requestLink(s)}
                        title={`${s.name}: the request at ${clock(Number(s.start) / 1e6)}`}
                    >
                        {duration(Number(s.duration))}
                    </a>{" "}
                </>
            ))}
        </p>
    );
}
