// SPDX-License-Identifier: Apache-2.0
// Files that are dropped on the page or chosen: sends them to the server, and opens what they hold.
import {signal} from "@preact/signals";
import {apiUrl, forget, overFiles, refusal} from "./api.js";
import {matchedValue, serviceQuery} from "./selector.js";
import {go, route} from "./url.js";

// The service.namespace of what was uploaded; it is left out of questions about all services.
export const UPLOADS = "wick.uploads";

// upload-TIME-N, with the time of the upload in nanoseconds, hexadecimal.
export const uploadedAt = (instance) => Number(BigInt("0x" + instance.split("-")[1]) / 1000000n);
export const isUpload = (query) => /^upload-[0-9a-f]+-/.test(matchedValue(query, "service.version"));

// The server's status for a page about a selection: what was uploaded costs nothing.
export const pricedFor = (query, status) => (isUpload(query) ? {...status, pricePerCoreHour: 0} : status);

export const MAX_BYTES = 64 << 20;

// What is going on: null, {names} while files are sent, or {names, error}.
export const upload = signal(null);

async function send(file) {
    if (file.size > MAX_BYTES)
        throw new Error(
            `${file.name} has ${Math.ceil(file.size / 1048576)} MiB; the limit is ${MAX_BYTES / 1048576} MiB`,
        );
    let r;
    try {
        r = await fetch(apiUrl("upload", {name: file.name}), {
            method: "POST",
            credentials: "same-origin",
            body: file,
            headers: {"content-type": "application/octet-stream"},
        });
    } catch {
        throw new Error("the server does not respond");
    }
    if (!r.ok) {
        const e = await refusal(r);
        throw new Error(
            r.status === 403
                ? `${e.message}. Opening a file stores it: log in with a token of scope write.`
                : `${file.name}: ${e.message}`,
        );
    }
    return r.json();
}

const second = (ms, more) => String(Math.floor(ms / 1000) + more);

export const uploadQuery = (type, name, id) => serviceQuery(type, name, {name: "service.version", op: "=", value: id});

// The selection that shows an upload.
export function selection(u) {
    return {
        query: uploadQuery(u.type, u.service, u.instance),
        from: second(u.from, -60),
        to: second(u.to, 60),
    };
}

// One file opens in Explore; on the Compare page it becomes the side "now" of the comparison. Two files are
// compared, the first one as "before".
function open(uploads) {
    const {path, params} = route.peek();
    const last = selection(uploads[uploads.length - 1]);
    if (uploads.length > 1) {
        const before = selection(uploads[0]);
        go("compare", {...last, base_query: before.query, base_from: before.from, base_to: before.to});
    } else if (path === "compare") {
        go("compare", {...params, ...last, zoom: ""});
    } else {
        go("explore", last);
    }
}

export async function openFiles(list) {
    const files = Array.from(list).slice(0, 2);
    const names = files.map((f) => f.name).join(" and ");
    if (!files.length || overFiles.value) return;
    upload.value = {names};
    try {
        const sent = [];
        for (const f of files) sent.push(await send(f));
        forget();
        open(sent);
        upload.value = null;
    } catch (e) {
        upload.value = {names, error: e.message};
    }
}
