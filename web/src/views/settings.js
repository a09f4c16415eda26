// SPDX-License-Identifier: Apache-2.0
// Settings of this browser, and those of the server that change what is shown.
import {choice, setTheme} from "../lib/color.js";
import {change, settings} from "../lib/settings.js";
import {bytes, clock} from "../lib/units.js";
import {Choice} from "../parts/menu.js";
import {useStatus} from "../parts/shell.js";

export function Settings() {
    const {zone, sizes} = settings.value,
        status = useStatus().data;
    const row = (title, control, note) => (
        <div class="setting">
            <h2>{title}</h2>
            <div>
                {control}
                <p class="muted num">{note}</p>
            </div>
        </div>
    );
    return (
        <>
            <div class="bar">
                <h1>Settings</h1>
            </div>
            <section class="panel settings" aria-label="settings">
                {row(
                    "Theme",
                    <Choice
                        label="theme"
                        value={choice.value}
                        options={[
                            ["", "As the system"],
                            ["light", "Light"],
                            ["dark", "Dark"],
                        ]}
                        onPick={setTheme}
                    />,
                    "The key T changes it, too.",
                )}
                {row(
                    "Time zone",
                    <Choice
                        label="time zone"
                        value={zone}
                        options={[
                            ["local", "Local"],
                            ["utc", "UTC"],
                        ]}
                        onPick={(v) => change("zone", v)}
                    />,
                    `Now it is ${clock(Date.now())}. Links carry times, not their zone.`,
                )}
                {row(
                    "Sizes",
                    <Choice
                        label="sizes"
                        value={sizes}
                        options={[
                            ["decimal", "MB (1,000,000)"],
                            ["binary", "MiB (1,048,576)"],
                        ]}
                        onPick={(v) => change("sizes", v)}
                    />,
                    `1,500,000,000 bytes are ${bytes(1.5e9)}.`,
                )}
                {row(
                    "Price of a core",
                    status?.pricePerCoreHour ? (
                        <b class="num">
                            {status.pricePerCoreHour} {status.currency ?? "USD"} per hour
                        </b>
                    ) : (
                        <span>not set: no costs are shown</span>
                    ),
                    <>
                        It is the same for all users: <code>ui: price_per_core_hour:</code> in wick.yaml.
                    </>,
                )}
                {row(
                    "Own code",
                    status?.ownCode ? (
                        <code>{status.ownCode}</code>
                    ) : (
                        <span>all but libraries, runtimes and the kernel</span>
                    ),
                    <>
                        What “only my code” leaves: <code>ui: own_code:</code> in wick.yaml.
                    </>,
                )}
            </section>
        </>
    );
}
