# SPDX-License-Identifier: Apache-2.0
"""What a profile says, by its own tool or by the few lines of Python that its documentation needs: the truth for the tests of
wick's readers. An answer is {type: {(frame, ...): value}}, frames from the root to the leaf.

`python3 file_oracles.py jfr FILE` writes the answer as JSON: so the .expected.json.gz files beside the recordings of
tests/data/files were made, for machines without a JDK."""
import gzip
import json
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

JFR = shutil.which("jfr")


def sums():
    return defaultdict(lambda: defaultdict(int))


def plain(answer):
    return {t: {k: v for k, v in stacks.items() if v} for t, stacks in answer.items() if any(stacks.values())}


# --- wick's own answer, through OTLP/JSON ---

def otlp_stacks(doc, lines=False):
    """{type or period_type:type: {stack: sum}} of an OTLP/JSON document."""
    d = doc["dictionary"]
    strings = d["stringTable"]

    def frames(location):
        for line in d["locationTable"][location].get("lines", []):
            f = d["functionTable"][line.get("functionIndex", 0)]
            name = strings[f.get("nameStrindex", 0)]
            yield f"{name}:{line.get('line', 0)}" if lines else name

    answer = sums()
    for rp in doc["resourceProfiles"]:
        for sp in rp["scopeProfiles"]:
            for p in sp["profiles"]:
                t = strings[p["sampleType"]["typeStrindex"]]
                of = strings[p.get("periodType", {}).get("typeStrindex", 0)]
                key = f"{of}:{t}" if of in ("mutex", "block") else t
                for s in p.get("samples", []):
                    leaf_first = [f for i in d["stackTable"][s.get("stackIndex", 0)].get("locationIndices", []) for f in frames(i)]
                    answer[key][tuple(reversed(leaf_first))] += sum(int(v) for v in s.get("values", []))
    return plain(answer)


# --- Java Flight Recorder: the JDK's jfr tool ---

def jfr_seconds(text):
    """An ISO duration, PT1M0.5S, as nanoseconds."""
    m = re.fullmatch(r"PT(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)(?:\.(\d+))?S)?", text)
    h, minutes, s, fraction = m.groups()
    return ((int(h or 0) * 60 + int(minutes or 0)) * 60 + int(s or 0)) * 10**9 + int((fraction or "0").ljust(9, "0")[:9])


def jfr_class(name):
    name = re.sub(r"(\$\$Lambda)[$./0-9a-fx+]+$", r"\1_", name)
    name = re.sub(r"(?<=.)\+0x[$./0-9a-fx+]+$", "_", name)  # other hidden classes
    return re.sub(r"^(jdk/internal/reflect/GeneratedMethodAccessor)\d+$", r"\1_", name)


def jfr_stack(values):
    trace = values.get("stackTrace")
    if not trace:
        return None
    frames = []
    for f in trace["frames"]:
        m, kind = f["method"], f["type"]
        name = m["name"]
        if kind not in ("Native", "C++", "Kernel") and m["type"] and m["type"]["name"]:
            name = jfr_class(m["type"]["name"]) + "." + name
        frames.append(name)
    return tuple(reversed(frames))


def jfr(path, periods):
    """periods: nanoseconds that a sample of cpu, wall and native stands for."""
    p = subprocess.run([JFR, "print", "--json", "--stack-depth", "4096", str(path)], capture_output=True, check=True, timeout=120)
    answer = sums()
    for event in json.loads(p.stdout)["recording"]["events"]:
        kind, v = event["type"], event["values"]
        stack = jfr_stack(v)
        if stack is None:
            continue
        if kind == "jdk.ExecutionSample":
            answer["cpu"][stack] += periods["cpu"]
        elif kind == "jdk.NativeMethodSample":
            answer["native"][stack] += periods["native"]
        elif kind == "profiler.WallClockSample":
            answer["wall"][stack] += v["samples"] * periods["wall"]
        elif kind in JFR_SIZES:
            name, size, objects, total = JFR_SIZES[kind]
            answer[objects][stack] += 1
            answer[total][stack] += v[size]
        elif kind in ("jdk.JavaMonitorEnter", "jdk.ThreadPark"):
            of = "mutex" if kind == "jdk.JavaMonitorEnter" else "block"
            answer[of + ":contentions"][stack] += 1
            answer[of + ":delay"][stack] += jfr_seconds(v["duration"])
    return plain(answer)


JFR_SIZES = {
    "jdk.ObjectAllocationInNewTLAB": ("in", "tlabSize", "alloc_in_new_tlab_objects", "alloc_in_new_tlab_bytes"),
    "jdk.ObjectAllocationOutsideTLAB": ("out", "allocationSize", "alloc_outside_tlab_objects", "alloc_outside_tlab_bytes"),
    "jdk.ObjectAllocationSample": ("sample", "weight", "alloc_sample_objects", "alloc_sample_bytes"),
    "profiler.LiveObject": ("live", "allocationSize", "live", "inuse_space"),
    "profiler.Malloc": ("malloc", "size", "malloc_objects", "malloc_bytes"),
}
JFR_PERIODS = {
    "jdk-17.jfr": {"cpu": 10_000_000, "native": 20_000_000, "wall": 0},
    "async-profiler-4.5.jfr": {"cpu": 5_000_000, "native": 0, "wall": 20_000_000},
}


# --- V8: the format is what the DevTools protocol documents as Profiler.Profile ---

def v8_name(node):
    return node["callFrame"]["functionName"] or "(anonymous)"


def v8_stack(nodes, parents, node):
    out = []
    while node in parents or node in nodes:
        if v8_name(nodes[node]) != "(root)":
            out.append(v8_name(nodes[node]))
        if node not in parents:
            break
        node = parents[node]
    return tuple(reversed(out))


def v8_sum(nodes, parents, samples, deltas, end=None):
    answer, at = sums(), 0
    for i, node in enumerate(samples):
        at += deltas[i]
        us = deltas[i + 1] if i + 1 < len(samples) else max(end - at, 0) if end else 0
        stack = v8_stack(nodes, parents, node)
        answer["samples"][stack] += 1
        answer["wall"][stack] += max(us, 0) * 1000
    return plain(answer)


def cpuprofile(path):
    doc = json.loads(Path(path).read_text())
    nodes = {n["id"]: n for n in doc["nodes"]}
    parents = {c: n["id"] for n in doc["nodes"] for c in n.get("children", [])}
    return v8_sum(nodes, parents, doc["samples"], doc["timeDeltas"], doc["endTime"] - doc["startTime"])


def heapprofile(path):
    answer = sums()

    def walk(node, above):
        stack = above if v8_name(node) == "(root)" else above + (v8_name(node),)
        answer["inuse_space"][stack] += node["selfSize"]
        for child in node.get("children", []):
            walk(child, stack)

    walk(json.loads(Path(path).read_text())["head"], ())
    return plain(answer)


def chrome_trace(path):
    """One profile; its chunks in order."""
    nodes, samples, deltas = {}, [], []
    for event in json.loads(gzip.decompress(Path(path).read_bytes()))["traceEvents"]:
        if event["name"] == "ProfileChunk":
            data = event["args"]["data"]
            nodes |= {n["id"]: n for n in data.get("cpuProfile", {}).get("nodes", [])}
            samples += data.get("cpuProfile", {}).get("samples", [])
            deltas += data.get("timeDeltas", [])
    return v8_sum(nodes, {i: n["parent"] for i, n in nodes.items() if "parent" in n}, samples, deltas)


# --- gprof2dot's JSON, speedscope ---

def gprof2dot(path):
    doc, answer = json.loads(Path(path).read_text()), sums()
    for event in doc["events"]:
        answer["inuse_space"][tuple(doc["functions"][i]["name"] for i in reversed(event["callchain"]))] += event["cost"][0]
    return plain(answer)


def speedscope(path, scale=1):
    doc, answer = json.loads(Path(path).read_text()), sums()
    names = [f["name"] for f in doc["shared"]["frames"]]
    for p in doc["profiles"]:
        for sample, weight in zip(p["samples"], p["weights"]):
            answer[p["name"]][tuple(names[i] for i in sample)] += round(weight * scale)
    return plain(answer)


# --- perf.data: perf script ---

KERNEL = 0xffff800000000000  # its addresses begin here


def perf_script(path):
    """{(dso, address) from the root to the leaf: sum of periods}; callers are one byte before the return address. The first
    of the program's frames was interrupted, also where kernel code ran."""
    p = subprocess.run(["perf", "script", "-i", str(path), "-F", "tid,period,event,ip,dso"], capture_output=True, check=True, text=True)
    answer, period, frames = defaultdict(int), 0, []
    for line in [*p.stdout.split("\n"), ""]:
        words = line.split()
        if not words and frames:
            calls = [i > 0 and ip > 0 and (ip < KERNEL) == (frames[i - 1][0] < KERNEL) for i, (ip, _) in enumerate(frames)]
            answer[tuple(f"{dso}+{ip - call:x}" for call, (ip, dso) in reversed(list(zip(calls, frames))))] += period
            frames = []
        elif words and words[-1].endswith(")") and words[-1].startswith("("):
            frames.append((int(words[0], 16), words[-1][1:-1]))
        elif words:
            period = int(words[1])
    return {"cpu": dict(answer)}


def otlp_addresses(doc, kind):
    """{(dso+address) from the root to the leaf: sum} of frames without names."""
    d, answer = doc["dictionary"], defaultdict(int)
    strings = d["stringTable"]

    def frame(i):
        l = d["locationTable"][i]
        m, address = d["mappingTable"][l.get("mappingIndex", 0)], int(l.get("address", 0))
        name = strings[m.get("filenameStrindex", 0)] or "[unknown]"
        if not name.startswith("["):  # perf prints where it is in the file
            address += int(m.get("fileOffset", 0)) - int(m.get("memoryStart", 0))
        return f"{name}+{address:x}"

    for p in (p for r in doc["resourceProfiles"] for s in r["scopeProfiles"] for p in s["profiles"]):
        if strings[p["sampleType"]["typeStrindex"]] == kind:
            for s in p["samples"]:
                stack = d["stackTable"][s.get("stackIndex", 0)].get("locationIndices", [])
                answer[tuple(frame(i) for i in reversed(stack))] += sum(int(v) for v in s["values"])
    return {kind: dict(answer)}


def save(answer, path):
    text = json.dumps({t: {";".join(k): v for k, v in sorted(s.items())} for t, s in sorted(answer.items())}, indent=0)
    Path(path).write_bytes(gzip.compress(text.encode(), 9, mtime=0))


def load(path):
    doc = json.loads(gzip.decompress(Path(path).read_bytes()))
    return {t: {tuple(k.split(";")) if k else (): v for k, v in s.items()} for t, s in doc.items()}


if __name__ == "__main__" and sys.argv[1] == "jfr":
    file = Path(sys.argv[2])
    save(jfr(file, JFR_PERIODS[file.name]), sys.argv[3])
