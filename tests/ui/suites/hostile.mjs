// SPDX-License-Identifier: Apache-2.0
// Names from profiles are text, wherever they are shown.
import {drawn, ok, settled} from "../lib.mjs";

export default async function (t) {
    const page = await t.page({expected: [/status of 404/]}); // their source files are nowhere
    page.on("dialog", (d) => (page.problems.push("dialog: " + d.message()), d.dismiss()));
    const query = "query=" + encodeURIComponent(`cpu{service.name=${JSON.stringify(t.hostileService)}}`);
    const places = [
        "services",
        `explore?${query}`,
        `explore?view=table&${query}`,
        `explore?view=both&${query}`,
        `explore?view=graph&${query}`,
        `explore?view=profiles&${query}`,
        `explore?group=service.name`,
        `compare?${query}&from=now-15m`,
        "senders",
        ...t.hostile
            .slice(0, 4)
            .flatMap((h) => [
                `explore?view=sandwich&fn=${encodeURIComponent(h)}`,
                `explore?view=source&fn=${encodeURIComponent(h + "!")}`,
                `explore?search=${encodeURIComponent(h)}&${query}`,
            ]),
    ];
    for (const place of places) {
        await t.check("text stays text: " + place.slice(0, 60), async () => {
            await page.goto(t.url + "/" + place);
            await settled(page);
            ok(!(await page.evaluate(() => window.hacked)), "a name was run");
            const made = await page.evaluate(() =>
                [...document.querySelectorAll("img, main script, [onerror], [onmouseover], a[href^=javascript]")].map(
                    (e) => e.outerHTML,
                ),
            );
            ok(!made.length, made.join());
        });
    }
    await t.check("menus and tooltips", async () => {
        await page.goto(t.url + "/explore?" + query);
        await drawn(page);
        const box = await page.locator(".flame-box").boundingBox();
        for (const x of [60, 300, 700, 1100]) {
            await page.mouse.move(box.x + x, box.y + 2 * 19 + 8);
            await page.mouse.click(box.x + x, box.y + 2 * 19 + 8, {button: "right"});
            await page.keyboard.press("Escape");
        }
        ok(!(await page.evaluate(() => window.hacked)), "a name was run");
        ok(!(await page.locator("img").count()), "a name became a picture");
    });
    await t.shot(page, "hostile");
    await t.clean(page, "hostile names");
}
