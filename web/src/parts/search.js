// SPDX-License-Identifier: Apache-2.0
// The search field of flame graphs, with the share of the matches.
import {useEffect, useRef, useState} from "preact/hooks";
import {percent} from "../lib/units.js";

const foundText = (found) =>
    found.wrong ? "plain text" : `${percent(found.share, undefined, found.digits)} · ${found.count}`;

export function SearchBox({value, found, onInput}) {
    const el = useRef(null),
        timer = useRef(0);
    const [text, setText] = useState(value);
    useEffect(() => setText(value), [value]);
    const input = (e) => {
        const v = e.currentTarget.value;
        setText(v);
        clearTimeout(timer.current);
        timer.current = setTimeout(() => onInput(v), 120);
    };
    const keys = (e) => {
        if (e.key === "Escape") {
            setText("");
            onInput("");
            el.current.blur();
        } else if (e.key === "Enter") /** @type {HTMLElement} */ (document.querySelector(".flame-box"))?.focus();
    };
    return (
        <span class="search" role="search">
            <input
                id="search"
                type="search"
                ref={el}
                aria-label="search frames (regular expression)"
                placeholder="search  /"
                spellcheck={false}
                value={text}
                onInput={input}
                onKeyDown={keys}
            />
            <span class="search-found num" role="status">
                {text && found ? foundText(found) : ""}
            </span>
        </span>
    );
}
