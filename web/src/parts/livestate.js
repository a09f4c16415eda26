// SPDX-License-Identifier: Apache-2.0
// "updated 3 s ago", and the button that pauses the updates. Only where the range ends at now.
import {html} from "htm/preact";
import {reachable} from "../lib/api.js";
import {paused, setPaused, useAge} from "../lib/live.js";

const text = (ms) => (ms === null ? "loading" : ms < 1500 ? "updated now" : ms < 90e3 ? `updated ${Math.round(ms / 1000)} s ago` : `updated ${Math.round(ms / 60e3)} min ago`);

export function LiveState({range}) {
    const age = useAge();
    if (!range.live) return null;
    const stopped = paused.value;
    return html`<span class="live-state num"><span class=${stopped || !reachable.value ? "beat still" : "beat"} aria-hidden="true"></span><span class="live-age">${stopped ? "paused" : !reachable.value ? "not updated" : text(age)}</span><button
        class="quiet small" aria-pressed=${String(stopped)} title=${stopped ? "Update again (L)" : "Stop updating (L)"} onClick=${() => setPaused(!stopped)}>${stopped ? "Resume" : "Pause"}</button></span>`;
}
