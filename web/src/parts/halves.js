// SPDX-License-Identifier: Apache-2.0
// What uses most CPU, and what changed most in a range: the later half against the earlier one.
import {apiUrl, coverageOf, useData} from "../lib/api.js";
import {changeText, comparison, modeOf} from "../lib/diff.js";
import {distinctNames} from "../lib/names.js";
import {settledNow, startOf} from "../lib/time.js";
import {amount, digitsOf, percent, samplesOf} from "../lib/units.js";
import {href} from "../lib/url.js";
import {fresh, Loaded} from "./states.js";
import {Bar} from "./table.js";

const ROWS = 10;

export function Biggest({at, live}) {
    const top = useData(apiUrl("top", {query: "cpu", ...at, sort: "self", limit: ROWS}), {live});
    return (
        <section class="panel tall" aria-label="biggest consumers">
            <h2>
                Biggest consumers <span class="muted">functions by their own CPU time</span>
            </h2>
            <Loaded
                of={top}
                what="functions"
                empty={(d) => !d.rows.length}
                nothing={<p class="muted foot">No CPU profiles in this range.</p>}
            >
                {(d, names = distinctNames(d.rows)) => (
                    <table>
                        <caption class="sr">functions by own CPU time</caption>
                        <thead>
                            <tr>
                                <th scope="col">function</th>
                                <th scope="col" class="num">
                                    self
                                </th>
                                <th scope="col" class="num">
                                    share
                                </th>
                            </tr>
                        </thead>
                        <tbody>
                            {d.rows
                                .filter((r) => r.self > 0)
                                .map((r) => {
                                    const digits = digitsOf(samplesOf(r.self, d.unit, coverageOf(d).rate));
                                    return (
                                        <tr>
                                            <td class="wide">
                                                <a
                                                    class="fn"
                                                    title={r.name}
                                                    href={href("explore", {
                                                        query: "cpu",
                                                        from: at.from,
                                                        to: at.to === "now" ? "" : at.to,
                                                        view: "sandwich",
                                                        fn: r.name,
                                                    })}
                                                >
                                                    {names.get(r)}
                                                </a>
                                            </td>
                                            <td class="num">{amount(r.self, d.unit, d.type, digits)}</td>
                                            <td class="num">
                                                <Bar share={r.self / d.total}>
                                                    {percent(r.self / d.total, undefined, digits)}
                                                </Bar>
                                            </td>
                                        </tr>
                                    );
                                })}
                        </tbody>
                    </table>
                )}
            </Loaded>
        </section>
    );
}

// Compares the later half of the range with the earlier one, per covered second. Changes within the sampling noise
// are left out.
export function Changed({range}) {
    const end = range.live ? settledNow() : range.toMs,
        start = startOf(range),
        every = range.toMs - range.fromMs > 600e3 ? 60 : 10,
        whole = (ms) => Math.floor(ms / 1000 / every) * every; // one request a minute, a few while there is little
    const to = range.live ? whole(end) : Math.floor(range.toMs / 1000),
        young = start > range.fromMs && to - start / 1000 > 20;
    const from = young ? Math.floor(start / 1000) : whole(range.live ? end - (range.toMs - range.fromMs) : start),
        mid = Math.floor((from + to) / 2);
    const q = {
        query: "cpu",
        base_query: "cpu",
        base_from: String(from),
        base_to: String(mid),
        from: String(mid),
        to: String(to),
    };
    const top = useData(apiUrl("top", {...q, sort: "delta", limit: 60}));
    const rows = (d) => {
        const cover = coverageOf(d),
            diff = comparison({mode: modeOf({}, d.type, cover), unit: d.unit, type: d.type, cover, whole: d.total});
        return {
            diff,
            list: d.rows
                .map((r) => ({r, x: diff.of(r.self[0], r.self[1])}))
                .filter(({x}) => x.significant)
                .sort((a, b) => Math.abs(b.x.d) - Math.abs(a.x.d))
                .slice(0, ROWS),
        };
    };
    return (
        <section class="panel tall" aria-label="what changed most">
            <h2>
                What changed most <span class="muted">later half against earlier half, per second</span>
            </h2>
            <Loaded
                of={top}
                what="changes"
                empty={(d) => !d.rows.length || !d.total[0] || !d.total[1]}
                nothing={<p class="muted foot">Only one half of this time range has profiles: nothing to compare.</p>}
            >
                {(d) => {
                    const {diff, list} = rows(d),
                        names = distinctNames(list.map(({r}) => r));
                    if (!list.length) return <p class="muted foot">Nothing changed by more than the sampling noise.</p>;
                    return (
                        <table>
                            <caption class="sr">functions whose rate changed most</caption>
                            <thead>
                                <tr>
                                    <th scope="col">function</th>
                                    <th scope="col" class="num">
                                        before
                                    </th>
                                    <th scope="col" class="num">
                                        now
                                    </th>
                                    <th scope="col" class="num change">
                                        change
                                    </th>
                                </tr>
                            </thead>
                            <tbody>
                                {list.map(({r, x}) => (
                                    <tr>
                                        <td class="wide">
                                            <a
                                                class="fn"
                                                title={r.name}
                                                href={href("compare", {
                                                    ...q,
                                                    search: "^" + r.name.replace(/[.*+?^${}()|[\]\\]/g, "\\$&") + "$",
                                                })}
                                            >
                                                {names.get(r)}
                                            </a>
                                        </td>
                                        <td class="num">
                                            {fresh(diff.show(r.self[0], 0, digitsOf(diff.samples(r.self[0]))))}
                                        </td>
                                        <td class="num">
                                            {fresh(diff.show(r.self[1], 1, digitsOf(diff.samples(r.self[1]))))}
                                        </td>
                                        <td class={"num change " + (x.d > 0 ? "more" : "less")} title={changeText(x)}>
                                            {fresh(changeText(x))}
                                        </td>
                                    </tr>
                                ))}
                            </tbody>
                        </table>
                    );
                }}
            </Loaded>
        </section>
    );
}
