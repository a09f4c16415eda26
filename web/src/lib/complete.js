// SPDX-License-Identifier: Apache-2.0
// What can stand at the cursor of a selector that is being written: cpu{service.name="che|
import {parseSelector} from "./selector.js";

// before: the text up to the cursor. {kind: "type" | "name" | "value", name (of the label of a value), part (what is
// there of it), from (where that begins)}; null where nothing can be completed: after a whole matcher.
export function placeIn(before) {
    const open = before.indexOf("{");
    if (open < 0) return {kind: "type", part: before.trimStart(), from: before.length - before.trimStart().length};
    const value = /([{,])\s*("?)([^\s=!~"{},]+)\2\s*(?:=~|!~|!=|=)\s*"((?:[^"\\]|\\.)*)$/.exec(before);
    if (value) return {kind: "value", name: value[3], part: value[4], from: before.length - value[4].length};
    const name = /[{,]\s*([^\s=!~"{},]*)$/.exec(before);
    return name && {kind: "name", part: name[1], from: before.length - name[1].length};
}

// The text and the cursor after a suggestion was taken. after: the text to the right of the cursor.
export function taken(before, after, place, text) {
    const head = before.slice(0, place.from);
    let add = text;
    if (place.kind === "name") add = text + '="';
    else if (place.kind === "value") add = text.replace(/[\\"]/g, "\\$&") + (after.startsWith('"') ? "" : '"');
    const at = head.length + add.length + (place.kind === "value" && after.startsWith('"') ? 1 : 0);
    return {text: head + add + after, at};
}

// Options that begin with what is there, then those that contain it.
export function fitting(options, part, most = 40) {
    const low = part.toLowerCase(),
        begins = (o) => o.toLowerCase().startsWith(low);
    return [...options.filter(begins), ...options.filter((o) => !begins(o) && o.toLowerCase().includes(low))].slice(
        0,
        most,
    );
}

// A selector as it was meant: the last quote and brace may be missing. Null if it is not one.
export function finished(text) {
    for (const end of ["", "}", '"}']) {
        const whole = text.trim().replace(/,\s*$/, "") + end;
        if (/["'}]$|^[^{]+$/.test(whole) && (whole.includes("{") ? whole.endsWith("}") : true))
            if (!parseSelector(whole).bad && !/[\s"'=]/.test(parseSelector(whole).type)) return whole;
    }
    return null;
}
