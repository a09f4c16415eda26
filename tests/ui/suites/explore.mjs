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
        await page.getByRole("button", {name: "remove host.name=web-1"}).click();
        await settled(page);
        ok(!param(page, "query").includes("host.name"), page.url());
    });
    await t.check("a range of time is picked", async () => {
        await pick(/^time range/, "last 6 hours");
        ok(/^now-/.test(param(page, "from")), page.url());
    });
    await t.check("dragging over less than a second of the chart shows that second", async () => {
        const from = Math.floor(t.sent / 1000) - 245,
            before = new URL(page.url());
        await page.goto(
            `${t.url}/explore?query=${encodeURIComponent('cpu{service.name="checkout"}')}&from=${from}&to=${from + 30}`,
        );
        await drawn(page);
        const box = await page.locator(".series .u-over").boundingBox(),
            x = (s) => box.x + (box.width * s) / 30,
            y = box.y + box.height / 2;
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
        for (const [key, view] of [
            ["2", "table"],
            ["3", "both"],
            ["4", "graph"],
            ["5", "sandwich"],
            ["6", "source"],
            ["7", "profiles"],
            ["1", null],
        ]) {
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
            const r = await page.request.get(
                    new URL(await page.getByRole("menu").locator("a", {hasText: text}).getAttribute("href"), page.url())
                        .href,
                ),
                file = await r.text();
            ok(
                r.status() === 200 && file.includes("search.Find") && !file.includes("cart.encode"),
                `${text} is not of the stacks that are shown`,
            );
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
        await page.goto(
            t.url +
                ("/explore?query=cpu%7Bservice.name%3D%22checkout%22%7D&from=now-2h&search=malloc&" +
                    "zoom=main.main%3Bnet%2Fhttp.(*conn).serve&dir=flame"),
        );
        await drawn(page);
        const state = (p) =>
            p.evaluate(() => {
                const e = document.querySelector(".flame-box").wickEngine;
                return [
                    e.layout.tree.n,
                    e.layout.tree.name(e.focus),
                    e.style.flip,
                    document.querySelector("#search").value,
                    document.querySelector(".search-found").textContent,
                    e.x0,
                    e.x1,
                ];
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
        for (const [text, start] of [
            ["pprof", "\x1f\x8b"],
            ["folded", ""],
            ["self-contained", "<!doctype"],
            ["OTLP JSON", "{"],
        ]) {
            const href = await menu.locator("a", {hasText: text}).first().getAttribute("href");
            const r = await page.request.get(new URL(href, page.url()).href);
            equal(r.status(), 200, text);
            ok((r.headers()["content-disposition"] ?? "").includes("attachment"), text + " is a file");
            if (start === "\x1f\x8b") equal([...(await r.body()).subarray(0, 2)], [0x1f, 0x8b], text);
            else ok((await r.text()).toLowerCase().startsWith(start), text);
        }
        const binary = await page.request.get(
            new URL(await menu.locator("a", {hasText: "OTLP protobuf"}).getAttribute("href"), page.url()).href,
        );
        equal(binary.status(), 200, "OTLP protobuf");
        equal(binary.headers()["content-type"], "application/x-protobuf");
        fs.writeFileSync(t.otlp, await binary.body()); // read by who started this, with OpenTelemetry's own messages
        const [download] = await Promise.all([
            page.waitForEvent("download"),
            menu.locator("[role^=menuitem]", {hasText: "PNG"}).click(),
        ]);
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
    await t.check(
        "the call graph begins with the hottest path, and a click on a box adds its neighbours where it was",
        async () => {
            const graph = await t.page(),
                query = encodeURIComponent('cpu{service.name="checkout"}');
            await graph.goto(`${t.url}/explore?query=${query}&from=now-2h&view=graph`);
            const box = (name) =>
                graph.locator(".graph-svg .box", {has: graph.locator("text", {hasText: new RegExp(`^${name}$`)})});
            await box("cart.encode").waitFor();
            await box("main.main").waitFor();
            equal(await box("sort.Slice").count(), 0, "not beside the hottest path");
            equal(await box("search.Find").locator(".box-more").textContent(), "+1");
            const place = async () => await box("search.Find").boundingBox(),
                before = await place();
            await box("search.Find").click();
            await box("sort.Slice").waitFor();
            const after = await place();
            ok(
                Math.abs(after.x - before.x) < 3 && Math.abs(after.y - before.y) < 3,
                `it moved from ${JSON.stringify(before)} to ${JSON.stringify(after)}`,
            );
            equal(
                [param(graph, "grow"), param(graph, "fn")],
                ["example.com/shop/search.Find", "example.com/shop/search.Find"],
            );
            await t.axe(graph, "call graph that grows");
            await graph.getByRole("button", {name: "Callers and callees"}).click();
            await graph.waitForFunction(
                () =>
                    document.querySelector('[role=combobox][aria-label="function"]')?.value ===
                    "example.com/shop/search.Find",
            );
            await t.clean(graph, "call graph");
        },
    );
    await t.check("callers and source lines begin with the function that has the most self time", async () => {
        const hot = await t.page(),
            query = encodeURIComponent('cpu{service.name="checkout"}');
        const top = await (
            await hot.request.get(`${t.url}/api/v1/top?query=${query}&from=now-2h&sort=self&limit=1`)
        ).json();
        for (const view of ["sandwich", "source"]) {
            await hot.goto(`${t.url}/explore?query=${query}&from=now-2h&view=${view}`);
            await hot.waitForFunction(
                (name) => document.querySelector('[role=combobox][aria-label="function"]')?.value === name,
                top.rows[0].name,
            );
        }
        await hot.locator(".code", {hasText: "func encode()"}).waitFor();
        await hot.goto(`${t.url}/explore?query=${query}&from=now-2h&view=table&rows=line`);
        await hot.getByText("cart.go:40").first().waitFor();
        await t.clean(hot, "hottest function");
    });
    await t.check(
        "memory in use is what there is at the end of the range, and mean and maximum are named",
        async () => {
            const held = await t.page(),
                size = (at) => Number(/([\d.]+) MB/.exec(at)[1]),
                from = Math.floor(t.sent / 1000) - 3600,
                to = Math.floor(t.sent / 1000);
            const query = encodeURIComponent('heap{service.name="checkout"}'),
                ask = `query=${query}&from=${from}&to=${to}`;
            const d = await (await held.request.get(`${t.url}/api/v1/series?${ask}`)).json(),
                used = d.series[0].values.filter((v, i) => d.coverage[i] > 0),
                MB = 1e6;
            await held.goto(`${t.url}/explore?${ask}`);
            await drawn(held);
            const said = await held.locator(".toolbar .total").innerText(),
                [now, mean, most] = said.match(/[\d.]+ [kMG]B/g).map(size);
            const close = (a, b) => Math.abs(a * MB - b) < b * 0.03;
            ok(
                close(now, used.at(-1)) &&
                    close(mean, used.reduce((a, b) => a + b) / used.length) &&
                    close(most, Math.max(...used)),
                `${said} of ${used}`,
            );
            const drawnAs = () =>
                held.evaluate(() => document.querySelector(".flame-box").wickEngine.layout.tree.total[0][0]);
            ok(close(now, await drawnAs()), `drawn: ${await drawnAs()}`);
            await held.getByRole("button", {name: "Show the mean"}).click();
            await held.getByText("in use on average").waitFor();
            await settled(held);
            const whole = await (
                await held.request.get(`${t.url}/api/v1/flame?${ask}&format=json&max_nodes=10`)
            ).json();
            equal(
                Math.round(await drawnAs()),
                Math.round(whole.nodes[0][3] ?? whole.total),
                "the tree of the whole range",
            );
            await t.clean(held, "memory in use");
        },
    );
    await t.check("inverted, functions with time of their own come first, and what called them is below", async () => {
        const page = await t.page(),
            query = encodeURIComponent('cpu{service.name="checkout"}');
        await page.goto(
            `${t.url}/explore?query=${query}&from=${Math.floor(t.sent / 1000) - 7200}&to=${Math.floor(t.sent / 1000)}`,
        );
        await drawn(page);
        await page.keyboard.press("v");
        await page.waitForFunction(() => new URL(location).searchParams.get("inv") === "1");
        await drawn(page);
        const {top, rows} = await page.evaluate(() => {
            const {tree, depth} = document.querySelector(".flame-box").wickEngine.layout,
                all = Array.from({length: tree.n}, (_, i) => [depth[i], tree.name(i), tree.total[0][i]]);
            return {top: all.filter(([d]) => d === 1).map(([, n, v]) => [n, v]), rows: all};
        });
        const api = await (
            await page.request.get(
                `${t.url}/api/v1/top?query=${query}&from=${Math.floor(t.sent / 1000) - 7200}&to=` +
                    `${Math.floor(t.sent / 1000)}&sort=self&limit=20`,
            )
        ).json();
        for (const r of api.rows.filter((x) => x.self > 0 && x.name.includes(".")))
            if (!r.name.startsWith("/")) equal(top.find(([n]) => n === r.name)?.[1], r.self, `self time of ${r.name}`);
        ok(
            rows.some(([d, n]) => d === 2 && n === "example.com/shop/cart.(*Cart).Checkout"),
            "the caller of encode is below it",
        );
        equal(Math.round(top.reduce((sum, [, v]) => sum + v, 0)), Math.round(api.total), "all of it");
        await t.clean(page, "inverted");
    });
    await t.check("table and flame graph are side by side, also where Explain is beside the graph", async () => {
        const both = await t.page(),
            query = encodeURIComponent('cpu{service.name="checkout"}');
        for (const [view, other, way] of [
            ["view=both", ".table-box", 1],
            ["explain=1", ".explain", -1],
        ]) {
            await both.goto(`${t.url}/explore?query=${query}&from=now-2h&${view}`);
            await drawn(both);
            const graph = await both.locator(".flame-box").boundingBox(),
                beside = await both.locator(other).boundingBox();
            ok(
                graph.height > 200 &&
                    graph.width > 500 &&
                    Math.abs(graph.y - beside.y) < 60 &&
                    (graph.x - beside.x) * way > 0,
                `${view}: ${JSON.stringify([graph, beside])}`,
            );
        }
        await t.clean(both, "side by side");
    });
    await t.check("the query can be written: types, labels and values are completed at the cursor", async () => {
        const own = await t.page();
        await own.goto(`${t.url}/explore?query=cpu&from=now-2h`);
        await drawn(own);
        await own.getByRole("button", {name: "write the query as text"}).click();
        const box = own.getByRole("combobox", {name: "query"}),
            option = (text) => own.getByRole("option", {name: text, exact: true});
        await box.fill("");
        await box.pressSequentially("cp");
        await option("cpu").waitFor();
        await own.keyboard.press("ArrowDown");
        await own.keyboard.press("Enter");
        equal(await box.inputValue(), "cpu");
        await box.pressSequentially("{serv");
        await option("service.version").waitFor();
        await option("service.name").click();
        equal(await box.inputValue(), 'cpu{service.name="');
        await box.pressSequentially("heck"); // what contains it is offered, too
        await option("checkout").click();
        equal(await box.inputValue(), 'cpu{service.name="checkout"');
        await box.pressSequentially(', host.name=~"web-[1]');
        await own.keyboard.press("Enter"); // the brace is added
        await own.waitForFunction(() => new URL(location).searchParams.get("query").includes("web-"));
        equal(param(own, "query"), 'cpu{service.name="checkout", host.name=~"web-[1]"}');
        await drawn(own);
        await own.getByRole("button", {name: "write the query as text"}).click();
        await box.fill("cpu{oops}");
        await own.getByRole("button", {name: "Run", exact: true}).click();
        await own.getByRole("alert").getByText("Write it as cpu{").waitFor();
        equal(await box.getAttribute("aria-invalid"), "true");
        await t.axe(own, "query box");
        await t.clean(own, "query box");
    });
    await t.clean(page, "explore");
}
