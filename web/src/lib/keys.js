// SPDX-License-Identifier: Apache-2.0
// Keys that work everywhere, and the list of all of them for the help overlay. Keys of the flame graph are in
// flame/flame.js.
export const bindings = [
    ["Everywhere", [["?", "this help"], ["/", "search frames"], ["g e", "go to Explore"], ["g s", "go to Services"], ["g c", "go to Compare"],
        ["g n", "go to Senders"], ["g h", "go to Start"], ["T", "light, dark, as the system"]]],
    ["Explore and Compare", [["1", "flame graph"], ["2", "table"], ["3", "both"], ["4", "call graph"], ["5", "callers and callees"],
        ["6", "source lines"], ["7", "single profiles"], ["i", "icicle or flame"], ["r", "collapse recursion"], ["o", "only my code"]]],
    ["Flame graph", [["← → ↑ ↓", "move between frames"], ["Enter", "zoom to the frame"], ["Esc", "zoom out"], ["0", "show all"],
        ["+ -", "zoom"], ["a d", "move left, right"], ["n p", "next, previous match"], ["m", "menu of the frame"]]],
];

const typing = (e) => e.target.closest?.("input, textarea, select, [contenteditable]");

// map: key or "g x" to a function. Returns the function that takes them away again.
export function listen(map) {
    let lead = "", timer = 0;
    const on = (e) => {
        if (e.ctrlKey || e.metaKey || e.altKey || e.defaultPrevented || typing(e)) return;
        if (document.querySelector("dialog[open]")) return;
        const key = lead ? lead + " " + e.key : e.key;
        clearTimeout(timer);
        if (!lead && Object.keys(map).some((k) => k.startsWith(e.key + " "))) {
            lead = e.key;
            timer = setTimeout(() => (lead = ""), 1200);
            return;
        }
        lead = "";
        if (!map[key]) return;
        e.preventDefault();
        map[key]();
    };
    addEventListener("keydown", on);
    return () => removeEventListener("keydown", on);
}
