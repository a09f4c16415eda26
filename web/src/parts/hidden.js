// SPDX-License-Identifier: Apache-2.0
// "12 % of CPU is in PHP, whose functions are not shown": for a selection whose answer says so (notes.hidden).
import {apiUrl, get, useData} from "../lib/api.js";
import {parseSelector, printSelector} from "../lib/selector.js";
import {percent} from "../lib/units.js";
import {href} from "../lib/url.js";

const label = "wick.hidden_runtime";
const sum = (values) => values.reduce((a, b) => a + (Number(b) || 0), 0);

export function Hidden({notes, query, range}) {
    const data = useData(
        notes?.hidden ? apiUrl("series", {query, from: range.from, to: range.to, group_by: label}) : null,
    ).data;
    const all = data ? sum(data.series.map((s) => sum(s.values))) : 0;
    if (!all) return null;
    return data.series
        .filter((s) => s.labels[label] && sum(s.values) / all >= 0.005)
        .map((s) => (
            <>
                <span
                    class="more"
                    key={s.labels[label]}
                    title="Stacks of these processes have only the native functions of the interpreter."
                >
                    · {percent(sum(s.values) / all)} of CPU is in {s.labels[label]}, whose functions are not shown
                </span>{" "}
            </>
        ));
}

// Names of some functions are being looked up: the next answer has them.
export const Naming = ({notes}) =>
    notes?.naming ? (
        <>
            <span class="muted">· names of some functions are still being looked up</span>{" "}
        </>
    ) : null;

// Who sent profiles of a type: the scope and the library of one of them, as OTLP names them.
async function senderOf(type, query, range) {
    const q = {query: printSelector({...parseSelector(query), type}), from: range.from, to: range.to};
    const {profiles} = await get(apiUrl("profiles", {...q, limit: 1}));
    if (!profiles.length) return "";
    const sent = await get(apiUrl("profile", {...q, profile: profiles[0].handle, format: "otlp-json"}));
    const r = sent.resourceProfiles?.[0],
        scope = r?.scopeProfiles?.[0]?.scope?.name;
    const sdk = r?.resource?.attributes?.find((a) => a.key === "telemetry.sdk.name")?.value?.stringValue;
    return [scope, sdk !== scope ? sdk : ""].filter(Boolean).join(", ");
}

// Which of two sources of the same processes is shown. The other one is stored as type cpu_also, or lock_also and
// so on.
export function Also({notes, query, range}) {
    const type = parseSelector(query).type || "cpu";
    const key = notes?.also ? `senders of ${query} ${range.from} ${range.to}` : null;
    const both = useData(key, {
        via: key ? () => Promise.all([senderOf(type, query, range), senderOf(`${type}_also`, query, range)]) : null,
    }).data;
    if (!notes?.also) return null;
    const [shown, other] = both ?? [];
    const of = (sender, else_) => (sender === "wick" ? "libwick" : sender) || else_;
    return (
        <span
            class="muted"
            title={
                "Two profilers sampled the same processes, and their time is counted once. Shown is the one that " +
                "knows spans; without one, libwick; then the agent."
            }
        >
            ·{" "}
            {shown
                ? `sampled twice, counted once: by ${of(shown, "")} (shown here) and ` +
                  `${shown === other ? "another sender" : of(other, "another sender")}`
                : "sampled twice, counted once"}{" "}
            <a
                href={href("explore", {
                    query: printSelector({...parseSelector(query), type: `${type}_also`}),
                    from: range.from,
                    to: range.to === "now" ? "" : range.to,
                })}
            >
                show the other one
            </a>
        </span>
    );
}
