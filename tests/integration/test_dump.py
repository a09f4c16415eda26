# SPDX-License-Identifier: Apache-2.0
"""wick dump: Python's own faulthandler is the oracle for Python's frames, gdb for native ones, the program itself for Go."""
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

import nodes
import pythons
from agent_tools import GO_LEAF
from wick_tools import WICK, need, some, wait_for

PYTHONS = pythons.found()

PROGRAM = '''
import faulthandler, os, signal, sys, threading, time

out = open(sys.argv[1], "w")
faulthandler.register(signal.SIGUSR1, file=out, all_threads=True)
event = threading.Event()

class Worker:
    def method(self, n):
        if n == 0:
            return block()
        return self.method(n - 1)

    @staticmethod
    def static(x):
        return [
            wait(i)
            for i in x
        ]

def gen(n):
    for i in range(n):
        yield wait(i)

def wait(i):
    ready.release()
    event.wait()
    return i

def block():
    return list(map(lambda g:
                    next(g), [gen(3)]))

def by_key():
    return sorted([2, 1], key=lambda v: wait(v))

def naïve_ñame():
    try:
        raise ValueError
    except ValueError:
        exec(compile("\\n\\nwait(1)", "generated ✓.py", "exec"), globals())

def by_class():
    class Inner:
        value = wait(1)

def deep(n):
    return deep(n - 1) if n else wait(0)

def far():
    x = 0
''' + "".join(f"    x += {i}\n" for i in range(300)) + '''
    return wait(x)

targets = [lambda: Worker().method(3), lambda: Worker.static([1]), by_key, naïve_ñame, by_class, lambda: deep(200), far]
ready = threading.Semaphore(0)
for t in targets:
    threading.Thread(target=t, daemon=True).start()
for t in targets:
    ready.acquire()
print("ready", flush=True)
time.sleep(600)
'''


def run_dump(pid, *options):
    r = subprocess.run([WICK, "dump", "--json", *options, str(pid)], capture_output=True, text=True, timeout=60)
    assert r.returncode == 0, r.stderr
    return json.loads(r.stdout)


def fault_stacks(text):
    """Stacks as faulthandler writes them: (file, line, name), newest first."""
    stacks = []
    for line in text.splitlines():
        m = re.fullmatch(r'  File "(.*)", line (\d+) in (.*)', line)
        if line.startswith(("Thread ", "Current thread ")):
            stacks.append([])
        elif m:
            stacks[-1].append((m.group(1), int(m.group(2)), m.group(3)))
    return stacks


def python_stacks(dump):
    return [[(f["file"], f["line"], f["function"].rsplit(".", 1)[-1]) for f in t["frames"] if f["type"] == "python"]
            for t in dump["threads"]]


def fault_text(s):
    return s.encode("ascii", "backslashreplace").decode()  # faulthandler writes nothing else


@pytest.fixture(params=[f"3.{m}" for _, m in PYTHONS] or ["none"])
def program(request, tmp_path):
    if request.param == "none":
        pytest.skip("no CPython 3.9 to 3.14 is installed")
    python = PYTHONS[(3, int(request.param[2:]))]
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    p = subprocess.Popen([python, str(script), str(tmp_path / "fault")], stdout=subprocess.PIPE, text=True)
    assert p.stdout.readline() == "ready\n"
    yield p, tmp_path / "fault", request.param
    p.kill()
    p.wait()
    p.stdout.close()


def test_python_frames(program):
    """Every Python frame of every thread, with its line, as faulthandler sees them. It stops at 100 frames."""
    p, fault, version = program
    # all threads must be in their waits, and stay there
    wait_for(lambda: all("wait" in json.dumps(t) for t in run_dump(p.pid, "--python")["threads"][1:]), why="threads to wait")
    dump = run_dump(p.pid)
    assert dump["runtime"].startswith("CPython " + version)
    os.kill(p.pid, signal.SIGUSR1)
    wait_for(lambda: "Current thread" in fault.read_text() and "time.sleep" not in fault.read_text() and
             fault.read_text().endswith("in <module>\n"), why="faulthandler")
    want = sorted([(fault_text(a), b, fault_text(c)) for a, b, c in s] for s in fault_stacks(fault.read_text()))
    got = sorted([(fault_text(a), b, fault_text(c)) for a, b, c in s][:100] for s in python_stacks(dump))
    assert got == want
    assert len(got) == 8
    assert all(t["whole"] for t in some(dump["threads"]))


def test_merged(program):
    """Python frames stand where the interpreter's loop was: sorted() calls back into Python."""
    p, _, version = program
    wait_for(lambda: all("wait" in json.dumps(t) for t in run_dump(p.pid, "--python")["threads"][1:]), why="threads to wait")
    dump = run_dump(p.pid, "--no-lines")
    names = [[f["function"] for f in t["frames"]] for t in dump["threads"]]
    stack = next(s for s in names if any("by_key" in f for f in s))
    assert not any(f.startswith("_PyEval_EvalFrameDefault") for f in stack)
    inner = next(i for i, f in enumerate(stack) if f.endswith("<lambda>"))
    outer = next(i for i, f in enumerate(stack) if f == "by_key")
    between = stack[inner + 1:outer]
    assert any("sort" in f or not f for f in between), between  # a stripped interpreter's own functions have no names
    if any("PyObject" in f for s in names for f in s):  # symbols are there
        assert stack.index("wait") < inner
    if version in ("3.9", "3.10"):  # one native frame each: the interpreter's calls lie between them
        deep = next(s for s in names if s.count("deep") == 201)
        assert len(deep) > 2 * 201


def test_goes_on(program):
    """The process is not harmed: it still runs, and a dump of it while it runs shows the same without stopping it."""
    p, _, _ = program
    stopped = run_dump(p.pid, "--python")
    running = run_dump(p.pid, "--nonblocking")
    assert sorted(s for s in python_stacks(running) if s) == sorted(s for s in python_stacks(stopped) if s)
    assert p.poll() is None
    state = (Path("/proc") / str(p.pid) / "status").read_text()
    assert "TracerPid:\t0" in state and "State:\tT" not in state


C_PROGRAM = r'''
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
__attribute__((noinline)) int leaf(int n) { return pause() + n; }
__attribute__((noinline)) int rec(int n) { return n ? rec(n - 1) + 1 : leaf(n) + 2; }
static void *worker(void *p) { return (void *) (long) (rec(20) + 3); }
int main(void) {
    pthread_t t;
    pthread_create(&t, NULL, worker, NULL);
    puts("ready"); fflush(stdout);
    return rec(30) + 1;
}
'''


def test_native_as_gdb(tmp_path):
    if not shutil.which("gdb") or not shutil.which("cc"):
        pytest.skip("gdb and cc are needed")
    (tmp_path / "p.c").write_text(C_PROGRAM)
    subprocess.run(["cc", "-O2", "-g", "-fomit-frame-pointer", "-fno-optimize-sibling-calls", "-o", tmp_path / "p",
                    tmp_path / "p.c", "-pthread"], check=True)
    p = subprocess.Popen([tmp_path / "p"], stdout=subprocess.PIPE, text=True)
    try:
        assert p.stdout.readline() == "ready\n"
        wait_for(lambda: all("leaf" in json.dumps(t) for t in run_dump(p.pid)["threads"]), why="threads to pause")
        dump = run_dump(p.pid)
        out = subprocess.run(["gdb", "-batch", "-nx", "-p", str(p.pid), "-ex", "set backtrace past-main on", "-ex",
                              "thread apply all bt"], capture_output=True,
                             text=True, timeout=120).stdout
    finally:
        p.kill()
        p.wait()
        p.stdout.close()
    stacks = {}
    for part in re.split(r"\nThread ", out)[1:]:
        tid = int(re.search(r"LWP (\d+)", part).group(1))
        stacks[tid] = re.findall(r"^#\d+ +(?:0x[0-9a-f]+ in )?(\S+) \(", part, re.M)
    assert len(stacks) == 2
    for t in some(dump["threads"]):
        want = [f for f in stacks[t["tid"]] if f in ("leaf", "rec", "worker", "main")]
        got = [f["function"] for f in t["frames"] if f["function"] in ("leaf", "rec", "worker", "main")]
        assert got == want and t["whole"]
        assert len(t["frames"]) == len(stacks[t["tid"]])
        line = next(f for f in t["frames"] if f["function"] == "leaf")
        assert line["file"].endswith("p.c") and line["line"] == 5


# Two segments in one page of the file, the code a page further in memory than in the file: as lld lays out libraries, and
# patchelf those of Python's wheels.
APART = """
SECTIONS {
  . = SIZEOF_HEADERS;
  .note.gnu.build-id : { *(.note.gnu.build-id) }
  .hash : { *(.hash) } .gnu.hash : { *(.gnu.hash) } .dynsym : { *(.dynsym) } .dynstr : { *(.dynstr) }
  .rela.dyn : { *(.rela.*) } .rodata : { *(.rodata*) . = . + 0x1234; }
  .eh_frame_hdr : { *(.eh_frame_hdr) } .eh_frame : { KEEP(*(.eh_frame)) }
  . = ALIGN(0x1000) + (. & 0xfff);
  .plt : { *(.plt*) } .text : { *(.text*) }
  . = ALIGN(0x1000) + (. & 0xfff);
  .dynamic : { *(.dynamic) } .got : { *(.got*) } .data : { *(.data*) } .bss : { *(.bss*) }
}
"""
APART_LIBRARY = """
static int before(int (*f)(int), int n) { return n ? f(n) + 1 : 2; }
__attribute__((noinline)) int outer(int (*f)(int), int n) { return before(f, n) * 3; }
__attribute__((noinline)) int inner(int (*f)(int), int n) { return outer(f, n) + 1; }
"""
APART_PROGRAM = """
#include <stdio.h>
#include <unistd.h>
int inner(int (*f)(int), int n);
static int stop(int n) { puts("ready"); fflush(stdout); for (volatile int i = 0;; i = i + 1) if (n < 0) return n; }
int main(void) { return inner(stop, 5); }
"""


def library_apart(tmp_path):
    (tmp_path / "apart.ld").write_text(APART)
    (tmp_path / "apart.c").write_text(APART_LIBRARY)
    (tmp_path / "main.c").write_text(APART_PROGRAM)
    subprocess.run(["cc", "-O1", "-fomit-frame-pointer", "-shared", "-fPIC", "-nostdlib", "-Wl,-T," + str(tmp_path / "apart.ld"),
                    "-Wl,--build-id,--no-warn-rwx-segments", "-o", tmp_path / "libapart.so", tmp_path / "apart.c"], check=True)
    subprocess.run(["cc", "-O1", "-g", "-o", tmp_path / "main", tmp_path / "main.c", tmp_path / "libapart.so",
                    f"-Wl,-rpath,{tmp_path}"], check=True)
    out = subprocess.run(["readelf", "-lW", tmp_path / "libapart.so"], capture_output=True, text=True).stdout
    code = next(line.split() for line in out.splitlines() if "LOAD" in line and " R E " in line)
    assert int(code[2], 16) - int(code[1], 16) == 0x1000 and int(code[1], 16) % 0x1000  # that is what is tested
    return tmp_path / "main"


def test_code_apart_from_its_offset(tmp_path):
    """dump and record name the functions of such a library, and walk through it."""
    if not shutil.which("cc"):
        pytest.skip("cc is needed")
    exe = library_apart(tmp_path)
    p = subprocess.Popen([exe], stdout=subprocess.PIPE, text=True)
    try:
        assert p.stdout.readline() == "ready\n"
        (thread,) = run_dump(p.pid)["threads"]
        recorded = subprocess.run([WICK, "record", "-q", "-F", "199", "-d", "0.5s", "-p", str(p.pid), "-o", tmp_path / "x.folded"],
                                  capture_output=True, text=True)
    finally:
        p.kill()
        p.wait()
        p.stdout.close()
    names = [f["function"] for f in thread["frames"]]
    assert thread["whole"] and names[:4] in (["stop", "outer", "inner", "main"], ["stop", "before", "outer", "inner"]), names
    if recorded.returncode == 0:
        stacks = [line.rsplit(" ", 1)[0].split(";") for line in (tmp_path / "x.folded").read_text().splitlines()]
        assert stacks and all(names[::-1][-4:] == [f for f in s if not f.startswith("[")][-4:] or "main" in s for s in stacks)
        assert any({"inner", "outer", "stop"} <= set(s) for s in stacks), stacks


REAL = [["sleep", "60"], ["cat"], ["tail", "-f", "/dev/null"], ["bash", "-c", "read x"], ["dash", "-c", "read x"],
        ["perl", "-e", "sleep 60"], ["python3", "-c", "import time; time.sleep(60)"], ["sort"], ["wc"], ["grep", "x"], ["sed", "p"],
        ["awk", "{}"], ["xargs"], ["tee"], ["md5sum"], ["gzip", "-c"], ["xz", "-c"], ["git", "cat-file", "--batch"],
        ["openssl", "sha256"], ["node", "-e", "setTimeout(() => 0, 60000)"], ["sqlite3"], ["bc"], ["make", "-f", "-"],
        ["python3", "-c", "import numpy as n; a = n.ones((900, 900))\nwhile 1: a @ a"], ["gdb", "-q"], ["cpio", "-o"],
        ["tr", "a", "b"], ["cut", "-c1"], ["uniq"], ["od"]]


def gdb_stacks(pid):
    """{tid: (addresses leaf first, whether gdb gave up)}."""
    out = subprocess.run(["gdb", "-batch", "-nx", "-p", str(pid), "-ex", "set backtrace past-main on", "-ex", "set print address on",
                          "-ex", "set print frame-info location-and-address", "-ex", "thread apply all -q bt 200"], capture_output=True, text=True,
                         timeout=120).stdout
    found = {}
    for part in re.split(r"\nThread ", out)[1:]:
        tid = int(re.search(r"LWP (\d+)", part).group(1))
        found[tid] = ([int(a, 16) for a in re.findall(r"^#\d+ +0x([0-9a-f]+) in ", part, re.M)], "Backtrace stopped" in part)
    if not found:
        found[pid] = ([int(a, 16) for a in re.findall(r"^#\d+ +0x([0-9a-f]+) in ", out, re.M)], "Backtrace stopped" in out)
    return found


@pytest.mark.slow
def test_real_programs_as_gdb():
    """Where gdb sees a stack to its end, so does dump, address for address; where dump does not, it says so."""
    if not shutil.which("gdb"):
        pytest.skip("gdb is needed")
    seen = []
    for command in REAL:
        if not shutil.which(command[0]):
            continue
        p = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            time.sleep(1.5 if command[0] in ("node", "gdb", "python3") else 0.4)
            if p.poll() is not None:
                continue
            dump = run_dump(p.pid)
            theirs = gdb_stacks(p.pid)
        finally:
            p.kill()
            p.wait()
        seen.append(command[0])
        busy = "while" in command[-1]
        for t in some(dump["threads"]):
            ours = [f["address"] for f in t["frames"] if not f.get("inlined")]
            want, stopped = theirs.get(t["tid"], ([], True))
            if busy or command[0] == "node" or "python" in command[0]:  # moves on, or has code that gdb cannot walk
                assert t["whole"] or command[0] == "node", (command, ours, want)
                continue
            rest = iter(want)  # gdb also shows calls that were jumps, which are in no stack
            assert all(a in rest for a in some(ours[:len(want)])), (command, [hex(a) for a in ours], [hex(a) for a in want])
            assert t["whole"] and (stopped or ours[-1] == want[-1]), (command, len(ours), len(want))
    assert len(seen) >= 15, seen


GO_PROGRAM = '''
package main

import (
	"context"
	"fmt"
	"runtime/pprof"
	"time"
)

''' + GO_LEAF + '''
//go:noinline
func mid(n int) int { return leaf(n) + 1 }

//go:noinline
func spin() {
	for {
		sink += mid(1 << 30)
	}
}

func main() {
	go pprof.Do(context.Background(), pprof.Labels("endpoint", "/cart", "tenant", "acme"), func(context.Context) { spin() })
	time.Sleep(100 * time.Millisecond)
	fmt.Println("ready")
	time.Sleep(time.Hour)
}
'''


@pytest.mark.parametrize("flags", [[], ["-ldflags=-s -w"], ["-buildmode=pie"]], ids=["plain", "stripped", "pie"])
def test_go(tmp_path, flags):
    if not shutil.which("go"):
        pytest.skip("go is not installed")
    (tmp_path / "p.go").write_text(GO_PROGRAM)
    env = {**os.environ, "GOCACHE": os.environ.get("GOCACHE", str(Path.home() / ".cache/go-build")), "GOFLAGS": "-mod=mod"}
    subprocess.run(["go", "build", *flags, "-o", "p", "p.go"], cwd=tmp_path, check=True, timeout=240, env=env)
    p = subprocess.Popen([tmp_path / "p"], stdout=subprocess.PIPE, text=True)
    try:
        assert p.stdout.readline() == "ready\n"
        dump = run_dump(p.pid)
    finally:
        p.kill()
        p.wait()
        p.stdout.close()
    assert dump["runtime"].startswith("go1.")
    busy = next(t for t in dump["threads"] if any(f["function"] == "main.spin" for f in t["frames"]))
    names = [f["function"] for f in busy["frames"]]
    at = names.index("main.leaf")
    assert names[at:at + 3] == ["main.leaf", "main.mid", "main.spin"]
    assert names[-1].startswith("runtime.goexit") and busy["whole"]
    assert next(f for f in busy["frames"] if f["function"] == "main.mid")["line"] == 23
    assert all(t["whole"] for t in some(dump["threads"]))
    assert busy["labels"] == {"endpoint": "/cart", "tenant": "acme"}
    assert not any(t["labels"] for t in dump["threads"] if t is not busy)


GOROUTINES = '''
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"runtime/pprof"
	"sync"
	"syscall"
	"time"
)

type table struct{ mu sync.Mutex }

func (t *table) lock() { t.mu.Lock() }

//go:noinline
func receive(c chan int) int { return <-c }

func send(c chan int) { c <- 1 }

func both(a, b chan int) {
	select {
	case <-a:
	case <-b:
	}
}

func deep(n int, c chan int) int {
	if n == 0 {
		return receive(c)
	}
	return deep(n-1, c) + 1
}

func generic[T any](c chan T) T { return <-c }

func main() {
	c, t, wg := make(chan int), &table{}, &sync.WaitGroup{}
	t.mu.Lock()
	wg.Add(1)
	for i := 0; i < 3; i++ {
		go receive(c)
	}
	go send(nil)
	go both(c, c)
	go deep(20, c)
	go generic[string](make(chan string))
	go t.lock()
	go wg.Wait()
	go time.Sleep(time.Hour)
	go func() { sync.NewCond(&sync.Mutex{}).L.Lock(); select {} }()
	pprof.Do(context.Background(), pprof.Labels("job", "index"), func(context.Context) { go both(nil, nil) })
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGUSR1)
	for i := 0; i < 10; i++ { // the collector notes who waits
		time.Sleep(100 * time.Millisecond)
		runtime.GC()
	}
	fmt.Println("ready")
	for {
		<-asked
		b := make([]byte, 1<<20)
		os.WriteFile(os.Args[1], b[:runtime.Stack(b, true)], 0644)
		fmt.Println("written")
	}
}
'''


def own_goroutines(text):
    """{id: (state, functions that are not the runtime's)} of runtime.Stack()."""
    found = {}
    for part in text.strip().split("\n\n"):
        head, *lines = part.splitlines()
        number, state = re.match(r"goroutine (\d+) (?:gp=\S+ m=\S+ (?:mp=\S+ )?)?\[(.*)\]:$", head).groups()
        names = [x[:x.rindex("(")] for x in lines if not x.startswith(("\t", "created by"))]
        found[int(number)] = (re.sub(r", \d+ minutes|, locked to thread", "", state), [x for x in names if not x.startswith("runtime.")])
    return found


def check_goroutines(tmp_path, flags, **more):
    (tmp_path / "p.go").write_text(GOROUTINES)
    (tmp_path / "go.mod").write_text("module example\ngo 1.19\n")
    env = {**os.environ, "GOCACHE": os.environ.get("GOCACHE", str(Path.home() / ".cache/go-build")), "GOFLAGS": "-mod=mod", **more}
    subprocess.run(["go", "build", *flags, "-o", "p", "p.go"], cwd=tmp_path, check=True, timeout=500, env=env)
    p = subprocess.Popen([tmp_path / "p", tmp_path / "own"], stdout=subprocess.PIPE, text=True)
    try:
        assert p.stdout.readline() == "ready\n"
        dump, running = run_dump(p.pid), run_dump(p.pid, "--nonblocking")
        text = subprocess.run([WICK, "dump", str(p.pid)], capture_output=True, text=True, check=True).stdout
        p.send_signal(signal.SIGUSR1)
        assert p.stdout.readline() == "written\n"
    finally:
        p.kill()
        p.wait()
        p.stdout.close()
    own = own_goroutines((tmp_path / "own").read_text())
    own.pop(1)  # it writes this
    assert len(own) >= 12
    for what in (dump, running):
        seen = {g["id"]: g for g in what["goroutines"]}
        assert set(own) | {1} == {i for i, g in seen.items() if not g.get("system")}
        for number, (state, names) in own.items():
            g = seen[number]
            woken = any(x.startswith("os/signal.") for x in names)  # by the signal that asks: it has gone on
            assert woken or (number, state) == (number, g["state"])
            ours = [f["function"] for f in g["frames"] if not f["function"].startswith("runtime.")]
            ours = [re.sub(r"\[.*\]", "[...]", x) for x in ours]
            if len(ours) > len(names) and ours[-1].startswith("main.main."):  # Go hides the wrapper of a `go` statement
                ours.pop()
            assert names == ours or (woken and names[-1:] == ours[-1:]), number
            assert g["whole"] or g.get("tid")
        assert seen[1]["state"] == "chan receive"
        waits = [g for g in seen.values() if g["state"] == "chan receive" and g["id"] != 1 and not g.get("system")]
        assert len(waits) == 5 and all(0 < g["wait_ns"] < 300e9 for g in waits), waits
        assert [g["labels"] for g in seen.values() if g["labels"]] == [{"job": "index"}]
    assert not running["threads"]
    assert re.search(r"^process \d+, go1\.\S+, \d+ threads, \d+ goroutines$", text, re.M)
    assert re.search(r"^goroutine \d+, chan receive for \d+ (seconds|minutes)$", text, re.M)


@pytest.mark.parametrize("flags", [[], ["-ldflags=-s -w", "-buildmode=pie"]], ids=["plain", "stripped"])
def test_goroutines(tmp_path, flags):
    """Goroutines, their states and stacks, as the program itself sees them."""
    if not shutil.which("go"):
        pytest.skip("go is not installed")
    check_goroutines(tmp_path, flags)


@pytest.mark.slow
@pytest.mark.parametrize("version", ["go1.19.13", "go1.20.14", "go1.21.0", "go1.22.0", "go1.23.0", "go1.24.0", "go1.25.0"])
def test_goroutines_of_other_versions(tmp_path, version):
    """Toolchains that can be had as modules."""
    if not shutil.which("go") or subprocess.run(["go", "version"], env={**os.environ, "GOTOOLCHAIN": version}, capture_output=True).returncode:
        pytest.skip(f"{version} is not available")
    check_goroutines(tmp_path, ["-ldflags=-s -w"], GOTOOLCHAIN=version)


def test_errors():
    def fails(*words):
        return subprocess.run([WICK, "dump", *words], capture_output=True, text=True)

    assert fails().returncode == 2
    assert fails("x").returncode == 2
    r = fails("4194304")
    assert r.returncode == 1 and "no such process" in r.stderr.lower() or "cannot" in r.stderr
    r = fails(str(os.getpid()), "--nonblocking", "--bogus")
    assert r.returncode == 2
    p = subprocess.Popen(["sleep", "60"])
    try:
        r = fails("--nonblocking", str(p.pid))
        assert r.returncode == 1 and "runs neither Python, Go nor Java" in r.stderr
    finally:
        p.kill()
        p.wait()


NODE = """
const { Worker, isMainThread } = require('worker_threads');
Error.stackTraceLimit = Infinity;
Error.prepareStackTrace = (e, sites) => sites.map(s => [s.getFunctionName() || '(anonymous)', s.getFileName() || '']);
class Shop {
  constructor(n) { this.n = n; }
  wait(local) {
    const deep = { a: local, b: () => local };
    console.log(JSON.stringify([new Error().stack, deep.b()]));
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 600000);
    return deep;
  }
}
const made = function namedOuter(shop) { const inner = x => shop.wait(x); return [1].map(inner); };
function many(shop) { VARIABLES; const uses = () => USED; uses(); made(shop); }
async function later() { await null; many(new Shop(3)); }
if (isMainThread) { for (let i = 0; i < 20000; i++) Math.hypot(i, i); setImmediate(later); }
"""


@pytest.mark.parametrize("variables", [74, 75, 76])
@pytest.mark.parametrize("node", nodes.found().values(), ids=nodes.found())
def test_node(tmp_path, node, variables):
    """JavaScript functions as V8's own stack trace has them, without a perf map. V8 keeps a function's variables, if closures use
    them, in two ways, depending on their number."""
    names = [f"v{i}" for i in range(variables)]
    program = tmp_path / "shop.js"
    program.write_text(NODE.replace("VARIABLES", "; ".join(f"let {n} = {n.strip('v')}" for n in names)).replace("USED", " + ".join(names)))
    p = subprocess.Popen([node, program], stdout=subprocess.PIPE, text=True)
    try:
        sites = [tuple(x) for x in json.loads(p.stdout.readline())[0]]
        time.sleep(0.2)
        d = json.loads(subprocess.run([WICK, "dump", "--json", str(p.pid)], capture_output=True, text=True, check=True, timeout=120).stdout)
    finally:
        p.kill()
        p.wait()
    main = next(t for t in d["threads"] if t["tid"] == p.pid)
    got = [(f["function"], f["file"]) for f in main["frames"] if f["type"] == "v8js"]
    assert ("wait", str(program)) in sites and ("many", str(program)) in sites and len(sites) >= 6
    assert got == [s for s in sites if s != ("map", "")]  # V8's own function, which has a symbol
    assert [f["function"] for f in main["frames"] if f["function"].startswith("Builtins_Array")] == ["Builtins_ArrayMap"]
    assert [f["line"] for f in main["frames"] if f["function"] == "wait"] == [NODE.split("\n").index(next(x for x in NODE.split("\n") if "Atomics.wait" in x)) + 1]


JAVA = """
public class Shop {
    static final Object lock = new Object();
    static void waits() { synchronized (lock) { try { lock.wait(); } catch (InterruptedException e) { } } }
    public static void main(String[] a) throws Exception {
        Thread t = new Thread(Shop::waits, "orders, a \\"long\\" name");
        t.setDaemon(true);
        t.start();
        System.out.println("ready");
        Thread.sleep(600000);
    }
}
"""


@pytest.mark.slow
@pytest.mark.parametrize("user", [None, "nobody"])
def test_java_threads(tmp_path, user):
    """With the names, states and frames that Java gives them; also of another user's program, which answers only its own user."""
    need("javac", "java")
    if user and os.geteuid() != 0:
        pytest.skip("not root")
    source = Path(tempfile.mkdtemp())  # below /tmp: another user must be able to read it
    try:
        source.chmod(0o755)
        (source / "Shop.java").write_text(JAVA)
        subprocess.run(["javac", "-d", source, source / "Shop.java"], check=True)
        p = subprocess.Popen(["java", "-cp", source, "Shop"], stdout=subprocess.PIPE, text=True, user=user, cwd="/")
        try:
            assert p.stdout.readline() == "ready\n"
            d = json.loads(subprocess.run([WICK, "dump", "--json", str(p.pid)], capture_output=True, text=True, check=True, timeout=120).stdout)
            threads = {t["name"]: t for t in d["java_threads"]}
            main, orders = threads["main"], threads['orders, a "long" name']
            assert [f["function"] for f in main["frames"]] == ["java.lang.Thread.sleep", "Shop.main"]
            assert main["frames"][-1]["file"] == "Shop.java" and main["frames"][-1]["line"] == 10
            assert [f["function"] for f in orders["frames"]].count("Shop.waits") == 1
            assert orders["state"].startswith("WAITING") and main["state"].startswith("TIMED_WAITING")
            assert main["tid"] in [t["tid"] for t in d["threads"]] and "OpenJDK" in d["runtime"]
            assert p.poll() is None
        finally:
            p.kill()
            p.wait()
    finally:
        shutil.rmtree(source)
