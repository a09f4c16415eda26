// SPDX-License-Identifier: Apache-2.0
// Time ranges in the URL: `now`, `now-1h`, Unix seconds, RFC 3339. Relative ones stay relative, so that a link to "the
// last hour" always means the last hour.
import {inZone} from "./settings.js";

const unit = {s: 1e3, m: 60e3, h: 3600e3, d: 86400e3, w: 604800e3};

export const presets = [
    ["now-5m", "5 minutes"],
    ["now-15m", "15 minutes"],
    ["now-1h", "1 hour"],
    ["now-6h", "6 hours"],
    ["now-1d", "1 day"],
    ["now-7d", "7 days"],
    ["now-30d", "30 days"],
];

// Returns milliseconds, or NaN.
export function parseTime(text, now = Date.now()) {
    const s = (text ?? "").trim();
    if (s === "" || s === "now") return now;
    const m = /^now-(\d+(?:\.\d+)?)([smhdw])$/.exec(s);
    if (m) return now - Number(m[1]) * unit[m[2]];
    if (/^\d+(\.\d+)?$/.test(s)) {
        const n = Number(s);
        if (n > 1e17) return n / 1e6;
        if (n > 1e14) return n / 1e3;
        if (n > 1e11) return n;
        return n * 1e3;
    }
    return Date.parse(s);
}

// The range of a page whose URL has none: an hour or, while all profiles of the last hour are younger, the fewest
// of these minutes that contain them with room to grow. Set once per page load, so that it does not change under
// the reader.
const HOUR = "now-1h",
    ROOM = 0.9,
    MINUTES = [2, 3, 5, 7, 10, 15, 20, 30, 45];
let usual = HOUR,
    oldest = 0;

// first: the time (ms) of the first profile of the last hour, or NaN.
export function fitRange(first, now = Date.now()) {
    const enough = MINUTES.find((m) => now - first < ROOM * m * 60e3);
    usual = enough ? `now-${enough}m` : HOUR;
    oldest = usual === HOUR ? 0 : first;
}

// Where the profiles of a range begin (ms), as far as that is known.
export const startOf = (r) => (r.live && r.toMs - r.fromMs <= 3600e3 ? Math.max(r.fromMs, oldest) : r.fromMs);

// Where a range that ends at `end` (ms) begins, to be compared with one of the same length before it: an hour
// earlier or, while there are fewer profiles, in the middle of the time that has any.
export function middle(end) {
    return oldest && end - oldest > 20e3 ? (end + oldest) / 2 : end - 3600e3;
}

// An absolute time without a zone is local time here and UTC for the server: it is sent as the instant that it
// means here.
const exact = /^(now.*|\d+(\.\d+)?|.*T.*(Z|[+-]\d\d:?\d\d))$/i;
const sent = (text, ms) => (exact.test(text.trim()) || !(Math.abs(ms) < 8e15) ? text : new Date(ms).toISOString());

// The length of a range says nothing about rates: those are per covered second (useCoverage).
export function rangeOf(params, prefix = "") {
    const to = params[prefix + "to"] || "now",
        from = params[prefix + "from"] || (params[prefix + "to"] ? "" : usual);
    const toMs = parseTime(to);
    const fromMs = from ? parseTime(from) : toMs - 3600e3;
    return {
        from: from ? sent(from, fromMs) : String(Math.floor(fromMs / 1000)),
        to: sent(to, toMs),
        fromMs,
        toMs,
        live: to === "now",
    };
}

// How old, in seconds, an answer for these parameters may be: less than two pixels of a chart of the range, so 5 s
// for an hour; a minute where the range ended long ago. 0: it must be new.
const PIXELS = 720,
    AGE_MAX = 10,
    SEALED_MS = 900e3,
    SEALED_AGE = 60;
export function acceptedAge(params, now = Date.now()) {
    if (!params.from) return params.version ? AGE_MAX : 0;
    const from = parseTime(params.from, now),
        to = parseTime(params.to, now);
    if (!(to > from)) return 0;
    return to < now - SEALED_MS ? SEALED_AGE : Math.min(AGE_MAX, Math.floor((to - from) / 1000 / PIXELS));
}

// What is wrong with the times in the URL, as a sentence; "" if nothing is.
export function timeProblem(params, prefix = "") {
    for (const k of ["from", "to"]) {
        const text = params[prefix + k];
        if (text && !(Math.abs(parseTime(text)) < 8e15))
            return (
                `“${text}” is not a time (${prefix.replace("base_", "before: ")}${k}). Use now-1h, ` +
                "Unix seconds or 2026-05-31T12:00:00Z."
            );
    }
    const r = rangeOf(params, prefix);
    return r.fromMs < r.toMs ? "" : "The time range ends before it begins.";
}

// Times that a link keeps: relative ones become Unix seconds. They end a little before now, where all profiles have
// arrived, so that the same link shows the same numbers later.
const SETTLED_MS = 10e3;
export const relative = (text) => !text || /^now/.test(text.trim());
export function settledNow(now = Date.now()) {
    return Math.floor((now - SETTLED_MS) / 10e3) * 10e3;
}

export function seconds(ms) {
    return String(Math.round(ms / 1000));
}

export const sameDay = (a, b) => inZone(a).toDateString() === inZone(b).toDateString();

// The range as text for a button.
export function describe(r, clock) {
    const p = r.live && presets.find(([v]) => v === r.from);
    if (p) return `last ${p[1].replace(/^1 /, "")}`;
    if (r.live && r.from.startsWith("now-")) return `last ${r.from.slice(4).replace(/^(\d+)m$/, "$1 minutes")}`;
    return `${clock(r.fromMs)} – ${clock(r.toMs, {date: sameDay(r.fromMs, r.toMs) ? "never" : "auto"})}`;
}

// The range of the same length just before r.
export function before(r) {
    const length = r.toMs - r.fromMs;
    return {from: seconds(r.fromMs - length), to: seconds(r.fromMs)};
}

// A time in nanoseconds as text in the URL: FROM-TO. Null if it is anything else.
export function parseCell(text) {
    const m = /^(\d{16,19})-(\d{16,19})$/.exec(text ?? "");
    return m && BigInt(m[1]) < BigInt(m[2]) ? [BigInt(m[1]), BigInt(m[2])] : null;
}
