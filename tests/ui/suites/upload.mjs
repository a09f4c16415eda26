// SPDX-License-Identifier: Apache-2.0
// A profile dropped on the page opens; two are compared; a file that is not a profile gets an explanation.
import {readFileSync} from "node:fs";
import {drawn, equal, ok, param, rowColors, settled} from "../lib.mjs";

// Drags files over the page, calls between(), and drops them. files: [[name, base64]...].
async function drop(page, files, between = async () => {}) {
    await page.evaluate((list) => {
        window.wickDrag = new DataTransfer();
        for (const [name, data] of list)
            window.wickDrag.items.add(new File([Uint8Array.from(atob(data), (c) => c.charCodeAt(0))], name));
        for (const type of ["dragenter", "dragover"])
            document.body.dispatchEvent(
                new DragEvent(type, {dataTransfer: window.wickDrag, bubbles: true, cancelable: true}),
            );
    }, files);
    await between();
    await page.evaluate(() =>
        document.body.dispatchEvent(
            new DragEvent("drop", {dataTransfer: window.wickDrag, bubbles: true, cancelable: true}),
        ),
    );
}

const treeOf = (page) =>
    page.evaluate(() => {
        const {tree} = document.querySelector(".flame-box").wickEngine.layout;
        return {
            columns: tree.columns,
            total: Array.from({length: tree.columns}, (_, c) => tree.total[c][0]),
            names: Array.from({length: tree.n}, (_, i) => tree.name(i)),
        };
    });

export default async function (t) {
    const page = await t.page({expected: [/400/]});
    await page.goto(`${t.url}/services`);
    await settled(page);
    await t.check("while a file is over the page, it says what will happen", async () => {
        await drop(page, [[t.profile.name, t.profile.data]], async () => {
            await page.getByText("Drop a profile to open it").waitFor();
            await t.shot(page, "drop");
        });
        await page.getByText("Drop a profile to open it").waitFor({state: "detached"});
    });
    await t.check("a dropped profile opens, with its own names and total", async () => {
        await page.waitForFunction(() => location.pathname.endsWith("/explore"));
        await drawn(page);
        const tree = await treeOf(page);
        equal(tree.total, [t.profile.total], "total");
        ok(
            tree.names.some((n) => n.includes(t.profile.frame)),
            `${t.profile.frame} is in the picture`,
        );
        ok(param(page, "query").includes(t.profile.name), param(page, "query"));
        const row = await rowColors(page, 30);
        ok(
            row.length > 0 && row.some(([, width]) => width > 40),
            `frames are painted: ${JSON.stringify(row.slice(0, 4))}`,
        );
        await t.shot(page, "upload");
    });
    const opened = param(page, "query");
    await t.check("two files are compared, the first one is before", async () => {
        await drop(page, [
            [t.profile.name, t.profile.data],
            [t.other.name, t.other.data],
        ]);
        await page.waitForFunction(() => location.pathname.endsWith("/compare"));
        await drawn(page);
        equal((await treeOf(page)).total, [t.profile.total, t.other.total], "totals of both sides");
    });
    await t.check("a file on the Compare page is compared with what is stored", async () => {
        await page.goto(
            `${t.url}/compare?base_query=${encodeURIComponent('cpu{service.name="checkout"}')}&base_from=now-3h`,
        );
        await drawn(page);
        await drop(page, [[t.other.name, t.other.data]]);
        await page.waitForFunction((name) => new URL(location).searchParams.get("query")?.includes(name), t.other.name);
        await drawn(page);
        const tree = await treeOf(page);
        equal(tree.columns, 2);
        equal(tree.total[1], t.other.total, "the file's side");
        ok(tree.total[0] > 0, "the stored side");
    });
    await t.check(
        "the first upload is still there, and is not mixed up with a second one of the same name",
        async () => {
            await page.goto(`${t.url}/explore?query=${encodeURIComponent(opened)}&from=now-1h`);
            await drawn(page);
            equal((await treeOf(page)).total, [t.profile.total]);
        },
    );
    await t.check("a file that is not a profile gets an explanation, and the page stays", async () => {
        const before = page.url();
        await drop(page, [["notes.html", btoa("<!DOCTYPE html><p>no")]]);
        await page.getByRole("alert").getByText("notes.html: an HTML page, not a profile").waitFor();
        equal(page.url(), before);
        await page.getByRole("button", {name: "Close"}).click();
        equal(await page.getByRole("alert").count(), 0);
    });
    await t.check("the button opens a file, too", async () => {
        await page
            .locator("input[type=file]")
            .setInputFiles({name: t.other.name, mimeType: "", buffer: Buffer.from(t.other.data, "base64")});
        await page.waitForFunction((name) => new URL(location).searchParams.get("query")?.includes(name), t.other.name);
        await drawn(page);
    });
    await t.check("uploaded files are apart: in no list, total or ranking of services", async () => {
        const api = async (path) => (await page.request.get(`${t.url}/api/v1/${path}`)).json();
        const services = (await api("services?from=now-3h")).map((s) => s.name);
        ok(services.includes("checkout") && !services.includes(t.profile.name), services.join());
        const uploaded = `wall{service.name="${t.profile.name}"}`,
            one = await api(`top?query=${encodeURIComponent(uploaded)}&from=now-3h`);
        const fleet = await api("top?query=wall&from=now-3h&limit=1000");
        ok(one.total > 0 && fleet.total + one.total !== fleet.total, "the file has samples");
        ok(!fleet.rows.some((r) => r.name === t.profile.frame), `${t.profile.frame} is in the total of all services`);
        const all = await api(`series?query=${encodeURIComponent("wall")}&from=now-3h&group_by=service.name`);
        ok(!all.series.some((x) => x.labels["service.name"] === t.profile.name), "a series of the file");
    });
    await t.check("they have a page of their own: two of them are compared, one is deleted", async () => {
        await page.goto(t.url + "/files");
        const rows = page.locator("tbody tr");
        await rows.first().waitFor();
        const names = await rows.locator("button.link").allInnerTexts();
        equal(names.filter((n) => n === t.profile.name).length, 2, "uploads of one name");
        await t.shot(page, "files");
        await t.axe(page, "files");
        await page.getByLabel(`compare ${t.other.name}`).first().check();
        await page.getByLabel(`compare ${t.profile.name}`).first().check();
        await page.getByRole("button", {name: "Compare the two"}).click();
        await drawn(page);
        const tree = await treeOf(page);
        equal([...tree.total].sort(), [t.profile.total, t.other.total].sort(), "totals of both sides");
        await page.goto(t.url + "/files");
        await rows.first().waitFor();
        const before = await rows.count();
        await page.getByLabel(`delete ${t.profile.name}`).first().click();
        await page.waitForFunction((n) => document.querySelectorAll("tbody tr").length === n, before - 1);
        await page.reload();
        await rows.first().waitFor();
        equal(await rows.count(), before - 1, "after a reload");
        await page.getByRole("button", {name: t.other.name}).first().click();
        await drawn(page);
        ok(!/year/.test(await page.locator(".toolbar .total").innerText()), "a file costs nothing");
    });
    await t.axe(page, "upload");
    await t.clean(page, "upload");
    const other = await t.page();
    await other.goto(`${t.url}/services`);
    await settled(other);
    for (const file of t.files) {
        await t.check(`a file of ${file.name} opens`, async () => {
            await drop(other, [[file.name, readFileSync(file.path).toString("base64")]]);
            await other.waitForFunction(
                (name) => new URL(location).searchParams.get("query")?.includes(name),
                file.name,
            );
            await drawn(other);
            const {total} = await treeOf(other);
            ok(total[0] > 0 && file.totals.includes(total[0]), `${total[0]} is one of ${file.totals}`);
        });
    }
}
