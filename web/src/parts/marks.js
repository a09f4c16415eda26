// SPDX-License-Identifier: Apache-2.0
// What people keep on the server: notes on the chart, and saved views. Both belong to the tenant; changing them
// needs the right to write.
import {useEffect, useRef, useState} from "preact/hooks";
import {apiUrl, change, session, useData} from "../lib/api.js";
import {matchedValue} from "../lib/selector.js";
import {clock} from "../lib/units.js";
import {base, href, route, search} from "../lib/url.js";
import {RuleDialog} from "./alertbutton.js";
import {Drop} from "./menu.js";

const mayWrite = () => !session.value?.required || ["admin", "write"].includes(session.value?.scope);

// A dialog with one text. save(text) returns a promise.
function TextDialog({title, label, value = "", more, save, onClose}) {
    const el = useRef(null),
        input = useRef(null),
        [error, setError] = useState("");
    useEffect(() => el.current.showModal(), []);
    const take = (e) => {
        e.preventDefault();
        save(input.current.value.trim()).then(
            () => el.current?.close(),
            (x) => setError(x.message),
        );
    };
    return (
        <dialog ref={el} class="ask" aria-label={title} onClose={onClose}>
            <form onSubmit={take}>
                <h2>{title}</h2>
                <p>
                    <label>
                        {label} <input ref={input} autofocus required maxlength={500} value={value} />
                    </label>
                </p>
                {more && <p class="muted">{more}</p>}
                {error && (
                    <p class="more" role="alert">
                        {error}
                    </p>
                )}
                <p>
                    <button class="main">Save</button>{" "}
                    <button type="button" onClick={() => el.current.close()}>
                        Cancel
                    </button>
                </p>
            </form>
        </dialog>
    );
}

// Notes of a service, and those that concern all. kept: false on a file's page, which keeps nothing. tick: changes
// when they were changed here.
export function useNotes(kept, service, tick) {
    const data = useData(kept ? apiUrl("notes", {t: tick || ""}) : null).data;
    return (data?.notes ?? []).filter((n) => !n.service || !service || n.service === service);
}

// What this page can be: saved, annotated, watched.
export function MoreMenu({q, range, notes, onChange}) {
    const [asking, ask] = useState(""),
        [tick, again] = useState(0);
    const views = useData(apiUrl("views", {t: tick || ""}));
    const {path, params} = route.value,
        service = matchedValue(q.query, "service.name");
    const at = range.live ? Date.now() : (range.fromMs + range.toMs) / 2;
    const changed = () => (again((n) => n + 1), onChange?.());
    const remove = (kind, x) => () => change("DELETE", `${kind}/${x.id}`).then(changed, () => {});
    const items = () => [
        ...(mayWrite()
            ? [
                  {label: "Save this view…", run: () => ask("view")},
                  {label: "Write a note on the chart…", run: () => ask("note")},
              ]
            : []),
        {label: service ? `Alert on ${service}…` : "Alert on this selection…", run: () => ask("alert")},
        ...(views.data?.views.length
            ? ["-", ...views.data.views.slice(-12).map((v) => ({label: v.text, href: base + v.url}))]
            : []),
        ...(mayWrite() && notes?.length
            ? [
                  "-",
                  ...notes
                      .slice(-8)
                      .map((n) => ({label: `Delete the note “${n.text.slice(0, 40)}”`, run: remove("notes", n)})),
              ]
            : []),
        ...(mayWrite() && views.data?.views.length
            ? [
                  "-",
                  ...views.data.views
                      .slice(-12)
                      .map((v) => ({label: `Delete the view “${v.text.slice(0, 40)}”`, run: remove("views", v)})),
              ]
            : []),
    ];
    return (
        <>
            <Drop label="More" title="Save, annotate, alert" items={items} />
            {asking === "view" && (
                <TextDialog
                    title="Save this view"
                    label="Name"
                    value={service ?? ""}
                    more={`Everyone who may read this server finds it under More.`}
                    onClose={() => ask("")}
                    save={(text) =>
                        change("POST", "views", {text, url: (path || "explore") + search(params)}).then(changed)
                    }
                />
            )}
            {asking === "note" && (
                <TextDialog
                    title="Write a note"
                    label="Text"
                    more={
                        `At ${clock(at, {date: "always"})}` +
                        `${service ? `, for ${service}` : ", for all services"}. To write it at another time, ` +
                        "select that time first."
                    }
                    onClose={() => ask("")}
                    save={(text) =>
                        change("POST", "notes", {
                            text,
                            service: service ?? "",
                            time: String(Math.round(at)) + "000000",
                        }).then(changed)
                    }
                />
            )}
            {asking === "alert" && <RuleDialog query={q.query} fn="" onClose={() => ask("")} />}
        </>
    );
}

// Saved views, for the front page. Nothing where there are none.
export function SavedViews() {
    const views = useData(apiUrl("views")).data?.views ?? [];
    return views.length ? (
        <section class="panel saved" aria-label="saved views">
            <h2>Saved views</h2>
            <ul>
                {views.slice(-8).map((v) => (
                    <li key={v.id}>
                        <a href={href("") + v.url}>{v.text}</a>
                    </li>
                ))}
            </ul>
        </section>
    ) : (
        ""
    );
}
