// SPDX-License-Identifier: Apache-2.0
// Selectors as the API reads them: cpu{service.name="checkout",host.name=~"web.*"}.
const plain = /^[a-zA-Z_.][a-zA-Z0-9_.]*$/;

export function parseSelector(text) {
    const s = (text ?? "").trim();
    const open = s.indexOf("{");
    const out = {type: (open < 0 ? s : s.slice(0, open)).trim(), matchers: []};
    if (open < 0) return out;
    const re = /\s*("(?:[^"\\]|\\.)*"|[^\s=!~"{},]+)\s*(=~|!~|!=|=)\s*"((?:[^"\\]|\\.)*)"\s*,?/gy;
    re.lastIndex = open + 1;
    for (let m; (m = re.exec(s)); )
        out.matchers.push({name: m[1][0] === '"' ? unescape_(m[1].slice(1, -1)) : m[1], op: m[2], value: unescape_(m[3])});
    return out;
}

function unescape_(s) {
    return s.replace(/\\(.)/g, (_, c) => (c === "n" ? "\n" : c === "t" ? "\t" : c));
}

function quote(s) {
    return '"' + s.replace(/[\\"]/g, "\\$&").replace(/\n/g, "\\n") + '"';
}

export function printSelector({type, matchers}) {
    const inner = matchers.map((m) => (plain.test(m.name) ? m.name : quote(m.name)) + m.op + quote(m.value)).join(",");
    return type + (inner ? `{${inner}}` : "");
}

export function withoutMatcher(text, name) {
    const {type, matchers} = parseSelector(text);
    return printSelector({type, matchers: matchers.filter((m) => m.name !== name)});
}

export function withMatcher(text, name, value, op = "=") {
    const s = parseSelector(withoutMatcher(text, name));
    s.matchers.push({name, op, value});
    return printSelector(s);
}

export function valueOf(text, name) {
    return parseSelector(text).matchers.find((m) => m.name === name && m.op === "=")?.value ?? "";
}

export function serviceQuery(type, service, ...more) {
    return printSelector({type, matchers: [{name: "service.name", op: "=", value: service}, ...more]});
}
