// SPDX-License-Identifier: Apache-2.0
// The frame around every view: navigation, theme switch, help, the banner when the server is unreachable, and the login
// form when a token is required.
import {signal} from "@preact/signals";
import {useEffect, useRef} from "preact/hooks";
import {needLogin, overFiles, post, pprofParams, reachable, session, useData} from "../lib/api.js";
import {choice, setTheme, themeOf} from "../lib/color.js";
import {bindings} from "../lib/keys.js";
import {serviceQuery} from "../lib/selector.js";
import {base, href, route} from "../lib/url.js";
import {Login} from "../views/login.js";
import {DemoBanner} from "./demo.js";
import {DropZone, OpenButton} from "./dropzone.js";
import {MenuLayer} from "./menu.js";

export const helpOpen = signal(false);

const places = [
    ["", "Home", "g h"],
    ["services", "Services", "g s"],
    ["explore", "Explore", "g e"],
    ["compare", "Compare", "g c"],
    ["alerts", "Alerts", "g a"],
    ["senders", "Sources", "g n"],
];

export function useStatus(options) {
    const status = useData(needLogin.value ? null : base + "api/v1/status", options);
    if (status.data) overFiles.value = status.data.mode === "files";
    return status;
}

// The parameters of the page; for files, with the files' own query and time range if the URL has none. Null until it is
// known which of the two applies.
export function useParams() {
    const {params} = route.value;
    const status = useStatus();
    if (status.error && !status.data) return params;
    if (!status.data) return null;
    if (status.data.mode !== "files") return params;
    const {query, baseQuery, from, to} = status.data;
    return {query, base_query: baseQuery, from, to, base_from: from, base_to: to, timeless: true, ...params};
}

// Links to pprof's own pages, with the current filters.
function pprofPages({params}) {
    const keep = Object.fromEntries(pprofParams.filter((k) => params[k]).map((k) => [k, params[k]]));
    const same = {...keep, f: params.focus || params.f, i: params.ignore || params.i, h: params.hide || params.h};
    const one = params.fn ? {...same, f: params.fn.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")} : same;
    return [
        ["top", "Top", same],
        ["graph", "Graph", same],
        ["peek", "Peek", one],
        ["source", "Source", one],
        ["disasm", "Disassemble", one],
    ];
}

// What is kept when switching between views: the selection, the filters of frames, how stacks are grouped and drawn.
const KEPT = [
    "query",
    "from",
    "to",
    "focus",
    "ignore",
    "hide",
    "search",
    "group",
    "mine",
    "rec",
    "frames",
    "dir",
    "order",
];
const selecting = ["explore", "compare", "function"];

function carried(path, {path: here, params: p}) {
    const {from, to, service} = p;
    if (path === "explore" || path === "compare") {
        if (selecting.includes(here)) return Object.fromEntries(KEPT.map((k) => [k, p[k]]));
        return {from, to, query: service && here === "spans" ? serviceQuery("cpu", service) : ""};
    }
    if (path === "services") return {from, to};
    return {};
}

function ThemeSwitch() {
    const next = {"": "dark", dark: "light", light: ""}[choice.value];
    const words = {"": "as the system", dark: "dark", light: "light"};
    return (
        <button
            class="icon"
            title={`Colours: ${words[choice.value]}. Click: ${words[next]}.`}
            aria-label={`colours: ${words[choice.value]}; change to ${words[next]}`}
            onClick={() => setTheme(next)}
        >
            {{"": "◐", dark: "●", light: "○"}[choice.value]}
        </button>
    );
}

function Help() {
    const el = useRef(null);
    useEffect(() => {
        if (helpOpen.value) el.current.showModal();
        else el.current.close();
    }, [helpOpen.value]);
    return (
        <dialog
            ref={el}
            class="help"
            aria-label="Keyboard"
            onClose={() => (helpOpen.value = false)}
            onClick={(e) => e.target === el.current && el.current.close()}
        >
            <h2>Keyboard</h2>
            <div class="help-groups">
                {bindings.map(([group, list]) => (
                    <section>
                        <h3>{group}</h3>
                        <dl>
                            {list.map(([keys, what]) => (
                                <div>
                                    <dt>
                                        {keys.split(" ").map((k) => (
                                            <>
                                                <kbd>{k}</kbd>{" "}
                                            </>
                                        ))}
                                    </dt>
                                    <dd>{what}</dd>
                                </div>
                            ))}
                        </dl>
                    </section>
                ))}
            </div>
            <p class="muted">
                Wheel scrolls; with Ctrl it zooms; dragging moves. A right click on a frame opens its menu.
            </p>
            <form method="dialog">
                <button class="main" autofocus>
                    Close
                </button>
            </form>
        </dialog>
    );
}

// Pages without an entry in the navigation, and the one that they belong to.
const areas = {home: "", start: "", sources: "senders", function: "explore", spans: "explore", trace: "explore"};

export function Shell({children}) {
    const r = route.value;
    const status = useStatus();
    const files = status.data?.mode === "files";
    useEffect(() => {
        document.documentElement.dataset.theme = themeOf();
    });
    themeOf();
    let here;
    if (!files) here = areas[r.path] ?? r.path;
    else if (r.path === "compare" || (status.data.files.length > 1 && r.path !== "explore")) here = "compare";
    else here = "explore";
    let nav;
    if (files)
        nav = [["explore", "Explore"], ...((status.data.files?.length ?? 0) > 1 ? [["compare", "Compare"]] : [])];
    else if (status.data || status.error) nav = places;
    else nav = [];
    return (
        <>
            <a class="skip" href="#main">
                Skip to the content
            </a>
            <header class="top">
                <a class="brand" href={href("")}>
                    <svg viewBox="0 0 32 32" aria-hidden="true">
                        <path
                            class="flame-out"
                            d="M16 2c1 6 8 9 8 17a8 8 0 0 1-16 0c0-4 2-6 4-9 0 3 1 4 2 5 2-4 1-8 2-13z"
                        />
                        <path class="flame-in" d="M16 15c1 3 3 4 3 7a3 3 0 0 1-6 0c0-2 2-3 3-7z" />
                    </svg>
                    <span>wick</span>
                </a>
                <nav aria-label="Views">
                    {nav.map(([path, text, keys]) => (
                        <a
                            href={href(path, carried(path, r))}
                            title={keys && `${text} (${keys})`}
                            aria-current={here === path ? "page" : undefined}
                        >
                            {text}
                        </a>
                    ))}
                    {files && pprofPages(r).map(([path, text, params]) => <a href={href(path, params)}>{text}</a>)}
                </nav>
                <span class="grow" />
                {status.data && !files && !needLogin.value && <OpenButton />}
                {status.data && !files && !needLogin.value && (
                    <a
                        class="button quiet open-file"
                        href={href("files")}
                        title="Uploaded files (g f)"
                        aria-current={here === "files" ? "page" : undefined}
                    >
                        Files
                    </a>
                )}
                {!files && (
                    <a class="button quiet open-file" href="docs/" title="The documents of this version">
                        Docs
                    </a>
                )}
                {session.value?.required && !needLogin.value && (
                    <button
                        class="quiet out"
                        title="Log out"
                        onClick={() => post("logout", "").finally(() => location.reload())}
                    >
                        <svg viewBox="0 0 16 16" aria-hidden="true">
                            <path d="M6 2H2.5v12H6M6 8h8M11 5l3 3-3 3" />
                        </svg>
                        <span>Log out</span>
                    </button>
                )}
                {status.data && !files && !needLogin.value && (
                    <a class="button icon" href={href("settings")} aria-label="settings" title="Settings">
                        ⚙
                    </a>
                )}
                <ThemeSwitch />
                <button
                    class="icon"
                    aria-label="keyboard help"
                    title="Keyboard (?)"
                    onClick={() => (helpOpen.value = true)}
                >
                    ?
                </button>
            </header>
            {status.data?.demo && <DemoBanner demo={status.data.demo} />}
            <div class="banner gone" role="status" hidden={reachable.value || !!status.data?.demo}>
                The server does not respond. Is <code>wick serve</code> still running? Retrying…
            </div>
            <main id="main" tabindex={-1}>
                {needLogin.value ? <Login /> : children}
            </main>
            <Help />
            <MenuLayer />
            {!files && !needLogin.value && <DropZone />}
        </>
    );
}
