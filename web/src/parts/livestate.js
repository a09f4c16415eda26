// SPDX-License-Identifier: Apache-2.0
// "updated 3 s ago", or for how long it was not, and the button that pauses the updates. Only where the range ends
// at now.
import {reachable} from "../lib/api.js";
import {paused, setPaused, useAge} from "../lib/live.js";

const time = (ms) => (ms < 90e3 ? `${Math.round(ms / 1000)} s` : `${Math.round(ms / 60e3)} min`);
const text = (reached, age) => {
    if (!reached) return "not updated";
    if (!age) return "loading";
    if (age.failed) return `not updated for ${time(age.ms)}`;
    if (age.ms < 1500) return "updated now";
    return `updated ${time(age.ms)} ago`;
};

export function LiveState({range}) {
    const age = useAge();
    if (!range.live) return null;
    const stopped = paused.value;
    return (
        <span class="live-state num">
            <span class={stopped || !reachable.value || age?.failed ? "beat still" : "beat"} aria-hidden="true" />
            <span class="live-age">{stopped ? "paused" : text(reachable.value, age)}</span>
            <button
                class="quiet small"
                aria-pressed={!!stopped}
                title={stopped ? "Update again (L)" : "Stop updating (L)"}
                onClick={() => setPaused(!stopped)}
            >
                {stopped ? "Resume" : "Pause"}
            </button>
        </span>
    );
}
