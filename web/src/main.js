// SPDX-License-Identifier: Apache-2.0
// Start: styles, routes, keys.
import {html} from "htm/preact";
import {render} from "preact";
import {useEffect} from "preact/hooks";
import "./app.css";
import {openSession} from "./lib/api.js";
import {choice, setTheme, themeOf} from "./lib/color.js";
import {listen} from "./lib/keys.js";
import {paused, setPaused} from "./lib/live.js";
import {catchLinks, go, route} from "./lib/url.js";
import {helpOpen, Shell} from "./parts/shell.js";
import {Box} from "./parts/states.js";
import {Alerts} from "./views/alerts.js";
import {Compare} from "./views/compare.js";
import {Explore} from "./views/explore.js";
import {FunctionPage} from "./views/function.js";
import {Home} from "./views/home.js";
import {Login} from "./views/login.js";
import {Senders} from "./views/senders.js";
import {Services} from "./views/services.js";
import {Spans} from "./views/spans.js";
import {Start} from "./views/start.js";

const views = {"": Home, home: Home, start: Start, services: Services, explore: Explore, flamegraph: Home, compare: Compare, function: FunctionPage, spans: Spans, alerts: Alerts, senders: Senders, sources: Senders, login: Login};
const titles = {services: "Services", explore: "Explore", compare: "Compare", function: "Function", spans: "Spans", alerts: "Alerts", senders: "Sources", sources: "Sources", start: "Start", login: "Log in"};

function App() {
    const {path} = route.value;
    useEffect(() => {
        document.title = titles[path] ? `${titles[path]} · wick` : "wick";
    }, [path]);
    const View = views[path];
    return html`<${Shell}>${View ? html`<${View} />` : html`<h1 class="sr">Not found</h1><${Box} title="This page does not exist"><p><a href="explore">Explore</a></p><//>`}<//>`;
}

document.documentElement.dataset.theme = themeOf();
catchLinks(document);
listen({
    "?": () => (helpOpen.value = true),
    "/": () => document.getElementById("search")?.focus(),
    T: () => setTheme({"": "dark", dark: "light", light: ""}[choice.value]),
    "g e": () => go("explore", {}), "g s": () => go("services", {}), "g c": () => go("compare", {}), "g n": () => go("senders", {}),
    "g h": () => go("", {}),
    L: () => setPaused(!paused.value),
});
await openSession();
render(html`<${App} />`, document.getElementById("app"));
