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
        await page.goto(
            `${t.url}/compare?query=${one("1.5.0")}&base_query=${one("1.4.0")}&from=now-3h&base_from=now-3h`,
        );
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
        zoomIsSeen(
            page,
            (f) => page.mouse.click(f.left, f.top),
            () => page.goBack(),
        ),
    );
    for (const [entry, view] of [
        ["Callers and callees", "sandwich"],
        ["Source lines", "source"],
    ])
        await t.check(`the menu's “${entry}” opens Explore with the side “now”`, async () => {
            const {name, item} = await frameMenu(page),
                side = ["query", "from", "to"].map((k) => param(page, k));
            await item(entry).click();
            await page.waitForFunction(
                (v) => location.pathname.endsWith("/explore") && new URL(location).searchParams.get("view") === v,
                view,
            );
            equal(
                ["query", "from", "to"].map((k) => param(page, k)),
                side,
                "the selection",
            );
            await page.waitForFunction(
                (v) => document.querySelector('[role=combobox][aria-label="function"]')?.value === v,
                name,
            );
            await page.goBack();
            await drawn(page);
        });
    await t.check(
        "exported as one HTML file, it shows the same change in the same colours, without a " +
            "server; of each side there is a profile",
        async () => {
            const menuOf = async () => {
                await page.getByRole("button", {name: "Export"}).click();
                return page.getByRole("menu");
            };
            const menu = await menuOf(),
                get = async (text) =>
                    page.request.get(
                        new URL(await menu.locator("a", {hasText: text}).getAttribute("href"), page.url()).href,
                    );
            const shown = await page.locator(".diff-head .total").innerText(),
                names = ["example.com/shop/cart.encode", "runtime.mallocgc"];
            const file = path.join(fs.mkdtempSync(path.join(os.tmpdir(), "wick-ui-")), "difference.html"),
                answer = await get("self-contained");
            equal(answer.status(), 200);
            fs.writeFileSync(file, await answer.body());
            for (const side of ["before as pprof", "now as pprof"])
                equal([...(await (await get(side)).body()).subarray(0, 2)], [0x1f, 0x8b], side);
            const [download] = await Promise.all([
                page.waitForEvent("download"),
                menu.locator("[role^=menuitem]", {hasText: "PNG"}).click(),
            ]);
            ok(
                /checkout-service.version-1.5.0-cpu-.*-difference.png$/.test(download.suggestedFilename()),
                download.suggestedFilename(),
            );
            const other = await t.page();
            await other.goto("file://" + file);
            await drawn(other);
            equal(await other.locator(".total").innerText(), shown, "the change of the whole");
            equal(await other.locator('.choice [aria-pressed="true"]').innerText(), "Per second");
            for (const name of names)
                equal(await colorOfFrame(other, name), await colorOfFrame(page, name), `the colour of ${name}`);
            const title = await other.locator("h1").innerText();
            ok(title.includes("1.5.0") && title.includes("against") && title.includes("1.4.0"), title);
            await other.getByRole("button", {name: "Share"}).click();
            await other.getByText("each side is 100 %").waitFor();
            equal(
                other.problems.filter((text) => text !== `request to file://${file}`),
                [],
                "errors and requests",
            );
            await t.shot(other, "export-compare");
            await other.context().close();
        },
    );
    await t.check("boxes say the change as a percentage and as an amount", async () => {
        const texts = await page.evaluate(() => {
            const e = document.querySelector(".flame-box").wickEngine,
                {tree} = e.layout,
                at = Array.from({length: tree.n}, (_, i) => i).find((i) => tree.name(i).includes("cart.encode"));
            return [e.style.share(at), tree.total[0][at] / tree.cover.base, tree.total[1][at] / tree.cover.ns];
        });
        const [said, p, q] = texts,
            [, ratio, cores] = /^\+(\d+) %, \+([\d.]+) cores?$/.exec(said) ?? [];
        ok(Math.abs(ratio - (q / p - 1) * 100) < 1 && Math.abs(cores - (q - p)) < (q - p) * 0.1, JSON.stringify(texts));
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
            zoomIsSeen(
                page,
                (f) => page.mouse.click(f.left, f.top),
                () => page.goBack(),
                nth,
            ),
        );
    await t.check("the menu of the side “before” is about that side", async () => {
        const {item} = await frameMenu(page),
            side = ["base_query", "base_from", "base_to"].map((k) => param(page, k));
        await item("Callers and callees").click();
        await page.waitForFunction(() => location.pathname.endsWith("/explore"));
        equal(
            ["query", "from", "to"].map((k) => param(page, k)),
            side,
            "the selection",
        );
        await page.goBack();
        await drawn(page);
    });
    await t.check("what all stacks begin with is one row, which a click unfolds", async () => {
        const deep = await t.page(),
            at = Math.floor(Date.now() / 1000) - 600,
            name = (part) => `main;cmd.Execute;app.Run;server.loop;${part}`;
        for (const [from, n] of [
            [at - 120, 20],
            [at, 90],
        ]) {
            const sent = await deep.request.post(
                `${t.url}/ingest?name=deep&from=${from}&until=${from + 100}&format=folded&sampleRate=100&units=samples`,
                {data: `${name("parse")} ${n}\n${name("render")} 50\n`, headers: {"content-type": "text/plain"}},
            );
            ok(sent.ok(), await sent.text());
        }
        await deep.goto(
            `${t.url}/compare?query=${encodeURIComponent('cpu{service.name="deep"}')}&from=${at}&` +
                `to=${at + 110}&base_from=${at - 120}&base_to=${at}`,
        );
        await drawn(deep);
        const rows = () =>
            deep.evaluate(() => {
                const {tree, depth} = document.querySelector(".flame-box").wickEngine.layout;
                return Array.from({length: tree.n}, (_, i) => [depth[i], tree.name(i)]);
            });
        equal((await rows()).slice(1).sort(), [
            [1, "main … app.Run (3 frames that all stacks begin with)"],
            [2, "server.loop"],
            [3, "parse"],
            [3, "render"],
        ]);
        const box = await deep.locator(".flame-box").boundingBox();
        await deep.mouse.click(box.x + 300, box.y + 19 + 9);
        await deep.waitForFunction(() => document.querySelector(".flame-box").wickEngine.layout.tree.n === 7);
        ok(
            (await rows()).some(([d, n]) => d === 5 && n === "render"),
            "unfolded",
        );
        await deep.context().close();
    });
    await t.check("the sides can be swapped", async () => {
        const before = [param(page, "query"), param(page, "base_query")];
        await page.getByRole("button", {name: "Compare with"}).click();
        await page.getByRole("menu").locator("[role^=menuitem]", {hasText: "swap"}).click();
        await settled(page);
        equal([param(page, "base_query"), param(page, "query")], before, "swapped");
    });
    await timeline(t);
    await t.clean(page, "compare");
}

// The windows of the timeline are dragged and resized, snap to deploys, and never cover each other.
async function timeline(t) {
    const page = await t.page(),
        query = encodeURIComponent('cpu{service.name="checkout"}'),
        end = Math.floor(t.sent / 1000) - 120;
    const times = () => ["base_from", "base_to", "from", "to"].map((k) => Number(param(page, k)));
    const edge = (name, which) => page.locator(`.window.${name} [data-end="${which}"]`);
    const scale = async () =>
        (await page.locator(".windows").boundingBox()).width /
        (await page.evaluate(() => {
            const w = document.querySelector(".window.now");
            return Number(w.getAttribute("aria-valuemax")) - Number(w.getAttribute("aria-valuemin"));
        }));
    const drag = async (from, pixels) => {
        const r = await from.boundingBox(),
            x = r.x + r.width / 2,
            y = r.y + 20,
            before = page.url();
        await page.mouse.move(x, y);
        await page.mouse.down();
        await page.mouse.move(x + pixels / 2, y, {steps: 3});
        await page.mouse.move(x + pixels, y, {steps: 3});
        await page.mouse.up();
        await page.waitForFunction((old) => location.href !== old, before);
        await drawn(page);
    };
    await t.check("a range that is dragged in Explore is “now”, and “before” ends where it begins", async () => {
        await page.goto(`${t.url}/explore?query=${query}&from=${end - 1200}&to=${end}`);
        await drawn(page);
        await page.getByRole("link", {name: "Compare", exact: true}).last().click();
        await drawn(page);
        equal(times(), [end - 2400, end - 1200, end - 1200, end]);
        await page.locator(".window.now").waitFor();
        await t.shot(page, "compare-timeline");
    });
    await t.check("an edge that is dragged changes that time alone", async () => {
        const [b0, b1, n0] = times(),
            k = await scale();
        await drag(edge("now", "to"), -300 * k);
        const [c0, c1, m0, m1] = times();
        equal([c0, c1, m0], [b0, b1, n0]);
        ok(Math.abs(m1 - (end - 300)) < 2 + 2 / k, `${m1 - end} s instead of -300`);
    });
    await t.check("before cannot be dragged over now", async () => {
        await drag(page.locator(".window.before"), -60 * (await scale()));
        await drag(page.locator(".window.before"), 4000 * (await scale()));
        const [b0, b1, n0] = times();
        equal(b1, n0, "it ends where now begins");
        equal(b1 - b0, 1200, "and keeps its length");
    });
    await t.check("keys move and resize a window", async () => {
        await page.locator(".window.now").focus();
        const old = times();
        await page.keyboard.press("Shift+ArrowLeft");
        await page.waitForFunction((to) => Number(new URL(location).searchParams.get("to")) < to, old[3]);
        equal(times().slice(0, 3), old.slice(0, 3));
    });
    await t.check("an edge near a deploy snaps to it; a window across it says so, with a way out", async () => {
        const deploys = await (await page.request.get(`${t.url}/api/v1/deploys?query=${query}&from=now-3h`)).json(),
            at = Number(deploys.deploys.find((d) => d.deployed).since) / 1e9;
        const whole = Math.floor(at);
        await page.goto(
            `${t.url}/compare?query=${query}&base_query=${query}&from=${whole + 600}&to=` +
                `${whole + 1200}&base_from=${whole - 900}&base_to=${whole + 300}`,
        );
        await drawn(page);
        await page.getByText("“before” includes the deploy of 1.5.0").waitFor();
        await drag(edge("before", "to"), -300 * (await scale()) + 5);
        equal(Number(param(page, "base_to")), Math.round(at), "snapped to the deploy");
        equal(await page.getByText("includes the deploy of").count(), 0);
        await page.goBack();
        await page.getByRole("button", {name: "End it there"}).click();
        await page.waitForFunction(
            (to) => Number(new URL(location).searchParams.get("base_to")) === to,
            Math.round(at),
        );
        await drawn(page);
    });
    await t.check("another time on the side now does not overlap with before", async () => {
        await page.getByRole("button", {name: /time now/}).click();
        await page.getByRole("menu").locator("[role^=menuitem]", {hasText: "last 1 day"}).click();
        await drawn(page);
        const [, b1, n0] = times();
        ok(b1 <= n0, `before ends at ${b1}, now begins at ${n0}`);
    });
    await t.check("type, filters and how stacks are drawn stay when switching between views", async () => {
        await page.goto(
            `${t.url}/explore?query=${encodeURIComponent('alloc{service.name="checkout"}')}&` +
                "from=now-2h&focus=serve&group=host.name&search=encode",
        );
        await drawn(page);
        await page.locator(".top nav").getByRole("link", {name: "Compare"}).click();
        await drawn(page);
        await page.locator(".top nav").getByRole("link", {name: "Explore"}).click();
        await drawn(page);
        equal(
            ["query", "focus", "group", "search"].map((k) => param(page, k)),
            ['alloc{service.name="checkout"}', "serve", "host.name", "encode"],
        );
    });
    await t.axe(page, "compare timeline");
    await t.clean(page, "timeline");
}
