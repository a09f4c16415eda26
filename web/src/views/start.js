// SPDX-License-Identifier: Apache-2.0
// First start: this host's live flame graph, updated as it grows, and the next steps. If the agent cannot run: what is
// missing and the command that fixes it.
import {html} from "htm/preact";
import {useEffect, useRef, useState} from "preact/hooks";
import {apiUrl, post, useData} from "../lib/api.js";
import {printSelector} from "../lib/selector.js";
import {amount, percent, rate} from "../lib/units.js";
import {go, href, route} from "../lib/url.js";
import {Flame} from "../flame/flame.js";
import {useTree} from "../parts/flamepane.js";
import {Choice} from "../parts/menu.js";
import {LiveState} from "../parts/livestate.js";
import {useStatus} from "../parts/shell.js";
import {fresh, Loading} from "../parts/states.js";

const WINDOW = "now-5m";

function languages(grpc, http, page) {
    return {
        any: ["Any program", `wick run -t cpu,heap,lock \\\n  --export http://${grpc} \\\n  -- ./your-program`, "No rebuild needed: a library is preloaded. For C, C++, Rust, Python, Ruby …; not for static binaries and Go."],
        go: ["Go", `exporter, err := otlpprofilegrpc.New(ctx,\n    otlpprofilegrpc.WithEndpoint("${grpc}"),\n    otlpprofilegrpc.WithInsecure())\nprovider := profiling.NewProvider(\n    profiling.WithExporter(exporter))`, "Packages of wick.dev/go; docs/go.md shows spans. A program that imports net/http/pprof needs no change: wick serve --scrape http://localhost:8080"],
        c: ["C, C++", `#include <wick.h>\n\nstruct wick_options o = WICK_OPTIONS_INIT;\no.service_name = "your-service";\no.endpoint = "http://${grpc}";\nstruct wick_provider *p = wick_provider_new(&o);`, "Link with -lwick. Spans go along: wick_span_enter()."],
        python: ["Python", `OTEL_SERVICE_NAME=your-service \\\n  wick run -t cpu,heap --export http://${grpc} -- python3 app.py`, "Python functions are shown by the agent without preparation: this server’s, or wick agent on another host."],
        java: ["Java", `PYROSCOPE_APPLICATION_NAME=your-service \\\nPYROSCOPE_SERVER_ADDRESS=${page} \\\n  java -javaagent:pyroscope.jar -jar app.jar`, "Uses async-profiler; wick receives Pyroscope's pushes."],
        node: ["Node", `sudo wick agent --export http://${grpc} &\nnode --perf-basic-prof app.js`, "On this host, the agent of this server is sufficient."],
        otel: ["OTLP", `# the eBPF profiler, for a whole host\nsudo ebpf-profiler -collection-agent=${grpc} -disable-tls\n\n# a Collector\nexporters:\n  otlp:\n    endpoint: ${grpc}\n    tls: {insecure: true}`, `OTLP/gRPC on ${grpc}, OTLP/HTTP on ${http}.`],
    };
}

function Copy({text}) {
    const [done, set] = useState(false);
    const copy = () => navigator.clipboard?.writeText(text).then(() => (set(true), setTimeout(() => set(false), 1500)));
    return html`<button class="small copy" onClick=${copy} aria-label="copy the command">${done ? "copied" : "copy"}</button>`;
}

function Command({text}) {
    return html`<div class="command"><pre tabindex="0">${text}</pre><${Copy} text=${text} /></div>`;
}

// "waiting… received": the services that have sent since the page was opened.
function Received({services}) {
    const first = useRef(null);
    if (services && !first.current) first.current = new Set(services.map((s) => s.name));
    const arrived = (services ?? []).filter((s) => !first.current?.has(s.name));
    if (!arrived.length) return html`<p class="waits" role="status"><span class="beat" aria-hidden="true"></span>waiting for a new service…</p>`;
    return html`<p class="got" role="status">received: ${arrived.slice(0, 5).map((s, i) => html`${i ? ", " : ""}<a href=${href("explore", {query: printSelector({type: s.types[0] ?? "cpu", matchers: [{name: "service.name", op: "=", value: s.name}]}), from: "now-15m"})}>${s.name}</a>`)}</p>`;
}

// Programs of the server's machine that serve /debug/pprof/: looked for and scraped only when asked.
function LocalPrograms() {
    const [found, setFound] = useState(null), [busy, setBusy] = useState(false), [problem, setProblem] = useState("");
    const attempt = async (what) => {
        setBusy(true);
        setProblem("");
        try {
            await what();
            setFound(await post("scrape/find", ""));
        } catch (e) {
            setProblem(e.message);
        }
        setBusy(false);
    };
    return html`<div class="local-programs"><p><button class="small" disabled=${busy} onClick=${() => attempt(() => {})}>Find programs with /debug/pprof/ on this machine</button></p>
        ${problem && html`<p class="why" role="alert">${problem}</p>`}
        ${found && !found.length && html`<p class="muted" role="status">No program that listens on loopback serves /debug/pprof/.</p>`}
        ${found?.length > 0 && html`<ul>${found.map((p) => html`<li key=${p.url}><code>${p.program}</code> at ${p.url} ${p.scraped
            ? html`<span class="muted">is profiled. After a restart of the server: <code>--scrape ${p.url}</code></span>`
            : html`<button class="small" disabled=${busy} aria-label=${`profile ${p.program}`} onClick=${() => attempt(() => post("scrape", "", undefined, {url: p.url}))}>Profile it</button>`}</li>`)}</ul>`}</div>`;
}

function AddService({status, services}) {
    const lang = route.value.params.lang || "any";
    const grpc = status?.otlp?.grpc ?? "", http = status?.otlp?.http ?? "";
    const all = languages(grpc || "HOST:4317", http || "HOST:4318", location.origin);
    const [, text, note] = all[lang] ?? all.any;
    return html`<section class="card"><h2><span class="step">1</span> Add a service</h2>
        <${Choice} label="language" value=${lang} options=${Object.entries(all).map(([k, [t]]) => [k, t])} onPick=${(v) => go(route.peek().path, {...route.peek().params, lang: v === "any" ? "" : v}, {replace: true})} />
        <${Command} text=${text} />
        ${note && html`<p class="muted">${note}</p>`}
        ${lang === "go" && html`<${LocalPrograms} />`}
        ${status && !grpc && !http && html`<p class="why">OTLP is off${status.otlpNote ? `: ${status.otlpNote}` : ""}. Start <code>wick serve</code> with <code>--otlp-grpc 127.0.0.1:4317</code>.</p>`}
        <${Received} services=${services} /></section>`;
}

// The agent's message, with options and names marked as code.
const words = (text) => text.split(/(--[\w-]+|CAP_\w+|'[^']+')/).map((w, i) => (i % 2 ? html`<code>${w.replace(/^'|'$/g, "")}</code>` : w));
const sentence = (text) => text[0].toUpperCase() + text.slice(1) + (/[.!?)]$/.test(text) ? "" : ".");

function Agent({status, hostThere}) {
    const a = status?.agent;
    if (hostThere || !status) return null;
    if (a?.state === "running") return html`<p role="status">The agent is running; its first profile arrives within seconds.</p>`;
    return html`<div class="agent-note" role="status"><h2>${a?.state === "failed" ? "This host's agent cannot run" : "This host is not profiled"}</h2>
        <p>${words(sentence(a?.reason || "wick serve was started without permission to profile this host (or with --no-agent)"))}</p>
        <${Command} text=${a?.fix || "sudo wick serve"} />${!/wick doctor/.test(a?.reason + a?.fix) && html`<p class="muted">To see what is missing: <code>wick doctor</code></p>`}</div>`;
}

function Live({status}) {
    const host = status?.host;
    const hosts = useData(apiUrl("labels/host.name/values", {from: WINDOW}));
    const there = host && (hosts.data ?? []).includes(host);
    const query = there ? printSelector({type: "cpu", matchers: [{name: "host.name", op: "=", value: host}]}) : "cpu";
    const tree = useTree({query, from: WINDOW, ignore: "^(\\[?idle\\]?|swapper.*|do_idle|cpu_idle_poll|default_idle)$", by: "filefunction", max_nodes: 3000}, "", {live: true});
    const [zoom, setZoom] = useState([]);
    const cover = tree.cover;
    const t = tree.data;
    const some = t && t.total[0][0] > 0;
    let named = 0, all = 0;
    if (some)
        for (let i = 1; i < t.n; i++) {
            if (t.isFolded(i)) continue;
            all += t.self[0][i];
            if (t.frames.fn[t.frame[i]] !== 0) named += t.self[0][i];
        }
    return html`<section class="live" aria-label="live flame graph">
        <div class="live-head"><h2>${there ? `${host}, last five minutes` : some ? "Received profiles, last five minutes" : "Waiting for the first profile"}</h2>
            <span class="grow"></span><${LiveState} range=${{live: true}} /><a class="button small" href=${href("explore", {query, from: WINDOW})}>Explore this</a>
            <span class="facts-line num muted">${some && fresh(`${rate(t.total[0][0], t.unit, t.type, cover?.ns)} · ${amount(t.total[0][0], t.unit, t.type)} · ${percent(all ? named / all : 1)} of frames named`)}</span></div>
        <div class="live-pane">${some ? html`<${Flame} tree=${t} cover=${cover} rootName=${there ? host : "all services"} label="Live flame graph" actions=${null} zoom=${zoom} onZoom=${setZoom} />`
        : tree.loading && !t ? html`<${Loading} />` : html`<${Waiting} status=${status} there=${there} />`}</div></section>`;
}

function Waiting({status, there}) {
    return html`<div class="waiting-pane"><div class="ghost" aria-hidden="true">${[100, 92, 64, 50, 31, 18].map((w, i) => html`<i key=${i} style=${{width: w + "%"}}></i>`)}</div>
        <${Agent} status=${status} hostThere=${there} /></div>`;
}

export function Start() {
    const status = useStatus().data;
    const services = useData(apiUrl("services", {from: "now-1h"}), {live: true});
    useEffect(() => void (document.title = "wick"), []);
    return html`<h1 class="sr">Start</h1><div class="start">
        <${Live} status=${status} />
        <div class="cards">
            <${AddService} status=${status} services=${services.data} />
            <section class="card"><h2><span class="step">2</span> Run the demo</h2>
                <p>Three services with traces and a bad deployment to find, for five minutes. Nothing is left on this machine.</p><${Command} text=${"wick demo"} /></section>
            <section class="card"><h2><span class="step">3</span> Compare</h2>
                <p>Two times, two versions or two labels side by side: what got slower, in which function, on which line.</p>
                <p><a class="button" href=${href("compare")}>Compare now with before</a></p>
                <p class="muted">From a terminal: <code>wick pprof -top -diff_base OLD NEW</code></p></section>
        </div></div>`;
}
