// SPDX-License-Identifier: Apache-2.0
// Notes on the chart and saved views: written, seen by others, deleted; an alert of the selection.
import {equal, ok, settled} from "../lib.mjs";

export default async function (t) {
    const page = await t.page(),
        query = encodeURIComponent('cpu{service.name="checkout"}'),
        name = `view ${Date.now()}`,
        note = `note ${Date.now()}`;
    const more = async (item) => {
        await page.getByRole("button", {name: "More"}).click();
        await page.getByRole("menu").locator("[role^=menuitem]", {hasText: item}).first().click();
    };
    await page.goto(`${t.url}/explore?query=${query}&from=now-1h&view=table`);
    await page.getByRole("table").waitFor();
    await t.check("a view is saved, and another user finds it on Home", async () => {
        await more("Save this view");
        const dialog = page.getByRole("dialog", {name: "Save this view"});
        await dialog.getByLabel("Name").fill(name);
        await dialog.getByRole("button", {name: "Save"}).click();
        await dialog.waitFor({state: "detached"});
        const other = await t.page();
        await other.goto(t.url + "/home");
        await other.getByRole("link", {name}).click();
        await other.getByRole("table").waitFor();
        equal(new URL(other.url()).search, new URL(page.url()).search, "the saved view");
        await t.clean(other, "saved view");
    });
    await t.check("a note is written and is on the chart", async () => {
        const pixels = () =>
            page.evaluate(() => {
                const c = document.querySelector(".series canvas");
                return [...c.getContext("2d").getImageData(0, 0, c.width, c.height).data].reduce(
                    (a, v, i) => (a * 31 + v * (i % 97)) % 1e9,
                    7,
                );
            });
        await settled(page);
        const before = await pixels();
        await more("Write a note");
        const dialog = page.getByRole("dialog", {name: "Write a note"});
        await dialog.getByLabel("Text").fill(note);
        await dialog.getByRole("button", {name: "Save"}).click();
        await dialog.waitFor({state: "detached"});
        await settled(page);
        ok((await pixels()) !== before, "the chart looks as before");
    });
    await t.shot(page, "note");
    await t.check("both are deleted again", async () => {
        await more(`Delete the note “${note}`);
        await settled(page);
        await more(`Delete the view “${name}`);
        await settled(page);
        const left = await page.evaluate(async () => [
            await (await fetch("api/v1/notes")).json(),
            await (await fetch("api/v1/views")).json(),
        ]);
        ok(!JSON.stringify(left).includes(note) && !JSON.stringify(left).includes(name), JSON.stringify(left));
    });
    await t.check("an alert is made from the selection", async () => {
        await more("Alert on checkout");
        const dialog = page.getByRole("dialog");
        ok((await dialog.getByLabel("selector").inputValue()).includes('service.name="checkout"'), "the selection");
        await dialog.getByRole("button", {name: "Close"}).click();
    });
    await t.axe(page, "marks");
    await t.clean(page, "marks");
}
