// SPDX-License-Identifier: Apache-2.0
// An alert made from a function: shows the rule to paste into wick.yaml. The server does not change its
// configuration itself.
import {useEffect, useRef, useState} from "preact/hooks";
import {apiUrl, useData} from "../lib/api.js";
import {useStatus} from "./shell.js";

const types = [
    ["threshold", "uses more than"],
    ["drift", "drifts from its baseline"],
];

// Without a function, what the rule is about can be chosen.
export function RuleDialog({query: given, fn: about, onClose}) {
    const [query, setQuery] = useState(given),
        [fn, setFn] = useState(about);
    const el = useRef(null),
        [type, setType] = useState("threshold"),
        [copied, setCopied] = useState(false);
    const rule = useData(apiUrl("alerts/rule", {query, function: fn, type}));
    useEffect(() => el.current.showModal(), []);
    const copy = () =>
        navigator.clipboard?.writeText(rule.data.yaml).then(
            () => setCopied(true),
            () => {},
        );
    return (
        <dialog ref={el} class="rule" aria-label={about ? "Alert on this function" : "A new rule"} onClose={onClose}>
            <h2>{about ? `Alert on ${about}` : "A new rule"}</h2>
            {!about && (
                <>
                    <p>
                        <label>
                            selector{" "}
                            <input
                                size={40}
                                value={query}
                                spellcheck={false}
                                onInput={(e) => (setCopied(false), setQuery(e.currentTarget.value))}
                            />
                        </label>
                    </p>
                    <p>
                        <label>
                            function{" "}
                            <input
                                size={40}
                                value={fn}
                                placeholder="all of the selection"
                                spellcheck={false}
                                onInput={(e) => (setCopied(false), setFn(e.currentTarget.value))}
                            />
                        </label>
                    </p>
                </>
            )}
            <p>
                <label>
                    when it{" "}
                    <select value={type} onChange={(e) => (setCopied(false), setType(e.currentTarget.value))}>
                        {types.map(([v, text]) => (
                            <option value={v}>{text}</option>
                        ))}
                    </select>
                </label>
            </p>
            <pre tabindex={0}>{rule.data?.yaml ?? rule.error?.message ?? "…"}</pre>
            <p class="muted">
                Add it to wick.yaml; the server reads the file again by itself. <code>wick alerts test</code> shows
                whether it would fire now.
            </p>
            <form method="dialog">
                <button type="button" class="main" disabled={!rule.data} onClick={copy}>
                    {copied ? "Copied" : "Copy"}
                </button>{" "}
                <button>Close</button>
            </form>
        </dialog>
    );
}

export function AlertButton({query, fn}) {
    const [open, set] = useState(false);
    if (useStatus().data?.mode !== "server") return null;
    return (
        <>
            <button onClick={() => set(true)}>Alert on this</button>
            {open && <RuleDialog query={query} fn={fn} onClose={() => set(false)} />}
        </>
    );
}
