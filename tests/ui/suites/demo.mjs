// SPDX-License-Identifier: Apache-2.0
// The story of `wick demo`: what will happen, the card of the deploy without a reload, and the end.
import {ok} from "../lib.mjs";

export default async function (t) {
    const page = await t.page({expected: [/Failed to load resource/]});
    await page.addInitScript(() => {
        const now = Date.now;
        let off = 0;
        window.wickLater = (minutes) => (off += minutes * 60e3);
        Date.now = () => now() + off;
    });
    await page.goto(t.url + "/home");
    const banner = page.locator(".banner.demo");
    await t.check("the banner says what will happen and when", async () => {
        await banner.getByText(/In \d:\d\d min a slower checkout 1\.6\.0 is deployed; the demo ends in 1\d:\d\d min/).waitFor();
    });
    await t.axe(page, "demo");
    await t.check("it says that it was deployed, and the card appears without a reload", async () => {
        await page.evaluate(() => window.wickLater(10));
        await banner.getByText(/checkout 1\.6\.0 was deployed/).waitFor();
        await page.locator(".regression").getByText("uses").first().waitFor();
        ok((await page.locator(".regression").first().textContent()).includes("1.6.0"), "the card is about another version");
    });
    await t.shot(page, "demo");
    await t.check("at the end it says that the demo is over", async () => {
        await page.evaluate(() => window.wickLater(10));
        await banner.getByText("The demo is over.").waitFor();
    });
}
