// SPDX-License-Identifier: Apache-2.0
// Source lines of a program that was compiled with -g and ran under `wick run`: t.file has them, t.line is the hot one.
import fs from "node:fs";
import {drawn, equal, ok} from "../lib.mjs";

export default async function (t) {
    const page = await t.page();
    await t.check("from the flame graph to the line that takes the time", async () => {
        await page.goto(`${t.url}/explore?query=${encodeURIComponent(`cpu{service.name="${t.service}"}`)}`);
        await drawn(page);
        await page.evaluate(() => {
            const e = document.querySelector(".flame-box").wickEngine,
                {tree, w} = e.layout;
            let best = 0;
            for (let i = 1; i < tree.n; i++) if (tree.name(i) === "burn" && (!best || w[i] > w[best])) best = i;
            e.setFocus(best);
        });
        await page.locator(".details").getByRole("button", {name: "Source lines"}).click();
        await page.locator(".code").first().waitFor();
        ok(
            (await page.locator(".source h2").first().innerText()).startsWith(t.file),
            "the file that was asked for comes first",
        );
        const rows = await page
            .locator(".code")
            .first()
            .locator("tbody tr")
            .evaluateAll((list) => list.map((r) => [...r.cells].map((c) => c.innerText)));
        const share = (r) => parseFloat(r[2]) || 0,
            hottest = rows.reduce((a, b) => (share(b) > share(a) ? b : a));
        equal(Number(hottest[3]), t.line, JSON.stringify(rows.filter(share)));
        ok(hottest[4].includes("x = x * 3 + i"), hottest[4]);
        const words = await page.locator(".code .code-k").allInnerTexts();
        ok(words.includes("for") && words.includes("unsigned"), `coloured: ${words}`);
        equal(await page.locator(".source .note").count(), 0, "the file is as old as the program");
    });
    await t.check("a file that was changed after the first profile is called that", async () => {
        const now = new Date();
        fs.utimesSync(t.file, now, now);
        await page.reload();
        await page
            .locator(".source .note")
            .getByText(/This file was changed at \d\d:\d\d:\d\d/)
            .first()
            .waitFor();
    });
    await t.shot(page, "source-lines");
    await t.check(
        "the page of the function shows its instructions as objdump does, with the weight of each",
        async () => {
            await page.goto(
                `${t.url}/function?fn=burn&query=${encodeURIComponent(`cpu{service.name="${t.service}"}`)}`,
            );
            await page.locator(".assembly .place").first().waitFor();
            const rows = await page
                .locator(".assembly tbody tr:not(.place)")
                .evaluateAll((list) =>
                    list.map((r) => [...r.cells].map((c) => c.innerText.trim().replace(/\s+/g, " "))),
                );
            equal(
                rows.map((r) => r[2]),
                t.code.map((i) => i[0]),
                "every instruction of the function",
            );
            const bare = (s) => s.replace(/\b0x/g, "").replace(/ ?<.*/, "");
            equal(
                rows.map((r) => bare(r[3])),
                t.code.map((i) => bare(i[1])),
            );
            const sum = rows.reduce((n, r) => n + (parseFloat(r[1]) || 0), 0);
            ok(sum > 98 && sum < 102, `the weights of all instructions are those of the function: ${sum} %`);
            ok(
                (await page.locator(".assembly .place td:last-child").allInnerTexts()).includes(`burn.c:${t.line}`),
                "their source lines",
            );
        },
    );
    await t.check("its flame chart is drawn, from the times that libwick sends", async () => {
        const other = await t.page();
        await other.goto(
            `${t.url}/explore?view=chart&from=now-10m&query=${encodeURIComponent(`cpu{service.name="${t.service}"}`)}`,
        );
        await other.waitForFunction(() => performance.getEntriesByName("wick-chart-drawn").length);
        const coloured = await other.evaluate(() => {
            const c = document.querySelector(".lanes canvas"),
                {data} = c.getContext("2d").getImageData(0, 0, c.width, c.height);
            let n = 0;
            for (let i = 0; i < data.length; i += 4)
                n +=
                    data[i + 3] > 0 &&
                    Math.max(data[i], data[i + 1], data[i + 2]) - Math.min(data[i], data[i + 1], data[i + 2]) > 15;
            return n;
        });
        ok(coloured > 50, `${coloured} pixels are coloured`);
        await other.context().close();
    });
    await page.locator(".assembly").scrollIntoViewIfNeeded();
    await t.shot(page, "assembly");
    await t.axe(page, "assembly");
    await t.clean(page, "source lines");
}
