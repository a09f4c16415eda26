// SPDX-License-Identifier: Apache-2.0
// The first start: nothing was ever sent. Never a blank chart.
import {ok, settled} from "../lib.mjs";

export default async function (t) {
    const page = await t.page();
    await t.check("the front page says how to begin", async () => {
        await page.goto(t.url + "/");
        await settled(page);
        const text = await page.locator("#main").innerText();
        const status = await (await page.request.get(t.url + "/api/v1/status")).json();
        ok(
            text.includes(status.otlp.http) || text.includes(status.otlp.grpc),
            "the real endpoint is not told: " + text,
        );
    });
    await t.shot(page, "first-start");
    await t.axe(page, "first start");
    for (const place of ["services", "explore", "explore?view=table", "explore?view=graph", "compare", "senders"]) {
        await t.check(place + " is not blank", async () => {
            await page.goto(t.url + "/" + place);
            await settled(page);
            ok((await page.locator("#main").innerText()).trim().length > 40, "blank");
        });
    }
    await t.clean(page, "empty server");
}
