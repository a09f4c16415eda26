// SPDX-License-Identifier: Apache-2.0
// What a person has chosen for this browser: the time zone and how sizes are counted. Kept in the browser; links
// do not carry it.
import {signal} from "@preact/signals";

const KEY = "wick-settings",
    defaults = {zone: "local", sizes: "decimal"};

function stored() {
    try {
        return {...defaults, ...JSON.parse(localStorage.getItem(KEY) ?? "{}")};
    } catch {
        return defaults; // no storage, or not what was written here
    }
}

export const settings = signal(stored());

export function change(name, value) {
    settings.value = {...settings.value, [name]: value};
    try {
        localStorage.setItem(KEY, JSON.stringify(settings.value));
    } catch {
        // no storage: the choice is lost when the page is closed
    }
}

// A time whose local fields are those of the chosen zone.
export const inZone = (ms) =>
    new Date(settings.value.zone === "utc" ? ms + new Date(ms).getTimezoneOffset() * 60000 : ms);
