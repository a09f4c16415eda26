# SPDX-License-Identifier: Apache-2.0
"""wick record and languages: whole chains of CPython (every version that is here) and of Go, from outside."""
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

import pythons
from agent_tools import GO_CHAIN, build, labels_of, may_sample, needs_bpf, resources
from wick_tools import WICK, some

PYTHONS = pythons.found()


pytestmark = pytest.mark.skipif(not may_sample(), reason="BPF programs may not be loaded here")

PROGRAM = '''
import sys, time

def leaf(n):
    x = 0
    for i in range(n):
        x += i * i
    return x

def rec(d, n):
    if d == 0:
        return leaf(n)
    return rec(d - 1, n) + 1

def callback(v):
    return rec(30, 4000)

def generator():
    while True:
        yield sorted([3, 1, 2], key=callback)

def worker(end):
    g = generator()
    while time.process_time() < end:
        next(g)

def main():
    worker(time.process_time() + float(sys.argv[1]))

main()
'''


def stacks(path):
    for line in path.read_text().splitlines():
        stack, _, value = line.rpartition(" ")
        yield stack.split(";"), int(value)


def record(tmp_path, *command, rate=199):
    out = tmp_path / "out.folded"
    r = subprocess.run([WICK, "record", "-F", str(rate), "-o", str(out), "--", *map(str, command)], capture_output=True, text=True,
                       timeout=120, cwd=tmp_path)
    assert r.returncode == 0, r.stderr
    return list(stacks(out))


@pytest.mark.parametrize("version", [f"3.{m}" for _, m in PYTHONS])
def test_python_chain(tmp_path, version):
    (tmp_path / "program.py").write_text(PROGRAM)
    got = record(tmp_path, PYTHONS[(3, int(version[2:]))], tmp_path / "program.py", "1.3", rate=999)
    hot = whole = 0
    names = ["<module>", "main", "worker", "generator", "callback"] + ["rec"] * 31 + ["leaf"]
    known = set(names)
    for stack, value in got:
        chain = [f for f in stack if f in known]
        if "leaf" not in chain:
            continue
        hot += value
        whole += value if chain == names and (stack[0] in ("_start", "__libc_start_main") or stack[1] == "__libc_start_main") else 0
    assert hot > 0.3e9, "too few samples of the hot code"
    assert whole >= 0.98 * hot, f"{whole / hot:.2%} of hot stacks are whole"
    # the interpreter's loop is not shown besides the frames that it runs
    loop = sum(v for s, v in got if "leaf" in s and any(f.startswith("_PyEval_EvalFrameDefault") for f in s))
    assert loop <= 0.02 * hot


def test_first_samples_of_a_named_process(tmp_path):
    """With -p the process is read before it is sampled: its first samples have Python's frames as well."""
    version = max(PYTHONS) if PYTHONS else pytest.skip("no CPython")
    (tmp_path / "program.py").write_text(PROGRAM)
    p = subprocess.Popen([PYTHONS[version], tmp_path / "program.py", "60"])
    out, total, named = tmp_path / "out.folded", 0, 0
    try:
        subprocess.run(["grep", "-q", "python", f"/proc/{p.pid}/maps"], check=True)
        while int(Path(f"/proc/{p.pid}/stat").read_text().rpartition(") ")[2].split()[11]) < 30:  # it runs, and past its start
            assert p.poll() is None
        for _ in range(3):
            subprocess.run([WICK, "record", "-q", "-F", "499", "-p", str(p.pid), "-d", "300ms", "-o", out], check=True)
            total += sum(v for _, v in stacks(out))
            named += sum(v for s, v in stacks(out) if "main" in s and "worker" in s)
    finally:
        p.kill()
        p.wait()
    assert total > 0.05e9 and named >= 0.9 * total, f"{named} of {total} ns"


def test_python_lines_and_deep_recursion(tmp_path):
    """Lines are those of the instruction; 700 frames are all there."""
    version = max(PYTHONS) if PYTHONS else pytest.skip("no CPython")
    (tmp_path / "program.py").write_text(
        "import sys, time\nsys.setrecursionlimit(5000)\n\ndef hot(end):\n    while time.process_time() < end:\n"
        "        sum(range(1000))\n\ndef deep(n, end):\n    if n == 0:\n        return hot(end)\n    return deep(n - 1, end)\n\n"
        "deep(700, time.process_time() + 1.0)\n")
    out = tmp_path / "out.pb.gz"
    r = subprocess.run([WICK, "record", "-q", "-F", "199", "-o", str(out), "--", PYTHONS[version], str(tmp_path / "program.py")],
                       capture_output=True, text=True, timeout=60)
    assert r.returncode == 0, r.stderr
    text = subprocess.run([WICK, "pprof", "-traces", str(out)], capture_output=True, text=True, check=True).stdout
    traces = [t for t in text.split("-----------+") if " hot\n" in t]
    assert traces
    assert max(t.count(" deep\n") for t in traces) == 701
    lines = subprocess.run([WICK, "pprof", "-top", "-lines", str(out)], capture_output=True, text=True, check=True).stdout
    assert "program.py:11" in lines and ("program.py:6" in lines or "program.py:5" in lines)


SERVICE = '''
import sys, time

def price(n):
    return sum(i * i for i in range(n))

def serve(end):
    while time.process_time() < end:
        price(20000)

serve(float(sys.argv[1]))
'''


def test_release_in_another_folder(tmp_path):
    """Compared with the release before, which was in another folder and had fewer lines above, a function is the same one."""
    recorded, ended = [], []
    for release, above in (("r1", 0), ("r2", 4)):
        (tmp_path / release).mkdir()
        (tmp_path / release / "app.py").write_text("\n" * above + SERVICE)
        recorded.append(tmp_path / f"{release}.otlp")
        subprocess.run([WICK, "record", "-q", "-F", "199", "-o", recorded[-1], "--", sys.executable, tmp_path / release / "app.py", "2"], check=True, timeout=120)
        ended.append(f"{time.time():.3f}")
    subprocess.run([WICK, "store", "import", "--store", tmp_path / "store", *recorded], check=True, capture_output=True)
    ask = ["--store", tmp_path / "store", "--from", ended[0], "--to", ended[1], "--base-from", str(float(ended[0]) - 600), "--base-to", ended[0], "--json"]
    top = json.loads(subprocess.run([WICK, "query", "top", "cpu", "--sort", "total", *ask], check=True, capture_output=True, text=True).stdout)
    flame = json.loads(subprocess.run([WICK, "query", "flame", "cpu", "--by", "filefunction", *ask], check=True, capture_output=True, text=True).stdout)
    for name in ("price", "serve"):
        (row,) = [r for r in top["rows"] if r["name"] == name]
        assert row["file"] == str(tmp_path / "r2/app.py")
        assert all(1.4e9 < t < 2.6e9 for t in some(row["total"])), row
        (frame,) = [i for i, f in enumerate(flame["frames"]) if f.get("function") == name]
        (node,) = [n for n in flame["nodes"] if n[1] == frame]
        assert [node[3], node[5]] == row["total"]  # parent, frame, then self and total of each side
    subprocess.run([WICK, "convert", "--base", *recorded, tmp_path / "both.html"], check=True)
    page = (tmp_path / "both.html").read_text()
    assert '"cover":[0,0,199,199,199]' in page and page.count('["price",') == 1


@pytest.mark.parametrize("flags", [[], ["-ldflags=-s -w"]], ids=["plain", "stripped"])
def test_go_chain(tmp_path, flags):
    if not shutil.which("go"):
        pytest.skip("go is not installed")
    (tmp_path / "p.go").write_text(GO_CHAIN.replace("SECONDS", "1"))
    subprocess.run(["go", "build", *flags, "-o", "p", "p.go"], cwd=tmp_path, check=True, timeout=240)
    got = record(tmp_path, tmp_path / "p")
    hot = whole = 0
    for stack, value in got:
        if "main.leaf" not in stack:
            continue
        hot += value
        chain = [f for f in stack if f.startswith("main.") or f.startswith("runtime.goexit")]
        good = chain[0].startswith("runtime.goexit") and chain[1:] == ["main.main.func1", "main.worker"] + ["main.rec"] * 31 + ["main.leaf"]
        whole += value if good else 0
    assert hot > 0.2e9
    assert whole == hot, f"{whole / hot:.2%}"


GO_LABELS = '''
package main

import (
	"context"
	"runtime/pprof"
	"syscall"
	"time"
)

var sink int

//go:noinline
func spin(seconds int64) {
	var u syscall.Rusage
	for u.Utime.Sec*10+u.Utime.Usec/100000 < seconds {
		syscall.Getrusage(0, &u)
		for i := 0; i < 100000; i++ {
			sink += i * i
		}
	}
}

//go:noinline
func labelled() { spin(7) }

//go:noinline
func plain() { spin(10) }

func main() {
	labels := pprof.Labels("endpoint", "/cart/with/a/path/that/is/longer/than/48/bytes/and/is/cut", "trace_id",
		"0af7651916cd43dd8448eb211c80319c", "span_id", "b7ad6b7169203331")
	spin(1) // the first samples come before the process has been read
	time.Sleep(time.Second)
	done := make(chan bool)
	go pprof.Do(context.Background(), labels, func(context.Context) { labelled(); done <- true })
	<-done
	plain()
}
'''


def test_go_labels(tmp_path):
    """pprof labels become attributes of samples, and trace_id and span_id among them their link."""
    if not shutil.which("go"):
        pytest.skip("go is not installed")
    if int(re.search(r"go1\.(\d+)", subprocess.run(["go", "version"], capture_output=True, text=True).stdout)[1]) < 24:
        pytest.skip("labels are read from Go 1.24 on")
    (tmp_path / "p.go").write_text(GO_LABELS)
    subprocess.run(["go", "build", "-ldflags=-s -w", "-o", "p", "p.go"], cwd=tmp_path, check=True, timeout=240)
    out = tmp_path / "out.json"
    r = subprocess.run([WICK, "record", "-q", "-F", "199", "-o", str(out), "--", str(tmp_path / "p")], capture_output=True,
                       text=True, timeout=60)
    assert r.returncode == 0, r.stderr
    total, good = {"main.labelled": 0, "main.plain": 0}, {"main.labelled": 0, "main.plain": 0}
    for f, attrs, link, value in labels_of(out, total):
        total[f] += value
        if f == "main.labelled":
            fits = (attrs.get("endpoint") == "/cart/with/a/path/that/is/longer/than/48/bytes/a" and
                    link == ("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"))
        else:
            fits = "endpoint" not in attrs and link == ("", "")
        good[f] += value if fits else 0
    assert min(total.values()) > 0.1e9, total
    assert good["main.plain"] == total["main.plain"]
    assert good["main.labelled"] >= 0.9 * total["main.labelled"], (good, total)


NODE_PROGRAM = '''
function hotLeaf(n) { let x = 0; for (let i = 0; i < n; i++) { x = (x * 31 + i) % 1000003 } return x }
function middle(n) { return hotLeaf(n) + 1 }
const end = process.cpuUsage().user + 800000
let s = 0
while (process.cpuUsage().user < end) s += middle(200000)
'''


@pytest.mark.parametrize("flags", [[], ["--perf-basic-prof"]])
def test_node_perf_map(tmp_path, flags):
    """JavaScript has names, once each, whether Node writes a perf map or not."""
    if not shutil.which("node"):
        pytest.skip("node is not installed")
    (tmp_path / "p.js").write_text(NODE_PROGRAM)
    got = record(tmp_path, "node", *flags, tmp_path / "p.js")
    total = sum(v for s, v in got if any("Builtins_JSEntry" in f for f in s))  # 0 in a stripped node
    named = sum(v for s, v in got if "hotLeaf" in s)
    assert named > 0.2e9 and named > 0.5 * total, (named, total)
    assert not any("--perf-basic-prof" in f for s, v in got for f in s)
    assert all(sum("hotLeaf" in f for f in s) <= 1 for s, v in some(got))


@pytest.mark.skipif(platform.machine() != "x86_64", reason="has x86 code")
@pytest.mark.skipif(platform.machine() != "x86_64", reason="its code is x86-64's")
def test_memory_that_a_jit_uses_again(tmp_path):
    """Each function has the time in which it ran, though all were at one address."""
    exe = build(tmp_path, "jit_reuse.c", "jit_reuse")
    got = record(tmp_path, "sh", "-c", f'exec {exe} /tmp/perf-$$.map 1', rate=199)
    for f in Path("/tmp").glob("perf-*.map"):
        if f.read_bytes()[-40:].find(b"phase_4") >= 0:
            f.unlink()
    seconds = {n: sum(v for s, v in got if f"phase_{n}" in s) / 1e9 for n in range(5)}
    assert all(0.6 < v < 1.4 for v in some(seconds.values())) and 4 < sum(seconds.values()) < 6, seconds


def test_names_that_a_perf_map_has_late(tmp_path):
    """Code is sampled before its name is in the map, and gets it all the same."""
    exe = build(tmp_path, "late_perf_map.c", "late_perf_map", "-pthread")
    p = subprocess.Popen(["sh", "-c", f'exec {exe} /tmp/perf-$$.map'], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert p.stdout.readline() == "ready\n"
        out = tmp_path / "late.folded"
        with subprocess.Popen([WICK, "record", "-q", "-F", "99", "-d", "1.5s", "-o", out, "-p", str(p.pid)]) as recording:
            time.sleep(1)  # the map was read at the first sample: it is not read again for 2 s
            p.stdin.write("\n")
            p.stdin.flush()
            assert recording.wait(60) == 0
        text = out.read_text()
        assert "late_name" in text and "does not name" not in text, text
    finally:
        p.kill()
        p.wait()
        os.unlink(f"/tmp/perf-{p.pid}.map")


def test_identity_from_outside(tmp_path):
    """service.name of the environment; the VCS revision of a Go build is its version, with nothing configured."""
    if not shutil.which("go") or not shutil.which("git"):
        pytest.skip("go and git are needed")
    (tmp_path / "p.go").write_text(GO_CHAIN.replace("SECONDS", "1"))
    (tmp_path / "go.mod").write_text("module example.org/p\n\ngo 1.20\n")
    git = ["git", "-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "x"]):
        subprocess.run([*git, *words], cwd=tmp_path, check=True)
    revision = subprocess.run(["git", "rev-parse", "HEAD"], cwd=tmp_path, capture_output=True, text=True).stdout.strip()
    subprocess.run(["go", "build", "-buildvcs=true", "-o", "p"], cwd=tmp_path, check=True, timeout=240)
    out = tmp_path / "out.json"
    r = subprocess.run([WICK, "record", "-q", "-o", str(out), "--", str(tmp_path / "p")], capture_output=True, text=True,
                       timeout=60, env={**os.environ, "OTEL_SERVICE_NAME": "shop", "OTEL_RESOURCE_ATTRIBUTES": "team=a%20b"})
    assert r.returncode == 0, r.stderr
    got = [a for a in resources(out) if a.get("process.executable.name") == "p"]
    assert got
    assert got[0]["service.name"] == "shop" and got[0]["team"] == "a b"
    assert got[0]["service.version"] == revision
    assert got[0]["process.runtime.name"] == "go" and got[0]["host.name"] and int(got[0]["process.pid"]) > 0


JAVA = """
public class T {
    static long spin(long n) { long s = 0; for (long i = 0; i < n; i++) s += i * i ^ s; return s; }
    public static void main(String[] a) throws Exception {
        java.io.File done = new java.io.File(a[0]);
        long x = 0;
        while (!done.exists()) x += spin(100000);
        System.out.println(x);
    }
}
"""


@pytest.mark.slow
@pytest.mark.parametrize("user", [None, "nobody"])
def test_jcmd(tmp_path, user):
    """--jcmd: a running Java program is asked for the names of its code, as its own user, again until they are there."""
    needs_bpf()
    if not shutil.which("javac"):
        pytest.skip("no javac")
    folder = Path(tempfile.mkdtemp())  # below /tmp: another user must be able to read it
    folder.chmod(0o755)
    (folder / "T.java").write_text(JAVA)
    subprocess.run(["javac", "-d", folder, folder / "T.java"], check=True)
    p = subprocess.Popen(["java", "-XX:+PreserveFramePointer", "-cp", folder, "T", folder / "done"], stdout=subprocess.DEVNULL, user=user,
                         cwd="/")
    try:
        out = tmp_path / "x.folded"
        subprocess.run([WICK, "record", "-q", "--jcmd", "-F", "99", "-d", "10s", "-o", out, "-p", str(p.pid)], check=True, timeout=120)
        assert p.poll() is None
        assert "T.spin(long)" in out.read_text()
    finally:
        p.kill()
        p.wait()
        Path(f"/tmp/perf-{p.pid}.map").unlink(missing_ok=True)
        shutil.rmtree(folder)
