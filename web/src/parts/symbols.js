// SPDX-License-Identifier: Apache-2.0
// The table of binaries: which have symbols, and how to get those that are missing.
import {duration, number, percent} from "../lib/units.js";

// A number, or a dash where there is none.
export const orDash = (v, f = number) =>
    v === undefined || v === null || v === "" ? <span class="muted">–</span> : f(Number(v));

const named = (b) => {
    if (b.self > 0) return b.selfNamed / b.self;
    if (b.frames > 0) return b.named / b.frames;
    return 1;
};

const statusWords = {
    named: "named",
    partial: "some frames named",
    missing: "no names",
    unnamed: "no names",
    kernel: "kernel",
    waiting: "being looked up",
};

// A command, and an explanation: "wick symbols upload BINARY (or …)".
function Fix({text}) {
    const [, command, rest] = text.match(/^((?:sudo |wick |apt|dnf|export )[^(]*?)\s*(\(.*)?$/s) ?? [];
    return command ? (
        <>
            <code>{command}</code> <span class="muted">{rest}</span>
        </>
    ) : (
        text
    );
}

export const symbolColumns = [
    {
        key: "mapping",
        title: "binary",
        value: (b) => b.mapping ?? "",
        cls: "wide",
        show: (b) => (
            <span class="fn" title={b.mapping}>
                {b.mapping || "(unknown)"}
                {b.kind ? (
                    <>
                        {" "}
                        <span class="badge">{b.kind}</span>
                    </>
                ) : (
                    ""
                )}
            </span>
        ),
    },
    {
        key: "buildId",
        title: "build id",
        value: (b) => b.buildId ?? "",
        show: (b) => (b.buildId ? <code title={b.buildId}>{b.buildId.slice(0, 12)}</code> : orDash()),
    },
    {key: "self", title: "CPU", num: true, value: (b) => b.self ?? 0, show: (b) => orDash(b.self, duration)},
    {key: "frames", title: "frames", num: true, value: (b) => b.frames, show: (b) => number(b.frames)},
    {
        key: "named",
        title: "named",
        num: true,
        value: named,
        show: (b) => <span class={named(b) < 0.95 ? "more" : ""}>{percent(named(b), 1)}</span>,
    },
    {
        key: "status",
        title: "status",
        value: (b) => b.status,
        show: (b) => <span title={b.reason}>{statusWords[b.status] ?? b.status}</span>,
    },
    {
        key: "fix",
        title: "how to get names",
        cls: "fix",
        show: (b) =>
            b.fix ? (
                <span title={[b.reason, b.fix].filter(Boolean).join("\n")}>
                    <Fix text={b.fix} />
                </span>
            ) : (
                <span class="muted">{b.reason || "–"}</span>
            ),
    },
];
