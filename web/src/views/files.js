// SPDX-License-Identifier: Apache-2.0
// Files that were uploaded: an area of their own. They are in no total, ranking or cost of services.
import {useState} from "preact/hooks";
import {apiUrl, get, post, useData} from "../lib/api.js";
import {amount, clock, sum, typeTitle} from "../lib/units.js";
import {selection, uploadedAt, uploadQuery, UPLOADS} from "../lib/upload.js";
import {go} from "../lib/url.js";
import {Box, Loaded} from "../parts/states.js";
import {Table} from "../parts/table.js";

const DAYS = "now-30d";
const ofUploads = (type) => `${type}{service.namespace="${UPLOADS}"}`;

// Uploads, the latest first: [{id, name, at (ms), types: {type: text}}].
async function uploads() {
    const names = await get(apiUrl("services", {query: ofUploads(""), from: DAYS}), {fresh: true});
    const types = [...new Set(names.flatMap((s) => s.types))];
    const group_by = "service.name,service.version";
    const answers = await Promise.all(
        types.map((t) =>
            get(apiUrl("series", {query: ofUploads(t), from: DAYS, group_by, step: "30d"}), {fresh: true}),
        ),
    );
    const byId = new Map();
    for (const [i, d] of answers.entries())
        for (const s of d.series) {
            const id = s.labels["service.version"],
                total = sum(s.values);
            if (!id || !(total > 0)) continue;
            const file = byId.get(id) ?? {id, name: s.labels["service.name"], at: uploadedAt(id), types: {}};
            file.types[types[i]] = amount(total, d.unit, d.type);
            byId.set(id, file);
        }
    return [...byId.values()].sort((a, b) => b.at - a.at);
}

// Its types, those that people look at first before the others.
const FIRST = ["cpu", "wall", "heap", "alloc"];
const rank = (t) => FIRST.indexOf(t) + 1 || FIRST.length + 1;
const typesOf = (file) => Object.keys(file.types).sort((a, b) => rank(a) - rank(b) || a.localeCompare(b));

// When the profiles of a file begin and end: what a page about it shows.
async function placeOf(file) {
    const type = typesOf(file)[0],
        query = uploadQuery(type, file.name, file.id);
    const {profiles} = await get(apiUrl("profiles", {query, from: DAYS, limit: 1000}));
    const begin = profiles.map((x) => Number(x.time) / 1e6),
        end = profiles.map((x) => (Number(x.time) + Number(x.duration)) / 1e6);
    return selection({
        type,
        service: file.name,
        instance: file.id,
        from: Math.min(file.at, ...begin),
        to: Math.max(file.at, ...end),
    });
}

async function compare(files) {
    const [before, now] = await Promise.all([...files].sort((a, b) => a.at - b.at).map(placeOf));
    go("compare", {...now, base_query: before.query, base_from: before.from, base_to: before.to});
}

function remove(file) {
    const query = `{service.namespace="${UPLOADS}",service.version="${file.id}"}`;
    return post("delete", "", "text/plain", {query, from: "0", to: "now"});
}

export function Files() {
    const list = useData("uploads", {via: uploads}),
        [picked, pick] = useState([]),
        [error, setError] = useState("");
    const tried = (what) => what.catch((e) => setError(e.message));
    const columns = [
        {
            key: "pick",
            title: "",
            show: (f) => (
                <input
                    type="checkbox"
                    aria-label={`compare ${f.name}`}
                    checked={picked.includes(f.id)}
                    onChange={() =>
                        pick(picked.includes(f.id) ? picked.filter((x) => x !== f.id) : [...picked, f.id].slice(-2))
                    }
                />
            ),
        },
        {
            key: "name",
            title: "file",
            show: (f) => (
                <button class="link" onClick={() => tried(placeOf(f).then((to) => go("explore", to)))}>
                    {f.name}
                </button>
            ),
        },
        {
            key: "types",
            title: "holds",
            cls: "wide",
            show: (f) =>
                typesOf(f)
                    .map((t) => `${typeTitle(t)} ${f.types[t]}`)
                    .join(" · "),
        },
        {key: "at", title: "uploaded", show: (f) => <span class="num">{clock(f.at)}</span>},
        {
            key: "delete",
            title: "",
            show: (f) => (
                <button
                    class="small"
                    aria-label={`delete ${f.name}`}
                    onClick={() => tried(remove(f).then(() => (pick([]), list.reload())))}
                >
                    Delete
                </button>
            ),
        },
    ];
    return (
        <>
            <div class="bar">
                <h1>Files</h1>
                <span class="muted">Uploaded profiles. They count in no total, ranking or cost of services.</span>
                <span class="grow" />
                <button
                    disabled={picked.length !== 2}
                    onClick={() => tried(compare(list.data.filter((f) => picked.includes(f.id))))}
                >
                    Compare the two
                </button>
            </div>
            {error && (
                <p class="wrong" role="alert">
                    {error}
                </p>
            )}
            <Loaded
                of={list}
                what="files"
                empty={(d) => !d.length}
                nothing={
                    <Box title="No uploaded files">
                        <p>
                            Drop a profile anywhere on a page, or choose one: pprof, OTLP, JFR, perf.data, speedscope,
                            Chrome and Firefox traces. It is kept as long as other profiles, and you can delete it here.
                        </p>
                    </Box>
                }
            >
                {(d) => (
                    <div class="panel">
                        <Table caption="uploaded files" columns={columns} rows={d} rowKey={(f) => f.id} />
                    </div>
                )}
            </Loaded>
        </>
    );
}
