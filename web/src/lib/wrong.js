// SPDX-License-Identifier: Apache-2.0
// What is wrong with the parameters of a URL, as a sentence: asked before anything is requested, so that a
// mistyped link gives an explanation and not an error of the server.
import {parseCell} from "./time.js";
import {parseSelector} from "./selector.js";

// Expressions of Go and RE2 that JavaScript writes differently are left to the server.
function badExpression(text) {
    try {
        new RegExp(
            text
                .replace(/\(\?[imsU-]+\)|\(\?P</g, (m) => (m.endsWith("<") ? "(?<" : ""))
                .replace(/\[\[:\w+:\]\]|\\[pP]\w|\\[pP]\{\w+\}|\\[zAQEC]/g, "x"),
        );
        return "";
    } catch (e) {
        return e.message.replace(/^Invalid regular expression: /, "").replace(/^\/.*\/\w*: /, "");
    }
}

function badSelector(text) {
    const {bad, type} = parseSelector(text);
    return bad || !/^[\w.:*-]*$/.test(type);
}

const hex = {trace: 32, span: 16, profile: 32};
const words = {focus: "only stacks with", ignore: "no stacks with", hide: "hide frames"};

export function urlProblem(p) {
    for (const k of ["query", "base_query"])
        if (p[k] && badSelector(p[k]))
            return `“${p[k]}” is not a selector. It looks like cpu{service.name="checkout"}.`;
    for (const k in words) {
        const why = p[k] && badExpression(p[k]);
        if (why) return `“${p[k]}” (${words[k]}) is not a regular expression: ${why}. The parameter is ${k}.`;
    }
    for (const k in hex)
        if (p[k] && !new RegExp(`^[0-9a-f]{${hex[k]}}$`, "i").test(p[k]))
            return `“${p[k]}” is not the id of a ${k}: it has ${hex[k]} hexadecimal digits.`;
    for (const k of ["cell", "cell2", "win"])
        if (p[k] && !parseCell(p[k]))
            return (
                `“${p[k]}” is not a time of the heat map: it looks like ` +
                `1763281234000000000-1763281235000000000, in nanoseconds. The parameter is ${k}.`
            );
    if (p.nodes && !/^\d{1,7}$/.test(p.nodes)) return `“${p.nodes}” is not a number of nodes.`;
    return "";
}
