// SPDX-License-Identifier: Apache-2.0
// Formats numbers for display: cores and CPU-hours, bytes and bytes per second, shares, times, durations.
const fixed = (v, digits) => v.toLocaleString("en", {minimumFractionDigits: digits, maximumFractionDigits: digits});

// Three significant digits.
export function number(v) {
    const a = Math.abs(v);
    if (Number.isInteger(v) && a < 1e4) return fixed(v, 0);
    if (a >= 1e15) return v.toExponential(2);
    for (const [size, suffix] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e4, "k"]])
        if (a >= size) return three(v / (suffix === "k" ? 1e3 : size)) + suffix;
    return three(v);
}

function three(v) {
    const a = Math.abs(v);
    return fixed(v, a >= 99.95 ? 0 : a >= 9.995 ? 1 : a >= 0.01 || a === 0 ? 2 : 3);
}

export function bytes(v) {
    const units = ["B", "kB", "MB", "GB", "TB", "PB"];
    let i = 0, a = Math.abs(v);
    while (a >= 1000 && i < units.length - 1) {
        a /= 1000;
        i++;
    }
    return (i ? three(Math.sign(v) * a) : fixed(v, 0)) + " " + units[i];
}

// Nanoseconds as a duration.
export function duration(ns) {
    const a = Math.abs(ns), sign = ns < 0 ? "−" : "";
    if (a >= 3600e9) return sign + three(a / 3600e9) + " h";
    if (a >= 60e9) return sign + three(a / 60e9) + " min";
    if (a >= 1e9) return sign + three(a / 1e9) + " s";
    if (a >= 1e6) return sign + three(a / 1e6) + " ms";
    if (a >= 1e3) return sign + three(a / 1e3) + " µs";
    return sign + fixed(a, 0) + " ns";
}

const HOUR = 3600e9;
const rules = {}; // type name -> rule, filled from the API's types

export function learnTypes(list) {
    for (const t of list ?? []) rules[t.name] = t.rule;
}

const gauge = (type) => (rules[type] ?? (/^(heap|goroutine|thread)/.test(type) ? "gauge" : "delta")) === "gauge";

// A total of a selection: CPU-hours, bytes, counts.
export function amount(v, unit, type = "") {
    if (unit === "nanoseconds") {
        if (type === "cpu" && Math.abs(v) >= 360e9) return three(v / HOUR) + " CPU-h";
        return duration(v);
    }
    if (unit === "bytes") return bytes(v);
    return number(v);
}

// The same as a rate over `ns` of covered time, the time that the profiles cover: cores, MB/s. Gauges are not rates.
export function rate(v, unit, type, ns) {
    if (gauge(type)) return unit === "bytes" ? bytes(v) : number(v);
    if (!(ns > 0)) return "";
    const perSecond = v / (ns / 1e9);
    if (unit === "nanoseconds") {
        const cores = v / ns;
        if (type === "cpu") return cores < 0.1 ? three(cores * 1000) + " mcores" : three(cores) + (three(cores) === "1.00" ? " core" : " cores");
        return duration(perSecond) + "/s";
    }
    if (unit === "bytes") return bytes(perSecond) + "/s";
    return number(perSecond) + "/s";
}

// The value of a point of a series: for deltas a rate over the covered nanoseconds of the point (0 where nothing is
// covered), the value itself for gauges.
export function perStep(v, unit, type, coveredNs) {
    if (gauge(type)) return v;
    if (!(coveredNs > 0)) return 0;
    return unit === "nanoseconds" ? v / coveredNs : v / (coveredNs / 1e9);
}

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

// Cost per year of a rate in cores.
export function cost(v, type, ns, price, currency = "$") {
    if (type !== "cpu" || !price || !(ns > 0)) return "";
    const year = (v / ns) * 8766 * price;
    const sign = {USD: "$", EUR: "€", GBP: "£", JPY: "¥"}[currency] ?? `${currency} `;
    return sign + (Math.abs(year) >= 1000 ? number(year) : fixed(year, Math.abs(year) < 10 ? 2 : 0)) + "/year";
}

export function percent(share, digits) {
    if (!isFinite(share)) return "–";
    const p = share * 100, a = Math.abs(p);
    return fixed(p, digits ?? (a >= 99.995 ? 0 : a >= 10 ? 1 : a >= 0.1 || a === 0 ? 2 : 3)) + " %";
}

// Percentage points, with a sign.
export function points(d) {
    const p = d * 100;
    return (p > 0 ? "+" : p < 0 ? "−" : "±") + fixed(Math.abs(p), 2) + " pp";
}

export function signed(text, v) {
    return v > 0 ? "+" + text : text.replace("-", "−");
}

const two = (n) => String(n).padStart(2, "0");

// Local time; the date only if it is not today.
export function clock(ms, {seconds = true, date = "auto"} = {}) {
    const d = new Date(ms), now = new Date();
    const time = `${two(d.getHours())}:${two(d.getMinutes())}${seconds ? ":" + two(d.getSeconds()) : ""}`;
    const today = d.toDateString() === now.toDateString();
    return date === "never" || (date === "auto" && today) ? time : `${d.getFullYear()}-${two(d.getMonth() + 1)}-${two(d.getDate())} ${time}`;
}

export function ago(ms) {
    const s = Math.max(0, (Date.now() - ms) / 1000);
    if (s < 2) return "now";
    if (s < 90) return `${Math.round(s)} s ago`;
    if (s < 5400) return `${Math.round(s / 60)} min ago`;
    if (s < 129600) return `${Math.round(s / 3600)} h ago`;
    return `${Math.round(s / 86400)} days ago`;
}
