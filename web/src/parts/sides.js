// SPDX-License-Identifier: Apache-2.0
// What Compare offers beside the difference: both sides next to each other, and other ranges to compare with.
import {useMemo} from "preact/hooks";
import {apiUrl, useData} from "../lib/api.js";
import {shortVersion} from "../lib/names.js";
import {matchedValue, withMatcher, withoutMatcher} from "../lib/selector.js";
import {before, seconds} from "../lib/time.js";
import {columnOf} from "../lib/tree.js";
import {amount} from "../lib/units.js";
import {patch} from "../lib/url.js";
import {FlamePane} from "./flamepane.js";
import {Drop} from "./menu.js";

export function Presets({p, s}) {
    const service = matchedValue(s.query, "service.name"),
        version = "service.version";
    const list = useData(
        service ? apiUrl("deploys", {query: withoutMatcher(s.query, version), from: s.now.from, to: s.now.to}) : null,
    );
    const versions = (list.data?.deploys ?? [])
        .filter((d) => d.service === service && d.version)
        .sort((a, b) => Number(a.since) - Number(b.since))
        .map((d) => d.version);
    const shift = (ms) => ({
        base_query: s.query,
        base_from: seconds(s.now.fromMs - ms),
        base_to: seconds(s.now.toMs - ms),
        zoom: "",
    });
    const items = () => [
        {
            label: "the time just before",
            run: () => patch({base_query: s.query, base_from: before(s.now).from, base_to: before(s.now).to, zoom: ""}),
        },
        {label: "an hour earlier", run: () => patch(shift(3600e3))},
        {label: "yesterday", run: () => patch(shift(86400e3))},
        {label: "a week ago", run: () => patch(shift(604800e3))},
        ...(versions.length > 1
            ? [
                  "-",
                  ...versions.slice(0, -1).map((v, i) => ({
                      label: `version ${shortVersion(v)} → ${shortVersion(versions[i + 1])}`,
                      run: () =>
                          patch({
                              base_query: withMatcher(s.query, version, v),
                              query: withMatcher(s.query, version, versions[i + 1]),
                              base_from: p.from,
                              base_to: p.to,
                              zoom: "",
                          }),
                  })),
              ]
            : []),
        "-",
        {
            label: "swap sides",
            run: () =>
                patch({
                    query: s.baseQuery,
                    from: s.base.from,
                    to: s.base.to,
                    base_query: s.query,
                    base_from: s.now.from,
                    base_to: s.now.to,
                    zoom: "",
                }),
        },
    ];
    return <Drop label="Compare with" items={items} />;
}

export function OneSided({t}) {
    let missing;
    if (!(t.total[0][0] > 0)) missing = "before";
    else if (!(t.total[1]?.[0] > 0)) missing = "now";
    else missing = "";
    return (
        missing && (
            <p class="note" role="status">
                There are no profiles {missing === "before" ? "on the side “before”" : "on the side “now”"}: everything
                looks {missing === "before" ? "new" : "gone"}. Pick another time or version.
            </p>
        )
    );
}

export function Sides({t, p, cover, onFound}) {
    const a = useMemo(() => columnOf(t, 0), [t]),
        b = useMemo(() => (t.columns > 1 ? columnOf(t, 1) : t), [t]);
    const params = p.color === "diff" ? {...p, color: ""} : p;
    const of = (ns) => cover && {...cover, ns},
        before = {...params, query: p.base_query || p.query, from: p.base_from, to: p.base_to};
    return (
        <div class="half-half">
            <section aria-label="before">
                <h2>
                    before <span class="muted num">{amount(a.total[0][0], t.unit, t.type)}</span>
                </h2>
                <FlamePane tree={a} params={before} cover={of(cover?.base)} rootName="before" label="Before" side />
            </section>
            <section aria-label="now">
                <h2>
                    now <span class="muted num">{amount(b.total[0][0], t.unit, t.type)}</span>
                </h2>
                <FlamePane
                    tree={b}
                    params={params}
                    cover={of(cover?.ns)}
                    onFound={onFound}
                    rootName="now"
                    label="Now"
                    side
                />
            </section>
        </div>
    );
}
