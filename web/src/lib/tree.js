// SPDX-License-Identifier: Apache-2.0
// Trees in the binary form of the API (its bytes: src/query/tree_form.h), as typed arrays. A child's index is
// larger than its parent's; node 0 is the root; frame 0 is "(folded)": what was cut below its parent, summed
// exactly.
export const FOLDED = 0,
    NONE = 0xffffffff;
// Kind of frames that are not code but the value of a label.
export const LABEL = 0x7f;

export const kinds = [
    "",
    "native",
    "kernel",
    "go",
    "rust",
    "python",
    "jvm",
    "js",
    "php",
    "ruby",
    "perl",
    ".net",
    "beam",
    "luajit",
];

const decoder = new TextDecoder();

// Text section: strings by byte offset, each decoded once.
class Texts {
    constructor(bytes) {
        this.bytes = bytes;
        this.all = new Map();
    }
    at(off) {
        let s = this.all.get(off);
        if (s === undefined) {
            let end = this.bytes.indexOf(0, off);
            if (end < 0) end = this.bytes.length;
            s = end === off ? "" : decoder.decode(this.bytes.subarray(off, end));
            this.all.set(off, s);
        }
        return s;
    }
}

// Frames in parallel arrays: functions[i], files[i], mappings[i] are strings, decoded when needed.
export class Frames {
    /** @type {number} */
    n;
    /** @type {{at: (offset: number) => string}} */
    texts;
    /** @type {ArrayLike<number>} */
    fn;
    /** @type {ArrayLike<number>} */
    file;
    /** @type {ArrayLike<number>} */
    map;
    /** @type {ArrayLike<number>} */
    pkg;
    /** @type {ArrayLike<number>} */
    line;
    /** @type {ArrayLike<number>} */
    kind;

    constructor(n, texts, fn, file, map, pkg, line, kind) {
        Object.assign(this, {n, texts, fn, file, map, pkg, line, kind});
    }
    function(i) {
        return this.texts.at(this.fn[i]);
    }
    fileOf(i) {
        return this.texts.at(this.file[i]);
    }
    mapping(i) {
        return this.texts.at(this.map[i]);
    }
    // The package as decided by the server (model/frame_package.c).
    packageOf(i) {
        return this.texts.at(this.pkg[i]);
    }
    // The frame's name in a path; store/frames.c has the same rule.
    key(i) {
        return this.texts.at(this.fn[i] || this.map[i]) || "[unknown]";
    }
    kindOf(i) {
        return this.kind[i] & 0x7f;
    }
    inlined(i) {
        return (this.kind[i] & 0x80) !== 0;
    }
}

// Node 0 is the root. A tree that was made of another one (source) knows which node is which: origin, image.
export class Tree {
    /** @type {number} how many nodes */
    n;
    /** @type {number} of values: one, or two to compare */
    columns;
    /** @type {string} */
    type;
    /** @type {string} */
    unit;
    /** @type {Frames} */
    frames;
    /** @type {Uint32Array} */
    frame;
    /** @type {Uint32Array} */
    parent;
    /** @type {Float64Array[]} by column */
    self;
    /** @type {Float64Array[]} by column */
    total;
    /** @type {Uint32Array | null} how many frames a folded node stands for */
    folded;
    /** @type {{ns: number, base: number, rate: number, rates: number[]} | undefined} */
    cover;
    /** @type {Tree | undefined} */
    source;
    /** @type {Uint32Array | undefined} */
    origin;
    /** @type {Uint32Array | undefined} */
    image;
    /** @type {{first: Uint32Array, kids: Uint32Array} | undefined} made when asked for */
    lists;
    /** @type {boolean | undefined} the server folded small frames */
    coarse;
    /** @type {boolean | undefined} a second source sent some of it */
    also;
    /** @type {boolean | undefined} names are still to come */
    naming;
    /** @type {{[key: string]: any} | undefined} what the server says about the answer */
    notes;

    constructor(fields) {
        Object.assign(this, fields);
    }
    name(node) {
        return node === 0 ? "all" : frameName(this.frames, this.frame[node]);
    }
    isFolded(node) {
        return node !== 0 && this.frame[node] === FOLDED;
    }
    // Names from below the root down to node. If siblings have the same name, a tab and the file are appended to
    // it. Paths are those of the tree as the server has it, also where frames of it are not shown.
    path(node) {
        if (this.source) return this.source.path(this.origin[node]);
        const names = [];
        for (let i = node; i; i = this.parent[i]) {
            const key = this.frames.key(this.frame[i]),
                file = this.frames.fileOf(this.frame[i]);
            names.push(file && this.hasNamesake(i) ? key + "\t" + file : key);
        }
        return names.reverse();
    }
    hasNamesake(node) {
        const {first, kids} = this.children(),
            p = this.parent[node],
            key = this.frames.key(this.frame[node]);
        for (let k = first[p]; k < first[p + 1]; k++)
            if (kids[k] !== node && !this.isFolded(kids[k]) && this.frames.key(this.frame[kids[k]]) === key)
                return true;
        return false;
    }
    // Children as lists: those of node i are kids[first[i]] … kids[first[i + 1] - 1], in index order (by name).
    children() {
        if (this.lists) return this.lists;
        const {n, parent} = this;
        const first = new Uint32Array(n + 1),
            kids = new Uint32Array(Math.max(0, n - 1));
        for (let i = 1; i < n; i++) first[parent[i] + 1]++;
        for (let i = 0; i < n; i++) first[i + 1] += first[i];
        const at = first.slice(0, n);
        for (let i = 1; i < n; i++) kids[at[parent[i]]++] = i;
        return (this.lists = {first, kids});
    }
    // The node at a path of names, or the deepest one on it that exists.
    find(names) {
        if (this.source) {
            const {node, whole} = this.source.find(names);
            return {node: this.image[node], whole};
        }
        const {first, kids} = this.children();
        let at = 0;
        for (const text of names) {
            const [name, file] = text.split("\t");
            let next = -1;
            for (let k = first[at]; k < first[at + 1] && next < 0; k++) {
                const f = this.frame[kids[k]];
                if (
                    f !== FOLDED &&
                    this.frames.key(f) === name &&
                    (file === undefined || this.frames.fileOf(f) === file)
                )
                    next = kids[k];
            }
            if (next < 0) return {node: at, whole: false};
            at = next;
        }
        return {node: at, whole: true};
    }
    get hasFolded() {
        return !!this.folded;
    }
}

// The displayed name of a frame: if it has none, that of its binary.
// What the agent calls code that a runtime generates and does not name says what would help:
// "[node: run with --perf-basic-prof]". Null for names of functions; otherwise a name for it, and the advice.
export function advised(name) {
    const m = /^\[([^\]:]+): ([^\]]*)\]$/.exec(name);
    return m && {name: m[1].includes("without names") ? `[${m[1]}]` : `[${m[1]}: no names]`, advice: m[2]};
}

export function frameName(frames, f) {
    if (f === FOLDED) return "(folded)";
    const name = frames.function(f);
    if (name) return advised(name)?.name ?? name;
    const map = frames.mapping(f);
    if (map) return `[${map.slice(map.lastIndexOf("/") + 1)}]`;
    return frames.fileOf(f) || "[unknown]";
}

export function parseTree(buffer) {
    const head = new Uint32Array(buffer, 0, 8);
    if (head[0] !== 0x32525457) throw new Error("not a tree");
    const [, n, m, columns, textBytes, flags, damaged, damage] = head;
    let at = 32;
    const take = (Type, count) => {
        const a = new Type(buffer, at, count);
        at = (at + a.byteLength + 7) & ~7;
        return a;
    };
    const parent = take(Uint32Array, n),
        frame = take(Uint32Array, n);
    const self = [],
        total = [];
    for (let c = 0; c < columns; c++) self.push(take(Float64Array, n));
    for (let c = 0; c < columns; c++) total.push(take(Float64Array, n));
    const folded = flags & 1 ? take(Uint32Array, n) : null;
    const fn = take(Uint32Array, m),
        file = take(Uint32Array, m),
        map = take(Uint32Array, m),
        pkg = take(Uint32Array, m);
    const line = take(Uint32Array, m),
        kind = take(Uint8Array, m);
    const texts = new Texts(new Uint8Array(buffer, at, textBytes));
    const type = texts.at(1),
        unit = texts.at(texts.bytes.indexOf(0, 1) + 1);
    at = (at + textBytes + 7) & ~7;
    const cover = flags & 8 ? coverOf([...new Float64Array(buffer, at, 5)]) : undefined;
    const notes =
        damaged || flags & 22
            ? {
                  damaged,
                  damage: damage ? texts.at(damage) : "",
                  coarse: (flags & 2) !== 0,
                  also: (flags & 4) !== 0,
                  naming: (flags & 16) !== 0,
              }
            : undefined;
    return new Tree({
        n,
        columns,
        parent,
        frame,
        self,
        total,
        folded,
        type,
        unit,
        notes,
        cover,
        frames: new Frames(m, texts, fn, file, map, pkg, line, kind),
        bytes: buffer.byteLength,
    });
}

// Covered nanoseconds per column (base is that of the first of two) and the sampling rate in Hz: the mean where several
// were in force.
/** @param {number[]} of */
export function coverOf([first, second, low, high, mean]) {
    return {base: first, ns: second || first, rate: mean || low, rates: low < high ? [low, high] : [low]};
}

// An empty object with the interface of Texts, for frames that are made here.
class Made {
    constructor() {
        this.list = [""];
    }
    at(i) {
        return this.list[i];
    }
    add(s) {
        this.list.push(s);
        return this.list.length - 1;
    }
}

// Builds trees node by node; frames are keyed by what distinguishes them in the display.
export class Builder {
    constructor(columns, type, unit) {
        this.columns = columns;
        this.type = type;
        this.unit = unit;
        this.texts = new Made();
        this.f = {fn: [0], file: [0], map: [0], pkg: [0], line: [0], kind: [0]};
        this.fkey = new Map();
        this.parent = [NONE];
        this.frame = [0];
        this.self = Array.from({length: columns}, () => [0]);
        this.folded = null;
        this.nkey = new Map();
        this.tkey = new Map([["", 0]]);
    }
    text(s) {
        let i = this.tkey.get(s);
        if (i === undefined) this.tkey.set(s, (i = this.texts.add(s)));
        return i;
    }
    addFrame(fn, file = "", map = "", line = 0, kind = 0, pkg = "") {
        const key = fn + "\0" + file + "\0" + map + "\0" + line + "\0" + kind;
        let i = this.fkey.get(key);
        if (i === undefined) {
            i = this.f.fn.length;
            this.f.fn.push(this.text(fn));
            this.f.file.push(this.text(file));
            this.f.map.push(this.text(map));
            this.f.pkg.push(this.text(pkg));
            this.f.line.push(line);
            this.f.kind.push(kind);
            this.fkey.set(key, i);
        }
        return i;
    }
    // Imports the frames of another tree, each looked up once.
    importFrames(frames) {
        const map = new Int32Array(frames.n).fill(-1);
        map[FOLDED] = FOLDED;
        return (i) => {
            if (map[i] < 0)
                map[i] = this.addFrame(
                    frames.function(i),
                    frames.fileOf(i),
                    frames.mapping(i),
                    frames.line[i],
                    frames.kind[i],
                    frames.packageOf(i),
                );
            return map[i];
        };
    }
    child(parent, frame) {
        const key = parent * 4194304 + frame;
        let i = this.nkey.get(key);
        if (i === undefined) {
            i = this.parent.length;
            this.parent.push(parent);
            this.frame.push(frame);
            for (const s of this.self) s.push(0);
            this.nkey.set(key, i);
        }
        return i;
    }
    addFolded(node, count) {
        this.folded ??= new Map();
        this.folded.set(node, (this.folded.get(node) ?? 0) + count);
    }
    done() {
        const n = this.parent.length;
        const parent = Uint32Array.from(this.parent);
        const self = this.self.map((s) => Float64Array.from(s));
        const total = self.map((s) => s.slice());
        for (const t of total) for (let i = n - 1; i > 0; i--) t[parent[i]] += t[i];
        let folded = null;
        if (this.folded) {
            folded = new Uint32Array(n);
            for (const [k, v] of this.folded) folded[k] = v;
        }
        const f = this.f;
        return new Tree({
            n,
            columns: this.columns,
            parent,
            frame: Uint32Array.from(this.frame),
            self,
            total,
            folded,
            type: this.type,
            unit: this.unit,
            bytes: 0,
            frames: new Frames(f.fn.length, this.texts, f.fn, f.file, f.map, f.pkg, f.line, f.kind),
        });
    }
}

// A copy of t in which place(b, i, parent, frame) says where node i goes: to a child of parent with that frame, or
// to an existing node, to which its values are added. The copy knows which node of t each of its nodes was.
function reshape(t, place) {
    const b = new Builder(t.columns, t.type, t.unit);
    const frameOf = b.importFrames(t.frames);
    const image = new Uint32Array(t.n),
        origin = [0];
    for (let i = 1; i < t.n; i++) {
        image[i] = place(b, i, image[t.parent[i]], frameOf);
        if (image[i] === origin.length) origin.push(i);
        for (let c = 0; c < t.columns; c++) b.self[c][image[i]] += t.self[c][i];
        if (t.folded?.[i]) b.addFolded(image[i], t.folded[i]);
    }
    for (let c = 0; c < t.columns; c++) b.self[c][0] += t.self[c][0];
    return Object.assign(b.done(), {source: t, origin, image, notes: t.notes, cover: t.cover});
}

// A copy of t with the nodes that `keep(i)` accepts; the values of a removed node are added to its parent.
function rebuild(t, keep) {
    return reshape(t, (b, i, p, frameOf) => (t.frame[i] === FOLDED || keep(i) ? b.child(p, frameOf(t.frame[i])) : p));
}

// Collapses recursion into one box: a frame that calls itself any number of times, and also mutual recursion (a, b, a,
// b).
export function collapseRecursion(t) {
    return reshape(t, (b, i, p, frameOf) => {
        const f = frameOf(t.frame[i]);
        if (t.frame[i] !== FOLDED)
            for (let a = p, hops = 0; a && hops < 3; a = b.parent[a], hops++) if (b.frame[a] === f) return a;
        return b.child(p, f);
    });
}

// Keeps only frames that `mine(frame)` accepts; the own time of the others is added to their nearest remaining caller.
export function onlyFrames(t, mine) {
    const ok = new Int8Array(t.frames.n).fill(-1);
    return rebuild(t, (i) => {
        const f = t.frame[i];
        if (ok[f] < 0) ok[f] = mine(t.frames, f) ? 1 : 0;
        return ok[f] === 1;
    });
}

// The tree of callers: below the root are the functions with time of their own, below each what called it. The own
// time of a function is at its first box.
export function invertTree(t) {
    const b = new Builder(t.columns, t.type, t.unit),
        frameOf = b.importFrames(t.frames),
        shares = Array.from({length: t.columns}, () => [0]);
    const add = (i, node) => {
        for (let c = 0; c < t.columns; c++) {
            while (shares[c].length <= node) shares[c].push(0);
            shares[c][node] += t.self[c][i];
        }
    };
    for (let i = 1; i < t.n; i++) {
        if (t.self.every((s) => !s[i])) continue;
        let at = 0;
        for (let k = i; k; k = t.parent[k]) add(i, (at = b.child(at, frameOf(t.frame[k]))));
    }
    const out = b.done();
    for (let c = 0; c < t.columns; c++) for (let i = 1; i < out.n; i++) out.total[c][i] = shares[c][i] ?? 0;
    for (let c = 0; c < t.columns; c++) {
        out.total[c][0] = t.total[c][0];
        out.self[c][0] = t.self[c][0];
        for (let i = 1; i < out.n; i++) out.self[c][i] = out.parent[i] === 0 ? out.total[c][i] : 0;
    }
    return Object.assign(out, {notes: t.notes, cover: t.cover, inverted: true});
}

// The frames below the root that all of it is in, but for a fiftieth: [nodes], from the outermost on. The last
// frame before stacks part is not among them.
export function stemOf(t) {
    const {first, kids} = t.children(),
        out = [],
        enough = (i) => t.total.every((v) => v[i] >= 0.98 * v[0]);
    for (let at = 0; ; ) {
        const next = Array.from(kids.subarray(first[at], first[at + 1])).find((k) => enough(k) && !t.isFolded(k));
        if (next === undefined || first[next] === first[next + 1]) break;
        out.push((at = next));
    }
    return out.slice(0, -1);
}

// A copy in which what all stacks begin with is one row, "main … run": it tells nothing, and takes the room of
// what does.
const STEM = 3;
export function collapseStem(t) {
    const stem = stemOf(t),
        inside = new Set(stem),
        name = (i) => frameName(t.frames, t.frame[i]).replace(/^.*[/]/, "");
    if (stem.length < STEM) return t;
    const all = t.total.every((v) => v[stem[stem.length - 1]] >= v[0]) ? "all" : "nearly all";
    const text =
        `${name(stem[0])} … ${name(stem[stem.length - 1])} (${stem.length} frames that ${all} ` + "stacks begin with)";
    return Object.assign(
        reshape(t, (b, i, p, frameOf) =>
            inside.has(i) ? b.child(0, b.addFrame(text, "", "", 0, LABEL)) : b.child(p, frameOf(t.frame[i])),
        ),
        {stem: 1},
    );
}

// Joins several trees below one root, each under a frame with its name.
export function joinTrees(list, type, unit) {
    const b = new Builder(1, type, unit);
    for (const {name, tree} of list) {
        if (!tree) continue;
        const top = b.child(0, b.addFrame(name, "", "", 0, LABEL));
        const frameOf = b.importFrames(tree.frames);
        const to = new Uint32Array(tree.n);
        to[0] = top;
        b.self[0][top] += tree.self[0][0];
        for (let i = 1; i < tree.n; i++) {
            to[i] = b.child(to[tree.parent[i]], frameOf(tree.frame[i]));
            b.self[0][to[i]] += tree.self[0][i];
            if (tree.folded?.[i]) b.addFolded(to[i], tree.folded[i]);
        }
    }
    return b.done();
}

// The nodes of t below top, as one byte each; top itself is not included.
function below(t, top) {
    const yes = new Uint8Array(t.n);
    yes[top] = 1;
    for (let i = top + 1; i < t.n; i++) if (yes[t.parent[i]]) yes[i] = 1;
    yes[top] = 0;
    return yes;
}

// Returns `whole` with more detail below the path `names`, taken from `deep`: an answer zoomed to that path. If whole
// contains the whole path, deep replaces that part; if the path ends in a folded node, that part is subtracted from the
// folded sum.
export function graft(whole, names, deep) {
    const here = whole.find(names),
        at = deep.find(here.whole ? names : whole.path(here.node)).node;
    const b = new Builder(whole.columns, whole.type, whole.unit);
    const add = (t, to, want) => {
        const frameOf = b.importFrames(t.frames);
        for (let i = 1; i < t.n; i++) {
            if (!want(i)) continue;
            to[i] = b.child(to[t.parent[i]], frameOf(t.frame[i]));
            for (let c = 0; c < t.columns; c++) b.self[c][to[i]] += t.self[c][i];
            if (t.folded?.[i]) b.addFolded(to[i], t.folded[i]);
        }
    };
    const to = new Uint32Array(whole.n),
        to2 = new Uint32Array(deep.n);
    const old = below(whole, here.node),
        more = below(deep, at);
    let fold = -1;
    if (!here.whole) {
        const {first, kids} = whole.children();
        for (let k = first[here.node]; k < first[here.node + 1]; k++) if (whole.isFolded(kids[k])) fold = kids[k];
        if (fold < 0) return whole;
    }
    for (let c = 0; c < whole.columns; c++) b.self[c][0] = whole.self[c][0];
    add(whole, to, (i) => !here.whole || !old[i]);
    if (here.whole) for (let c = 0; c < whole.columns; c++) b.self[c][to[here.node]] = deep.self[c][at];
    else for (let c = 0; c < whole.columns; c++) b.self[c][to[fold]] -= deep.total[c][at] - deep.self[c][at];
    to2[at] = to[here.node];
    add(deep, to2, (i) => more[i]);
    return b.done();
}

// One column of a diff as a tree of its own.
export function columnOf(t, c) {
    const {base, ns, rate, rates} = t.cover ?? {};
    return new Tree({
        ...t,
        columns: 1,
        self: [t.self[c]],
        total: [t.total[c]],
        cover: t.cover && {base, ns: c ? ns : base, rate, rates},
    });
}

// A tree from its JSON form (answers of `callers`). If the root has only one child (the requested function), that one
// becomes the root.
export function treeOfJson(json) {
    let j = json;
    const single = j.nodes.length > 1 && j.nodes.every((n, i) => i < 2 || n[0] > 0) && j.nodes[1][0] === 0;
    if (single) j = {...j, nodes: j.nodes.slice(1).map((n, i) => [i ? n[0] - 1 : -1, ...n.slice(1)])};
    const b = new Builder(j.columns, j.type, j.unit);
    const kind = (k) => Math.max(0, kindNames.indexOf(k ?? ""));
    const frames = j.frames.map((f, i) =>
        i === FOLDED
            ? FOLDED
            : b.addFrame(
                  f.function ?? "",
                  f.file ?? "",
                  f.mapping ?? "",
                  f.line ?? 0,
                  kind(f.kind) | (f.inlined ? 0x80 : 0),
                  f.package ?? "",
              ),
    );
    const to = new Uint32Array(j.nodes.length);
    j.nodes.forEach((node, i) => {
        if (i) to[i] = b.child(to[node[0]], frames[node[1]]);
        for (let c = 0; c < j.columns; c++) b.self[c][to[i]] += node[2 + 2 * c];
        const folded = node[2 + 2 * j.columns];
        if (folded) b.addFolded(to[i], folded);
    });
    return b.done();
}
const kindNames = [
    "",
    "native",
    "kernel",
    "go",
    "rust",
    "cpython",
    "jvm",
    "v8js",
    "php",
    "ruby",
    "perl",
    "dotnet",
    "beam",
    "luajit",
];
