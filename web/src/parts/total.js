// SPDX-License-Identifier: Apache-2.0
// How much a selection is: amount, rate, samples and cost.
import {amount, clock, cost, digitsOf, duration, gauge, rate, samplesOf, samplesText} from "../lib/units.js";
import {patch} from "../lib/url.js";
import {named} from "../views/explorepane.js";

// "of the whole selection; 12.3 min are covered by profiles"
export const coverTitle = (cover) =>
    cover?.ns > 0 ? `of the whole selection; ${duration(cover.ns)} are covered by profiles` : "of the whole selection";

export function Total({t, cover, status, column = 0, last, atEnd}) {
    const {type, unit} = t,
        v = t.total[column][0],
        n = samplesOf(v, unit, cover?.rate),
        digits = digitsOf(n);
    const money = cost(v, t.type, cover?.ns, status),
        shown = (x) => amount(x, t.unit, t.type);
    if (last)
        return (
            <span key={[v, last.mean, last.max, atEnd].join()}>
                {atEnd ? (
                    <>
                        <b>{shown(v)}</b> in use at {clock(last.atMs, {seconds: false})} · mean {shown(last.mean)}
                    </>
                ) : (
                    <>
                        <b>{shown(v)}</b> in use on average
                    </>
                )}{" "}
                · maximum {shown(last.max)}{" "}
                <button class="small quiet" onClick={() => patch({of: atEnd ? "mean" : "", zoom: ""})}>
                    {atEnd ? "Show the mean" : "Show the end"}
                </button>
            </span>
        );
    const text = [
            amount(v, unit, type, digits),
            cover?.ns && !gauge(type) && rate(v, unit, type, cover.ns, digits),
            n !== undefined && `${samplesText(n)} at ${cover.rates.join("–")} Hz`,
            money,
        ]
            .filter(Boolean)
            .join(" · "),
        share = named(t);
    return (
        <span key={text + share}>
            {text}
            {share && (
                <>
                    {" "}
                    · <span title="of what is drawn, by weight">{share}</span>
                </>
            )}
        </span>
    ); // as fresh()
}
