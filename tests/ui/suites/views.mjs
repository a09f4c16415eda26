// SPDX-License-Identifier: Apache-2.0
// Every view opens, shows data, is clean and accessible; light and dark, wide and narrow.
import {drawn, headFits, ok, settled} from "../lib.mjs";

const views = {
    services: {path: "services", seen: "checkout"},
    explore: {path: "explore?query=cpu{service.name%3D%22checkout%22}", seen: "checkout", flame: true},
    table: {path: "explore?view=table", seen: "mallocgc"},
    both: {path: "explore?view=both", seen: "mallocgc", flame: true},
    graph: {path: "explore?view=graph&query=cpu{service.name%3D%22checkout%22}", seen: "encode"},
    sandwich: {path: "explore?view=sandwich&fn=runtime.mallocgc", seen: "mallocgc"},
    source: {path: "explore?view=source&fn=example.com%2Fshop%2Fcart.encode", seen: "encode"},
    profiles: {path: "explore?view=profiles&query=cpu{service.name%3D%22checkout%22}", seen: "web-1"},
    grouped: {
        path: "explore?group=service.version&query=cpu{service.name%3D%22checkout%22}",
        seen: "by service.version",
        flame: true,
    },
    compare: {
        path: "compare?query=cpu{service.name%3D%22checkout%22}&from=now-30m&base_from=now-100m&base_to=now-60m",
        seen: "less",
        flame: true,
    },
    difftable: {path: "compare?view=table&from=now-30m&base_from=now-100m&base_to=now-60m", seen: "encode"},
    sides: {path: "compare?view=sides&from=now-30m&base_from=now-100m&base_to=now-60m", seen: "before", flame: true},
    senders: {path: "senders", seen: "checkout"},
    start: {path: "start", seen: "wick"},
};

export default async function (t) {
    for (const [name, v] of Object.entries(views)) {
        const page = await t.page();
        await t.check(name + " opens", async () => {
            await page.goto(t.url + "/" + v.path);
            if (v.flame) await drawn(page);
            await page.waitForFunction((s) => document.body.innerText.includes(s), v.seen);
            await settled(page);
            ok((await page.title()).includes("wick"), "title");
            ok((await page.locator("h1").count()) === 1, "one h1");
        });
        await t.shot(page, name);
        await t.clean(page, name);
        // every.mjs, which is slow, asks all
        if (!["both", "grouped", "difftable", "sides", "profiles", "start"].includes(name)) await t.axe(page, name);
        await page.context().close();
    }
    // Some of them here; every.mjs, which is slow, has all.
    for (const [name, options] of Object.entries({dark: {colorScheme: "dark"}, narrow: {width: 375, height: 800}})) {
        for (const view of name === "dark" ? ["explore", "compare"] : ["services", "explore"]) {
            const page = await t.page(options);
            await t.check(`${view} ${name}`, async () => {
                await page.goto(t.url + "/" + views[view].path);
                await settled(page);
                const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
                ok(wide <= 0, `the page is ${wide} pixels wider than the screen`);
                await headFits(page);
                if (name === "dark") {
                    const [r, g, b] = await page.evaluate(() =>
                        getComputedStyle(document.body).backgroundColor.match(/\d+/g).map(Number),
                    );
                    ok(r + g + b < 200, `dark background is ${r} ${g} ${b}`);
                }
            });
            await t.shot(page, `${view}-${name}`);
            if (view === "explore" || name === "dark") await t.axe(page, `${view} ${name}`);
            await page.context().close();
        }
    }
}
