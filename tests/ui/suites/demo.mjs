// SPDX-License-Identifier: Apache-2.0
// The story of `wick demo`: what will happen, the card of the deploy without a reload, and the end. The page's clock is moved by hand.
import {ok} from "../lib.mjs";

export default async function (t) {
    const page = await t.page({expected: [/Failed to load resource/]});
    await page.clock.install();
    await page.goto(t.url + "/home");
    const banner = page.locator(".banner.demo");
    // Lets time pass until something is seen, at most ten minutes of the page's.
    const until = async (seen) => {
        for (let k = 0; k < 300 && !(await seen.first().isVisible()); k++) {
            await page.clock.runFor(2000);
            for (let i = 0; i < 200 && page.pending.size; i++) await new Promise((r) => setTimeout(r, 10));
        }
        await seen.first().waitFor();
    };
    await t.check("the banner says what will happen and when", async () => {
        await until(banner.getByText(/In \d:\d\d min a slower checkout 1\.6\.0 is deployed; the demo ends in 1\d:\d\d min/));
    });
    await t.check("it says that it was deployed, and the card appears without a reload", async () => {
        t.signal("deploy");
        await page.clock.fastForward(600e3);
        await until(banner.getByText(/checkout 1\.6\.0 was deployed/));
        await until(page.locator(".regression").getByText("uses"));
        ok((await page.locator(".regression").first().textContent()).includes("1.6.0"), "the card is about another version");
    });
    await t.shot(page, "demo");
    await t.check("at the end it says that the demo is over", async () => {
        await page.clock.fastForward(600e3);
        await until(banner.getByText("The demo is over."));
    });
    await t.axe(page, "demo");
}
