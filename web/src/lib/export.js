// SPDX-License-Identifier: Apache-2.0
// Downloads: files of the selection from the server, and the picture as PNG.
import {apiUrl} from "./api.js";
import {Painter, ROW} from "../flame/draw.js";

const formats = [["pprof", "pprof (go tool pprof)"], ["otlp", "OTLP protobuf"], ["otlp-json", "OTLP JSON"], ["folded", "folded stacks"],
    ["speedscope", "speedscope"], ["html", "self-contained HTML"]];

export function exportItems(params, png) {
    const items = formats.map(([format, label]) => ({label, href: apiUrl("profile", {...params, format}), download: true}));
    if (png) items.push("-", {label: "PNG image", run: png});
    return items;
}

// The whole picture of an engine, not only the visible part, up to the maximum size of a canvas.
export function savePng(engine, name) {
    const canvas = document.createElement("canvas");
    const p = new Painter(canvas);
    const height = Math.min(16000, engine.layout.rows * ROW);
    p.resize(engine.width, height);
    p.draw({...engine.style, layout: engine.layout, x0: engine.x0, x1: engine.x1, top: 0});
    canvas.toBlob((blob) => {
        const a = document.createElement("a");
        a.href = URL.createObjectURL(blob);
        a.download = name + ".png";
        a.click();
        setTimeout(() => URL.revokeObjectURL(a.href), 10000);
    });
}
