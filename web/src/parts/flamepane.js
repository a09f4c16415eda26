// SPDX-License-Identifier: Apache-2.0
// A flame graph bound to the URL: drawing options, zoom, the menu of a frame. More detail is fetched when the user
// zooms to a part where the server folded small frames.
import {useMemo} from "preact/hooks";
import {apiUrl, carried, get, overFiles, useData} from "../lib/api.js";
import {linksFor} from "../lib/links.js";
import {comparison} from "../lib/diff.js";
import {foldPlumbing, mineBy} from "../lib/names.js";
import {matchedValue} from "../lib/selector.js";
import {collapseRecursion, collapseStem, graft, invertTree, onlyFrames} from "../lib/tree.js";
import {rangeOf} from "../lib/time.js";
import {go, patch, route} from "../lib/url.js";
import {Flame} from "../flame/flame.js";
import {also, exactly} from "./filters.js";
import {ColorLegend} from "./legend.js";
import {pricedFor} from "../lib/upload.js";
import {useStatus} from "./shell.js";

// The visible part of the picture, if it does not match a node: x=0.25_0.5.
function rangeParam(text) {
    const [a, b] = (text ?? "").split("_").map(Number);
    return a >= 0 && b > a && b <= 1 ? [a, b] : null;
}

// Paths as the API writes them: names joined by ";"; a ";" or backslash inside a name is preceded by a backslash.
export const joinPath = (names) => names.map((n) => n.replace(/[\\;]/g, "\\$&")).join(";");
export function splitPath(zoom) {
    if (!zoom) return [];
    const names = [""];
    for (let i = 0; i < zoom.length; i++) {
        if (zoom[i] === ";") names.push("");
        else names[names.length - 1] += zoom[i] === "\\" && i + 1 < zoom.length ? zoom[++i] : zoom[i];
    }
    return names;
}

// True if a folded part below node i of t is worth requesting: wider than a hundredth of it.
function foldedBelow(t, i) {
    if (!t.folded) return false;
    const {first, kids} = t.children();
    const limit = t.columns > 1 ? (t.total[0][i] + t.total[1][i]) / 100 : t.total[0][i] / 100;
    const stack = [i];
    for (let seen = 0; stack.length && seen < 50000; seen++) {
        const k = stack.pop();
        const w = t.columns > 1 ? t.total[0][k] + t.total[1][k] : t.total[0][k];
        if (w < limit) continue;
        if (t.isFolded(k)) return true;
        for (let c = first[k]; c < first[k + 1]; c++) stack.push(kids[c]);
    }
    return false;
}

// The tree of a `flame` query, or a deeper one if the zoomed part of it is folded.
export function useTree(params, zoom, options) {
    const url = params && apiUrl("flame", {...params, format: "binary"});
    const whole = useData(url, options);
    const inside = whole.data && zoom ? whole.data.find(splitPath(zoom)) : null;
    const want = inside && (!inside.whole || foldedBelow(whole.data, inside.node));
    const deepUrl = want ? apiUrl("flame", {...params, zoom, format: "binary"}) : null;
    const deep = useData(deepUrl, options);
    const ready = want && deep.data && deep.url === deepUrl && deep.data.n > 1;
    const tree = useMemo(
        () => (ready ? graft(whole.data, splitPath(zoom), deep.data) : whole.data),
        [whole.data, ready, deep.data, zoom],
    );
    return {
        ...whole,
        data: tree,
        notes: whole.data?.notes,
        cover: whole.data?.cover,
        whole: whole.data,
        deeper: want && !deep.data,
    };
}

export function shape(tree, params, own) {
    let t = tree;
    if (params.frames !== "all") t = foldPlumbing(t);
    if (params.mine === "1") t = onlyFrames(t, mineBy(own));
    if (params.rec === "1") t = collapseRecursion(t);
    if (params.inv === "1") return invertTree(t);
    return (params.stem || (t.columns > 1 ? "one" : "all")) === "one" ? collapseStem(t) : t;
}

// tree; params (of the URL); cover; rootName; onFound; mode of a comparison (lib/diff.js); filters: whether the
// page applies those of frames
/**
 * @param {{tree: import("../lib/tree.js").Tree, params: {[name: string]: any}, cover: any, rootName: string,
 *     label?: string, onFound?: (found: any) => void, mode?: string, side?: boolean, filters?: boolean}} props
 */
export function FlamePane({tree, params, cover, rootName, onFound, mode = "", label, side = false, filters = true}) {
    const status = pricedFor(params.query, useStatus().data);
    const own = status?.ownCode;
    const shown = useMemo(
        () => shape(tree, params, own),
        [tree, params.mine, params.rec, params.frames, params.stem, params.inv, own],
    );
    const service = matchedValue(params.query, "service.name");
    const actions = (node, t) => frameActions(node, t, params, status, service, filters);
    const diff = useMemo(
        () =>
            mode &&
            comparison({mode, unit: tree.unit, type: tree.type, cover, whole: [tree.total[0][0], tree.total[1][0]]}),
        [mode, tree, cover?.ns, cover?.base],
    );
    const by = params.color || (mode ? "diff" : "package"),
        mine = useMemo(() => mineBy(own), [own]);
    return (
        <div class="flame-pane">
            {by !== "diff" && (
                <ColorLegend
                    tree={shown}
                    by={by}
                    mine={mine}
                    lit={params.lit}
                    onLit={(lit) => patch({lit}, {replace: true})}
                />
            )}
            <Flame
                tree={shown}
                by={by}
                mine={mine}
                lit={params.lit}
                order={params.order || "value"}
                diff={diff || undefined}
                flip={params.dir === "flame"}
                search={params.search ?? ""}
                selected={params.sel}
                zoom={splitPath(shown.inverted ? params.izoom : params.zoom)}
                inverted={shown.inverted}
                cover={cover}
                rootName={rootName}
                label={label}
                actions={actions}
                onFound={onFound}
                status={status}
                onZoom={(names) =>
                    shown.stem && names.length && shown.find(names).node === shown.stem && !params.zoom
                        ? patch({stem: "all"})
                        : patch({[shown.inverted ? "izoom" : "zoom"]: joinPath(names), x: ""})
                }
                range={rangeParam(params.x)}
                onRange={
                    side
                        ? undefined
                        : (r) => patch({x: r ? `${r[0].toPrecision(7)}_${r[1].toPrecision(7)}` : ""}, {replace: true})
                }
            />
        </div>
    );
}

// All frames of a function are merged, whatever their lines: the line to open is the heaviest one.
async function heaviestLine(name, file, {query, ...params}) {
    const {from, to} = rangeOf(params);
    const {rows} = await get(apiUrl("lines", {query: query || "cpu", from, to, function: name}));
    return rows
        .filter((r) => r.line && (r.file ?? "") === file)
        .reduce((a, b) => (b.total > a.total ? b : a), {line: 1, total: 0}).line;
}

// Links to the source of a frame; find requests the line first, if the frame has none.
function outside(t, f, params, status, service) {
    const name = t.frames.function(f),
        file = t.frames.fileOf(f),
        known = t.frames.line[f];
    const at = (line) => linksFor(status?.links, {file, line, function: name, service});
    return at(known || 1).map((l, i) => ({
        label: `Open in ${l.name}`,
        href: l.href,
        out: true,
        bar: i === 0,
        find: !known && name ? async () => at(await heaviestLine(name, file, params))[i].href : null,
    }));
}

// Opens a view of Explore: on this page if it has it, else on Explore with the selection of this page.
function openView(params, change) {
    if (["explore", "function"].includes(route.peek().path)) return patch({...change, zoom: ""});
    const {query, from, to, focus, ignore, hide} = params;
    return go("explore", {...(overFiles.value ? carried() : {}), query, from, to, focus, ignore, hide, ...change});
}

/** @returns {any[]} entries of a menu */
export function frameActions(node, t, params, status, service, filters = true) {
    const f = t.frame[node],
        name = t.frames.function(f),
        file = t.frames.fileOf(f);
    const pattern = name ? exactly(name) : null;
    /** @type {any[]} */
    const list = [{label: "Zoom to this", hint: "Enter", run: () => patch({zoom: joinPath(t.path(node))})}];
    if (name) {
        list.push(
            {label: "Callers and callees", bar: true, run: () => openView(params, {view: "sandwich", fn: name})},
            {
                label: "Page of this function",
                bar: true,
                run: () =>
                    go("function", {
                        ...(overFiles.value ? carried() : {}),
                        fn: name,
                        query: params.query,
                        from: params.from,
                        to: params.to,
                    }),
            },
            {label: "Source lines", bar: true, run: () => openView(params, {view: "source", fn: name, file})},
            "-",
            ...(filters
                ? [
                      {label: "Only stacks with this", run: () => patch({focus: pattern, zoom: ""})},
                      {
                          label: "Exclude stacks with this",
                          run: () => patch({ignore: also(params.ignore, pattern), zoom: ""}),
                      },
                      {label: "Hide this frame", run: () => patch({hide: also(params.hide, pattern), zoom: ""})},
                  ]
                : []),
            {label: "Highlight", run: () => patch({search: pattern})},
        );
    }
    const out = outside(t, f, params, status, service);
    if (out.length) list.push("-", ...out);
    list.push(
        "-",
        {label: "Copy name", run: () => navigator.clipboard?.writeText(t.name(node))},
        {
            label: "Copy stack",
            run: () =>
                navigator.clipboard?.writeText(
                    t
                        .path(node)
                        .map((n) => n.split("\t")[0])
                        .join(";"),
                ),
        },
    );
    return list;
}
