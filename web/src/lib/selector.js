// SPDX-License-Identifier: Apache-2.0
// Selectors as the API reads them: cpu{service.name="checkout",host.name=~"web.*"}.
const plain = /^[a-zA-Z_.][a-zA-Z0-9_.]*$/;
const quoted = /"(?:[^"\\]|\\[\s\S])*"|'(?:[^'\\]|\\[\s\S])*'|`[^`]*`/.source;

// bad: something in it was not understood.
export function parseSelector(text) {
    const s = (text ?? "").trim();
    const open = s.indexOf("{");
    const out = {type: (open < 0 ? s : s.slice(0, open)).trim(), matchers: [], bad: false};
    if (open < 0) return out;
    const re = new RegExp(`\\s*(${quoted}|[^\\s=!~"{},]+)\\s*(=~|!~|!=|=)\\s*(${quoted})\\s*(,?)`, "gy");
    let end = (re.lastIndex = open + 1);
    for (let m, comma = ","; (m = re.exec(s)); [comma, end] = [m[4], re.lastIndex]) {
        out.bad ||= !comma;
        out.matchers.push({name: /^["'`]/.test(m[1]) ? unquote(m[1]) : m[1], op: m[2], value: unquote(m[3])});
    }
    out.bad ||= !/^\s*\}$/.test(s.slice(end));
    return out;
}

// As the server does (model/labels.c): other escapes stay as they are, "\." in a regular expression, and ` has none.
const escapes = {n: "\n", t: "\t", r: "\r"};
function unquote(s) {
    const inner = s.slice(1, -1);
    return s[0] === "`" ? inner : inner.replace(/\\([ntr\\"'`])/g, (_, c) => escapes[c] ?? c);
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

export function matchedValue(text, name) {
    return parseSelector(text).matchers.find((m) => m.name === name && m.op === "=")?.value ?? "";
}

export function serviceQuery(type, service, ...more) {
    return printSelector({type, matchers: [{name: "service.name", op: "=", value: service}, ...more]});
}
