// SPDX-License-Identifier: Apache-2.0
// The regression card: what a deploy made worse or better according to the server's verdict, with the function and
// the line that explain most of it, two small flame graphs, and what it costs.
import {useEffect, useMemo, useRef, useState} from "preact/hooks";
import {apiUrl, useData} from "../lib/api.js";
import {diffColor, textColor, themeOf} from "../lib/color.js";
import {shortName, shortVersion} from "../lib/names.js";
import {serviceQuery} from "../lib/selector.js";
import {settledNow} from "../lib/time.js";
import {colored} from "../lib/syntax.js";
import {clock, rate, yearly} from "../lib/units.js";
import {href} from "../lib/url.js";
import {layout} from "../flame/layout.js";
import {Painter, ROW} from "../flame/draw.js";
import {shape} from "./flamepane.js";

const ROWS = 6,
    EARLIER = 3600e9,
    STRONG = 20; // points that have the full colour

// The latest versions that were deployed in a list of `deploys`, newest first: [{now, before}].
export function deploysOf(list) {
    return list
        .filter((d) => d.latest && d.deployed)
        .map((now) => ({now, before: list.find((d) => d.service === now.service && d.version === now.previous)}))
        .filter((d) => d.before)
        .sort((a, b) => Number(b.now.since) - Number(a.now.since));
}

// Both sides of a deploy: the new version since its first sample, the old one for an hour before. Whole seconds,
// with the profiles that start in the first and in the last of them.
export function sidesOf({now, before}) {
    const since = Number(now.since),
        of = (v) => serviceQuery("cpu", now.service, {name: "service.version", op: "=", value: v});
    const from = (ns) => String(Math.floor(ns / 1e9)),
        to = (ns) => String(Math.ceil(ns / 1e9));
    return {
        query: of(now.version),
        from: from(since),
        to: to(Math.max(settledNow() * 1e6, since + 20e9)),
        base_query: of(before.version),
        base_from: from(Math.max(Number(before.first), since - EARLIER)),
        base_to: to(Math.min(Number(before.last) + 60e9, since + EARLIER)),
    };
}

// The last of the frames that nearly everything of both columns is in: [its node, its depth].
function commonEnd(tree) {
    const {first, kids} = tree.children(),
        [a, b] = tree.total;
    let at = 0,
        depth = 0;
    for (;;) {
        const next = Array.from(kids.subarray(first[at], first[at + 1])).find(
            (k) => a[k] >= 0.9 * a[0] && b[k] >= 0.9 * b[0] && !tree.isFolded(k),
        );
        if (next === undefined || first[next] === first[next + 1]) return [at, depth];
        at = next;
        depth++;
    }
}

// One column of a diff, drawn small: the first rows of the flame graph below what is common to all. rows:
// functions that changed by more than chance, with their points; they have a colour.
function MiniFlame({tree, column, rows, label}) {
    const el = useRef(null),
        theme = themeOf();
    useEffect(() => {
        const canvas = el.current,
            p = new Painter(canvas);
        const l = layout(tree, {scale: column ? [0, 1] : [1, 0]}),
            [end, depth] = commonEnd(tree),
            ratio = devicePixelRatio || 1;
        p.resize(canvas.clientWidth || 300, ROWS * ROW);
        p.draw({
            layout: l,
            x0: 0,
            x1: 1,
            top: depth * ROW,
            flip: false,
            theme,
            text: textColor(theme),
            background: theme === "dark" ? "#161514" : "#ffffff",
            dim: theme === "dark" ? "#262422" : "#efedea",
            faint: theme === "dark" ? "#4a4641" : "#cfc9c2",
            rootName: label,
            color: (i) => diffColor(Math.max(-1, Math.min(1, (rows.get(tree.name(i)) ?? 0) / STRONG)), theme),
        });
        if (!depth) return; // else the first row is the last common frame: it also says which side this is
        const x = canvas.getContext("2d");
        x.setTransform(ratio, 0, 0, ratio, 0, 0);
        x.fillStyle = diffColor(0, theme);
        x.fillRect(0, 0, canvas.clientWidth, ROW - 1);
        x.fillStyle = textColor(theme);
        x.font = "12px system-ui, sans-serif";
        x.textBaseline = "middle";
        x.fillText(`${label} · ${shortName(tree.name(end))}`, 4, ROW / 2, canvas.clientWidth - 8);
    }, [tree, column, rows, theme]);
    return (
        <canvas
            class="mini"
            ref={el}
            role="img"
            aria-label={`flame graph of ${label}`}
            style={{height: ROWS * ROW + "px"}}
        />
    );
}

// The text of the line that changed, where the server has its source; undefined until that is known.
function useSource(cause) {
    const {data, error} = useData(cause?.file ? apiUrl("source", {file: cause.file, missing: "ok"}) : null);
    return !cause?.file || error ? "" : data && (data.text?.split("\n")[cause.line - 1] ?? "").trim();
}

function Line({q, cause, text}) {
    if (!cause.file) return null;
    const place = `${cause.file.slice(cause.file.lastIndexOf("/") + 1)}:${cause.line}`;
    return (
        <>
            {" "}
            at{" "}
            <a
                href={href("explore", {
                    query: q.query,
                    from: q.from,
                    to: q.to,
                    view: "source",
                    fn: cause.function,
                    file: cause.file,
                })}
            >
                {place}
            </a>
            {text ? (
                <>
                    {" "}
                    <code class="source-line">{colored(text, cause.file)}</code>
                </>
            ) : (
                ""
            )}
        </>
    );
}

// The card as a picture in the clipboard: its sentence and both flame graphs.
function copyPicture(card, sentence) {
    const [a, b] = card.querySelectorAll("canvas"),
        out = document.createElement("canvas"),
        ratio = devicePixelRatio || 1,
        x = out.getContext("2d");
    const style = getComputedStyle(card);
    out.width = a.width + b.width + 24 * ratio;
    out.height = a.height + 64 * ratio;
    x.fillStyle = style.backgroundColor;
    x.fillRect(0, 0, out.width, out.height);
    x.drawImage(a, 8 * ratio, 56 * ratio);
    x.drawImage(b, a.width + 16 * ratio, 56 * ratio);
    x.fillStyle = style.color;
    x.font = `600 ${14 * ratio}px system-ui, sans-serif`;
    x.fillText(sentence, 8 * ratio, 24 * ratio, out.width - 16 * ratio);
    x.font = `${11 * ratio}px system-ui, sans-serif`;
    x.fillText(
        `before · now (orange: more, blue: less) · ${location.origin}`,
        8 * ratio,
        44 * ratio,
        out.width - 16 * ratio,
    );
    return new Promise((done) =>
        out.toBlob((blob) => done(navigator.clipboard.write([new ClipboardItem({"image/png": blob})]))),
    );
}

function CopyButton({label, act}) {
    const [done, set] = useState("");
    const run = () =>
        Promise.resolve()
            .then(act)
            .then(
                () => set("copied"),
                () => set("not allowed here"),
            )
            .then(() => setTimeout(() => set(""), 1500));
    return (
        <button class="small" onClick={run}>
            {done || label}
        </button>
    );
}

// Both sides of a verdict, as parameters of flame and Compare: whole seconds, with all that was compared.
function comparedBy(v) {
    const of = (version) => serviceQuery("cpu", v.service, {name: "service.version", op: "=", value: version});
    const from = (ns) => String(Math.floor(Number(ns) / 1e9)),
        to = (ns) => String(Math.ceil(Number(ns) / 1e9));
    return {
        query: of(v.version),
        from: from(v.from),
        to: to(v.to),
        base_query: of(v.previous),
        base_from: from(v.baseline_from),
        base_to: to(v.baseline_to),
    };
}

const minutes = (from, to) =>
    to - from >= 120e9 ? `${Math.round((to - from) / 60e9)} min` : `${Math.round((to - from) / 1e9)} s`;

// What the verdict rests on, in a line.
const basis = (v) =>
    `${v.normalised === "request" ? "Per request" : "Per CPU second"}, ` +
    `${minutes(v.from, v.to)} of ${shortVersion(v.version)} against ` +
    `${minutes(v.baseline_from, v.baseline_to)} of ${shortVersion(v.previous)}` +
    `${v.compared === "overlap" ? " at the same time" : " before it"}; 99 % confidence.`;

// v: an answer of `verdict` that is worse or better. The card shows what it says and computes nothing; all of it
// appears at once.
export function RegressionCard({v, status}) {
    const card = useRef(null),
        last = useRef(null),
        q = useMemo(() => comparedBy(v), [v]);
    const flame = useData(apiUrl("flame", {...q, by: "filefunction", max_nodes: 400, format: "binary"})),
        text = useSource(v.cause);
    const held = last.current && card.current?.contains(document.activeElement); // a link that has the focus keeps it
    if (!held && flame.data && text !== undefined) last.current = {v, q, text, tree: shape(flame.data, {stem: "all"})};
    return last.current ? (
        <Card {...last.current} card={card} status={status} />
    ) : (
        <article class="panel regression">
            <h2>
                {v.service} {shortVersion(v.version)}
            </h2>
            <p class="muted">{flame.error?.message ?? "Comparing…"}</p>
        </article>
    );
}

function Card({v, q, text, tree, card, status}) {
    const link = href("compare", q),
        at = clock(Number(v.deployed) / 1e6, {seconds: false}),
        tone = v.verdict === "worse" ? "more" : "less";
    const name = (
            <a href={link}>
                {v.service} {shortVersion(v.version)}
            </a>
        ),
        rates = v.cores.map((c) => rate(c, "nanoseconds", "cpu", 1)).join(" → ");
    const money = status?.pricePerCoreHour && yearly(Math.abs(v.cores_change), status);
    const rows = useMemo(() => new Map(v.drift.filter((r) => r.significant).map((r) => [r.function, r.points])), [v]);
    return (
        <article class="panel regression" ref={card}>
            <div class="says" key={v.sentence}>
                <h2>
                    {name} <b class={tone}>{v.headline}</b> <span class="num">({v.interval})</span>{" "}
                    <span class="muted">
                        since {at}
                        {v.rollback ? ", rolled back" : ""}
                    </span>
                </h2>
                <p class="num">
                    {rates}
                    {v.note ? `, since ${v.note}` : ""}
                    {v.cause ? (
                        <>
                            ; mostly in{" "}
                            <a
                                class="fn"
                                title={v.cause.function}
                                href={href("explore", {
                                    query: q.query,
                                    from: q.from,
                                    to: q.to,
                                    view: "sandwich",
                                    fn: v.cause.function,
                                })}
                            >
                                {shortName(v.cause.function)}
                            </a>
                            <Line q={q} cause={v.cause} text={text} />
                        </>
                    ) : (
                        ""
                    )}
                    {money ? (
                        <>
                            ; about {money} {tone} at this load
                        </>
                    ) : (
                        ""
                    )}
                </p>
                <p class="verdict muted" title={v.sentence}>
                    {basis(v)}
                </p>
            </div>
            <div class="minis">
                <MiniFlame tree={tree} column={0} rows={rows} label={`before: ${shortVersion(v.previous)}`} />
                <MiniFlame tree={tree} column={1} rows={rows} label={`now: ${shortVersion(v.version)}`} />
            </div>
            <p class="actions">
                <a class="button small main" href={link}>
                    Compare
                </a>{" "}
                <CopyButton
                    label="Copy link"
                    act={() => navigator.clipboard.writeText(new URL(link, location.href).href)}
                />{" "}
                <CopyButton
                    label="Copy image"
                    act={() =>
                        copyPicture(
                            card.current,
                            `${v.service} ${shortVersion(v.version)} ${v.headline} (${v.interval}) since ${at}`,
                        )
                    }
                />
            </p>
        </article>
    );
}
