# SPDX-License-Identifier: Apache-2.0
"""What the tests of the host agent share: whether BPF may be used here, programs, and reading what was recorded."""
import contextlib
import json
import os
import re
import shutil
import socket
import subprocess
import time
from functools import lru_cache
from pathlib import Path

import pytest

from wick_tools import PROGRAMS, ROOT, WICK, Server, some, wait_for  # noqa: F401

GO_LEAF = """var sink int

//go:noinline
func leaf(n int) int {
	x := 0
	for i := 0; i < n; i++ {
		x += i * i
	}
	return x
}
"""

# main.main.func1, main.worker, main.rec 31 times, main.leaf
GO_CHAIN = """
package main

import (
	"fmt"
	"os"
	"syscall"
)

""" + GO_LEAF + """
//go:noinline
func rec(d, n int) int {
	if d == 0 {
		return leaf(n)
	}
	return rec(d-1, n) + 1
}

//go:noinline
func worker(seconds int64) {
	var u syscall.Rusage
	for u.Utime.Sec < seconds {
		syscall.Getrusage(0, &u)
		sink += rec(30, 100000)
	}
}

func main() {
	done := make(chan bool)
	go func() { worker(SECONDS); done <- true }()
	<-done
	fmt.Fprintln(os.Stderr, sink)
}
"""


@lru_cache(None)
def why_not():
    """None when the agent can run here, else why it cannot."""
    p = subprocess.run([WICK, "record", "-a", "-q", "-d", "0.2s", "-o", "-.folded"], capture_output=True, text=True, timeout=60,
                       cwd="/tmp")
    Path("/tmp/-.folded").unlink(missing_ok=True)
    reasons = ("not permitted to load BPF", "cannot be used", "cannot open a clock", "sampling other processes requires")
    return p.stderr.strip() if any(r in p.stderr for r in reasons) else None


def needs_bpf():
    if why_not():
        pytest.skip(why_not())


def build(tmp_path, source, name, *flags, compiler="gcc"):
    if not shutil.which(compiler):
        pytest.skip(f"no {compiler}")
    out = tmp_path / name
    subprocess.run([compiler, *flags, "-o", str(out), str(PROGRAMS / source)], check=True)
    return out


def record(tmp_path, *args, rate=999, timeout=120, **more):
    """Runs `wick record` into folded stacks; [(frames from the root, nanoseconds)], the process."""
    out = tmp_path / "recorded.folded"
    out.unlink(missing_ok=True)
    p = subprocess.run([WICK, "record", "-q", "-F", str(rate), "-o", str(out), *map(str, args)], capture_output=True, text=True,
                       timeout=timeout, **more)
    assert p.returncode == 0, p.stderr
    return folded(out), p


def folded(path):
    rows = []
    for line in Path(path).read_text().splitlines():
        stack, value = line.rsplit(" ", 1)
        rows.append((stack.split(";"), int(value)))
    return rows


def count(rows, hz):
    return round(sum(v for _, v in rows) * hz / 1e9)


@contextlib.contextmanager
def agent_to_file(tmp_path, *args, late=0):
    """`wick agent` and a collector that it exports to, so many seconds late, that writes what arrives, a request a line: (the file, the
    agent)."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    out, config = tmp_path / "out.json", tmp_path / "c.yaml"
    config.write_text(f"""
receivers: {{otlp: {{protocols: {{grpc: {{endpoint: "127.0.0.1:{port}"}}}}}}}}
exporters: {{file: {{path: {out}}}}}
service: {{telemetry: {{metrics: {{level: none}}}}, pipelines: {{profiles: {{receivers: [otlp], exporters: [file]}}}}}}
""")
    agent = subprocess.Popen([WICK, "agent", "--export", f"http://127.0.0.1:{port}", *map(str, args)], stderr=subprocess.DEVNULL)
    time.sleep(late)
    collector = subprocess.Popen([WICK, "collector", "--config", config], stderr=subprocess.DEVNULL)
    try:
        yield out, agent
    finally:
        for p in (agent, collector):
            p.terminate()
            p.wait(60)


def child_pids(pid):
    return [int(x) for x in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def cmdline(pid):
    """The arguments of a process, b"" when it is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def complete_lines(path):
    """Those that are whole: a writer may be at work."""
    text = path.read_text() if path.exists() else ""
    return text[:text.rfind("\n") + 1].splitlines()


def is_sampling(pid):
    """Its clocks run: a program is attached to one."""
    try:
        links = [os.readlink(f) for f in Path(f"/proc/{pid}/fd").iterdir()]
    except FileNotFoundError:  # one was closed meanwhile
        return False
    return any("bpf_link" in x or "bpf-link" in x for x in links)


def may_sample():
    r = subprocess.run([WICK, "record", "-q", "-d", "100ms", "--via", "bpf", "-o", "/dev/null", "-p", str(os.getpid())],
                       capture_output=True, text=True)
    return r.returncode == 0 or "CAP_BPF" not in r.stderr


def resources(path):
    for line in path.read_text().splitlines():
        for r in json.loads(line)["resourceProfiles"]:
            yield {a["key"]: a["value"].get("stringValue", a["value"].get("intValue")) for a in r["resource"]["attributes"]}


def labels_of(path, functions):
    """(function on the stack, attributes, (trace, span)) with the value of each sample of an OTLP JSON file."""
    for line in path.read_text().splitlines():
        request = json.loads(line)
        d = request["dictionary"]
        strings = d["stringTable"]
        for r in request["resourceProfiles"]:
            for x in [x for s in r["scopeProfiles"] for p in s["profiles"] for x in p.get("samples", [])]:
                names = {strings[d["functionTable"][n.get("functionIndex", 0)].get("nameStrindex", 0)]
                         for i in d["stackTable"][x.get("stackIndex", 0)].get("locationIndices", [])
                         for n in d["locationTable"][i].get("lines", [])}
                attrs = {strings[a.get("keyStrindex", 0)]: a["value"].get("stringValue")
                         for a in (d["attributeTable"][i] for i in x.get("attributeIndices", []))}
                link = d["linkTable"][x["linkIndex"]] if x.get("linkIndex") else {}
                for f in names & set(functions):
                    yield f, attrs, (link.get("traceId", ""), link.get("spanId", "")), sum(map(int, x.get("values", [])))


# --- a C++ program with inlined calls, and the lines of its samples ---

DRIVER = r'''
#include <stdlib.h>
#include <time.h>
extern "C" int c_entry(int n);
int main(int argc, char **argv)
{
    struct timespec t;
    volatile int sum = 0;
    do {
        sum = sum + c_entry(3000);
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    } while (t.tv_sec + t.tv_nsec / 1e9 < atof(argv[1]));
    return 0;
}
'''


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    d = tmp_path_factory.mktemp("shop")
    (d / "driver.cc").write_text(DRIVER)
    subprocess.run(["g++", "-O2", "-g", "-Wl,--build-id", "-Dmain=shop_main", "-c", "-o", d / "shop.o", PROGRAMS / "shop.cc"], check=True)
    subprocess.run(["g++", "-O2", "-g", "-o", d / "shop", d / "driver.cc", d / "shop.o"], check=True)
    return d / "shop"


def locations(request, path):
    """{ELF address: [(system name, file, line)] innermost first} of one binary in an OTLP request, as JSON."""
    d = request["dictionary"]
    text = d["stringTable"]
    found = {}
    for at in some(d["locationTable"]):
        mapping = d["mappingTable"][at.get("mappingIndex", 0)]
        if text[mapping.get("filenameStrindex", 0)] != str(path):
            continue
        ids = [d["attributeTable"][a] for a in mapping.get("attributeIndices", [])]
        assert any(text[a["keyStrindex"]].startswith("process.executable.build_id") for a in ids)
        functions = [(d["functionTable"][x.get("functionIndex", 0)], int(x.get("line", 0))) for x in at.get("lines", [])]
        shift = int(mapping.get("memoryStart", 0)) - int(mapping.get("fileOffset", 0))
        found[int(at["address"]) - shift] = [(text[f.get("systemNameStrindex", 0)], text[f.get("filenameStrindex", 0)], line)
                                             for f, line in functions]
    return found


def record_otlp(tmp_path, *words):
    out = tmp_path / "out.json"
    p = subprocess.run([WICK, "record", "-q", "-F", "999", "-o", out, *map(str, words)], capture_output=True, text=True, timeout=60)
    assert p.returncode == 0, p.stderr
    return json.loads(out.read_text())


def with_lines(found):
    return {a: f for a, f in found.items() if f and f[0][2]}


def addr2line(exe, addresses):
    out = subprocess.run(["addr2line", "-a", "-i", "-f", "-e", str(exe)], input="\n".join(map(hex, addresses)), text=True,
                         capture_output=True, check=True).stdout.splitlines()
    answers, at = {}, None
    while out:
        if re.fullmatch("0x[0-9a-f]+", out[0]):
            at = int(out.pop(0), 16)
            answers[at] = []
            continue
        name, place = out.pop(0), re.sub(r" \(discriminator \d+\)", "", out.pop(0))
        file, line = place.rsplit(":", 1)
        answers[at].append((name, "" if file == "??" else file, int(line) if line.isdigit() else 0))
    return answers


def llvm(exe, addresses):
    out = subprocess.run(["llvm-symbolizer", "--inlining", "-demangle=false", "--output-style=JSON"], text=True, capture_output=True,
                         input="".join(f"CODE {exe} {a:#x}\n" for a in addresses)).stdout
    return {int(a["Address"], 16): [(s["FunctionName"], s["FileName"], s["Line"]) for s in a["Symbol"]]
            for a in map(json.loads, out.splitlines())}


def compare(got, exe, names=True):
    """Of addresses that have a line: each as llvm-symbolizer has it. Without it, the lines alone of addr2line, which takes some
    functions to be in the file that they were called from, and of a few addresses has another line."""
    if shutil.which("llvm-symbolizer"):
        want = llvm(exe, sorted(got))
        if not names:
            got, want = ({a: [f[1:] for f in frames] for a, frames in x.items()} for x in (got, want))
        assert got == want, [(hex(a), got[a], want[a]) for a in got if got[a] != want[a]][:3]
        return
    theirs = addr2line(exe, sorted(got))
    same = [a for a in got if [n for *_, n in got[a]] == [n for *_, n in theirs[a]]]
    assert len(same) >= 0.9 * len(got), [(hex(a), got[a], theirs[a]) for a in got if a not in same][:3]


# --- a server that samples the machine, and its agent ---

def children(pid):
    try:
        return [int(p) for task in Path(f"/proc/{pid}/task").iterdir() for p in (task / "children").read_text().split()]
    except OSError:
        return []


def commands(word):
    """Processes whose command line has a word, by pid."""
    found = {}
    for p in Path("/proc").iterdir():
        try:
            line = (p / "cmdline").read_bytes().replace(b"\0", b" ").decode() if p.name.isdigit() else ""
        except OSError:
            continue
        if word in line:
            found[int(p.name)] = line
    return found


class Sampling(Server):
    """A server that samples the machine. Its agents are told from those of other servers, of tests before and beside this
    one, by an environment variable that they inherit."""

    def __init__(self, directory, *options, **more):
        self.mark = f"WICK_TEST_SERVER={os.getpid()}.{time.time_ns()}"
        os.environ.pop("WICK_NO_AGENT", None)
        try:
            super().__init__(directory, "--set", "agent.rate=97", *options, **dict([self.mark.split("=")]), **more)
        finally:
            os.environ["WICK_NO_AGENT"] = "1"

    def is_mine(self, pid):
        try:
            return self.mark.encode() in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        except OSError:
            return False

    def agents(self):
        """Processes of its agent: the starter, the supervisor, and the one that samples."""
        return [p for p in commands("--feed-fd") if self.is_mine(p)]

    def stored(self):
        text = self.get("/metrics")[1].decode()
        return int(re.search(r'wick_agent_batches_total{result="stored"} (\d+)', text).group(1))

    def stop(self):
        self.p.kill()
        self.p.wait()


def keeper_and_agent(s):
    def look():
        text = (s.dir / "log").read_text()
        if "is off" in text:
            pytest.skip("this machine lets nobody sample: " + text.splitlines()[-1])
        agents = s.agents()
        supervisors = [p for starter in children(s.p.pid) if starter in agents for p in children(starter) if p in agents]
        pairs = [(p, c) for p in supervisors for c in children(p) if c in agents]
        return pairs and pairs[0]
    return wait_for(look)
