// SPDX-License-Identifier: Apache-2.0
// What is said above a difference: the legend of its colours, and the change of the whole.
import {html} from "htm/preact";
import {diffColor, themeOf} from "../lib/color.js";
import {changeText, comparison} from "../lib/diff.js";
import {amount, digitsOf, samplesText} from "../lib/units.js";

// known: whether the number of samples is known, which tells what is significant.
export function DiffLegend({known = true}) {
    const theme = themeOf();
    return html`<span class="legend" role="img" aria-label=${`blue: less than before, orange: more than before, grey: no ${known ? "significant " : ""}change`}><span>less</span>${[-0.8, -0.3, -0.06, 0, 0.06, 0.3, 0.8].map((d) => html`<i key=${d} style=${{background: diffColor(d, theme)}}></i>`)}<span>more</span><span>· grey: ${known ? "not significant" : "no change"}</span></span>`;
}

// The change of the whole, by the mode that is chosen, with its uncertainty.
export function DiffSum({t, cover, mode}) {
    const [a, b] = [t.total[0][0], t.total[1]?.[0] ?? 0];
    const diff = comparison({mode, unit: t.unit, type: t.type, cover, whole: [a, b]});
    if (mode === "share") return html`<span class="num total" title=${`${amount(a, t.unit, t.type)} before, ${amount(b, t.unit, t.type)} now`}>each side is 100 %: ${amount(a, t.unit, t.type)} → ${amount(b, t.unit, t.type)}</span>`;
    const x = diff.of(a, b), tell = x.significant ? (x.d > 0 ? "more" : "less") : "muted";
    const count = diff.period ? `, ${samplesText(diff.samples(a))} → ${samplesText(diff.samples(b))} at ${cover.rates.join("–")} Hz` : "";
    return html`<span class="num total" title=${`${amount(a, t.unit, t.type)} before, ${amount(b, t.unit, t.type)} now${count}`}>${diff.show(a, 0, digitsOf(diff.samples(a)))} → ${diff.show(b, 1, digitsOf(diff.samples(b)))} <span class=${tell}>${changeText(x)}</span></span>`;
}
