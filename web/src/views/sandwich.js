// SPDX-License-Identifier: Apache-2.0
// Callers above, callees below one function.
import {useMemo} from "preact/hooks";
import {apiUrl, coverageOf, useData} from "../lib/api.js";
import {foldPlumbing} from "../lib/names.js";
import {treeOfJson} from "../lib/tree.js";
import {amount, digitsOf, gauge, percent, rate, samplesOf, samplesText} from "../lib/units.js";
import {patch} from "../lib/url.js";
import {Flame} from "../flame/flame.js";
import {frameActions} from "../parts/flamepane.js";
import {Combo} from "../parts/combo.js";
import {useStatus} from "../parts/shell.js";
import {Box, Failed, fresh, Loading} from "../parts/states.js";

// The functions to choose from; the answer also has the total of the whole selection.
export const useFunctions = (q) => useData(apiUrl("top", {...q, sort: "total", limit: 500}));

export function FunctionPicker({p, top}) {
    const names = useMemo(() => [...new Set((top.data?.rows ?? []).map((r) => r.name).filter(Boolean))], [top.data]);
    return (
        <div class="function-bar">
            <label>
                function{" "}
                <Combo
                    label="function"
                    placeholder="name of a function"
                    free
                    size={52}
                    value={p.fn ?? ""}
                    options={names}
                    onPick={(fn) => patch({fn, file: ""})}
                />
            </label>
        </div>
    );
}

// The stacks above and below it.
export const useCallers = (p, q, range) =>
    useData(p.fn ? apiUrl("callers", {...q, function: p.fn, max_nodes: 6000}) : null, {live: range.live});

// Each tree has its covered time, the whole answer the sampling rate.
export const coverOf = (callers) => {
    const {rate, rates} = coverageOf(callers);
    return {...coverageOf(callers?.callees), rate, rates};
};

// The function with the most self time, which is shown until another one is chosen. lines: one with a file is
// preferred.
function hottest(top, lines) {
    const rows = (top.data?.rows ?? []).filter((r) => r.name && !/^[/[]/.test(r.name)),
        heavy = (list) => list.reduce((a, b) => (a && a.self >= b.self ? a : b), null);
    return (lines && heavy(rows.filter((r) => r.file)) ? heavy(rows.filter((r) => r.file)) : heavy(rows))?.name;
}

export function withHottest(p, top, lines = false) {
    const fn = p.fn || p.file ? "" : hottest(top, lines);
    return fn ? {...p, fn, hottest: true} : p;
}

// Without the frames that only start a program, as in the flame graph.
function folded(json, p) {
    const t = treeOfJson(json);
    return p.frames === "all" ? t : foldPlumbing(t);
}

// bare: without the field to choose a function.
export function Sandwich({p: given, q, range, bare = false}) {
    const status = useStatus().data,
        top = useFunctions(q),
        p = bare ? given : withHottest(given, top);
    const data = useCallers(p, q, range);
    const trees = useMemo(
        () => data.data && {callers: folded(data.data.callers, p), callees: folded(data.data.callees, p)},
        [data.data, p.frames],
    );
    const cover = coverOf(data.data);
    const actions = (node, t) => frameActions(node, t, p, status, "").filter((a) => a.hint !== "Enter");
    let body;
    if (!p.fn && !top.data && !top.error) body = <Loading what="functions" />;
    else if (!p.fn)
        body = (
            <Box title="Pick a function">
                <p>Choose one above, or a row of the table, or “Callers and callees” in the menu of a frame.</p>
            </Box>
        );
    else if (data.error) body = <Failed error={data.error} reload={data.reload} />;
    else if (!trees) body = <Loading what="callers and callees" />;
    else if (!(trees.callees.total[0][0] > 0))
        body = (
            <Box title="Not in this selection">
                <p>
                    No sample in this time range contains <code>{p.fn}</code>.
                </p>
            </Box>
        );
    else {
        const t = trees.callees,
            v = t.total[0][0],
            self = t.self[0][0],
            n = samplesOf(v, t.unit, cover.rate),
            d = digitsOf(n);
        const facts = [
            amount(v, t.unit, t.type, d),
            cover.ns && !gauge(t.type) && rate(v, t.unit, t.type, cover.ns, d),
            `self ${amount(self, t.unit, t.type, digitsOf(samplesOf(self, t.unit, cover.rate)))}`,
            `${percent(v / data.data.total, undefined, d)} of all`,
            n !== undefined && `${samplesText(n)} at ${cover.rates.join("–")} Hz`,
        ];
        body = (
            <>
                <p class="num sandwich-sum">
                    <b>{p.fn}</b>{" "}
                    {p.hottest && (
                        <>
                            <span class="badge">the most self time</span>{" "}
                        </>
                    )}
                    {fresh(facts.filter(Boolean).join(" · "))}
                </p>
                <div class="sandwich">
                    <section aria-label="callers">
                        <h2>callers</h2>
                        <Flame
                            tree={trees.callers}
                            flip={true}
                            search={p.search ?? ""}
                            cover={cover}
                            actions={actions}
                            label="Callers"
                            inverted
                            rootName={p.fn}
                        />
                    </section>
                    <section aria-label="callees">
                        <h2>callees</h2>
                        <Flame
                            tree={trees.callees}
                            search={p.search ?? ""}
                            cover={cover}
                            actions={actions}
                            label="Callees"
                            rootName={p.fn}
                        />
                    </section>
                </div>
            </>
        );
    }
    return (
        <div class="column">
            {!bare && <FunctionPicker p={p} top={top} />}
            {body}
        </div>
    );
}
