// SPDX-License-Identifier: Apache-2.0
// Services: what matters first. The biggest consumers and what changed most, then services by CPU with trends and
// versions; programs that run for moments are folded.
import {useMemo} from "preact/hooks";
import {apiUrl, useData} from "../lib/api.js";
import {isBuildId, oneOf} from "../lib/names.js";
import {rangeOf, timeProblem} from "../lib/time.js";
import {cost, percent, perStep, rate, sum} from "../lib/units.js";
import {href, patch, route} from "../lib/url.js";
import {TimePicker, useTypes} from "../parts/bar.js";
import {bridged, complete} from "../parts/chart.js";
import {LiveState} from "../parts/livestate.js";
import {useStatus} from "../parts/shell.js";
import {Box, Loaded, Loading, Wrong} from "../parts/states.js";
import {Biggest, Changed} from "../parts/halves.js";
import {Rows} from "../parts/trends.js";

// Per service: its values over time, total and covered time of one type, and in how many steps it was seen.
function byService(data, live) {
    const out = new Map();
    if (!data) return out;
    const n = complete(data, live);
    for (const s of data.series) {
        const name = s.labels["service.name"] ?? "";
        const values = bridged(s.values.slice(0, n).map((v, i) => perStep(v, data.unit, data.type, s.coverage[i])));
        out.set(name, {values, total: sum(s.values), ns: sum(s.coverage), seen: s.values.filter((v) => v > 0).length});
    }
    return out;
}

// Programs of the system and shells, whatever else is known about them.
const system = new RegExp(
    `^(${oneOf`
        kernel$ kworker ksoftirqd kcompactd kswapd rcu_ migration systemd(-\w+)?$ init$ dbus-(daemon|broker)
        sshd?$ cron$ agetty login$ bash$ sh$ dash$ zsh$ sudo$ apt(-get)?$ dpkg ps$ ls$ grep$ sed$ awk$ cat$
        find$ git$ make$ ninja$ cc1(plus)?$ gcc$ g\+\+$ as$ ld$ clang rg$ top$ udevd polkitd rsyslogd
        unknown_service$`})`,
);

// A service is what keeps running: seen for at least half of the time that any program was seen, and not as
// processes that were too short to be identified, unless it uses much. What sends profiles of its own is one in any
// case, and what an SDK, a container or a pod has given a version that is not a build id.
const outside = ["cpu", "offcpu"]; // what is sampled of any program; also "cpu_also": a second source sends it
const MUCH = 0.05,
    NAMED = 0.01;

// shares of the CPU time: of what is not folded for that alone, and of what is named though folded
function isService({name, types}, cpu, deploys, {steps, whole}) {
    if (system.test(name)) return false;
    if (types.some((t) => !outside.includes(t))) return true;
    if (deploys?.some((d) => d.version && !isBuildId(d.version))) return true;
    if (!cpu) return true; // no CPU time: another type is sent on purpose
    if (cpu.seen < Math.max(1, steps / 2)) return false;
    const unidentified = deploys?.some((d) => !d.version) && deploys.some((d) => d.version);
    return !unidentified || cpu.total >= MUCH * whole;
}

const present = (list, type) => (list.data ?? []).some((s) => s.types.includes(type));

export function Services() {
    const p = route.value.params;
    const wrong = timeProblem(p);
    return wrong ? (
        <>
            <h1>Services</h1>
            <Wrong text={wrong} />
        </>
    ) : (
        <Page p={p} />
    );
}

function Page({p}) {
    const range = rangeOf(p),
        live = range.live;
    const at = {from: range.from, to: range.to};
    const status = useStatus().data;
    useTypes();
    const list = useData(apiUrl("services", at), {live});
    const series = (type) =>
        useData(
            type === "cpu" || present(list, type)
                ? apiUrl("series", {query: type, ...at, group_by: "service.name"})
                : null,
            {live},
        );
    const sets = {
        cpu: series("cpu"),
        alloc: series("alloc"),
        heap: series("heap"),
        lock: series("lock"),
        offcpu: series("offcpu"),
    };
    const deploys = useData(apiUrl("deploys", {query: "cpu", ...at}), {live});
    const maps = useMemo(
        () => Object.fromEntries(Object.entries(sets).map(([k, d]) => [k, byService(d.data, live)])),
        Object.values(sets).map((d) => d.data),
    );
    const versions = useMemo(
        () =>
            Map.groupBy
                ? Map.groupBy(deploys.data?.deploys ?? [], (d) => d.service)
                : grouped(deploys.data?.deploys ?? []),
        [deploys.data],
    );
    // All at once: rows that arrive later would move others.
    const ready =
        list.data &&
        [
            deploys,
            sets.cpu,
            ...Object.keys(sets)
                .filter((t) => present(list, t))
                .map((t) => sets[t]),
        ].every((d) => d.data || d.error);
    const whole = sum([...maps.cpu.values()].map((e) => e.total)),
        covered = sum(sets.cpu.data?.coverage ?? []);
    const steps = sets.cpu.data ? sets.cpu.data.coverage.filter((c) => c > 0).length : 0;
    return (
        <>
            <div class="bar">
                <h1>Services</h1>
                <span class="grow" />
                {whole > 0 && status && (
                    <span class="num total">
                        {[rate(whole, "nanoseconds", "cpu", covered), cost(whole, "cpu", covered, status)]
                            .filter(Boolean)
                            .join(" · ")}
                    </span>
                )}
                <input
                    class="filter"
                    type="search"
                    aria-label="filter services"
                    placeholder="filter services"
                    value={p.search ?? ""}
                    onInput={(e) => patch({search: e.currentTarget.value}, {replace: true})}
                />
                <LiveState range={range} />
                <TimePicker range={range} onPick={(r) => patch(r)} />
            </div>
            {!list.error && !ready ? (
                <Loading what="services" />
            ) : (
                <div class="services">
                    <div class="two">
                        <Biggest at={at} live={live} />
                        <Changed range={range} />
                    </div>
                    <Loaded
                        of={list}
                        what="services"
                        empty={(d) => !d.length}
                        nothing={
                            <Box title="No data received in this time range">
                                <p>
                                    <button onClick={() => patch({from: "now-7d", to: ""})}>
                                        Show the last 7 days
                                    </button>{" "}
                                    <a class="button main" href={href("start")}>
                                        How to send profiles
                                    </a>
                                </p>
                            </Box>
                        }
                    >
                        {(services) => (
                            <Lists
                                services={services}
                                of={{maps, versions, sets, range, whole, covered, status, p, steps}}
                            />
                        )}
                    </Loaded>
                </div>
            )}
        </>
    );
}

function grouped(list) {
    const out = new Map();
    for (const d of list) out.set(d.service, [...(out.get(d.service) ?? []), d]);
    return out;
}

// Services above, programs that run for moments and the system's own folded below.
function Lists({services, of}) {
    const {maps, versions, p} = of;
    const low = (p.search ?? "").toLowerCase();
    const kept = services.filter((s) => s.name.toLowerCase().includes(low));
    const main = kept.filter((s) => isService(s, maps.cpu.get(s.name), versions.get(s.name), of)),
        rest = kept.filter((s) => !main.includes(s));
    const open = p.others === "1" || low !== "" || !main.length,
        cpuOf = (s) => maps.cpu.get(s.name)?.total ?? 0;
    const largest = rest
        .filter((s) => cpuOf(s) >= NAMED * of.whole && of.whole > 0)
        .sort((a, b) => cpuOf(b) - cpuOf(a))
        .slice(0, 4)
        .map((s) => `${s.name} ${percent(cpuOf(s) / of.whole, undefined, 2)}`)
        .join(", ");
    return (
        <>
            {main.length || !rest.length ? (
                <Rows
                    services={main}
                    of={of}
                    caption="services"
                    none={low ? `No service has “${p.search}” in its name.` : ""}
                />
            ) : (
                ""
            )}
            {rest.length ? (
                <section class="fold">
                    <button
                        class="quiet"
                        aria-expanded={!!open}
                        onClick={() => patch({others: open ? "" : "1"}, {replace: true})}
                    >
                        <span aria-hidden="true">{open ? "▾" : "▸"}</span> {rest.length} short-lived and system programs
                        <span class="muted num">
                            {percent(sum(rest.map(cpuOf)) / (of.whole || 1))} of CPU{largest ? `: ${largest}` : ""}
                        </span>
                    </button>
                    {open && <Rows services={rest} of={of} caption="short-lived and system programs" />}
                </section>
            ) : (
                ""
            )}
        </>
    );
}
