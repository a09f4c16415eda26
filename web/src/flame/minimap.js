// SPDX-License-Identifier: Apache-2.0
// The whole of a deep flame graph in a strip above it, with a frame around the part that is seen. A click or a drag
// moves there. It is hidden from screen readers, which have the tree.
import {useEffect, useLayoutEffect, useRef} from "preact/hooks";

const HEIGHT = 44,
    DEEP = 1.5; // from so many times its box on

export const isDeep = (l, rowHeight, boxHeight) => l.rows * rowHeight > DEEP * boxHeight;

// Every node that is at least half a pixel wide, in the colour that it has in the picture.
function draw(canvas, l, {color, flip}) {
    const ratio = devicePixelRatio || 1,
        wide = (canvas.width = Math.round(canvas.clientWidth * ratio)),
        high = (canvas.height = Math.round(HEIGHT * ratio));
    const c = canvas.getContext("2d"),
        row = high / l.rows;
    for (let i = 0; i < l.tree.n; i++) {
        const w = l.w[i] * wide;
        if (w < 0.5) continue;
        c.fillStyle = color(i);
        c.fillRect(l.x[i] * wide, (flip ? l.rows - 1 - l.depth[i] : l.depth[i]) * row, w, Math.max(1, row));
    }
}

// The frame around the part of the picture that is seen.
function follow(view, {x0, x1, box}) {
    const {scrollTop, scrollHeight, clientHeight} = box,
        percent = (share) => `${100 * share}%`;
    Object.assign(view.style, {
        left: percent(x0),
        width: percent(x1 - x0),
        top: percent(scrollTop / scrollHeight),
        height: percent(Math.min(1, clientHeight / scrollHeight)),
    });
}

// engine: a ref; l: the layout; look: changes when the colours do.
export function Minimap({engine, l, look}) {
    const canvas = useRef(null),
        view = useRef(null);
    useEffect(() => {
        // the picture itself comes first
        const soon = setTimeout(() => canvas.current && draw(canvas.current, l, engine.current.style));
        return () => clearTimeout(soon);
    }, [l, look]);
    useLayoutEffect(() => {
        const e = engine.current;
        e.onPaint = () => follow(view.current, e);
        e.redraw();
        return () => (e.onPaint = undefined);
    }, [l]);
    const go = (e) => {
        if (!(e.buttons & 1)) return;
        const en = engine.current,
            r = canvas.current.getBoundingClientRect(),
            wide = en.x1 - en.x0,
            at = (e.clientX - r.left) / r.width;
        e.currentTarget.setPointerCapture(e.pointerId);
        en.range(at - wide / 2, at + wide / 2, {jump: true});
        en.box.scrollTop = ((e.clientY - r.top) / r.height) * en.box.scrollHeight - en.height / 2;
    };
    return (
        <div class="flame-map" aria-hidden="true" onPointerDown={go} onPointerMove={go}>
            <canvas ref={canvas} style={{height: HEIGHT + "px"}} />
            <i ref={view} />
        </div>
    );
}
