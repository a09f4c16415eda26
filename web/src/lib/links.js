// SPDX-License-Identifier: Apache-2.0
// Links from a frame to its line in a forge or an editor, by the templates of the server's configuration. Only safe
// schemes are allowed: a template cannot run a script.
const allowed = /^(https?|vscode|vscode-insiders|vscodium|cursor|idea|jetbrains|zed|subl|txmt|emacs|editor):/i;

// templates: [{name, template, prefix}]; what: {file, line, function, service, version}. In a template
// {path} is the file without its prefix (also written {file}), {revision} the version
export function linksFor(templates, what) {
    const out = [];
    for (const t of templates ?? []) {
        if (!what.file && /\{(file|path)\}/.test(t.template)) continue;
        if (t.prefix && !what.file.startsWith(t.prefix)) continue;
        const file = t.prefix ? what.file.slice(t.prefix.length).replace(/^\/+/, "") : what.file;
        const link = t.template.replace(/\{(\w+)\}/g, (_, k) => {
            if (k === "file" || k === "path") return encodeURI(file).replace(/[?#]/g, encodeURIComponent);
            if (k === "revision") return encodeURIComponent(what.version || "HEAD");
            return encodeURIComponent(what[k] ?? "");
        });
        const scheme = allowed.exec(link)?.[1].toLowerCase();
        if (scheme) out.push({name: scheme.startsWith("http") ? t.name || new URL(link).hostname : scheme, href: link});
    }
    return out;
}
