// SPDX-License-Identifier: Apache-2.0
// The documents under /docs: reached from the UI, searched, read on a phone, in the dark.
import {equal, ok} from "../lib.mjs";

export default async function (t) {
    const page = await t.page();
    await t.check("a link of the UI leads there, and one leads back", async () => {
        await page.goto(t.url + "/explore");
        await page.getByRole("link", {name: "Docs"}).click();
        await page.getByRole("heading", {name: "wick: the documents"}).waitFor();
        equal(new URL(page.url()).pathname, "/docs/");
        await page.getByRole("link", {name: "Open wick"}).click();
        await page.waitForURL((u) => u.pathname === "/");
        await page.goto(t.url + "/docs");
        equal(new URL(page.url()).pathname, "/docs/");
    });
    await t.check("the search finds sections, and the keyboard goes to them", async () => {
        await page.keyboard.press("/");
        await page.keyboard.type("restore backup");
        const first = page.locator("#found a").first();
        await first.waitFor();
        ok((await first.innerText()).includes("Backup and upgrade"), await page.locator("#found").innerText());
        await page.keyboard.press("ArrowDown");
        await page.keyboard.press("Enter");
        await page.waitForURL(/backup\.html/);
        await page.getByRole("heading", {name: "Backup and upgrade"}).waitFor();
        await page.locator("#search").fill("xyzzy-nothing");
        await page.getByText("Nothing found").waitFor();
        await page.keyboard.press("Escape");
        ok(!(await page.locator("#found").isVisible()), "closed");
    });
    await t.check("a link to a section goes to its heading", async () => {
        await page.goto(t.url + "/docs/serve.html#querying");
        const top = await page.locator("#querying").evaluate((h) => h.getBoundingClientRect().top);
        ok(top >= 0 && top < 200, `${top}`);
    });
    await t.check("pictures are there, light and dark", async () => {
        await page.goto(t.url + "/docs/how-it-works.html");
        for (const scheme of ["light", "dark"]) {
            await page.emulateMedia({colorScheme: scheme});
            const images = page.locator("main img");
            equal(await images.count(), 3);
            for (let i = 0; i < 3; i++) {
                await images.nth(i).scrollIntoViewIfNeeded();
                await images.nth(i).evaluate((x) => x.decode());
                ok((await images.nth(i).evaluate((x) => x.currentSrc)).endsWith(`-${scheme}.svg`), scheme);
            }
        }
        await page.emulateMedia({colorScheme: "light"});
    });
    await t.check("nothing is wider than a phone", async () => {
        await page.setViewportSize({width: 360, height: 700});
        for (const name of ["index", "agent", "scale", "configuration", "first-service", "results"]) {
            await page.goto(`${t.url}/docs/${name}.html`);
            equal(await page.evaluate(() => document.documentElement.scrollWidth), 360, name);
        }
    });
    await page.close();
}
