// SPDX-License-Identifier: Apache-2.0
// node web/build.mjs OUT [MODULES]
//
// Bundles the UI into OUT: index.html, app.js, app.css, icon.svg; OUT/page/page.html, the page of HTML exports,
// with its script and style inside; and OUT/sizes.json with each file's plain and gzipped size. Fails when the
// gzipped sum is over the limit. node_modules live in MODULES (default OUT/modules): they are fetched with `npm ci
// --ignore-scripts` once, and again when the lock file changes; nothing is written beside the sources. Works with
// node 18 and later.
import {execFileSync} from "node:child_process";
import fs from "node:fs";
import {createRequire} from "node:module";
import path from "node:path";
import {fileURLToPath} from "node:url";
import zlib from "node:zlib";

const LIMIT = 180 * 1000; // gzipped bytes of everything that a browser loads
const web = path.dirname(fileURLToPath(import.meta.url));
const out = path.resolve(process.argv[2] ?? path.join(web, "dist"));
const modules = path.resolve(process.argv[3] ?? path.join(out, "modules"));

function same(a, b) {
    return fs.existsSync(b) && fs.readFileSync(a).equals(fs.readFileSync(b));
}

function fetchModules() {
    const lock = path.join(web, "package-lock.json");
    const stamp = path.join(modules, "node_modules", ".lock-of-this");
    if (same(lock, stamp)) return;
    fs.mkdirSync(modules, {recursive: true});
    for (const f of ["package.json", "package-lock.json"]) fs.copyFileSync(path.join(web, f), path.join(modules, f));
    execFileSync("npm", ["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"], {
        cwd: modules,
        stdio: ["ignore", "ignore", "inherit"],
    });
    fs.copyFileSync(lock, stamp);
}

async function bundle() {
    const esbuild = createRequire(path.join(modules, "node_modules", "x.js"))("esbuild");
    await esbuild.build({
        entryPoints: {app: path.join(web, "src", "main.js")},
        outdir: out,
        bundle: true,
        minify: true,
        format: "esm",
        target: ["es2022"],
        legalComments: "none",
        loader: {".js": "jsx"},
        jsx: "automatic",
        jsxImportSource: "preact",
        nodePaths: [path.join(modules, "node_modules")],
        logLevel: "warning",
    });
}

// The page of HTML exports: {{STYLE}} and {{SCRIPT}} are filled in here, {{TITLE}} and {{DATA}} by src/report/html.c.
async function bundlePage() {
    const esbuild = createRequire(path.join(modules, "node_modules", "x.js"))("esbuild");
    const folder = path.join(out, "page");
    await esbuild.build({
        entryPoints: {page: path.join(web, "src", "page.js")},
        outdir: folder,
        bundle: true,
        minify: true,
        format: "iife",
        target: ["es2022"],
        legalComments: "none",
        loader: {".js": "jsx"},
        jsx: "automatic",
        jsxImportSource: "preact",
        nodePaths: [path.join(modules, "node_modules")],
        logLevel: "warning",
    });
    const text = (name) => fs.readFileSync(path.join(folder, name), "utf8");
    const page = fs
        .readFileSync(path.join(web, "page.html"), "utf8")
        .replace("{{STYLE}}", () => text("page.css").trim())
        .replace("{{SCRIPT}}", () => text("page.js").trim());
    fs.writeFileSync(path.join(folder, "page.html"), page);
}

function finish() {
    const sizes = {};
    let sum = 0;
    for (const f of ["index.html", "icon.svg"]) fs.copyFileSync(path.join(web, f), path.join(out, f));
    for (const f of ["index.html", "app.js", "app.css", "icon.svg"]) {
        const bytes = fs.readFileSync(path.join(out, f));
        sizes[f] = {bytes: bytes.length, gzip: zlib.gzipSync(bytes, {level: 9}).length};
        sum += sizes[f].gzip;
    }
    fs.writeFileSync(
        path.join(out, "sizes.json"),
        JSON.stringify({...sizes, total: sum, limit: LIMIT}, null, 1) + "\n",
    );
    if (sum > LIMIT) throw new Error(`the UI is ${sum} bytes gzipped, the limit is ${LIMIT}`);
}

fs.mkdirSync(out, {recursive: true});
fetchModules();
await bundle();
await bundlePage();
finish();
