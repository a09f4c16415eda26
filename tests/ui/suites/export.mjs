// SPDX-License-Identifier: Apache-2.0
// A flame graph in one HTML file, opened from disk.
import {drawn, equal, ok, zoomIsSeen} from "../lib.mjs";

const names = (page) =>
    page.evaluate(() => {
        const {tree} = document.querySelector(".flame-box").wickEngine.layout;
        return Array.from({length: tree.n}, (_, i) => tree.name(i));
    });

export default async function (t) {
    const page = await t.page();
    let alerts = 0;
    page.on("dialog", (d) => (alerts++, d.dismiss()));
    await page.goto(t.url);
    await drawn(page);
    await t.check("every name is shown as it is", async () => {
        const shown = await names(page);
        for (const n of t.nasty) ok(shown.includes(n), `${n} in ${shown}`);
        equal(alerts, 0, "scripts that ran");
        await t.shot(page, "export");
    });
    await t.check("a click zooms the picture, 0 brings it back", () =>
        zoomIsSeen(
            page,
            (f) => page.mouse.click(f.left, f.top),
            async () => {
                await page.locator(".flame-box").focus();
                await page.keyboard.press("0");
            },
        ),
    );
    await t.check("search says how much matches", async () => {
        await page.keyboard.press("/");
        await page.keyboard.type("idle");
        await page.waitForFunction(() => parseFloat(document.querySelector(".search-found").textContent) > 40);
    });
    await t.axe(page, "HTML export");
    await t.clean(page, "HTML export");
    await t.check("frames that run the interpreter are folded, by the files of the others; f shows them", async () => {
        const script = await t.page();
        await script.goto(t.python);
        await drawn(script);
        equal(
            (await names(script)).slice(1),
            ["run_mod", "price"],
            "a function of the script has the name of one of the interpreter's",
        );
        await script.keyboard.press("f");
        await script.waitForFunction(() => document.querySelector(".flame-box").wickEngine.layout.tree.n === 6);
        ok(
            (await script.locator(".bar").innerText()).includes("1.0 s · 100 samples at 100 Hz"),
            await script.locator(".bar").innerText(),
        );
        await script.context().close();
    });
    const diff = await t.page();
    await t.check("a difference has both sides and a legend", async () => {
        await diff.goto(t.diff);
        await drawn(diff);
        const shown = await names(diff);
        ok(shown.includes("old") && shown.includes("operator<<"), shown.join());
        ok(
            (await diff.locator(".legend").innerText()).includes("grey: no change"),
            "without a sampling rate nothing is known about noise",
        );
        await t.shot(diff, "export-diff");
    });
    await t.clean(diff, "HTML export of a difference");
}
