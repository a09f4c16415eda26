// SPDX-License-Identifier: Apache-2.0
// The search of the documents: every word must be in a section; where they are in its heading or in the title of the page counts more.
const input = document.getElementById("search");
const found = document.getElementById("found");
let index = null;

/** Loads what is searched, once, when someone begins to search. */
function load() {
    if (index) return index;
    index = new Promise((done) => {
        const script = document.createElement("script");
        script.src = "search.js";
        script.onload = () => done(window.wickDocs.map((s) => ({ ...s, low: `${s.t} ${s.h} ${s.x}`.toLowerCase() })));
        document.head.append(script);
    });
    return index;
}

function score(s, words) {
    let n = 0;
    for (const w of words) {
        if (!s.low.includes(w)) return 0;
        n += 1 + 8 * s.h.toLowerCase().includes(w) + 4 * s.t.toLowerCase().includes(w);
    }
    return n;
}

/** The text around the first word. */
function excerpt(s, words) {
    const at = Math.max(0, ...words.map((w) => s.x.toLowerCase().indexOf(w)));
    const from = Math.max(0, at - 60);
    return (from ? "…" : "") + s.x.slice(from, from + 180) + (s.x.length > from + 180 ? "…" : "");
}

function row(s, words) {
    const li = document.createElement("li");
    const a = document.createElement("a");
    const head = document.createElement("b");
    const text = document.createElement("small");
    a.href = `${s.p}.html${s.a ? `#${s.a}` : ""}`;
    head.textContent = s.h === s.t ? s.t : `${s.t}: ${s.h}`;
    text.textContent = excerpt(s, words);
    a.append(head, text);
    li.append(a);
    return li;
}

async function search() {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    if (words.length === 0) {
        found.hidden = true;
        return;
    }
    const sections = await load();
    const best = sections.map((s) => [score(s, words), s]).filter(([n]) => n > 0);
    best.sort((a, b) => b[0] - a[0]);
    found.replaceChildren(...best.slice(0, 20).map(([, s]) => row(s, words)));
    if (best.length === 0) {
        const li = document.createElement("li");
        li.textContent = "Nothing found";
        found.append(li);
    }
    found.hidden = false;
}

input.addEventListener("input", search);
input.form.addEventListener("submit", (e) => {
    e.preventDefault();
    found.querySelector("a")?.click();
});
document.addEventListener("keydown", (e) => {
    const links = [...found.querySelectorAll("a")];
    const at = links.indexOf(document.activeElement);
    if (e.key === "/" && document.activeElement !== input) {
        e.preventDefault();
        input.focus();
    } else if (e.key === "Escape") {
        found.hidden = true;
    } else if (!found.hidden && (e.key === "ArrowDown" || e.key === "ArrowUp")) {
        e.preventDefault();
        const next = at + (e.key === "ArrowDown" ? 1 : -1);
        (next < 0 ? input : links[Math.min(next, links.length - 1)])?.focus();
    }
});
document.addEventListener("click", (e) => {
    if (!found.contains(e.target) && e.target !== input) found.hidden = true;
});
