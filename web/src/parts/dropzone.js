// SPDX-License-Identifier: Apache-2.0
// Profiles dropped anywhere on the page are opened. The same by a button, for those who do not drag.
import {useSignal} from "@preact/signals";
import {useEffect, useRef} from "preact/hooks";
import {openFiles, upload} from "../lib/upload.js";

const hasFiles = (e) => Array.from(e.dataTransfer?.types ?? []).includes("Files");

export function DropZone() {
    const over = useSignal(false);
    useEffect(() => {
        let depth = 0; // enter and leave are sent for every element on the way
        const on = {
            dragenter: (e) => hasFiles(e) && (e.preventDefault(), depth++, (over.value = true)),
            dragover: (e) => hasFiles(e) && e.preventDefault(),
            dragleave: (e) => hasFiles(e) && --depth <= 0 && ((depth = 0), (over.value = false)),
            drop: (e) => {
                if (!hasFiles(e)) return;
                e.preventDefault();
                depth = 0;
                over.value = false;
                openFiles(e.dataTransfer.files);
            },
        };
        for (const [name, fn] of Object.entries(on)) addEventListener(name, fn);
        return () => {
            for (const [name, fn] of Object.entries(on)) removeEventListener(name, fn);
        };
    }, []);
    const u = upload.value;
    return (
        <>
            {over.value && (
                <div class="dropzone" role="status">
                    <div>
                        <strong>Drop a profile to open it</strong>
                        <p>
                            pprof, OTLP, JFR, .cpuprofile, .heapprofile, speedscope, Firefox Profiler, Chrome trace,
                            folded stacks, perf.data. Two files are compared.
                        </p>
                    </div>
                </div>
            )}
            {u && (
                <div class={"toast" + (u.error ? " error" : "")} role={u.error ? "alert" : "status"}>
                    {u.error ? (
                        <>
                            <span>{u.error}</span>
                            <button class="quiet" onClick={() => (upload.value = null)}>
                                Close
                            </button>
                        </>
                    ) : (
                        <span>Opening {u.names}…</span>
                    )}
                </div>
            )}
        </>
    );
}

export function OpenButton() {
    const el = useRef(null);
    return (
        <>
            <button
                class="quiet out open-file"
                title="Open a profile from a file; or drop it on the page"
                onClick={() => el.current.click()}
            >
                <svg viewBox="0 0 16 16" aria-hidden="true">
                    <path d="M8 11V2.5M4.5 6 8 2.5 11.5 6M2.5 10.5v3h11v-3" />
                </svg>
                <span>Open file</span>
            </button>
            <input
                ref={el}
                type="file"
                multiple
                hidden
                aria-label="profile to open"
                onChange={(e) => {
                    openFiles(e.currentTarget.files);
                    e.currentTarget.value = "";
                }}
            />
        </>
    );
}
