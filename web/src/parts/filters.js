// SPDX-License-Identifier: Apache-2.0
// Filters by regular expression, and how the picture is drawn.
import {useEffect, useRef, useState} from "preact/hooks";
import {colorings} from "../lib/color.js";
import {patch, route} from "../lib/url.js";
import {Drop} from "./menu.js";

export const quoteRe = (s) => s.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
export const exactly = (s) => `^${quoteRe(s)}$`;
export const also = (old, more) => (old ? `${old}|${more}` : more);

const fields = [
    ["focus", "only stacks with"],
    ["ignore", "no stacks with"],
    ["hide", "hide frames"],
];

// Chips of active filters, and the form to change them.
export function Filters({params}) {
    const [open, set] = useState(false);
    const form = useRef(null),
        button = useRef(null);
    useEffect(() => {
        if (!open) return undefined;
        form.current.querySelector("input").focus();
        const away = (e) => !form.current?.contains(e.target) && !button.current?.contains(e.target) && set(false);
        addEventListener("pointerdown", away, true);
        return () => removeEventListener("pointerdown", away, true);
    }, [open]);
    const take = (e) => {
        e.preventDefault();
        const change = {};
        for (const [k] of fields) change[k] = form.current.elements[k].value.trim();
        set(false);
        patch({...change, zoom: ""});
        button.current.focus();
    };
    return (
        <span class="filters">
            {fields
                .filter(([k]) => params[k])
                .map(([k, text]) => (
                    <span class="chip" key={k}>
                        <span title={params[k]}>
                            {text} <b>{params[k]}</b>
                        </span>
                        <button aria-label={"remove: " + text} onClick={() => patch({[k]: "", zoom: ""})}>
                            ×
                        </button>
                    </span>
                ))}
            <span class="time">
                <button class="quiet" ref={button} aria-expanded={!!open} onClick={() => set(!open)}>
                    + frames
                </button>
                {open && (
                    <form
                        class="pop"
                        ref={form}
                        onSubmit={take}
                        onKeyDown={(e) =>
                            e.key === "Escape" && (e.stopPropagation(), set(false), button.current.focus())
                        }
                    >
                        {fields.map(([k, text]) => (
                            <label>
                                {text}{" "}
                                <input
                                    name={k}
                                    placeholder="regular expression"
                                    spellcheck={false}
                                    value={params[k] ?? ""}
                                />
                            </label>
                        ))}
                        <button class="main">Apply</button>
                    </form>
                )}
            </span>
        </span>
    );
}

const toggle =
    (name, on = "1") =>
    () =>
        patch({
            [name]: route.peek().params[name] === on ? "" : on,
            zoom: name === "dir" ? route.peek().params.zoom : "",
        });

// Keys that change how the picture is drawn.
export const drawKeys = {
    i: toggle("dir", "flame"),
    r: toggle("rec"),
    o: toggle("mine"),
    f: toggle("frames", "all"),
    v: toggle("inv"),
};

export function DrawOptions({params, diff = false}) {
    const p = params;
    const color = p.color || (diff ? "diff" : "package");
    const items = () => [
        {label: "icicle (root on top)", checked: p.dir !== "flame", run: () => patch({dir: ""})},
        {
            label: "inverted: functions first, their callers below",
            checked: p.inv === "1",
            hint: "v",
            run: () => patch({inv: p.inv === "1" ? "" : "1", zoom: "", izoom: ""}),
        },
        {label: "flame (root at the bottom)", checked: p.dir === "flame", hint: "i", run: () => patch({dir: "flame"})},
        "-",
        ...(diff ? [{label: "colour by difference", checked: color === "diff", run: () => patch({color: ""})}] : []),
        ...colorings.map(([v, text]) => ({
            label: `colour by ${text}`,
            checked: color === v,
            run: () => patch({color: v === "package" && !diff ? "" : v, lit: ""}),
        })),
        "-",
        {label: "largest first", checked: p.order !== "name", run: () => patch({order: ""})},
        {label: "by name", checked: p.order === "name", run: () => patch({order: "name"})},
        "-",
        {
            label: "frames of interpreters and program starts",
            checked: p.frames === "all",
            hint: "f",
            run: () => patch({frames: p.frames === "all" ? "" : "all", zoom: ""}),
        },
        {
            label: "one row for what all stacks begin with",
            checked: (p.stem || (diff ? "one" : "all")) === "one",
            run: () => patch({stem: (p.stem || (diff ? "one" : "all")) === "one" ? "all" : "one", zoom: ""}),
        },
        {
            label: "collapse recursion",
            checked: p.rec === "1",
            hint: "r",
            run: () => patch({rec: p.rec === "1" ? "" : "1", zoom: ""}),
        },
        {
            label: "only my code",
            checked: p.mine === "1",
            hint: "o",
            run: () => patch({mine: p.mine === "1" ? "" : "1", zoom: ""}),
        },
    ];
    return <Drop label="Picture" title="How the picture is drawn" items={items} />;
}
