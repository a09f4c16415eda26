// SPDX-License-Identifier: Apache-2.0
// Sources: what each sender sends and has lost, and the state of its governor; and which binaries have names, with how
// to get the missing ones.
import {apiUrl, useData} from "../lib/api.js";
import {shortVersion} from "../lib/names.js";
import {serviceQuery} from "../lib/selector.js";
import {ago, bytes, count, duration, number, percent} from "../lib/units.js";
import {href, patch, route} from "../lib/url.js";
import {Hidden} from "../parts/hidden.js";
import {LiveState} from "../parts/livestate.js";
import {useStatus} from "../parts/shell.js";
import {Box, fresh, Loaded} from "../parts/states.js";
import {Table} from "../parts/table.js";
import {orDash, symbolColumns} from "../parts/symbols.js";

function sortOf(p, key, standard) {
    const [, k, way] = /^(\w+?)([+-]?)$/.exec(p[key] ?? "") ?? /^(\w+?)([+-]?)$/.exec(standard);
    return {key: k, up: way === "+"};
}

function Lost({s}) {
    const lost = Number(s.lost ?? 0);
    if (lost > 0)
        return (
            <span class="more" title="samples that the sender dropped">
                {number(lost)}
            </span>
        );
    if (s.lost === undefined || s.lost === null) return orDash(undefined);
    return "0";
}

// One row per service, host, version and library: an agent sends for many processes, each of which is a sender.
function grouped(list) {
    const by = new Map();
    for (const s of list) {
        const key = [s.service, s.host, s.version, s.scope, s.agent].join("\0");
        const g = by.get(key);
        if (!g) {
            by.set(key, {...s, key, processes: 1});
            continue;
        }
        g.processes++;
        for (const k of [
            "profiles",
            "samples",
            "bytes",
            "refused",
            "profilesPerSecond",
            "samplesPerSecond",
            "bytesPerSecond",
        ])
            g[k] = (g[k] ?? 0) + (s[k] ?? 0);
        const later = Number(s.lastSeen) > Number(g.lastSeen);
        for (const k of ["lastSeen", "rate", "lost", "cpuNs", "governor", "governorText", "via", "viaReason", "lacks"])
            if (later && s[k] !== undefined) g[k] = s[k];
    }
    return [...by.values()];
}

function Governor({s}) {
    const limits = [s.viaReason, s.lacks].filter(Boolean).join("; ");
    return (
        <>
            {limits && (
                <>
                    <span class="badge more" title={limits}>
                        via {s.via}, limited
                    </span>{" "}
                </>
            )}
            <Rate s={s} />
        </>
    );
}

function Rate({s}) {
    if (s.governorText)
        return (
            <span class="badge" title={s.governorText}>
                {s.governorText}
            </span>
        );
    if (s.governor === undefined || s.governor === null) return orDash();
    return s.governor > 0 ? (
        <span class="badge more" title="to stay within its CPU budget">
            rate lowered {s.governor}×
        </span>
    ) : (
        <span class="muted">full rate</span>
    );
}

const senderColumns = [
    {
        key: "service",
        title: "service",
        value: (s) => s.service ?? "",
        show: (s) => (
            <a href={href("explore", {query: serviceQuery("cpu", s.service ?? ""), from: "now-15m"})}>{s.service}</a>
        ),
    },
    {key: "host", title: "host", value: (s) => s.host ?? "", show: (s) => s.host || orDash()},
    {
        key: "version",
        title: "version",
        value: (s) => s.version ?? "",
        show: (s) =>
            s.version ? (
                <span class="badge" title={s.version}>
                    {shortVersion(s.version)}
                </span>
            ) : (
                orDash()
            ),
    },
    {
        key: "scope",
        title: "sent by",
        value: (s) => s.scope ?? "",
        show: (s) => <span class="muted">{[s.scope, s.scopeVersion].filter(Boolean).join(" ") || "–"}</span>,
    },
    {key: "processes", title: "processes", num: true, value: (s) => s.processes, show: (s) => number(s.processes)},
    {
        key: "lastSeen",
        title: "last seen",
        num: true,
        value: (s) => Number(s.lastSeen),
        show: (s) => {
            const ms = Number(s.lastSeen) / 1e6;
            return (
                <span key={ago(ms)} class={Date.now() - ms > 120e3 ? "more" : ""}>
                    {ago(ms)}
                </span>
            );
        },
    },
    {key: "profiles", title: "profiles", num: true, value: (s) => s.profiles ?? 0, show: (s) => orDash(s.profiles)},
    {
        key: "samplesPerSecond",
        title: "samples/s",
        num: true,
        value: (s) => s.samplesPerSecond ?? 0,
        show: (s) => orDash(s.samplesPerSecond),
    },
    {
        key: "bytesPerSecond",
        title: "traffic",
        num: true,
        value: (s) => s.bytesPerSecond ?? 0,
        show: (s) => orDash(s.bytesPerSecond, (v) => bytes(v) + "/s"),
    },
    {
        key: "rate",
        title: "rate",
        num: true,
        value: (s) => Number(s.rate ?? 0),
        show: (s) => orDash(s.rate, (v) => `${number(v)} Hz`),
    },
    {key: "lost", title: "lost", num: true, value: (s) => Number(s.lost ?? 0), show: (s) => <Lost s={s} />},
    {
        key: "cpuNs",
        title: "own CPU",
        num: true,
        value: (s) => Number(s.cpuNs ?? 0),
        show: (s) => orDash(s.cpuNs, duration),
    },
    {
        key: "governor",
        title: "governor",
        cls: "gov",
        value: (s) => String(s.governor ?? ""),
        show: (s) => <Governor s={s} />,
    },
];

export function Senders() {
    const p = route.value.params;
    const status = useStatus({live: true}).data;
    const senders = useData(apiUrl("senders"), {live: true});
    const symbols = useData(apiUrl("symbols", {query: "cpu", from: "now-1h"}));
    const sort = sortOf(p, "sort", "service+"),
        order = sortOf(p, "order", "named+");
    return (
        <>
            <div class="bar">
                <h1>Sources</h1>
                {status && (
                    <span class="num total">
                        {fresh(
                            `${count(status.profiles, "profile")} since start · ${number(status.duplicates)} sent ` +
                                `twice · ${number(status.rejected)} refused · ${bytes(status.diskBytes)} on disk`,
                        )}
                        {status.storing ? (
                            ""
                        ) : (
                            <>
                                {" "}
                                · <b class="more">not storing</b>
                            </>
                        )}
                    </span>
                )}
                <span class="grow" />
                <LiveState range={{live: true}} />
            </div>
            <div class="services">
                <section class="panel reserve" aria-label="who sends">
                    <h2>Active senders</h2>
                    <Loaded
                        of={senders}
                        what="senders"
                        empty={(d) => !d.senders.length}
                        nothing={
                            <Box title="No data received since the server started">
                                <p>
                                    {status?.otlp ? (
                                        <>
                                            OTLP: listening on <code>{status.otlp.grpc ?? status.otlp.http}</code>.
                                        </>
                                    ) : (
                                        "OTLP is off."
                                    )}{" "}
                                    Senders appear with their first profile.
                                </p>
                                <p>
                                    <a class="button main" href={href("start")}>
                                        How to send profiles
                                    </a>
                                </p>
                            </Box>
                        }
                    >
                        {(d) => (
                            <Table
                                caption="senders"
                                columns={senderColumns}
                                rows={grouped(d.senders)}
                                sort={sort}
                                rowKey={(s) => s.key}
                                still
                                onSort={(x) => patch({sort: x.key + (x.up ? "+" : "-")}, {replace: true})}
                            />
                        )}
                    </Loaded>
                </section>
                <section class="panel reserve" aria-label="names of binaries">
                    <h2>
                        Names of binaries{" "}
                        {symbols.data && (
                            <span class="muted num">
                                {percent(symbols.data.self > 0 ? symbols.data.selfNamed / symbols.data.self : 1)} of CPU
                                time of the last hour is named{" "}
                                <Hidden notes={symbols.data.notes} query="cpu" range={{from: "now-1h", to: "now"}} />
                            </span>
                        )}
                    </h2>
                    <Loaded
                        of={symbols}
                        what="binaries"
                        empty={(d) => !d.binaries.length}
                        nothing={<p class="muted foot">No binaries in the profiles of the last hour.</p>}
                    >
                        {(d) => (
                            <Table
                                caption="binaries and their symbols"
                                columns={symbolColumns}
                                rows={d.binaries}
                                sort={order}
                                rowKey={(b) => b.buildId + "\0" + b.mapping}
                                onSort={(x) => patch({order: x.key + (x.up ? "+" : "-")}, {replace: true})}
                            />
                        )}
                    </Loaded>
                </section>
            </div>
        </>
    );
}
