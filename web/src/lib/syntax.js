// SPDX-License-Identifier: Apache-2.0
// Colours of source code, line by line: comments, strings, numbers and keywords, by the ending of the file's name.
// Enough to find one's way; not a parser.

const c =
    "auto break case catch char class const constexpr continue default delete do double " +
    "else enum extern final float for friend goto if inline int long mutable namespace new " +
    "noexcept nullptr operator override private protected public register return short " +
    "signed sizeof static static_cast struct switch template this throw try typedef " +
    "typename union unsigned using virtual void volatile while bool true false NULL " +
    "uint8_t uint16_t uint32_t uint64_t int8_t int16_t int32_t int64_t size_t";
const words = {
    c,
    go:
        "break case chan const continue default defer else fallthrough for func go goto if " +
        "import interface map package range return select struct switch type var nil true " +
        "false string int int64 uint64 byte error bool",
    rs:
        "as async await break const continue crate dyn else enum extern false fn for if impl " +
        "in let loop match mod move mut pub ref return self Self static struct super trait " +
        "true type unsafe use where while",
    py:
        "and as assert async await break class continue def del elif else except False finally " +
        "for from global if import in is lambda None nonlocal not or pass raise return True " +
        "try while with yield self",
    js:
        "async await break case catch class const continue debugger default delete do else " +
        "export extends false finally for function if import in instanceof let new null of " +
        "return static super switch this throw true try typeof undefined var void while yield " +
        "interface type",
    java:
        "abstract assert boolean break byte case catch char class const continue default do " +
        "double else enum extends final finally float for if implements import instanceof int " +
        "interface long native new null package private protected public record return short " +
        "static super switch synchronized this throw throws true false try var void volatile " +
        "while",
    rb:
        "alias and begin break case class def do else elsif end ensure false for if in module " +
        "next nil not or redo rescue retry return self super then true undef unless until when " +
        "while yield",
};
const endings = {
    c: "c",
    h: "c",
    cc: "c",
    cpp: "c",
    cxx: "c",
    hpp: "c",
    hh: "c",
    go: "go",
    rs: "rs",
    py: "py",
    pyx: "py",
    js: "js",
    mjs: "js",
    ts: "js",
    tsx: "js",
    java: "java",
    kt: "java",
    scala: "java",
    cs: "java",
    rb: "rb",
    php: "js",
};
const sets = {};

const parts = (comment, string) =>
    new RegExp(`(${comment.source})|(${string.source})|\\b(\\d[\\w.]*)|([A-Za-z_]\\w*)`, "g");
const slashes = /\/\/.*|\/\*.*?(?:\*\/|$)|^\s*\*(?:[\s/].*)?$/;
const quotes = /"(?:[^"\\]|\\.)*"?|'(?:[^'\\\s]|\\.){1,8}'|`[^`]*`?/;

// Text with its parts marked. preact escapes what it is given: code is never markup.
export function colored(text, file) {
    const language = endings[/\.(\w+)$/.exec(file)?.[1]?.toLowerCase()];
    if (!language || !text || text.length > 2000) return text;
    const known = (sets[language] ??= new Set(words[language].split(" ")));
    const hash = language === "py" || language === "rb";
    const part = hash ? parts(/#.*/, /"(?:[^"\\]|\\.)*"?|'(?:[^'\\]|\\.)*'?/) : parts(slashes, quotes);
    const out = [];
    let at = 0;
    for (const m of text.matchAll(part)) {
        let cls;
        if (m[1]) cls = "c";
        else if (m[2]) cls = "s";
        else if (m[3]) cls = "n";
        else if (known.has(m[4])) cls = "k";
        else cls = "";
        if (!cls) continue;
        out.push(text.slice(at, m.index), <i class={"code-" + cls}>{m[0]}</i>);
        at = m.index + m[0].length;
    }
    out.push(text.slice(at));
    return out;
}
