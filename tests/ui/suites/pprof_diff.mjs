// SPDX-License-Identifier: Apache-2.0
// wick pprof -http with a base: Compare over two files.
import {drawn, equal, ok} from "../lib.mjs";

export default async function (t) {
    const page = await t.page();
    await t.check("two files are compared", async () => {
        await page.goto(`${t.url}/?token=${t.token}`);
        await drawn(page);
        await page.getByRole("link", {name: "Compare"}).click();
        await drawn(page);
        const [columns, a, b] = await page.evaluate(() => {
            const {tree} = document.querySelector(".flame-box").wickEngine.layout;
            return [tree.columns, tree.total[0][0], tree.total[1]?.[0]];
        });
        equal(columns, 2);
        ok(a > 0 && b > 0, `${a} ${b}`);
    });
    await t.shot(page, "pprof-compare");
    await t.clean(page, "pprof compare");
}
