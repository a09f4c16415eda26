// SPDX-License-Identifier: Apache-2.0
// The flame graph itself: keys, search, zoom, deep recursion, the path for screen readers.
import {colorOfFrame, drawn, equal, grey, narrowFrame, ok, param, settled, zoomIsSeen} from "../lib.mjs";

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
        const levels = await page
            .locator(".flame-box [role=treeitem]")
            .evaluateAll((v) => v.map((e) => e.getAttribute("aria-level")));
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
        const top = await (
            await page.request.get(
                t.url +
                    "/api/v1/top?limit=1000&from=now-2h&query=" +
                    encodeURIComponent('cpu{service.name="checkout"}'),
            )
        ).json();
        const wanted =
            (100 * top.rows.filter((r) => r.name.includes("malloc")).reduce((a, r) => a + r.total, 0)) / top.total;
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
        Enter: async (f) => {
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
        await t.check(`${name} zooms the picture, Back brings it back`, () =>
            zoomIsSeen(page, act, () => page.goBack()),
        );
    }
    await t.check("a link to a zoomed frame opens zoomed, and stays zoomed", async () => {
        await zoomIsSeen(page, ways["a click"], null);
        const seen = () =>
            page.evaluate(() => [0, 1].map((k) => document.querySelector(".flame-box").wickEngine["x" + k].toFixed(6)));
        const range = await seen();
        await page.reload();
        await drawn(page);
        equal(await seen(), range, "range");
        await zoomOut();
    });
    await t.check("a second tap on a frame zooms the picture", async () => {
        const touch = await t.page({hasTouch: true, width: 375, height: 800});
        await touch.goto(checkout);
        await drawn(touch);
        const tapTwice = async (f) => {
            await touch.touchscreen.tap(f.left, f.top);
            await touch.waitForTimeout(400); // two taps, not a double tap
            await touch.touchscreen.tap(f.left, f.top);
        };
        await zoomIsSeen(touch, tapTwice, null);
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
        const map = page.locator(".flame-map");
        const drawnMap = () =>
            page.waitForFunction(() => {
                const c = document.querySelector(".flame-map canvas"),
                    {data} = c.getContext("2d").getImageData(0, 0, c.width, c.height);
                return data.filter((v, i) => i % 4 === 3 && v).length > data.length / 16; // of the opaque pixels
            });
        await drawnMap();
        const seen = () =>
            page.evaluate(() => {
                const part = document.querySelector(".flame-map i").getBoundingClientRect(),
                    whole = document.querySelector(".flame-map").getBoundingClientRect(),
                    box = document.querySelector(".flame-box");
                return {
                    top: (part.top - whole.top) / whole.height,
                    high: part.height / whole.height,
                    scrolled: box.scrollTop / box.scrollHeight,
                    part: box.clientHeight / box.scrollHeight,
                };
            });
        const place = await map.boundingBox(),
            before = await seen();
        await page.mouse.click(place.x + place.width / 2, place.y + place.height * 0.7);
        await page.waitForFunction(() => document.querySelector(".flame-box").scrollTop > 100);
        await settled(page); // the frame follows with the next picture
        const after = await seen();
        ok(before.top < 0.02 && Math.abs(after.top - after.scrolled) < 0.02 && after.top > 0.4, JSON.stringify(after));
        ok(Math.abs(after.high - after.part) < 0.12, "the frame is as high as what is seen");
        await page.keyboard.press("r");
        await page.waitForFunction(() => document.querySelector(".flame-box").wickEngine.layout.rows < 10);
        equal(param(page, "rec"), "1");
    });
    await t.check("on a phone the first tap shows what a frame is, the second one zooms", async () => {
        const phone = await t.page({width: 390, height: 844, hasTouch: true, isMobile: true});
        await phone.goto(checkout);
        await drawn(phone);
        const box = await phone.locator(".flame-box").boundingBox();
        ok(box.y < 700, `the graph begins at ${box.y} of 844`);
        equal(await phone.locator(".flame-map").count(), 0, "no map of a graph that fits");
        const f = await narrowFrame(phone);
        await phone.touchscreen.tap(box.x + f.x, box.y + f.y + 6);
        await phone.waitForFunction(
            (name) => document.querySelector(".details-name").textContent === name,
            f.name.split("\t")[0],
        );
        equal(param(phone, "zoom"), null, "zoomed by the first tap");
        await phone.waitForTimeout(400);
        await phone.touchscreen.tap(box.x + f.x, box.y + f.y + 6);
        await phone.waitForFunction(() => new URL(location).searchParams.get("zoom"));
        await t.clean(phone, "phone");
    });
    await t.check("only my code", async () => {
        await page.goto(checkout + "&mine=1");
        await drawn(page);
        const names = await page.evaluate(() => {
            const {tree} = document.querySelector(".flame-box").wickEngine.layout;
            return Array.from({length: tree.n - 1}, (_, i) => tree.name(i + 1));
        });
        ok(names.length && names.every((n) => n.includes("example.com")), names.join());
        await page.goto(checkout + "&mine=1&view=graph&boxes=30");
        await page.locator(".graph-svg .box").first().waitFor();
        const boxes = await page.locator(".graph-svg .box > title").allTextContents();
        equal(
            boxes.map((b) => b.split("\n")[0]).sort(),
            [...new Set(names)].sort(),
            "the call graph has the same functions",
        );
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
    await t.check(
        "functions of a package differ, packages differ more, in both themes, and names can be read on them",
        async () => {
            for (const scheme of ["light", "dark"]) {
                const colors = await t.page({colorScheme: scheme});
                await colors.goto(
                    `${t.url}/explore?query=${encodeURIComponent('cpu{service.name="checkout"}')}&from=now-2h`,
                );
                await drawn(colors);
                const of = {};
                for (const name of [
                    "example.com/shop/cart.encode",
                    "example.com/shop/cart.(*Cart).Checkout",
                    "example.com/shop/search.Find",
                    "sort.Slice",
                ])
                    of[name] = await colorOfFrame(colors, name);
                const [encode, cart, find, slice] = Object.values(of),
                    apart = (a, b) => Math.hypot(...a.map((v, i) => v - b[i]));
                ok(
                    apart(encode, cart) > 4 && apart(encode, find) > 2 * apart(encode, cart) && apart(find, slice) > 20,
                    JSON.stringify(of),
                );
                const light = (c) =>
                    c
                        .map((v) => ((v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
                        .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
                const text = await colors.evaluate(() => document.querySelector(".flame-box").wickEngine.style.text),
                    ink = [1, 3, 5].map((i) => parseInt(text.slice(i, i + 2), 16));
                for (const [name, c] of Object.entries(of)) {
                    const [a, b] = [light(ink), light(c)].sort((p, q) => q - p),
                        contrast = (a + 0.05) / (b + 0.05);
                    ok(contrast > 4.5, `${name} in ${scheme}: contrast ${contrast.toFixed(1)}`);
                }
                await t.shot(colors, `colours-${scheme}`);
                await colors.context().close();
            }
        },
    );
    await t.check(
        "the legend names the packages in their colours; a click leaves one coloured, a second one all",
        async () => {
            const legend = await t.page(),
                name = "example.com/shop/cart.encode";
            await legend.goto(
                `${t.url}/explore?query=${encodeURIComponent('cpu{service.name="checkout"}')}&from=now-2h`,
            );
            await drawn(legend);
            const entry = legend.locator(".color-legend button", {hasText: /^cart$/}),
                shown = await colorOfFrame(legend, name),
                find = await colorOfFrame(legend, "example.com/shop/search.Find");
            equal(
                (await entry.locator("i").evaluate((e) => getComputedStyle(e).backgroundColor))
                    .match(/\d+/g)
                    .map(Number),
                shown,
            );
            await entry.click();
            await legend.waitForFunction(() => new URL(location).searchParams.get("lit") === "example.com/shop/cart");
            equal(await colorOfFrame(legend, name), shown, "cart stays");
            ok(grey(await colorOfFrame(legend, "example.com/shop/search.Find")), "search is grey");
            await entry.click();
            equal(await colorOfFrame(legend, "example.com/shop/search.Find"), find);
            await t.axe(legend, "legend");
            for (const [by, warm, cold] of [
                ["self", name, "main.main"],
                ["own", name, "sort.Slice"],
            ]) {
                await legend.goto(
                    `${t.url}/explore?query=${encodeURIComponent('cpu{service.name="checkout"}')}&` +
                        `from=now-2h&color=${by}`,
                );
                await drawn(legend);
                const vivid = ([...c]) => Math.max(...c) - Math.min(...c),
                    [a, b] = [await colorOfFrame(legend, warm), await colorOfFrame(legend, cold)];
                ok(vivid(a) > vivid(b) + 15, `by ${by}: ${warm} ${a}, ${cold} ${b}`);
            }
            await t.clean(legend, "legend");
        },
    );
    await t.clean(page, "flame graph");
}
