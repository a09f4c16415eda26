// SPDX-License-Identifier: Apache-2.0
// Every view, light and dark, on a telephone, a desk and a wall: nothing is wider than the screen, axe finds
// nothing, a picture of it is kept to be looked at. And eight minutes of looking at each, while new data arrive:
// nothing jumps. t.only: names of views; t.part: "pictures" or "still"; both for some of it.
import {headFits, nothingCut, ok, settled} from "../lib.mjs";
import {answers} from "./pages.mjs";

const checkout = "query=" + encodeURIComponent('cpu{service.name="checkout"}'),
    fn = "fn=" + encodeURIComponent("example.com/shop/cart.encode"),
    before = "from=now-30m&base_from=now-100m&base_to=now-60m";
export const views = (t) => ({
    home: "home",
    services: "services",
    explore: "explore",
    flame: `explore?${checkout}`,
    heat: `explore?${t.timed}&top=heat`,
    chart: `explore?${t.timed}&view=chart`,
    table: "explore?view=table",
    both: `explore?view=both&${checkout}`,
    graph: `explore?view=graph&${checkout}`,
    callers: "explore?view=sandwich&fn=runtime.mallocgc",
    source: `explore?view=source&${fn}`,
    profiles: `explore?view=profiles&${checkout}`,
    labels: `explore?view=labels&${checkout}&by=service.version`,
    explain: `explore?explain=1&${checkout}`,
    compare: `compare?${checkout}&${before}`,
    difference: `compare?view=table&${before}`,
    sides: `compare?view=sides&${before}`,
    function: `function?${fn}&${checkout}&from=now-2h`,
    spans: "spans",
    alerts: "alerts",
    sources: "sources",
    start: "start",
});
const forms = {
    light: {},
    dark: {colorScheme: "dark"},
    phone: {width: 375, height: 800},
    "phone-dark": {width: 375, height: 800, colorScheme: "dark"},
    wide: {width: 2560, height: 1300},
    "wide-dark": {width: 2560, height: 1300, colorScheme: "dark"},
};

async function picture(t, name, path, form) {
    const page = await t.page(forms[form]);
    await answers(page);
    await page.goto(`${t.url}/${path}`);
    await settled(page);
    await t.check(`${name}, ${form}: fits the screen`, async () => {
        const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
        ok(wide <= 0, `the page is ${wide} pixels wider than the screen`);
        await headFits(page);
        await nothingCut(page);
        ok(!/NaN|undefined|\[object/.test(await page.locator("body").innerText()), "a value that is not one");
    });
    await t.shot(page, `every-${name}-${form}`);
    await t.axe(page, `${name}, ${form}`, true);
    await page.context().close();
}

async function still(t, name, path) {
    const page = await t.page();
    await page.clock.install();
    await answers(page);
    await page.goto(`${t.url}/${path}`);
    await page.clock.runFor(1500);
    await settled(page);
    await t.check(`${name}: nothing jumps within eight minutes`, async () => {
        for (let second = 0; second < 480; second++) {
            await page.clock.runFor(1000); // a longer step would look like a server that does not answer
            for (let k = 0; k < 400 && page.pending.size; k++) await new Promise((r) => setTimeout(r, 10));
        }
        const shifts = await page.evaluate(() => window.wickShift);
        ok(shifts.length === 0, JSON.stringify(shifts.slice(0, 12)));
    });
    await page.unrouteAll({behavior: "ignoreErrors"});
    await page.context().close();
}

export default async function (t) {
    for (const [name, path] of Object.entries(views(t)).filter(([n]) => !t.only || t.only.includes(n))) {
        for (const form of Object.keys(forms)) if (t.part !== "still") await picture(t, name, path, form);
        if (t.part !== "pictures") await still(t, name, path);
    }
}
