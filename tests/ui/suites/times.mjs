// SPDX-License-Identifier: Apache-2.0
// When samples were taken: a part of the heat map is dragged and the flame graph shows what ran then; a second
// part, and it shows the difference; the flame chart shows what each thread did, and zooms from the whole to
// milliseconds.
import {colorOfFrame, drawn, equal, nothingCut, ok, param, settled} from "../lib.mjs";

const names = (page) =>
    page.evaluate(() => {
        const {tree} = document.querySelector(".flame-box").wickEngine.layout,
            seen = [];
        for (let i = 1; i < tree.n; i++) seen.push(tree.name(i));
        return [...new Set(seen)].sort();
    });

// Colours of a part of a canvas that differ from its background, as a share of its pixels.
const filled = (page, selector, [x0, y0, x1, y1]) =>
    page.evaluate(
        async ([selector, x0, y0, x1, y1]) => {
            await new Promise((r) => requestAnimationFrame(() => requestAnimationFrame(r)));
            const c = document.querySelector(selector),
                ratio = c.width / c.clientWidth;
            const {data} = c
                .getContext("2d")
                .getImageData(x0 * ratio, y0 * ratio, Math.max(1, (x1 - x0) * ratio), Math.max(1, (y1 - y0) * ratio));
            let n = 0;
            for (let i = 3; i < data.length; i += 4) n += data[i] > 0;
            return n / (data.length / 4);
        },
        [selector, x0, y0, x1, y1],
    );

const LEFT = 46,
    HEIGHT = 93; // of the heat map: what is left of the cells, and their height

export default async function (t) {
    const page = await t.page(),
        at = `query=${encodeURIComponent('cpu{service.name="ticker"}')}&from=${t.from}&to=${t.to}`;
    await page.goto(`${t.url}/explore?${at}`);
    await drawn(page);
    const map = page.locator(".timemap canvas");
    // A point of the heat map: second s, and a share of it.
    const point = async (s, share) => {
        const b = await map.boundingBox();
        return [b.x + LEFT + ((b.width - LEFT) * (s + 0.5)) / t.seconds, b.y + share * HEIGHT];
    };
    const drag = async (s, a, z, seen = drawn) => {
        await page.mouse.move(...(await point(s, a)));
        await page.mouse.down();
        await page.mouse.move(...(await point(s, z)), {steps: 3});
        await page.mouse.up();
        await seen(page);
    };
    await t.check("the heat map is above the flame graph, and shows when the workers ran", async () => {
        await page.getByRole("button", {name: "Heat map"}).click();
        await map.waitFor();
        await settled(page);
        const b = await map.boundingBox(),
            column = (b.width - LEFT) / t.seconds,
            x = LEFT + 12 * column;
        ok(b.y < (await page.locator(".flame-box").boundingBox()).y, "it is not above the flame graph");
        ok(
            (await filled(page, ".timemap canvas", [x, 2, x + column, 0.19 * HEIGHT])) > 0.8,
            "no samples where render runs",
        );
        equal(
            await filled(page, ".timemap canvas", [x, 0.25 * HEIGHT, x + column, 0.48 * HEIGHT]),
            0,
            "samples where everything waits",
        );
        ok(
            (await filled(page, ".timemap canvas", [x, 0.53 * HEIGHT, x + column, 0.68 * HEIGHT])) > 0.8,
            "no samples where parse runs",
        );
        const spike = LEFT + t.spike * column + 2;
        ok(
            (await filled(page, ".timemap canvas", [spike, 0.25 * HEIGHT, spike + column - 4, 0.48 * HEIGHT])) > 0.8,
            "the spike is not seen",
        );
    });
    await t.shot(page, "heat-map");
    await t.check("the axis of two seconds has parts of seconds", async () => {
        const own = await t.page();
        await own.addInitScript(() => {
            window.wickTexts = [];
            const draw = CanvasRenderingContext2D.prototype.fillText;
            CanvasRenderingContext2D.prototype.fillText = function (text, ...rest) {
                window.wickTexts.push(text);
                return draw.call(this, text, ...rest);
            };
        });
        const ticker = encodeURIComponent('cpu{service.name="ticker"}');
        await own.goto(`${t.url}/explore?query=${ticker}&from=${t.from + 10}&to=${t.from + 12}`);
        await own.waitForFunction(() => window.wickTexts.some((s) => /^\d\d:\d\d:\d\d\.\d{3}$/.test(s)));
        await own.context().close();
    });
    await t.check("dragging over a part shows what ran then", async () => {
        await drag(12, 0.02, 0.17);
        equal(await names(page), ["main", "render", "work"]);
        await page.getByText(/samples of/).waitFor();
        ok(/^\d+-\d+$/.test(param(page, "cell")), page.url());
        ok(
            (await page.locator(".toolbar .total").textContent()).includes("640 ms"),
            await page.locator(".toolbar .total").textContent(),
        );
    });
    await t.check("a picture of it has its times", async () => {
        const [from] = param(page, "cell")
                .split("-")
                .map((ns) => new Date(Number(ns.slice(0, -6)))),
            two = (n) => String(n).padStart(2, "0");
        const text = (d) =>
            `${d.getFullYear()}-${two(d.getMonth() + 1)}-${two(d.getDate())}T${two(d.getHours())}.` +
            `${two(d.getMinutes())}.${two(d.getSeconds())}` +
            `${d.getMilliseconds() ? "." + String(d.getMilliseconds()).padStart(3, "0") : ""}`;
        await page.getByRole("button", {name: "Export"}).click();
        const [download] = await Promise.all([
            page.waitForEvent("download"),
            page.getByRole("menu").locator("[role^=menuitem]", {hasText: "PNG"}).click(),
        ]);
        equal(download.suggestedFilename(), `ticker-cpu-${text(from)}.png`);
    });
    await t.check("a second part is compared with the first", async () => {
        await drag(t.spike, 0.27, 0.45);
        equal(await names(page), ["main", "render", "spike", "work"]);
        const [r, g, b] = await colorOfFrame(page, "spike"),
            [r2, , b2] = await colorOfFrame(page, "render");
        ok(r > b && b2 > r2, `spike is ${[r, g, b]}, render ${[r2, b2]}: new is orange, gone is blue`);
        await page.getByText("against").first().waitFor();
        await nothingCut(page);
        await page.getByRole("button", {name: "Export"}).click();
        const menu = page.getByRole("menu"),
            get = async (text) =>
                (
                    await page.request.get(
                        new URL(await menu.locator("a", {hasText: text}).getAttribute("href"), page.url()).href,
                    )
                ).text();
        const file = await get("self-contained");
        ok(
            file.includes('"spike"') && file.includes('"render"') && file.includes(" against "),
            "the file has both parts",
        );
        await page.keyboard.press("Escape");
    });
    await t.shot(page, "heat-map-difference");
    await t.check("a link shows the same, and back leads to the first part", async () => {
        const other = await t.page();
        await other.goto(page.url());
        await drawn(other);
        equal(await names(other), ["main", "render", "spike", "work"]);
        await page.goBack();
        await drawn(page);
        equal(await names(page), ["main", "render", "work"]);
        await page.getByRole("button", {name: "the whole range"}).click();
        await drawn(page);
        equal(await names(page), ["main", "parse", "render", "spike", "work"]);
    });
    await t.check("in the table as well: a part, a second one against it, and back", async () => {
        const rows = () =>
            page
                .locator("tbody tr[data-row]")
                .evaluateAll((l) => l.map((r) => r.querySelector(".fn").innerText).sort());
        const head = (text) => page.getByRole("columnheader", {name: text}).waitFor();
        await page.evaluate(() => {
            window.wickWrong = [];
            new MutationObserver(
                () =>
                    /NaN|undefined/.test(document.querySelector(".pane")?.innerText) &&
                    window.wickWrong.push(document.querySelector(".pane").innerText.slice(0, 200)),
            ).observe(document.body, {subtree: true, childList: true, characterData: true});
        });
        await page.keyboard.press("2");
        await page.locator("tbody tr[data-row]").first().waitFor();
        await drag(12, 0.02, 0.17, settled);
        equal(await rows(), ["main", "render", "work"]);
        await drag(t.spike, 0.27, 0.45, () => head("change of self"));
        await settled(page);
        equal(await rows(), ["main", "render", "spike", "work"]);
        ok(
            /new/.test(await page.locator("tbody tr", {hasText: "spike"}).innerText()) &&
                /gone/.test(await page.locator("tbody tr", {hasText: "render"}).innerText()),
            "spike is new, render is gone",
        );
        await page.goBack();
        await head("self %");
        await settled(page);
        equal(await rows(), ["main", "render", "work"]);
        equal(await page.evaluate(() => window.wickWrong), [], "numbers that are none, while it loads");
        await page.getByRole("button", {name: "the whole range"}).click();
        await page.locator("#main").focus();
        await page.keyboard.press("1");
        await drawn(page);
    });
    await t.axe(page, "heat map");
    const lanes = page.locator(".lanes"),
        tip = page.locator(".lane-tip");
    const tipAt = async (share, y) => {
        const b = await lanes.boundingBox();
        await page.mouse.move(b.x + b.width * share, b.y + y);
        await page.evaluate(() => new Promise((r) => requestAnimationFrame(() => requestAnimationFrame(r))));
        return tip.textContent();
    };
    await t.check("the flame chart shows each thread", async () => {
        await page.goto(`${t.url}/explore?${at}&view=chart`);
        await lanes.waitFor();
        await settled(page);
        await page.getByText("4 threads").waitFor();
        ok(
            (await tipAt(0.5, 28)).includes("worker-1"),
            "the busiest thread is not the first: " + (await tip.textContent()),
        );
    });
    await t.check("dragging zooms: the second of the spike", async () => {
        const b = await lanes.boundingBox(),
            x = (s) => b.x + (b.width * s) / t.seconds;
        await page.mouse.move(x(t.spike - 1), b.y + 60);
        await page.mouse.down();
        await page.mouse.move(x(t.spike + 2), b.y + 60, {steps: 3});
        await page.mouse.up();
        await settled(page);
        ok(/^\d+-\d+$/.test(param(page, "win") ?? ""), page.url());
        const text = await tipAt(0.5, 20 + 18 + 14 + 8);
        ok(/worker-1.*spike, (99\d ms|1\.0?\d? s)/.test(text), text);
        ok(
            /poll.*waiting · the thread has [\d,.]+k? samples?$/.test(await tipAt(1 / 6 - 0.05, 20 + 18 + 14 + 8)),
            await tip.textContent(),
        );
        ok(/span GET \/spike, 1\.00 s/.test(await tipAt(0.5, 20 + 18 + 6)), await tip.textContent());
    });
    await t.shot(page, "flame-chart");
    await t.check("the keyboard zooms to milliseconds and back to the whole", async () => {
        await lanes.focus();
        for (let i = 0; i < 12; i++) {
            const before = param(page, "win");
            await page.keyboard.press("+");
            await page.waitForFunction((b) => new URL(location.href).searchParams.get("win") !== b, before);
        }
        await settled(page);
        await page.getByText(/^7\d\d µs from/).waitFor();
        await page.keyboard.press("0");
        await page.getByText(/^1\.00 min from/).waitFor();
        equal(param(page, "win"), null);
    });
    await t.check("from the chart to the flame graph of exactly that time", async () => {
        await lanes.focus();
        await page.keyboard.press("+");
        await page.getByRole("link", {name: "Flame graph of this time"}).click();
        await drawn(page);
        ok((await names(page)).includes("spike"), "spike is in the middle of the range");
    });
    await page.goto(`${t.url}/explore?${at}&view=chart`);
    await lanes.waitFor();
    await settled(page);
    await t.axe(page, "flame chart");
    await t.clean(page, "times");
    await t.check("Explain is about the selected part", async () => {
        const of = `query=${encodeURIComponent('cpu{service.name="matcher"}')}&from=${t.from}&to=${t.to}&explain=1`,
            panel = page.getByRole("complementary", {name: "findings"});
        const cell = (ms) =>
            `${BigInt(t.from) * 1000000000n + BigInt(ms) * 1000000n}-` +
            `${BigInt(t.from) * 1000000000n + BigInt(ms + 60) * 1000000n}`;
        await page.goto(`${t.url}/explore?${of}`);
        await panel.locator("li", {hasText: /Regular expressions compiled while running 50 %/}).waitFor();
        await page.goto(`${t.url}/explore?${of}&cell=${cell(6000)}`);
        await panel.locator("li", {hasText: /Regular expressions compiled while running 100 %/}).waitFor();
        await page.goto(`${t.url}/explore?${of}&cell=${cell(2000)}`);
        await panel.getByText("No large share of garbage collection").waitFor();
    });
    await t.check("spans: a name, its latency, and the flame graph of its samples", async () => {
        await page.goto(`${t.url}/spans?from=${t.from}&to=${t.to}`);
        const row = page.locator("tbody tr", {hasText: "GET /spike"});
        await row.waitFor();
        ok(/GET \/spike ticker 1 0 1\.00 s/.test((await row.innerText()).replace(/\s+/g, " ")), await row.innerText());
        await row.click();
        await page.locator(".heatmap canvas").waitFor();
        await drawn(page);
        ok(
            (await page.locator(".toolbar .total").innerText())
                .replace(/ · [\d.]+ m?s of CPU time/, "")
                .startsWith("1 span, 0 errors · shown: all spans of this name"),
            await page.locator(".toolbar .total").innerText(),
        );
        equal(await names(page), ["main", "spike", "work"], "render and parse are of no span");
    });
    await t.check(
        "a request: from its span to the waterfall and what it did; the link of a trace viewer is the same page",
        async () => {
            const link = page.locator(".examples a").first();
            await link.waitFor();
            await link.click();
            const row = page.locator(".waterfall tbody tr");
            await row.waitFor();
            await drawn(page);
            equal(new URL(page.url()).pathname, "/trace");
            equal(await names(page), ["main", "spike", "work"], "what the span did");
            ok(/GET \/spike ticker 1\.00 s/.test((await row.innerText()).replace(/\s+/g, " ")), await row.innerText());
            const facts = await page.locator(".request-facts").innerText(),
                shown = await page.locator(".toolbar .total").innerText();
            ok(
                /^1\.00 s from .* · 1 span · 1 of them with samples · /.test(facts) &&
                    facts.endsWith(" with samples · sampled: 1.00 s of CPU time, of 1.00 s in all spans"),
                facts,
            );
            ok(/1\.00 s of CPU time .* 100 samples/.test(shown.replace(/\s+/g, " ")), shown);
            const bar = await row.locator("svg rect").first().boundingBox(),
                lane = await row.locator("svg").boundingBox();
            ok(Math.abs(bar.width - lane.width) < 2, "the only span is as wide as the trace");
            const [trace, span] = [param(page, "trace"), param(page, "span")];
            for (const path of [`explore?trace=${trace}&span=${span}`, `trace/${trace}`]) {
                await page.goto(`${t.url}/${path}`);
                await row.waitFor();
                await drawn(page);
                equal(await names(page), ["main", "spike", "work"], path);
            }
            await t.axe(page, "request");
            await page.goto(`${t.url}/trace/${"0".repeat(31)}1`);
            await page.getByText("This trace is not known here").waitFor();
        },
    );
    await t.check("slow requests are beside the flame graph of their service", async () => {
        await page.goto(`${t.url}/explore?${at}`);
        await drawn(page);
        await page.getByRole("button", {name: "Requests"}).click();
        await page
            .getByRole("complementary", {name: "slow requests"})
            .getByRole("link", {name: /1\.00 s GET \/spike/})
            .click();
        await page.locator(".waterfall tbody tr").waitFor();
    });
    await t.clean(page, "spans");
    await t.check("a time without a zone is local, for the page and for the server", async () => {
        const berlin = await t.page({timezoneId: "Europe/Berlin"});
        const local = (s) => new Date(s * 1000).toLocaleString("sv", {timeZone: "Europe/Berlin"}).replace(" ", "T");
        await berlin.goto(
            `${t.url}/explore?query=${encodeURIComponent('cpu{service.name="ticker"}')}&from=` +
                `${local(t.from)}&to=${local(t.to)}`,
        );
        await drawn(berlin);
        equal(await names(berlin), ["main", "parse", "render", "spike", "work"]);
        ok(
            (await berlin.getByRole("button", {name: /^time range/}).innerText()).includes(local(t.from).slice(11)),
            await berlin.getByRole("button", {name: /^time range/}).innerText(),
        );
        await t.clean(berlin, "local time");
    });
    const bad = await t.page();
    await bad.goto(`${t.url}/explore?${at}&top=heat&cell=12-abc`);
    await t.check("a bad time in the URL gives a sentence", () =>
        bad.getByText("is not a time of the heat map").waitFor(),
    );
    await t.clean(bad, "bad time");
}
