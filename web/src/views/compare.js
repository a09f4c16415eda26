// SPDX-License-Identifier: Apache-2.0
// Compare: any two selections, as one coloured flame graph, as a table, or side by side.
import {useEffect, useMemo, useState} from "preact/hooks";
import {apiUrl, overFiles, useData} from "../lib/api.js";
import {modeOf, modes} from "../lib/diff.js";
import {compareItems, pictureTitle} from "../lib/export.js";
import {listen} from "../lib/keys.js";
import {middle, parseTime, rangeOf, relative, seconds, settledNow, timeProblem} from "../lib/time.js";
import {go, patch} from "../lib/url.js";
import {justBefore, overlap} from "../lib/windows.js";
import {urlProblem} from "../lib/wrong.js";
import {FileBar, Selector, TimePicker} from "../parts/bar.js";
import {drawKeys, DrawOptions, Filters} from "../parts/filters.js";
import {FlamePane, useTree} from "../parts/flamepane.js";
import {deploysOf, sidesOf} from "../parts/regression.js";
import {DiffLegend, DiffSum} from "../parts/legend.js";
import {Choice, Drop} from "../parts/menu.js";
import {SearchBox} from "../parts/search.js";
import {useParams, useStatus} from "../parts/shell.js";
import {Timeline} from "../parts/timeline.js";
import {Box, Loaded, Loading, Wrong} from "../parts/states.js";
import {TopTable} from "./toptable.js";
import {OneSided, Presets, Sides} from "../parts/sides.js";

const views = [
    ["flame", "Difference", "1"],
    ["table", "Table", "2"],
    ["sides", "Side by side", "3"],
];

const NODES = 20000;

// The URL with both ranges as fixed times. What is before and what is now is evidence: the same link has to show
// the same numbers later. Null if the times are fixed already.
function pinned(p) {
    if (!relative(p.to) && !relative(p.from ?? "") && !relative(p.base_from) && !relative(p.base_to)) return null;
    const end = settledNow();
    const at = (text, missing) => (text ? seconds(parseTime(text, end)) : missing);
    const to = at(p.to, seconds(end)),
        from = at(p.from, seconds(middle(Number(to) * 1000)));
    const length = Number(to) - Number(from);
    const given = p.base_from || p.base_to;
    const base_to = given ? at(p.base_to, to) : from;
    const base_from = at(p.base_from, String(Number(base_to) - length));
    return {...p, from, to, base_from, base_to};
}

function sides(p) {
    const query = p.query || "cpu";
    return {now: rangeOf(p), base: rangeOf(p, "base_"), query, baseQuery: p.base_query || query};
}

const SEEN_NS = 60e9; // of both sides of a deploy, as the verdict wants it
const seenLongEnough = ({now, before}) => [now, before].every((v) => Number(v.last) - Number(v.first) >= SEEN_NS);

// What is compared when the URL selects nothing: both sides of the deploy that Home shows first, else of the latest
// one that was seen long enough, or null without one. Undefined until it is known.
function useLatestDeploy(wanted) {
    const deploys = useData(wanted ? apiUrl("deploys", {query: "cpu", from: "now-1d"}) : null),
        judged = useData(wanted ? apiUrl("verdicts", {query: "cpu", from: "now-1d", limit: 1}) : null);
    return useMemo(() => {
        if (!wanted) return null;
        if (![deploys, judged].every((x) => x.data || x.error)) return undefined;
        const list = deploysOf(deploys.data?.deploys ?? []),
            [v] = judged.data?.verdicts ?? [];
        const chosen = v && list.find(({now}) => now.service === v.service && now.version === v.version);
        const shown = chosen ?? list.find(seenLongEnough);
        return shown ? sidesOf(shown) : null;
    }, [deploys.data, deploys.error, judged.data, judged.error, wanted]);
}

const selecting = ["query", "from", "to", "base_query", "base_from", "base_to"];

export function Compare() {
    const p = useParams();
    const wrong = p && (timeProblem(p) || (p.base_from || p.base_to ? timeProblem(p, "base_") : "") || urlProblem(p));
    const bare = !!p && !p.timeless && selecting.every((k) => !p[k]);
    const latest = useLatestDeploy(bare);
    const fixed =
        p && !p.timeless && !wrong && latest !== undefined
            ? (pinned({...p, ...latest}) ?? (latest && {...p, ...latest}))
            : null;
    useEffect(() => {
        if (fixed) go("compare", fixed, {replace: true});
    });
    if (wrong)
        return (
            <>
                <h1 class="sr">Compare</h1>
                <Wrong text={wrong} />
            </>
        );
    return p && latest !== undefined ? (
        <Page p={fixed ?? p} />
    ) : (
        <>
            <h1 class="sr">Compare</h1>
            <Loading />
        </>
    );
}

function Page({p}) {
    const s = sides(p);
    useStatus();
    const files = overFiles.value; // known before this is rendered, so that nothing moves
    const view = p.view === "table" || p.view === "sides" ? p.view : "flame";
    const q = {
        query: s.query,
        from: s.now.from,
        to: s.now.to,
        base_query: s.baseQuery,
        base_from: s.base.from,
        base_to: s.base.to,
        focus: p.focus,
        ignore: p.ignore,
        hide: p.hide,
    };
    useEffect(
        () =>
            listen({
                ...Object.fromEntries(views.map(([v, , key]) => [key, () => patch({view: v === "flame" ? "" : v})])),
                ...drawKeys,
            }),
        [],
    );
    const tree = useTree(view === "table" ? null : {...q, by: "filefunction", max_nodes: p.nodes ?? NODES}, p.zoom);
    const [found, setFound] = useState(null);
    const cover = tree.cover,
        t = tree.whole ?? tree.data;
    const mode = t ? modeOf(p, t.type, cover) : p.mode || "second";
    return (
        <>
            <h1 class="sr">Compare</h1>
            {files ? (
                <div class="bar">
                    <FileBar query={s.query} />
                </div>
            ) : (
                <>
                    <div class="sides">
                        <div class="side">
                            <span class="side-name">before</span>
                            <Selector
                                name="before: "
                                query={s.baseQuery}
                                range={s.base}
                                onQuery={(v) => patch({base_query: v, zoom: ""})}
                            />
                            <span class="grow" />
                            <TimePicker
                                label="time before"
                                range={s.base}
                                onPick={(r) => patch({base_from: r.from, base_to: r.to || "now", zoom: ""})}
                            />
                        </div>
                        <div class="side">
                            <span class="side-name">now</span>
                            <Selector
                                name="now: "
                                query={s.query}
                                range={s.now}
                                onQuery={(v) => patch({query: v, zoom: ""})}
                            />
                            <span class="grow" />
                            <TimePicker
                                label="time now"
                                range={s.now}
                                onPick={(r) => patch({...another(s, r), zoom: ""})}
                            />
                        </div>
                    </div>
                    <Timeline s={s} onMove={move} />
                </>
            )}
            <div class="toolbar">
                <Choice
                    label="view"
                    value={view}
                    options={views}
                    onPick={(v) => patch({view: v === "flame" ? "" : v})}
                />
                <Choice
                    label="compare by"
                    value={["share", "total"].includes(p.mode) || mode !== "second" ? mode : ""}
                    options={files ? modes.slice(1) : modes}
                    onPick={(v) => patch({mode: v})}
                />
                <SearchBox value={p.search ?? ""} found={found} onInput={(v) => patch({search: v}, {replace: true})} />
                <Filters params={p} />
                {!files && <Presets p={p} s={s} />}
                <Drop
                    label="Export"
                    items={() =>
                        compareItems(
                            q,
                            view === "flame"
                                ? `${pictureTitle(q, s.now)} against ${pictureTitle({query: s.baseQuery}, s.base)}`
                                : "",
                        )
                    }
                />
                <span class="grow" />
                {view !== "table" && <DrawOptions params={p} diff={view === "flame"} />}
            </div>
            {view !== "table" && (
                <div class="diff-head">
                    {t ? <DiffSum t={t} cover={cover} mode={mode} /> : <span class="total" />}
                    <span class="grow" />
                    {view === "flame" && <DiffLegend />}
                </div>
            )}
            <div class="pane">
                {view === "table" ? (
                    <TopTable p={p} q={q} diff select />
                ) : (
                    <Loaded
                        of={tree}
                        what="both selections"
                        empty={(d) => !(d.total[0][0] > 0) && !(d.total[1]?.[0] > 0)}
                        nothing={
                            <Box title="Neither side has profiles">
                                <p>Choose another time range or other labels above.</p>
                                <p>
                                    <button
                                        onClick={() => patch({from: "now-1d", to: "now", base_from: "", base_to: ""})}
                                    >
                                        The last day against the day before
                                    </button>
                                </p>
                            </Box>
                        }
                    >
                        {(d) =>
                            view === "sides" ? (
                                <Sides t={d} p={p} cover={cover} onFound={setFound} />
                            ) : (
                                <>
                                    <OneSided t={d} />
                                    <FlamePane
                                        tree={d}
                                        params={p}
                                        cover={cover}
                                        mode={mode}
                                        onFound={setFound}
                                        rootName="both"
                                        label="Difference flame graph"
                                    />
                                </>
                            )
                        }
                    </Loaded>
                )}
            </div>
        </>
    );
}

// What a drag in the timeline changes.
function move({base, now}) {
    patch({
        ...(now ? {from: seconds(now[0]), to: seconds(now[1])} : {}),
        ...(base ? {base_from: seconds(base[0]), base_to: seconds(base[1])} : {}),
        zoom: "",
    });
}

// Another time on the side "now" does not overlap with the time before: that one moves directly ahead of it.
function another(s, {from, to}) {
    const end = settledNow(),
        now = [parseTime(from, end), parseTime(to || "now", end)],
        times = {from: seconds(now[0]), to: seconds(now[1])};
    if (s.query !== s.baseQuery || !overlap([s.base.fromMs, s.base.toMs], now)) return times;
    const [a, b] = justBefore(now);
    return {...times, base_from: seconds(a), base_to: seconds(b)};
}
