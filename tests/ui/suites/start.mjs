// SPDX-License-Identifier: Apache-2.0
// Start, with data: a live picture that says how much of it has names, a service that arrives while one looks, and the
// words of an agent that may not run.
import {drawn, equal, ok, settled} from "../lib.mjs";

export default async function (t) {
    const page = await t.page();
    await page.goto(t.url + "/start");
    await page.locator(".card pre").first().waitFor();
    await t.check("per language, with the real endpoint", async () => {
        const status = await (await page.request.get(t.url + "/api/v1/status")).json();
        const endpoints = [status.otlp.grpc, status.otlp.http, new URL(t.url).host].filter(Boolean);
        for (const language of ["Go", "C, C++", "Python", "Java", "Node", "OTLP", "Any program"]) {
            await page.getByRole("button", {name: language, exact: true}).click();
            const text = await page.locator(".card").first().locator("pre").innerText();
            ok(
                endpoints.some((e) => text.includes(e)),
                `${language}: ${text}`,
            );
        }
    });
    await t.check("local programs are looked for when asked, and profiled when chosen", async () => {
        let scraped = false;
        const calls = [];
        await page.route("**/api/v1/scrape**", async (route) => {
            const url = new URL(route.request().url());
            calls.push(route.request().method() + " " + url.pathname + url.search);
            scraped ||= url.searchParams.has("url");
            await route.fulfill({
                json: url.pathname.endsWith("/find")
                    ? [{url: "http://localhost:8080", program: "webserver", scraped}]
                    : {url: "http://localhost:8080"},
            });
        });
        await page.getByRole("button", {name: "Go", exact: true}).click();
        await page.getByRole("button", {name: "Find programs with /debug/pprof/ on this machine"}).click();
        await page.getByRole("button", {name: "profile webserver"}).click();
        await page.getByText("is profiled").waitFor();
        equal(calls, [
            "POST /api/v1/scrape/find",
            "POST /api/v1/scrape?url=http://localhost:8080",
            "POST /api/v1/scrape/find",
        ]);
        await page.getByRole("button", {name: "Any program", exact: true}).click();
    });
    await t.check("a service that arrives is told", async () => {
        ok((await page.locator(".card").first().innerText()).includes("waiting for a new service"), "waits");
        const name = "newcomer-" + Date.now();
        const from = Math.floor(Date.now() / 1000) - 1;
        const body = `main;work ${7}\nmain;idle ${3}\n`;
        const r = await page.request.post(
            `${t.url}/ingest?name=${name}&from=${from}&until=${from + 1}&format=folded&sampleRate=100&units=samples`,
            {data: body, headers: {"content-type": "text/plain"}},
        );
        ok(r.ok(), `${r.status()} ${await r.text()}`);
        await page.waitForFunction((n) => document.querySelector(".got")?.innerText.includes(n), name);
    });
    await t.check("the live flame graph, and how much of it is named", async () => {
        await drawn(page, ".live");
        const text = await page.locator(".live-head").innerText();
        ok(/[\d.]+ % of frames named/.test(text) && /cores/.test(text), text);
    });
    await t.shot(page, "start-received");
    await t.clean(page, "start");

    const other = await t.page();
    const reason = "sampling other processes requires CAP_BPF and CAP_PERFMON: run it as root; see also 'wick doctor'";
    await t.check("an agent without rights: its words, and the command that helps", async () => {
        await other.route("**/api/v1/status", async (route) => {
            const r = await route.fetch();
            await route.fulfill({
                response: r,
                json: {...(await r.json()), agent: {state: "failed", reason, fix: "sudo wick serve"}},
            });
        });
        await other.route("**/api/v1/flame?*", async (route) =>
            route.continue({
                url: route
                    .request()
                    .url()
                    .replace(/from=[^&]*/, "from=now-1s"),
            }),
        );
        await other.goto(t.url + "/start");
        await other.locator(".agent-note").waitFor();
        const text = await other.locator(".agent-note").innerText();
        ok(/This host's agent cannot run/.test(text) && /CAP_BPF/.test(text) && /sudo wick serve/.test(text), text);
        equal(
            await other.locator(".agent-note p code").allInnerTexts(),
            ["CAP_BPF", "CAP_PERFMON", "wick doctor"],
            "what is to be typed",
        );
    });
    await settled(other);
    await t.shot(other, "no-rights");
    await t.axe(other, "no rights");
}
