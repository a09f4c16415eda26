// SPDX-License-Identifier: Apache-2.0
// run.mjs SUITE CONFIG: runs suites/SUITE.mjs in a browser; CONFIG is JSON with at least url. Prints a JSON line
// per check.
import {chromium, Tester} from "./lib.mjs";

const [name, text] = process.argv.slice(2);
const config = JSON.parse(text);
const suite = (await import(`./suites/${name}.mjs`)).default;
const browser = await chromium.launch({
    executablePath: process.env.WICK_CHROMIUM ?? "/usr/bin/chromium",
    args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--font-render-hinting=none"],
});
const t = new Tester(browser, config);
try {
    await suite(t);
} catch (e) {
    t.results.push({name: "the suite ran to its end", ok: false, ms: 0, error: e.stack});
}
await t.done();
await browser.close();
for (const r of t.results) console.log(JSON.stringify(r));
