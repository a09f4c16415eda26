// SPDX-License-Identifier: Apache-2.0
// pictures.mjs URL FOLDER: pictures of a running demo, light and dark, for the documentation (tools/pictures).
import path from "node:path";
import {chromium, drawn, settled} from "./lib.mjs";

const [url, folder] = process.argv.slice(2);
const checkout = encodeURIComponent('cpu{service.name="checkout"}');

// The pages: how one is opened, and how high its picture is.
const pages = {
    home: {high: 700, open: (page) => page.goto(url + "/")},
    explore: {
        high: 820,
        open: async (page) => {
            await page.goto(`${url}/explore?query=${checkout}&from=now-10m&view=both`);
            await drawn(page);
        },
    },
    compare: {
        high: 820,
        open: async (page) => {
            await page.goto(url + "/");
            await page.locator(".regression").getByRole("link", {name: "Compare"}).click();
            await drawn(page);
        },
    },
    request: {
        high: 820,
        open: async (page) => {
            await page.goto(`${url}/explore?query=${checkout}&from=now-10m&requests=1`);
            await page.locator(".requests a").first().click();
            await page.locator(".waterfall").waitFor();
        },
    },
};

const browser = await chromium.launch({
    executablePath: process.env.WICK_CHROMIUM ?? "/usr/bin/chromium",
    args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--font-render-hinting=none"],
});
for (const [name, {open, high}] of Object.entries(pages))
    for (const colorScheme of ["light", "dark"]) {
        const viewport = {width: 1280, height: high};
        const context = await browser.newContext({viewport, colorScheme, reducedMotion: "reduce"});
        const page = await context.newPage();
        page.pending = new Set();
        // the banner of the demo is not part of the product
        await page.addInitScript(() => {
            const sheet = new CSSStyleSheet();
            sheet.replaceSync(".banner { display: none }");
            addEventListener("DOMContentLoaded", () => document.adoptedStyleSheets.push(sheet));
        });
        await open(page);
        await settled(page);
        await new Promise((r) => setTimeout(r, 4000)); // what is asked for afterwards
        await page.mouse.move(1, 1);
        await page.screenshot({path: path.join(folder, `ui-${name}-${colorScheme}.png`)});
        await context.close();
    }
await browser.close();
