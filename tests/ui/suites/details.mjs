// SPDX-License-Identifier: Apache-2.0
// What a frame tells and leads to, what the chart leads to, what numbers are in: things people look for once they
// are in.
import {drawn, equal, ok, param, settled} from "../lib.mjs";

export default async function (t) {
    const page = await t.page();
    const checkout = t.url + "/explore?from=now-2h&query=cpu%7Bservice.name%3D%22checkout%22%7D";
    const details = () => page.locator(".details").first().innerText();
    const focusOn = async (name) => {
        await page.evaluate((n) => {
            const e = document.querySelector(".flame-box").wickEngine,
                {tree} = e.layout;
            const i = Array.from({length: tree.n}, (_, k) => k).find((k) => tree.name(k).includes(n));
            e.setFocus(i);
        }, name);
        await page.waitForFunction((n) => document.querySelector(".details-name").textContent.includes(n), name);
    };
    // Where a click on the link leads to; nothing is opened.
    const followed = async (link) => {
        await page.evaluate(() => {
            window.opened = null;
            window.open = (url) => (window.opened = url);
        });
        await link.click();
        return (await page.waitForFunction(() => window.opened)).jsonValue();
    };
    await page.goto(checkout);
    await drawn(page);

    await t.check("the brush on the chart picks a range of time", async () => {
        const box = await page.locator(".chart .u-over").boundingBox();
        await page.mouse.move(box.x + box.width * 0.3, box.y + box.height / 2);
        await page.mouse.down();
        await page.mouse.move(box.x + box.width * 0.6, box.y + box.height / 2, {steps: 4});
        await page.mouse.up();
        await page.waitForFunction(() => /^\d+/.test(new URL(location).searchParams.get("from") ?? ""));
        const from = Number(param(page, "from")),
            to = Number(param(page, "to"));
        ok(to > from && Math.abs(to - from - 0.3 * 7200) < 400, `${to - from} s of 7200 s`);
        await page.goBack();
        await drawn(page);
        equal(param(page, "from"), "now-2h");
    });
    await t.check("icicle and flame by a key", async () => {
        await page.keyboard.press("i");
        await page.waitForFunction(() => document.querySelector(".flame-box").wickEngine.style.flip);
        equal(param(page, "dir"), "flame");
        await page.keyboard.press("i");
        await page.waitForFunction(() => !document.querySelector(".flame-box").wickEngine.style.flip);
    });
    await t.check("units that people read, and what it costs", async () => {
        const text = await page.locator(".toolbar .total").first().innerText();
        ok(/\b(m?cores|µcores)\b/.test(text) && /\$[\d.]+\/year/.test(text) && /% named/.test(text), text);
    });
    await t.check("rates are per covered second, whatever the range", async () => {
        // `search` takes 1.09 s in each of its profiles of 10 s, one every ten minutes: 0.109 cores
        const query = encodeURIComponent('cpu{service.name="search"}');
        for (const [path, want] of [
            ["/explore?from=now-1d", /· 0\.11 cores ·/],
            ["/explore?from=now-7d", /· 0\.11 cores ·/],
            ["/compare?from=now-1h&base_from=now-7d&base_to=now&base_query=" + query, /0\.11 cores → 0\.11 cores/],
        ]) {
            await page.goto(t.url + path + "&query=" + query);
            await page.waitForFunction(
                (re) =>
                    new RegExp(re).test(document.querySelector(".toolbar .total, .diff-head .total")?.innerText ?? ""),
                want.source,
            );
        }
    });
    await t.check("Services: share, cores and cost are of one base", async () => {
        const cores = (text) =>
            text
                .match(/([\d.]+) (m?)cores?/)
                .slice(1)
                .reduce((n, m) => (m ? n / 1000 : n));
        await page.goto(t.url + "/services?from=now-7d");
        await page.locator("table.trends tbody tr").first().waitFor();
        const whole = await page.locator(".bar .total").innerText(),
            rows = await page.locator("table.trends tbody tr").allInnerTexts();
        const year = (text) => Number(text.match(/\$([\d.]+)\/year/)[1]);
        ok(rows.length > 1, "rows");
        for (const row of rows.filter((r) => /cores?/.test(r))) {
            const share = Number(row.match(/([\d.]+) %/)[1]) / 100;
            ok(Math.abs(cores(row) / cores(whole) - share) < 0.02 * share + 0.0005, `${row} of ${whole}`);
            ok(Math.abs(year(row) / year(whole) - share) < 0.05 * share + 0.005, `${row} of ${whole}`);
        }
    });
    await t.check("what it costs a year does not depend on the range", async () => {
        const costs = [];
        for (const from of ["now-2h", "now-1d", "now-7d"]) {
            await page.goto(`${t.url}/explore?from=${from}&query=${encodeURIComponent('cpu{service.name="search"}')}`);
            await page.waitForFunction(() =>
                /\$[\d.]+\/year/.test(document.querySelector(".toolbar .total")?.innerText ?? ""),
            );
            costs.push((await page.locator(".toolbar .total").first().innerText()).match(/\$[\d.]+\/year/)[0]);
        }
        equal(costs, [costs[0], costs[0], costs[0]], "2 hours, a day, a week");
    });
    await t.check("colours by package, by binary, by kind", async () => {
        const colours = () =>
            page.evaluate(() => {
                const c = document.querySelector(".flame-canvas"),
                    g = c.getContext("2d");
                return Array.from({length: 6}, (_, k) =>
                    [...g.getImageData(30 * devicePixelRatio, (4 + 19 * k) * devicePixelRatio, 1, 1).data].join(),
                );
            });
        const seen = new Set();
        for (const by of ["package", "mapping"]) {
            await page.goto(checkout + "&color=" + by);
            await drawn(page);
            seen.add(JSON.stringify(await colours()));
        }
        equal(seen.size, 2, "pictures that differ");
    });
    await t.check("a frame without a name says why, and what gives it one", async () => {
        await page.goto(checkout);
        await drawn(page);
        await focusOn("libcrypt");
        const text = await details();
        ok(/no name: No symbols for/.test(text) && text.includes("wick symbols upload"), text);
    });
    await t.check("a frame opens its line in the forge", async () => {
        await focusOn("cart.encode");
        await page.locator(".flame-box").focus();
        await page.keyboard.press("m");
        const link = page.getByRole("menu").locator("a[target=_blank]").first();
        equal(await link.getAttribute("rel"), "noopener noreferrer");
        equal(await followed(link), "https://forge.example/shop/blob/HEAD/cart.go#L40");
    });
    await t.check("a frame opens its line in the editor", async () => {
        await page.goto(t.url + "/explore?from=now-2h&rec=1&query=cpu%7Bservice.name%3D%22search%22%7D");
        await drawn(page);
        await focusOn("walk");
        await page.locator(".flame-box").focus();
        await page.keyboard.press("m");
        const link = page.getByRole("menu").locator("a", {hasText: "Open in vscode"});
        equal(await followed(link), `vscode://file${t.place}/search/tree.py:77`);
        equal(
            await followed(page.locator(".details a", {hasText: "Open in vscode"})),
            `vscode://file${t.place}/search/tree.py:77`,
            "of the line below",
        );
    });
    await t.check("badges say the kind of a frame, where it changes", async () => {
        const badge = () => page.locator(".details .badge").allInnerTexts();
        await focusOn("walk");
        equal(await badge(), ["python"]);
        await focusOn("vfs_read");
        equal(await badge(), ["kernel"]);
        await focusOn("index");
        equal(await badge(), [], "of a frame of no kind");
        const painted = await page.evaluate(() => {
            const engine = document.querySelector(".flame-box").wickEngine,
                {ctx} = engine.painter,
                texts = [];
            ctx.fillText = (text) => texts.push(text);
            engine.paint();
            delete ctx.fillText;
            engine.paint();
            return texts.filter((text) => ["python", "kernel"].includes(text));
        });
        equal(painted, ["python", "kernel"], "two kernel frames, one below the other, have one badge");
    });
    await t.check("what the server folds is drawn as such, and opens", async () => {
        await page.goto(t.url + "/explore?from=now-2h&nodes=8");
        await drawn(page);
        const [some, right] = await page.evaluate(() => {
            const {tree} = document.querySelector(".flame-box").wickEngine.layout;
            const folded = Array.from({length: tree.n}, (_, i) => i).filter((i) => tree.isFolded(i));
            const selfs = tree.self[0].subarray(0, tree.n).reduce((a, v) => a + v, 0);
            return [folded.length, Math.abs(selfs - tree.total[0][0]) < 1];
        });
        ok(some > 0, "nothing is folded");
        ok(right, "folded parts are missing from the whole");
    });
    await t.check("callers and callees add up to the function", async () => {
        await page.goto(t.url + "/explore?view=sandwich&from=now-2h&fn=runtime.mallocgc");
        await page.waitForFunction(() => document.querySelectorAll(".sandwich .flame-box").length === 2);
        await settled(page);
        const totals = await page.evaluate(() =>
            [...document.querySelectorAll(".sandwich .flame-box")].map((b) => b.wickEngine.layout.tree.total[0][0]),
        );
        const top = await (await page.request.get(t.url + "/api/v1/top?limit=1000&from=now-2h&query=cpu")).json();
        const wanted = top.rows.find((r) => r.name === "runtime.mallocgc").total;
        equal(totals, [wanted, wanted], "callers, callees");
    });
    await t.check("tables are tables", async () => {
        await page.goto(t.url + "/explore?view=table&from=now-2h");
        await page.waitForFunction(() => document.querySelector("tbody")?.innerText.includes("mallocgc"));
        const heads = await page.locator("table thead th[scope=col]").count();
        ok(heads >= 4 && (await page.locator("table caption").count()) === 1, `${heads} heads`);
    });
    await t.clean(page, "details");
}
