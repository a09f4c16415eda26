// SPDX-License-Identifier: Apache-2.0
// The front page: Services once data has been received, Start before that; a file's flame graph under `wick pprof
// -http`.
import {html} from "htm/preact";
import {apiUrl, useData} from "../lib/api.js";
import {useStatus} from "../parts/shell.js";
import {Failed, Loading} from "../parts/states.js";
import {Compare} from "./compare.js";
import {Explore} from "./explore.js";
import {Services} from "./services.js";
import {Start} from "./start.js";

export function Home() {
    const status = useStatus();
    const services = useData(status.data && status.data.mode !== "files" ? apiUrl("services", {from: "now-1d"}) : null);
    if (status.error && !status.data) return html`<${Failed} error=${status.error} reload=${status.reload} />`;
    if (status.data?.mode === "files") return status.data.files.length > 1 ? html`<${Compare} />` : html`<${Explore} />`;
    if (!services.data) return services.error ? html`<${Failed} error=${services.error} reload=${services.reload} />` : html`<${Loading} what="services" />`;
    return services.data.length ? html`<${Services} />` : html`<${Start} />`;
}
