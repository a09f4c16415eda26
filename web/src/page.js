// SPDX-License-Identifier: Apache-2.0
// The page of HTML exports (`wick convert x.pb.gz x.html`, “HTML” in the UI): the UI's flame graph, with its data
// embedded in the page. It needs no server and no network. src/report/html.c writes the data.
import {render} from "preact";
import {useMemo, useState} from "preact/hooks";
import "./app.css";
import {choice, setTheme, themeOf} from "./lib/color.js";
import {listen} from "./lib/keys.js";
import {foldPlumbing} from "./lib/names.js";
import {comparison, modeOf, modes} from "./lib/diff.js";
import {Builder, collapseStem, coverOf} from "./lib/tree.js";
import {amount, digitsOf, rate, samplesOf, samplesText} from "./lib/units.js";
import {ColorLegend, DiffLegend, DiffSum} from "./parts/legend.js";
import {Choice} from "./parts/menu.js";
import {SearchBox} from "./parts/search.js";
import {Flame} from "./flame/flame.js";

function treeOfData({type, unit, frames, parent, frame, self, folded, cover}) {
    const b = new Builder(self.length, type, unit);
    const ids = frames.map(([fn, file, line, map, kind, pkg], i) =>
        i ? b.addFrame(fn, file, map, line, kind, pkg) : 0,
    );
    const to = new Uint32Array(parent.length);
    for (let i = 0; i < parent.length; i++) {
        if (i) to[i] = b.child(to[parent[i]], ids[frame[i]]);
        for (let c = 0; c < self.length; c++) b.self[c][to[i]] += self[c][i];
    }
    for (const [i, n] of folded ?? []) b.addFolded(to[i], n);
    return Object.assign(b.done(), {cover: coverOf(cover)});
}

// "41.6 s · 0.69 cores · 4,160 samples at 99 Hz"
function sum({total, unit, type, cover}) {
    const v = total[0][0],
        n = samplesOf(v, unit, cover.rate),
        digits = digitsOf(n);
    return [
        amount(v, unit, type, digits),
        cover.ns > 0 && rate(v, unit, type, cover.ns, digits),
        n !== undefined && `${samplesText(n)} at ${cover.rates.join("–")} Hz`,
    ]
        .filter(Boolean)
        .join(" · ");
}

function Page({tree, title, link}) {
    const [zoom, setZoom] = useState([]),
        [search, setSearch] = useState(""),
        [flip, setFlip] = useState(false);
    const {cover} = tree,
        usual = tree.columns > 1 ? modeOf({}, tree.type, cover) : "";
    const [found, setFound] = useState(null),
        [mode, setMode] = useState(usual);
    const diff = useMemo(
        () => mode && comparison({mode, unit: tree.unit, type: tree.type, cover, whole: tree.total.map((t) => t[0])}),
        [mode],
    );
    const [lit, setLit] = useState("");
    const [all, setAll] = useState(false),
        folded = useMemo(() => (mode ? collapseStem(foldPlumbing(tree)) : foldPlumbing(tree)), []),
        shown = all ? tree : folded;
    const unfold = () => (setAll((v) => !v), setZoom([]));
    useMemo(
        () =>
            listen({
                "/": () => document.getElementById("search").focus(),
                i: () => setFlip((v) => !v),
                f: unfold,
                T: () => setTheme({"": "dark", dark: "light", light: ""}[choice.value]),
            }),
        [],
    );
    return (
        <main id="main" class="page">
            <div class="bar">
                <h1>{title}</h1>{" "}
                <span class="muted num">
                    {tree.type} {mode ? <DiffSum t={tree} cover={cover} mode={mode} /> : sum(tree)}
                </span>
                {/^https?:\/\//.test(link ?? "") && (
                    <a class="small-link" href={link} rel="noreferrer">
                        open in wick
                    </a>
                )}
                {mode ? <DiffLegend known={diff.period > 0} /> : <span class="muted">width: value</span>}
                <span class="grow" />
                {mode && (
                    <Choice
                        label="compare by"
                        value={mode}
                        options={modes.map(([v, text]) => [v || "second", text]).slice(usual === "second" ? 0 : 1)}
                        onPick={setMode}
                    />
                )}
                <SearchBox value={search} found={found} onInput={setSearch} />
                {folded !== tree && (
                    <button aria-pressed={all} title="frames of interpreters and program starts (f)" onClick={unfold}>
                        All frames
                    </button>
                )}
                <button aria-pressed={flip} title="root at the bottom (i)" onClick={() => setFlip(!flip)}>
                    Flame
                </button>
            </div>
            {!mode && <ColorLegend tree={shown} by="package" lit={lit} onLit={setLit} />}
            <Flame
                tree={shown}
                by={mode ? "diff" : "package"}
                lit={lit}
                diff={diff || undefined}
                cover={cover}
                flip={flip}
                search={search}
                zoom={zoom}
                onZoom={setZoom}
                onFound={setFound}
                rootName="all"
                label={"Flame graph of " + title}
            />
        </main>
    );
}

document.documentElement.dataset.theme = themeOf();
const data = JSON.parse(document.getElementById("data").textContent),
    tree = treeOfData(data);
render(<Page tree={tree} link={data.link} title={document.title} />, document.getElementById("app"));
