// SPDX-License-Identifier: Apache-2.0
// What the suites share. A suite is a module whose default export takes a Tester; run.mjs runs one and prints a line of
// JSON per check. Every page is watched: console errors, requests to other hosts, violations of the content security
// policy and layout shifts fail the suite that caused them.
import fs from "node:fs";
import {createRequire} from "node:module";
import path from "node:path";

const modules = createRequire(path.join(process.env.WICK_UI_MODULES, "x.js"));
export const {chromium} = modules("playwright-core");
const axeSource = fs.readFileSync(modules.resolve("axe-core/axe.min.js"), "utf8");
const SHIFT_MAX = 0.05; // Google calls 0.1 good

// Runs in the page before anything else: collects what only the page sees.
function watch() {
    window.wickShift = [];
    const place = (r) => [r.x, r.y, r.width, r.height].map((v) => +v.toFixed(1)).join();
    new PerformanceObserver((list) => {
        for (const e of list.getEntries())
            if (!e.hadRecentInput)
                window.wickShift.push([
                    e.value,
                    e.startTime,
                    e.sources
                        .map(
                            (s) =>
                                `${s.node?.className || s.node?.nodeName} ${s.node?.textContent?.slice(0, 40)} ` +
                                `${place(s.previousRect)}→${place(s.currentRect)}`,
                        )
                        .join(" | "),
                ]);
    }).observe({type: "layout-shift", buffered: true});
    document.addEventListener("securitypolicyviolation", (e) =>
        console.error("CSP: " + e.violatedDirective + " " + e.blockedURI),
    );
}

// A time as Services shows it: the time of today, else the day.
export function moment(ms) {
    const at = new Date(ms);
    return at.toDateString() === new Date().toDateString()
        ? at.toTimeString().slice(0, 5)
        : `${at.toDateString().slice(4, 7)} ${at.getDate()}`;
}

export class Tester {
    constructor(browser, config) {
        Object.assign(this, config); // url, shots, and what the suite was given
        this.browser = browser;
        this.results = [];
        this.contexts = [];
    }

    // A page of its own cookies. expected: console errors that belong to the test, as regular expressions.
    async page({expected = [], width = 1400, height = 900, ...options} = {}) {
        const context = await this.browser.newContext({viewport: {width, height}, reducedMotion: "reduce", ...options});
        this.contexts.push(context);
        const page = await context.newPage();
        page.problems = [];
        const note = (text) => expected.some((e) => e.test(text)) || page.problems.push(text);
        page.on("console", (m) => m.type() === "error" && note("console: " + m.text()));
        page.on("pageerror", (e) => note("exception: " + e.message));
        page.pending = new Set();
        page.on("requestfinished", (r) => page.pending.delete(r));
        page.on("requestfailed", (r) => page.pending.delete(r));
        page.on("request", (r) => {
            if (r.isNavigationRequest() && r.frame() === page.mainFrame()) page.pending.clear(); // of the old page
            page.pending.add(r);
            const u = new URL(r.url());
            if (!["data:", "blob:"].includes(u.protocol) && u.origin !== new URL(this.url).origin)
                note("request to " + r.url());
        });
        await page.addInitScript(watch);
        page.setDefaultTimeout(45000); // machines that run tests are busy
        return page;
    }

    async check(name, fn) {
        const start = Date.now();
        try {
            await fn();
            this.results.push({name, ok: true, ms: Date.now() - start});
        } catch (e) {
            this.results.push({
                name,
                ok: false,
                ms: Date.now() - start,
                error: e.stack.split("\n").slice(0, 12).join("\n"),
            });
            for (const c of this.contexts)
                for (const p of c.pages()) await this.shot(p, "failed-" + name.replace(/\W+/g, "-")).catch(() => {});
        }
    }

    // Nothing went wrong on this page so far.
    async clean(page, name) {
        await this.check(name + ": no console error, no foreign request, no policy violation", async () => {
            if (page.problems.length) throw new Error(page.problems.join("\n"));
        });
        await this.check(name + ": nothing jumps", async () => {
            const shifts = await page.evaluate(() => window.wickShift);
            const sum = shifts.reduce((a, [v]) => a + v, 0);
            if (sum > SHIFT_MAX) throw new Error(`layout shift ${sum.toFixed(3)}: ${JSON.stringify(shifts)}`);
        });
    }

    // No serious or critical fault by axe-core; with all, no fault of any kind.
    async axe(page, name, all = false) {
        await this.check(name + ": axe finds nothing" + (all ? "" : " serious"), async () => {
            await page.evaluate(axeSource);
            const found = await page.evaluate(() => window.axe.run(document, {resultTypes: ["violations"]}));
            const bad = found.violations.filter((v) => all || v.impact === "serious" || v.impact === "critical");
            if (bad.length)
                throw new Error(
                    bad
                        .map(
                            (v) =>
                                `${v.id}: ${v.help}: ${v.nodes
                                    .slice(0, 3)
                                    .map((n) => n.html.slice(0, 160))
                                    .join(" | ")}`,
                        )
                        .join("\n"),
                );
        });
    }

    async shot(page, name) {
        if (this.shots) await page.screenshot({path: path.join(this.shots, name + ".png")});
    }

    // Tells the test that runs this suite something, by a file.
    signal(what) {
        fs.writeFileSync(this.signalFile, what);
    }

    async done() {
        for (const c of this.contexts) await c.close();
    }
}

export function equal(got, wanted, what = "") {
    const [a, b] = [JSON.stringify(got), JSON.stringify(wanted)];
    if (a !== b) throw new Error(`${what}: got ${a}, wanted ${b}`);
}

export function ok(value, what) {
    if (!value) throw new Error(what);
}

// The flame graph is drawn and holds data.
export async function drawn(page, within = "") {
    await page.waitForSelector(`${within} .flame-box`);
    await page.waitForFunction((sel) => {
        const e = document.querySelector(`${sel} .flame-box`)?.wickEngine;
        return e?.layout?.tree.n > 1 && document.querySelectorAll(`${sel} [role=treeitem]`).length > 0;
    }, within);
    await settled(page);
}

// No request has been under way for a moment (an answer may lead to the next question), and two frames have passed.
export async function settled(page) {
    const end = Date.now() + 3000; // pages that ask all the time are looked at all the same
    await page.waitForLoadState("load");
    for (let quiet = 0; quiet < 4 && Date.now() < end; quiet++) {
        await page.evaluate(() => new Promise((r) => requestAnimationFrame(() => requestAnimationFrame(r))));
        await new Promise((r) => setTimeout(r, 25));
        if (page.pending.size) quiet = -1;
    }
}

// The colours of a row of the flame graph as they are on the canvas, left to right: [colour, width] of each
// stretch of three pixels or more. y is measured from the top of the visible picture, near the upper edge of a
// row, where no text is.
export const rowColors = (page, y, nth = 0) =>
    page.evaluate(
        async ([y, nth]) => {
            await new Promise((r) => requestAnimationFrame(() => requestAnimationFrame(r)));
            const canvas = document.querySelectorAll(".flame-box")[nth].querySelector("canvas:not(.flame-over)");
            const ratio = canvas.width / canvas.clientWidth,
                stretches = [];
            const {data} = canvas.getContext("2d").getImageData(0, Math.round(y * ratio), canvas.width, 1);
            for (let i = 0; i < canvas.width; i++) {
                const color = data.slice(i * 4, i * 4 + 3).join();
                if (stretches.length && stretches[stretches.length - 1][0] === color)
                    stretches[stretches.length - 1][1]++;
                else stretches.push([color, 1]);
            }
            return stretches.filter(([, w]) => w >= 3 * ratio);
        },
        [y, nth],
    );

// No difference, or none that is significant.
export const grey = ([r, , b]) => Math.abs(r - b) <= 25;

// The colour of the widest frame of a function as it is on the canvas: [red, green, blue].
export const colorOfFrame = (page, name) =>
    page.evaluate(async (name) => {
        await new Promise((r) => requestAnimationFrame(() => requestAnimationFrame(r)));
        const e = document.querySelector(".flame-box").wickEngine,
            {w, tree} = e.layout;
        let at = -1;
        for (let i = 0; i < tree.n; i++)
            if ((name === "all" ? i === 0 : tree.name(i) === name) && (at < 0 || w[i] > w[at])) at = i;
        if (at < 0) throw new Error(`no frame ${name}`);
        const {left, top} = e.pointAt(at),
            ratio = e.canvas.width / e.canvas.clientWidth;
        return [
            ...e.canvas
                .getContext("2d")
                .getImageData(Math.round((left + 3) * ratio), Math.round((top + 2) * ratio), 1, 1)
                .data.slice(0, 3),
        ];
    }, name);

// A frame that is part of its row only, and where it is in the picture: {node, name, x, y}. y is near its upper edge.
export const narrowFrame = (page, nth = 0) =>
    page.evaluate((nth) => {
        const e = document.querySelectorAll(".flame-box")[nth].wickEngine,
            {x, w, depth, tree} = e.layout;
        for (let i = 1; i < tree.n; i++) {
            const top = e.rowTop(i) - e.box.scrollTop;
            if (depth[i] && w[i] > 0.1 && w[i] < 0.8 && !tree.isFolded(i) && top >= 0 && top < e.height - 19)
                return {node: i, name: tree.name(i), x: (x[i] + w[i] / 2) * e.width, y: top + 2};
        }
        throw new Error("no frame is between 10 % and 80 % wide");
    }, nth);

// The menu of the frame that narrowFrame() gives, opened by a right click, and the name of its function.
export async function frameMenu(page, nth = 0) {
    const f = await narrowFrame(page, nth),
        box = await page.locator(".flame-box").nth(nth).boundingBox();
    await page.mouse.click(box.x + f.x, box.y + f.y + 6, {button: "right"});
    await page.getByRole("menu").waitFor();
    return {
        name: f.name.split("\t")[0],
        item: (text) => page.getByRole("menu").locator("[role^=menuitem]", {hasText: text}),
    };
}

// act() zooms to the frame that narrowFrame() gives; seen on the canvas: before, its row has several boxes; after,
// one box of the frame's colour fills the row from edge to edge. undo() makes the picture what it was.
export async function zoomIsSeen(page, act, undo, nth = 0) {
    const f = await narrowFrame(page, nth);
    const before = await rowColors(page, f.y, nth);
    if (before.length < 2) throw new Error(`the row of ${f.name} has one box before zooming`);
    const box = await page.locator(".flame-box").nth(nth).boundingBox();
    await act({...f, left: box.x + f.x, top: box.y + f.y + 6});
    const whole = box.width * 0.98;
    await page.mouse.move(1, 1);
    for (let left = 60; ; left--) {
        const top = await page.evaluate(
            ([nth, node]) => {
                const e = document.querySelectorAll(".flame-box")[nth].wickEngine;
                return e.rowTop(Math.min(node, e.layout.tree.n - 1)) - e.box.scrollTop;
            },
            [nth, f.node],
        );
        const after = await rowColors(page, top + 2, nth);
        if (after.length === 1 && after[0][1] >= whole) break;
        if (!left)
            throw new Error(`zoomed to ${f.name}, but its row shows ${JSON.stringify(after)} of ${box.width} pixels`);
        await new Promise((r) => setTimeout(r, 50));
    }
    if (!undo) return;
    await undo();
    for (let left = 60; JSON.stringify(await rowColors(page, f.y, nth)) !== JSON.stringify(before); left--) {
        if (!left) throw new Error(`zooming out of ${f.name} does not bring the picture back`);
        await new Promise((r) => setTimeout(r, 50));
    }
}

// Everything in the head can be seen without scrolling.
export async function headFits(page) {
    const cut = await page.evaluate(() => {
        const nav = document.querySelector(".top nav"),
            within = nav.getBoundingClientRect();
        const over = (e, right) => e.getBoundingClientRect().right > right + 0.5;
        return [...document.querySelectorAll(".top > *")]
            .filter((e) => over(e, innerWidth))
            .concat([...nav.children].filter((e) => over(e, within.right)))
            .map((e) => e.textContent || e.className);
    });
    equal(cut, [], `cut off in the head, ${page.viewportSize().width} pixels wide`);
}

// What the toolbar says about the selection can be read as a whole.
export async function nothingCut(page) {
    const cut = await page.evaluate(() =>
        [...document.querySelectorAll(".toolbar .total, .toolbar .chip > span")]
            .filter((e) => e.scrollWidth > e.clientWidth + 1 || e.getBoundingClientRect().right > innerWidth)
            .map((e) => e.innerText),
    );
    equal(cut, [], `cut off in the toolbar, ${page.viewportSize().width} pixels wide`);
}

export const param = (page, name) => new URL(page.url()).searchParams.get(name);
