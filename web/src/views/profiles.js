// SPDX-License-Identifier: Apache-2.0
// Single profiles of a spike, as they were sent, largest or newest first.
import {apiUrl, useData} from "../lib/api.js";
import {amount, clock, duration, number, rate} from "../lib/units.js";
import {patch} from "../lib/url.js";
import {Box, Loaded} from "../parts/states.js";
import {Table} from "../parts/table.js";

export function Profiles({p, q, range}) {
    const byTime = p.psort === "time";
    const data = useData(
        apiUrl("profiles", {
            query: q.query,
            from: q.from,
            to: q.to,
            trace_id: q.trace_id,
            span_id: q.span_id,
            sort: byTime ? "time" : "value",
            limit: 1000,
        }),
        {live: range.live},
    );
    return (
        <Loaded
            of={data}
            what="single profiles"
            empty={(d) => !d.profiles.length}
            nothing={
                <Box title="No individual profiles">
                    <p>
                        No profile matches in this time range, or its detail is older than <code>retention.detail</code>
                        : the merged flame graph is still available.
                    </p>
                </Box>
            }
        >
            {(d) => {
                const columns = [
                    {
                        key: "time",
                        title: "time",
                        value: (r) => Number(r.time),
                        show: (r) => <span class="num">{clock(Number(r.time) / 1e6)}</span>,
                    },
                    {
                        key: "duration",
                        title: "length",
                        num: true,
                        value: (r) => Number(r.duration),
                        show: (r) => duration(Number(r.duration)),
                    },
                    {
                        key: "value",
                        title: "value",
                        num: true,
                        value: (r) => r.value,
                        show: (r) => amount(r.value, d.unit, d.type),
                    },
                    {
                        key: "rate",
                        title: "rate",
                        num: true,
                        value: (r) => r.value / (Number(r.duration) || 1),
                        show: (r) => rate(r.value, d.unit, d.type, Number(r.duration)),
                    },
                    {
                        key: "samples",
                        title: "samples",
                        num: true,
                        value: (r) => r.samples,
                        show: (r) => number(r.samples),
                    },
                    {
                        key: "labels",
                        title: "labels",
                        cls: "wide",
                        show: (r) => (
                            <span class="fn muted">
                                {Object.entries(r.labels)
                                    .map(([k, v]) => `${k}=${v}`)
                                    .join("  ")}
                            </span>
                        ),
                    },
                ];
                const [, key, way] = /^(\w+?)([+-]?)$/.exec(p.prow ?? "") ?? ["", "value", "-"];
                return (
                    <div class="top-pane">
                        <Table
                            caption="single profiles"
                            columns={columns}
                            rows={d.profiles}
                            rowKey={(r) => r.handle}
                            sort={{key, up: way === "+"}}
                            onSort={(s) =>
                                patch(
                                    {prow: s.key + (s.up ? "+" : "-"), psort: s.key === "time" ? "time" : ""},
                                    {replace: true},
                                )
                            }
                            onPick={(r) => patch({profile: r.handle, view: "", zoom: ""})}
                        />
                        <p class="muted foot">
                            {d.count > d.profiles.length ? `${d.profiles.length} of ${number(d.count)}. ` : ""}Pick one
                            for its own flame graph.
                        </p>
                    </div>
                );
            }}
        </Loaded>
    );
}
