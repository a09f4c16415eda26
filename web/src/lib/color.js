// SPDX-License-Identifier: Apache-2.0
// Colours of frames: one lightness per theme, little chroma, hue by package; runtime and kernel frames are nearly grey,
// so that the user's own code stands out. Differences go from blue (less) to orange (more), which people with red-green
// colour blindness can distinguish.
import {signal} from "@preact/signals";
import {FOLDED, LABEL} from "./tree.js";
import {isRuntime, mappingName} from "./names.js";

// oklch to #rrggbb, clipped to sRGB.
export function oklch(l, c, h) {
    const a = c * Math.cos((h * Math.PI) / 180), b = c * Math.sin((h * Math.PI) / 180);
    const x = (l + 0.3963377774 * a + 0.2158037573 * b) ** 3, y = (l - 0.1055613458 * a - 0.0638541728 * b) ** 3,
        z = (l - 0.0894841775 * a - 1.291485548 * b) ** 3;
    const gamma = (v) => Math.round(255 * Math.min(1, Math.max(0, v <= 0.0031308 ? 12.92 * v : 1.055 * v ** (1 / 2.4) - 0.055)));
    const hex = (v) => gamma(v).toString(16).padStart(2, "0");
    return "#" + hex(4.0767416621 * x - 3.3077115913 * y + 0.2309699292 * z) +
        hex(-1.2684380046 * x + 2.6097574011 * y - 0.3413193965 * z) + hex(-0.0041960863 * x - 0.7034186147 * y + 1.707614701 * z);
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
const hues = [75, 100, 130, 160, 195, 225, 255, 285, 315, 15];
const levels = {
    light: {own: [0.885, 0.052], runtime: [0.93, 0.012], kernel: [0.875, 0.02], text: "#1f1b16", dim: "#efedea"},
    dark: {own: [0.40, 0.05], runtime: [0.305, 0.01], kernel: [0.35, 0.02], text: "#f3efe9", dim: "#262422"},
};

function tint(theme, key, level) {
    const [l, c] = levels[theme][level];
    const h = hash(key);
    // Another bit of the hash changes the lightness a little, so that neighbours with the same hue still differ.
    return oklch(l + (((h >>> 8) & 3) - 1.5) * 0.012, c, hues[h % hues.length]);
}

// A function from frame to colour, cached per frame.
export function painter(tree, by, theme) {
    const cache = new Array(tree.frames.n);
    const {frames} = tree;
    const one = (f) => {
        if (f === FOLDED || frames.kindOf(f) === LABEL) return levels[theme].dim;
        if (by === "mapping") return tint(theme, mappingName(frames, f) || "?", "own");
        if (frames.kindOf(f) === 2) return oklch(...levels[theme].kernel, 255);
        const level = isRuntime(frames, f) ? "runtime" : "own";
        return tint(theme, frames.packageOf(f), level);
    };
    return (f) => (cache[f] ??= one(f));
}

// Colour of a change of share: d in [-1, 1], on a log-like scale so that small changes are visible.
const scale = {};
export function diffColor(d, theme) {
    const steps = 24;
    const s = Math.max(-steps, Math.min(steps, Math.round(Math.sign(d) * steps * Math.min(1, Math.sqrt(Math.abs(d))))));
    const key = theme + s;
    if (!scale[key]) {
        const k = Math.abs(s) / steps;
        scale[key] = theme === "dark" ? oklch(0.33 + 0.2 * k, 0.008 + 0.13 * k, s > 0 ? 50 : 250)
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
