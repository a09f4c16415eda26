// SPDX-License-Identifier: Apache-2.0
// A server with tokens: the login form in place, a cookie that scripts cannot read, a right that is missing.
import {equal, headFits, ok, settled} from "../lib.mjs";

export default async function (t) {
    const expected = [/status of 40[13]/];
    const page = await t.page({expected});
    const enter = async (p, token) => {
        await p.getByLabel("Token").fill(token);
        await p.getByRole("button", {name: "Log in"}).click();
        await settled(p);
    };
    await t.check("a link asks for the token first and then shows what it led to", async () => {
        await page.goto(t.url + "/explore?from=now-3h");
        await page.getByLabel("Token").waitFor();
        await t.shot(page, "login");
        await enter(page, "wick_wrong");
        ok((await page.getByRole("alert").innerText()).includes("unknown token"), "the error message");
        await enter(page, t.read);
        await page.getByLabel("Token").waitFor({state: "hidden"});
        ok(page.url().includes("/explore?from=now-3h"), page.url());
    });
    await t.axe(page, "logged in");
    await t.check("the cookie is for the server alone", async () => {
        const [cookie] = await page.context().cookies();
        equal([cookie.httpOnly, cookie.sameSite, cookie.name], [true, "Strict", "wick_session"]);
        equal(await page.evaluate(() => document.cookie), "");
    });
    await t.check("it stays over a reload", async () => {
        await page.reload();
        await settled(page);
        equal(await page.getByLabel("Token").count(), 0);
    });
    await t.check("the way out fits a narrow screen, and leads out", async () => {
        const wide = page.viewportSize();
        await page.setViewportSize({width: 375, height: 800});
        await headFits(page);
        await t.shot(page, "login-narrow");
        await page.setViewportSize(wide);
        await page.getByRole("button", {name: "Log out"}).click();
        await page.getByLabel("Token").waitFor();
    });
    await t.clean(page, "login");
    const writer = await t.page({expected});
    await t.check("a token that may only send is told so", async () => {
        await writer.goto(t.url + "/explore");
        await writer.getByLabel("Token").waitFor();
        await enter(writer, t.write);
        await writer.waitForFunction(() => document.body.innerText.includes("does not allow"));
        await t.shot(writer, "no-permission");
    });
}
