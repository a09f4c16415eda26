// SPDX-License-Identifier: Apache-2.0
// Downloads: files of the selection from the server, and the picture as PNG.
import {apiUrl} from "./api.js";
import {parseCell} from "./time.js";
import {amount, clock} from "./units.js";
import {route} from "./url.js";
import {Painter, ROW} from "../flame/draw.js";

const formats = [["pprof", "pprof (go tool pprof)"], ["otlp", "OTLP protobuf"], ["otlp-json", "OTLP JSON"], ["folded", "folded stacks"],
    ["speedscope", "speedscope"], ["html", "self-contained HTML"]];

const file = (label, params, format) => ({label, href: apiUrl("profile", {...params, format, link: format === "html" ? location.href : ""}), download: true});

// What is drawn, as a picture with this title.
function png(title) {
    const engine = document.querySelector(".flame-box")?.wickEngine;
    return engine ? ["-", {label: "PNG image", run: () => savePng(engine, title)}] : [];
}

export function exportItems(q, range) {
    return [...formats.map(([format, label]) => file(label, q, format)), ...png(pictureTitle(q, range))];
}

// Of a difference: the page and the picture have both sides, profiles are of one. title: of the picture; empty if what is drawn is not the difference.
export function compareItems(q, title) {
    const {base_query, base_from, base_to, ...now} = q, before = {...now, query: base_query, from: base_from, to: base_to};
    return [file("difference as self-contained HTML", q, "html"), file("before as pprof", before, "pprof"), file("now as pprof", now, "pprof"), ...(title ? png(title) : [])];
}

const date = (ms) => clock(ms, {date: "always"});
const dateOfNs = (ns) => `${date(Number(ns / 1000000n))}.${String((ns / 1000000n) % 1000n).padStart(3, "0")}`;
const cellTimes = ([from, to]) => `${dateOfNs(from)} to ${dateOfNs(to)}`;

// With the times of what is drawn: the range, or what was selected in the heat map.
export function pictureTitle(q, range) {
    const {cell, cell2} = route.value.params, cells = [parseCell(cell), parseCell(cell2)].filter(Boolean);
    return `${q.query}, ${cells.length ? cells.reverse().map(cellTimes).join(" against ") : `${date(range.fromMs)} to ${date(range.toMs)}`}`;
}

const HEAD = 46;

// The whole picture of an engine, not only the visible part, up to the maximum size of a canvas; with its title, what the
// whole is, and the link to it.
export function savePng(engine, title) {
    const picture = document.createElement("canvas");
    const p = new Painter(picture);
    const height = Math.min(15000, engine.layout.rows * ROW), {ratio} = engine.painter;
    p.resize(engine.width, height);
    p.draw({...engine.style, layout: engine.layout, x0: engine.x0, x1: engine.x1, top: 0});
    const canvas = document.createElement("canvas"), x = canvas.getContext("2d"), {tree} = engine.layout;
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
    const legend = tree.columns > 1 ? " now; blue: less, orange: more, grey: no significant change" : "; width: value, colour: package";
    const whole = tree.total.map((t) => amount(t[0], tree.unit, tree.type)).join(" before, ");
    x.fillText(`${whole}${legend} · ${location.href}`, 6, 35, engine.width - 12);
    canvas.toBlob((blob) => {
        const a = document.createElement("a");
        a.href = URL.createObjectURL(blob);
        a.download = title.replace(/[^\w.-]+/g, "-").slice(0, 80) + ".png";
        a.click();
        setTimeout(() => URL.revokeObjectURL(a.href), 10000);
    });
}
