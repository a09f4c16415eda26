// SPDX-License-Identifier: Apache-2.0
// A walk through the running demo: three questions, each answered by clicks alone from the front page, which are
// counted.
import {drawn, equal, ok, settled} from "../lib.mjs";

export default async function (t) {
    const page = await t.page();
    let clicks = 0;
    const click = async (at) => {
        await at.click();
        clicks++;
        await settled(page);
    };
    const ask = (question, most, walk) =>
        t.check(`${question} takes at most ${most} clicks`, async () => {
            clicks = 0;
            await page.goto(t.url);
            await settled(page);
            await walk();
            await t.shot(page, "walk-" + question.replace(/\W+/g, "-"));
            ok(clicks <= most, `${clicks} clicks`);
        });
    await ask("why is checkout slower since the deploy", 2, async () => {
        const card = page.locator(".regression", {hasText: "checkout 1.6.0"});
        await card.waitFor();
        ok(
            /times the CPU|more CPU/.test(await card.locator("h2").innerText()) &&
                /since \d\d:\d\d/.test(await card.innerText()),
            await card.innerText(),
        );
        await click(card.getByRole("link", {name: /demo_shop\.c:\d+/}));
        await page.locator(".code tr", {hasText: "round < 24"}).first().waitFor(); // the loop that does it
        equal(await page.locator('[role=combobox][aria-label="function"]').inputValue(), "discount_matches");
    });
    await ask("which line allocates", 3, async () => {
        const row = page.locator(".trends tr", {has: page.getByRole("rowheader", {name: "gateway"})}),
            heads = await page.locator(".trends thead th").allInnerTexts();
        await click(
            row
                .locator("td")
                .nth(heads.findIndex((h) => h.startsWith("heap")) - 1)
                .locator("a"),
        );
        await click(page.getByRole("button", {name: "Source", exact: true}));
        const hot = page.locator(".code tr", {hasText: "aligned_alloc(16"});
        await hot.waitFor();
        ok(parseFloat(await hot.locator("td").nth(2).innerText()) > 50, await hot.innerText());
    });
    await ask("what did this request do", 3, async () => {
        await click(page.getByRole("rowheader", {name: "checkout"}).getByRole("link"));
        await drawn(page);
        await click(page.getByRole("button", {name: "Requests"}));
        await click(page.locator(".requests a").first());
        await page.locator(".waterfall").waitFor();
        const text = await page.locator("#main").innerText();
        ok(text.includes("GET /checkout") && text.includes("POST /reserve"), text.slice(0, 600));
    });
    await t.check("the lock that orders wait for is seen", async () => {
        await page.goto(t.url + "/explore?query=lock");
        await drawn(page);
        const names = await page.evaluate(() => {
            const {tree} = document.querySelector(".flame-box").wickEngine.layout;
            return Array.from({length: tree.n}, (_, i) => tree.name(i));
        });
        ok(names.includes("stock_take"), names.join());
    });
    await t.axe(page, "demo");
    await t.clean(page, "walk");
}
