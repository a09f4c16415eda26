// SPDX-License-Identifier: Apache-2.0
// Global keyboard shortcuts, and the list of all shortcuts for the help overlay. Keys of the flame graph are in
// flame/flame.js.
/** @type {[string, string[][]][]} */
export const bindings = [
    [
        "Everywhere",
        [
            ["?", "this help"],
            ["/", "search frames"],
            ["g h", "go to Home"],
            ["g s", "go to Services"],
            ["g e", "go to Explore"],
            ["g c", "go to Compare"],
            ["g a", "go to Alerts"],
            ["g n", "go to Sources"],
            ["g f", "go to Files"],
            ["L", "pause or resume live updates"],
            ["T", "theme: light, dark, system"],
        ],
    ],
    [
        "Explore and Compare",
        [
            ["1", "flame graph"],
            ["2", "table"],
            ["3", "both"],
            ["4", "call graph"],
            ["5", "callers and callees"],
            ["6", "source lines"],
            ["7", "individual profiles"],
            ["8", "label explorer"],
            ["9", "flame chart"],
            ["i", "icicle or flame"],
            ["v", "inverted: callers below"],
            ["r", "collapse recursion"],
            ["o", "only my code"],
            ["f", "frames of interpreters and program starts"],
        ],
    ],
    [
        "Flame graph",
        [
            ["← → ↑ ↓", "move between frames"],
            ["Enter", "zoom to the frame"],
            ["Esc", "zoom out"],
            ["0", "show all"],
            ["+ -", "zoom"],
            ["a d", "move left, right"],
            ["n p", "next, previous match"],
            ["m", "frame menu"],
        ],
    ],
];

const typing = (e) => e.target.closest?.("input, textarea, select, [contenteditable]");

// map: from a key or "g x" to a function. Returns a function that removes the shortcuts. The second key of a pair is
// handled before other listeners see it.
export function listen(map) {
    const leads = new Set(
        Object.keys(map)
            .filter((k) => k.includes(" "))
            .map((k) => k.split(" ")[0]),
    );
    let lead = "",
        timer = 0;
    const free = (e) =>
        !(
            e.ctrlKey ||
            e.metaKey ||
            e.altKey ||
            e.defaultPrevented ||
            typing(e) ||
            document.querySelector("dialog[open]")
        );
    const run = (e, act) => {
        e.preventDefault();
        e.stopPropagation();
        act();
    };
    const second = (e) => {
        if (!lead || !free(e)) return;
        const act = map[lead + " " + e.key];
        lead = "";
        clearTimeout(timer);
        if (act) run(e, act);
    };
    const first = (e) => {
        if (!free(e)) return;
        if (leads.has(e.key)) {
            lead = e.key;
            timer = setTimeout(() => (lead = ""), 1200);
        } else if (map[e.key]) run(e, map[e.key]);
    };
    addEventListener("keydown", second, true);
    addEventListener("keydown", first);
    return () => {
        removeEventListener("keydown", second, true);
        removeEventListener("keydown", first);
    };
}
