// SPDX-License-Identifier: Apache-2.0
// The interactive part of the flame graph: the visible range and its movement, the node under the pointer, and the node
// with keyboard focus. It uses the canvas and its scrolling box, but not URLs or components; it reports to those by
// callbacks: onHover(node, event), onFocus(node), onRange().
import {childFrom, nodeAt, siblings} from "./layout.js";
import {Painter, ROW} from "./draw.js";

const GLIDE_MS = 140;
const still = matchMedia("(prefers-reduced-motion: reduce)");

export class Engine {
    /** @type {HTMLElement} */
    box;
    /** @type {HTMLCanvasElement} */
    canvas;
    /** @type {HTMLCanvasElement} what is above the picture: the frame under the pointer */
    over;
    /** @type {(node: number, event?: any) => void} */
    onHover;
    /** @type {(node: number) => void} */
    onFocus;
    /** @type {() => void} */
    onRange;
    /** @type {(() => void) | undefined} after each picture */
    onPaint;
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    telling;

    constructor({box, canvas, over, onHover, onFocus, onRange}) {
        Object.assign(this, {box, canvas, over, onHover, onFocus, onRange});
        this.painter = new Painter(canvas);
        this.lines = over.getContext("2d");
        this.x0 = 0;
        this.x1 = 1;
        this.focus = 0;
        this.hover = -1;
        this.frame = 0;
        this.style = null;
        this.layout = null;
        this.watch = new ResizeObserver(() => this.resized());
        this.watch.observe(box);
        this.scrolled = () => this.redraw();
        box.addEventListener("scroll", this.scrolled, {passive: true});
    }

    stop() {
        this.watch.disconnect();
        cancelAnimationFrame(this.frame);
        clearTimeout(this.telling);
        this.box.removeEventListener("scroll", this.scrolled);
    }

    // Shows a new layout; the range starts at node.
    show(layout, node = 0) {
        this.layout = layout;
        this.painter.forget();
        this.focus = node;
        this.hover = -1;
        this.x0 = layout.x[node];
        this.x1 = layout.x[node] + (layout.w[node] || 1);
        this.resized();
        this.scrollTo(node, true);
    }

    // style: what Painter.draw() needs besides layout and range.
    dress(style) {
        this.style = style;
        this.redraw();
    }

    resized() {
        this.width = Math.max(1, this.box.clientWidth);
        this.height = Math.max(1, this.box.clientHeight);
        this.box.style.setProperty("--flame-height", this.height + "px");
        this.painter.resize(this.width, this.height);
        const ratio = window.devicePixelRatio || 1;
        this.over.width = Math.round(this.width * ratio);
        this.over.height = Math.round(this.height * ratio);
        this.redraw();
    }

    redraw() {
        if (!this.frame) this.frame = requestAnimationFrame(() => this.paint());
    }

    paint() {
        this.frame = 0;
        if (!this.layout || !this.style) return;
        if (this.move) this.glide();
        const before = performance.now();
        this.painter.draw({...this.style, layout: this.layout, x0: this.x0, x1: this.x1, top: this.box.scrollTop});
        this.drawTime = performance.now() - before;
        this.outline();
        this.onPaint?.();
        if (!this.drawn) {
            this.drawn = true;
            performance.mark("wick-drawn");
        }
        if (this.move) this.redraw();
    }

    glide() {
        const m = this.move;
        const t = Math.min(1, (performance.now() - m.start) / GLIDE_MS);
        const k = 1 - (1 - t) ** 3;
        this.x0 = m.a0 + (m.b0 - m.a0) * k;
        this.x1 = m.a1 + (m.b1 - m.a1) * k;
        if (t >= 1) {
            this.x0 = m.b0;
            this.x1 = m.b1;
            this.move = null;
            this.onRange?.();
        }
    }

    // Moves the visible range, animated unless jump is set.
    range(b0, b1, {jump = false} = {}) {
        const wide = Math.min(1, Math.max(1e-9, b1 - b0));
        b0 = Math.min(Math.max(0, b0), 1 - wide);
        b1 = b0 + wide;
        if (jump || still.matches) {
            this.move = null;
            this.x0 = b0;
            this.x1 = b1;
            this.onRange?.();
        } else this.move = {a0: this.x0, a1: this.x1, b0, b1, start: performance.now()};
        this.redraw();
    }

    zoomTo(node, options) {
        const {x, w} = this.layout;
        this.range(x[node], x[node] + w[node], options);
        this.scrollTo(node);
    }

    // factor < 1 zooms in; around: the position in the picture, as a share, that stays in place.
    zoomBy(factor, around = 0.5, options = {jump: true}) {
        const wide = (this.x1 - this.x0) * factor,
            at = this.x0 + (this.x1 - this.x0) * around;
        this.range(at - wide * around, at - wide * around + wide, options);
    }

    panBy(share, options = {jump: true}) {
        const d = (this.x1 - this.x0) * share;
        this.range(this.x0 + d, this.x1 + d, options);
    }

    rowTop(node) {
        const {depth, rows} = this.layout,
            d = depth[node];
        return this.style?.flip ? Math.max(this.height, rows * ROW) - (d + 1) * ROW : d * ROW;
    }

    scrollTo(node, first = false) {
        const y = this.rowTop(node);
        const {box} = this;
        if (first && this.style?.flip && node === 0) box.scrollTop = box.scrollHeight;
        else if (y < box.scrollTop + ROW) box.scrollTop = Math.max(0, y - 2 * ROW);
        else if (y > box.scrollTop + this.height - 3 * ROW) box.scrollTop = y - this.height / 2;
        this.redraw();
    }

    at(px, py) {
        const l = this.layout;
        if (!l) return -1;
        const y = py + this.box.scrollTop;
        const row = this.style.flip ? Math.floor((Math.max(this.height, l.rows * ROW) - y) / ROW) : Math.floor(y / ROW);
        if (row < 0 || row >= l.rows) return -1;
        return nodeAt(l, this.x0 + ((this.x1 - this.x0) * px) / this.width, row);
    }

    pointAt(node) {
        const {x, w} = this.layout,
            s = this.width / (this.x1 - this.x0);
        const left = Math.max(0, (x[node] - this.x0) * s),
            right = Math.min(this.width, (x[node] + w[node] - this.x0) * s);
        return {left, right, top: this.rowTop(node) - this.box.scrollTop};
    }

    setHover(node, event) {
        if (node !== this.hover) {
            this.hover = node;
            this.outline();
        }
        this.onHover?.(node, event);
    }

    setFocus(node, {reveal = true} = {}) {
        if (node < 0) return;
        this.focus = node;
        if (reveal) this.reveal(node);
        this.outline();
        this.onFocus?.(node);
    }

    // Makes a node wide enough to be visible, moving as little as possible.
    reveal(node) {
        const {x, w} = this.layout,
            wide = this.x1 - this.x0;
        if (x[node] + w[node] <= this.x0 || x[node] >= this.x1 || (w[node] / wide) * this.width < 3) {
            const room = Math.max(w[node] * 1.05, Math.min(wide, (w[node] * this.width) / 40));
            this.range(x[node] + w[node] / 2 - room / 2, x[node] + w[node] / 2 + room / 2);
        }
        this.scrollTo(node);
    }

    // Arrow keys: "in" to the widest visible child, "out" to the parent, "left" and "right" along the row.
    step(way) {
        const l = this.layout,
            i = this.focus;
        if (way === "out") return this.setFocus(i ? l.tree.parent[i] : 0);
        if (way === "in") {
            let best = -1;
            for (let k = childFrom(l, i, this.x0); k < l.first[i + 1] && l.x[l.kids[k]] < this.x1; k++)
                if (best < 0 || l.w[l.kids[k]] > l.w[best]) best = l.kids[k];
            if (best < 0 && l.first[i] < l.first[i + 1]) best = l.kids[l.first[i]];
            return this.setFocus(best);
        }
        const {list, at} = siblings(l, i);
        const next = list[at + (way === "left" ? -1 : 1)];
        if (next !== undefined) return this.setFocus(next);
        return this.setFocus(this.cousin(i, way));
    }

    // The next box of the row after the last sibling.
    cousin(i, way) {
        const l = this.layout,
            d = l.depth[i];
        const {depth, x, w} = l;
        let best = -1;
        for (let k = 1; k < l.tree.n; k++) {
            if (depth[k] !== d || k === i) continue;
            if (
                way === "right"
                    ? x[k] >= x[i] + w[i] - 1e-12 && (best < 0 || x[k] < x[best])
                    : x[k] < x[i] && (best < 0 || x[k] > x[best])
            )
                best = k;
        }
        return best;
    }

    outline() {
        const {lines: c, layout: l} = this;
        const ratio = window.devicePixelRatio || 1;
        c.setTransform(ratio, 0, 0, ratio, 0, 0);
        c.clearRect(0, 0, this.width, this.height);
        if (!l || !this.style) return;
        const box = (node, color, thick) => {
            const p = this.pointAt(node);
            if (p.right <= p.left && l.w[node] > 0 && (p.right <= 0 || p.left >= this.width)) return;
            c.strokeStyle = color;
            c.lineWidth = thick;
            c.strokeRect(
                p.left + thick / 2,
                p.top + thick / 2,
                Math.max(2, p.right - p.left - 1 - thick),
                ROW - 1 - thick,
            );
        };
        if (this.hover >= 0 && this.hover < l.tree.n) box(this.hover, this.style.text, 1);
        if (this.focus > 0 && this.focus < l.tree.n) box(this.focus, this.style.accent, 2);
    }
}
