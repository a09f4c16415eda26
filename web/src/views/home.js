// SPDX-License-Identifier: Apache-2.0
// The front page: what the latest deploys made worse or better and which alerts fire, then the services. Start
// before data have been received; a file's flame graph under `wick pprof -http`.
import {apiUrl, useData} from "../lib/api.js";
import {SavedViews} from "../parts/marks.js";
import {useStatus} from "../parts/shell.js";
import {RegressionCard} from "../parts/regression.js";
import {Failed, Loading} from "../parts/states.js";
import {href} from "../lib/url.js";
import {AlertList} from "./alerts.js";
import {Compare} from "./compare.js";
import {Explore} from "./explore.js";
import {Services} from "./services.js";
import {Start} from "./start.js";

const CARDS = 3;

export function Home() {
    const status = useStatus();
    const server = status.data && status.data.mode !== "files";
    const services = useData(server ? apiUrl("services", {from: "now-1d"}) : null);
    const alerts = useData(server ? apiUrl("alerts") : null, {live: true});
    const judged = useData(server ? apiUrl("verdicts", {query: "cpu", from: "now-1d", limit: CARDS}) : null, {
        live: true,
    });
    if (status.error && !status.data) return <Failed error={status.error} reload={status.reload} />;
    if (status.data?.mode === "files") return status.data.files.length > 1 ? <Compare /> : <Explore />;
    if (services.error && !services.data) return <Failed error={services.error} reload={services.reload} />;
    if (!services.data || !(judged.data || judged.error) || !(alerts.data || alerts.error))
        return <Loading what="services" />;
    if (!services.data.length) return <Start />;
    const cards = judged.data?.verdicts ?? [];
    const firing = (alerts.data?.alerts ?? []).filter((a) => a.state === "firing");
    return (
        <>
            {firing.length ? (
                <section class="panel firing" aria-label="alerts">
                    <h2>
                        Firing{" "}
                        <a class="small-link" href={href("alerts")}>
                            all alerts
                        </a>
                    </h2>
                    <AlertList alerts={firing.slice(0, 5)} />
                </section>
            ) : (
                ""
            )}
            {cards.length ? (
                <section class="regressions" aria-label="latest deploys">
                    {cards.map((v) => (
                        <RegressionCard key={v.service + v.version + v.deployed} v={v} status={status.data} />
                    ))}
                </section>
            ) : (
                ""
            )}
            <SavedViews />
            <Services />
        </>
    );
}
