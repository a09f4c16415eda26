// SPDX-License-Identifier: Apache-2.0
// Refreshes what is on the page while its time range ends at now: one request every BEAT, the data that have waited
// longest first, within a budget of bytes. Where nothing is due, the server is asked for a sign of life, so that a dead
// server shows within ten seconds in every view. A hidden page asks nothing.
import {signal} from "@preact/signals";
import {useEffect, useState} from "preact/hooks";

const BEAT = 6700; // 9 requests a minute
const BYTES = 90e3; // a minute
const PATIENCE = 3000; // without an answer for this long the server counts as gone
const LOST = 60e3; // an answer that takes longer is not waited for

export const paused = signal(false);
// What is kept fresh: {ask, at, tried, busy, failed, bytes}; ask() resolves to the bytes that were transferred.
// at: when the data on the page were requested; tried: when they were last requested, with or without success.
const entries = new Set();
const spent = []; // [time, bytes] of the last minute
let probe = null; // asks for a sign of life
let timer = 0;

// bytes: that the last answer took; age: how old it was when it arrived; failed: it was an error.
export function keepFresh(ask, bytes = 0, age = 0, failed = false) {
    const at = Date.now() - age,
        entry = {ask, at, tried: at, busy: false, failed, bytes};
    entries.add(entry);
    return () => entries.delete(entry);
}

function affordable(entry, now) {
    while (spent.length && spent[0][0] < now - 60e3) spent.shift();
    const used = spent.reduce((sum, [, bytes]) => sum + bytes, 0);
    // An answer that is larger than the budget of a minute waits for as many minutes as it costs.
    return used + Math.min(entry.bytes, BYTES) <= BYTES && now - entry.tried >= (entry.bytes / BYTES) * 60e3;
}

function refresh(entry) {
    const asked = Date.now();
    Object.assign(entry, {tried: asked, busy: true});
    const done = (change) => entry.tried === asked && Object.assign(entry, {busy: false, ...change});
    return entry.ask().then(
        (bytes) => {
            spent.push([Date.now(), bytes]);
            done({at: asked, failed: false, bytes});
        },
        () => done({failed: true}),
    );
}

function beat() {
    timer = setTimeout(beat, BEAT);
    if (document.hidden) return;
    const now = Date.now();
    const due = paused.value
        ? []
        : [...entries]
              .filter((e) => now - e.tried >= (e.busy ? LOST : BEAT - 200) && affordable(e, now))
              .sort((a, b) => a.tried - b.tried);
    if (due.length) refresh(due[0]);
    else probe?.(PATIENCE);
}

// probe(patience): asks the server for a sign of life.
export function startLive(ask) {
    probe = ask;
    clearTimeout(timer);
    timer = setTimeout(beat, BEAT);
    document.addEventListener("visibilitychange", () => {
        if (document.hidden) return;
        clearTimeout(timer);
        beat();
    });
}

export function setPaused(value) {
    paused.value = value;
    if (value) return;
    clearTimeout(timer);
    beat();
}

// Of the data on the page that are kept fresh: {ms since the oldest were requested, failed}; if the last try of
// some failed, of these. Null where nothing is kept fresh. Renders the component again every second.
export function useAge() {
    const [, again] = useState(0);
    useEffect(() => {
        const every = setInterval(() => again((n) => n + 1), 1000);
        return () => clearInterval(every);
    }, []);
    const bad = [...entries].filter((e) => e.failed),
        of = bad.length ? bad : [...entries];
    return of.length ? {ms: Date.now() - Math.min(...of.map((e) => e.at)), failed: bad.length > 0} : null;
}
