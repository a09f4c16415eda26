// SPDX-License-Identifier: Apache-2.0
// Pages over one question: a function, values of a label, findings, spans, alerts, and the card of a deploy.
// Answers that the test's profiles do not give are made here, in the form that the API has.
import {drawn, equal, frameMenu, ok, param, settled} from "../lib.mjs";

const checkout = "query=" + encodeURIComponent('cpu{service.name="checkout"}');

export async function answers(page) {
    const json = (name, value) =>
        page.route(new RegExp(`/api/v1/${name}(\\?|$)`), (r) =>
            r.fulfill({json: typeof value === "function" ? value() : value}),
        );
    await page.route(/\/api\/v1\/status/, async (r) => {
        const a = await r.fetch().catch((e) => {
            if (!page.isClosed()) throw e;
        });
        if (!a) return; // the page was closed meanwhile
        const j = await a.json();
        await r.fulfill({
            response: a,
            json: {...j, questions: [...new Set([...j.questions, "findings", "span_names"])]},
        });
    });
    await json("findings", {
        findings: [
            {
                rule: "json",
                title: "Serialisation",
                sentence: "Encoding takes 39 % of the CPU time.",
                share: 0.39,
                severity: "warning",
                frames: [{function: "example.com/shop/cart.encode", share: 0.39}],
            },
        ],
    });
    await json("span_names", {
        count: 1,
        spans: [
            {
                name: "POST /checkout",
                service: "checkout",
                count: 1200,
                errors: 3,
                p50: 22e6,
                p95: 180e6,
                p99: 410e6,
                max: 1.2e9,
                total: 5.2e10,
            },
        ],
    });
    const bounds = Array.from({length: 25}, (_, i) => 1e6 * 1.4 ** i);
    await json("span_heatmap", () => ({
        from: String(BigInt(Date.now() - 3600e3) * 1000000n),
        step: "60000000000",
        count: 1200,
        errors: 3,
        bounds,
        counts: Array.from({length: 60}, (_, s) =>
            bounds
                .slice(1)
                .map((_, k) =>
                    Math.round(60 * Math.exp(-((k - 8) ** 2) / 4) + (s > 40 ? 25 * Math.exp(-((k - 16) ** 2) / 3) : 0)),
                ),
        ),
    }));
    page.spanFlames = [];
    await page.route(/\/api\/v1\/flame\?.*span_name/, (r) => {
        page.spanFlames.push(new URL(r.request().url()).searchParams);
        const diff = page.spanFlames.at(-1).has("against") ? `&base_${checkout}&base_from=now-2h` : "";
        return r.continue({
            url: r
                .request()
                .url()
                .replace(/flame\?.*/, `flame?${checkout}&from=now-2h&format=binary&by=filefunction${diff}`),
        });
    });
    await json("alerts", () => ({
        now: new Date().toISOString(),
        interval: 60,
        url: "",
        rules: [
            {
                name: "encode",
                type: "threshold",
                selector: "cpu",
                function: "cart.encode",
                for: "10m",
                state: "firing",
                evaluated: new Date().toISOString(),
                milliseconds: 1,
                error: "",
            },
        ],
        alerts: [
            {
                rule: "encode",
                type: "threshold",
                state: "firing",
                service: "checkout",
                function: "cart.encode",
                since: new Date(Date.now() - 300e3).toISOString(),
                value: 0.39,
                limit: 0.2,
                unit: "share",
                summary: "cart.encode of checkout takes 39 % of the CPU time.",
                url: "https://elsewhere.example/compare?query=cpu",
                delivery_error: "",
            },
        ],
        targets: [],
        recording: [],
    }));
    await json("alerts/rule", {yaml: "alerts:\n  rules:\n    - name: encode\n"});
}

export default async function (t) {
    const lost = await t.page({expected: [/404/]});
    await t.check("an address that is none shows a page that says so, and leads on", async () => {
        equal((await lost.goto(`${t.url}/nowhere`)).status(), 404);
        await lost.getByText("This page does not exist").waitFor();
        equal(await lost.title(), "Not found · wick");
        await lost.getByRole("main").getByRole("link", {name: "Explore"}).click();
        await drawn(lost);
    });
    await t.check("the title of a tab says what it shows", async () => {
        await lost.goto(`${t.url}/explore?query=${encodeURIComponent('alloc{service.name="checkout"}')}&from=now-6h`);
        await drawn(lost);
        equal(await lost.title(), "checkout alloc, last 6 hours · Explore · wick");
        await lost.goto(`${t.url}/function?fn=example.com%2Fshop%2Fcart.encode`);
        await settled(lost);
        equal(await lost.title(), "cart.encode · Function · wick");
    });
    await t.clean(lost, "no page");
    const page = await t.page();
    await answers(page);
    await t.check(
        "home: the card says what the verdict says: how much, how sure, where, and what it " +
            "costs; alerts that fire are above",
        async () => {
            await page.goto(t.url + "/home");
            const card = page.locator(".regression", {hasText: "checkout 1.5.0"});
            await card.getByText("cart.go:40").waitFor();
            equal(await card.locator("canvas").count(), 2, "flame graphs");
            const text = (await card.innerText()).replace(/\s+/g, " ");
            ok(
                text.includes("checkout 1.5.0 costs 51 % more CPU for the same work (+36 % to +68 %)") &&
                    /same work \([^)]*\) since (\d{4}-\d\d-\d\d )?\d\d:\d\d/.test(text),
                text,
            );
            ok(
                /0\.24 cores → 0\.18 cores, since the load changed.*; mostly in cart\.encode at cart\.go:40/.test(
                    text,
                ) && /cart\.go:40 func encode\(\).*; about \$21\/year more at this load/.test(text),
                text,
            );
            ok(
                (await card.locator("h2 b.more").isVisible()) &&
                    /Per CPU second, 35 min of 1\.5\.0 against 35 min of 1\.4\.0 before it; 99 % confidence/.test(text),
                text,
            );
            equal(await page.locator(".regression").count(), 1, "services without a change have no card");
            const judged = await (await page.request.get(t.url + "/api/v1/verdicts?query=cpu&from=now-1d")).json();
            ok(
                judged.verdicts.length === 1 &&
                    text.includes(judged.verdicts[0].headline) &&
                    text.includes(judged.verdicts[0].interval),
                "the page says what the API says",
            );
            ok((await page.locator(".firing").innerText()).includes("cart.encode of checkout takes 39 %"), "alerts");
            const link = new URL(await card.getByRole("link", {name: "Compare"}).getAttribute("href"), page.url());
            ok(
                /^\d+$/.test(link.searchParams.get("from")) && link.searchParams.get("base_query").includes("1.4.0"),
                link.href,
            );
        },
    );
    await settled(page);
    await t.shot(page, "home");
    await t.axe(page, "home");
    await t.clean(page, "home");
    await t.check(
        "the page of a function: cost, trend by version, callers, lines, and a rule for an alert",
        async () => {
            await page.goto(`${t.url}/function?fn=example.com%2Fshop%2Fcart.encode&${checkout}&from=now-2h`);
            await page.waitForFunction(
                () =>
                    /func encode\(\)/.test(document.body.innerText) &&
                    document.querySelectorAll(".flame-box").length === 2,
            );
            const text = (await page.locator("#main").innerText()).replace(/\s+/g, " ");
            ok(
                /samples at 100 Hz/.test(text) &&
                    /rank by total \d+ of \d+ rank by self \d+ of \d+/.test(text) &&
                    /first seen in 1\.4\.0/.test(text) &&
                    /1\.5\.0/.test(text),
                text.slice(0, 900),
            );
            await page.getByRole("button", {name: "Alert on this"}).click();
            equal(
                await page.getByRole("dialog").getByLabel("function").inputValue(),
                "example\\.com/shop/cart\\.encode",
                "of the function",
            );
            await page.getByRole("dialog").getByRole("button", {name: "Close"}).click();
        },
    );
    await t.check("settings: time zone and sizes change what is shown, and stay", async () => {
        const own = await t.page({timezoneId: "Asia/Tokyo"}),
            at = Math.floor(t.sent / 1000) - 7200,
            text = (hours) => new Date(at * 1000 + hours * 3600e3).toISOString().slice(11, 19);
        const range = () => own.getByRole("button", {name: /time range/}).innerText();
        const url =
            `${t.url}/explore?query=${encodeURIComponent('heap{service.name="checkout"}')}&from=` +
            `${at}&to=${at + 7200}`;
        await own.goto(url);
        await drawn(own);
        ok((await range()).includes(text(9)), `${await range()} in Tokyo`);
        const total = async () => (await own.locator(".toolbar .total").innerText()).match(/[\d.]+ [kKM]i?B/)[0],
            decimal = await total();
        await own.getByRole("link", {name: "settings"}).click();
        await own.getByRole("button", {name: "UTC"}).click();
        await own.getByRole("button", {name: /^MiB/}).click();
        await own.getByText("1.40 GiB").waitFor();
        await t.axe(own, "settings");
        await t.shot(own, "settings");
        await own.goto(url);
        await drawn(own);
        ok((await range()).includes(text(0)), `${await range()} in UTC`);
        const binary = await total();
        ok(
            binary.endsWith("MiB") &&
                Math.abs(parseFloat(binary) * 1.048576 - parseFloat(decimal)) < 0.02 * parseFloat(decimal),
            `${decimal} are ${binary}`,
        );
        await t.clean(own, "settings");
    });
    await t.check(
        "alerts: a rule is tried, added, edited and deleted in the page, and the server keeps it",
        async () => {
            const alerts = await t.page({expected: [/status of 400/]}),
                dialog = alerts.getByRole("dialog"),
                kept = async () => (await (await alerts.request.get(`${t.url}/api/v1/alerts/rules`)).json()).rules;
            const field = (name) => dialog.getByRole("textbox", {name, exact: true}),
                row = (text) => alerts.getByRole("row", {name: new RegExp(text)});
            await alerts.goto(`${t.url}/alerts`);
            await alerts.getByRole("button", {name: "Add a rule"}).click();
            await field("name").fill("encode is dear");
            await field("selector").fill('cpu{service.name="checkout"}');
            await field("function").fill(".*cart\\.encode");
            await field("limit").fill("lots");
            await dialog.getByRole("button", {name: "Save"}).click();
            await dialog.getByText("'lots' is not a limit for cpu, such as 20% or 1.5 cores").waitFor();
            await field("limit").fill("1%");
            await field("looks at the last").fill("2h");
            await dialog.getByRole("button", {name: "Try it"}).click();
            await dialog.getByText("would fire").waitFor();
            equal(await kept(), [], "what was only tried");
            await t.axe(alerts, "a new rule");
            await t.shot(alerts, "rule");
            await dialog.getByRole("button", {name: "Save"}).click();
            await row("encode is dear").waitFor();
            const [rule] = await kept();
            equal(
                {...rule, id: ""},
                {
                    id: "",
                    name: "encode is dear",
                    type: "threshold",
                    selector: 'cpu{service.name="checkout"}',
                    function: ".*cart\\.encode",
                    over: "1%",
                    window: "2h",
                },
                "what is kept",
            );
            await row("encode is dear").getByRole("button", {name: "Edit"}).click();
            equal(await field("limit").inputValue(), "1%", "the limit as it was written");
            await field("limit").fill("99%");
            await dialog.getByRole("button", {name: "Try it"}).click();
            await dialog.getByText("quiet").waitFor();
            await dialog.getByRole("button", {name: "Save"}).click();
            await dialog.waitFor({state: "detached"});
            equal((await kept())[0].over, "99%", "after the edit");
            await row("encode is dear").getByRole("button", {name: "Edit"}).click();
            await dialog.getByRole("button", {name: "Delete"}).click();
            await dialog.waitFor({state: "detached"});
            await row("encode is dear").waitFor({state: "detached"});
            equal(await kept(), [], "after it was deleted");
            await t.axe(alerts, "alerts with rules");
            await t.clean(alerts, "alerts");
        },
    );
    await t.shot(page, "function");
    await t.axe(page, "function");
    await t.check("labels: a chart per value, two are compared", async () => {
        await page.goto(`${t.url}/explore?view=labels&${checkout}&from=now-2h&by=service.version`);
        await page.getByRole("checkbox", {name: "compare 1.4.0"}).check();
        await page.getByRole("checkbox", {name: "compare 1.5.0"}).check();
        await page.getByRole("link", {name: "Compare 1.4.0 with 1.5.0"}).click();
        await drawn(page);
        ok(param(page, "base_query").includes("1.4.0") && param(page, "query").includes("1.5.0"), page.url());
    });
    await t.check("labels: several at once, any attribute, and two combinations are compared", async () => {
        const until = Math.floor(Date.now() / 1000) - 120;
        for (const [region, route, n] of [
            ["eu", "/pay", 60],
            ["eu", "/cart", 30],
            ["us", "/pay", 10],
        ]) {
            const sent = await page.request.post(
                `${t.url}/ingest?name=` +
                    `${encodeURIComponent(`routed{region=${region},route=${route},trace_id=t${n}}`)}&from=` +
                    `${until - 10}&until=${until}&format=folded&sampleRate=100&units=samples`,
                {data: `main;serve${route} ${n}\n`, headers: {"content-type": "text/plain"}},
            );
            ok(sent.ok(), await sent.text());
        }
        const cells = async () =>
            (await page.locator(".cell").allInnerTexts()).map((x) => x.replace(/\s+/g, " ").trim());
        await page.goto(
            `${t.url}/explore?view=labels&query=${encodeURIComponent('cpu{service.name="routed"}')}` +
                "&from=now-2h&by=service.name",
        );
        await page.locator(".cell").first().waitFor();
        const toggle = (name) => page.getByRole("button", {name, exact: true}).click();
        await toggle("region");
        await toggle("service.name");
        await page.getByRole("combobox", {name: "another label"}).fill("trace");
        await page.getByRole("option", {name: "trace_id", exact: true}).click();
        await page.getByText("eu · t60").waitFor();
        equal(
            (await cells()).map((x) => x.split(" ").slice(0, 3).join(" ")),
            ["eu · t60", "eu · t30", "us · t10"],
        );
        await toggle("trace_id");
        await toggle("route");
        await page.getByText("eu · /pay").waitFor();
        equal(
            await cells(),
            ["eu · /pay 0.060 cores · 60 %", "eu · /cart 0.030 cores · 30 %", "us · /pay 0.01 cores · 10 %"],
            "largest first",
        );
        await page.getByRole("checkbox", {name: "compare eu · /pay"}).check();
        await page.getByRole("checkbox", {name: "compare us · /pay"}).check();
        await t.axe(page, "labels");
        await page.getByRole("link", {name: "Compare eu · /pay with us · /pay"}).click();
        await drawn(page);
        ok(
            /0\.060 cores → 0\.010? cores/.test(await page.locator(".diff-head").innerText()),
            await page.locator(".diff-head").innerText(),
        );
    });
    await t.check("Explain: a finding leads to its frame", async () => {
        await page.goto(`${t.url}/explore?${checkout}&from=now-2h`);
        await drawn(page);
        await page.getByRole("button", {name: "Explain"}).click();
        await page.getByText("Encoding takes 39 % of the CPU time.").waitFor();
        await page
            .getByRole("complementary", {name: "findings"})
            .locator("li")
            .getByRole("button", {name: /cart\.encode/})
            .click();
        await page.waitForFunction(
            () => document.querySelector(".details-name")?.innerText === "example.com/shop/cart.encode",
        );
    });
    await t.axe(page, "explain");
    await t.check("a sentence above every graph says what dominates; its function is marked by a click", async () => {
        const asked = await (await page.request.get(`${t.url}/api/v1/explain?${checkout}&from=now-2h`)).json();
        ok(asked.facts.length > 0 && asked.facts.some((f) => f.function), JSON.stringify(asked));
        for (const view of ["", "&view=table", "&view=graph", "&view=sandwich"]) {
            await page.goto(`${t.url}/explore?${checkout}&from=now-2h${view}`);
            const line = page.locator(".headline");
            await line.locator("span").first().waitFor();
            ok((await line.innerText()).replace(/\s+/g, " ").includes("of the CPU time"), await line.innerText());
            equal((await line.boundingBox()).height, 24);
        }
        await page.goto(`${t.url}/explore?${checkout}&from=now-2h`);
        await drawn(page);
        await page.locator(".headline button").first().click();
        await page.waitForFunction(
            (names) => names.includes(new URL(location).searchParams.get("sel")),
            asked.facts.map((f) => f.function),
        );
    });
    await t.check("spans: a name, its heat map, and what a dragged part did differently", async () => {
        await page.goto(`${t.url}/spans`);
        await page.locator("tbody tr", {hasText: "POST /checkout"}).click();
        const map = page.locator(".heatmap canvas");
        await map.waitFor();
        await drawn(page);
        const box = await map.boundingBox(),
            x = (s) => box.x + 64 + ((box.width - 64) * (s + 0.5)) / 60,
            y = (r) => box.y + 202 * (1 - (r + 0.5) / 24);
        const before = page.spanFlames.length;
        await page.mouse.move(x(42), y(14));
        await page.mouse.down();
        await page.mouse.move(x(58), y(19), {steps: 4});
        await page.mouse.up();
        await page.waitForFunction(() => document.querySelector(".flame-box")?.wickEngine.layout.tree.columns === 2);
        equal(param(page, "sel"), "42-58_14-19");
        const asked = page.spanFlames.slice(before).at(-1);
        equal(
            [asked.get("against"), asked.get("min_duration"), asked.get("max_duration")],
            ["rest", `${Math.round(1e6 * 1.4 ** 14)}ns`, `${Math.round(1e6 * 1.4 ** 20)}ns`],
        );
        equal(Number(BigInt(asked.get("span_to")) - BigInt(asked.get("span_from"))), 17 * 60e9, "17 steps of a minute");
        ok(
            (await page.locator(".toolbar .total").innerText()).includes("against all others of this name"),
            "what is shown is said",
        );
    });
    await t.check("spans: the menu of a frame has what works here, and leads to the service", async () => {
        for (const [entry, path] of [
            ["Callers and callees", "explore"],
            ["Page of this function", "function"],
        ]) {
            const {name, item} = await frameMenu(page);
            equal(await item(/stacks with this|Hide this frame/).allInnerTexts(), [], "entries without effect");
            await item(entry).click();
            await page.waitForFunction((p) => location.pathname.endsWith("/" + p), path);
            equal([param(page, "query"), param(page, "fn")], ['cpu{service.name="checkout"}', name]);
            await page.locator(".flame-box").first().waitFor();
            await page.goBack();
            await drawn(page);
        }
        const {item} = await frameMenu(page);
        await item("Highlight").click();
        await page.waitForFunction(() => /%/.test(document.querySelector(".search-found").textContent));
        await page.locator("#search").focus();
        await page.keyboard.press("Escape");
        await page.waitForFunction(() => !new URL(location).searchParams.get("search"));
    });
    await settled(page);
    await t.shot(page, "spans");
    await t.axe(page, "spans");
    await t.check("alerts: what fires, with a link that stays on this server", async () => {
        await page.goto(`${t.url}/alerts`);
        const link = page.getByRole("link", {name: /takes 39 %/});
        await link.waitFor();
        equal(await link.getAttribute("href"), "/compare?query=cpu");
    });
    await t.axe(page, "alerts");
    await t.clean(page, "pages");
}
