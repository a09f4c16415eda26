// SPDX-License-Identifier: Apache-2.0
// Numbers are true: comparisons by rate, share and total with their uncertainty, sample counts, and links that
// show the same numbers later. The profiles are those of ui_data.prices(): 100 s are covered on each side, at 100
// Hz.
import {colorOfFrame, drawn, equal, grey, moment, ok, param, settled} from "../lib.mjs";

const prices = encodeURIComponent('cpu{service.name="prices"}');
const orange = ([r, , b]) => r - b > 25,
    blue = ([r, , b]) => b - r > 25;

async function hover(page, name) {
    const at = await page.evaluate((name) => {
        const e = document.querySelector(".flame-box").wickEngine,
            {w, tree} = e.layout,
            box = e.box.getBoundingClientRect();
        let best = 0;
        for (let i = 1; i < tree.n; i++) if (tree.name(i) === name && (!best || w[i] > w[best])) best = i;
        const p = e.pointAt(best);
        return [box.left + p.left + 4, box.top + p.top + 8];
    }, name);
    await page.mouse.move(...at);
    await page.locator(".tip:not(.chart-tip)").waitFor();
    return (await page.locator(".tip:not(.chart-tip)").innerText()).replace(/\s+/g, " ");
}

export default async function (t) {
    const page = await t.page();
    // before the profiles were made: other suites ran since
    const ago = (minutes) => Math.floor(t.sent / 1000) - minutes * 60;
    const open = async (mode) => {
        await page.goto(
            `${t.url}/compare?query=${prices}&from=${ago(40)}&to=${ago(0)}&base_from=${ago(80)}&` +
                `base_to=${ago(60)}${mode ? "&mode=" + mode : ""}`,
        );
        await drawn(page);
    };
    await t.check("per second: a function whose rate rose is never blue, although its share fell", async () => {
        await open("");
        equal(await page.getByRole("button", {name: "Per second"}).getAttribute("aria-pressed"), "true", "the default");
        ok(orange(await colorOfFrame(page, "price_tax")), `price_tax is ${await colorOfFrame(page, "price_tax")}`);
        ok(orange(await colorOfFrame(page, "render")), "render rose");
        ok(orange(await colorOfFrame(page, "all")), "the root rose");
        await t.shot(page, "compare-second");
    });
    await t.check("what changed within the sampling noise is grey, and the tooltip says so", async () => {
        ok(grey(await colorOfFrame(page, "same")), `same is ${await colorOfFrame(page, "same")}`);
        const text = await hover(page, "same");
        ok(/400 samples/.test(text) && /410 samples/.test(text) && /\+2\.5 % ± 14 %: not significant/.test(text), text);
        const tax = await hover(page, "price_tax");
        ok(/before 0\.10 cores · 1,000 samples now 0\.15 cores · 1,500 samples change \+50 % ± 12 %/.test(tax), tax);
    });
    await t.check("the head has the change of the mode: 24 to 79.1 samples a second", async () => {
        const text = await page.locator(".diff-head .total").innerText();
        ok(/0\.24\d? cores → 0\.79\d? cores \+230 % ± 15 %/.test(text), text);
    });
    await t.check("share: the same function is blue, the root does not change", async () => {
        await page.getByRole("button", {name: "Share", exact: true}).click();
        await drawn(page);
        ok(blue(await colorOfFrame(page, "price_tax")), `price_tax is ${await colorOfFrame(page, "price_tax")}`);
        ok(grey(await colorOfFrame(page, "all")), "the root");
        ok(/before 41\.7 %.*now 19\.0 %/.test(await hover(page, "price_tax")), await hover(page, "price_tax"));
    });
    await t.check("total: in CPU time", async () => {
        await page.getByRole("button", {name: "Total", exact: true}).click();
        await drawn(page);
        ok(/before 10\.0 s.*now 15\.0 s.*\+50 %/.test(await hover(page, "price_tax")), await hover(page, "price_tax"));
        ok(
            /24\.0 s → 1\.32 min/.test(await page.locator(".diff-head .total").innerText()),
            await page.locator(".diff-head .total").innerText(),
        );
    });
    await t.check("the table compares by the same mode", async () => {
        await page.goto(page.url().replace("mode=total", "") + "&view=table");
        const row = page.locator("tbody tr", {hasText: "price_tax"}).first();
        await row.waitFor();
        ok(/0\.10 cores\s+0\.15 cores\s+\+50 % ± 12 %/.test(await row.innerText()), await row.innerText());
    });
    await t.check("a link to a comparison has fixed times, and shows the same later", async () => {
        await page.goto(`${t.url}/compare?query=${prices}&from=now-50m&base_from=now-100m&base_to=now-55m`);
        await drawn(page);
        for (const k of ["from", "to", "base_from", "base_to"])
            ok(/^\d{10}$/.test(param(page, k)), `${k}=${param(page, k)}`);
        const first = await page.locator(".diff-head .total").innerText(),
            link = page.url();
        const later = await t.page();
        await later.clock.install({time: Date.now() + 16 * 60e3});
        await later.goto(link);
        await drawn(later);
        equal(await later.locator(".diff-head .total").innerText(), first, "16 minutes later");
        equal(later.url(), link);
        await later.context().close();
    });
    await t.check("tooltip and head of Explore say how many samples and at which rate", async () => {
        await page.goto(`${t.url}/explore?query=${prices}&from=now-2h`);
        await drawn(page);
        ok(
            /10\.3k samples at 100 Hz/.test(await page.locator(".toolbar .total").innerText()),
            await page.locator(".toolbar .total").innerText(),
        );
        ok(/samples 2,500 at 100 Hz/.test(await hover(page, "price_tax")), await hover(page, "price_tax"));
    });
    await t.check("samples of two rates are counted, not estimated by the lower one", async () => {
        const until = Math.floor(Date.now() / 1000) - 5,
            other = await t.page();
        for (const [sampleRate, count, from] of [
            [100, 300, until - 20],
            [10, 2, until - 10],
        ]) {
            const r = await other.request.post(
                `${t.url}/ingest?name=rates&from=${from}&until=${from + 10}&format=folded&sampleRate=` +
                    `${sampleRate}&units=samples`,
                {data: `main;work ${count}\n`, headers: {"content-type": "text/plain"}},
            );
            ok(r.ok(), await r.text());
        }
        await other.goto(`${t.url}/explore?query=${encodeURIComponent('cpu{service.name="rates"}')}&from=now-2h`);
        await drawn(other);
        const head = await other.locator(".toolbar .total").innerText();
        ok(/3\.2 s|3\.20 s/.test(head) && /302 samples at 10–100 Hz/.test(head), head);
        ok(/samples 302 at 10–100 Hz/.test(await hover(other, "work")), await hover(other, "work"));
        await other.context().close();
    });
    await t.check("the tooltip of the chart says how many samples a point rests on", async () => {
        const chart = await t.page();
        await chart.goto(`${t.url}/explore?query=${prices}&from=${ago(120)}&to=${ago(0)}`);
        await drawn(chart);
        await chart.locator(".chart .u-over").hover();
        const texts = await chart.evaluate(() => {
            const over = document.querySelector(".chart .u-over"),
                tip = document.querySelector(".chart-tip"),
                {left, top, width} = over.getBoundingClientRect(),
                found = new Set();
            for (let x = 1; x < width; x++) {
                over.dispatchEvent(new MouseEvent("mousemove", {clientX: left + x, clientY: top + 20, bubbles: true}));
                if (!tip.hidden) found.add(tip.textContent);
            }
            return [...found];
        });
        const counts = texts.filter((x) => x.includes("cores")).map((x) => / cores · ([\d,.]+)(k?) samples?$/.exec(x));
        ok(counts.length > 1 && counts.every(Boolean), texts.join(" | "));
        const n = counts.reduce((sum, [, v, k]) => sum + Number(v.replace(/,/g, "")) * (k ? 1000 : 1), 0);
        ok(n > 10200 && n < 10400, `all points have ${n} of the 10,310 samples: ${texts.join(" | ")}`);
        await chart.context().close();
    });
    await t.check("a chart has a gap where there are no profiles", async () => {
        await page.waitForFunction(() => document.querySelector(".chart canvas"));
        const orange = (minutesAgo) =>
            page.evaluate((ago) => {
                const c = document.querySelector(".chart canvas"),
                    over = document.querySelector(".chart .u-over"),
                    ratio = c.width / c.clientWidth,
                    left = over.offsetLeft,
                    wide = over.clientWidth;
                const x = Math.round((left + wide * (1 - ago / 120)) * ratio),
                    {data} = c
                        .getContext("2d")
                        .getImageData(x, 0, 1, Math.round((over.offsetTop + over.clientHeight) * ratio));
                let n = 0;
                for (let i = 0; i < data.length; i += 4) if (data[i + 3] > 100 && data[i] - data[i + 2] > 60) n++;
                return n;
            }, minutesAgo);
        const since = Math.round((Date.now() - t.sent) / 60e3),
            found = [];
        for (let minutes = 100; minutes > 20; minutes--) if (await orange(minutes + since)) found.push(minutes);
        ok(
            found.some((a) => a >= 66 && a <= 72) && found.some((a) => a >= 26 && a <= 32),
            `drawn at ${found} minutes ago`,
        );
        ok(!found.some((a) => a > 36 && a < 62), `between 62 and 36 minutes ago there is nothing: ${found}`);
    });
    await t.check("program starts are folded until asked for", async () => {
        const names = () =>
            page.evaluate(() => {
                const {tree} = document.querySelector(".flame-box").wickEngine.layout;
                return Array.from({length: tree.n}, (_, i) => tree.name(i));
            });
        ok(!(await names()).includes("_start"), (await names()).join());
        await page.locator("#main").focus();
        await page.keyboard.press("f");
        await page.waitForFunction(() => new URL(location).searchParams.get("frames") === "all");
        await drawn(page);
        ok((await names()).includes("_start"), (await names()).join());
    });
    await t.check("callers and callees agree with the flame graph", async () => {
        await page.goto(`${t.url}/explore?query=${prices}&from=now-2h&view=sandwich&fn=price_tax`);
        const sum = page.locator(".sandwich-sum");
        await sum.waitFor();
        ok(/price_tax 25\.0 s .*self 25\.0 s/.test(await sum.innerText()), await sum.innerText());
    });
    await t.check("a row click in Both selects in the flame graph and keeps the table", async () => {
        await page.goto(`${t.url}/explore?query=${prices}&from=now-2h&view=both`);
        await drawn(page);
        const rows = await page.locator("tbody tr").count();
        await page.locator("tbody tr", {hasText: "render"}).click();
        await page.waitForFunction(() => {
            const e = document.querySelector(".flame-box").wickEngine;
            return e.layout.tree.name(e.focus) === "render";
        });
        equal(await page.locator("tbody tr").count(), rows, "rows of the table");
        ok((await page.locator("tbody tr.selected").innerText()).includes("render"), "the row is marked");
        ok((await page.locator(".details-name").innerText()) === "render", "the line below the picture");
    });
    await t.check(
        "Services: what keeps running above, the system's own programs folded; a deploy is at its first sample",
        async () => {
            const until = Math.floor(Date.now() / 1000) - 5;
            await page.request.post(
                `${t.url}/ingest?name=bash&from=${until - 10}&until=${until}&format=folded&` +
                    "sampleRate=100&units=samples",
                {data: "main;fork 5\n", headers: {"content-type": "text/plain"}},
            );
            // Ten seconds of a program whose version is a build ID: a service if it sends profiles of its own.
            const send = (name, kind) =>
                page.request.post(
                    `${t.url}/ingest?name=${encodeURIComponent(`${name}.${kind}{service_version=${"b".repeat(40)}}`)}` +
                        `&from=${until - 10}&until=${until}&format=folded&sampleRate=100`,
                    {data: "main;work 5\n", headers: {"content-type": "text/plain"}},
                );
            await send("brief-tool", "cpu");
            for (const kind of ["cpu", "mutex_duration"]) await send("brief-sender", kind);
            await page.goto(`${t.url}/services?from=now-2h`);
            const row = page.locator("table.trends tbody tr", {
                has: page.getByRole("link", {name: "checkout", exact: true}),
            });
            await row.waitFor();
            const words = `deployed ${moment(t.sent - 40 * 60e3)}`;
            ok(
                (await row.innerText()).includes(words),
                `${words}, the first sample of 1.5.0: ${await row.innerText()}`,
            );
            equal(await page.getByRole("link", {name: "bash", exact: true}).count(), 0, "bash");
            await page.getByRole("link", {name: "brief-sender", exact: true}).waitFor();
            equal(await page.getByRole("link", {name: "brief-tool", exact: true}).count(), 0, "brief-tool");
            await page.getByRole("button", {name: /short-lived and system programs/}).click();
            await page.getByRole("link", {name: "bash", exact: true}).waitFor();
            await page.getByRole("link", {name: "brief-tool", exact: true}).waitFor();
            await page.getByRole("searchbox", {name: "filter services"}).fill("chec");
            await page.waitForFunction(
                () =>
                    [...document.querySelectorAll("table.trends tbody th")].map((e) => e.innerText).join() ===
                    "checkout",
            );
        },
    );
    await t.check("code that a runtime did not name is called so, and what would help is said", async () => {
        const own = await t.page(),
            until = Math.floor(Date.now() / 1000) - 5;
        const sent = await own.request.post(
            `${t.url}/ingest?name=jitted&from=${until - 10}&until=${until}&format=folded&sampleRate=100&units=samples`,
            {
                data: "main;[node: run with --perf-basic-prof] 500\nmain;work 100\n",
                headers: {"content-type": "text/plain"},
            },
        );
        equal(sent.status(), 200);
        const url = `${t.url}/explore?query=${encodeURIComponent('cpu{service.name="jitted"}')}&from=now-1h`;
        await own.goto(url);
        await drawn(own);
        const names = await own.evaluate(() => {
            const {tree} = document.querySelector(".flame-box").wickEngine.layout;
            return Array.from({length: tree.n}, (_, i) => tree.name(i));
        });
        ok(names.includes("[node: no names]"), names.join());
        await own.locator(".flame-box").focus();
        await own.keyboard.press("ArrowDown");
        await own.keyboard.press("ArrowDown");
        await own.locator(".why code", {hasText: "run with --perf-basic-prof"}).waitFor();
        await own.goto(url + "&view=table");
        await own.getByText("[node: no names]", {exact: true}).waitFor();
        await t.clean(own, "code without names");
    });
    await t.check("Services: a change with its range is not cut off", async () => {
        const old = await t.page(); // of a time that no other suite has profiles of
        for (const [from, data] of [
            [ago(185), "main;falling 300\n"],
            [ago(181), "main;falling 9\n"],
        ]) {
            const sent = await old.request.post(
                `${t.url}/ingest?name=falling&from=${from}&until=${from + 10}&format=folded&` +
                    "sampleRate=100&units=samples",
                {data, headers: {"content-type": "text/plain"}},
            );
            ok(sent.ok(), await sent.text());
        }
        for (const width of [1000, 1280, 1400]) {
            await old.setViewportSize({width, height: 900});
            await old.goto(`${t.url}/services?from=${ago(186)}&to=${ago(180)}`);
            const cell = old.locator("td.change", {hasText: /−97 % \(−9[89] % to −94 %\)/});
            await cell.waitFor();
            ok(await cell.evaluate((e) => e.scrollWidth <= e.clientWidth), `${width} px: ${await cell.innerText()}`);
        }
        await old.context().close();
    });
    await t.check("completion: Enter takes the suggestion", async () => {
        await page.goto(`${t.url}/explore?from=now-2h`);
        await settled(page);
        const box = page.getByRole("combobox", {name: "service"});
        await box.click();
        await box.pressSequentially("pri");
        await page.getByRole("option", {name: "prices"}).waitFor();
        await box.press("Enter");
        await page.waitForFunction(() =>
            new URL(location).searchParams.get("query")?.includes('service.name="prices"'),
        );
        await page.getByRole("button", {name: "add a filter"}).click();
        const label = page.getByRole("combobox", {name: "label", exact: true});
        await label.pressSequentially("host");
        await page.getByRole("option", {name: "host.name"}).waitFor();
        await label.press("Enter");
        await page.getByRole("combobox", {name: "value of host.name"}).waitFor();
    });
    await t.check("a bad link gives a sentence, and nothing is asked", async () => {
        for (const [path, sentence] of [
            ["explore?from=banana", /“banana” is not a time/],
            ["explore?query=cpu{", /is not a selector/],
            ["explore?focus=(", /not a regular expression/],
            ["explore?from=now&to=now-1h", /ends before it begins/],
            ["compare?base_from=x", /“x” is not a time/],
            ["services?from=x", /“x” is not a time/],
            ["explore?profile=zz", /not the id of a profile/],
            ["explore?view=nonsense&sort=%25&prow=%25&x=7_1&boxes=x&zoom=%5C", null],
            ["senders?sort=%25", null],
            ["explore?view=labels&pick=x%09%7B%09%5B1%2C2%5D&from=now-2h", null],
            ["compare?view=table&sort=%25", null],
        ]) {
            await page.goto(`${t.url}/${path}`);
            await settled(page);
            const text = await page.locator("#main").innerText();
            if (sentence) ok(sentence.test(text), `${path}: ${text}`);
            ok(!/NaN|undefined|Invalid Date/.test(text), `${path}: ${text}`);
        }
    });
    await t.clean(page, "truth");
}
