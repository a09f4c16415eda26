// SPDX-License-Identifier: Apache-2.0
// The instructions of a function with the weight of each. The server has the text if it can read the binary;
// otherwise the addresses that were sampled are listed, with the reason and the command that shows their code.
import {useMemo} from "preact/hooks";
import {apiUrl, coverageOf, useData} from "../lib/api.js";
import {amount, digitsOf, percent, samplesOf} from "../lib/units.js";

const SHOWN = 400,
    AROUND = 6;

export function Assembly({p, q}) {
    const focus = `^${p.fn.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")}$`;
    const flame = useData(apiUrl("flame", {...q, by: "address", focus, max_nodes: 3000}));
    const found = useMemo(() => flame.data && addressesOf(flame.data, p.fn), [flame.data, p.fn]);
    const code = useData(
        found?.buildId
            ? apiUrl("code", {
                  build_id: found.buildId,
                  file: found.binary,
                  address: hex(found.hot),
                  end: hex(found.high + 16n),
                  missing: "ok",
              })
            : null,
    );
    if (!found?.rows.size) return "";
    const lines = listing(found, code.data),
        cover = coverageOf(flame.data),
        digits = (v) => digitsOf(samplesOf(v, flame.data.unit, cover.rate));
    const listed = !code.loading && code.data?.instructions.length > 0;
    return (
        <section class="panel" aria-label="assembly">
            <h2>
                Assembly <span class="muted fn">{found.binary}</span>
            </h2>
            <p class="muted foot">
                {code.loading && "Reading the binary…"}
                {listed &&
                    `${code.data.symbol || "code"}, ${hex(BigInt(code.data.start))}–` +
                        `${hex(BigInt(code.data.end))}${code.data.truncated ? ", its first 64 KiB" : ""}`}
                {!code.loading && !listed && (
                    <>
                        Without its code:{" "}
                        {code.data?.reason ?? code.error?.message ?? "the profiles do not name the binary"}.{" "}
                        <code>
                            objdump -dlC --start-address={hex(found.low)} --stop-address={hex(found.high + 16n)}{" "}
                            {found.binary}
                        </code>
                    </>
                )}
            </p>
            <div class="assembly" tabindex={0} role="region" aria-label="instructions">
                <table class="code">
                    <caption class="sr">weight per instruction</caption>
                    <thead>
                        <tr>
                            <th scope="col" class="num">
                                self
                            </th>
                            <th scope="col" class="num">
                                %
                            </th>
                            <th scope="col" class="num">
                                address
                            </th>
                            <th scope="col">instruction</th>
                        </tr>
                    </thead>
                    <tbody>
                        {lines.map((l) => {
                            if (l.place)
                                return (
                                    <tr class="place" key={l.key}>
                                        <td />
                                        <td />
                                        <td />
                                        <td>{l.place}</td>
                                    </tr>
                                );
                            if (l.gap)
                                return (
                                    <tr class="place" key={l.key}>
                                        <td />
                                        <td />
                                        <td />
                                        <td>… {l.gap} instructions without samples</td>
                                    </tr>
                                );
                            return (
                                <tr key={l.address} class={l.self ? "" : "cold"}>
                                    <td class="num">
                                        {l.self ? amount(l.self, flame.data.unit, flame.data.type, digits(l.self)) : ""}
                                    </td>
                                    <td class="num">
                                        <span
                                            class="heat"
                                            style={{
                                                opacity: l.self ? Math.min(1, 0.15 + (l.self / found.self) * 1.5) : 0,
                                            }}
                                        />
                                        {l.self ? percent(l.self / found.self, undefined, digits(l.self)) : ""}
                                    </td>
                                    <td class="num muted">{l.address}</td>
                                    <td>
                                        <pre>{colored(l.text)}</pre>
                                    </td>
                                </tr>
                            );
                        })}
                    </tbody>
                </table>
            </div>
        </section>
    );
}

const hex = (a) => "0x" + a.toString(16);

// t: a tree by address, as JSON. Of several binaries the one with the most weight counts.
function addressesOf(t, fn) {
    const binaries = new Map();
    for (const [, frame, own] of t.nodes) {
        const f = t.frames[frame];
        if (!f || f.function !== fn || !f.address || !(own > 0)) continue;
        const key = `${f.buildId} ${f.mapping}`,
            b = binaries.get(key) ?? {rows: new Map(), self: 0, binary: f.mapping ?? "", buildId: f.buildId ?? ""};
        const address = hex(BigInt(f.address)),
            row = b.rows.get(address) ?? {self: 0, line: f.line, file: f.file};
        row.self += own;
        b.self += own;
        b.rows.set(address, row);
        binaries.set(key, b);
    }
    const best = [...binaries.values()].sort((a, b) => b.self - a.self)[0];
    if (!best) return null;
    const all = [...best.rows.keys()].map(BigInt),
        by = (f) => all.reduce((a, b) => (f(b, a) ? b : a));
    return {
        ...best,
        low: by((a, b) => a < b),
        high: by((a, b) => a > b),
        hot: BigInt([...best.rows].reduce((a, b) => (b[1].self > a[1].self ? b : a))[0]),
    };
}

const placeOf = (i) =>
    i.file
        ? `${i.file.slice(i.file.lastIndexOf("/") + 1)}:${i.line}${i.inlined ? `, ${i.inlined} (inlined)` : ""}`
        : "";

// Rows of the table: instructions, where they come from, and gaps: of a long function only what is near a sample
// is shown.
function listing(found, code) {
    const all = code?.instructions ?? [];
    if (!all.length)
        return [...found.rows]
            .sort((a, b) => (BigInt(a[0]) < BigInt(b[0]) ? -1 : 1))
            .slice(0, SHOWN)
            .map(([address, r]) => ({address, self: r.self, text: r.line ? `line ${r.line}` : ""}));
    const near = new Set();
    for (const [i, x] of all.entries())
        if (found.rows.has(x.address)) for (let k = i - AROUND; k <= i + AROUND; k++) near.add(k);
    const out = [];
    let place = "",
        gap = 0;
    for (const [i, x] of all.entries()) {
        if (all.length > SHOWN && !near.has(i)) {
            gap++;
            continue;
        }
        if (gap) out.push({gap, key: "gap" + x.address});
        gap = 0;
        const at = placeOf(x);
        if (at && at !== place) out.push({place: at, key: "at" + x.address});
        place = at || place;
        out.push({...x, self: found.rows.get(x.address)?.self ?? 0});
    }
    if (gap) out.push({gap, key: "end"});
    return out;
}

// The mnemonic, its operands, and the name of what is called.
function colored(text) {
    const [, op, rest, name] = text.match(/^(\S+)(.*?)(<.*>)?$/s) ?? [null, text, "", ""];
    return (
        <>
            <i class="code-k">{op}</i>
            {rest}
            {name ? <i class="code-n">{name}</i> : ""}
        </>
    );
}
