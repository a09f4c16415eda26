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

// digits: how many of them the data have; fewer than three where a number rests on few samples.
function three(v, digits = 3) {
    const a = Math.abs(v);
    if (digits >= 3) return fixed(v, a >= 99.95 ? 0 : a >= 9.995 ? 1 : a >= 0.01 || a === 0 ? 2 : 3);
    if (a === 0) return "0";
    const whole = Math.floor(Math.log10(Number(a.toPrecision(digits)))) + 1, unit = 10 ** (whole - digits);
    return fixed(Math.round(v / unit) * unit, Math.max(0, digits - whole));
}

// How many digits a number that rests on n samples has: its standard error is one part in √n.
export function digitsOf(n) {
    return !(n >= 0) || n >= 1000 ? 3 : n >= 25 ? 2 : 1;
}

// How many samples a value stands for, where the sampling rate is known and the value is a time; undefined otherwise.
export function samplesOf(v, unit, rate) {
    return unit === "nanoseconds" && rate > 0 ? (v * rate) / 1e9 : undefined;
}

// "1 span", "1,200 spans"
export const count = (n, what) => `${number(n)} ${what}${n === 1 ? "" : "s"}`;

export const samplesText = (n) => count(Math.round(n), "sample");

export function bytes(v, digits = 3) {
    const units = ["B", "kB", "MB", "GB", "TB", "PB"];
    let i = 0, a = Math.abs(v);
    while (a >= 1000 && i < units.length - 1) {
        a /= 1000;
        i++;
    }
    return (i ? three(Math.sign(v) * a, digits) : fixed(v, 0)) + " " + units[i];
}

// Nanoseconds as a duration.
export function duration(ns, digits = 3) {
    const a = Math.abs(ns), sign = ns < 0 ? "−" : "";
    for (const [size, name] of [[3600e9, "h"], [60e9, "min"], [1e9, "s"], [1e6, "ms"], [1e3, "µs"]])
        if (a >= size) return `${sign}${three(a / size, digits)} ${name}`;
    return sign + fixed(a, 0) + " ns";
}

const HOUR = 3600e9;
const rules = {}; // type name -> rule, filled from the API's types

export function learnTypes(list) {
    for (const t of list ?? []) rules[t.name] = t.rule;
}

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

// The same as a rate over `ns` of covered time, the time that the profiles cover: cores, MB/s. Gauges are not rates.
export function rate(v, unit, type, ns, digits = 3) {
    if (gauge(type)) return unit === "bytes" ? bytes(v) : number(v);
    if (!(ns > 0)) return "";
    const perSecond = v / (ns / 1e9);
    if (unit === "nanoseconds") {
        const cores = v / ns;
        if (type === "cpu") return Math.abs(cores) < 0.1 ? three(cores * 1000, digits) + " mcores" : three(cores, digits) + (/^1(\.0*)?$/.test(three(cores, digits)) ? " core" : " cores");
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

// digits: after the decimal point; significant: how many digits the data have.
export function percent(share, digits, significant = 3) {
    if (!isFinite(share)) return "–";
    const p = share * 100, a = Math.abs(p);
    if (significant < 3 && digits === undefined && a < 99.5) return three(p, significant) + " %";
    return fixed(p, digits ?? (a >= 99.995 ? 0 : a >= 99.95 ? 2 : a >= 10 ? 1 : a >= 0.1 || a === 0 ? 2 : 3)) + " %";
}

// The share of a value in a whole, with as many digits as its samples allow.
export const shareText = (v, whole, unit, rate) => percent(v / (whole || 1), undefined, digitsOf(samplesOf(v, unit, rate)));

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

const EVERY = [1e5, 2e5, 5e5, 1e6, 2e6, 5e6, 1e7, 2e7, 5e7, 1e8, 2e8, 5e8, 1e9, 2e9, 5e9, 1e10, 15e9, 30e9, 60e9, 120e9, 300e9, 600e9, 900e9, 1800e9, 3600e9, 7200e9, 10800e9, 21600e9, 43200e9];

// Round times within a range of nanoseconds (BigInt), at most so many: [{part (of the range), text}].
export function timeTicks(from, length, most) {
    const every = EVERY.find((u) => Number(length) / u <= most) ?? 86400e9, out = [];
    for (let t = ((from - 1n) / BigInt(every) + 1n) * BigInt(every); t < from + length; t += BigInt(every)) {
        const fraction = every < 1e9 ? "." + String(Number((t / 100000n) % 10000n)).padStart(4, "0").slice(0, every < 1e6 ? 4 : 3) : "";
        out.push({part: Number(t - from) / Number(length), text: clock(Number(t / 1000000n), {seconds: every < 60e9, date: "never"}) + fraction});
    }
    return out;
}

const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

// The same where there is little room: the time of today, else the day.
export function moment(ms) {
    const d = new Date(ms), now = new Date();
    if (d.toDateString() === now.toDateString()) return clock(ms, {seconds: false});
    return d.getFullYear() === now.getFullYear() ? `${MONTHS[d.getMonth()]} ${d.getDate()}` : `${MONTHS[d.getMonth()]} ${d.getFullYear()}`;
}

export function ago(ms) {
    const s = Math.max(0, (Date.now() - ms) / 1000);
    if (s < 2) return "now";
    if (s < 90) return `${Math.round(s)} s ago`;
    if (s < 5400) return `${Math.round(s / 60)} min ago`;
    if (s < 129600) return `${Math.round(s / 3600)} h ago`;
    return `${Math.round(s / 86400)} days ago`;
}
