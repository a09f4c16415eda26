// SPDX-License-Identifier: Apache-2.0
// Explore: what is chosen is in the URL, a sent link shows the same, back and forward work, files can be taken away.
import fs from "node:fs";
import {drawn, equal, ok, param, settled} from "../lib.mjs";

export default async function (t) {
    const page = await t.page();
    const pick = async (button, item) => {
        await page.getByRole("button", {name: button}).first().click();
        await page.getByRole("menu").locator("[role^=menuitem]", {hasText: item}).first().click();
        await settled(page);
    };
    await page.goto(t.url + "/explore");
    await drawn(page);

    await t.check("a service is picked with completion", async () => {
        const box = page.getByRole("combobox", {name: "service"});
        await box.click();
        await box.fill("check");
        await page.getByRole("option", {name: "checkout"}).click();
        await drawn(page);
        ok(param(page, "query").includes('service.name="checkout"'), page.url());
    });
    await t.check("a type is picked", async () => {
        await pick(/profile type/, "in use");
        ok(param(page, "query").startsWith("heap"), page.url());
        await page.goBack();
        await settled(page);
        ok(!param(page, "query").startsWith("heap"), "back: " + page.url());
        await page.goForward();
        await settled(page);
        ok(param(page, "query").startsWith("heap"), "forward: " + page.url());
        await page.goBack();
        await drawn(page);
    });
    await t.check("a matcher is added and taken away", async () => {
        await page.getByRole("button", {name: "add a filter"}).click();
        const label = page.getByRole("combobox", {name: "label", exact: true});
        await label.fill("host.name");
        await label.press("Enter");
        const value = page.getByRole("combobox", {name: "value of host.name"});
        await value.fill("web-1");
        await value.press("Enter");
        await settled(page);
        ok(param(page, "query").includes('host.name="web-1"'), page.url());
        await page.getByRole("button", {name: 'remove host.name=web-1'}).click();
        await settled(page);
        ok(!param(page, "query").includes("host.name"), page.url());
    });
    await t.check("a range of time is picked", async () => {
        await pick(/^time range/, "last 6 hours");
        ok(/^now-/.test(param(page, "from")), page.url());
    });
    await t.check("dragging over less than a second of the chart shows that second", async () => {
        const from = Math.floor(t.sent / 1000) - 245, before = new URL(page.url());
        await page.goto(`${t.url}/explore?query=${encodeURIComponent('cpu{service.name="checkout"}')}&from=${from}&to=${from + 30}`);
        await drawn(page);
        const box = await page.locator(".series .u-over").boundingBox(), x = (s) => box.x + (box.width * s) / 30, y = box.y + box.height / 2;
        await page.mouse.move(x(5.1), y);
        await page.mouse.down();
        await page.mouse.move(x(5.4), y, {steps: 3});
        await page.mouse.up();
        await page.waitForFunction((s) => new URL(location).searchParams.get("from") !== s, String(from));
        equal([param(page, "from"), param(page, "to")], [String(from + 5), String(from + 6)]);
        await drawn(page);
        await page.goto(before.href);
        await drawn(page);
    });
    await t.check("every view by its key and by its button", async () => {
        for (const [key, view] of [["2", "table"], ["3", "both"], ["4", "graph"], ["5", "sandwich"], ["6", "source"], ["7", "profiles"], ["1", null]]) {
            await page.locator("#main").focus();
            await page.keyboard.press(key);
            await page.waitForFunction((v) => new URL(location).searchParams.get("view") === v, view);
            await settled(page);
        }
        await page.goBack();
        await settled(page);
        equal(param(page, "view"), "profiles");
        await page.goForward();
        await drawn(page);
    });
    await t.check("filters by regular expression", async () => {
        await page.getByRole("button", {name: "+ frames"}).click();
        await page.locator("input[name=focus]").fill("search");
        await page.keyboard.press("Enter");
        await drawn(page);
        equal(param(page, "focus"), "search");
        const names = await page.evaluate(() => {
            const {tree} = document.querySelector(".flame-box").wickEngine.layout;
            return Array.from({length: tree.n}, (_, i) => tree.name(i));
        });
        ok(names.some((n) => n.includes("search.Find")) && !names.some((n) => n.includes("cart.encode")), names.join());
        await page.getByRole("button", {name: "Export"}).click();
        for (const text of ["folded", "speedscope", "self-contained", "OTLP JSON"]) {
            const r = await page.request.get(new URL(await page.getByRole("menu").locator("a", {hasText: text}).getAttribute("href"), page.url()).href), file = await r.text();
            ok(r.status() === 200 && file.includes("search.Find") && !file.includes("cart.encode"), `${text} is not of the stacks that are shown`);
        }
        await page.keyboard.press("Escape");
        await page.getByRole("button", {name: /remove: only stacks with/}).click();
        await drawn(page);
    });
    await t.check("a regular expression keeps its backslashes when a type is picked", async () => {
        await page.goto(`${t.url}/explore?from=now-2h&query=${encodeURIComponent('cpu{service.name=~"check\\w+"}')}`);
        await drawn(page);
        await pick(/profile type/, "in use");
        await drawn(page);
        equal(param(page, "query"), 'heap{service.name=~"check\\\\w+"}');
    });
    await t.check("a sent link shows the same", async () => {
        await page.goto(t.url + "/explore?query=cpu%7Bservice.name%3D%22checkout%22%7D&from=now-2h&search=malloc&zoom=main.main%3Bnet%2Fhttp.(*conn).serve&dir=flame");
        await drawn(page);
        const state = (p) => p.evaluate(() => {
            const e = document.querySelector(".flame-box").wickEngine;
            return [e.layout.tree.n, e.layout.tree.name(e.focus), e.style.flip, document.querySelector("#search").value, document.querySelector(".search-found").textContent, e.x0, e.x1];
        });
        const other = await t.page();
        await other.goto(page.url());
        await drawn(other);
        equal(await state(other), await state(page), "state");
        ok((await state(page))[1] === "net/http.(*conn).serve", JSON.stringify(await state(page)));
        await other.context().close();
    });
    await t.check("files can be taken away", async () => {
        await page.getByRole("button", {name: "Export"}).click();
        const menu = page.getByRole("menu");
        for (const [text, start] of [["pprof", "\x1f\x8b"], ["folded", ""], ["self-contained", "<!doctype"], ["OTLP JSON", "{"]]) {
            const href = await menu.locator("a", {hasText: text}).first().getAttribute("href");
            const r = await page.request.get(new URL(href, page.url()).href);
            equal(r.status(), 200, text);
            ok((r.headers()["content-disposition"] ?? "").includes("attachment"), text + " is a file");
            if (start === "\x1f\x8b") equal([...(await r.body()).subarray(0, 2)], [0x1f, 0x8b], text);
            else ok((await r.text()).toLowerCase().startsWith(start), text);
        }
        const binary = await page.request.get(new URL(await menu.locator("a", {hasText: "OTLP protobuf"}).getAttribute("href"), page.url()).href);
        equal(binary.status(), 200, "OTLP protobuf");
        equal(binary.headers()["content-type"], "application/x-protobuf");
        fs.writeFileSync(t.otlp, await binary.body()); // read by who started this, with OpenTelemetry's own messages
        const [download] = await Promise.all([page.waitForEvent("download"), menu.locator("[role^=menuitem]", {hasText: "PNG"}).click()]);
        ok(download.suggestedFilename().endsWith(".png"), download.suggestedFilename());
    });
    await t.check("a spike leads to its single profiles, and one of them to its flame graph", async () => {
        await page.goto(t.url + "/explore?view=profiles&from=now-2h&query=cpu%7Bservice.name%3D%22checkout%22%7D");
        const row = page.locator("tbody tr").first();
        await row.waitFor();
        await row.click();
        await page.waitForFunction(() => new URL(location).searchParams.get("profile"));
        await settled(page);
    });
    await t.check("source lines with their weights", async () => {
        await page.goto(t.url + "/explore?view=source&from=now-2h&fn=example.com%2Fshop%2Fcart.encode");
        await page.waitForFunction(() => document.body.innerText.includes("func encode()"));
    });
    await t.clean(page, "explore");
}
