// SPDX-License-Identifier: Apache-2.0
// ui_bench.mjs picture WICK_URL [GO_URL]: the flame graph of a large profile in a browser, wick's and Go's.
// ui_bench.mjs questions WICK_URL: what each view asks of a server, as JSON. ui_bench.mjs views WICK_URL FILE: 5
// users who ask that at once, and may get an answer that was made for another user. ui_bench.mjs own WICK_URL
// FILE: 5 users each of whom asks about another range, every time, so that no answer is given twice. ui_bench.mjs
// chart WICK_URL PATH: the flame chart at this path of the server, in a browser. Prints rows of a markdown table.
// Software rendering, as in the tests.
import fs from "node:fs";
import {createRequire} from "node:module";
import path from "node:path";

const {chromium} = createRequire(path.join(process.env.WICK_UI_MODULES, "x.js"))("playwright-core");
const [what, address, other] = process.argv.slice(2);
const url = address.replace(/\/\?token=.*/, ""),
    token = address.match(/token=(\w+)/)?.[1]; // wick pprof -http prints one
const USERS = 5,
    ROUNDS = 3;

const quantile = (v, q) => [...v].sort((a, b) => a - b)[Math.min(v.length - 1, Math.floor(v.length * q))];
const row = (...cells) => console.log("| " + cells.join(" | ") + " |");
const ms = (v) => v.toFixed(v < 10 ? 1 : 0) + " ms";

async function open(browser) {
    const context = await browser.newContext({
        viewport: {width: 1400, height: 900},
        extraHTTPHeaders: token ? {Authorization: "Bearer " + token} : {},
    });
    const page = await context.newPage();
    page.setDefaultTimeout(120000);
    return page;
}

// Loads the picture; time from the data's arrival to the first picture, and what was transferred.
async function load(page, address) {
    await page.goto(address);
    await page.waitForFunction(
        () =>
            performance.getEntriesByName("wick-drawn").length &&
            document.querySelector(".flame-box")?.wickEngine?.layout?.tree.n > 1,
    );
    return page.evaluate(() => {
        const at = (n) => performance.getEntriesByName(n).at(-1).startTime;
        const r = performance
            .getEntriesByType("resource")
            .filter((e) => e.name.includes("/flame?"))
            .at(-1);
        return {
            picture: at("wick-drawn") - at("wick-data"),
            bytes: r.encodedBodySize,
            nodes: document.querySelector(".flame-box").wickEngine.layout.tree.n,
            total: at("wick-drawn"),
        };
    });
}

// Moves by pan and zoom, each until its frame was given to the compositor.
async function move(page) {
    return page.evaluate(async () => {
        const e = document.querySelector(".flame-box").wickEngine,
            times = [];
        const frame = () =>
            new Promise((r) =>
                requestAnimationFrame(() => {
                    const c = new MessageChannel();
                    c.port1.onmessage = r;
                    c.port2.postMessage(0);
                }),
            );
        for (let i = 0; i < 200; i++) {
            await frame();
            const start = performance.now();
            if (i % 4 === 3) e.panBy(i % 8 === 3 ? 0.2 : -0.15);
            else e.zoomBy(i % 40 < 20 ? 0.8 : 1.25, 0.3 + (0.4 * ((i * 7) % 10)) / 10);
            await frame();
            times.push(performance.now() - start);
        }
        return times;
    });
}

async function search(page) {
    const times = [];
    for (const text of ["func1", "7$", "a.*b", "pkg", "zzz"]) {
        await page.evaluate(() => performance.clearMeasures("wick-search"));
        await page.locator("#search").fill(text);
        await page.waitForFunction(() => performance.getEntriesByName("wick-search").length);
        times.push(await page.evaluate(() => performance.getEntriesByName("wick-search").at(-1).duration));
    }
    return times;
}

async function picture(browser) {
    const page = await open(browser);
    const short = await load(page, url + "/ui/flamegraph");
    row("transfer, level of detail", `${(short.bytes / 1e6).toFixed(2)} MB`, `${short.nodes} nodes`, "≤ 1.5 MB");
    row("first picture after the data, level of detail", ms(short.picture), "", "≤ 300 ms");
    const whole = await load(page, url + "/ui/flamegraph?nodes=5000000");
    row(
        "first picture after the data, whole tree",
        ms(whole.picture),
        `${whole.nodes} nodes, ${(whole.bytes / 1e6).toFixed(1)} MB`,
        "≤ 300 ms",
    );
    const moves = await move(page);
    row(
        "pan and zoom, whole tree",
        `p50 ${ms(quantile(moves, 0.5))}`,
        `p95 ${ms(quantile(moves, 0.95))}, max ${ms(Math.max(...moves))}`,
        "p50 ≤ 30 ms",
    );
    const found = await search(page);
    row("search, whole tree", ms(quantile(found, 0.5)), `max ${ms(Math.max(...found))}`, "≤ 50 ms");
    if (!other) return;
    const go = await open(browser);
    const start = Date.now();
    const theirs = await go.goto(other + "/ui/flamegraph", {waitUntil: "load"}).then(
        async () => {
            const time = Date.now() - start;
            const [boxes, bytes] = await go.evaluate(() => [
                document.querySelectorAll(".boxbg").length,
                performance.getEntriesByType("navigation")[0].decodedBodySize,
            ]);
            return `${ms(time)}, ${boxes} boxes, ${(bytes / 1e6).toFixed(0)} MB`;
        },
        () => "not within two minutes",
    );
    await go.context().close();
    const wick = await open(browser);
    const begin = Date.now();
    await load(wick, url + "/ui/flamegraph");
    row("from the click to the picture", ms(Date.now() - begin), `go tool pprof: ${theirs}`, "–");
}

const places = {
    Home: "home",
    Services: "services?from=now-1d",
    Explore: "explore?from=now-1d",
    Table: "explore?view=table&from=now-1d",
    "Group by service": "explore?group=service.name&from=now-1d",
    "Call graph": "explore?view=graph&from=now-1d",
    Callers: "explore?view=sandwich&fn=encode&from=now-1d",
    Profiles: "explore?view=profiles&from=now-1d",
    Compare: "compare?from=now-12h&base_from=now-1d&base_to=now-12h",
    Function: "function?fn=encode&query=" + encodeURIComponent('cpu{service.name="service-1"}') + "&from=now-1d",
    Senders: "senders",
};

// The view's questions: path, and the age of an answer that the page accepts (answers are shared between users).
async function questions(browser, place) {
    const page = await open(browser);
    const asked = [];
    page.on(
        "request",
        (r) =>
            r.url().includes("/api/v1/") &&
            asked.push(JSON.stringify([r.url().slice(url.length), r.headers()["cache-control"] ?? ""])),
    );
    await page.goto(url + "/" + place);
    await page.waitForLoadState("networkidle");
    await page.context().close();
    return [...new Set(asked)].map((a) => JSON.parse(a));
}

// The same question about a range that nobody asked about before: it begins some seconds earlier. No shared answer
// is accepted.
let moved = 0;
const own = ([path]) => [
    path.replace(/from=now-(\d+)([dh])/g, (_, n, unit) => `from=now-${n * (unit === "d" ? 86400 : 3600) + ++moved}s`),
    "",
];

async function ask(list) {
    const start = performance.now();
    await Promise.all(
        list
            .map((q) => (what === "own" ? own(q) : q))
            .map(async ([path, control]) => {
                const r = await fetch(url + path, {
                    headers: {"accept-encoding": "gzip", ...(control ? {"cache-control": control} : {})},
                });
                if (!r.ok) throw new Error(`${r.status} ${path}`);
                await r.arrayBuffer();
            }),
    );
    return performance.now() - start;
}

async function collect(browser) {
    const all = {};
    for (const [name, place] of Object.entries(places)) all[name] = await questions(browser, place);
    console.log(JSON.stringify(all));
}

// Every user goes through the views in another order, `rounds` times.
async function use(all, rounds) {
    const names = Object.keys(places),
        times = Object.fromEntries(names.map((n) => [n, []]));
    const user = async (k) => {
        for (let i = 0; i < rounds * names.length; i++) {
            const name = names[(i + k * 2) % names.length];
            times[name].push(await ask(all[name]));
        }
    };
    await Promise.all(Array.from({length: USERS}, (_, k) => user(k)));
    return times;
}

async function views() {
    const all = JSON.parse(fs.readFileSync(other, "utf8"));
    const first = await use(all, 1),
        times = await use(all, ROUNDS),
        every = Object.values(times).flat(),
        cold = Object.values(first).flat();
    for (const [name, v] of Object.entries(times))
        row(
            name,
            `p50 ${ms(quantile(v, 0.5))}, p95 ${ms(quantile(v, 0.95))}`,
            `p50 ${ms(quantile(first[name], 0.5))}, slowest ${ms(Math.max(...first[name]))}`,
            `${all[name].length} questions`,
        );
    row(
        "**all views**",
        `p50 ${ms(quantile(every, 0.5))}, **p95 ${ms(quantile(every, 0.95))}**`,
        `p50 ${ms(quantile(cold, 0.5))}, **p95 ${ms(quantile(cold, 0.95))}**`,
        "bars: p95 ≤ 300 ms, cold ≤ 450 ms",
    );
}

// The flame chart as a user sees it: from the request to the picture.
async function chart(browser) {
    const times = [],
        page = await open(browser);
    for (let i = 0; i < 9; i++) {
        await page.goto(`${url}/${other}`);
        await page.waitForFunction(() => performance.getEntriesByName("wick-chart-drawn").length);
        times.push(
            await page.evaluate(() => {
                const asked = performance
                    .getEntriesByType("resource")
                    .filter((e) => e.name.includes("/chart?"))
                    .at(-1);
                return performance.getEntriesByName("wick-chart-drawn").at(-1).startTime - asked.startTime;
            }),
        );
    }
    row(
        "flame chart of a minute in the browser, from the request to the picture",
        `p50 ${ms(quantile(times, 0.5))}`,
        `slowest ${ms(Math.max(...times))}`,
        "≤ 200 ms",
    );
}

if (what === "views" || what === "own") await views();
else {
    const browser = await chromium.launch({
        executablePath: process.env.WICK_CHROMIUM ?? "/usr/bin/chromium",
        args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"],
    });
    await {questions: () => collect(browser), chart: () => chart(browser), picture: () => picture(browser)}[what]();
    await browser.close();
}
