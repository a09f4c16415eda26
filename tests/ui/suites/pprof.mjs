// SPDX-License-Identifier: Apache-2.0
// wick pprof -http: the UI over one file, and pprof's own views.
import {drawn, ok, param, settled, zoomIsSeen} from "../lib.mjs";

export default async function (t) {
    const page = await t.page();
    await t.check("the root leads to the flame graph of the file", async () => {
        await page.goto(`${t.url}/?token=${t.token}`);
        await drawn(page);
        ok(page.url().includes("/ui/flamegraph"), page.url());
        ok((await page.locator("#main").innerText()).includes("a.pb.gz"), "the file's name");
        await t.shot(page, "pprof-flame");
    });
    await t.check("a click zooms the picture, Back brings it back", () =>
        zoomIsSeen(
            page,
            (f) => page.mouse.click(f.left, f.top),
            () => page.goBack(),
        ),
    );
    await t.check("pprof's parameters hold for the picture", async () => {
        const all = await page.evaluate(() => document.querySelector(".flame-box").wickEngine.layout.tree.n);
        await page.goto(t.url + "/ui/flamegraph?f=pkg1");
        await drawn(page);
        const some = await page.evaluate(() => document.querySelector(".flame-box").wickEngine.layout.tree.n);
        ok(some > 1 && some < all, `${some} of ${all}`);
        await page.keyboard.press("2");
        await page.waitForFunction(() => new URL(location).searchParams.get("view") === "table");
        ok(param(page, "f") === "pkg1", page.url());
    });
    await t.check("another type is picked", async () => {
        await page.getByRole("button", {name: /profile type/}).click();
        await page.getByRole("menu").locator("[role^=menuitem]").first().click();
        await settled(page);
        ok(param(page, "query"), page.url());
    });
    await t.clean(page, "pprof UI");
    await t.axe(page, "pprof UI");
    for (const view of ["top", "peek", "source", "graph"]) {
        await t.check("pprof's own " + view, async () => {
            await page.goto(t.url + "/ui/flamegraph?n=8&f=pkg1");
            await drawn(page);
            await page.goto(`${t.url}/ui/${view}?n=8&f=pkg1`);
            ok(await page.locator("h1").count(), "page");
            ok(await page.locator("table, pre#text, .source, svg").count(), "content");
            await page.getByRole("link", {name: "Explore"}).click();
            await drawn(page);
            ok(param(page, "f") === "pkg1", page.url());
        });
    }
    await page.goto(t.url + "/ui/top");
    await t.shot(page, "pprof-top");
    await t.axe(page, "pprof's top");
    await t.clean(page, "pprof's own views");
}
