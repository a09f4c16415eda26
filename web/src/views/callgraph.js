// SPDX-License-Identifier: Apache-2.0
// The call graph: functions as boxes sized by their own weight, calls as arrows sized by theirs. Laid out by dagre,
// drawn as SVG.
import dagre from "@dagrejs/dagre";
import {useMemo, useRef} from "preact/hooks";
import {oklch, painter, themeOf} from "../lib/color.js";
import {shortName} from "../lib/names.js";
import {amount, digitsOf, samplesOf, samplesText, shareText} from "../lib/units.js";
import {patch} from "../lib/url.js";
import {joinPath, shape, splitPath} from "../parts/flamepane.js";
import {Choice} from "../parts/menu.js";
import {useStatus} from "../parts/shell.js";
import {graphOf} from "../lib/calls.js";
import {usePanZoom} from "../parts/panzoom.js";

const cut = (s, n) => (s.length > n ? s.slice(0, n - 1) + "…" : s);

function place(graph, tree) {
    const g = new dagre.graphlib.Graph();
    g.setGraph({rankdir: "TB", nodesep: 14, ranksep: 22, marginx: 20, marginy: 20});
    g.setDefaultEdgeLabel(() => ({}));
    for (const n of graph.nodes) {
        n.name = tree.frames.function(n.frame) || `[${tree.frames.mapping(n.frame)}]`;
        n.size = 12 + 8 * Math.sqrt(Math.max(0, n.self) / graph.whole);
        n.lines = split(shortName(n.name));
        const chars = Math.max(...n.lines.map((l) => l.length), 14);
        g.setNode(String(n.g), {
            width: chars * n.size * 0.56 + 36,
            height: (n.lines.length + 1) * n.size * 1.3 + 12,
        });
    }
    for (const c of graph.calls)
        g.setEdge(String(c.a), String(c.b), {minlen: 1, weight: Math.max(1, Math.round((c.w / graph.whole) * 40))});
    dagre.layout(g);
    return g;
}

// At most three lines, broken at separators of names.
function split(name) {
    if (name.length <= 26) return [name];
    const parts = name.match(/.{1,24}(?=[.:(/]|$)|.{1,24}/g) ?? [name];
    return parts.length > 3 ? [...parts.slice(0, 2), cut(parts.slice(2).join(""), 24)] : parts;
}

// Boxes are the warmer, the more of the total is their own.
function heat(share, theme) {
    const k = Math.min(1, Math.sqrt(Math.max(0, share) * 1.6));
    return theme === "dark"
        ? oklch(0.27 + 0.2 * k, 0.006 + 0.11 * k, 50)
        : oklch(0.97 - 0.19 * k, 0.004 + 0.115 * k, 60);
}

// of: names the selection; the picture keeps its place while the same one is refreshed.
export function CallGraph({tree: whole, params, of, cover}) {
    const own = useStatus().data?.ownCode;
    const tree = useMemo(
        () => shape(whole, {...params, inv: "", stem: "all"}, own),
        [whole, params.mine, params.rec, params.frames, own],
    );
    const limit = Number(params.boxes) || 0,
        grown = splitPath(params.grow),
        picked = params.fn;
    const theme = themeOf();
    const svg = useRef(null);
    const made = useMemo(() => {
        const graph = graphOf(tree, limit, grown);
        return {graph, g: place(graph, tree)};
    }, [tree, limit, params.grow]);
    const paint = useMemo(
        () => (params.color ? painter(tree, params.color, theme) : null),
        [tree, params.color, theme],
    );
    usePanZoom(
        svg,
        made.g.graph(),
        [of, limit, params.mine, params.rec, params.frames].join(),
        made.g,
        picked && made.graph.nodes.find((n) => n.name === picked)?.g,
    );
    const {graph, g} = made;
    const line = (points) => "M" + points.map((p) => `${p.x.toFixed(1)},${p.y.toFixed(1)}`).join(" L");
    return (
        <div class="graph">
            <div class="graph-bar">
                <Choice
                    label="boxes"
                    value={String(limit)}
                    options={[
                        ["0", "Hottest path"],
                        ["30", "30"],
                        ["60", "60"],
                        ["120", "120"],
                    ]}
                    onPick={(v) => patch({boxes: v === "0" ? "" : v, grow: ""})}
                />
                {picked ? (
                    <>
                        <b class="fn" title={picked}>
                            {shortName(picked)}
                        </b>
                        <button class="small" onClick={() => patch({view: "sandwich", fn: picked, zoom: ""})}>
                            Callers and callees
                        </button>
                        <button class="small" onClick={() => patch({view: "source", fn: picked, file: ""})}>
                            Source lines
                        </button>
                        {grown.length ? (
                            <button class="small" onClick={() => patch({grow: "", fn: ""})}>
                                Back to the hottest path
                            </button>
                        ) : (
                            ""
                        )}
                    </>
                ) : (
                    <span class="muted">
                        {limit
                            ? "functions"
                            : "The path to the most self time, and what is beside it. A click on a box adds what " +
                              "calls it and what it calls"}
                        {graph.left > 0 ? `; ${graph.left} more functions` : ""}. Warm boxes take time themselves. Drag
                        moves, wheel zooms.
                    </span>
                )}
            </div>
            <svg
                ref={svg}
                class="graph-svg"
                role="group"
                aria-label={`Call graph of ${graph.nodes.length} functions`}
                tabindex={0}
            >
                <defs>
                    <marker
                        id="tip"
                        viewBox="0 0 8 8"
                        refX="7"
                        refY="4"
                        markerWidth="7"
                        markerHeight="7"
                        markerUnits="userSpaceOnUse"
                        orient="auto"
                    >
                        <path d="M0,0 L8,4 L0,8 z" class="edge-tip" />
                    </marker>
                </defs>
                {graph.calls.map((c) => (
                    <path
                        key={c.a + ">" + c.b}
                        class="edge"
                        marker-end="url(#tip)"
                        d={line(g.edge(String(c.a), String(c.b)).points)}
                        stroke-width={(0.8 + 5 * (c.w / graph.whole)).toFixed(2)}
                    >
                        <title>
                            {shortName(name(graph, c.a))} → {shortName(name(graph, c.b))}:{" "}
                            {shareText(c.w, graph.whole, tree.unit, cover?.rate)}
                            {samplesAt(c.w, tree, cover)}
                        </title>
                    </path>
                ))}
                {graph.calls
                    .filter((c) => c.w / graph.whole >= 0.05)
                    .map((c) => (
                        <EdgeWeight
                            key={c.a + "=" + c.b}
                            points={g.edge(String(c.a), String(c.b)).points}
                            text={shareText(c.w, graph.whole, tree.unit, cover?.rate)}
                        />
                    ))}
                {graph.nodes.map((n) => (
                    <GraphBox
                        key={n.g}
                        n={n}
                        at={g.node(String(n.g))}
                        tree={tree}
                        cover={cover}
                        whole={graph.whole}
                        picked={n.name === picked}
                        onPick={() =>
                            patch(
                                {
                                    fn: n.name,
                                    grow: limit || !n.more ? params.grow : joinPath([...new Set([...grown, n.name])]),
                                },
                                {replace: !n.more},
                            )
                        }
                        fill={paint ? paint(n.frame) : heat(n.self / graph.whole, theme)}
                    />
                ))}
            </svg>
        </div>
    );
}

function EdgeWeight({points, text}) {
    const at = points[points.length >> 1];
    return (
        <text class="edge-weight" x={(at.x + 4).toFixed(1)} y={at.y.toFixed(1)} font-size="10">
            {text}
        </text>
    );
}

const name = (graph, g) => graph.nodes.find((n) => n.g === g).name;

// ", 120 samples at 99 Hz", where the rate is known.
function samplesAt(v, tree, cover) {
    const n = samplesOf(v, tree.unit, cover?.rate);
    return n === undefined ? "" : `, ${samplesText(n)} at ${cover.rates.join("–")} Hz`;
}

function GraphBox({n, at, tree, cover, whole, fill, picked, onPick}) {
    const text = (v) => amount(v, tree.unit, tree.type, digitsOf(samplesOf(v, tree.unit, cover?.rate)));
    const x = at.x - at.width / 2,
        y = at.y - at.height / 2;
    return (
        <a
            class={"box" + (picked ? " picked" : "")}
            href="#"
            role="button"
            aria-pressed={picked ? "true" : "false"}
            onClick={(e) => (e.preventDefault(), e.currentTarget.closest("svg").dataset.moved !== "1" && onPick())}
            {...{transform: `translate(${x.toFixed(1)},${y.toFixed(1)})`}}
        >
            <title>
                {`${n.name}\nself ${text(n.self)}, total ${text(n.total)}` +
                    `${samplesAt(n.total, tree, cover)}` +
                    `${n.more ? `\n${n.more} more functions call it or are called by it: click` : ""}`}
            </title>
            <rect width={at.width.toFixed(1)} height={at.height.toFixed(1)} rx="3" fill={fill} />
            {n.lines.map((l, i) => (
                <text
                    x={(at.width / 2).toFixed(1)}
                    y={(6 + (i + 1) * n.size * 1.25).toFixed(1)}
                    font-size={n.size.toFixed(1)}
                    text-anchor="middle"
                >
                    {l}
                </text>
            ))}
            <text
                class="box-num"
                x={(at.width / 2).toFixed(1)}
                y={(6 + (n.lines.length + 1) * n.size * 1.25).toFixed(1)}
                font-size={(n.size * 0.86).toFixed(1)}
                text-anchor="middle"
            >
                {shareText(n.self, whole, tree.unit, cover?.rate)} of{" "}
                {shareText(n.total, whole, tree.unit, cover?.rate)}
            </text>
            {n.more ? (
                <text class="box-more" x={(at.width - 5).toFixed(1)} y="11" font-size="10" text-anchor="end">
                    +{n.more}
                </text>
            ) : (
                ""
            )}
        </a>
    );
}
