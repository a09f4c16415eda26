// SPDX-License-Identifier: Apache-2.0
// Compare: two times, two versions; the numbers are those of the API.
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import {colorOfFrame, drawn, equal, frameMenu, ok, param, settled, zoomIsSeen} from "../lib.mjs";

export default async function (t) {
    const page = await t.page();
    const one = (v) => encodeURIComponent(`cpu{service.name="checkout",service.version="${v}"}`);
    await t.check("two versions", async () => {
        await page.goto(`${t.url}/compare?query=${one("1.5.0")}&base_query=${one("1.4.0")}&from=now-3h&base_from=now-3h`);
        await drawn(page);
        const [columns, grew] = await page.evaluate(() => {
            const {tree} = document.querySelector(".flame-box").wickEngine.layout;
            const at = Array.from({length: tree.n}, (_, i) => i).find((i) => tree.name(i).includes("cart.encode"));
            const share = (c) => tree.total[c][at] / tree.total[c][0];
            return [tree.columns, share(1) / share(0)];
        });
        equal(columns, 2);
        ok(grew > 1.5, `encode grew by ${grew}`);
        ok((await page.locator(".legend").getAttribute("aria-label")).includes("blue"), "legend without red and green");
    });
    await t.check("a click zooms the picture, Back brings it back", () =>
        zoomIsSeen(page, (f) => page.mouse.click(f.left, f.top), () => page.goBack()));
    for (const [entry, view] of [["Callers and callees", "sandwich"], ["Source lines", "source"]])
        await t.check(`the menu's “${entry}” opens Explore with the side “now”`, async () => {
            const {name, item} = await frameMenu(page), side = ["query", "from", "to"].map((k) => param(page, k));
            await item(entry).click();
            await page.waitForFunction((v) => location.pathname.endsWith("/explore") && new URL(location).searchParams.get("view") === v, view);
            equal(["query", "from", "to"].map((k) => param(page, k)), side, "the selection");
            await page.waitForFunction((v) => document.querySelector('[role=combobox][aria-label="function"]')?.value === v, name);
            await page.goBack();
            await drawn(page);
        });
    await t.check("exported as one HTML file, it shows the same change in the same colours, without a server; of each side there is a profile", async () => {
        const menuOf = async () => {
            await page.getByRole("button", {name: "Export"}).click();
            return page.getByRole("menu");
        };
        const menu = await menuOf(), get = async (text) => page.request.get(new URL(await menu.locator("a", {hasText: text}).getAttribute("href"), page.url()).href);
        const shown = await page.locator(".diff-head .total").innerText(), names = ["example.com/shop/cart.encode", "runtime.mallocgc"];
        const file = path.join(fs.mkdtempSync(path.join(os.tmpdir(), "wick-ui-")), "difference.html"), answer = await get("self-contained");
        equal(answer.status(), 200);
        fs.writeFileSync(file, await answer.body());
        for (const side of ["before as pprof", "now as pprof"]) equal([...(await (await get(side)).body()).subarray(0, 2)], [0x1f, 0x8b], side);
        const [download] = await Promise.all([page.waitForEvent("download"), menu.locator("[role^=menuitem]", {hasText: "PNG"}).click()]);
        ok(/against.*png$/.test(download.suggestedFilename()) || download.suggestedFilename().length === 84, download.suggestedFilename());
        const other = await t.page();
        await other.goto("file://" + file);
        await drawn(other);
        equal(await other.locator(".total").innerText(), shown, "the change of the whole");
        equal(await other.locator('.choice [aria-pressed="true"]').innerText(), "Per second");
        for (const name of names) equal(await colorOfFrame(other, name), await colorOfFrame(page, name), `the colour of ${name}`);
        const title = await other.locator("h1").innerText();
        ok(title.includes("1.5.0") && title.includes("against") && title.includes("1.4.0"), title);
        await other.getByRole("button", {name: "Share"}).click();
        await other.getByText("each side is 100 %").waitFor();
        equal(other.problems.filter((text) => text !== `request to file://${file}`), [], "errors and requests");
        await t.shot(other, "export-compare");
        await other.context().close();
    });
    await t.check("the table has the same rows as the API", async () => {
        await page.keyboard.press("2");
        await page.waitForFunction(() => new URL(location).searchParams.get("view") === "table");
        await page.waitForFunction(() => document.querySelector("tbody")?.innerText.includes("cart.encode"));
        ok((await page.locator("table caption").count()) === 1, "a table with a caption");
    });
    await t.check("a click selects a row, and the table stays", async () => {
        await page.locator("tbody tr", {hasText: "cart.encode"}).first().click();
        await page.locator("tbody tr.selected", {hasText: "cart.encode"}).waitFor();
        equal([param(page, "view"), param(page, "sel")], ["table", "example.com/shop/cart.encode"]);
        await page.locator("tbody tr.selected").click();
        await page.waitForFunction(() => !document.querySelector("tbody tr.selected"));
    });
    await t.check("side by side", async () => {
        await page.locator("#main").focus();
        await page.keyboard.press("3");
        await page.waitForFunction(() => document.querySelectorAll(".flame-box").length === 2);
        await settled(page);
    });
    for (const nth of [0, 1])
        await t.check(`a click zooms side ${nth + 1} of two, Back brings it back`, () =>
            zoomIsSeen(page, (f) => page.mouse.click(f.left, f.top), () => page.goBack(), nth));
    await t.check("the menu of the side “before” is about that side", async () => {
        const {item} = await frameMenu(page), side = ["base_query", "base_from", "base_to"].map((k) => param(page, k));
        await item("Callers and callees").click();
        await page.waitForFunction(() => location.pathname.endsWith("/explore"));
        equal(["query", "from", "to"].map((k) => param(page, k)), side, "the selection");
        await page.goBack();
        await drawn(page);
    });
    await t.check("the sides can be swapped", async () => {
        const before = [param(page, "query"), param(page, "base_query")];
        await page.getByRole("button", {name: "Compare with"}).click();
        await page.getByRole("menu").locator("[role^=menuitem]", {hasText: "swap"}).click();
        await settled(page);
        equal([param(page, "base_query"), param(page, "query")], before, "swapped");
    });
    await t.clean(page, "compare");
}
