// SPDX-License-Identifier: Apache-2.0
// The selection as text: types, labels and values are completed while it is written. Enter takes the marked suggestion,
// or the query when none is marked.
import {useEffect, useId, useRef, useState} from "preact/hooks";
import {apiUrl, useData} from "../lib/api.js";
import {finished, fitting, placeIn, taken} from "../lib/complete.js";

/** @param {{query: string, types: string[], labels: string[], at: any, onQuery: (text: string) => void,
 *    onClose: () => void}} props */
export function QueryBox({query, types, labels, at: range, onQuery, onClose}) {
    const [text, setText] = useState(query),
        [cursor, setCursor] = useState(query.length),
        [marked, mark] = useState(-1),
        [open, setOpen] = useState(false),
        [wrong, setWrong] = useState("");
    const input = useRef(null),
        list = useRef(null),
        id = useId().replace(/[^\w-]/g, "_");
    const before = text.slice(0, cursor),
        place = placeIn(before);
    const values = useData(
        place?.kind === "value" ? apiUrl(`labels/${encodeURIComponent(place.name)}/values`, range) : null,
    ).data;
    const of = {type: types, name: labels, value: values ?? []};
    const shown = open && place ? fitting(of[place.kind], place.part) : [];
    useEffect(() => {
        input.current.focus();
        input.current.setSelectionRange(text.length, text.length);
    }, []);
    useEffect(() => {
        list.current?.children[marked]?.scrollIntoView?.({block: "nearest"});
    }, [marked]);
    const put = (next, caret) => {
        setText(next);
        setCursor(caret);
        mark(-1);
        setOpen(true);
        setWrong("");
    };
    const take = (option) => {
        const t = taken(before, text.slice(cursor), place, option);
        put(t.text, t.at);
        input.current.value = t.text;
        input.current.focus();
        input.current.setSelectionRange(t.at, t.at);
    };
    const done = () => {
        const whole = finished(text);
        if (whole === null) return setWrong('Write it as cpu{service.name="checkout",host.name=~"web-.*"}.');
        onQuery(whole);
        onClose();
    };
    const keys = (e) => {
        if (e.key === "ArrowDown" || e.key === "ArrowUp") {
            e.preventDefault();
            setOpen(true);
            const n = shown.length || 1;
            mark((m) => (e.key === "ArrowDown" ? (m + 1) % n : (m - 1 + n) % n));
        } else if ((e.key === "Enter" || e.key === "Tab") && shown[marked] !== undefined) {
            e.preventDefault();
            take(shown[marked]);
        } else if (e.key === "Enter") {
            e.preventDefault();
            done();
        } else if (e.key === "Escape") {
            e.stopPropagation();
            if (shown.length) setOpen(false);
            else onClose();
        }
    };
    const moved = (e) => setCursor(e.currentTarget.selectionStart);
    return (
        <span class="combo query-box">
            <input
                ref={input}
                type="text"
                role="combobox"
                aria-label="query"
                aria-expanded={shown.length > 0}
                aria-controls={id}
                aria-autocomplete="list"
                aria-invalid={wrong !== ""}
                aria-activedescendant={shown[marked] !== undefined ? `${id}-${marked}` : undefined}
                autocomplete="off"
                spellcheck={false}
                value={text}
                onInput={(e) => put(e.currentTarget.value, e.currentTarget.selectionStart)}
                onKeyUp={moved}
                onClick={moved}
                onKeyDown={keys}
            />
            <ul class="options" id={id} role="listbox" aria-label="completions" ref={list} hidden={!shown.length}>
                {shown.map((o, i) => (
                    <li
                        role="option"
                        key={o}
                        id={`${id}-${i}`}
                        aria-selected={i === marked}
                        onPointerDown={(e) => e.preventDefault()}
                        onClick={() => take(o)}
                    >
                        {o || "(empty)"}
                    </li>
                ))}
            </ul>
            <button class="main" onClick={done}>
                Run
            </button>
            <button class="quiet" onClick={onClose}>
                Cancel
            </button>
            {wrong && (
                <span class="wrong" role="alert">
                    {wrong}
                </span>
            )}
        </span>
    );
}
