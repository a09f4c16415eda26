// SPDX-License-Identifier: Apache-2.0
// The API client. Recent answers are cached by URL, so that views with the same request share one.
import {signal} from "@preact/signals";
import {useEffect, useRef, useState} from "preact/hooks";
import {keepFresh, startLive} from "./live.js";
import {acceptedAge, fitRange} from "./time.js";
import {parseTree} from "./tree.js";
import {base, route, search} from "./url.js";

// Whether the server is reachable: false while requests fail to reach it.
export const reachable = signal(true);
// Set when a request was refused because there is no session: the shell shows the login form.
export const needLogin = signal(false);

// The server's information about this session: {required, scope, tenant}; null until it is known.
export const session = signal(null);

// Requested first, so that a page that requires a login sends no requests that would be refused.
export async function openSession() {
    try {
        const r = await fetch(base + "api/v1/session", {credentials: "same-origin"});
        if (!r.ok) return;
        session.value = await r.json();
        needLogin.value = session.value.required && session.value.scope === "none";
        if (["read", "admin"].includes(session.value.scope)) await fitToData();
    } catch {
        // The views report that the server is unreachable.
    }
}

// A server that was started minutes ago has nothing to show for most of an hour. The page does not wait long for it.
async function fitToData() {
    const d = await Promise.race([
        get(apiUrl("series", {query: "cpu", from: "now-1h", to: "now"})),
        new Promise((late) => setTimeout(late, PATIENCE / 3)),
    ]);
    if (!d) return;
    const at = d.coverage.findIndex((ns) => ns > 0); // the last part of this step is covered
    fitRange(
        at < 0 ? NaN : (Number(d.from) + (at + 1) * Number(d.step) - Math.min(d.coverage[at], Number(d.step))) / 1e6,
    );
}

const YOUNG_MS = 4000,
    KEPT = 24,
    PATIENCE = 3000;
const cache = new Map(); // url -> {at, promise, data}

export class ApiError extends Error {
    constructor(kind, message, status = 0) {
        super(message);
        this.kind = kind; // gone, login, denied, missing, busy, wrong
        this.status = status;
    }
}

// True under `wick pprof -http`: one or two files instead of a store. Then pprof's own URL parameters are sent with
// every request, and the server applies them to the profile first.
export const overFiles = signal(false);
export const pprofParams = [
    "f",
    "i",
    "h",
    "s",
    "sf",
    "tf",
    "ti",
    "ts",
    "th",
    "si",
    "g",
    "prunefrom",
    "tagroot",
    "tagleaf",
    "noinlines",
    "showcolumns",
    "mean",
    "normalize",
    "dropneg",
    "divide_by",
    "trim",
    "compact_labels",
];

export function carried() {
    const {params} = route.value;
    return Object.fromEntries(pprofParams.filter((k) => params[k]).map((k) => [k, params[k]]));
}

export function apiUrl(name, params = {}) {
    return base + "api/v1/" + name + search(overFiles.value ? {...carried(), ...params} : params);
}

const kinds = {401: "login", 403: "denied", 404: "missing", 429: "busy", 503: "busy", 504: "busy"};

// The error that a response states.
export async function refusal(r) {
    let words = "";
    try {
        words = (await r.json()).error.message;
    } catch {
        words = `the server responded with status ${r.status}`;
    }
    if (r.status === 401) needLogin.value = true;
    return new ApiError(kinds[r.status] ?? "wrong", words, r.status);
}

// Of the last answer of a URL: bytes that it took on its way, and how old it was (ms) when it arrived.
const sizes = new Map(),
    ages = new Map();

function note(map, url, value) {
    map.delete(url);
    map.set(url, value);
    if (map.size > 200) map.delete(map.keys().next().value);
}

// Several users who look at the same data share answers: a first request accepts one that is a few seconds old. A
// refresh does not, and nothing does after the user changed something.
let changed = 0;
const CHANGED_MS = 15e3;

function shared(url) {
    const age =
        Date.now() - changed < CHANGED_MS
            ? 0
            : acceptedAge(Object.fromEntries(new URL(url, location.href).searchParams));
    return age ? {headers: {"cache-control": `max-age=${age}`}} : {};
}

async function load(url, options) {
    let r;
    try {
        r = await fetch(url, {credentials: "same-origin", ...options});
    } catch (e) {
        if (e.name === "AbortError") throw e;
        reachable.value = false;
        throw new ApiError("gone", "the server does not respond");
    }
    reachable.value = true;
    note(sizes, url, Number(r.headers.get("content-length") ?? 0));
    note(ages, url, Number(r.headers.get("age") ?? 0) * 1000);
    if (!r.ok) throw await refusal(r);
    if ((r.headers.get("content-type") ?? "").includes("vnd.wick.tree")) {
        const bytes = await r.arrayBuffer();
        performance.mark("wick-data");
        return parseTree(bytes);
    }
    return r.json();
}

export function get(url, {fresh = false} = {}) {
    const now = Date.now();
    const old = cache.get(url);
    if (old && !fresh && now - old.at < YOUNG_MS) return old.promise;
    const promise = load(url, fresh ? {} : shared(url)),
        entry = {at: now, promise, data: null};
    cache.set(url, entry);
    promise.then(
        (data) => (entry.data = data),
        () => {},
    );
    promise.catch(() => cache.get(url)?.promise === promise && cache.delete(url));
    if (cache.size > KEPT) cache.delete(cache.keys().next().value);
    return promise;
}

export async function post(name, body, type = "text/plain", params = {}) {
    forget();
    return load(apiUrl(name, params), {method: "POST", body, headers: {"content-type": type}});
}

// Adds, replaces or deletes what the server keeps.
export function change(method, name, body) {
    forget();
    return load(apiUrl(name), {
        method,
        ...(body ? {body: JSON.stringify(body), headers: {"content-type": "application/json"}} : {}),
    });
}

export function forget() {
    changed = Date.now();
    cache.clear();
}

// Nanoseconds that the profiles of a selection cover, per column: rates are per covered second. Zero while it is
// not known, and for files. params: of the selection (null: none wanted).
export function useCoverage(params, options) {
    const answer = useData(params && !overFiles.value ? apiUrl("coverage", params) : null, options);
    return coverageOf(answer.data);
}

// The same of an answer that has it: {ns, base, rate}; rate is in Hz: the mean of the samples, where several were
// in force.
export function coverageOf(data) {
    const c = data?.coverage ?? 0,
        both = Array.isArray(c) ? c : [c, c],
        rates = [data?.rate ?? 0].flat();
    return {ns: both[both.length - 1], base: both[0], rate: data?.meanRate ?? rates[0], rates};
}

// Reports the server as gone while a promise takes longer than ms.
function within(ms, promise) {
    const timer = setTimeout(() => (reachable.value = false), ms);
    const done = () => clearTimeout(timer);
    promise.then(() => (done(), (reachable.value = true)), done);
    return promise;
}

// A sign of life: the smallest answer that needs no rights.
async function probe(patience) {
    try {
        await fetch(base + "api/v1/session", {credentials: "same-origin", signal: AbortSignal.timeout(patience)});
        reachable.value = true;
    } catch {
        reachable.value = false;
    }
}
startLive(probe);

// Data of url (null: none wanted). While another url loads, the last data are kept, with loading set, so that pages
// keep their layout. live: refresh them while they are shown (live.js). via: a function that returns a promise, used
// instead of a single request.
export function useData(url, {live = false, via = null} = {}) {
    // Data that another part of the page has already fetched are shown from the first rendering on.
    /** @type {() => {data: any, error: any, loading: boolean, url: string, failed?: string}} */
    const first = () => ({
        data: (!via && cache.get(url)?.data) || null,
        error: null,
        loading: !!url,
        url,
    });
    const [state, set] = useState(first);
    const [tick, again] = useState(0);
    const serial = useRef(0);
    useEffect(() => {
        const mine = ++serial.current;
        let timer = 0,
            stop = () => {},
            shown = 0; // when the answer on the page was asked for
        if (!url) {
            set({data: null, error: null, loading: false, url: null});
            return undefined;
        }
        const ask = (fresh) =>
            (via ? via(fresh) : get(url, {fresh})).then(
                (data) => {
                    if (mine === serial.current) set({data, error: null, loading: false, url});
                    return true;
                },
                (error) => {
                    if (mine !== serial.current) return false;
                    set((s) => ({...s, error, loading: false, failed: url}));
                    if (error.kind === "gone") timer = setTimeout(() => ask(true), 2000);
                    return false;
                },
            );
        // Data that are on the page stay there when they cannot be refreshed, or when an older answer comes late.
        const again = () => {
            const asked = Date.now();
            return within(PATIENCE, via ? via(true) : get(url, {fresh: true})).then((data) => {
                if (mine === serial.current && asked >= shown) {
                    shown = asked;
                    set({data, error: null, loading: false, url});
                }
                return sizes.get(url) ?? 0;
            });
        };
        const first = Date.now();
        set((s) => ({...s, loading: true, error: s.failed === url ? s.error : null}));
        ask(tick > 0).then((answered) => {
            if (live && mine === serial.current)
                stop = keepFresh(again, sizes.get(url), (ages.get(url) ?? 0) + Date.now() - first, !answered);
        });
        return () => {
            serial.current++;
            clearTimeout(timer);
            stop();
        };
    }, [url, tick, live]);
    return {...state, reload: () => again((n) => n + 1)};
}
