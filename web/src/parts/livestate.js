// SPDX-License-Identifier: Apache-2.0
// "updated 3 s ago", or for how long it was not, and the button that pauses the updates. Only where the range ends at now.
import {html} from "htm/preact";
import {reachable} from "../lib/api.js";
import {paused, setPaused, useAge} from "../lib/live.js";

const time = (ms) => (ms < 90e3 ? `${Math.round(ms / 1000)} s` : `${Math.round(ms / 60e3)} min`);
const text = (age) => (!age ? "loading" : age.failed ? `not updated for ${time(age.ms)}` : age.ms < 1500 ? "updated now" : `updated ${time(age.ms)} ago`);

export function LiveState({range}) {
    const age = useAge();
    if (!range.live) return null;
    const stopped = paused.value;
    return html`<span class="live-state num"><span class=${stopped || !reachable.value || age?.failed ? "beat still" : "beat"} aria-hidden="true"></span><span class="live-age">${stopped ? "paused" : !reachable.value ? "not updated" : text(age)}</span><button
        class="quiet small" aria-pressed=${String(stopped)} title=${stopped ? "Update again (L)" : "Stop updating (L)"} onClick=${() => setPaused(!stopped)}>${stopped ? "Resume" : "Pause"}</button></span>`;
}
