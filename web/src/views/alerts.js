// SPDX-License-Identifier: Apache-2.0
// Alerts: what fires, the rules, and where messages are sent. Rules are of wick.yaml, or were added here.
import {useMemo, useState} from "preact/hooks";
import {apiUrl, post, session, useData} from "../lib/api.js";
import {ago, number} from "../lib/units.js";
import {badge as state, RuleDialog, Tried} from "../parts/alertbutton.js";
import {LiveState} from "../parts/livestate.js";
import {Box, Loaded} from "../parts/states.js";
import {Table} from "../parts/table.js";

const since = (text) => (text ? ago(Date.parse(text)) : "–");
// Links lead to this server, whatever address it is known by elsewhere.
export const inside = (url) => {
    try {
        const u = new URL(url, location.href);
        return /^https?:$/.test(u.protocol) ? u.pathname + u.search : undefined;
    } catch {
        return undefined;
    }
};

const ruleColumns = (edit) => [
    {key: "name", title: "rule", value: (r) => r.name, show: (r) => r.name},
    {key: "state", title: "state", value: (r) => r.state, show: (r) => state(r.state)},
    {key: "type", title: "type", value: (r) => r.type, show: (r) => r.type},
    {
        key: "selector",
        title: "selector",
        cls: "wide",
        value: (r) => r.selector ?? "",
        show: (r) => <code title={r.selector}>{r.selector}</code>,
    },
    {key: "function", title: "function", value: (r) => r.function ?? "", show: (r) => r.function || "–"},
    {key: "for", title: "for", show: (r) => r.for || "–"},
    {
        key: "evaluated",
        title: "evaluated",
        num: true,
        value: (r) => Date.parse(r.evaluated ?? 0),
        show: (r) => since(r.evaluated),
    },
    {
        key: "error",
        title: "problem",
        show: (r) =>
            r.error ? (
                <span class="more" title={r.error}>
                    {r.error}
                </span>
            ) : (
                ""
            ),
    },
    {
        key: "origin",
        title: "kept in",
        show: (r) =>
            r.id ? (
                <>
                    this server{" "}
                    <button class="small" title={`Try, change or delete ${r.name}`} onClick={() => edit(r.id)}>
                        Edit
                    </button>
                </>
            ) : (
                "wick.yaml"
            ),
    },
];

export function AlertList({alerts}) {
    return (
        <ul class="alert-list">
            {alerts.map((a) => (
                <li key={a.rule + a.service + a.function}>
                    {state(a.state)} <b>{a.rule}</b>{" "}
                    {a.url && inside(a.url) ? <a href={inside(a.url)}>{a.summary}</a> : a.summary}{" "}
                    <span class="muted num">{since(a.since)}</span>
                    {a.delivery_error ? (
                        <>
                            {" "}
                            <span class="more">not delivered: {a.delivery_error}</span>
                        </>
                    ) : (
                        ""
                    )}
                </li>
            ))}
        </ul>
    );
}

// What the rules say about the data of now, whether they would fire: for those who may.
function Try() {
    const [answer, set] = useState(null),
        [busy, work] = useState(false),
        admin = session.value?.scope === "admin";
    const run = async () => {
        work(true);
        try {
            set(await post("alerts/test", ""));
        } catch (e) {
            set({error: e.message});
        }
        work(false);
    };
    return (
        <>
            <button
                disabled={busy || !admin}
                title={admin ? "Evaluates every rule now; nothing is sent" : "requires a token of scope admin"}
                onClick={run}
            >
                {busy ? "Trying…" : "Try the rules now"}
            </button>
            {answer && (
                <dialog open class="rule tried" aria-label="What the rules say now">
                    {answer.error ? <p class="wrong">{answer.error}</p> : <Tried rules={answer.rules ?? []} />}
                    <button class="main" onClick={() => set(null)}>
                        Close
                    </button>
                </dialog>
            )}
        </>
    );
}

export function Alerts() {
    const [asking, ask] = useState(""),
        [changes, changed] = useState(0);
    const data = useData(apiUrl("alerts", {t: changes || ""}), {live: true}),
        given = useData(
            asking && asking !== "new" ? apiUrl("alerts/rules", {t: changes || ""}) : null,
        ).data?.rules.find((r) => r.id === asking),
        columns = useMemo(() => ruleColumns(ask), []);
    const close = () => (ask(""), changed((n) => n + 1));
    return (
        <>
            <div class="bar">
                <h1>Alerts</h1>
                <span class="grow" />
                {data.data?.rules.length ? <Try /> : ""}
                <button class="main" onClick={() => ask("new")}>
                    Add a rule
                </button>
                <LiveState range={{live: true}} />
            </div>
            <div class="services">
                <Loaded
                    of={data}
                    what="alerts"
                    empty={(d) => !d.rules.length}
                    nothing={
                        <Box title="No rules yet">
                            <p>
                                <b>Add a rule</b> makes one that this server keeps, as does <b>Alert on this</b> on the
                                page of a function. Rules can also be written in wick.yaml, under <code>alerts:</code>.
                            </p>
                        </Box>
                    }
                >
                    {(d) => (
                        <>
                            <section class="panel" aria-label="alerts">
                                <h2>{d.alerts.length ? "Alerts" : "Nothing fires"}</h2>
                                <AlertList alerts={d.alerts} />
                            </section>
                            <section class="panel" aria-label="rules">
                                <h2>
                                    Rules <span class="muted num">evaluated every {d.interval} s</span>
                                </h2>
                                <Table
                                    caption="all rules"
                                    columns={columns}
                                    rows={d.rules}
                                    rowKey={(r) => r.id + r.name}
                                    sort={{key: "name", up: true}}
                                    still
                                />
                            </section>
                            {d.targets?.length ? (
                                <section class="panel" aria-label="targets">
                                    <h2>Sent to</h2>
                                    <ul class="alert-list">
                                        {d.targets.map((t) => (
                                            <li key={t.host}>
                                                {t.kind} <b>{t.host}</b>{" "}
                                                <span class="muted num">
                                                    {number(t.sent)} sent, {number(t.failed)} failed,{" "}
                                                    {number(t.waiting)} waiting
                                                </span>
                                                {t.error ? (
                                                    <>
                                                        {" "}
                                                        <span class="more">{t.error}</span>
                                                    </>
                                                ) : (
                                                    ""
                                                )}
                                            </li>
                                        ))}
                                    </ul>
                                </section>
                            ) : (
                                ""
                            )}
                        </>
                    )}
                </Loaded>
            </div>
            {asking === "new" && <RuleDialog onClose={close} />}
            {given && <RuleDialog key={given.id} given={given} onClose={close} />}
        </>
    );
}
