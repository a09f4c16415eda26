// SPDX-License-Identifier: Apache-2.0
// The bar with the current selection: service, type, matchers, time range.
import {useEffect, useRef, useState} from "preact/hooks";
import {apiUrl, useData} from "../lib/api.js";
import {parseSelector, printSelector} from "../lib/selector.js";
import {inZone, settings} from "../lib/settings.js";
import {describe, parseTime, presets, seconds} from "../lib/time.js";
import {clock, learnTypes, typeTitle} from "../lib/units.js";
import {base, patch} from "../lib/url.js";
import {Combo} from "./combo.js";
import {Drop} from "./menu.js";
import {QueryBox} from "./querybox.js";

// Used until the server has sent them, so that nothing moves when it does.

export function useTypes() {
    const {data} = useData(apiUrl("types"));
    if (data) learnTypes(data);
    return data ?? [];
}

// query, range (of rangeOf), onQuery(text): the pickers for service, type and matchers.
export function Selector({query, range, onQuery, name = ""}) {
    const s = parseSelector(query);
    const types = useTypes();
    const at = {from: range.from, to: range.to};
    const services = useData(apiUrl("services", at));
    const labels = useData(apiUrl("labels", at));
    const mine = s.matchers.find((m) => m.name === "service.name" && m.op === "=");
    const others = s.matchers.filter((m) => m !== mine);
    const there = services.data?.find((x) => x.name === mine?.value)?.types ?? [
        ...new Set((services.data ?? []).flatMap((x) => x.types)),
    ];
    const set = (type, matchers) => onQuery(printSelector({type, matchers}));
    const title = (t) => types.find((x) => x.name === t)?.title ?? typeTitle(t);
    const type = s.type || "cpu";
    const all = [...new Set([...there, type])];
    const [written, write] = useState(false);
    if (written)
        return (
            <QueryBox
                query={query}
                types={types.map((t) => t.name)}
                labels={labels.data ?? []}
                at={at}
                onQuery={onQuery}
                onClose={() => write(false)}
            />
        );
    return (
        <div class="selector">
            <Combo
                label={name + "service"}
                placeholder="all services"
                value={mine?.value ?? ""}
                size={16}
                options={["all services", ...(services.data ?? []).map((x) => x.name)]}
                onPick={(v) =>
                    set(type, v === "all services" ? others : [{name: "service.name", op: "=", value: v}, ...others])
                }
            />
            <Drop
                label={title(type)}
                aria-label={name + "profile type: " + title(type)}
                items={all.map((t) => ({label: title(t), checked: t === type, run: () => set(t, s.matchers)}))}
            />
            {others.map((m, i) => (
                <span class="chip" key={m.name + i}>
                    <span>
                        {m.name}
                        <b>{m.op}</b>
                        {m.value}
                    </span>
                    <button
                        aria-label={`remove ${m.name}${m.op}${m.value}`}
                        onClick={() =>
                            set(
                                type,
                                s.matchers.filter((x) => x !== m),
                            )
                        }
                    >
                        ×
                    </button>
                </span>
            ))}
            <AddMatcher labels={labels.data ?? []} at={at} name={name} onAdd={(m) => set(type, [...s.matchers, m])} />
            <button
                class="quiet"
                title="Write the query, with completion"
                aria-label={name + "write the query as text"}
                onClick={() => write(true)}
            >
                {"{ }"}
            </button>
        </div>
    );
}

// Replaces the selector for files: their names, and which of their types is shown.
export function FileBar({query}) {
    const status = useData(base + "api/v1/status").data;
    const services = useData(apiUrl("services"));
    const types = useTypes();
    const s = parseSelector(query);
    const all = [...new Set([s.type || "cpu", ...(services.data ?? []).flatMap((x) => x.types)])];
    const title = (t) => types.find((x) => x.name === t)?.title ?? typeTitle(t);
    const short = (name) => name.slice(name.lastIndexOf("/") + 1);
    return (
        <>
            <span class="files">
                {(status?.files ?? []).map((f, i) => (
                    <span class="chip file" key={i} title={f.name}>
                        <span>
                            {status.files.length > 1 ? (
                                <>
                                    <b>{f.type === "base" ? "before" : "now"}</b>{" "}
                                </>
                            ) : (
                                ""
                            )}
                            {short(f.name)}
                        </span>
                    </span>
                ))}
            </span>
            {all.length > 1 ? (
                <Drop
                    label={title(s.type)}
                    aria-label={"profile type: " + title(s.type)}
                    items={all.map((t) => ({
                        label: title(t),
                        checked: t === s.type,
                        run: () => patch({query: printSelector({...s, type: t}), zoom: ""}),
                    }))}
                />
            ) : (
                <span class="muted">{title(s.type)}</span>
            )}
        </>
    );
}

function AddMatcher({labels, at, onAdd, name}) {
    const [m, set] = useState(null);
    const values = useData(m?.name ? apiUrl(`labels/${encodeURIComponent(m.name)}/values`, at) : null);
    if (!m)
        return (
            <button class="quiet" onClick={() => set({name: "", op: "="})} aria-label={name + "add a filter"}>
                + filter
            </button>
        );
    if (!m.name)
        return (
            <Combo
                key="n"
                label="label"
                placeholder="label"
                value=""
                free
                options={labels}
                autofocus
                size={14}
                onPick={(v) => set({...m, name: v})}
                onCancel={() => set(null)}
            />
        );
    return (
        <span class="chip editing">
            <span>{m.name}</span>
            <select aria-label="comparison" value={m.op} onChange={(e) => set({...m, op: e.currentTarget.value})}>
                {["=", "!=", "=~", "!~"].map((o) => (
                    <option value={o}>{o}</option>
                ))}
            </select>
            <Combo
                key="v"
                label={"value of " + m.name}
                placeholder="value"
                value=""
                free
                verbatim={m.op.endsWith("~")}
                options={values.data ?? []}
                autofocus
                size={14}
                onPick={(v) => (onAdd({...m, value: v}), set(null))}
            />
            <button aria-label="cancel" onClick={() => set(null)}>
                ×
            </button>
        </span>
    );
}

// A time range: presets, and exact times.
export function TimePicker({range, onPick, label = "time range"}) {
    const [exact, setExact] = useState(false);
    const items = () => [
        ...presets.map(([from, text]) => ({
            label: `last ${text}`,
            checked: range.live && range.from === from,
            run: () => onPick({from, to: ""}),
        })),
        "-",
        {label: "from … to …", run: () => setExact(true)},
    ];
    return (
        <span class="time">
            <Drop
                cls="num"
                label={describe(range, clock)}
                aria-label={label + ": " + describe(range, clock)}
                items={items}
            />
            {exact && (
                <ExactTimes
                    range={range}
                    onPick={(r) => (setExact(false), onPick(r))}
                    onClose={() => setExact(false)}
                />
            )}
        </span>
    );
}

// A time as a field shows it, in the chosen zone; and back.
const local = (ms) => {
    const d = inZone(ms);
    return new Date(d.getTime() - d.getTimezoneOffset() * 60000).toISOString().slice(0, 19);
};
const parseLocal = (text) => parseTime(settings.value.zone === "utc" ? text + "Z" : text);

function ExactTimes({range, onPick, onClose}) {
    const from = useRef(null),
        to = useRef(null),
        box = useRef(null);
    useEffect(() => {
        from.current.focus();
        const away = (e) => !box.current?.contains(e.target) && onClose();
        addEventListener("pointerdown", away, true);
        return () => removeEventListener("pointerdown", away, true);
    }, []);
    const take = (e) => {
        e.preventDefault();
        const a = parseLocal(from.current.value),
            b = parseLocal(to.current.value);
        if (a < b) onPick({from: seconds(a), to: seconds(b)});
    };
    return (
        <form
            class="pop"
            ref={box}
            onSubmit={take}
            onKeyDown={(e) => e.key === "Escape" && (e.stopPropagation(), onClose())}
        >
            <label>
                from <input type="datetime-local" step="1" ref={from} value={local(range.fromMs)} />
            </label>
            <label>
                to <input type="datetime-local" step="1" ref={to} value={local(range.toMs)} />
            </label>
            <button class="main">Show</button>
        </form>
    );
}
