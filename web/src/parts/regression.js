// SPDX-License-Identifier: Apache-2.0
// The regression card: what the latest deploy of a service changed, in one sentence, with the function and the line that
// explain most of it, two small flame graphs, and what it costs. Rates are per covered second.
import {html} from "htm/preact";
import {useEffect, useMemo, useRef, useState} from "preact/hooks";
import {apiUrl, coverageOf, useData} from "../lib/api.js";
import {diffColor, textColor, themeOf} from "../lib/color.js";
import {changeText, comparison} from "../lib/diff.js";
import {isBuildId, isDeploy, shortName, shortVersion} from "../lib/names.js";
import {serviceQuery} from "../lib/selector.js";
import {settledNow} from "../lib/time.js";
import {colored} from "../lib/syntax.js";
import {clock, cost, percent, rate} from "../lib/units.js";
import {href} from "../lib/url.js";
import {layout} from "../flame/layout.js";
import {Painter, ROW} from "../flame/draw.js";
import {shape} from "./flamepane.js";

const ROWS = 6, EARLIER = 3600e9, HOUR = 3600e3;

// The latest versions that were deployed in a list of `deploys`: those with names first, then newest first: [{now, before}].
export function deploysOf(list) {
    return list.filter((d) => d.latest && d.deployed && isDeploy(d, list)).map((now) => ({now,
        before: list.filter((d) => d.service === now.service && d !== now && d.version && Number(d.first) < Number(now.since)).sort((a, b) => Number(b.last) - Number(a.last))[0]}))
        .filter((d) => d.before).sort((a, b) => isBuildId(a.now.version) - isBuildId(b.now.version) || Number(b.now.since) - Number(a.now.since));
}

// Both sides of a deploy: the new version since its first sample, the old one for an hour before. Whole seconds, with the profiles
// that start in the first and in the last of them.
export function sidesOf({now, before}) {
    const since = Number(now.since), of = (v) => serviceQuery("cpu", now.service, {name: "service.version", op: "=", value: v});
    const from = (ns) => String(Math.floor(ns / 1e9)), to = (ns) => String(Math.ceil(ns / 1e9));
    return {query: of(now.version), from: from(since), to: to(Math.max(settledNow() * 1e6, since + 20e9)), base_query: of(before.version),
        base_from: from(Math.max(Number(before.first), since - EARLIER)), base_to: to(Math.min(Number(before.last) + 60e9, since + EARLIER))};
}

// The last of the frames that nearly everything of both columns is in: [its node, its depth].
function commonEnd(tree) {
    const {first, kids} = tree.children(), [a, b] = tree.total;
    let at = 0, depth = 0;
    for (;;) {
        const next = Array.from(kids.subarray(first[at], first[at + 1])).find((k) => a[k] >= 0.9 * a[0] && b[k] >= 0.9 * b[0] && !tree.isFolded(k));
        if (next === undefined || first[next] === first[next + 1]) return [at, depth];
        at = next;
        depth++;
    }
}

// One column of a diff, drawn small: the first rows of the flame graph below what is common to all, coloured by what changed.
function MiniFlame({tree, column, diff, label}) {
    const el = useRef(), theme = themeOf();
    useEffect(() => {
        const canvas = el.current, p = new Painter(canvas), [a, b] = tree.total;
        const l = layout(tree, {scale: column ? [0, 1] : [1, 0]}), [end, depth] = commonEnd(tree), ratio = devicePixelRatio || 1;
        p.resize(canvas.clientWidth || 300, ROWS * ROW);
        p.draw({layout: l, x0: 0, x1: 1, top: depth * ROW, flip: false, theme, text: textColor(theme), background: theme === "dark" ? "#161514" : "#ffffff", dim: theme === "dark" ? "#262422" : "#efedea", faint: theme === "dark" ? "#4a4641" : "#cfc9c2",
            rootName: label, color: (i) => {
                const x = diff.of(a[i], b[i]);
                return diffColor(x.significant && x.p + x.q > 0 ? (x.q - x.p) / (x.p + x.q) : 0, theme);
            }});
        if (!depth) return; // else the first row is the last common frame: it also says which side this is
        const x = canvas.getContext("2d"), side = diff.of(a[end], b[end]);
        x.setTransform(ratio, 0, 0, ratio, 0, 0);
        x.fillStyle = diffColor(side.significant && side.p + side.q > 0 ? (side.q - side.p) / (side.p + side.q) : 0, theme);
        x.fillRect(0, 0, canvas.clientWidth, ROW - 1);
        x.fillStyle = textColor(theme);
        x.font = "12px system-ui, sans-serif";
        x.textBaseline = "middle";
        x.fillText(`${label} · ${shortName(tree.name(end))}`, 4, ROW / 2, canvas.clientWidth - 8);
    }, [tree, column, theme]);
    return html`<canvas class="mini" ref=${el} role="img" aria-label=${`flame graph of ${label}`} style=${{height: ROWS * ROW + "px"}}></canvas>`;
}

// The function that explains the change: the one furthest down with three quarters of it or, where there is none, the one
// whose own time changed most; with its share of the change.
function culprit(top, diff) {
    const whole = diff.of(top.total[0], top.total[1]).d;
    const of = (key) => top.rows.map((r) => ({...r, x: diff.of(r[key][0], r[key][1])})).filter((r) => r.name && r.x.significant && Math.sign(r.x.d) === Math.sign(whole));
    const own = of("self").sort((a, b) => Math.abs(b.x.d) - Math.abs(a.x.d))[0];
    const most = of("total").filter((r) => r.x.d / whole >= 0.75).sort((a, b) => Math.abs(a.x.d) - Math.abs(b.x.d))[0];
    const best = own && own.x.d / whole >= 0.5 ? own : most ?? own;
    return best && {...best, share: whole ? best.x.d / whole : NaN};
}

// The line of the function with the most weight, and its text: {hot, text, waits}.
function useLine(q, name) {
    const lines = useData(name ? apiUrl("lines", {query: q.query, from: q.from, to: q.to, function: name}) : null);
    const hot = useMemo(() => (lines.data?.rows ?? []).filter((r) => r.line && r.file).sort((a, b) => b.total - a.total)[0], [lines.data]);
    const source = useData(hot ? apiUrl("source", {file: hot.file, missing: "ok"}) : null), is = (x) => x.data || x.error;
    return {hot, text: source.data?.text?.split("\n")[hot?.line - 1], waits: name && !(is(lines) && (!hot || is(source)))};
}

function Line({q, name, line: {hot, text}}) {
    if (!hot) return null;
    const place = `${hot.file.slice(hot.file.lastIndexOf("/") + 1)}:${hot.line}`;
    return html`, <a href=${href("explore", {query: q.query, from: q.from, to: q.to, view: "source", fn: name, file: hot.file})}>${place}</a>${text ? html` <code class="source-line">${colored(text.trim(), hot.file)}</code>` : ""}`;
}

// The card as a picture in the clipboard: its sentence and both flame graphs.
function copyPicture(card, sentence) {
    const [a, b] = card.querySelectorAll("canvas"), out = document.createElement("canvas"), ratio = devicePixelRatio || 1, x = out.getContext("2d");
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
    x.fillText(`before · now (orange: more, blue: less) · ${location.origin}`, 8 * ratio, 44 * ratio, out.width - 16 * ratio);
    return new Promise((done) => out.toBlob((blob) => done(navigator.clipboard.write([new ClipboardItem({"image/png": blob})]))));
}

function CopyButton({label, act}) {
    const [done, set] = useState("");
    const run = () => Promise.resolve().then(act).then(() => set("copied"), () => set("not allowed here")).then(() => setTimeout(() => set(""), 1500));
    return html`<button class="small" onClick=${run}>${done || label}</button>`;
}

const verdictWords = {worse: "worse", better: "better", same: "no change", "not enough data": "not enough data yet"};

// "json_encode +3.1 points, sort −1.2 points": the functions that changed by more than chance.
function verdictRows(v) {
    const rows = (v.drift ?? []).filter((r) => r.significant).slice(0, 3);
    if (rows.length) return ": " + rows.map((r) => `${shortName(r.function)} ${r.points > 0 ? "+" : "−"}${Math.abs(r.points).toFixed(1)} points`).join(", ");
    return isFinite(v.minimum_detectable_points) && v.minimum_detectable_points < 100 ? `; changes of ${v.minimum_detectable_points.toFixed(1)} points or more would be seen` : "";
}

// What the card compares: up to now while the deploy is young, and refreshed; later a fixed range that grows by the hour.
function useSides(deploy) {
    const {now} = deploy, age = Date.now() - Number(now.since) / 1e6, young = age < HOUR;
    const q = useMemo(() => ({...sidesOf(deploy), ...(young ? {to: "now"} : {})}), [now.version, now.since, now.service, young || Math.floor(age / HOUR)]);
    return [q, {live: young}];
}

// What the card says, once all of it is known: what came later would move what is after it. A refresh that is not complete
// changes nothing yet.
function useCompared(deploy, q, options, judged, card) {
    const {now} = deploy, last = useRef(null), held = last.current && card.current?.contains(document.activeElement); // a link that has the focus keeps it
    const top = useData(apiUrl("top", {...q, sort: "delta", limit: 200}), options);
    const flame = useData(apiUrl("flame", {...q, by: "filefunction", max_nodes: 400, format: "binary"}), options);
    const asked = useData(judged ? apiUrl("verdict", {service: now.service, version: now.version}) : null, options);
    const cover = top.data && coverageOf(top.data), whole = top.data?.total, mode = cover?.base > 0 && cover.ns > 0 ? "second" : "total";
    const diff = top.data && comparison({mode, unit: top.data.unit, type: top.data.type, cover, whole}), f = diff && whole[0] > 0 && whole[1] > 0 ? culprit(top.data, diff) : undefined;
    const line = useLine(q, f?.name);
    if (!held && top.data && flame.data && !line.waits && (!judged || asked.data || asked.error)) last.current = {cover, whole, diff, f, line, flame: flame.data, verdict: asked.data};
    return {shown: last.current, error: top.error ?? flame.error};
}

export function RegressionCard({deploy, status}) {
    const card = useRef(), {now, before} = deploy, [q, options] = useSides(deploy);
    const {shown, error} = useCompared(deploy, q, options, (status?.questions ?? []).includes("verdict"), card);
    const link = href("compare", sidesOf(deploy));
    const name = html`<a href=${link}>${now.service} ${shortVersion(now.version)}</a>`, at = clock(Number(now.since) / 1e6, {seconds: false});
    if (!shown) return html`<article key="waits" class="panel regression"><h2>${name} <span class="muted">since ${at}</span></h2><p class="muted">${error?.message ?? "Comparing…"}</p></article>`;
    const {cover, whole, diff, f, line, verdict} = shown;
    if (!(whole[0] > 0) || !(whole[1] > 0)) return html`<article class="panel regression"><h2>${name} <span class="muted">since ${at}</span></h2><p class="muted">Nothing to compare yet.</p></article>`;
    const x = diff.of(...whole);
    const tree = shape(shown.flame, {}), price = status?.pricePerCoreHour;
    const times = x.q / x.p, sign = x.d > 0 ? "more" : "less";
    const money = price && x.significant ? cost(Math.abs(whole[1] - (whole[0] * cover.ns) / cover.base), "cpu", cover.ns, price, status.currency) : "";
    const main = !x.significant ? `uses as much CPU as ${shortVersion(before.version)}` : times >= 1.5 ? `uses ${times.toFixed(1)}× the CPU` : `uses ${percent(Math.abs(x.ratio), 0)} ${sign} CPU`;
    const sentence = `${now.service} ${shortVersion(now.version)} ${main} since ${at}`;
    const rates = `${rate(whole[0], "nanoseconds", "cpu", cover.base)} → ${rate(whole[1], "nanoseconds", "cpu", cover.ns)} (${changeText(x)})`;
    const share = f && (isFinite(f.share) && f.share <= 1.5 ? `${percent(Math.min(1, f.share), 0)} of it is ` : "most of it is ");
    const judged = verdict?.verdict && [`Per ${verdict.normalised === "request" ? "request" : "CPU second"}: `, verdictWords[verdict.verdict] ?? verdict.verdict, verdictRows(verdict)];
    // What it says is new as a whole when a word of it changes: the rest would move.
    return html`<article key="compared" class="panel regression" ref=${card}><div class="says" key=${[main, rates, share, f?.name, line.hot?.line, money, judged].join()}>
        <h2>${name} ${x.significant ? html`<b class=${sign}>${main}</b>` : main} <span class="muted">since ${at}</span></h2>
        <p class="num">${rates}${f ? html`; ${share}
            <a class="fn" title=${f.name} href=${href("explore", {query: q.query, from: q.from, to: q.to, view: "sandwich", fn: f.name})}>${shortName(f.name)}</a><${Line} q=${q} name=${f.name} line=${line} />` : ""}${money ? html`; about ${money} ${sign}` : ""}</p>
        ${judged ? html`<p class="verdict muted" title=${verdict.sentence}>${judged[0]}<b class=${{worse: "more", better: "less"}[verdict.verdict] ?? ""}>${judged[1]}</b>${judged[2]}</p>` : ""}</div>
        <div class="minis"><${MiniFlame} tree=${tree} column=${0} diff=${diff} label=${`before: ${shortVersion(before.version)}`} /><${MiniFlame} tree=${tree} column=${1} diff=${diff} label=${`now: ${shortVersion(now.version)}`} /></div>
        <p class="actions"><a class="button small main" href=${link}>Compare</a> <${CopyButton} label="Copy link" act=${() => navigator.clipboard.writeText(new URL(link, location.href).href)} /> <${CopyButton} label="Copy image" act=${() => copyPicture(card.current, sentence)} /></p></article>`;
}
