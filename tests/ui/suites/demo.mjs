// SPDX-License-Identifier: Apache-2.0
// The story of `wick demo`: what will happen, the card of the deploy without a reload, and the end. The page's
// clock is moved by hand.
import {drawn, equal, ok} from "../lib.mjs";

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
        await until(
            banner.getByText(/In \d:\d\d min a slower checkout 1\.6\.0 is deployed; the demo ends in 1\d:\d\d min/),
        );
    });
    await t.check(
        "a page of a server with two minutes of profiles shows these minutes, not an empty hour",
        async () => {
            const young = await t.page();
            await young.goto(t.url + "/explore?query=" + encodeURIComponent('cpu{service.name="checkout"}'));
            await young.getByRole("button", {name: /last [2-7] minutes/}).waitFor();
            await young.locator(".u-over").waitFor();
            const [first, last] = await young.evaluate(() => {
                // where the line is drawn, as parts of the width
                const c = document.querySelector(".uplot canvas"),
                    {data} = c.getContext("2d").getImageData(0, 0, c.width, c.height),
                    x = [];
                for (let i = 0; i < data.length; i += 4)
                    if (
                        data[i + 3] > 200 &&
                        Math.max(data[i], data[i + 1], data[i + 2]) - Math.min(data[i], data[i + 1], data[i + 2]) > 60
                    )
                        x.push((i / 4) % c.width);
                return [Math.min(...x) / c.width, Math.max(...x) / c.width];
            });
            ok(first < 0.75 && last - first > 0.25, `the line is drawn from ${first} to ${last}`);
            await young.getByRole("link", {name: "Compare", exact: true}).last().click();
            await drawn(young);
            equal(await young.locator(".note").count(), 0, "notes on an empty side");
            await t.clean(young, "a few minutes");
            await young.context().close();
        },
    );
    await t.check("without a deploy, Compare opens with the two halves of what there is", async () => {
        const compare = await t.page();
        await compare.goto(t.url + "/compare");
        await drawn(compare);
        equal(await compare.locator(".note").count(), 0, "notes on an empty side");
        ok(
            /\d → \d/.test((await compare.locator(".diff-head").textContent()).replace(/\s*m?cores/g, "")),
            "both sides have a rate",
        );
        await compare.context().close();
    });
    await t.check("it says that it was deployed, and the card appears without a reload", async () => {
        t.signal("deploy");
        await page.clock.fastForward(600e3);
        await until(banner.getByText(/checkout 1\.6\.0 was deployed/));
        await until(page.locator(".regression").getByText("costs 3.0 times the CPU for the same work"));
        ok(
            (await page.locator(".regression").first().textContent()).includes("1.6.0"),
            "the card is about another version",
        );
    });
    await t.check("the card of a young deploy follows what it uses", async () => {
        t.signal("more");
        await until(page.locator(".regression").getByText("costs 4.5 times the CPU for the same work"));
    });
    await t.check("Compare opens with the latest deploy", async () => {
        const compare = await t.page();
        let sides = [];
        for (const end = Date.now() + 20e3; Date.now() < end && !sides[1]?.includes("1.6.0"); ) {
            // a first answer may be 10 s old
            await compare.goto(t.url + "/compare");
            await drawn(compare);
            sides = await compare.locator(".side").allTextContents();
        }
        ok(sides[0].includes("1.5.0") && sides[1].includes("1.6.0"), sides.join(" | "));
        ok(/\+\d+ %/.test(await compare.locator(".diff-head").textContent()), "it is slower");
        await t.clean(compare, "the latest deploy");
        await compare.context().close();
    });
    await t.shot(page, "demo");
    await t.check("at the end it says that the demo is over", async () => {
        await page.clock.fastForward(600e3);
        await until(banner.getByText("The demo is over."));
    });
    await t.axe(page, "demo");
}
