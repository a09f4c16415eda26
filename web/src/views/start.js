// SPDX-License-Identifier: Apache-2.0
// First start: this host's live flame graph, updated as it grows, and the next steps. If the agent cannot run: what is
// missing and the command that fixes it.
import {useEffect, useState} from "preact/hooks";
import {apiUrl, useData} from "../lib/api.js";
import {printSelector} from "../lib/selector.js";
import {amount, percent, rate} from "../lib/units.js";
import {href} from "../lib/url.js";
import {Flame} from "../flame/flame.js";
import {useTree} from "../parts/flamepane.js";
import {LiveState} from "../parts/livestate.js";
import {useStatus} from "../parts/shell.js";
import {fresh, Loading} from "../parts/states.js";
import {AddService, Command} from "../parts/addservice.js";

const WINDOW = "now-5m";

// The agent's message, with options and names marked as code.
const words = (text) =>
    text.split(/(--[\w-]+|CAP_\w+|'[^']+')/).map((w, i) => (i % 2 ? <code>{w.replace(/^'|'$/g, "")}</code> : w));

const sentence = (text) => text[0].toUpperCase() + text.slice(1) + (/[.!?)]$/.test(text) ? "" : ".");

function Agent({status, hostThere}) {
    const a = status?.agent;
    if (hostThere || !status) return null;
    if (a?.state === "running")
        return <p role="status">The agent is running; its first profile arrives within seconds.</p>;
    return (
        <div class="agent-note" role="status">
            <h2>{a?.state === "failed" ? "This host's agent cannot run" : "This host is not profiled"}</h2>
            <p>
                {words(
                    sentence(
                        a?.reason ||
                            "wick serve was started without permission to profile this host (or with --no-agent)",
                    ),
                )}
            </p>
            <Command text={a?.fix || "sudo wick serve"} />
            {!/wick doctor/.test(a?.reason + a?.fix) && (
                <p class="muted">
                    To see what is missing: <code>wick doctor</code>
                </p>
            )}
        </div>
    );
}

function Live({status}) {
    const host = status?.host;
    const hosts = useData(apiUrl("labels/host.name/values", {from: WINDOW}));
    const there = host && (hosts.data ?? []).includes(host);
    const query = there ? printSelector({type: "cpu", matchers: [{name: "host.name", op: "=", value: host}]}) : "cpu";
    const tree = useTree(
        {
            query,
            from: WINDOW,
            ignore: "^(\\[?idle\\]?|swapper.*|do_idle|cpu_idle_poll|default_idle)$",
            by: "filefunction",
            max_nodes: 3000,
        },
        "",
        {live: true},
    );
    const [zoom, setZoom] = useState([]);
    const cover = tree.cover;
    const t = tree.data;
    const some = t && t.total[0][0] > 0;
    let named = 0,
        all = 0;
    if (some)
        for (let i = 1; i < t.n; i++) {
            if (t.isFolded(i)) continue;
            all += t.self[0][i];
            if (t.frames.fn[t.frame[i]] !== 0) named += t.self[0][i];
        }
    return (
        <section class="live" aria-label="live flame graph">
            <div class="live-head">
                <h2>
                    {there || some
                        ? `${there ? host : "Received profiles"}, last five minutes`
                        : "Waiting for the first profile"}
                </h2>
                <span class="grow" />
                <LiveState range={{live: true}} />
                <a class="button small" href={href("explore", {query, from: WINDOW})}>
                    Explore this
                </a>
                <span class="facts-line num muted">
                    {some &&
                        fresh(
                            `${rate(t.total[0][0], t.unit, t.type, cover?.ns)} · ` +
                                `${amount(t.total[0][0], t.unit, t.type)} · ${percent(all ? named / all : 1)} of ` +
                                "frames named",
                        )}
                </span>
            </div>
            <div class="live-pane">
                {some && (
                    <Flame
                        tree={t}
                        cover={cover}
                        rootName={there ? host : "all services"}
                        label="Live flame graph"
                        actions={null}
                        zoom={zoom}
                        onZoom={setZoom}
                    />
                )}
                {!some && (tree.loading && !t ? <Loading /> : <Waiting status={status} there={there} />)}
            </div>
        </section>
    );
}

function Waiting({status, there}) {
    return (
        <div class="waiting-pane">
            <div class="ghost" aria-hidden="true">
                {[100, 92, 64, 50, 31, 18].map((w, i) => (
                    <i key={i} style={{width: w + "%"}} />
                ))}
            </div>
            <Agent status={status} hostThere={there} />
        </div>
    );
}

export function Start() {
    const status = useStatus().data;
    const services = useData(apiUrl("services", {from: "now-1h"}), {live: true});
    useEffect(() => void (document.title = "wick"), []);
    return (
        <>
            <h1 class="sr">Start</h1>
            <div class="start">
                <Live status={status} />
                <div class="cards">
                    <AddService status={status} services={services.data} />
                    <section class="card">
                        <h2>
                            <span class="step">2</span> Run the demo
                        </h2>
                        <p>
                            Three services with traces and a bad deployment to find, for five minutes. Nothing is left
                            on this machine.
                        </p>
                        <Command text={"wick demo"} />
                    </section>
                    <section class="card">
                        <h2>
                            <span class="step">3</span> Compare
                        </h2>
                        <p>
                            Two times, two versions or two labels side by side: what got slower, in which function, on
                            which line.
                        </p>
                        <p>
                            <a class="button" href={href("compare")}>
                                Compare now with before
                            </a>
                        </p>
                        <p class="muted">
                            From a terminal: <code>wick pprof -top -diff_base OLD NEW</code>
                        </p>
                    </section>
                </div>
            </div>
        </>
    );
}
