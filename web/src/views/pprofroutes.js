// SPDX-License-Identifier: Apache-2.0
// pprof's own routes and parameters (/top, /flamegraph, /peek?f=…, /source?f=…) as Explore's: links into `go tool pprof
// -http` keep working with `wick pprof -http`.
const view = {flamegraph: "", flamegraph2: "", top: "table", graph: "graph", peek: "sandwich", source: "source", disasm: "disasm", ui: ""};
const renamed = {f: "focus", i: "ignore", h: "hide", si: "si", nf: "nf", ef: "ef", n: "boxes"};

export function fromPprof({path, params}) {
    if (!(path in view)) return null;
    const out = {view: view[path]};
    for (const [k, v] of Object.entries(params)) out[renamed[k] ?? k] = v;
    // In these views f names the function to look at.
    if ((path === "peek" || path === "source" || path === "disasm") && params.f) {
        out.fn = params.f.replace(/^\^|\$$/g, "").replace(/\\(.)/g, "$1");
        delete out.focus;
    }
    return {path: "explore", params: out};
}
