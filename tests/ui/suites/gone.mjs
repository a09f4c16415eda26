// SPDX-License-Identifier: Apache-2.0
// The server goes away and comes back: the page says so, keeps what it has, and goes on by itself.
import fs from "node:fs";
import {drawn, ok, settled} from "../lib.mjs";

export default async function (t) {
    const page = await t.page({expected: [/ERR_CONNECTION/, /Failed to load/]});
    const tell = async (what) => {
        fs.writeFileSync(t.signal, what);
        while (fs.readFileSync(t.signal, "utf8")) await new Promise((r) => setTimeout(r, 50));
    };
    await t.check("gone and back", async () => {
        await page.goto(t.url + "/explore?from=now-3h");
        await drawn(page);
        await tell("stop");
        await page.keyboard.press("2");
        await page.waitForFunction(() => document.body.innerText.includes("does not respond"));
        await t.shot(page, "server-gone");
        await tell("start");
        await page.waitForFunction(
            () => !document.querySelector(".banner:not([hidden])") && document.querySelector("tbody tr"),
            null,
            {timeout: 30000},
        );
        await settled(page);
        ok((await page.locator("tbody tr").count()) > 3, "rows");
    });
}
