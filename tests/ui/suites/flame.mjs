// SPDX-License-Identifier: Apache-2.0
// The flame graph itself: keys, search, zoom, deep recursion, the path for screen readers.
import {drawn, equal, ok, param, settled, zoomIsSeen} from "../lib.mjs";

const focused = (page) => page.locator(".flame-box [role=treeitem][aria-selected=true]").innerText();

export default async function (t) {
    const page = await t.page();
    const checkout = t.url + "/explore?from=now-2h&query=cpu%7Bservice.name%3D%22checkout%22%7D";
    await page.goto(checkout);
    await drawn(page);

    await t.check("arrow keys move, the path is told as a tree", async () => {
        await page.locator(".flame-box").focus();
        await page.keyboard.press("ArrowDown");
        ok((await focused(page)).startsWith("main.main"), await focused(page));
        await page.keyboard.press("ArrowDown");
        const deep = await focused(page);
        ok(deep.startsWith("net/http.(*conn).serve") && deep.includes("%"), deep);
        await page.keyboard.press("ArrowRight");
        ok((await focused(page)).startsWith("runtime.gcBgMarkWorker"), await focused(page));
        await page.keyboard.press("ArrowLeft");
        await page.keyboard.press("ArrowUp");
        ok((await focused(page)).startsWith("main.main"), await focused(page));
        const levels = await page.locator(".flame-box [role=treeitem]").evaluateAll((v) => v.map((e) => e.getAttribute("aria-level")));
        equal(levels, ["1", "2"], "levels");
        const active = await page.locator(".flame-box").getAttribute("aria-activedescendant");
        ok(await page.locator("#" + active).count(), "active descendant");
    });
    await t.check("Enter zooms, Escape zooms out, the URL follows", async () => {
        await page.keyboard.press("ArrowDown");
        await page.keyboard.press("Enter");
        await page.waitForFunction(() => (new URL(location).searchParams.get("zoom") ?? "").includes("serve"));
        await settled(page);
        await page.keyboard.press("Escape");
        await page.waitForFunction(() => !(new URL(location).searchParams.get("zoom") ?? "").includes("serve"));
        await page.goBack();
        await page.waitForFunction(() => (new URL(location).searchParams.get("zoom") ?? "").includes("serve"));
        await page.locator(".flame-box").focus();
        await page.keyboard.press("0");
        await page.waitForFunction(() => !new URL(location).searchParams.get("zoom"));
    });
    await t.check("search says how much matches", async () => {
        await page.keyboard.press("/");
        await page.keyboard.type("malloc");
        await page.waitForFunction(() => /%/.test(document.querySelector(".search-found").textContent));
        await page.waitForFunction(() => new URL(location).searchParams.get("search") === "malloc");
        const share = parseFloat(await page.locator(".search-found").innerText());
        const top = await (await page.request.get(t.url + "/api/v1/top?limit=1000&from=now-2h&query=" + encodeURIComponent('cpu{service.name="checkout"}'))).json();
        const wanted = 100 * top.rows.filter((r) => r.name.includes("malloc")).reduce((a, r) => a + r.total, 0) / top.total;
        ok(Math.abs(share - wanted) < 1, `${share} % is shown, ${wanted} % is right`);
        await page.keyboard.press("Escape");
        await page.waitForFunction(() => !new URL(location).searchParams.get("search"));
    });
    await t.check("a click zooms, the menu opens by a right click and by M", async () => {
        const box = await page.locator(".flame-box").boundingBox();
        await page.mouse.click(box.x + 40, box.y + 2 * 19 + 8);
        await page.waitForFunction(() => new URL(location).searchParams.get("zoom"));
        await settled(page);
        await page.mouse.click(box.x + 40, box.y + 2 * 19 + 8, {button: "right"});
        await page.getByRole("menu").waitFor();
        ok((await page.getByRole("menu").locator("[role^=menuitem]").count()) > 3, "entries");
        await page.keyboard.press("Escape");
        await page.locator(".flame-box").focus();
        await page.keyboard.press("m");
        await page.getByRole("menu").waitFor();
        await page.keyboard.press("Escape");
    });
    const zoomOut = async () => {
        await page.locator(".flame-box").focus();
        await page.keyboard.press("0");
    };
    await page.goto(checkout);
    await drawn(page);
    const ways = {
        "a click": (f) => page.mouse.click(f.left, f.top),
        "Enter": async (f) => {
            await page.evaluate((node) => document.querySelector(".flame-box").wickEngine.setFocus(node), f.node);
            await page.locator(".flame-box").focus();
            await page.keyboard.press("Enter");
        },
        "the menu": async (f) => {
            await page.mouse.click(f.left, f.top, {button: "right"});
            await page.getByRole("menu").locator("[role^=menuitem]", {hasText: "Zoom to this"}).click();
        },
    };
    for (const [name, act] of Object.entries(ways)) {
        await t.check(`${name} zooms the picture, 0 brings it back`, () => zoomIsSeen(page, act, zoomOut));
        await t.check(`${name} zooms the picture, Back brings it back`, () => zoomIsSeen(page, act, () => page.goBack()));
    }
    await t.check("a link to a zoomed frame opens zoomed, and stays zoomed", async () => {
        await zoomIsSeen(page, ways["a click"], null);
        const seen = () => page.evaluate(() => [0, 1].map((k) => document.querySelector(".flame-box").wickEngine["x" + k].toFixed(6)));
        const range = await seen();
        await page.reload();
        await drawn(page);
        equal(await seen(), range, "range");
        await zoomOut();
    });
    await t.check("a tap zooms the picture", async () => {
        const touch = await t.page({hasTouch: true, width: 375, height: 800});
        await touch.goto(checkout);
        await drawn(touch);
        await zoomIsSeen(touch, (f) => touch.touchscreen.tap(f.left, f.top), null);
        await t.shot(touch, "flame-zoomed-375");
    });
    await t.check("help overlay", async () => {
        await page.keyboard.press("?");
        await page.getByRole("dialog").waitFor();
        await t.shot(page, "help");
        await page.keyboard.press("Escape");
        await page.getByRole("dialog").waitFor({state: "hidden"});
    });
    await t.check("deep recursion is drawn whole, and collapses", async () => {
        await page.goto(t.url + "/explore?from=now-2h&query=cpu%7Bservice.name%3D%22search%22%7D");
        await drawn(page);
        const rows = await page.evaluate(() => document.querySelector(".flame-box").wickEngine.layout.rows);
        ok(rows > t.depth, `${rows} rows`);
        await page.keyboard.press("r");
        await page.waitForFunction(() => document.querySelector(".flame-box").wickEngine.layout.rows < 10);
        equal(param(page, "rec"), "1");
    });
    await t.check("only my code", async () => {
        await page.goto(checkout + "&mine=1");
        await drawn(page);
        const names = await page.evaluate(() => {
            const {tree} = document.querySelector(".flame-box").wickEngine.layout;
            return Array.from({length: tree.n - 1}, (_, i) => tree.name(i + 1));
        });
        ok(names.length && names.every((n) => n.includes("example.com")), names.join());
        await page.goto(checkout + "&mine=1&view=graph");
        await page.locator(".graph-svg .box").first().waitFor();
        const boxes = await page.locator(".graph-svg .box > title").allTextContents();
        equal(boxes.map((b) => b.split("\n")[0]).sort(), [...new Set(names)].sort(), "the call graph has the same functions");
        await page.goto(checkout + "&mine=1");
        await drawn(page);
    });
    await t.check("colours as the switch says, and they stay", async () => {
        await page.getByRole("button", {name: /^colours/}).click();
        await page.waitForFunction(() => document.documentElement.dataset.theme === "dark");
        await page.reload();
        await drawn(page);
        equal(await page.evaluate(() => document.documentElement.dataset.theme), "dark");
    });
    await t.clean(page, "flame graph");
}
