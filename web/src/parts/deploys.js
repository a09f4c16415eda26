// SPDX-License-Identifier: Apache-2.0
// The deploys of the selected service, as marks of a chart.
import {useMemo} from "preact/hooks";
import {apiUrl, useData} from "../lib/api.js";
import {shortVersion} from "../lib/names.js";
import {matchedValue} from "../lib/selector.js";

const MOST = 6;

// Deploys in the range, each at its first sample: [{at, label}].
export function useDeploys(query, range) {
    const service = matchedValue(query, "service.name");
    const data = useData(service ? apiUrl("deploys", {query, from: range.from, to: range.to}) : null, {
        live: range.live,
    }).data;
    return useMemo(
        () =>
            (data?.deploys ?? [])
                .filter((d) => d.deployed)
                .slice(-MOST)
                .map((d) => ({at: Number(d.since) / 1e6, label: shortVersion(d.version)})),
        [data],
    );
}
