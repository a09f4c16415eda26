// SPDX-License-Identifier: Apache-2.0
// Nothing there, wrong questions: each state says what to do.
import {drawn, equal, ok, settled} from "../lib.mjs";

export default async function (t) {
    const page = await t.page({expected: [/status of 400/, /status of 404/]});
    await t.check("what is on its way is said, until it is there", async () => {
        let answer;
        const held = new Promise((r) => (answer = r));
        await page.route(/\/api\/v1\/flame/, (r) => held.then(() => r.continue()));
        await page.goto(t.url + "/explore?from=now-2h");
        const loading = page.locator(".state.loading[role=status]");
        await loading.waitFor();
        equal(await loading.innerText(), "Loading profiles…");
        equal(await page.locator(".flame-box").count(), 0, "flame graphs without data");
        await t.shot(page, "state-loading");
        answer();
        await drawn(page);
        equal(await loading.count(), 0, "still loading");
        await page.unroute(/\/api\/v1\/flame/);
    });
    await t.check("an empty selection offers a way on", async () => {
        await page.goto(t.url + "/explore?query=cpu%7Bservice.name%3D%22nobody%22%7D");
        await settled(page);
        ok(await page.getByRole("button", {name: "All services"}).count(), await page.locator("#main").innerText());
        await t.shot(page, "state-empty");
        await page.getByRole("button", {name: "All services"}).click();
        await page.waitForSelector(".flame-box");
    });
    await t.check("damage of the store is named above the picture", async () => {
        await page.route(/\/api\/v1\/flame/, async (r) => {
            // as the server would send it: src/query/tree_form.h
            const response = await r.fetch();
            const body = Buffer.from(await response.body());
            body.writeUInt32LE(2, 24);
            body.writeUInt32LE(1, 28); // the first text, which is the type's name
            await r.fulfill({response, body});
        });
        await page.goto(t.url + "/explore?from=now-2h");
        await drawn(page);
        const text = await page.locator(".banner.damage[role=alert]").first().innerText();
        ok(/2 pieces of stored data/.test(text) && /cpu/.test(text), text);
        await t.shot(page, "state-damage");
        await page.unroute(/\/api\/v1\/flame/);
    });
    await t.check("a wrong expression is told in words", async () => {
        await page.goto(t.url + "/explore?focus=(");
        await settled(page);
        const text = await page.locator("#main").innerText();
        ok(/focus/.test(text) && /\)/.test(text), text);
        await t.shot(page, "state-wrong");
    });
    await t.check("a wrong selector too", async () => {
        await page.goto(t.url + "/explore?query=cpu%7Bnonsense");
        await settled(page);
        ok((await page.getByRole("alert").count()) || (await page.locator(".state").count()), "no words");
    });
    await t.check("an unknown page is not found", async () => {
        const answer = await page.request.get(t.url + "/nowhere");
        ok(answer.status() === 404, "status " + answer.status());
    });
    await t.clean(page, "states");
}
