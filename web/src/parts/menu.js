// SPDX-License-Identifier: Apache-2.0
// Menus: one at a time, at a point; with arrow keys and Escape; the focus returns to where it was. Also a button that
// opens a menu.
import {signal} from "@preact/signals";
import {useEffect, useLayoutEffect, useRef} from "preact/hooks";

const open = signal(null);

// items: {label, run or href, out (opens outside), find (a better href, requested when the link is followed), hint,
// checked, disabled} or "-" for a line.
export function openMenu(x, y, items, title, back = document.activeElement) {
    open.value = {x, y, items, title, back};
}

function close() {
    const m = open.peek();
    open.value = null;
    m?.back?.focus?.({preventScroll: true});
}

export function MenuLayer() {
    const m = open.value;
    const el = useRef(null);
    useLayoutEffect(() => {
        if (!m) return;
        const {offsetWidth: w, offsetHeight: h} = el.current;
        el.current.style.left = Math.max(4, Math.min(m.x, innerWidth - w - 6)) + "px";
        el.current.style.top = Math.max(4, Math.min(m.y, innerHeight - h - 6)) + "px";
        el.current.querySelector("[role^=menuitem]:not([aria-disabled=true])")?.focus();
    }, [m]);
    useEffect(() => {
        if (!m) return undefined;
        const away = (e) => !el.current?.contains(e.target) && (open.value = null);
        addEventListener("pointerdown", away, true);
        addEventListener("resize", close);
        return () => {
            removeEventListener("pointerdown", away, true);
            removeEventListener("resize", close);
        };
    }, [m]);
    if (!m) return null;
    const keys = (e) => {
        const list = [...el.current.querySelectorAll("[role^=menuitem]:not([aria-disabled=true])")];
        const at = list.indexOf(document.activeElement);
        const to = {ArrowDown: at + 1, ArrowUp: at - 1 + list.length, Home: 0, End: list.length - 1}[e.key];
        if (to !== undefined) list[to % list.length]?.focus();
        else if (e.key === "Escape" || e.key === "Tab") close();
        else return;
        e.preventDefault();
        e.stopPropagation();
    };
    return (
        <div class="menu" role="menu" aria-label={m.title ?? "Menu"} ref={el} onKeyDown={keys}>
            {m.title && (
                <div class="menu-title" role="presentation" title={m.title}>
                    {m.title}
                </div>
            )}
            {m.items.map((i) => (i === "-" ? <hr role="separator" /> : <Item i={i} />))}
        </div>
    );
}

// For onClick of an item's link.
export function follow(i) {
    return (e) => {
        if (!i.find) return;
        e.preventDefault();
        i.find()
            .catch(() => i.href)
            .then((href) => window.open(href, "_blank", "noopener,noreferrer"));
    };
}

function Item({i}) {
    const body = (
        <>
            <span>
                {i.checked !== undefined ? <span class="tick">{i.checked ? "✓" : ""}</span> : ""}
                {i.label}
            </span>
            {i.hint && <kbd>{i.hint}</kbd>}
        </>
    );
    const role = i.checked !== undefined ? "menuitemradio" : "menuitem";
    const checked = i.checked !== undefined ? !!i.checked : undefined;
    if (i.href)
        return (
            <a
                role={role}
                tabindex={-1}
                href={i.href}
                onClick={(e) => (follow(i)(e), (open.value = null))}
                {...(i.out ? {target: "_blank", rel: "noopener noreferrer"} : {})}
                {...(i.download ? {download: i.download} : {})}
            >
                {body}
            </a>
        );
    return (
        <button
            role={role}
            tabindex={-1}
            aria-checked={checked}
            aria-disabled={i.disabled ? "true" : undefined}
            onClick={() => i.disabled || (close(), i.run())}
        >
            {body}
        </button>
    );
}

// A button that opens a menu below it.
/**
 * @param {{label: string, items: any[] | (() => any[]), title?: string, cls?: string,
 *     [attribute: string]: any}} props
 */
export function Drop({label, items, title, cls = "", ...rest}) {
    const el = useRef(null);
    const show = () => {
        const r = el.current.getBoundingClientRect();
        openMenu(r.left, r.bottom + 4, typeof items === "function" ? items() : items, undefined, el.current);
    };
    return (
        <button class={"drop " + cls} aria-haspopup="menu" title={title} ref={el} onClick={show} {...rest}>
            {label}
            <span class="caret" aria-hidden="true" />
        </button>
    );
}

// A choice between several values, as buttons side by side. options: [value, label, key?, what it is?]
export function Choice({value, options, onPick, label}) {
    return (
        <div class="choice" role="group" aria-label={label}>
            {options.map(([v, text, key, what = text]) => (
                <button
                    aria-pressed={v === value}
                    title={key ? `${what} (${key})` : undefined}
                    onClick={() => onPick(v)}
                >
                    {text}
                </button>
            ))}
        </div>
    );
}
