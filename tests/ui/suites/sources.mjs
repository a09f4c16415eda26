// SPDX-License-Identifier: Apache-2.0
// What the server finds out by itself, from real profiles: two sources of one process, what stands out in a
// selection, and which steps of a chart are complete.
import {colorOfFrame, drawn, equal, grey, moment, ok} from "../lib.mjs";

const of = (service, type = "cpu") => "query=" + encodeURIComponent(`${type}{service.name="${service}"}`);

// The upper edge of the line in each column of the chart's plot, in CSS pixels from its bottom; 0 where nothing is
// drawn.
const lineOf = (page) =>
    page.evaluate(() => {
        const c = document.querySelector(".chart canvas"),
            over = document.querySelector(".chart .u-over"),
            ratio = c.width / c.clientWidth;
        const [x, y, w, h] = [over.offsetLeft, over.offsetTop, over.clientWidth, over.clientHeight].map((v) =>
            Math.round(v * ratio),
        );
        const {data} = c.getContext("2d").getImageData(x, y, w, h),
            heights = [];
        for (let i = 0; i < w; i++) {
            let top = h;
            for (let k = 0; k < h && top === h; k++) {
                const at = 4 * (k * w + i);
                if (data[at + 3] > 150 && data[at] - data[at + 2] > 60) top = k;
            }
            heights.push((h - top) / ratio);
        }
        return heights;
    });

const total = (page) => page.locator(".toolbar .total").innerText();

export default async function (t) {
    await t.check("build ids are deploys of what keeps running, not of tools", async () => {
        const home = await t.page();
        await home.goto(`${t.url}/home?from=now-1h`);
        const cards = home.getByRole("region", {name: "latest deploys"}),
            rows = home.locator("table.trends tbody tr");
        await cards.getByText("rolled 1.4").waitFor();
        ok(!/vet|bFq-/.test(await cards.innerText()), await cards.innerText());
        ok(
            /bbbbbbbb deployed/.test((await rows.filter({hasText: "daemon"}).innerText()).replace(/\s+/g, " ")),
            "the daemon was deployed",
        );
        await home.getByRole("button", {name: /short-lived and system programs/}).click();
        const vet = (await rows.filter({hasText: "vet"}).innerText()).replace(/\s+/g, " ");
        ok(/bFq-bFq-/.test(vet) && !/deployed|bFq-bFq-b/.test(vet), vet);
        await home.context().close();
    });
    const page = await t.page();
    await t.check("two sources of one process: counted once, and the page says which one it shows", async () => {
        await page.goto(`${t.url}/explore?${of("twice")}&from=now-1h`);
        await drawn(page);
        const note = page.locator(".series-head").getByText(/sampled twice/);
        await note.waitFor();
        ok(
            /sampled twice, counted once: by libwick \(shown here\) and ebpf-profiler/.test(await note.innerText()),
            await note.innerText(),
        );
        ok(/^50\.0 s/.test((await total(page)).trim()), `50 s of CPU time, once: ${await total(page)}`);
        await page.getByRole("link", {name: "show the other one"}).click();
        await page.waitForFunction(() => new URL(location).searchParams.get("query")?.startsWith("cpu_also"));
        await page.waitForFunction(() => {
            const tree = document.querySelector(".flame-box")?.wickEngine?.layout?.tree;
            return tree && Array.from({length: tree.n}, (_, i) => tree.name(i)).includes("seen_by_agent");
        });
        ok(/^48\.0 s/.test((await total(page)).trim()), await total(page));
    });
    await t.check(
        "Explain: a real finding in a sentence, its frame is marked in the picture, its numbers are the server's",
        async () => {
            await page.goto(`${t.url}/explore?${of("finder")}&from=now-1h`);
            await drawn(page);
            await page.getByRole("button", {name: "Explain"}).click();
            const panel = page.getByRole("complementary", {name: "findings"}),
                item = panel.locator("li", {hasText: "Regular expressions compiled while running"});
            await item.waitFor();
            const text = (await item.innerText()).replace(/\s+/g, " ");
            ok(
                /25(\.0)? %/.test(text) && text.includes("match_route") && /compile the expression once/.test(text),
                text,
            );
            equal(await panel.locator("li").count(), 1, "nothing else stands out");
            const before = await colorOfFrame(page, "render");
            await item.getByRole("button", {name: /match_route/}).click();
            await page.waitForFunction(() => new URL(location).searchParams.get("sel") === "match_route");
            await drawn(page);
            const marked = await colorOfFrame(page, "match_route"),
                other = await colorOfFrame(page, "render");
            ok(
                marked.some((v, i) => Math.abs(v - other[i]) > 20) && other.some((v, i) => Math.abs(v - before[i]) > 8),
                `match_route ${marked}, render ${before} then ${other}`,
            );
        },
    );
    await t.check("Explain is about the stacks that are shown", async () => {
        const panel = page.getByRole("complementary", {name: "findings"});
        await page.goto(`${t.url}/explore?${of("finder")}&from=now-1h&explain=1&focus=match_route`);
        await panel.locator("li", {hasText: /Regular expressions compiled while running 100 %/}).waitFor();
        await page.goto(`${t.url}/explore?${of("finder")}&from=now-1h&explain=1&ignore=regcomp`);
        await panel.getByText("No large share of garbage collection").waitFor();
    });
    await t.check("labels: of memory in use the mean is shown, the largest first", async () => {
        await page.goto(`${t.url}/explore?view=labels&${of("holder", "heap")}&from=now-1h&by=service.version`);
        await page.locator(".cell").nth(1).waitFor();
        equal(
            (await page.locator(".cell").allInnerTexts()).map((x) => x.replace(/\s+/g, " ").trim()),
            ["new 80.0 MB · 61.5 %", "old 50.0 MB · 38.5 %"],
        );
    });
    await t.check("a number that rests on one sample has one digit: labels, source lines", async () => {
        await page.goto(`${t.url}/explore?view=labels&${of("rare")}&from=now-1h&by=service.version`);
        await page.locator(".cell").nth(1).waitFor();
        equal(
            (await page.locator(".cell p").allInnerTexts()).map((x) => x.replace(/\s+/g, " ").trim()),
            ["1.50 cores · 99.9 %", "0.001 cores · 0.07 %"],
        );
        await page.goto(`${t.url}/explore?view=source&${of("rare")}&from=now-1h&fn=tick`);
        const cells = async (line) =>
            (
                await page
                    .locator("table.code tbody tr", {has: page.locator("td.muted", {hasText: new RegExp(`^${line}$`)})})
                    .locator("td.num")
                    .allInnerTexts()
            )
                .slice(0, 3)
                .map((x) => x.trim());
        await page.locator("table.code").waitFor();
        equal(await cells(7), ["20 ms", "20 ms", "0.1 %"], "two samples");
        equal(await cells(9), ["15.0 s", "15.0 s", "99.9 %"], "1500");
    });
    await t.check("the last step of a chart is not drawn before it is complete", async () => {
        for (let tries = 0; ; tries++) {
            // a slow machine may need a second try: the step of the peak is complete after a minute
            const until = Math.floor(Date.now() / 1000) - 2;
            const r = await page.request.post(
                `${t.url}/ingest?name=steady&from=${until - 5}&until=${until}&format=folded&` +
                    "sampleRate=100&units=samples",
                {data: `main;work ${5000 + tries}\n`, headers: {"content-type": "text/plain"}},
            );
            ok(r.ok(), await r.text());
            await page.goto(`${t.url}/explore?${of("steady")}&from=now-1h`);
            await drawn(page);
            await page.waitForFunction(() => document.querySelector(".chart canvas"));
            const live = (await lineOf(page)).filter((h) => h > 0);
            if (Date.now() / 1000 - until > 45 && tries < 4) continue;
            ok(live.length > 100, `${live.length} columns are drawn`);
            ok(
                Math.max(...live) - Math.min(...live) < 6,
                `a flat line: from ${Math.min(...live)} to ${Math.max(...live)} pixels`,
            );
            break;
        }
        await page.goto(
            `${t.url}/explore?${of("steady")}&from=${Math.floor(Date.now() / 1000) - 3600}&to=` +
                `${Math.floor(Date.now() / 1000)}`,
        ); // a range that does not wait for more
        await drawn(page);
        await page.waitForFunction(() => document.querySelector(".chart canvas"));
        const fixed = (await lineOf(page)).filter((h) => h > 0);
        ok(fixed.at(-1) > 3 * fixed[0], `the peak at the end: ${fixed[0]} and ${fixed.at(-1)} pixels`);
    });
    await t.check(
        "profiles a minute apart make a flat line, not a comb: no step is shorter than their interval",
        async () => {
            await page.goto(`${t.url}/explore?${of("minutely")}&from=now-30m`);
            await drawn(page);
            await page.waitForFunction(() => document.querySelector(".chart canvas"));
            const line = await lineOf(page),
                first = line.findIndex((h) => h > 0),
                drawnTo = line.findLastIndex((h) => h > 0),
                within = line.slice(first, drawnTo + 1);
            ok(within.length > 0.6 * line.length, `${within.length} of ${line.length} columns`);
            ok(
                Math.max(...within) - Math.min(...within) < 6,
                `from ${Math.min(...within)} to ${Math.max(...within)} pixels`,
            );
        },
    );
    await t.check(
        "the latest version is what runs last, also after a rollback, and since its first sample",
        async () => {
            await page.goto(`${t.url}/services?from=now-1h`);
            const row = page.locator("table.trends tbody tr", {
                has: page.getByRole("link", {name: "rolled", exact: true}),
            });
            await row.waitFor();
            equal(await row.locator(".badge").first().innerText(), "1.4", "the version that runs");
            ok(
                (await row.innerText()).includes(`back ${moment(t.back)}`),
                `${moment(t.back)}, the first sample after the rollback: ${await row.innerText()}`,
            );
        },
    );
    await t.check("versions to compare are in the order in which they ran, 1.9.0 before 1.10.0", async () => {
        await page.goto(`${t.url}/compare?${of("numbered")}&from=now-1h`);
        await drawn(page);
        await page.getByRole("button", {name: "Compare with"}).click();
        const items = page.getByRole("menu").locator("[role^=menuitem]", {hasText: "version"});
        await items.first().waitFor();
        equal(
            (await items.allInnerTexts()).map((text) => text.trim()),
            ["version 1.9.0 → 1.10.0"],
            "what can be compared",
        );
        await items.first().click();
        await page.waitForFunction(
            () =>
                new URL(location).searchParams.get("base_query")?.includes('"1.9.0"') &&
                new URL(location).searchParams.get("query").includes('"1.10.0"'),
        );
        await drawn(page);
    });
    await t.check(
        "a function that was built in two folders is one box and one row; those of scripts are " +
            "told apart by the name of the file",
        async () => {
            const one = (v) => encodeURIComponent(`cpu{service.name="moved",service.version="${v}"}`),
                times = "from=now-1h&base_from=now-1h";
            await page.goto(`${t.url}/compare?query=${one("1.1")}&base_query=${one("1.0")}&${times}`);
            await drawn(page);
            const boxes = await page.evaluate(() => {
                const {tree} = document.querySelector(".flame-box").wickEngine.layout,
                    found = {};
                for (let i = 0; i < tree.n; i++) (found[tree.name(i)] ??= []).push(tree.total.map((c) => c[i] / 1e9));
                return found;
            });
            equal(boxes.work, [[26, 28]], "boxes of work: seconds before, now");
            equal(
                boxes.serve,
                [[26, 28]],
                "boxes of serve, which was deployed into another folder and has moved in its file",
            );
            equal(boxes.run.map((b) => b.join()).sort(), ["0,28", "26,0"], "boxes of run");
            ok(
                grey(await colorOfFrame(page, "work")),
                `as much per second as before: ${await colorOfFrame(page, "work")}`,
            );
            await page.goto(`${t.url}/compare?query=${one("1.1")}&base_query=${one("1.0")}&${times}&view=table`);
            for (const [name, n] of [
                ["work", 1],
                ["serve", 1],
                ["run", 2],
            ]) {
                const rows = page.locator("tbody tr .fn", {hasText: new RegExp(`^${name}\\b`)});
                await rows.first().waitFor();
                equal(await rows.count(), n, `rows of ${name}`);
            }
        },
    );
    await t.check("the page of a function: half of the time, in its head as with its callers", async () => {
        await page.goto(`${t.url}/function?fn=work&${of("numbered")}&from=now-1h`);
        const facts = page.locator(".facts"),
            sum = page.locator(".sandwich-sum");
        await sum.waitFor();
        ok(/total\s*50\.0 % · 5[34]\.0 s/.test(await facts.innerText()), await facts.innerText());
        ok(/50\.0 % of all/.test(await sum.innerText()), await sum.innerText());
    });
    await t.clean(page, "sources");
}
