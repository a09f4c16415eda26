// SPDX-License-Identifier: Apache-2.0
// Formats numbers for display: cores and CPU-hours, bytes and bytes per second, shares, times, durations.
import {inZone, settings} from "./settings.js";

const fixed = (v, digits) => v.toLocaleString("en", {minimumFractionDigits: digits, maximumFractionDigits: digits});

// Three significant digits.
/** @type {[number, number, string][]} from where on, divided by what */
const thousands = [
    [1e12, 1e12, "T"],
    [1e9, 1e9, "G"],
    [1e6, 1e6, "M"],
    [1e4, 1e3, "k"],
];

export function number(v) {
    const a = Math.abs(v);
    if (Number.isInteger(v) && a < 1e4) return fixed(v, 0);
    if (a >= 1e15) return v.toExponential(2);
    for (const [least, size, suffix] of thousands) if (a >= least) return three(v / size) + suffix;
    return three(v);
}

// How many digits come after the decimal point: as many as there are limits above a.
const decimals = (a, limits) => limits.filter((limit) => a < limit).length;

// digits: how many of them the data have; fewer than three where a number rests on few samples.
function three(v, digits = 3) {
    const a = Math.abs(v);
    if (digits >= 3) return fixed(v, decimals(a, [99.95, 9.995, a === 0 ? 0 : 0.01]));
    if (a === 0) return "0";
    const whole = Math.floor(Math.log10(Number(a.toPrecision(digits)))) + 1,
        unit = 10 ** (whole - digits);
    return fixed(Math.round(v / unit) * unit, Math.max(0, digits - whole));
}

// How many digits a number that rests on n samples has: its standard error is one part in √n.
export function digitsOf(n) {
    if (!(n >= 0) || n >= 1000) return 3;
    if (n >= 25) return 2;
    return 1;
}

// How many samples a value stands for, where the sampling rate is known and the value is a time; undefined otherwise.
export function samplesOf(v, unit, rate) {
    return unit === "nanoseconds" && rate > 0 ? (v * rate) / 1e9 : undefined;
}

// "1 span", "1,200 spans"
export const count = (n, what) => `${number(n)} ${what}${n === 1 ? "" : "s"}`;

export const samplesText = (n) => count(Math.round(n), "sample");

export function bytes(v, digits = 3) {
    const binary = settings.value.sizes === "binary",
        units = binary ? ["B", "KiB", "MiB", "GiB", "TiB", "PiB"] : ["B", "kB", "MB", "GB", "TB", "PB"],
        step = binary ? 1024 : 1000;
    let i = 0,
        a = Math.abs(v);
    while (a >= step && i < units.length - 1) {
        a /= step;
        i++;
    }
    return (i ? three(Math.sign(v) * a, digits) : fixed(v, 0)) + " " + units[i];
}

// Nanoseconds as a duration.
/** @type {[number, string][]} */
const times = [
    [3600e9, "h"],
    [60e9, "min"],
    [1e9, "s"],
    [1e6, "ms"],
    [1e3, "µs"],
];

export function duration(ns, digits = 3) {
    const a = Math.abs(ns),
        sign = ns < 0 ? "−" : "";
    const nearly = 1 - 0.5 * 10 ** -digits; // what is rounded up to 1,000 ms is 1.00 s
    for (const [size, name] of times) if (a >= size * nearly) return `${sign}${three(a / size, digits)} ${name}`;
    return sign + fixed(a, 0) + " ns";
}

const HOUR = 3600e9;
const rules = {}; // type name -> rule, filled from the API's types

const titles = {
    cpu: "CPU time",
    wall: "wall-clock time",
    offcpu: "off-CPU time",
    alloc: "allocated memory",
    heap: "memory in use",
    lock: "time waiting for locks",
};

export function learnTypes(list) {
    for (const t of list ?? []) {
        rules[t.name] = t.rule;
        titles[t.name] = t.title;
    }
}

export const typeTitle = (type) => titles[type] ?? type;

export const gauge = (type) => (rules[type] ?? (/^(heap|goroutine|thread)/.test(type) ? "gauge" : "delta")) === "gauge";

// A total of a selection: CPU-hours, bytes, counts.
export function amount(v, unit, type = "", digits = 3) {
    if (unit === "nanoseconds") {
        if (type === "cpu" && Math.abs(v) >= 360e9) return three(v / HOUR, digits) + " CPU-h";
        return duration(v, digits);
    }
    if (unit === "bytes") return bytes(v);
    return number(v);
}

// "0.17 cores", "0.017 cores", "1 core": the same unit for all, so that two can be compared at a glance.
function coresText(cores, digits) {
    const a = Math.abs(cores);
    if (a === 0) return "0 cores";
    const places = Math.min(6, Math.max(0, digits - 1 - Math.floor(Math.log10(a))));
    const text = a < 0.1 ? fixed(cores, places) : three(cores, digits);
    return text + (/^1(\.0*)?$/.test(text) ? " core" : " cores");
}

// The same as a rate over `ns` of covered time, the time that the profiles cover: cores, MB/s. Gauges are not rates.
export function rate(v, unit, type, ns, digits = 3) {
    if (gauge(type)) return unit === "bytes" ? bytes(v) : number(v);
    if (!(ns > 0)) return "";
    const perSecond = v / (ns / 1e9);
    if (unit === "nanoseconds") {
        const cores = v / ns;
        if (type === "cpu") return coresText(cores, digits);
        return duration(perSecond, digits) + "/s";
    }
    if (unit === "bytes") return bytes(perSecond) + "/s";
    return number(perSecond) + "/s";
}

// The value of a point of a series: for deltas a rate over the covered nanoseconds of the point, the value itself for
// gauges; null where there are no profiles.
export function perStep(v, unit, type, coveredNs) {
    if (gauge(type)) return v || coveredNs > 0 ? v : null;
    if (!(coveredNs > 0)) return null;
    return unit === "nanoseconds" ? v / coveredNs : v / (coveredNs / 1e9);
}

// Labels of axes: ticks are round numbers, without zeros that only look exact: "40 MB/s", "0.5".
export const tick = (v, unit, type) =>
    axis(v, unit, type)
        .replace(/(\.\d*?)0+(?!\d)/, "$1")
        .replace(/\.(?!\d)/, "");

export function axis(v, unit, type) {
    if (unit === "bytes") return bytes(v) + (gauge(type) ? "" : "/s");
    if (unit === "nanoseconds") return three(v);
    return number(v);
}

export function axisTitle(unit, type) {
    if (unit === "nanoseconds") return type === "cpu" ? "cores" : "seconds per second";
    if (unit === "bytes") return gauge(type) ? "bytes in use" : "bytes per second";
    return gauge(type) ? "count" : "per second";
}

// What `v` nanoseconds of CPU time in `ns` cost a year, if it goes on like that; empty where that is not known:
// without a price (status of the server), and for less than a minute, since what ran for moments is not paid for a
// year.
const BILLED_NS = 60e9;
export function cost(v, type, ns, status) {
    return type === "cpu" && status?.pricePerCoreHour && ns >= BILLED_NS ? yearly(v / ns, status) : "";
}

export function yearly(cores, {pricePerCoreHour, currency = "$"}) {
    const year = cores * 8766 * pricePerCoreHour;
    const sign = {USD: "$", EUR: "€", GBP: "£", JPY: "¥"}[currency] ?? `${currency} `;
    return sign + (Math.abs(year) >= 1000 ? number(year) : fixed(year, Math.abs(year) < 10 ? 2 : 0)) + "/year";
}

// digits: after the decimal point; significant: how many digits the data have.
export function percent(share, digits, significant = 3) {
    if (!Number.isFinite(share)) return "–";
    const p = share * 100,
        a = Math.abs(p);
    if (significant < 3 && digits === undefined && a < 99.5) return three(p, significant) + " %";
    if (digits !== undefined) return fixed(p, digits) + " %";
    if (a >= 99.95) return fixed(p, a >= 99.995 ? 0 : 2) + " %";
    return fixed(p, 1 + decimals(a, [10, a === 0 ? 0 : 0.1])) + " %";
}

// The share of a value in a whole, with as many digits as its samples allow.
export const shareText = (v, whole, unit, rate) =>
    percent(v / (whole || 1), undefined, digitsOf(samplesOf(v, unit, rate)));

export function signOf(v) {
    if (v > 0) return "+";
    return v < 0 ? "−" : "±";
}

// Percentage points, with a sign.
export function points(d) {
    const p = d * 100;
    return signOf(p) + fixed(Math.abs(p), 2) + " pp";
}

export function signed(text, v) {
    return v > 0 ? "+" + text : text.replace("-", "−");
}

const two = (n) => String(n).padStart(2, "0");

// The time in the chosen zone; the date only if it is not today.
export function clock(ms, {seconds = true, date = "auto"} = {}) {
    const d = inZone(ms),
        now = inZone(Date.now());
    const time = `${two(d.getHours())}:${two(d.getMinutes())}${seconds ? ":" + two(d.getSeconds()) : ""}`;
    const today = d.toDateString() === now.toDateString();
    return date === "never" || (date === "auto" && today)
        ? time
        : `${d.getFullYear()}-${two(d.getMonth() + 1)}-${two(d.getDate())} ${time}`;
}

const EVERY = [
    1e5, 2e5, 5e5, 1e6, 2e6, 5e6, 1e7, 2e7, 5e7, 1e8, 2e8, 5e8, 1e9, 2e9, 5e9, 1e10, 15e9, 30e9, 60e9, 120e9, 300e9,
    600e9, 900e9, 1800e9, 3600e9, 7200e9, 10800e9, 21600e9, 43200e9,
];

// Round times within a range of nanoseconds (BigInt), at most so many: [{part (of the range), text}].
export function timeTicks(from, length, most) {
    const every = EVERY.find((u) => Number(length) / u <= most) ?? 86400e9,
        out = [];
    for (let t = ((from - 1n) / BigInt(every) + 1n) * BigInt(every); t < from + length; t += BigInt(every)) {
        const fraction =
            every < 1e9
                ? "." +
                  String(Number((t / 100000n) % 10000n))
                      .padStart(4, "0")
                      .slice(0, every < 1e6 ? 4 : 3)
                : "";
        out.push({
            part: Number(t - from) / Number(length),
            text: clock(Number(t / 1000000n), {seconds: every < 60e9, date: "never"}) + fraction,
        });
    }
    return out;
}

const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

// The same where there is little room: the time of today, else the day.
export function moment(ms) {
    const d = inZone(ms),
        now = inZone(Date.now());
    if (d.toDateString() === now.toDateString()) return clock(ms, {seconds: false});
    return d.getFullYear() === now.getFullYear()
        ? `${MONTHS[d.getMonth()]} ${d.getDate()}`
        : `${MONTHS[d.getMonth()]} ${d.getFullYear()}`;
}

export function ago(ms) {
    const s = Math.max(0, (Date.now() - ms) / 1000);
    if (s < 2) return "now";
    if (s < 90) return `${Math.round(s)} s ago`;
    if (s < 5400) return `${Math.round(s / 60)} min ago`;
    if (s < 129600) return `${Math.round(s / 3600)} h ago`;
    return `${Math.round(s / 86400)} days ago`;
}

export const sum = (values) => values.reduce((a, b) => a + b, 0);
