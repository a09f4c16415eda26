// SPDX-License-Identifier: Apache-2.0
// Start: styles, routes, keys.
import {render} from "preact";
import {useEffect} from "preact/hooks";
import "./app.css";
import {openSession} from "./lib/api.js";
import {choice, setTheme, themeOf} from "./lib/color.js";
import {aboutOf} from "./lib/export.js";
import {listen} from "./lib/keys.js";
import {paused, setPaused} from "./lib/live.js";
import {shortName} from "./lib/names.js";
import {describe, rangeOf} from "./lib/time.js";
import {clock} from "./lib/units.js";
import {catchLinks, go, href, route} from "./lib/url.js";
import {helpOpen, Shell} from "./parts/shell.js";
import {Box} from "./parts/states.js";
import {Alerts} from "./views/alerts.js";
import {Compare} from "./views/compare.js";
import {Explore} from "./views/explore.js";
import {Files} from "./views/files.js";
import {FunctionPage} from "./views/function.js";
import {Home} from "./views/home.js";
import {Login} from "./views/login.js";
import {Senders} from "./views/senders.js";
import {Services} from "./views/services.js";
import {Settings} from "./views/settings.js";
import {Spans} from "./views/spans.js";
import {Start} from "./views/start.js";
import {Trace} from "./views/trace.js";

const views = {
    "": Home,
    home: Home,
    start: Start,
    services: Services,
    explore: Explore,
    flamegraph: Home,
    compare: Compare,
    function: FunctionPage,
    spans: Spans,
    trace: Trace,
    alerts: Alerts,
    files: Files,
    senders: Senders,
    sources: Senders,
    settings: Settings,
    login: Login,
};
const titles = {
    services: "Services",
    explore: "Explore",
    compare: "Compare",
    function: "Function",
    spans: "Spans",
    trace: "Request",
    alerts: "Alerts",
    files: "Files",
    senders: "Sources",
    sources: "Sources",
    start: "Start",
    settings: "Settings",
    login: "Log in",
};

// What a tab is about: "checkout cpu, last hour · Explore · wick".
function titleOf(path, p) {
    let about;
    if (["explore", "compare", "flamegraph"].includes(path) && p.query)
        about = `${aboutOf(p.query)}, ${describe(rangeOf(p), clock)}`;
    else if (path === "function") about = p.fn && shortName(p.fn);
    else if (path === "spans") about = [p.service, p.name].filter(Boolean).join(" ");
    else if (path === "trace") about = p.trace?.slice(0, 8);
    else about = "";
    return [about, titles[path], "wick"].filter(Boolean).join(" · ");
}

function App() {
    const {path, params} = route.value,
        View = views[path];
    useEffect(() => {
        document.title = View ? titleOf(path, params) : "Not found · wick";
    }, [path, params]);
    return (
        <Shell>
            {View ? (
                <View />
            ) : (
                <>
                    <h1 class="sr">Not found</h1>
                    <Box title="This page does not exist">
                        <p>
                            Nothing is at <code>/{path}</code>.
                        </p>
                        <p>
                            <a class="button main" href={href("")}>
                                Home
                            </a>{" "}
                            <a class="button" href={href("explore")}>
                                Explore
                            </a>
                        </p>
                    </Box>
                </>
            )}
        </Shell>
    );
}

document.documentElement.dataset.theme = themeOf();
catchLinks(document);
listen({
    "?": () => (helpOpen.value = true),
    "/": () => document.getElementById("search")?.focus(),
    T: () => setTheme({"": "dark", dark: "light", light: ""}[choice.value]),
    "g e": () => go("explore", {}),
    "g s": () => go("services", {}),
    "g c": () => go("compare", {}),
    "g n": () => go("senders", {}),
    "g h": () => go("", {}),
    "g a": () => go("alerts", {}),
    "g f": () => go("files", {}),
    L: () => setPaused(!paused.value),
});
await openSession();
render(<App />, document.getElementById("app"));
