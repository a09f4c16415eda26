// SPDX-License-Identifier: Apache-2.0
// Moving and zooming a picture by pointer, wheel and keys.
import {useEffect, useRef} from "preact/hooks";

const READABLE = 0.8; // of letters of 12 pixels

// The part of a graph that is seen. The whole fits into the picture, as long as letters can be read; otherwise its
// top, where it begins.
function fitted(svg, size) {
    const width = Math.max(size.width, 200),
        height = Math.max(size.height, 200),
        r = svg.getBoundingClientRect();
    const scale = Math.max(Math.min(r.width / width, r.height / height, 1.8), READABLE);
    const w = r.width / scale,
        h = r.height / scale;
    return {x: (width - w) / 2, y: h > height ? (height - h) / 2 : 0, w, h};
}

// of: another graph is fitted anew. placed: where the boxes are; when it grows, the box that was clicked stays
// where it is.
export function usePanZoom(ref, size, of, placed, picked) {
    const shown = useRef(/** @type {any} */ ({}));
    useEffect(() => {
        const {of: old, placed: before, move} = shown.current,
            id = String(picked),
            a = before?.node(id),
            b = placed.node(id);
        if (old === of && before !== placed && a && b) move(b.x - a.x, b.y - a.y);
        Object.assign(shown.current, {of, placed});
    }, [of, placed]);
    useEffect(() => {
        const svg = ref.current;
        let v = fitted(svg, size);
        shown.current.move = (dx, dy) => {
            v = {...v, x: v.x + dx, y: v.y + dy};
            set();
        };
        const set = () => svg.setAttribute("viewBox", `${v.x} ${v.y} ${v.w} ${v.h}`);
        set();
        const wheel = (e) => {
            e.preventDefault();
            const b = svg.getBoundingClientRect(),
                k = Math.exp(Math.max(-60, Math.min(60, e.deltaY)) / 250);
            const px = (e.clientX - b.left) / b.width,
                py = (e.clientY - b.top) / b.height;
            v = {x: v.x + v.w * px * (1 - k), y: v.y + v.h * py * (1 - k), w: v.w * k, h: v.h * k};
            set();
        };
        let drag = null;
        const down = (e) => {
            drag = {x: e.clientX, y: e.clientY};
            svg.dataset.moved = "0";
        };
        const move = (e) => {
            if (!drag || !(e.buttons & 1)) return;
            const b = svg.getBoundingClientRect();
            if (Math.abs(e.clientX - drag.x) + Math.abs(e.clientY - drag.y) > 3) svg.dataset.moved = "1";
            v.x -= ((e.clientX - drag.x) / b.width) * v.w;
            v.y -= ((e.clientY - drag.y) / b.height) * v.h;
            drag = {x: e.clientX, y: e.clientY};
            set();
        };
        const up = () => (drag = null);
        const keys = (e) => {
            const step = {ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1]}[e.key];
            const zoom = {"+": 0.8, "=": 0.8, "-": 1.25}[e.key];
            if (step) v = {...v, x: v.x + step[0] * v.w * 0.1, y: v.y + step[1] * v.h * 0.1};
            else if (zoom)
                v = {x: v.x + (v.w * (1 - zoom)) / 2, y: v.y + (v.h * (1 - zoom)) / 2, w: v.w * zoom, h: v.h * zoom};
            else return;
            e.preventDefault();
            set();
        };
        svg.addEventListener("wheel", wheel, {passive: false});
        svg.addEventListener("pointerdown", down);
        svg.addEventListener("pointermove", move);
        addEventListener("pointerup", up);
        svg.addEventListener("keydown", keys);
        return () => {
            svg.removeEventListener("wheel", wheel);
            svg.removeEventListener("pointerdown", down);
            svg.removeEventListener("pointermove", move);
            removeEventListener("pointerup", up);
            svg.removeEventListener("keydown", keys);
        };
    }, [of]);
}
