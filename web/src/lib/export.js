// SPDX-License-Identifier: Apache-2.0
// Downloads: files of the selection from the server, and the picture as PNG.
import {apiUrl} from "./api.js";
import {parseSelector} from "./selector.js";
import {parseCell, parseTime, relative} from "./time.js";
import {amount, clock} from "./units.js";
import {route} from "./url.js";
import {Painter, ROW} from "../flame/draw.js";

const formats = [
    ["pprof", "pprof (go tool pprof)"],
    ["otlp", "OTLP protobuf"],
    ["otlp-json", "OTLP JSON"],
    ["folded", "folded stacks"],
    ["speedscope", "speedscope"],
    ["html", "self-contained HTML"],
];

const endings = {
    pprof: "pb.gz",
    otlp: "otlp",
    "otlp-json": "json",
    folded: "folded",
    speedscope: "speedscope.json",
    html: "html",
};

// name: of the file, without its ending.
const file = (label, params, format, name) => ({
    label,
    href: apiUrl("profile", {...params, format, name, link: format === "html" ? location.href : ""}),
    download: `${name}.${endings[format]}`,
});

// "checkout cpu": the service, and other matchers, and the type.
export function aboutOf(query) {
    const {type, matchers} = parseSelector(query);
    return [
        ...matchers.map((m) => (m.name === "service.name" ? m.value : `${m.name}${m.op}${m.value}`)),
        type || "cpu",
    ].join(" ");
}

// As a name of a file: "checkout-cpu-2026-05-31T12.00.00".
export const fileName = (query, ms) =>
    (
        `${aboutOf(query)}-${clock(ms, {date: "always"}).replace(" ", "T").replace(/:/g, ".")}` +
        `${ms % 1000 ? "." + String(Math.floor(ms % 1000)).padStart(3, "0") : ""}`
    )
        .replace(/[^\w.-]+/g, "-")
        .slice(-120);

// What is drawn, as a picture with this title.
function png(title, name) {
    const engine = document.querySelector(".flame-box")?.wickEngine;
    return engine ? ["-", {label: "PNG image", run: () => savePng(engine, title, name)}] : [];
}

export function exportItems(q, range) {
    const ms = parseTime(q.from),
        name = fileName(q.query, relative(q.from) ? Math.floor(ms / 1000) * 1000 : ms);
    return [...formats.map(([format, label]) => file(label, q, format, name)), ...png(pictureTitle(q, range), name)];
}

// Of a difference: the page and the picture have both sides, profiles are of one. title: of the picture; empty if
// what is drawn is not the difference.
export function compareItems(q, title) {
    const {base_query, base_from, base_to, ...now} = q,
        before = {...now, query: base_query, from: base_from, to: base_to};
    const name = fileName(now.query, parseTime(now.from));
    return [
        file("difference as self-contained HTML", q, "html", name + "-difference"),
        file("before as pprof", before, "pprof", fileName(before.query, parseTime(base_from)) + "-before"),
        file("now as pprof", now, "pprof", name),
        ...(title ? png(title, name + "-difference") : []),
    ];
}

const date = (ms) => clock(ms, {date: "always"});
const dateOfNs = (ns) => `${date(Number(ns / 1000000n))}.${String((ns / 1000000n) % 1000n).padStart(3, "0")}`;
const cellTimes = ([from, to]) => `${dateOfNs(from)} to ${dateOfNs(to)}`;

// With the times of what is drawn: the range, or what was selected in the heat map.
export function pictureTitle(q, range) {
    const {cell, cell2} = route.value.params,
        cells = [parseCell(cell), parseCell(cell2)].filter(Boolean);
    const times = cells.length
        ? cells.reverse().map(cellTimes).join(" against ")
        : `${date(range.fromMs)} to ${date(range.toMs)}`;
    return `${q.query}, ${times}`;
}

const HEAD = 62;

// The whole picture of an engine, not only the visible part, up to the maximum size of a canvas; with its title,
// what the whole is, and the link to it.
export function savePng(engine, title, name) {
    const picture = document.createElement("canvas");
    const p = new Painter(picture);
    const height = Math.min(15000, engine.layout.rows * ROW),
        {ratio} = engine.painter;
    p.resize(engine.width, height);
    p.draw({...engine.style, layout: engine.layout, x0: engine.x0, x1: engine.x1, top: 0});
    const canvas = document.createElement("canvas"),
        x = canvas.getContext("2d"),
        {tree} = engine.layout;
    canvas.width = picture.width;
    canvas.height = picture.height + HEAD * ratio;
    x.fillStyle = engine.style.background;
    x.fillRect(0, 0, canvas.width, canvas.height);
    x.drawImage(picture, 0, HEAD * ratio);
    x.scale(ratio, ratio);
    x.fillStyle = engine.style.text;
    x.font = "600 14px system-ui, sans-serif";
    x.fillText(title, 6, 17, engine.width - 12);
    x.font = "11px system-ui, sans-serif";
    x.globalAlpha = 0.7;
    const entries =
        tree.columns > 1
            ? []
            : [...document.querySelectorAll(".color-legend button")].map((b) => [
                  getComputedStyle(b.querySelector("i")).backgroundColor,
                  b.textContent.trim(),
              ]);
    const legend =
        tree.columns > 1
            ? " now; blue: less, orange: more, grey: no significant change"
            : `; width: value, ${document.querySelector(".color-legend .muted")?.textContent ?? "colour: package"}`;
    const whole = tree.total.map((t) => amount(t[0], tree.unit, tree.type)).join(" before, ");
    x.fillText(`${whole}${legend} · ${location.href}`, 6, 35, engine.width - 12);
    x.globalAlpha = 1;
    let at = 6;
    for (const [color, text] of entries) {
        const width = x.measureText(text).width;
        if (at + width + 16 > engine.width) break;
        x.fillStyle = color;
        x.fillRect(at, 42, 11, 11);
        x.fillStyle = engine.style.text;
        x.fillText(text, at + 15, 52);
        at += width + 30;
    }
    canvas.toBlob((blob) => {
        const a = document.createElement("a");
        a.href = URL.createObjectURL(blob);
        a.download = name + ".png";
        a.click();
        setTimeout(() => URL.revokeObjectURL(a.href), 10000);
    });
}
