// SPDX-License-Identifier: Apache-2.0
// Draws a layout onto a canvas: only visible boxes, none narrower than half a pixel; runs of narrower ones are drawn as
// one hatched mark, so that nothing is missing from the picture.
import {childFrom} from "./layout.js";
import {kindBadge, shortName} from "../lib/names.js";
import {number} from "../lib/units.js";

export const ROW = 19;
const MIN_PX = 0.5,
    TEXT_PX = 26,
    PAD = 4;
const FONT =
    '12px "Inter", system-ui, -apple-system, "Segoe UI", "Roboto", "Helvetica Neue", "DejaVu Sans", sans-serif';
const SMALL = '10px system-ui, -apple-system, "Segoe UI", "Roboto", "DejaVu Sans", sans-serif';

// Where parts of a qualified name begin: after ".", "/" and "::" outside of brackets, up to the arguments.
function nameStarts(s) {
    const out = [];
    for (let i = 0, depth = 0; i < s.length; i++) {
        const c = s[i];
        if (c === "(" && depth === 0 && i && /[\w>]/.test(s[i - 1])) break;
        if ("([{<".includes(c)) depth++;
        else if (")]}>".includes(c)) depth = Math.max(0, depth - 1);
        else if (depth === 0 && "./:".includes(c) && i + 1 < s.length && !"./:".includes(s[i + 1])) out.push(i + 1);
    }
    return out;
}

// Widths of characters, measured once, so that fitting a text needs no call into the canvas.
class Ruler {
    constructor() {
        this.ctx = document.createElement("canvas").getContext("2d");
        this.ctx.font = FONT;
        this.ascii = new Float32Array(128);
        for (let c = 32; c < 127; c++) this.ascii[c] = this.ctx.measureText(String.fromCharCode(c)).width;
        this.other = new Map();
        this.dots = this.ctx.measureText("…").width;
    }
    char(code) {
        if (code < 128) return this.ascii[code];
        let w = this.other.get(code);
        if (w === undefined) this.other.set(code, (w = this.ctx.measureText(String.fromCharCode(code)).width));
        return w;
    }
    width(s) {
        let w = 0;
        for (let i = 0; i < s.length; i++) w += this.char(s.charCodeAt(i));
        return w;
    }
    // The name of a function in a narrow box: its package is cut from the left, at separators, before the function
    // itself is.
    fitName(s, room) {
        if (this.width(s) <= room) return s;
        let last = 0;
        for (const at of nameStarts(s)) {
            last = at;
            if (this.width(s.slice(at)) + this.dots <= room) return "…" + s.slice(at);
        }
        return this.fit(s.slice(last), room);
    }
    // Returns s if it fits, otherwise as much of it as fits followed by dots; "" if too little would fit.
    fit(s, room) {
        let w = 0,
            cut = 0;
        for (let i = 0; i < s.length; i++) {
            w += this.char(s.charCodeAt(i));
            if (w + this.dots <= room) cut = i + 1;
            if (w > room) return cut >= 2 ? s.slice(0, cut) + "…" : "";
        }
        return s;
    }
}
let ruler = null;

export class Painter {
    constructor(canvas) {
        ruler ??= new Ruler();
        this.canvas = canvas;
        this.ctx = canvas.getContext("2d", {alpha: false});
        this.names = null;
    }

    // Clears cached names when there is new data.
    forget() {
        this.names = null;
    }

    resize(width, height) {
        const ratio = window.devicePixelRatio || 1;
        const w = Math.round(width * ratio),
            h = Math.round(height * ratio);
        if (this.canvas.width !== w || this.canvas.height !== h) {
            this.canvas.width = w;
            this.canvas.height = h;
        }
        this.width = width;
        this.height = height;
        this.ratio = ratio;
    }

    nameOf(node) {
        const {tree} = this.v.layout;
        const f = tree.frame[node];
        this.names ??= new Array(tree.frames.n);
        if (node === 0) return {full: this.v.rootName ?? "all", short: this.v.rootName ?? "all", badge: ""};
        let x = this.names[f];
        if (!x) {
            const full = tree.name(node).replace(/[\u0000-\u001f\u2028\u2029\u202a-\u202e\u2066-\u2069]/g, " ");
            x = this.names[f] = {
                full,
                short: shortName(full),
                fullW: ruler.width(full),
                badge: kindBadge(tree.frames, f),
            };
        }
        return x;
    }

    // v: {layout, x0, x1 (visible shares), top (pixels scrolled), flip (root at the bottom), color(node), search,
    // theme, background, text, accent, faint}
    draw(v) {
        this.v = v;
        const {ctx, width, height, ratio} = this;
        ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
        ctx.fillStyle = v.background;
        ctx.fillRect(0, 0, width, height);
        this.labels = [];
        this.marks = [];
        this.boxes(v);
        this.drawMarks(v);
        this.drawLabels(v);
        return this.labels.length;
    }

    rowY(depth) {
        const {v} = this;
        return v.flip ? Math.max(this.height, v.layout.rows * ROW) - (depth + 1) * ROW - v.top : depth * ROW - v.top;
    }

    boxes(v) {
        const {layout: l, x0} = v,
            {ctx, width, height} = this;
        const {x, w, tree} = l;
        const scale = width / (v.x1 - v.x0);
        const stack = [0],
            depths = [0];
        const minW = MIN_PX / scale;
        // Boxes are aligned to whole pixels, which are fast to fill. A row is walked from right to left, so the row's
        // last edge shows whether a box of one pixel is already covered.
        const {ratio} = this,
            edge = new Int32Array(l.rows + 1).fill(0x7fffffff);
        let last = "";
        while (stack.length) {
            const i = stack.pop(),
                d = depths.pop();
            const left = (x[i] - x0) * scale,
                right = left + w[i] * scale;
            const y = this.rowY(d);
            const visible = y > -ROW && y < height;
            const l0 = Math.max(-1, left),
                wide = Math.min(width + 1, right) - l0;
            if (visible) {
                const a = Math.round(l0 * ratio),
                    b = Math.max(a + 1, Math.round((l0 + wide) * ratio));
                if (tree.frame[i] === 0 && i !== 0) this.marks.push(l0, y, wide, i);
                else if (a < edge[d]) {
                    const color = v.color(i);
                    if (color !== last) ctx.fillStyle = last = color;
                    ctx.fillRect(a / ratio, y, (wide > 2.5 ? b - a - 1 : b - a) / ratio, ROW - 1);
                    edge[d] = a;
                }
                if (wide >= TEXT_PX) this.labels.push(i, l0, y, wide);
            }
            // Beyond the edge of the picture nothing below is visible.
            if (v.flip ? y < -ROW : y > height) continue;
            this.descend(v, i, d + 1, scale, minW, stack, depths);
        }
    }

    descend(v, i, d, scale, minW, stack, depths) {
        const {layout: l, x0, x1} = v;
        const {x, w, first, kids, tree, sorted} = l;
        const end = first[i + 1];
        let run = -1,
            runEnd = 0;
        for (let k = childFrom(l, i, x0); k < end; k++) {
            const c = kids[k];
            if (x[c] >= x1) break;
            if (w[c] >= minW) {
                if (run >= 0) this.small(run, runEnd, d, scale, -1);
                run = -1;
                stack.push(c);
                depths.push(d);
                continue;
            }
            if (w[c] === 0) continue;
            if (run < 0) run = x[c];
            runEnd = x[c] + w[c];
            if (!sorted) continue;
            // All that follow are narrower, except the folded one at the end.
            const tail = kids[end - 1];
            if (tree.frame[tail] === 0 && tail !== c) {
                runEnd = x[tail];
                if (w[tail] >= minW) {
                    stack.push(tail);
                    depths.push(d);
                } else runEnd = x[tail] + w[tail];
            } else runEnd = x[tail] + w[tail];
            break;
        }
        if (run >= 0) this.small(run, runEnd, d, scale, -1);
    }

    small(from, to, d, scale, node) {
        const y = this.rowY(d);
        if (y <= -ROW || y >= this.height) return;
        const left = (from - this.v.x0) * scale,
            wide = (to - from) * scale;
        if (wide >= 0.5) this.marks.push(Math.max(-1, left), y, Math.min(wide, this.width + 2), node);
    }

    hatch(v) {
        if (this.pattern?.theme === v.theme) return this.pattern.p;
        const tile = document.createElement("canvas");
        tile.width = tile.height = 8;
        const c = tile.getContext("2d");
        c.fillStyle = v.dim;
        c.fillRect(0, 0, 8, 8);
        c.strokeStyle = v.faint;
        c.lineWidth = 1;
        c.beginPath();
        for (let k = -8; k <= 8; k += 4) {
            c.moveTo(k, 8);
            c.lineTo(k + 8, 0);
        }
        c.stroke();
        this.pattern = {theme: v.theme, p: this.ctx.createPattern(tile, "repeat")};
        return this.pattern.p;
    }

    drawMarks(v) {
        const {ctx, marks} = this;
        if (!marks.length) return;
        ctx.fillStyle = this.hatch(v);
        const {ratio} = this;
        for (let k = 0; k < marks.length; k += 4) {
            const wide = marks[k + 2],
                a = Math.round(marks[k] * ratio),
                b = Math.max(a + 1, Math.round((marks[k] + wide) * ratio));
            ctx.fillRect(a / ratio, marks[k + 1], (wide > 2.5 ? b - a - 1 : b - a) / ratio, ROW - 1);
        }
    }

    drawLabels(v) {
        const {ctx, labels, width} = this;
        const {tree} = v.layout;
        ctx.font = FONT;
        ctx.textBaseline = "middle";
        ctx.fillStyle = v.text;
        for (let k = 0; k < labels.length; k += 4) {
            const i = labels[k],
                left = Math.max(0, labels[k + 1]) + PAD,
                y = labels[k + 2] + (ROW - 1) / 2 + 0.5;
            const room = Math.min(width, labels[k + 1] + labels[k + 3]) - left - PAD;
            if (room < TEXT_PX - 2 * PAD) continue;
            if (tree.frame[i] === 0 && i !== 0) {
                const many = tree.folded?.[i] ?? 0;
                const text = ruler.fit(`${number(many)} small frames`, room);
                ctx.globalAlpha = 0.75;
                ctx.fillText(text, left, y);
                ctx.globalAlpha = 1;
                continue;
            }
            this.label(i, left, y, room, v);
        }
    }

    // A badge is drawn where the kind of frame changes: from native to kernel, from Python to native.
    newKind(i) {
        const {tree} = this.v.layout,
            p = tree.parent[i];
        return p === 0
            ? tree.frames.kindOf(tree.frame[i]) !== 1
            : tree.frames.kindOf(tree.frame[i]) !== tree.frames.kindOf(tree.frame[p]);
    }

    label(i, left, y, room, v) {
        const {ctx} = this;
        const name = this.nameOf(i);
        let space = room;
        if (name.badge && room > 90 && this.newKind(i)) {
            ctx.font = SMALL;
            const wide = name.badge.length * 5.6;
            ctx.globalAlpha = 0.62;
            ctx.fillText(name.badge, left + room - wide, y + 0.5);
            ctx.globalAlpha = 1;
            ctx.font = FONT;
            space = room - wide - 8;
        }
        const dimmed = v.search && v.search.nodes[i] !== 1;
        if (dimmed) ctx.globalAlpha = 0.62;
        const text = (name.fullW ?? 0) <= space ? name.full : ruler.fitName(name.short, space);
        if (text) {
            ctx.fillText(text, left, y);
            const used = text === name.full ? (name.fullW ?? ruler.width(text)) : space;
            const share = space - used > 60 && i !== 0 && v.share ? v.share(i) : "";
            if (share && ruler.width(share) + 12 < space - used) {
                ctx.globalAlpha = v.layout.tree.columns > 1 ? 0.8 : 0.55;
                ctx.fillText(share, left + used + 8, y);
            }
        }
        ctx.globalAlpha = 1;
    }
}
