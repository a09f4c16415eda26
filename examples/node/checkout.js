// SPDX-License-Identifier: Apache-2.0
// A service that prices orders. The host agent samples it as it is. By itself it sends what V8's own profiler sees, as folded stacks:
//
//     WICK_URL=http://localhost:4040 node checkout.js
const inspector = require("node:inspector");

const WICK = process.env.WICK_URL;
const EVERY = 1000 * Number(process.env.WICK_EVERY ?? 10);
const MICROSECONDS = 10000;

function priceItem(n) {
    let total = 0;
    for (let i = 0; i < 40 * n; i++) total = (total * 31 + i) % 1000003;
    return total;
}

function encodeOrder(items) {
    return JSON.stringify({ items });
}

function handleOrder(n) {
    return encodeOrder(Array.from({ length: 20 }, () => priceItem(2000 + (n % 7))));
}

function serveOrders(n = 0) {
    handleOrder(n);
    setTimeout(serveOrders, 5, n + 1);
}

/** Samples by stack; idle time is left out. */
function folded(profile) {
    const nodes = new Map(profile.nodes.map((n) => [n.id, n]));
    const parents = new Map(profile.nodes.flatMap((n) => (n.children ?? []).map((c) => [c, n.id])));
    const counts = new Map();
    for (const id of profile.samples) {
        const names = [];
        for (let at = id; at; at = parents.get(at)) names.unshift(nodes.get(at).callFrame.functionName || "(anonymous)");
        if (names.at(-1) === "(idle)") continue;
        const stack = names.slice(1).join(";");
        counts.set(stack, (counts.get(stack) ?? 0) + 1);
    }
    return [...counts].map(([stack, n]) => `${stack} ${n}\n`).join("");
}

function profileAndSend() {
    const session = new inspector.Session();
    const ask = (method, params) => new Promise((done, no) => session.post(method, params, (e, r) => (e ? no(e) : done(r))));
    const seconds = () => Math.round(Date.now() / 1000);
    session.connect();

    async function round() {
        const from = seconds();
        await ask("Profiler.start");
        await new Promise((done) => setTimeout(done, EVERY));
        const { profile } = await ask("Profiler.stop");
        const more = `format=folded&units=samples&sampleRate=${1e6 / MICROSECONDS}&from=${from}&until=${seconds()}`;
        await fetch(`${WICK}/ingest?name=checkout-node&${more}`, { method: "POST", body: folded(profile) }).catch((e) =>
            console.error(`not sent: ${e.cause ?? e}`),
        );
        round();
    }
    ask("Profiler.enable")
        .then(() => ask("Profiler.setSamplingInterval", { interval: MICROSECONDS }))
        .then(round);
}

if (WICK) profileAndSend();
serveOrders();
