// SPDX-License-Identifier: Apache-2.0
// An alert rule: made of a function or a selection, or one that the server keeps. It can be tried before it is saved.
import {useEffect, useRef, useState} from "preact/hooks";
import {apiUrl, change, session, useData} from "../lib/api.js";
import {matchedValue} from "../lib/selector.js";
import {useStatus} from "./shell.js";

// What a rule looks at, by its type; and what it is when nothing is written.
const types = {
    threshold: {text: "uses more than a limit", fields: ["function", "over", "of", "window", "for"]},
    drift: {text: "drifts from its baseline", fields: ["function", "baseline", "min_points", "direction", "for"]},
    spike: {text: "is many times the usual", fields: ["factor", "baseline", "for"]},
    verdict: {text: "gets worse with a new version", fields: ["min_points"]},
    lost: {text: "stops sending, or is refused", fields: ["window", "over"]},
};

const fields = {
    function: {text: "function", hint: "regular expression; empty: all of the selection"},
    over: {text: "limit", hint: "20%, 1.5 cores, 100MiB/s, 2GiB"},
    of: {text: "counted", words: {"": "with what it calls", self: "by itself"}},
    window: {text: "looks at the last", hint: "5m"},
    baseline: {text: "compared with", hint: "1d: the same hour a day ago"},
    min_points: {text: "smallest change", hint: "2 percentage points", number: true},
    factor: {text: "times the usual", hint: "3", number: true},
    direction: {text: "which way", words: {"": "up", down: "down", both: "up or down"}},
    for: {text: "for at least", hint: "10m"},
};

export const badge = (s) => <span class={"badge " + (s === "firing" ? "more" : "")}>{s}</span>;

const quoted = (name) => name.replace(/[\\.+*?()|[\]{}^$]/g, "\\$&");
const mayChange = () => session.value?.scope === "admin";

function proposal(query, fn) {
    const service = matchedValue(query, "service.name");
    const about = [service, fn].filter(Boolean).join(" ");
    return {
        name: (about ? `${about} uses too much` : "").slice(0, 120),
        type: "threshold",
        selector: query,
        function: fn && quoted(fn),
        over: fn ? "20%" : "",
    };
}

// The rule that the server gets: only what its type has, and what is not empty. What the form does not show stays.
function written(rule) {
    const shown = types[rule.type].fields,
        out = {};
    for (const [k, v] of Object.entries(rule)) {
        if (k === "id" || v === "" || (fields[k] && !shown.includes(k))) continue;
        out[k] = fields[k]?.number ? Number(v) : v;
    }
    return out;
}

function verdictOf(r) {
    if (r.error) return "not decided";
    return r.alerts.length ? "would fire" : "quiet";
}

export function Tried({rules}) {
    return (
        <ul class="alert-list">
            {rules.map((r) => (
                <li key={r.name}>
                    {badge(verdictOf(r))} <b>{r.name}</b>{" "}
                    <span class="muted">
                        {r.error || r.alerts.map((a) => a.summary).join("; ") || "does not fire on the data of now"}
                    </span>
                </li>
            ))}
        </ul>
    );
}

function Field({name, value, put}) {
    const f = fields[name] ?? {text: name};
    return (
        <label>
            {f.text}{" "}
            {f.words ? (
                <select value={value} onChange={(e) => put(e.currentTarget.value)}>
                    {Object.entries(f.words).map(([v, text]) => (
                        <option value={v}>{text}</option>
                    ))}
                </select>
            ) : (
                <input
                    value={value}
                    placeholder={f.hint}
                    inputmode={f.number ? "decimal" : undefined}
                    spellcheck={false}
                    onInput={(e) => put(e.currentTarget.value)}
                />
            )}
        </label>
    );
}

// For those who may not change rules here: the same for wick.yaml.
function AsYaml({rule}) {
    const made = useData(apiUrl("alerts/rule", {query: rule.selector, function: rule.function, type: rule.type}));
    return (
        <>
            <p class="muted">Saving requires a token of scope admin. In wick.yaml, such a rule is:</p>
            <pre tabindex={0}>{made.data?.yaml ?? made.error?.message ?? "…"}</pre>
        </>
    );
}

// given: a rule that the server keeps; else one is proposed for the selection and the function.
export function RuleDialog({query = "cpu", fn = "", given = undefined, onClose}) {
    const el = useRef(null),
        [rule, set] = useState(() => ({...(given ?? proposal(query, fn))})),
        [wrong, setWrong] = useState(""),
        [tried, setTried] = useState(null),
        [busy, work] = useState(false);
    const proposed = fn ? `Alert on ${fn}` : "A new rule",
        title = given ? `The rule ${given.name}` : proposed;
    useEffect(() => el.current.showModal(), []);
    const put = (key) => (value) => {
        set((old) => ({...old, [key]: value}));
        setWrong("");
        setTried(null);
    };
    const run = (what) => async (e) => {
        e?.preventDefault();
        work(true);
        setWrong("");
        try {
            await what();
        } catch (x) {
            setWrong(x.message);
        }
        work(false);
    };
    const attempt = run(async () => setTried((await change("POST", "alerts/try", written(rule))).rules));
    const save = run(async () => {
        await (given
            ? change("PUT", `alerts/rules/${given.id}`, written(rule))
            : change("POST", "alerts/rules", written(rule)));
        el.current.close();
    });
    const drop = run(async () => {
        await change("DELETE", `alerts/rules/${given.id}`);
        el.current.close();
    });
    return (
        <dialog ref={el} class="rule" aria-label={title} onClose={onClose}>
            <form onSubmit={save}>
                <h2>{title}</h2>
                <div class="fields">
                    <label class="wide">
                        name{" "}
                        <input
                            required
                            maxlength={200}
                            value={rule.name}
                            onInput={(e) => put("name")(e.currentTarget.value)}
                        />
                    </label>
                    <label class="wide">
                        selector{" "}
                        <input
                            value={rule.selector ?? ""}
                            placeholder='cpu{service.name="checkout"}'
                            spellcheck={false}
                            onInput={(e) => put("selector")(e.currentTarget.value)}
                        />
                    </label>
                    <label class="wide">
                        fires when it{" "}
                        <select value={rule.type} onChange={(e) => put("type")(e.currentTarget.value)}>
                            {Object.entries(types).map(([v, t]) => (
                                <option value={v}>{t.text}</option>
                            ))}
                        </select>
                    </label>
                    {types[rule.type].fields.map((f) => (
                        <Field key={f} name={f} value={rule[f] ?? ""} put={put(f)} />
                    ))}
                </div>
                {wrong && (
                    <p class="wrong" role="alert">
                        {wrong}
                    </p>
                )}
                {tried && <Tried rules={tried} />}
                {!mayChange() && <AsYaml rule={rule} />}
                <p class="actions">
                    <button class="main" disabled={busy || !mayChange()}>
                        Save
                    </button>{" "}
                    <button
                        type="button"
                        disabled={busy}
                        title="Evaluates it on the data of now; nothing is kept"
                        onClick={attempt}
                    >
                        Try it
                    </button>{" "}
                    {given && mayChange() && (
                        <button type="button" disabled={busy} onClick={drop}>
                            Delete
                        </button>
                    )}{" "}
                    <button type="button" onClick={() => el.current.close()}>
                        Close
                    </button>
                </p>
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
