// SPDX-License-Identifier: Apache-2.0
// Details of one frame: the tooltip under the pointer and the line below the picture.
import {useLayoutEffect, useRef} from "preact/hooks";
import {kindBadge, whyUnnamed} from "../lib/names.js";
import {changeText, comparison} from "../lib/diff.js";
import {amount, cost, digitsOf, gauge, number, percent, rate, samplesOf, samplesText} from "../lib/units.js";
import {follow} from "../parts/menu.js";

// Rows of [label, value] about a node.
function facts(l, i, {cover, diff, inverted}) {
    const {tree} = l;
    const {unit, type} = tree;
    if (tree.columns > 1)
        return changes(
            tree.total[0][i],
            tree.total[1][i],
            diff ?? comparison({mode: "share", unit, type, whole: [tree.total[0][0], tree.total[1][0]]}),
        );
    const t = tree.total[0],
        whole = t[0] || 1,
        n = samplesOf(t[i], unit, cover?.rate),
        digits = digitsOf(n);
    const own = samplesOf(tree.self[0][i], unit, cover?.rate);
    const r = gauge(type) ? "" : rate(t[i], unit, type, cover?.ns, digits);
    return [
        [
            "total",
            `${percent(t[i] / whole, undefined, digits)} · ${amount(t[i], unit, type, digits)}${r ? ` · ${r}` : ""}`,
        ],
        ...(inverted
            ? []
            : [
                  [
                      "self",
                      `${percent(tree.self[0][i] / whole, undefined, digitsOf(own))} · ` +
                          `${amount(tree.self[0][i], unit, type, digitsOf(own))}`,
                  ],
              ]),
        ...(n === undefined ? [] : [["samples", `${number(Math.round(n))} at ${cover.rates.join("–")} Hz`]]),
    ];
}

function changes(before, now, diff) {
    const x = diff.of(before, now),
        digits = [before, now].map((v) => digitsOf(diff.samples(v)));
    const count = (v) => (diff.period ? ` · ${samplesText(diff.samples(v))}` : "");
    return [
        ["before", diff.show(before, 0, digits[0]) + count(before)],
        ["now", diff.show(now, 1, digits[1]) + count(now)],
        ["change", x.significant || !x.known ? changeText(x) : `${changeText(x)}: not significant`],
    ];
}

function place(frames, f) {
    const file = frames.fileOf(f),
        line = frames.line[f],
        map = frames.mapping(f);
    return [file && file + (line ? ":" + line : ""), map].filter(Boolean).join(" · ");
}

export function Tooltip({hover, l, cover, diff, inverted, rootName}) {
    const el = useRef(null);
    const h = hover.value;
    useLayoutEffect(() => {
        if (!h || !el.current) return;
        const {offsetWidth: w, offsetHeight: t} = el.current;
        const x = Math.min(h.x + 14, innerWidth - w - 8),
            y = h.y + 18 + t > innerHeight ? h.y - t - 12 : h.y + 18;
        el.current.style.transform = `translate(${Math.max(4, x)}px, ${Math.max(4, y)}px)`;
    });
    if (!h || h.node >= l.tree.n) return null;
    const i = h.node,
        {tree} = l,
        f = tree.frame[i];
    if (tree.isFolded(i))
        return (
            <div class="tip" ref={el}>
                <b>{number(tree.folded?.[i] ?? 0)} small frames</b>
                <p>
                    Each too narrow to draw; together{" "}
                    {percent(l.w[i] / l.w[0], undefined, digitsOf(samplesOf(tree.total[0][i], tree.unit, cover?.rate)))}
                    . Click to look inside.
                </p>
            </div>
        );
    const why = i ? whyUnnamed(tree.frames, f) : null;
    const badge = i ? kindBadge(tree.frames, f) : "";
    return (
        <div class="tip" ref={el}>
            <b>{i ? tree.name(i) : (rootName ?? "all")}</b>
            {badge && (
                <>
                    {" "}
                    <span class="badge">{badge}</span>
                </>
            )}
            {i && tree.frames.inlined(f) ? (
                <>
                    {" "}
                    <span class="badge">inlined</span>
                </>
            ) : (
                ""
            )}
            {i ? <div class="muted path">{place(tree.frames, f)}</div> : ""}
            <dl>
                {facts(l, i, {cover, diff, inverted}).map(([k, v]) => (
                    <>
                        <dt>{k}</dt>
                        <dd>{v}</dd>
                    </>
                ))}
            </dl>
            {why && <p class="why">{why.why}</p>}
        </div>
    );
}

export function Details({l, node, cover, diff, inverted, actions, zoomed, rootName, status, onReset}) {
    const {tree} = l,
        f = tree.frame[node];
    const list = node && actions && !tree.isFolded(node) ? actions(node, tree).filter((a) => a.bar) : [];
    const why = node && !tree.isFolded(node) ? whyUnnamed(tree.frames, f) : null;
    const money = tree.columns === 1 ? cost(tree.total[0][node], tree.type, cover?.ns, status) : "";
    return (
        <div class="details">
            <span class="details-name" title={node ? tree.name(node) : ""}>
                {node ? tree.name(node) : (rootName ?? "all")}
            </span>
            {node && !tree.isFolded(node) && kindBadge(tree.frames, f) ? (
                <span class="badge">{kindBadge(tree.frames, f)}</span>
            ) : (
                ""
            )}
            <span class="num details-facts">
                {facts(l, node, {cover, diff, inverted}).map(([k, v]) => (
                    <span>
                        <i>{k}</i> {v}
                    </span>
                ))}
                {money && (
                    <span>
                        <i>cost</i> {money}
                    </span>
                )}
            </span>
            {why && (
                <span class="why" title={why.why + (why.fix ? " Fix: " + why.fix : "")}>
                    no name: {why.why}
                    {why.fix ? (
                        <>
                            {" "}
                            <code>{why.fix}</code>
                        </>
                    ) : (
                        ""
                    )}
                </span>
            )}
            <span class="grow" />
            {list.map((a) =>
                a.href ? (
                    <a
                        class="button small"
                        href={a.href}
                        onClick={follow(a)}
                        {...(a.out ? {target: "_blank", rel: "noopener noreferrer"} : {})}
                    >
                        {a.label}
                    </a>
                ) : (
                    <button class="small" onClick={a.run}>
                        {a.label}
                    </button>
                ),
            )}
            {zoomed ? (
                <button class="small" onClick={onReset}>
                    Zoom out
                </button>
            ) : (
                ""
            )}
        </div>
    );
}
