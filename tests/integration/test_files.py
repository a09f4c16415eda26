# SPDX-License-Identifier: Apache-2.0
"""Profiles of other tools through `wick convert`: totals and stacks against the tool's own reader (file_oracles.py), on files
that the real tools wrote (tests/data/files), and on new ones where the tool is on the machine."""
import gzip
import json
import os
import re
import shutil
import subprocess

import pytest

import file_oracles as oracle
from wick_tools import ROOT, some

FILES = ROOT / "tests/data/files"
WICK = os.environ.get("WICK_ASAN", str(ROOT / "build-asan/src/cli/wick"))


def convert(path, *args, ok=True):
    p = subprocess.run([WICK, "convert", *args, str(path), "--to", "otlp-json", "-"], capture_output=True, timeout=60)
    if not ok:
        assert p.returncode == 1, p.stdout[:200]
        return p.stderr.decode()
    assert p.returncode == 0, p.stderr.decode()
    return json.loads(p.stdout)


def stacks(path, *args):
    return oracle.otlp_stacks(convert(path, *args))


# --- JFR ---

@pytest.mark.parametrize("name", sorted(oracle.JFR_PERIODS))
def test_jfr(name):
    """Every event kind, as the JDK's jfr tool prints it."""
    assert stacks(FILES / (name + ".gz")) == oracle.load(FILES / (name + ".expected.json.gz"))


def test_jfr_threads_and_frames(tmp_path):
    doc = convert(FILES / "async-profiler-4.5.jfr.gz")
    strings = doc["dictionary"]["stringTable"]
    attrs = {(strings[a["keyStrindex"]], a["value"].get("stringValue", a["value"].get("intValue")))
             for a in doc["dictionary"]["attributeTable"] if a.get("keyStrindex")}
    assert {("profile.frame.type", k) for k in ("jvm", "native")} <= attrs
    assert ("thread.name", "worker-0") in attrs
    lines = oracle.otlp_stacks(doc, lines=True)["cpu"]
    assert any(frame.startswith("Busy.spin:") and not frame.endswith(":0") for stack in lines for frame in stack)


def test_jfr_refused(tmp_path):
    whole = gzip.decompress((FILES / "async-profiler-4.5.jfr.gz").read_bytes())
    cases = {
        "cut": (whole[:5000], "is cut short"),
        "version": (whole[:5] + b"\x09" + whole[6:], "version 9.0 is not supported"),
        "plain": (whole[:67] + b"\0" + whole[68:], "without compressed integers"),
        "empty": (whole[:68], "is cut short"),
    }
    for name, (data, message) in cases.items():
        path = tmp_path / name
        path.write_bytes(data)
        assert message in convert(path, ok=False), name


@pytest.mark.slow
@pytest.mark.skipif(not oracle.JFR, reason="no JDK")
def test_jfr_of_this_jdk(tmp_path):
    (tmp_path / "Spin.java").write_text("""public class Spin { static volatile long s; public static void main(String[] a) {
        long end = System.currentTimeMillis() + 2000; while (System.currentTimeMillis() < end) { byte[] b = new byte[10000]; s += b.length; } } }""")
    path = tmp_path / "spin.jfr"
    subprocess.run(["java", f"-XX:StartFlightRecording=filename={path},settings=profile", "Spin.java"], cwd=tmp_path, check=True,
                   capture_output=True, timeout=120)
    assert stacks(path) == oracle.jfr(path, {"cpu": 10_000_000, "native": 20_000_000, "wall": 0})


# --- JSON formats ---

@pytest.mark.parametrize("name, read", [
    ("node-20.cpuprofile", oracle.cpuprofile),
    ("node-20.heapprofile", oracle.heapprofile),
    ("chrome.trace.json.gz", oracle.chrome_trace),
    ("memray-1.20.gprof2dot.json", oracle.gprof2dot),
])
def test_json_formats(name, read):
    got, want = stacks(FILES / name), read(FILES / name)
    assert sum(want[sorted(want)[0]].values()) > 0 and got == want


def test_node_of_this_machine(tmp_path):
    """Both profiles of one run, of whatever version of Node there is."""
    if not shutil.which("node"):
        pytest.skip("no Node")
    (tmp_path / "busy.js").write_text("""const keep = [];
        function deep(n) { return n ? deep(n - 1) + 1 : keep.push({a: [n, "x" + n]}); }
        for (let i = 0; i < 4000; i++) deep(150);""")
    subprocess.run(["node", "--cpu-prof", "--cpu-prof-name=x.cpuprofile", "--heap-prof", "--heap-prof-name=x.heapprofile",
                    "--heap-prof-interval=4096", "busy.js"], cwd=tmp_path, check=True, timeout=60)
    assert stacks(tmp_path / "x.cpuprofile") == oracle.cpuprofile(tmp_path / "x.cpuprofile")
    assert stacks(tmp_path / "x.heapprofile") == oracle.heapprofile(tmp_path / "x.heapprofile")


def test_deep_heap_profile(tmp_path):
    """V8 nests nodes as deep as the stack was, which is deeper than JSON parsers like to go."""
    node = {"children": [], "selfSize": 8, "callFrame": {"functionName": "leaf", "scriptId": "1", "url": "a.js", "lineNumber": 1, "columnNumber": 0}, "id": 999}
    for i in range(200):
        node = {"children": [node], "selfSize": i % 3, "id": i, "callFrame": {
            "functionName": "(root)" if i == 199 else f"f{i}", "scriptId": "1", "url": "a.js", "lineNumber": i, "columnNumber": 0}}
    (tmp_path / "x.heapprofile").write_text(json.dumps({"head": node, "samples": []}))
    heap = oracle.heapprofile(tmp_path / "x.heapprofile")
    assert max(map(len, heap["inuse_space"])) > 190
    assert stacks(tmp_path / "x.heapprofile") == heap


def test_speedscope(tmp_path):
    """What wick writes, it reads; and the two kinds of profiles of other tools, each profile a thread."""
    out = tmp_path / "x.speedscope.json"
    subprocess.run([WICK, "convert", str(FILES / "node-20.cpuprofile"), str(out)], check=True, timeout=60)
    assert stacks(out) == oracle.speedscope(out) == oracle.cpuprofile(FILES / "node-20.cpuprofile")
    doc = {"$schema": "https://www.speedscope.app/file-format-schema.json", "profiles": [
        {"type": "sampled", "name": "one", "unit": "seconds", "startValue": 0, "endValue": 3, "samples": [[0, 1], [0], [0, 1]],
         "weights": [1, 0.5, 1.5]},
        {"type": "evented", "name": "two", "unit": "milliseconds", "startValue": 0, "endValue": 9, "events": [
            {"type": "O", "frame": 0, "at": 0}, {"type": "O", "frame": 1, "at": 2}, {"type": "C", "frame": 1, "at": 7},
            {"type": "C", "frame": 0, "at": 9}]},
    ], "shared": {"frames": [{"name": "main", "file": "a.py", "line": 3}, {"name": "work"}]}}
    out.write_text(json.dumps(doc))
    assert stacks(out) == {"wall": {("main", "work"): 2_505_000_000, ("main",): 504_000_000}}


def test_speedscope_of_py_spy():
    """Every thread is a profile, the weights are seconds."""
    path = FILES / "py-spy-0.4.speedscope.json"
    threads = oracle.speedscope(path, 1e9)
    want = oracle.sums()
    for stacks_of_thread in threads.values():
        for stack, value in stacks_of_thread.items():
            want["wall"][stack] += value
    assert any("inner" in frame for stack in want["wall"] for frame in stack)
    assert stacks(path) == oracle.plain(want)


def test_samply():
    """samply's import of a recording of perf: the stacks that `perf script` prints for it, one sample each 10.101 ms, with the build ids."""
    doc, want = convert(FILES / "samply-0.13.json.gz"), oracle.load(FILES / "samply-0.13.json.expected.json.gz")["cpu"]
    counts = {stack: value // 10_101_010 for stack, value in want.items()}
    assert sum(counts.values()) == 52
    assert oracle.otlp_addresses(doc, "samples") == {"samples": counts}
    assert oracle.otlp_addresses(doc, "cpu") == {"cpu": {stack: n * 10_101_000 for stack, n in counts.items()}}
    strings = doc["dictionary"]["stringTable"]
    assert {("process.executable.build_id.gnu", "267094cc299d07a263117140c76b06f4e95afb6b"), ("thread.name", "spin")} <= {
        (strings[a["keyStrindex"]], a["value"].get("stringValue")) for a in doc["dictionary"]["attributeTable"] if a.get("keyStrindex")}


def test_refused_by_name(tmp_path):
    """What is not read says what to do instead."""
    cases = {
        "memray.bin": "memray transform gprof2dot",
        "x.lz4": "compressed with LZ4",
        "x.nettrace": "dotnet-trace convert --format speedscope",
        "x.zip": "a zip archive",
        "x.html": "an HTML page",
        "x.json": "JSON of none of the formats",
        "x.cpuprofile": "no samples",
        "bad.speedscope.json": "no such frame at byte",
    }
    (tmp_path / "memray.bin").write_bytes(bytes.fromhex("04224d184040c0bf390000f905") + b"memray" + bytes(100))
    (tmp_path / "x.lz4").write_bytes(bytes.fromhex("04224d186440a7") + bytes(100))
    (tmp_path / "x.nettrace").write_bytes(b"Nettrace\x14\0\0\0!FastSerialization.1")
    (tmp_path / "x.zip").write_bytes(b"PK\3\4" + bytes(100))
    (tmp_path / "x.html").write_text("<!DOCTYPE html>\n<html>")
    (tmp_path / "x.json").write_text('{"hello": [1, 2]}')
    (tmp_path / "x.cpuprofile").write_text('{"nodes":[],"samples":[],"timeDeltas":[]}')
    (tmp_path / "bad.speedscope.json").write_text('{"shared":{"frames":[]},"profiles":[{"type":"sampled","samples":[[7]],"weights":[1]}]}')
    for name, message in cases.items():
        path = FILES / name if (FILES / name).exists() else tmp_path / name
        assert message in convert(path, ok=False), name


# --- writing ---

def test_write_cpuprofile(tmp_path):
    """What wick writes is what Node wrote, for an independent reader and for wick; and times that are no whole microseconds."""
    out = tmp_path / "x.cpuprofile"
    subprocess.run([WICK, "convert", "--type", "wall", str(FILES / "node-20.cpuprofile"), str(out)], check=True, timeout=60)
    assert oracle.cpuprofile(out)["wall"] == oracle.cpuprofile(FILES / "node-20.cpuprofile")["wall"]
    doc = json.loads(out.read_text())
    assert len(doc["samples"]) == len(doc["timeDeltas"]) and {n["id"] for n in doc["nodes"]} >= set(doc["samples"])
    (tmp_path / "x.folded").write_text("main;a 3\nmain;b 5\n")
    subprocess.run([WICK, "convert", str(tmp_path / "x.folded"), str(out)], check=True, timeout=60)
    assert {k: v // 1000 for k, v in oracle.cpuprofile(out)["wall"].items()} == {("main", "a"): 3, ("main", "b"): 5}


def firefox_stacks(path):
    """{stack: sum of weights} by the format's description."""
    doc, answer = json.loads(path.read_text()), {}
    for t in some(doc["threads"]):
        names = [t["stringArray"][i] for i in t["funcTable"]["name"]]
        for stack, weight in zip(t["samples"]["stack"], t["samples"]["weight"]):
            frames = []
            while stack is not None:
                frames.append(names[t["frameTable"]["func"][t["stackTable"]["frame"][stack]]])
                stack = t["stackTable"]["prefix"][stack]
            answer[tuple(reversed(frames))] = answer.get(tuple(reversed(frames)), 0) + weight
        for table in ("stackTable", "frameTable", "funcTable", "samples"):
            assert {len(v) for v in t[table].values() if isinstance(v, list)} == {t[table]["length"]}, table
    return answer


def test_write_firefox(tmp_path):
    out = tmp_path / "x.firefox.json"
    want = oracle.load(FILES / "jdk-17.jfr.expected.json.gz")
    for kind, scale in (("cpu", 1e6), ("alloc_sample_bytes", 1)):
        subprocess.run([WICK, "convert", "--type", kind, str(FILES / "jdk-17.jfr.gz"), str(out)], check=True, timeout=60)
        assert {k: round(v * scale) for k, v in firefox_stacks(out).items()} == want[kind]
    subprocess.run([WICK, "convert", "--type", "cpu", str(FILES / "jdk-17.jfr.gz"), str(out)], check=True, timeout=60)
    assert stacks(out)["wall"] == want["cpu"], "wick reads it, too"


# --- perf.data ---

def test_perf_data():
    """Addresses and mappings as `perf script` prints them, with the build ids of the file."""
    path = FILES / "perf-6.1.data.gz"
    doc = convert(path)
    assert oracle.otlp_addresses(doc, "cpu") == oracle.load(FILES / "perf-6.1.data.expected.json.gz")
    strings = doc["dictionary"]["stringTable"]
    attrs = [(strings[a["keyStrindex"]], a["value"].get("stringValue", "")) for a in doc["dictionary"]["attributeTable"] if a.get("keyStrindex")]
    assert ("thread.name", "spin") in attrs
    assert any(k == "process.executable.build_id.gnu" and len(v) == 40 for k, v in attrs), attrs


@pytest.mark.slow
def test_perf_data_of_this_perf(tmp_path):
    if not shutil.which("perf"):
        pytest.skip("no perf")
    p = subprocess.run(["perf", "record", "-q", "-e", "cpu-clock", "-F", "499", "-g", "-o", "x.data", "--", "sh", "-c",
                        "i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done; ls -R /usr/share/doc >/dev/null"], cwd=tmp_path, capture_output=True)
    if p.returncode:
        pytest.skip(p.stderr.decode())
    assert oracle.otlp_addresses(convert(tmp_path / "x.data"), "cpu") == oracle.perf_script(tmp_path / "x.data")


COPIED = """
#include <stdlib.h>
volatile double sum;
__attribute__((noinline)) void leaf(void) { for (int i = 0; i < 20000; i++) sum += i * 0.5; }
__attribute__((noinline)) int compare(const void *a, const void *b) { leaf(); return *(const int *) a - *(const int *) b; }
__attribute__((noinline)) int deep(int n) { char room[512]; room[n] = 1; __asm__ volatile("" : : "r"(room) : "memory");
    if (n) return deep(n - 1) + room[n]; for (int i = 0; i < 400; i++) leaf(); return 1; }
int main(void) {
    int v[64];
    for (int r = 0; r < 60; r++) { for (int i = 0; i < 64; i++) v[i] = i * 7919 % 64; qsort(v, 64, sizeof *v, compare); }
    return deep(100) < 0;
}
"""


def test_perf_data_copied_stacks(tmp_path):
    """--call-graph dwarf: the stacks of `perf script`, through a binary without frame pointers and a callback of libc's; named in
    every format. What is deeper than the copy ends in [truncated], and a message says so."""
    if not shutil.which("perf"):
        pytest.skip("no perf")
    (tmp_path / "x.c").write_text(COPIED)
    subprocess.run(["cc", "-O1", "-g", "-fomit-frame-pointer", "-Wl,--build-id=0x11a3c858f208e48051a3b4d6871e8eaa53812700", "-o", "x", "x.c"],
                   cwd=tmp_path, check=True)
    p = subprocess.run(["perf", "record", "-q", "-e", "cpu-clock", "-F", "499", "--call-graph", "dwarf", "-o", "x.data", "./x"],
                       cwd=tmp_path, capture_output=True)
    if p.returncode:
        pytest.skip(p.stderr.decode())
    p = subprocess.run([WICK, "convert", "x.data", "x.folded"], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True)
    whole = cut = other = 0
    for line in some((tmp_path / "x.folded").read_text().splitlines()):
        stack, n = line.rsplit(" ", 1)
        frames = stack.split(";")
        assert "0x" not in stack and "[[" not in stack, stack
        if "compare" in frames and frames[0] == "_start" and frames.index("main") < frames.index("compare") - 1:
            whole += int(n)
        elif frames[0] == "[truncated]" and set(frames[1:]) >= {"deep", "leaf"}:
            cut += int(n)
        elif not (frames[0] == "_start" and "deep" in frames):
            other += int(n)
    assert whole > 10 * other and cut > 3 * other, (whole, cut, other)
    assert "deeper than the copy" in p.stderr and "[truncated]" in p.stderr
    for out in ("x.html", "x.speedscope.json", "x.otlp.json"):
        subprocess.run([WICK, "convert", "x.data", out], cwd=tmp_path, capture_output=True, timeout=60, check=True)
        assert "compare" in (tmp_path / out).read_text(), out
    p = subprocess.run([WICK, "pprof", "-top", "x.data"], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True)
    assert re.search(r"100%\s+main|9\d\.\d+%\s+main|\d%\s+compare", p.stdout), p.stdout
    (tmp_path / "x").write_bytes(b"another program")
    p = subprocess.run([WICK, "convert", "x.data", "y.folded"], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True,
                       env={**os.environ, "HOME": "/nonexistent"})
    assert "not here or have changed (x)" in p.stderr
    assert "compare" not in (tmp_path / "y.folded").read_text(), "the binary is gone: no name is invented"


THROUGH = """
#include <stdio.h>
#include <time.h>
extern void each(void (*f)(void));
static void spin(void) { for (volatile int i = 0; i < 100000; i++) ; }
int main(void) { for (clock_t end = clock() + CLOCKS_PER_SEC / 2; clock() < end;) each(spin); return 0; }
"""


def test_perf_data_of_libraries_without_samples(tmp_path):
    """perf notes build ids of what was sampled as a leaf. Another library is the file that was mapped, by its inode, or none."""
    if not shutil.which("perf"):
        pytest.skip("no perf")
    (tmp_path / "x.c").write_text(THROUGH)
    (tmp_path / "each.c").write_text("void each(void (*f)(void)) { for (int i = 0; i < 100; i++) f(); }\n")
    flags = ["cc", "-O1", "-g", "-fomit-frame-pointer", "-fno-optimize-sibling-calls", "-Wl,--build-id"]
    subprocess.run([*flags, "-shared", "-fPIC", "-o", "libeach.so", "each.c"], cwd=tmp_path, check=True)
    subprocess.run([*flags, "-o", "x", "x.c", "-L.", "-leach", f"-Wl,-rpath,{tmp_path}"], cwd=tmp_path, check=True)
    p = subprocess.run(["perf", "record", "-q", "-e", "cpu-clock", "-F", "499", "--call-graph", "dwarf", "-o", "x.data", "./x"],
                       cwd=tmp_path, capture_output=True)
    if p.returncode:
        pytest.skip(p.stderr.decode())
    listed = subprocess.run(["perf", "buildid-list", "-i", "x.data"], cwd=tmp_path, capture_output=True, text=True, check=True).stdout

    def whole():
        rows = {}
        subprocess.run([WICK, "convert", "x.data", "x.folded"], cwd=tmp_path, capture_output=True, timeout=60, check=True)
        for line in some((tmp_path / "x.folded").read_text().splitlines()):
            frames, n = line.rsplit(" ", 1)[0].split(";"), int(line.rsplit(" ", 1)[1])
            if "spin" in frames:
                state = frames[0] == "_start" and frames[frames.index("spin") - 2:frames.index("spin")] == ["main", "each"]
                rows[state] = rows.get(state, 0) + n
        return rows.get(True, 0) / sum(rows.values())

    if "libeach" not in listed:  # no sample was in it
        assert whole() > 0.98
        os.utime(tmp_path / "libeach.so")  # written after the recording
        later = (tmp_path / "x.data").stat().st_mtime_ns
        assert (tmp_path / "libeach.so").stat().st_ctime_ns > later
        assert whole() < 0.02
    else:
        assert whole() > 0.98


def test_perf_data_refused(tmp_path):
    whole = gzip.decompress((FILES / "perf-6.1.data.gz").read_bytes())
    data = int.from_bytes(whole[40:48], "little")
    cases = {
        "pipe": (b"PERFILE2" + (16).to_bytes(8, "little") + bytes(100), "pipe mode is not supported"),
        "big": (b"2ELIFREP" + bytes(200), "big-endian files are not supported"),
        "packed": (whole[:data] + (81).to_bytes(4, "little") + whole[data + 4:], "compressed records are not supported"),
        "cut": (whole[:data + 10], "are cut short"),
    }
    for name, (text, message) in cases.items():
        (tmp_path / name).write_bytes(text)
        assert message in convert(tmp_path / name, ok=False), name


def test_pstats(tmp_path):
    """A file that this Python's cProfile writes: calls and own times by caller, as pstats has them."""
    import cProfile
    import pstats

    def leaf(n):
        return sum(range(n))

    def recursive(n):
        return leaf(n) + recursive(n - 1) if n else 0

    profile, path = cProfile.Profile(), tmp_path / "x.pstats"
    profile.runcall(recursive, 50)
    profile.runcall(leaf, 10)
    profile.dump_stats(path)
    want = oracle.sums()
    for (_, _, name), (_, calls, own, _, callers) in pstats.Stats(str(path)).stats.items():
        for (_, _, caller), (n, _, tt, _) in callers.items():
            want["calls"][caller, name] += n
            want["wall"][caller, name] += round(tt * 1e9)
        if not callers:
            want["calls"][name,] += calls
            want["wall"][name,] += round(own * 1e9)
    assert stacks(path) == oracle.plain(want)
