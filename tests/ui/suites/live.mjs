// SPDX-License-Identifier: Apache-2.0
// Views refresh while their range ends at now, within a budget; they can be paused; a dead server shows within ten
// seconds. The page's clock is moved by hand.
import {drawn, equal, ok, settled} from "../lib.mjs";
import {views as every} from "./every.mjs";

const some = ["start", "explore"];

// A page whose timers run only when advance() says so.
async function still(t, path, options) {
    const page = await t.page(options);
    await page.clock.install();
    await page.goto(`${t.url}/${path}`);
    await page.clock.runFor(1500);
    await settled(page);
    return page;
}

async function advance(page, ms) {
    for (let left = ms; left > 0; left -= 1000) {
        await page.clock.runFor(Math.min(1000, left));
        for (let k = 0; k < 400 && page.pending.size; k++) await new Promise((r) => setTimeout(r, 10));
    }
}

// A service of its own: its query, and send(folded stacks, seconds ago, version).
async function service(t, name) {
    const setup = await t.page(); // its request context has no faked clock
    const send = async (text, ago = 12, version = "") => {
        const end = Math.floor(Date.now() / 1000) - ago + 10,
            labels = version && encodeURIComponent(`{service.version=${version}}`);
        const r = await setup.request.post(
            `${t.url}/ingest?name=${name}${labels}&from=${end - 10}&until=${end}&format=folded&` +
                "sampleRate=100&units=samples",
            {data: text, headers: {"content-type": "text/plain"}},
        );
        ok(r.ok(), `${r.status()} ${await r.text()}`);
    };
    return {send, query: encodeURIComponent(`cpu{service.name="${name}"}`)};
}

const ageText = (page) => page.locator(".live-age").innerText();

export default async function (t) {
    const views = t.every ? Object.values(every(t)) : some;
    for (const path of views)
        await t.check(`/${path}: a minute of looking costs at most 10 requests and 100 kB`, async () => {
            const page = await still(t, path);
            let requests = 0,
                bytes = 0;
            const answers = [];
            page.on("request", () => requests++);
            page.on("response", (r) =>
                answers.push(
                    r
                        .request()
                        .sizes()
                        .then(
                            (s) => (bytes += s.responseBodySize + s.responseHeadersSize),
                            () => {},
                        ),
                ),
            );
            await advance(page, 60e3);
            await Promise.all(answers);
            ok(requests >= 6 && requests <= 10, `${requests} requests`);
            ok(bytes <= 100e3, `${bytes} bytes`);
            const fixed = /[?&]to=/.test(page.url()); // its range does not end at now
            equal(await page.locator(".live-age").count(), fixed ? 0 : 1, "says when it was updated");
            if (!fixed) {
                ok(
                    /^updated (now|\d+ s ago)$/.test(await page.locator(".live-age").innerText()),
                    await page.locator(".live-age").innerText(),
                );
                await page.getByRole("button", {name: "Pause"}).click();
                equal(await page.locator(".live-age").innerText(), "paused");
                await page.getByRole("button", {name: "Resume"}).click();
            }
            await page.context().close();
        });
    await t.check("new data arrive without a reload; what has the focus keeps it", async () => {
        const {send, query} = await service(t, "live-" + Date.now());
        await send("main;work;deep 70\nmain;idle 30\n");
        const page = await still(t, `explore?from=now-15m&query=${query}`);
        await drawn(page);
        await page.locator(".flame-box").focus();
        for (let i = 0; i < 3; i++) await page.keyboard.press("ArrowDown");
        const focus = () =>
            page
                .evaluate(() => document.querySelector(".flame-box").wickEngine)
                .then(() =>
                    page.evaluate(() => {
                        const e = document.querySelector(".flame-box").wickEngine;
                        return [e.layout.tree.name(e.focus), e.layout.tree.total[0][0]];
                    }),
                );
        equal(await focus(), ["deep", 1e9], "before");
        await send("main;aaa 400\nmain;work;deep 100\n");
        await advance(page, 30e3);
        equal(await focus(), ["deep", 6e9], "after: the same frame, of a new picture");
        ok(
            /updated (now|\d+ s ago)/.test(await page.locator(".live-age").innerText()),
            await page.locator(".live-age").innerText(),
        );
        await page.getByRole("button", {name: "Pause"}).click();
        equal(await page.locator(".live-age").innerText(), "paused");
        await send("main;later 500\n");
        await advance(page, 30e3);
        equal(await focus(), ["deep", 6e9], "paused: nothing changes");
        await page.getByRole("button", {name: "Resume"}).click();
        await advance(page, 20e3);
        equal((await focus())[1], 11e9, "resumed");
        await t.clean(page, "live");
    });
    await t.check("a part that was folded and fetched by zooming is refreshed too", async () => {
        const {send, query} = await service(t, "deep-" + Date.now());
        await send("main;hot 5000\n" + Array.from({length: 40}, (_, i) => `main;work;f${i} ${40 + i}\n`).join(""));
        const page = await still(t, `explore?from=now-15m&nodes=12&zoom=main;work&query=${query}`);
        const shown = () =>
            page.evaluate(() => {
                const {tree} = document.querySelector(".flame-box").wickEngine.layout;
                return Array.from({length: tree.n}, (_, i) => tree.name(i));
            });
        await page.waitForFunction(() => document.querySelector(".flame-box")?.wickEngine.layout?.tree.n > 12);
        ok((await shown()).length > 12, "the zoomed part was not fetched: " + (await shown()).join());
        await send("main;work;late 300\n");
        await advance(page, 40e3);
        ok((await shown()).includes("late"), (await shown()).join());
        await page.context().close();
    });
    await t.check("the call graph keeps its place when it is refreshed", async () => {
        const {send, query} = await service(t, "graph-" + Date.now());
        await send("main;work;deep 70\nmain;idle 30\n");
        const page = await still(t, `explore?view=graph&from=now-15m&query=${query}`);
        await page.locator(".graph-svg .box").first().waitFor();
        const place = () => page.locator(".graph-svg").getAttribute("viewBox"),
            fitted = await place();
        await page.locator(".graph-svg").hover();
        await page.mouse.wheel(0, -200);
        await page.waitForFunction((v) => document.querySelector(".graph-svg").getAttribute("viewBox") !== v, fitted);
        const zoomed = await place();
        await send("main;late 300\n");
        await advance(page, 30e3);
        ok((await page.locator(".graph-svg").textContent()).includes("late"), "it was not refreshed");
        equal(await place(), zoomed, "the part that is seen");
        await page.getByRole("button", {name: "120"}).click();
        await page.waitForFunction((v) => document.querySelector(".graph-svg").getAttribute("viewBox") !== v, zoomed);
        await page.context().close();
    });
    await t.check("a deploy is marked without a reload", async () => {
        const {send, query} = await service(t, "deployed-" + Date.now());
        for (const ago of [400, 300, 200]) await send("main;work 100\n", ago, "1.0.0");
        const page = await still(t, `explore?from=now-15m&query=${query}`);
        await page.evaluate(() => {
            window.wickTexts = [];
            const draw = CanvasRenderingContext2D.prototype.fillText;
            CanvasRenderingContext2D.prototype.fillText = function (text, ...at) {
                window.wickTexts.push(text);
                return draw.call(this, text, ...at);
            };
        });
        await send("main;work 100\n", 12, "2.0.0");
        await advance(page, 30e3);
        const texts = await page.evaluate(() => window.wickTexts);
        ok(texts.includes("2.0.0"), texts.join());
        await page.context().close();
    });
    await t.check(
        "answers that are errors: the page says since when it was not updated, and keeps the picture",
        async () => {
            const page = await still(t, "explore", {expected: [/503/]});
            await drawn(page);
            await page.route(/\/api\/v1\/(flame|series|deploys)/, (r) =>
                r.fulfill({status: 503, json: {error: {message: "too many queries"}}}),
            );
            await advance(page, 40e3);
            const [, seconds] = /^not updated for (\d+) s$/.exec(await ageText(page)) ?? [];
            ok(seconds >= 30 && seconds <= 50, await ageText(page));
            ok(await page.locator(".flame-box").isVisible(), "the picture is gone");
            ok(!(await page.locator(".banner").first().isVisible()), "the server is there");
            await page.unrouteAll();
            await advance(page, 25e3);
            ok(/^updated (now|\d+ s ago)$/.test(await ageText(page)), await ageText(page));
            await t.clean(page, "errors");
            await page.context().close();
        },
    );
    await t.check("an answer that takes long is not requested again meanwhile", async () => {
        const page = await still(t, "explore"),
            held = [];
        await drawn(page);
        await page.route(/\/api\/v1\/flame/, (r) => held.push(r));
        await page.clock.runFor(45e3);
        await page.waitForTimeout(500);
        equal(held.length, 1, "requests");
        ok(/^updated [345]\d s ago$|^not updated$/.test(await ageText(page)), await ageText(page));
        await Promise.all(held.map((r) => r.continue()));
        await page.unrouteAll({behavior: "wait"});
        await advance(page, 25e3);
        ok(/^updated (now|\d+ s ago)$/.test(await ageText(page)), await ageText(page));
        await page.context().close();
    });
    for (const path of views)
        await t.check(`/${path}: a dead server shows within ten seconds`, async () => {
            const page = await still(t, path, {expected: [/ERR_FAILED/]});
            ok(!(await page.locator(".banner").first().isVisible()), "no banner while it lives");
            await page.route("**/api/**", (r) => r.abort());
            await advance(page, 10e3);
            await page.getByText("The server does not respond").first().waitFor({timeout: 5000});
            ok(await page.locator(".banner").first().isVisible(), "the banner");
            await page.context().close();
        });
    await t.check("rows of Sources keep their places", async () => {
        const page = await still(t, "senders");
        const rows = () =>
            page
                .locator("section[aria-label='who sends'] tbody tr")
                .allInnerTexts()
                .then((l) => l.map((r) => r.split("\n")[0].split("\t")[0]));
        const before = await rows();
        ok(before.length > 2, before.join());
        await advance(page, 15e3);
        equal(await rows(), before, "names of the rows");
        await page.context().close();
    });
}
