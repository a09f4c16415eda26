// SPDX-License-Identifier: Apache-2.0
// The page of HTML exports (`wick convert x.pb.gz x.html`, “HTML” in the UI): the UI's flame graph, with its data
// embedded in the page. It needs no server and no network. src/report/html.c writes the data.
import {html} from "htm/preact";
import {render} from "preact";
import {useMemo, useState} from "preact/hooks";
import "./app.css";
import {choice, setTheme, themeOf} from "./lib/color.js";
import {listen} from "./lib/keys.js";
import {Builder} from "./lib/tree.js";
import {amount} from "./lib/units.js";
import {DiffLegend} from "./parts/legend.js";
import {SearchBox} from "./parts/search.js";
import {Flame} from "./flame/flame.js";

function treeOfData({type, unit, frames, parent, frame, self, folded}) {
    const b = new Builder(self.length, type, unit);
    const ids = frames.map(([fn, file, line, map, kind, pkg], i) => (i ? b.addFrame(fn, file, map, line, kind, pkg) : 0));
    const to = new Uint32Array(parent.length);
    for (let i = 0; i < parent.length; i++) {
        if (i) to[i] = b.child(to[parent[i]], ids[frame[i]]);
        for (let c = 0; c < self.length; c++) b.self[c][to[i]] += self[c][i];
    }
    for (const [i, n] of folded ?? []) b.addFolded(to[i], n);
    return b.done();
}

function Page({tree, title, link}) {
    const [zoom, setZoom] = useState([]), [search, setSearch] = useState(""), [flip, setFlip] = useState(false);
    const [found, setFound] = useState(null);
    const diff = tree.columns > 1;
    useMemo(() => listen({
        "/": () => document.getElementById("search").focus(),
        i: () => setFlip((v) => !v),
        T: () => setTheme({"": "dark", dark: "light", light: ""}[choice.value]),
    }), []);
    const total = tree.total.map((t) => amount(t[0], tree.unit, tree.type)).join(" → ");
    return html`<main id="main" class="page">
        <div class="bar"><h1>${title}</h1> <span class="muted num">${tree.type} ${total}</span>
            ${/^https?:\/\//.test(link ?? "") && html`<a class="small-link" href=${link} rel="noreferrer">open in wick</a>`}
            ${diff ? html`<${DiffLegend} />` : html`<span class="muted">width: value, colour: package</span>`}<span class="grow"></span>
            <${SearchBox} value=${search} found=${found} onInput=${setSearch} />
            <button aria-pressed=${flip} title="root at the bottom (i)" onClick=${() => setFlip(!flip)}>Flame</button></div>
        <${Flame} tree=${tree} by=${diff ? "diff" : "package"} flip=${flip} search=${search} zoom=${zoom} onZoom=${setZoom}
            onFound=${setFound} rootName="all" label=${"Flame graph of " + title} /></main>`;
}

document.documentElement.dataset.theme = themeOf();
const data = JSON.parse(document.getElementById("data").textContent), tree = treeOfData(data);
render(html`<${Page} tree=${tree} link=${data.link} title=${document.title} />`, document.getElementById("app"));
