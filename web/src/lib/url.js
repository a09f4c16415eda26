// SPDX-License-Identifier: Apache-2.0
// The page's state is its URL: a path of one segment and query parameters. Views read `route`, change it with go(), and
// link with href(); all state that a shared link should show is in the URL.
import {signal} from "@preact/signals";

// Where the application is mounted: the folder of index.html, which ends with "/".
export const base = new URL(".", document.baseURI).pathname;

function read() {
    const path = location.pathname.startsWith(base) ? location.pathname.slice(base.length) : "";
    const params = {};
    for (const [k, v] of new URLSearchParams(location.search)) params[k] = v;
    return {path: path.replace(/\/+$/, ""), params};
}

export const route = signal(read());

// Query string of params: empty values are left out, and characters that are allowed in URLs stay readable.
export function search(params) {
    const parts = [];
    for (const [k, v] of Object.entries(params)) {
        if (v === undefined || v === null || v === "" || v === false) continue;
        parts.push(
            encodeURIComponent(k) +
                "=" +
                encodeURIComponent(v === true ? "1" : v).replace(/%(2C|3A|3B|2F|7B|7D|40|20)/gi, (m, h) => {
                    if (h === "20") return "+";
                    if (h === "7B" || h === "7D") return m;
                    return decodeURIComponent(m);
                }),
        );
    }
    return parts.length ? "?" + parts.join("&") : "";
}

export function href(path, params = {}) {
    return base + path + search(params);
}

export function go(path, params, {replace = false} = {}) {
    const url = href(path, params);
    if (url === location.pathname + location.search) return;
    history[replace ? "replaceState" : "pushState"](null, "", url);
    route.value = read();
}

// Changes some parameters of the current view. Empty values are removed.
export function patch(changes, options) {
    const {path, params} = route.peek();
    go(path, {...params, ...changes}, options);
}

// Handles ordinary clicks on our own links without loading a new page.
export function catchLinks(root) {
    root.addEventListener("click", (e) => {
        const a = e.target.closest?.("a[href]");
        if (!a || e.defaultPrevented || e.button || e.metaKey || e.ctrlKey || e.shiftKey || e.altKey) return;
        if (a.target || a.hasAttribute("download") || a.origin !== location.origin || !a.pathname.startsWith(base))
            return;
        const first = a.pathname.slice(base.length).split("/")[0];
        if (["api", "assets", "oidc", "docs", "top", "graph", "peek", "source", "disasm", "download"].includes(first))
            return;
        e.preventDefault();
        if (a.href !== location.href) {
            history.pushState(null, "", a.href);
            route.value = read();
        }
        scrollTo(0, 0);
    });
    addEventListener("popstate", () => (route.value = read()));
}
