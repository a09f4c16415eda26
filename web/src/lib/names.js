// SPDX-License-Identifier: Apache-2.0
// Function names: a short form for narrow boxes, whether a frame belongs to the runtime or to user code, and why a
// frame has no name.
import {advised, FOLDED, frameName, kinds, LABEL, onlyFrames} from "./tree.js";

export function mappingName(frames, f) {
    const m = frames.mapping(f);
    return m.slice(m.lastIndexOf("/") + 1);
}

// The name without the path before the last package: handlers.(*Repo).Get for
// github.com/acme/shop/internal/handlers.(*Repo).Get.
export function shortName(name) {
    const binary = name.match(/^\[.*\/([^/\]]+)\]$/); // a frame without a name: show its binary
    if (binary) return `[${binary[1]}]`;
    const paren = name.search(/[([{<]/);
    const head = paren > 0 ? name.slice(0, paren) : name;
    const slash = head.lastIndexOf("/");
    if (slash >= 0) return name.slice(slash + 1);
    if (paren > 0 && name.includes("::")) {
        const plainName = name.replace(/^[\w:*&\s]+ (?=[\w:~]+(<.*>)?\()/, "").replace(/\(.*\)(\s*const)?$/s, "");
        return plainName || name;
    }
    return name;
}

// The name of a function in a list. The API gives frames without a name that of their binary, which flame graphs
// show in brackets.
export const functionName = (name) =>
    advised(name)?.name ?? (name.startsWith("/") ? `[${shortName(name)}]` : shortName(name));

// Texts for rows {name, file}, by row: those that would read alike have the folder or the file that differs.
export function distinctNames(rows) {
    const out = new Map(),
        alike = new Map();
    for (const r of rows) {
        const text = functionName(r.name);
        out.set(r, text);
        alike.set(text, [...(alike.get(text) ?? []), r]);
    }
    for (const list of alike.values()) if (list.length > 1) for (const r of list) out.set(r, apart(r, list));
    return out;
}

const tail = (path, parts) => path.split("/").slice(-parts).join("/");

function apart(r, list) {
    const others = list.filter((x) => x !== r);
    if (r.name.startsWith("/"))
        for (let n = 2; n <= 6; n++)
            if (others.every((x) => tail(x.name, n) !== tail(r.name, n))) return `[${tail(r.name, n)}]`;
    return r.file && others.some((x) => x.file !== r.file)
        ? `${functionName(r.name)} · ${tail(r.file, 1)}`
        : functionName(r.name);
}

// Shortens versions that are hashes (build ids, revisions) to their first digits.
export function shortVersion(v) {
    if (buildId.test(v)) return v.slice(0, 8);
    if (v.length > 24) return v.slice(0, 23) + "…";
    return v;
}

const buildId = /^([0-9a-f]{16,}|[\w-]{20}(\/[\w-]{20}){1,3})$/i; // GNU's, or a revision; Go's

export const isBuildId = (version) => buildId.test(version);

// The source of a regular expression for one of the patterns, which white space separates.
export const oneOf = ({raw}) => raw[0].trim().split(/\s+/).join("|");

const runtimeGo = /^(runtime|internal|syscall|sync|reflect|type|go|vendor)([./:]|$)/;
const stdGo = /^[a-z0-9]+(\/[a-z0-9]+)*$/; // no dot in the first element of the path: the standard library
const runtimeNative = new RegExp(
    `^(${oneOf`
        __ _start _dl_ clone3?$ start_thread __GI_ malloc free calloc realloc _int_ pthread_ __pthread_
        mem(cpy|set|move) str(len|cmp|cpy) operator\s(new|delete) std:: __gnu_cxx:: core:: alloc:: _Py
        Py[A-Z_] \[`})`,
);

// True if the frame belongs to the language's runtime or the kernel, or has no name. All others are user code.
export function isRuntime(frames, f) {
    const kind = frames.kindOf(f);
    if (f === FOLDED || kind === LABEL) return false;
    if (kind === 2) return true;
    const name = frames.function(f);
    if (!name) return true;
    if (/^\[.*\]$/.test(name)) return true;
    const file = frames.fileOf(f);
    if (/\/(site-packages|dist-packages|node_modules|vendor|pkg\/mod)\//.test(file)) return true;
    if (kind === 5) return /\/lib\/python\d|^<frozen/.test(file);
    if (kind === 6) return /^(java|javax|jdk|sun|kotlin|scala)\./.test(name);
    if (
        file.endsWith(".go") ||
        file.endsWith(".s") ||
        kind === 3 ||
        /\.\(\*|\.func\d/.test(name) ||
        (/^[\w./-]+\.[\w()*[\]]/.test(name) && !name.includes("::"))
    ) {
        const p = frames.packageOf(f);
        if (p === "main") return false;
        return runtimeGo.test(p) || (stdGo.test(p) && !p.includes("."));
    }
    return (
        runtimeNative.test(name) ||
        /^\/(usr\/)?(lib|include)/.test(file) ||
        /^(libc|ld-linux|libstdc|libpthread|libm|libpython)/.test(mappingName(frames, f))
    );
}

const entry = new RegExp(
    `^(${oneOf`
        _start __libc_start_main.* __libc_start_call_main generic_start_main.* clone3? __clone3?
        __GI___clone3? start_thread __start_thread thread_start asm_common_interrupt
        preload_run_main`})$`,
);
const interpreters = {
    5: new RegExp(
        `^(${oneOf`
        _?Py(Eval|Run|_Run|_Main|_Bytes|Object_(Call|Vectorcall|FastCall)|Function_|Vectorcall|CFunction|Import_)\w*
        _PyObject_(Call|MakeTpCall|Vectorcall|FastCall|Method)\w* _?PyObject_Call\w* pymain_\w+ pyrun_\w+
        run_(mod|eval_code_obj) py_main main_vectorcall method_vectorcall\w* cfunction_\w+ slot_tp_\w+
        vectorcall_\w+ call_function do_call_core function_code_fastcall builtin_exec exec_code_in_module
        import_(find_and_load|name) object_vacall type_call _?trampoline_\w+ py_trampoline_evaluator`})(\\.\\w+)*$`,
    ),
    6: new RegExp(
        `^(${oneOf`
        Interpreter call_stub JavaCalls::\w+ JavaMain JavaThread::\w+ Thread::call_run thread_native_entry
        ThreadJavaMain java_start jni_\w+ StubRoutines.*`})`,
    ),
    7: new RegExp(
        `^(${oneOf`
        Builtins_(InterpreterEntryTrampoline|JSEntry\w*|Call_\w+|ArgumentsAdaptor\w*)
        v8::internal::(Execution|\(anonymous\snamespace\)::Invoke|MicrotaskQueue) v8::Function::Call
        node::(Start|LoadEnvironment|InternalCallbackScope|MakeCallback|InternalMakeCallback|SpinEventLoop)
        uv_run uv__run uv__io_poll`})`,
    ),
};

// True if a frame only starts a program or runs an interpreter's loop: such frames are not shown unless asked for.
// has: the kinds of frames that the tree has; frames of an interpreter stay where functions of its programs are
// not known.
function isPlumbing(frames, f, has) {
    if (f === FOLDED || languageOf(frames, f) > 1) return false;
    const name = frames.function(f);
    if (!name) return false;
    if (entry.test(name)) return true;
    for (const k in interpreters) if (has[k] && interpreters[k].test(name)) return true;
    return false;
}

// Frames of pprof files have no kind: there the name of the file tells.
/** @type {[RegExp, number][]} */
const suffixes = [
    [/\.py$|^<(string|stdin|frozen .*)>$/, 5],
    [/\.(java|kt|scala)$/, 6],
    [/\.[cm]?[jt]s$/, 7],
];

function languageOf(frames, f) {
    const kind = frames.kindOf(f),
        file = kind === 0 ? frames.fileOf(f) : "";
    return (file && suffixes.find(([re]) => re.test(file))?.[1]) || kind;
}

// Which kinds of frames a tree has, as one byte each.
function kindsOf(frames) {
    const has = new Uint8Array(128);
    for (let f = 1; f < frames.n; f++) has[languageOf(frames, f)] = 1;
    return has;
}

// Without frames that only start programs and run interpreters. The tree itself where it has none.
export function foldPlumbing(t) {
    const has = kindsOf(t.frames);
    for (let f = 1; f < t.frames.n; f++)
        if (isPlumbing(t.frames, f, has)) return onlyFrames(t, (frames, i) => !isPlumbing(frames, i, has));
    return t;
}

export function mineBy(pattern) {
    if (!pattern) return (frames, f) => !isRuntime(frames, f);
    let re;
    try {
        re = new RegExp(pattern);
    } catch {
        return (frames, f) => !isRuntime(frames, f);
    }
    return (frames, f) => re.test(frameName(frames, f)) || re.test(frames.fileOf(f)) || re.test(frames.mapping(f));
}

export function kindBadge(frames, f) {
    return kinds[frames.kindOf(f)] ?? "";
}

// Why a frame has no name, and how to get one. Null for frames that have one.
export function whyUnnamed(frames, f) {
    if (f === FOLDED) return null;
    const advice = advised(frames.function(f))?.advice;
    if (advice) return {why: "Code that was generated at run time, without names.", fix: advice};
    if (frames.function(f)) return null;
    const map = frames.mapping(f);
    if (!map)
        return {
            why: "The sender reported an address without its binary.",
            fix:
                "Code generated at run time (JIT) or an unmapped address: update the sender, or " +
                "profile with wick agent.",
        };
    if (/vdso|vsyscall/.test(map)) return {why: `${map} is part of the kernel and has no symbol file.`, fix: ""};
    if (/^\[|^\/\/anon|memfd:|\(deleted\)/.test(map))
        return {
            why: `${map} is memory without a file: code generated at run time.`,
            fix:
                "Let the runtime write a perf map (node --perf-basic-prof, java " +
                "-XX:+PreserveFramePointer with an agent).",
        };
    return {
        why: `No symbols for ${map} yet: it is stripped, or its debug information is not on this server.`,
        fix: `wick symbols upload ${map.startsWith("/") ? map : "PATH/" + map}`,
    };
}
