// SPDX-License-Identifier: Apache-2.0
// Explain: what the server says about a selection, in sentences: the first ones in a line above the graph, and all
// of them, with the findings, beside it.
import {useEffect} from "preact/hooks";
import {apiUrl, useData} from "../lib/api.js";
import {paused} from "../lib/live.js";
import {shortName} from "../lib/names.js";
import {clock, percent} from "../lib/units.js";
import {patch} from "../lib/url.js";
import {useStatus} from "./shell.js";
import {Loaded} from "./states.js";

export const canExplain = () => (useStatus().data?.questions ?? []).includes("explain");

const quoted = (name) => name.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
const select = (p, name) => patch({sel: p.sel === name ? "" : name, search: p.sel === name ? "" : `^${quoted(name)}$`});

/** @param {{p: any, name: string, share?: string}} props */
function FunctionButton({p, name, share}) {
    return (
        <button class="small" title={name} aria-pressed={p.sel === name} onClick={() => select(p, name)}>
            <span class="fn">{shortName(name)}</span>
            {share !== undefined && (
                <>
                    {" "}
                    <span class="num muted">{percent(share, undefined, 2)}</span>
                </>
            )}
        </button>
    );
}

// A sentence with local time, in which the name of its function is a button.
function Sentence({p, fact}) {
    const text = fact.at
        ? fact.sentence.replace(fact.at_text, clock(Number(fact.at) / 1e6, {seconds: false}))
        : fact.sentence;
    const at = fact.function ? text.indexOf(fact.function) : -1;
    if (at < 0) return text;
    return (
        <>
            {text.slice(0, at)}
            <FunctionButton p={p} name={fact.function} />
            {text.slice(at + fact.function.length)}
        </>
    );
}

const tone = (fact) => (fact.severity === "warning" ? "more" : "");

// One line, of which the height does not depend on what it says. What stands out does not change from second to
// second: it is asked for once a minute.
const EVERY = 60e3;
export function Headline({p, q, live}) {
    const data = useData(apiUrl("explain", q)),
        facts = data.data?.facts ?? [];
    useEffect(() => {
        const timer = live && setInterval(() => paused.value || document.hidden || data.reload(), EVERY);
        return () => clearInterval(timer);
    }, [live, data.url]);
    return (
        <p class="headline" role="status" aria-label="what stands out">
            {facts.slice(0, 2).map((f) => (
                <>
                    <span key={f.kind} class={tone(f)} title={f.sentence}>
                        <Sentence p={p} fact={f} />
                    </span>{" "}
                </>
            ))}
        </p>
    );
}

export function Explain({p, q}) {
    const facts = useData(apiUrl("explain", q)),
        findings = useData(apiUrl("findings", q));
    const of = {
        ...findings,
        data: facts.data && findings.data && {facts: facts.data.facts, findings: findings.data.findings},
        error: findings.error ?? facts.error,
    };
    return (
        <aside class="explain" aria-label="findings">
            <h2>
                Explain{" "}
                <button class="icon" aria-label="close" onClick={() => patch({explain: ""})}>
                    ×
                </button>
            </h2>
            <Loaded
                of={of}
                what="findings"
                empty={(d) => !d.facts.length && !d.findings.length}
                nothing={<p class="muted">There are no samples in this selection.</p>}
            >
                {(d) => (
                    <>
                        {d.facts.map((f) => (
                            <p key={f.kind} class={tone(f)}>
                                <Sentence p={p} fact={f} />
                            </p>
                        ))}
                        {d.findings.length ? (
                            <h3>Often worth a look</h3>
                        ) : (
                            <p class="muted">
                                No large share of garbage collection, lock waits, page faults, regular expressions,
                                serialisation or allocation.
                            </p>
                        )}
                        <ol>
                            {d.findings.map((f) => (
                                <li key={f.rule}>
                                    <h3 class={tone(f)}>
                                        {f.title} <span class="num">{percent(f.share, undefined, 2)}</span>
                                    </h3>
                                    <p>{f.sentence}</p>
                                    <p class="frames">
                                        {f.frames.map((x) => (
                                            <FunctionButton key={x.function} p={p} name={x.function} share={x.share} />
                                        ))}
                                    </p>
                                </li>
                            ))}
                        </ol>
                    </>
                )}
            </Loaded>
        </aside>
    );
}
