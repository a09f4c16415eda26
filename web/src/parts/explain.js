// SPDX-License-Identifier: Apache-2.0
// Explain: what the server found in a selection, in sentences, with links to the frames that they are about.
import {html} from "htm/preact";
import {apiUrl, useData} from "../lib/api.js";
import {shortName} from "../lib/names.js";
import {percent} from "../lib/units.js";
import {patch} from "../lib/url.js";
import {useStatus} from "./shell.js";
import {Loaded} from "./states.js";

export const canExplain = () => (useStatus().data?.questions ?? []).includes("findings");

export function Explain({p, q}) {
    const data = useData(apiUrl("findings", q));
    return html`<aside class="explain" aria-label="findings"><h2>Explain <button class="icon" aria-label="close" onClick=${() => patch({explain: ""})}>×</button></h2>
        <${Loaded} of=${data} what="findings" empty=${(d) => !d.findings.length} nothing=${html`<p class="muted">Nothing stands out: no large share of garbage collection, lock waits, page faults, regular expressions, serialisation or allocation.</p>`}>
        ${(d) => html`<ol>${d.findings.map((f) => html`<li key=${f.rule}><h3 class=${f.severity === "warning" ? "more" : ""}>${f.title} <span class="num">${percent(f.share, undefined, 2)}</span></h3><p>${f.sentence}</p>
            <p class="frames">${f.frames.map((x) => html`<button key=${x.function} class="small" title=${x.function} aria-pressed=${String(p.sel === x.function)} onClick=${() => patch({sel: p.sel === x.function ? "" : x.function, search: p.sel === x.function ? "" : `^${x.function.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")}$`})}><span class="fn">${shortName(x.function)}</span> <span class="num muted">${percent(x.share, undefined, 2)}</span></button>`)}</p></li>`)}</ol>`}<//></aside>`;
}
