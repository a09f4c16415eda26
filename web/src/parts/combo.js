// SPDX-License-Identifier: Apache-2.0
// A text field with completion (ARIA combobox with a listbox).
import {useEffect, useId, useRef, useState} from "preact/hooks";

// value, options (strings), onPick(text), free: a text that is not an option is accepted too. Enter takes the
// suggestion that is marked: the first one as soon as something is typed, unless verbatim is set (for
// expressions).
/**
 * @param {{label: string, options: string[], onPick: (text: string) => void, value?: string, placeholder?: string,
 *     size?: number, onCancel?: () => void, free?: boolean, verbatim?: boolean, autofocus?: boolean}} props
 */
export function Combo({
    value,
    options,
    onPick,
    label,
    placeholder,
    free = false,
    verbatim = false,
    size = 18,
    autofocus = false,
    onCancel,
}) {
    const [text, setText] = useState(null); // null: not editing
    const [at, setAt] = useState(-1);
    const id = useId().replace(/[^\w-]/g, "_"),
        input = useRef(null),
        list = useRef(null),
        closed = useRef(false);
    const editing = text !== null;
    const low = (text ?? "").toLowerCase();
    const shown = editing
        ? [
              ...options.filter((o) => o.toLowerCase().startsWith(low)),
              ...options.filter((o) => !o.toLowerCase().startsWith(low) && o.toLowerCase().includes(low)),
          ].slice(0, 60)
        : [];
    useEffect(() => {
        if (autofocus) input.current.focus();
    }, []);
    useEffect(() => {
        list.current?.children[at]?.scrollIntoView?.({block: "nearest"});
    }, [at]);
    const done = (v) => {
        if (closed.current) return; // the field that goes away loses the focus: that is not a second answer
        closed.current = true;
        setText(null);
        setAt(-1);
        if (v !== undefined && v !== value) onPick(v);
        else onCancel?.();
    };
    const keys = (e) => {
        if (e.key === "ArrowDown" || e.key === "ArrowUp") {
            e.preventDefault();
            if (!editing) setText("");
            const n = shown.length || 1;
            setAt((a) => (e.key === "ArrowDown" ? (a + 1) % n : (a - 1 + n) % n));
        } else if (e.key === "Enter" || (e.key === "Tab" && editing && text)) {
            if (!editing) return;
            if (e.key === "Enter") e.preventDefault();
            if (at >= 0 && shown[at] !== undefined) done(shown[at]);
            else if (free || options.includes(text)) done(text);
            else if (shown.length) done(shown[0]);
            else done(undefined);
        } else if (e.key === "Escape" && editing) {
            e.stopPropagation();
            done(undefined);
            input.current.blur();
        }
    };
    return (
        <span class="combo">
            <input
                ref={input}
                type="text"
                role="combobox"
                aria-label={label}
                aria-expanded={!!(editing && shown.length > 0)}
                aria-controls={id}
                aria-autocomplete="list"
                aria-activedescendant={at >= 0 && at < shown.length ? id + "-" + at : undefined}
                autocomplete="off"
                spellcheck={false}
                size={size}
                placeholder={placeholder}
                value={editing ? text : value}
                onFocus={() => ((closed.current = false), setText(""), input.current.select())}
                onInput={(e) => (
                    (closed.current = false),
                    setText(e.currentTarget.value),
                    setAt(e.currentTarget.value && !verbatim ? 0 : -1)
                )}
                onBlur={() => editing && done(free && text ? text : undefined)}
                onKeyDown={keys}
            />
            <ul class="options" id={id} role="listbox" aria-label={label} ref={list} hidden={!editing || !shown.length}>
                {shown.map((o, i) => (
                    <li
                        role="option"
                        key={o}
                        id={id + "-" + i}
                        aria-selected={i === at}
                        onPointerDown={(e) => e.preventDefault()}
                        onClick={() => (done(o), input.current.blur())}
                    >
                        {o}
                    </li>
                ))}
            </ul>
        </span>
    );
}
