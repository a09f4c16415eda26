// SPDX-License-Identifier: Apache-2.0
// What is said above a difference: the legend of its colours, and the change of the whole.
import {useMemo} from "preact/hooks";
import {colorings, diffColor, legendOf, themeOf, warm} from "../lib/color.js";
import {changeClass, changeText, comparison} from "../lib/diff.js";
import {amount, digitsOf, percent, samplesText} from "../lib/units.js";

// What the colours of a flame graph stand for; a click on an entry leaves only that one coloured. lit: the entry
// that is.
/** @param {{tree: import("../lib/tree.js").Tree, by: string, lit: string, onLit: (key: string) => void,
 *    mine?: (frames: import("../lib/tree.js").Frames, f: number) => boolean}} props */
export function ColorLegend({tree, by, mine, lit, onLit}) {
    const theme = themeOf(),
        list = useMemo(() => (by === "self" ? [] : legendOf(tree, by, theme, mine)), [tree, by, theme, mine]);
    const title = colorings.find(([v]) => v === by)?.[1] ?? by;
    return (
        <div class="color-legend">
            <span class="muted">colour: {title}</span>
            {by === "self" ? (
                <span class="legend">
                    little
                    {[0, 0.25, 0.5, 0.75, 1].map((k) => (
                        <i key={k} style={{background: warm(k, theme)}} />
                    ))}
                    much
                </span>
            ) : (
                ""
            )}
            {list.map(({key, share, color}) => (
                <button
                    key={key}
                    class="quiet"
                    aria-pressed={lit === key}
                    title={
                        `${key}: ${percent(share, undefined, 2)} of it as self time. A click leaves only it ` +
                        "coloured."
                    }
                    onClick={() => onLit(lit === key ? "" : key)}
                >
                    <i style={{background: color}} />
                    <span class="fn">{shortKey(key)}</span>
                </button>
            ))}
        </div>
    );
}

const shortKey = (key) => key.slice(key.replace(/[/]$/, "").lastIndexOf("/") + 1);

// known: whether the number of samples is known, which tells what is significant.
export function DiffLegend({known = true}) {
    const theme = themeOf();
    return (
        <span
            class="legend"
            role="img"
            aria-label={
                "blue: less than before, orange: more than before, grey: no " + `${known ? "significant " : ""}change`
            }
        >
            <span>less</span>
            {[-0.8, -0.3, -0.06, 0, 0.06, 0.3, 0.8].map((d) => (
                <i key={d} style={{background: diffColor(d, theme)}} />
            ))}
            <span>more</span>
            <span>· grey: {known ? "not significant" : "no change"}</span>
        </span>
    );
}

// The change of the whole, by the mode that is chosen, with its uncertainty.
export function DiffSum({t, cover, mode}) {
    const [a, b] = [t.total[0][0], t.total[1]?.[0] ?? 0];
    const diff = comparison({mode, unit: t.unit, type: t.type, cover, whole: [a, b]});
    if (mode === "share")
        return (
            <span class="num total" title={`${amount(a, t.unit, t.type)} before, ${amount(b, t.unit, t.type)} now`}>
                each side is 100 %: {amount(a, t.unit, t.type)} → {amount(b, t.unit, t.type)}
            </span>
        );
    const x = diff.of(a, b),
        tell = changeClass(x);
    const count = diff.period
        ? `, ${samplesText(diff.samples(a))} → ${samplesText(diff.samples(b))} at ${cover.rates.join("–")} Hz`
        : "";
    return (
        <span class="num total" title={`${amount(a, t.unit, t.type)} before, ${amount(b, t.unit, t.type)} now${count}`}>
            {diff.show(a, 0, digitsOf(diff.samples(a)))} → {diff.show(b, 1, digitsOf(diff.samples(b)))}{" "}
            <span class={tell}>{changeText(x)}</span>
        </span>
    );
}
