// SPDX-License-Identifier: Apache-2.0
// Colours of frames: a hue for each package (or binary), within which functions differ in lightness and a little
// in hue, so that siblings can be distinguished; runtime and kernel frames are paler, so that the user's own code
// stands out. Differences go from blue (less) to orange (more), which people with red-green colour blindness can
// distinguish.
import {signal} from "@preact/signals";
import {FOLDED, kinds, LABEL} from "./tree.js";
import {isRuntime, mappingName} from "./names.js";

// oklch to #rrggbb, clipped to sRGB.
export function oklch(l, c, h) {
    const a = c * Math.cos((h * Math.PI) / 180),
        b = c * Math.sin((h * Math.PI) / 180);
    const x = (l + 0.3963377774 * a + 0.2158037573 * b) ** 3,
        y = (l - 0.1055613458 * a - 0.0638541728 * b) ** 3,
        z = (l - 0.0894841775 * a - 1.291485548 * b) ** 3;
    const gamma = (v) =>
        Math.round(255 * Math.min(1, Math.max(0, v <= 0.0031308 ? 12.92 * v : 1.055 * v ** (1 / 2.4) - 0.055)));
    const hex = (v) => gamma(v).toString(16).padStart(2, "0");
    return (
        "#" +
        hex(4.0767416621 * x - 3.3077115913 * y + 0.2309699292 * z) +
        hex(-1.2684380046 * x + 2.6097574011 * y - 0.3413193965 * z) +
        hex(-0.0041960863 * x - 0.7034186147 * y + 1.707614701 * z)
    );
}

// "light" or "dark", as currently shown; `choice` is the user's setting ("" follows the system).
const wish = matchMedia("(prefers-color-scheme: dark)");
let stored = "";
try {
    stored = localStorage.getItem("wick-theme") ?? "";
} catch {
    // no storage: the setting is lost when the page is closed
}
export const choice = signal(stored);
const system = signal(wish.matches ? "dark" : "light");
wish.addEventListener("change", () => (system.value = wish.matches ? "dark" : "light"));
export const themeOf = () => choice.value || system.value;

export function setTheme(value) {
    choice.value = value;
    try {
        if (value) localStorage.setItem("wick-theme", value);
        else localStorage.removeItem("wick-theme");
    } catch {
        // as above
    }
}

export function hash(s) {
    let h = 2166136261;
    for (let i = 0; i < s.length; i++) h = Math.imul(h ^ s.charCodeAt(i), 16777619);
    h ^= h >>> 15;
    h = Math.imul(h, 2246822519);
    return (h ^ (h >>> 13)) >>> 0;
}

// Hues that differ clearly from each other and from the accent (orange is used for search and the selection).
const HUES = 16,
    FIRST = 78,
    ARC = 300;
// Lightness and chroma of the middle, and how far functions are from it.
const levels = {
    light: {
        own: [0.84, 0.085, 0.027],
        runtime: [0.915, 0.03, 0.012],
        kernel: [0.87, 0.022, 0.02],
        text: "#1f1b16",
        dim: "#efedea",
    },
    dark: {
        own: [0.41, 0.075, 0.027],
        runtime: [0.325, 0.024, 0.016],
        kernel: [0.35, 0.018, 0.02],
        text: "#f3efe9",
        dim: "#262422",
    },
};
const STEPS = 5; // of lightness

// key: what the hue is of; name: of the function.
function tint(theme, key, name, level) {
    const [l, c, spread] = levels[theme][level],
        h = hash(key),
        own = hash(name);
    const step = (own % STEPS) - (STEPS >> 1),
        turn = (((own >>> 12) % 5) - 2) * 4;
    return oklch(l + step * spread, c * (1 - step * 0.06), FIRST + (h % HUES) * (ARC / HUES) + turn);
}

export const warm = (k, theme) =>
    theme === "dark" ? oklch(0.29 + 0.24 * k, 0.008 + 0.125 * k, 48) : oklch(0.955 - 0.2 * k, 0.006 + 0.125 * k, 55);

// What a colour may stand for, with what it is called; "diff" is another scale (diffColor).
export const colorings = [
    ["package", "package"],
    ["mapping", "binary"],
    ["lang", "language"],
    ["own", "own code"],
    ["self", "self time"],
];

// What the hue of a frame is of.
function keyOf(frames, f, by, mine) {
    if (by === "mapping") return mappingName(frames, f) || "(no binary)";
    if (by === "lang") return kinds[frames.kindOf(f)] || "native";
    if (by === "own") return mine(frames, f) ? "own code" : "libraries and runtime";
    return frames.kindOf(f) === 2 ? "kernel" : frames.packageOf(f) || mappingName(frames, f) || "(no package)";
}

// Self time by function, as a share of the largest.
function selfOf(tree) {
    const by = new Map(),
        {fn, map} = tree.frames,
        own = tree.self[tree.columns - 1],
        id = (f) => fn[f] || -map[f];
    for (let i = 1; i < tree.n; i++)
        if (!tree.isFolded(i)) by.set(id(tree.frame[i]), (by.get(id(tree.frame[i])) ?? 0) + own[i]);
    const most = Math.max(1e-12, ...by.values());
    return (f) => (by.get(id(f)) ?? 0) / most;
}

// A function from frame to colour, cached per frame. mine(frames, frame): whether it is own code.
export function painter(tree, by, theme, mine = (frames, f) => !isRuntime(frames, f)) {
    const cache = new Array(tree.frames.n);
    const {frames} = tree,
        heat = by === "self" ? selfOf(tree) : null;
    const one = (f) => {
        if (f === FOLDED || frames.kindOf(f) === LABEL) return levels[theme].dim;
        if (heat) return warm(Math.sqrt(heat(f)), theme);
        const key = keyOf(frames, f, by, mine),
            name = frames.function(f);
        if (by === "own") return tint(theme, key, name, mine(frames, f) ? "own" : "runtime");
        if (by === "package" && frames.kindOf(f) === 2) return tint(theme, key, name, "kernel");
        return tint(theme, key, name, by === "package" && isRuntime(frames, f) ? "runtime" : "own");
    };
    return (f) => (cache[f] ??= one(f));
}

// What the colours stand for, by weight: [{key, share, color}], the largest ones. A key's colour is that of its
// heaviest function.
export function legendOf(tree, by, theme, mine = (frames, f) => !isRuntime(frames, f), most = 8) {
    const paint = painter(tree, by, theme, mine),
        own = tree.self[tree.columns - 1],
        whole = tree.total[tree.columns - 1][0] || 1,
        keys = new Map(),
        cache = new Array(tree.frames.n);
    for (let i = 1; i < tree.n; i++) {
        const f = tree.frame[i];
        if (f === FOLDED || tree.frames.kindOf(f) === LABEL) continue;
        const key = (cache[f] ??= keyOf(tree.frames, f, by, mine)),
            k = keys.get(key) ?? {key, self: 0, best: -1, color: ""};
        k.self += own[i];
        if (own[i] > k.best) Object.assign(k, {best: own[i], color: paint(f)});
        keys.set(key, k);
    }
    return [...keys.values()]
        .sort((a, b) => b.self - a.self || (a.key < b.key ? -1 : 1))
        .slice(0, most)
        .map(({key, self, color}) => ({key, share: self / whole, color}));
}

// Frames of one key of the legend, as a function from frame to whether it is one.
export function litBy(tree, by, key, mine = (frames, f) => !isRuntime(frames, f)) {
    const cache = new Array(tree.frames.n);
    return (f) =>
        (cache[f] ??= f !== FOLDED && tree.frames.kindOf(f) !== LABEL && keyOf(tree.frames, f, by, mine) === key);
}

// Colour of a change of share: d in [-1, 1], on a log-like scale so that small changes are visible.
const scale = {};
export function diffColor(d, theme) {
    const steps = 24;
    const s = Math.max(-steps, Math.min(steps, Math.round(Math.sign(d) * steps * Math.min(1, Math.sqrt(Math.abs(d))))));
    const key = theme + s;
    if (!scale[key]) {
        const k = Math.abs(s) / steps;
        scale[key] =
            theme === "dark"
                ? oklch(0.33 + 0.2 * k, 0.008 + 0.13 * k, s > 0 ? 50 : 250)
                : oklch(0.93 - 0.22 * k, 0.006 + 0.13 * k, s > 0 ? 55 : 250);
    }
    return scale[key];
}

export function textColor(theme) {
    return levels[theme].text;
}

// Lines of a chart: distinct in both themes, ordered so that the first few differ most.
export function seriesColor(i, theme) {
    const h = [45, 250, 150, 320, 95, 205, 285, 20, 180, 350][i % 10];
    return theme === "dark" ? oklch(0.74, 0.125, h) : oklch(0.58, 0.13, h);
}
