// SPDX-License-Identifier: Apache-2.0
// The banner of `wick demo`: what will happen and when, and at the end that it is over.
import {useEffect, useState} from "preact/hooks";
import {reachable} from "../lib/api.js";
import {href} from "../lib/url.js";

const left = (ms) => `${Math.floor(ms / 60e3)}:${String(Math.floor(ms / 1e3) % 60).padStart(2, "0")} min`;

// What the banner says now, as a key: before, deployed, over.
export function demoState(demo, now = Date.now(), alive = true) {
    if (!demo) return "";
    if (now >= Number(demo.end) / 1e6 || !alive) return "over";
    return now >= Number(demo.deploy) / 1e6 ? "deployed" : "before";
}

export function DemoBanner({demo}) {
    const [, tick] = useState(0);
    useEffect(() => {
        const every = setInterval(() => tick((n) => n + 1), 1000);
        return () => clearInterval(every);
    }, []);
    const now = Date.now(),
        state = demoState(demo, now, reachable.value),
        end = Number(demo.end) / 1e6 - now,
        deploy = Number(demo.deploy) / 1e6 - now;
    return (
        <div class="banner demo" role="status">
            {state === "over" && (
                <>
                    <b>The demo is over.</b> Nothing is left behind on this machine. To profile your own services:{" "}
                    <code>wick serve</code>
                </>
            )}
            {state === "before" && (
                <>
                    <b>Demo.</b> gateway, checkout and inventory are running. In <b class="num">{left(deploy)}</b> a
                    slower checkout 1.6.0 is deployed; the demo ends in <span class="num">{left(end)}</span>.
                </>
            )}
            {state === "deployed" && (
                <>
                    <b>Demo.</b> checkout 1.6.0 was deployed <span class="num">{left(-deploy)}</span> ago and is slower:
                    the card on <a href={href("")}>Home</a> shows which function, as soon as there are samples. The demo
                    ends in <span class="num">{left(end)}</span>.
                </>
            )}
        </div>
    );
}
