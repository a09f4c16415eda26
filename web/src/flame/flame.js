// SPDX-License-Identifier: Apache-2.0
// The flame graph as a component: the picture, zoom and pan by pointer, wheel and keys, search, a line about the
// focused frame, and the path to it as an ARIA tree.
import {useEffect, useId, useLayoutEffect, useMemo, useRef, useState} from "preact/hooks";
import {signal} from "@preact/signals";
import {comparison, shortChange} from "../lib/diff.js";
import {digitsOf, percent, samplesOf} from "../lib/units.js";
import {diffColor, litBy, painter, textColor, themeOf} from "../lib/color.js";
import {openMenu} from "../parts/menu.js";
import {AriaPath} from "./aria.js";
import {Details, Tooltip} from "./details.js";
import {ROW} from "./draw.js";
import {Engine} from "./engine.js";
import {isDeep, Minimap} from "./minimap.js";
import {layout as makeLayout, searchNodes} from "./layout.js";

const looks = {
    light: {
        background: "#ffffff",
        accent: "#c2410c",
        match: "#f9a65a",
        faint: "#cfc9c2",
        dim: "#efedea",
        off: "#eeebe7",
    },
    dark: {
        background: "#161514",
        accent: "#fb923c",
        match: "#b4540a",
        faint: "#4a4641",
        dim: "#262422",
        off: "#272523",
    },
};

function colorOf(l, {by = "package", mine, lit}, theme, found, diff) {
    const {tree} = l,
        look = looks[theme];
    let base;
    if (tree.columns > 1 && by === "diff") {
        const [a, b] = tree.total,
            compare = diff ?? shares(tree),
            cache = new Array(tree.n);
        base = (i) => (cache[i] ??= diffPaint(compare.of(a[i], b[i]), theme));
    } else {
        const paint = painter(tree, by, theme, mine),
            shown = lit ? litBy(tree, by, lit, mine) : null;
        base = (i) => {
            if (i === 0) return look.dim;
            if (shown && !shown(tree.frame[i])) return look.off;
            return paint(tree.frame[i]);
        };
    }
    if (!found) return base;
    return (i) => (found.nodes[i] === 1 ? look.match : look.off);
}

// Grey where the difference is no more than sampling noise.
function diffPaint({p, q, significant}, theme) {
    return diffColor(significant && p + q > 0 ? (q - p) / (p + q) : 0, theme);
}

// A comparison by shares: the default of flame graphs.
const shares = ({unit, type, total}) => comparison({mode: "share", unit, type, whole: [total[0][0], total[1][0]]});

// tree; by (of lib/color.js, or "diff") with mine and lit (a key of the legend: all others are grey), order, diff
// (comparison() of two columns), flip; search (text); zoom (array of names) with onZoom(names); cover ({ns,
// rate}), rootName; actions(node, tree): entries of the menu; selected: a function whose widest frame gets the
// focus; inverted: callers, where a frame has no time of its own; onFound({share, count}); label.
export function Flame(props) {
    const {tree, by = "package", order = "value", diff, flip = false, search = "", zoom = [], onZoom, actions} = props;
    const theme = themeOf();
    const box = useRef(null),
        canvas = useRef(null),
        over = useRef(null),
        engine = useRef(null);
    const [focus, setFocus] = useState(0),
        [deep, setDeep] = useState(false);
    const id = useId().replace(/[^\w-]/g, "_");
    const hover = useMemo(() => signal(null), []);
    const l = useMemo(() => makeLayout(tree, {by: order, scale: diff?.scale}), [tree, order, diff?.scale.join()]);
    const found = useMemo(() => timedSearch(l, search), [l, search]);
    const target = useMemo(() => l.tree.find(zoom).node, [l, zoom.join("\0")]);

    // How many digits the share of a box has; in a comparison, those of the side with more samples.
    const digitsAt = (i) =>
        digitsOf(
            diff
                ? diff.samples(Math.max(tree.total[0][i], tree.total[1][i]))
                : samplesOf(tree.total[0][i], tree.unit, props.cover?.rate),
        );

    const compared = tree.columns > 1 && (diff ?? shares(tree));
    const changeIn = (i) => {
        const x = compared.of(tree.total[0][i], tree.total[1][i]);
        return x.significant || !x.known ? shortChange(x, compared, digitsAt(i)) : "";
    };

    const live = useRef(/** @type {any} */ ({})),
        shown = useRef(/** @type {any} */ ({}));
    live.current = {l, target, onRange: props.onRange};
    useLayoutEffect(() => {
        const e = new Engine({
            box: box.current,
            canvas: canvas.current,
            over: over.current,
            onHover: (node, event) => (hover.value = node < 0 ? null : {node, x: event.clientX, y: event.clientY}),
            onFocus: (node) => setFocus(node),
            onRange: () => rangeMoved(e, live.current),
        });
        engine.current = e;
        box.current.wickEngine = e;
        return () => e.stop();
    }, []);
    useLayoutEffect(() => {
        const e = engine.current,
            old = shown.current;
        hover.value = null;
        e.style = {...(e.style ?? {}), flip};
        // New data of the same picture: what had the focus keeps it, and nothing scrolls.
        const kept = old.l && e.focus !== old.target ? l.tree.find(old.l.tree.path(e.focus)) : null;
        const top = box.current.scrollTop,
            same = old.l && samePath(old.l.tree, old.target, l.tree, target);
        const [x0, x1] = [e.x0, e.x1],
            moved =
                same &&
                !e.move &&
                (Math.abs(x0 - old.l.x[old.target]) > 1e-9 ||
                    Math.abs(x1 - old.l.x[old.target] - old.l.w[old.target]) > 1e-9);
        e.show(l, target);
        if (props.range) e.range(...props.range, {jump: true});
        else if (moved) e.range(x0, x1, {jump: true});
        if (same) box.current.scrollTop = top;
        if (kept?.whole) e.setFocus(kept.node, {reveal: false});
        else setFocus(target);
        shown.current = {l, target};
        setDeep(isDeep(l, ROW, box.current.clientHeight));
    }, [l]);
    useLayoutEffect(() => {
        if (!props.selected) return;
        const node = widest(l, props.selected);
        if (node >= 0) engine.current.setFocus(node);
    }, [props.selected]);
    // The picture follows the target. The target is compared with the last one shown, not with the focus: the focus is
    // already on the clicked frame when the new target arrives.
    useLayoutEffect(() => {
        if (shown.current.l !== l || shown.current.target === target) return;
        shown.current.target = target;
        engine.current.setFocus(target, {reveal: false});
        engine.current.zoomTo(target);
    }, [l, target]);
    useLayoutEffect(() => {
        engine.current.dress({
            ...looks[theme],
            theme,
            text: textColor(theme),
            flip,
            search: found,
            rootName: props.rootName,
            color: colorOf(l, props, theme, found, diff),
            share: (i) => (compared ? changeIn(i) : percent(l.w[i] / l.w[0], undefined, digitsAt(i))),
        });
    }, [l, by, props.lit, props.mine, theme, found, flip, props.rootName, diff, props.cover?.rate]);
    useEffect(
        () =>
            props.onFound?.(
                found && {
                    ...found,
                    digits: digitsOf(samplesOf(found.share * tree.total[0][0], tree.unit, props.cover?.rate)),
                },
            ),
        [found],
    );

    const zoomTo = (node) => {
        if (node < 0) return;
        const folded = l.tree.isFolded(node);
        const real = folded ? l.tree.parent[node] : node;
        engine.current.setFocus(real, {reveal: false});
        if (onZoom) onZoom(l.tree.path(real), {deeper: folded || real === target});
        if (real === target || !onZoom) engine.current.zoomTo(real);
    };
    const menu = (node, x, y) => {
        if (node < 0 || !actions || l.tree.isFolded(node)) return;
        engine.current.setFocus(node, {reveal: false});
        hover.value = null;
        openMenu(x, y, actions(node, l.tree), l.tree.name(node), box.current);
    };
    const keys = (e) => onKey(e, {engine: engine.current, l, found, target, zoomTo, menu});
    const pointer = usePointer(engine, hover, zoomTo, menu);

    return (
        <div class="flame">
            {deep && (
                <Minimap
                    engine={engine}
                    l={l}
                    look={[by, props.lit, theme, search, flip, diff?.mode, props.mine !== undefined].join()}
                />
            )}
            <div
                class="flame-box"
                ref={box}
                tabindex={0}
                role="tree"
                aria-label={props.label ?? "Flame graph"}
                aria-activedescendant={id + "-item"}
                aria-describedby={id + "-help"}
                onKeyDown={keys}
                {...pointer}
            >
                <div class="flame-space" style={{height: l.rows * ROW + "px"}} aria-hidden="true">
                    <canvas ref={canvas} class="flame-canvas" />
                    <canvas ref={over} class="flame-canvas flame-over" />
                </div>
                <AriaPath id={id} l={l} node={Math.min(focus, l.tree.n - 1)} cover={props.cover} diff={diff} />
            </div>
            <span id={id + "-help"} class="sr">
                Arrow keys move between frames, Enter zooms, Escape zooms out, M opens the menu.
            </span>
            <Tooltip
                hover={hover}
                l={l}
                cover={props.cover}
                diff={diff}
                inverted={props.inverted}
                rootName={props.rootName}
            />
            <Details
                l={l}
                node={Math.min(focus, l.tree.n - 1)}
                cover={props.cover}
                diff={diff}
                inverted={props.inverted}
                actions={actions}
                zoomed={target}
                rootName={props.rootName}
                status={props.status}
                onReset={() => zoomTo(0)}
            />
        </div>
    );
}

function samePath(a, i, b, k) {
    return a.path(i).join("\0") === b.path(k).join("\0");
}

// The widest frame of a function; -1 if there is none.
function widest(l, name) {
    const {tree, w} = l;
    let best = -1;
    for (let i = 1; i < tree.n; i++)
        if ((best < 0 || w[i] > w[best]) && !tree.isFolded(i) && tree.frames.function(tree.frame[i]) === name) best = i;
    return best;
}

// Reports a range that does not match a node, once it has stopped moving.
function rangeMoved(engine, {l, target, onRange}) {
    if (!onRange || engine.layout !== l) return;
    clearTimeout(engine.telling);
    engine.telling = setTimeout(() => {
        const {x0, x1} = engine,
            whole = Math.abs(x0 - l.x[target]) < 1e-9 && Math.abs(x1 - l.x[target] - l.w[target]) < 1e-9;
        onRange(whole ? null : [x0, x1]);
    }, 350);
}

// Publishes the duration of a search for measurements.
function timedSearch(l, text) {
    const start = performance.now();
    const found = searchNodes(l, text);
    if (found) performance.measure("wick-search", {start, end: performance.now()});
    return found;
}

function usePointer(engine, hover, zoomTo, menu) {
    const drag = useRef(null);
    const where = (e) => {
        const r = engine.current.box.getBoundingClientRect();
        return [e.clientX - r.left, e.clientY - r.top];
    };
    return {
        onPointerDown: (e) => {
            if (e.button || e.pointerType === "touch") return;
            drag.current = {x: e.clientX, y: e.clientY, lastX: e.clientX, lastY: e.clientY, moved: false};
        },
        onPointerMove: (e) => {
            const d = drag.current,
                en = engine.current;
            if (d && e.buttons & 1) {
                if (Math.abs(e.clientX - d.x) + Math.abs(e.clientY - d.y) > 4) d.moved = true;
                if (d.moved) {
                    en.panBy(-(e.clientX - d.lastX) / en.width);
                    en.box.scrollTop -= e.clientY - d.lastY;
                    hover.value = null;
                }
                d.lastX = e.clientX;
                d.lastY = e.clientY;
                return;
            }
            en.setHover(en.at(...where(e)), e);
        },
        onPointerLeave: (e) => engine.current.setHover(-1, e),
        onClick: (e) => {
            const moved = drag.current?.moved;
            drag.current = null;
            if (moved) return;
            const en = engine.current,
                node = en.at(...where(e));
            // there is nothing to hover with: the first tap shows what a frame is, the second one zooms
            if (e.pointerType === "touch" && node >= 0 && node !== en.focus) en.setFocus(node, {reveal: false});
            else zoomTo(node);
        },
        onContextMenu: (e) => {
            const node = engine.current.at(...where(e));
            if (node < 0) return;
            e.preventDefault();
            menu(node, e.clientX, e.clientY);
        },
        onWheel: (e) => {
            const en = engine.current;
            const [px] = where(e);
            if (e.ctrlKey || e.metaKey || e.altKey) {
                e.preventDefault();
                en.zoomBy(Math.exp(Math.max(-60, Math.min(60, e.deltaY)) / 120), px / en.width);
            } else if (e.shiftKey || Math.abs(e.deltaX) > Math.abs(e.deltaY)) {
                if (en.x1 - en.x0 > 0.9999) return;
                e.preventDefault();
                en.panBy((e.deltaX || e.deltaY) / en.width);
            }
        },
    };
}

function onKey(e, {engine, l, found, target, zoomTo, menu}) {
    if (e.ctrlKey || e.metaKey || e.altKey) return;
    const flip = engine.style.flip;
    const acts = {
        ArrowDown: () => engine.step(flip ? "out" : "in"),
        ArrowUp: () => engine.step(flip ? "in" : "out"),
        ArrowLeft: () => engine.step("left"),
        ArrowRight: () => engine.step("right"),
        Home: () => engine.setFocus(0),
        Enter: () => zoomTo(engine.focus),
        " ": () => zoomTo(engine.focus),
        Escape: () => target && zoomTo(l.tree.parent[target] || 0),
        Backspace: () => target && zoomTo(l.tree.parent[target] || 0),
        0: () => (zoomTo(0), engine.zoomTo(0)),
        "+": () => engine.zoomBy(0.6, 0.5, {}),
        "=": () => engine.zoomBy(0.6, 0.5, {}),
        "-": () => engine.zoomBy(1 / 0.6, 0.5, {}),
        w: () => engine.zoomBy(0.6, 0.5, {}),
        s: () => engine.zoomBy(1 / 0.6, 0.5, {}),
        a: () => engine.panBy(-0.25, {}),
        d: () => engine.panBy(0.25, {}),
        n: () => nextMatch(engine, l, found, 1),
        p: () => nextMatch(engine, l, found, -1),
        m: () => {
            const p = engine.pointAt(engine.focus),
                r = engine.box.getBoundingClientRect();
            menu(engine.focus, r.left + p.left + 12, r.top + p.top + ROW);
        },
        ContextMenu: () => acts.m(),
    };
    const act = acts[e.key];
    if (!act) return;
    e.preventDefault();
    e.stopPropagation();
    act();
}

function nextMatch(engine, l, found, way) {
    if (!found?.count) return;
    const n = l.tree.n;
    for (let k = 1; k <= n; k++) {
        const i = (engine.focus + way * k + n * 2) % n;
        if (found.nodes[i] === 1) return void engine.setFocus(i);
    }
}
