// SPDX-License-Identifier: Apache-2.0
// How a service is added, per language, with this server's endpoint.
import {useRef, useState} from "preact/hooks";
import {post} from "../lib/api.js";
import {printSelector} from "../lib/selector.js";
import {go, href, route} from "../lib/url.js";
import {Choice} from "./menu.js";

function languages(grpc, http, page) {
    return {
        any: [
            "Any program",
            `wick run -t cpu,heap,lock \\\n  --export http://${grpc} \\\n  -- ./your-program`,
            "No rebuild needed: a library is preloaded. For C, C++, Rust, Python, Ruby …; not for " +
                "static binaries and Go.",
        ],
        go: [
            "Go",
            `exporter, err := otlpprofilegrpc.New(ctx,\n    otlpprofilegrpc.WithEndpoint("${grpc}` +
                '"),\n    otlpprofilegrpc.WithInsecure())\nprovider := profiling.NewProvider(\n    ' +
                "profiling.WithExporter(exporter))",
            "Packages of wick.dev/go; docs/go.md shows spans. A program that imports " +
                "net/http/pprof needs no change: wick serve --scrape http://localhost:8080",
        ],
        c: [
            "C, C++",
            "#include <wick.h>\n\nstruct wick_options o = WICK_OPTIONS_INIT;\no.service_name = " +
                `"your-service";\no.endpoint = "http://${grpc}";\nstruct wick_provider *p = ` +
                "wick_provider_new(&o);",
            "Link with -lwick. Spans go along: wick_span_enter().",
        ],
        python: [
            "Python",
            `OTEL_SERVICE_NAME=your-service \\\n  wick run -t cpu,heap --export http://${grpc} -- python3 app.py`,
            "Python functions are shown by the agent without preparation: this server’s, or wick " +
                "agent on another host.",
        ],
        java: [
            "Java",
            `PYROSCOPE_APPLICATION_NAME=your-service \\\nPYROSCOPE_SERVER_ADDRESS=${page} \\\n  ` +
                "java -javaagent:pyroscope.jar -jar app.jar",
            "Uses async-profiler; wick receives Pyroscope's pushes.",
        ],
        node: [
            "Node",
            `sudo wick agent --export http://${grpc} &\nnode --perf-basic-prof app.js`,
            "On this host, the agent of this server is sufficient.",
        ],
        otel: [
            "OTLP",
            `# the eBPF profiler, for a whole host\nsudo ebpf-profiler -collection-agent=${grpc} ` +
                `-disable-tls\n\n# a Collector\nexporters:\n  otlp:\n    endpoint: ${grpc}\n    tls: ` +
                "{insecure: true}",
            `OTLP/gRPC on ${grpc}, OTLP/HTTP on ${http}.`,
        ],
    };
}

function Copy({text}) {
    const [done, set] = useState(false);
    const copy = () => navigator.clipboard?.writeText(text).then(() => (set(true), setTimeout(() => set(false), 1500)));
    return (
        <button class="small copy" onClick={copy} aria-label="copy the command">
            {done ? "copied" : "copy"}
        </button>
    );
}

export function Command({text}) {
    return (
        <div class="command">
            <pre tabindex={0}>{text}</pre>
            <Copy text={text} />
        </div>
    );
}

// "waiting… received": the services that have sent since the page was opened.
function Received({services}) {
    const first = useRef(null);
    if (services && !first.current) first.current = new Set(services.map((s) => s.name));
    const arrived = (services ?? []).filter((s) => !first.current?.has(s.name));
    if (!arrived.length)
        return (
            <p class="waits" role="status">
                <span class="beat" aria-hidden="true" />
                waiting for a new service…
            </p>
        );
    return (
        <p class="got" role="status">
            received:{" "}
            {arrived.slice(0, 5).map((s, i) => (
                <>
                    {i ? ", " : ""}
                    <a
                        href={href("explore", {
                            query: printSelector({
                                type: s.types[0] ?? "cpu",
                                matchers: [{name: "service.name", op: "=", value: s.name}],
                            }),
                            from: "now-15m",
                        })}
                    >
                        {s.name}
                    </a>
                </>
            ))}
        </p>
    );
}

// Programs of the server's machine that serve /debug/pprof/: looked for and scraped only when asked.
function LocalPrograms() {
    const [found, setFound] = useState(null),
        [busy, setBusy] = useState(false),
        [problem, setProblem] = useState("");
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
    return (
        <div class="local-programs">
            <p>
                <button class="small" disabled={busy} onClick={() => attempt(() => {})}>
                    Find programs with /debug/pprof/ on this machine
                </button>
            </p>
            {problem && (
                <p class="why" role="alert">
                    {problem}
                </p>
            )}
            {found && !found.length && (
                <p class="muted" role="status">
                    No program that listens on loopback serves /debug/pprof/.
                </p>
            )}
            {found?.length > 0 && (
                <ul>
                    {found.map((p) => (
                        <li key={p.url}>
                            <code>{p.program}</code> at {p.url}{" "}
                            {p.scraped ? (
                                <span class="muted">
                                    is profiled. After a restart of the server: <code>--scrape {p.url}</code>
                                </span>
                            ) : (
                                <button
                                    class="small"
                                    disabled={busy}
                                    aria-label={`profile ${p.program}`}
                                    onClick={() => attempt(() => post("scrape", "", undefined, {url: p.url}))}
                                >
                                    Profile it
                                </button>
                            )}
                        </li>
                    ))}
                </ul>
            )}
        </div>
    );
}

export function AddService({status, services}) {
    const lang = route.value.params.lang || "any";
    const grpc = status?.otlp?.grpc ?? "",
        http = status?.otlp?.http ?? "";
    const all = languages(grpc || "HOST:4317", http || "HOST:4318", location.origin);
    const [, text, note] = all[lang] ?? all.any;
    return (
        <section class="card">
            <h2>
                <span class="step">1</span> Add a service
            </h2>
            <Choice
                label="language"
                value={lang}
                options={Object.entries(all).map(([k, [t]]) => [k, t])}
                onPick={(v) =>
                    go(route.peek().path, {...route.peek().params, lang: v === "any" ? "" : v}, {replace: true})
                }
            />
            <Command text={text} />
            {note && <p class="muted">{note}</p>}
            {lang === "go" && <LocalPrograms />}
            {status && !grpc && !http && (
                <p class="why">
                    OTLP is off{status.otlpNote ? `: ${status.otlpNote}` : ""}. Start <code>wick serve</code> with{" "}
                    <code>--otlp-grpc 127.0.0.1:4317</code>.
                </p>
            )}
            <Received services={services} />
        </section>
    );
}
