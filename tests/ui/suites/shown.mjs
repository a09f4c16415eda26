// SPDX-License-Identifier: Apache-2.0
// What a person sees and other suites do not look at: the call graph, what a picture carries when it leaves, how
// names are cut, the head's order, which of two sources is shown, and in which version a function began.
import fs from "node:fs";
import {drawn, equal, ok, settled} from "../lib.mjs";

const checkout = "query=" + encodeURIComponent('cpu{service.name="checkout"}');

// Records the texts that are drawn on canvases.
const listen = () => {
    window.wickTexts = [];
    const draw = CanvasRenderingContext2D.prototype.fillText;
    CanvasRenderingContext2D.prototype.fillText = function (text, ...at) {
        window.wickTexts.push(text);
        return draw.call(this, text, ...at);
    };
};

export default async function (t) {
    const page = await t.page({acceptDownloads: true});
    await page.addInitScript(listen);
    await t.check("Services: no table is wider than its box, and no number than its cell", async () => {
        const own = await t.page();
        await own.goto(`${t.url}/services?from=now-1h`);
        await settled(own);
        await own.locator("table.trends tbody tr").nth(2).waitFor();
        const cut = await own.evaluate(() =>
            [...document.querySelectorAll(".panel.scroll-x, .panel td.num")]
                .filter((e) => e.scrollWidth > e.clientWidth + 1)
                .map((e) => `${e.tagName} ${e.textContent.slice(0, 60)}: ${e.scrollWidth} > ${e.clientWidth}`),
        );
        equal(cut, [], "what is cut");
        await own.context().close();
    });
    await t.check("the head has Home, Services, Explore, Compare, Alerts, Sources, in this order", async () => {
        await page.goto(`${t.url}/explore?view=graph&${checkout}&from=now-2h`);
        await page.locator(".graph-svg .box").first().waitFor();
        equal(await page.locator(".top nav a").allInnerTexts(), [
            "Home",
            "Services",
            "Explore",
            "Compare",
            "Alerts",
            "Sources",
        ]);
    });
    await t.check(
        "what rests on few samples has few digits, on the boxes, in the call graph and beside the search",
        async () => {
            const until = Math.floor(Date.now() / 1000) - 5,
                few = await t.page(),
                query = encodeURIComponent('cpu{service.name="few"}');
            await few.addInitScript(listen);
            const sent = await few.request.post(
                `${t.url}/ingest?name=few&from=${until - 10}&until=${until}&format=folded&sampleRate=100&units=samples`,
                {data: "main;work 27\nmain;rest 13\n", headers: {"content-type": "text/plain"}},
            );
            ok(sent.ok(), await sent.text());
            await few.goto(`${t.url}/explore?query=${query}&from=now-2h&search=work`);
            await drawn(few);
            const shares = await few.evaluate(() => window.wickTexts.filter((text) => text.endsWith(" %")));
            equal([...new Set(shares)].sort(), ["100 %", "30 %", "68 %"], "of 40 samples 27 are 68 %, 13 are 30 %");
            equal(await few.locator(".search-found").innerText(), "68 % · 1");
            await few.goto(`${t.url}/explore?query=${query}&from=now-2h&view=graph`);
            await few.locator(".graph-svg .box").first().waitFor();
            equal((await few.locator(".graph-svg .box-num").allTextContents()).sort(), [
                "0 % of 100 %",
                "30 % of 30 %",
                "68 % of 68 %",
            ]);
            equal(
                (await few.locator(".edge-weight").allTextContents()).sort(),
                ["30 %", "68 %"],
                "arrows say what boxes say",
            );
            const titles = await few.locator(".graph-svg title").allTextContents();
            ok(titles.length && titles.every((text) => /\d+ samples at 100 Hz/.test(text)), titles.join(" | "));
            await few.context().close();
        },
    );
    await t.check(
        "the call graph fits the pane; boxes are the warmer, the more they take themselves; arrows say their share",
        async () => {
            await settled(page);
            const g = await page.evaluate(() => {
                const svg = document.querySelector(".graph-svg"),
                    pane = svg.getBoundingClientRect();
                const boxes = [...svg.querySelectorAll(".box")].map((b) => {
                    const r = b.querySelector("rect").getBoundingClientRect(),
                        context = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
                    context.fillStyle = b.querySelector("rect").getAttribute("fill");
                    context.fillRect(0, 0, 1, 1);
                    const [red, , blue] = context.getImageData(0, 0, 1, 1).data;
                    return {
                        name: b.querySelector("text").textContent,
                        self: parseFloat(b.querySelector(".box-num").textContent),
                        warm: red - blue,
                        size: parseFloat(b.querySelector("text").getAttribute("font-size")),
                        inside:
                            r.left >= pane.left &&
                            r.right <= pane.right &&
                            r.top >= pane.top &&
                            r.bottom <= pane.bottom,
                    };
                });
                return {
                    boxes,
                    shares: [...svg.querySelectorAll(".edge-weight")].map((e) => e.textContent),
                    widths: [...svg.querySelectorAll(".edge")].map((e) => +e.getAttribute("stroke-width")),
                };
            });
            equal(
                g.boxes.filter((b) => !b.inside).map((b) => b.name),
                [],
                "boxes outside of the pane",
            );
            const sorted = [...g.boxes].sort((a, b) => a.self - b.self),
                cold = sorted[0],
                hot = sorted.at(-1);
            ok(
                hot.name.includes("encode") && hot.self > 30 && hot.warm > cold.warm + 40 && hot.size > cold.size,
                JSON.stringify([cold, hot]),
            );
            ok(g.shares.length > 2 && g.shares.every((s) => /^\d+(\.\d)? %$/.test(s)), g.shares.join());
            ok(Math.max(...g.widths) > 2 * Math.min(...g.widths), "the heaviest call is not drawn heavier");
        },
    );
    await t.axe(page, "call graph");
    await t.check("a PNG carries what it shows, of when, its legend and its link", async () => {
        await page.goto(`${t.url}/explore?${checkout}&from=now-2h`);
        await drawn(page);
        await page.evaluate(() => (window.wickTexts = []));
        await page.getByRole("button", {name: "Export"}).click();
        const [file] = await Promise.all([
            page.waitForEvent("download"),
            page.getByRole("menu").getByText("PNG image").click(),
        ]);
        ok(
            /^checkout-cpu-\d{4}-\d\d-\d\dT\d\d\.\d\d\.\d\d\.png$/.test(file.suggestedFilename()),
            file.suggestedFilename(),
        );
        const png = fs.readFileSync(await file.path()),
            [w, h] = [png.readUInt32BE(16), png.readUInt32BE(20)];
        const box = await page.locator(".flame-box").boundingBox();
        ok(w >= box.width - 20 && h > 46 + 5 * 19, `${w} x ${h}`);
        const texts = (await page.evaluate(() => window.wickTexts)).join("\n");
        for (const wanted of ['cpu{service.name="checkout"}, ', " to ", "colour: package", "cart", page.url()])
            ok(texts.includes(wanted), `${wanted} is not in ${texts.slice(-500)}`);
    });
    await t.check("names keep the function and are cut from the left", async () => {
        await page.setViewportSize({width: 375, height: 800});
        await page.evaluate(() => (window.wickTexts = []));
        await page.reload();
        await drawn(page);
        const texts = await page.evaluate(() => window.wickTexts);
        ok(
            texts.some((s) => /^….*Checkout$/.test(s) || s === "cart.(*Cart).Checkout") &&
                !texts.some((s) => /^example\.com.*…$/.test(s)),
            texts.join(", "),
        );
    });
    await page.setViewportSize({width: 1400, height: 900});
    await t.check("an HTML page carries title, range, legend and link", async () => {
        await page.getByRole("button", {name: "Export"}).click();
        const link = await page
            .getByRole("menu")
            .getByRole("menuitem", {name: "self-contained HTML"})
            .getAttribute("href");
        const r = await page.request.get(new URL(link, page.url()).href),
            text = await r.text();
        await page.keyboard.press("Escape");
        ok(r.ok() && text.includes("</html>"), `${link}: ${text.slice(0, 200)}`);
        const other = await t.page();
        fs.writeFileSync(t.place + "/exported.html", text);
        await other.goto(`file://${t.place}/exported.html`);
        await drawn(other);
        const head = (await other.locator("body").innerText()).replace(/\s+/g, " ");
        ok(
            head.includes('cpu{service.name="checkout"}') && /\d\d:\d\d/.test(head) && /width|colour/.test(head),
            head.slice(0, 400),
        );
        ok((await other.locator(`a[href*="/explore?"]`).count()) > 0, "no link back");
    });
    await t.check("a week on the chart has dates at midnight", async () => {
        await page.setViewportSize({width: 1280, height: 900});
        await page.goto(`${t.url}/explore?${checkout}&from=now-7d`);
        await drawn(page);
        const texts = await page.evaluate(() => window.wickTexts),
            midnight = new Date();
        midnight.setHours(0, 0, 0, 0);
        const days = [0, 1, 2, 3, 4, 5]
            .map((k) => new Date(midnight.getFullYear(), midnight.getMonth(), midnight.getDate() - k))
            .map((d) => [d.getMonth() + 1, d.getDate()].map((n) => String(n).padStart(2, "0")).join("-"));
        equal(
            days.filter((d) => !texts.includes(d)),
            [],
            `days that are not in ${texts.filter((s) => /^\d\d[:-]\d\d$/.test(s)).join()}`,
        );
        ok(texts.includes("08:00") && !texts.includes("00:00"), "times between the days");
    });
    await t.check("a function's page says in which version it was seen first", async () => {
        await page.goto(`${t.url}/function?fn=example.com%2Fshop%2Fcart.encode&${checkout}&from=now-2h`);
        await page.getByText(/first seen in 1\.4\.0/).waitFor();
        await page
            .getByText(/first seen in 1\.4\.0, \d{4}-\d\d-\d\d \d\d:\d\d:\d\d|first seen in 1\.4\.0, \d\d:\d\d:\d\d/)
            .waitFor();
        const api = async (sort) =>
            (
                await (
                    await page.request.get(`${t.url}/api/v1/top?${checkout}&from=now-2h&sort=${sort}&limit=100`)
                ).json()
            ).rows.findIndex((r) => r.name === "example.com/shop/cart.encode") + 1;
        const facts = (await page.locator(".facts").innerText()).replace(/\s+/g, " ");
        ok(
            facts.includes(`rank by total ${await api("total")} of`) &&
                facts.includes(`rank by self ${await api("self")} of`),
            facts,
        );
    });
    await t.clean(page, "shown");
}
