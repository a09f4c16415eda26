// SPDX-License-Identifier: Apache-2.0
// A table of services: the values of each over time, its version, and what it costs.
import {coverageOf} from "../lib/api.js";
import {shortVersion} from "../lib/names.js";
import {serviceQuery} from "../lib/selector.js";
import {seconds, settledNow} from "../lib/time.js";
import {clock, cost, digitsOf, moment, percent, rate, samplesOf} from "../lib/units.js";
import {href, patch} from "../lib/url.js";
import {Spark} from "./chart.js";
import {Bar, sortArrow, sortWord} from "./table.js";

const types = [
    ["cpu", "CPU"],
    ["alloc", "allocation"],
    ["heap", "heap"],
    ["lock", "locks"],
    ["offcpu", "off-CPU"],
];

// ns: the time that the value is spread over, if it is not what the profiles of the service cover.
function Trend({type, of, unit, ns}) {
    if (!of || !(of.total > 0)) return <span class="muted">–</span>;
    const value = type === "heap" ? (of.values.findLast((v) => v != null) ?? 0) : of.total; // what is in use now
    return (
        <span class="trend">
            <Spark
                values={of.values}
                width={72}
                height={24}
                color={types.findIndex((t) => t[0] === type)}
                label={`${type} over time`}
            />
            <span class="num">{rate(value, unit, type, ns ?? of.ns)}</span>
        </span>
    );
}

// The version that runs, and the deploy that brought it, with a link that compares it with the one before.
function Versions({list, name, range}) {
    const last = list?.find((d) => d.latest && d.version);
    if (!last) return <span class="muted">–</span>;
    const at = Number(last.since) / 1e6,
        ends = {from: seconds(range.fromMs), to: seconds(range.live ? settledNow() : range.toMs)};
    const link =
        last.deployed &&
        href("compare", {
            query: serviceQuery("cpu", name, {name: "service.version", op: "=", value: last.version}),
            base_query: serviceQuery("cpu", name, {name: "service.version", op: "=", value: last.previous}),
            ...ends,
            base_from: ends.from,
            base_to: ends.to,
        });
    return (
        <span>
            <span class="badge" title={last.version}>
                {shortVersion(last.version)}
            </span>{" "}
            {link ? (
                <a
                    class="small-link"
                    title={
                        `${shortVersion(last.previous)} → ${shortVersion(last.version)}, since ${clock(at)}: ` +
                        "compare the two"
                    }
                    href={link}
                >
                    {Number(last.first) < Number(last.since) ? "back" : "deployed"} {moment(at)}
                </a>
            ) : (
                ""
            )}
        </span>
    );
}

/** @type {{[column: string]: (of: any) => (a: any, b: any) => number}} */
const orders = {
    name: (of) => (a, b) => a.name.localeCompare(b.name),
    ...Object.fromEntries(
        types.map(([t]) => [
            t,
            (of) => (a, b) =>
                (of.maps[t].get(b.name)?.total ?? 0) - (of.maps[t].get(a.name)?.total ?? 0) ||
                a.name.localeCompare(b.name),
        ]),
    ),
    version: (of) => (a, b) => since(of, b.name) - since(of, a.name) || a.name.localeCompare(b.name),
};

const since = (of, name) => Number(of.versions.get(name)?.find((d) => d.latest)?.since ?? 0);

/** @param {{title: string, by: string, p: any, num?: boolean, plain?: boolean}} props */
function Head({title, by, p, num, plain}) {
    const mine = !plain && (p.sort || "cpu") === by;
    return (
        <th scope="col" class={num ? "num" : ""} aria-sort={mine ? sortWord(by === "name") : undefined}>
            <button class="head" onClick={() => patch({sort: by === "cpu" ? "" : by}, {replace: true})}>
                {title}
                <span aria-hidden="true">{mine && sortArrow(by === "name")}</span>
            </button>
        </th>
    );
}

/** @param {{services: any[], of: any, caption: string, none?: string}} props */
export function Rows({services, of, caption, none}) {
    const {maps, versions, sets, range, whole, covered, status, p} = of;
    const shown = types.filter(([t]) => maps[t].size);
    const rows = [...services].sort((orders[p.sort] ?? orders.cpu)(of));
    const price = status?.pricePerCoreHour;
    return (
        <div class="panel scroll-x" tabindex={0} role="region" aria-label={caption}>
            <table class="trends">
                <caption class="sr">{caption}</caption>
                <thead>
                    <tr>
                        <Head title="service" by="name" p={p} />
                        <Head title="share of CPU" by="cpu" p={p} num />
                        {shown.map(([t, title]) => (
                            <Head key={t} title={title} by={t} p={p} plain={t === "cpu"} />
                        ))}
                        <Head title="version" by="version" p={p} />
                        {price ? (
                            <th scope="col" class="num">
                                cost
                            </th>
                        ) : (
                            ""
                        )}
                    </tr>
                </thead>
                <tbody>
                    {rows.map((s) => {
                        const c = maps.cpu.get(s.name),
                            n = samplesOf(c?.total ?? 0, "nanoseconds", coverageOf(sets.cpu.data).rate);
                        return (
                            <tr key={s.name}>
                                <th scope="row" title={s.name}>
                                    <a
                                        href={href("explore", {
                                            query: serviceQuery(s.types.includes("cpu") ? "cpu" : s.types[0], s.name),
                                            from: p.from,
                                            to: p.to,
                                        })}
                                    >
                                        {s.name || "(unnamed)"}
                                    </a>
                                </th>
                                <td class="num" title={n !== undefined ? `${Math.round(n)} samples` : undefined}>
                                    {c && whole ? (
                                        <Bar share={c.total / whole}>
                                            {percent(c.total / whole, undefined, digitsOf(n))}
                                        </Bar>
                                    ) : (
                                        "–"
                                    )}
                                </td>
                                {shown.map(([t]) => (
                                    <td>
                                        <a
                                            class="plain"
                                            tabindex={-1}
                                            href={href("explore", {
                                                query: serviceQuery(t, s.name),
                                                from: p.from,
                                                to: p.to,
                                            })}
                                        >
                                            <Trend
                                                type={t}
                                                of={maps[t].get(s.name)}
                                                unit={sets[t].data?.unit}
                                                ns={t === "cpu" ? covered : undefined}
                                            />
                                        </a>
                                    </td>
                                ))}
                                <td class="rest">
                                    <Versions list={versions.get(s.name)} name={s.name} range={range} />
                                </td>
                                {price ? <td class="num">{c ? cost(c.total, "cpu", covered, status) : ""}</td> : ""}
                            </tr>
                        );
                    })}
                </tbody>
            </table>
            {!rows.length && none ? <p class="muted foot">{none}</p> : ""}
        </div>
    );
}
