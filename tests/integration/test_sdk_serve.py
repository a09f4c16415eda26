# SPDX-License-Identifier: Apache-2.0
"""/debug/pprof/ of libwick as Go has it: every endpoint, read by go tool pprof; lines and inlined calls by `wick symbolize`."""
import os
import re
import socket
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from go_tools import pprof_command
from sdk_tools import WICK, free_port, needs_go
from wick_tools import wait_for

pytestmark = needs_go


class Served:
    def __init__(self, exe, tmp_path, *args, **env):
        self.base, self.tmp_path = f"http://127.0.0.1:{free_port()}/debug/pprof", tmp_path
        self.process = subprocess.Popen([WICK, "run", *args, "--pprof", self.base.split("/")[2], "--", exe], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True, env={**os.environ, **env})
        assert self.process.stdout.readline() == "ready\n"
        wait_for(self.is_there)

    def is_there(self):
        try:
            return self.get("/")
        except urllib.error.URLError:
            return None

    def get(self, what):
        return urllib.request.urlopen(self.base + what, timeout=30).read().decode()

    def pprof(self, what, *args):
        p = subprocess.run([*pprof_command(), *args, self.base + what], capture_output=True, text=True,
                           env={**os.environ, "PPROF_TMPDIR": str(self.tmp_path)})
        assert p.returncode == 0, p.stderr
        return p.stdout

    def end(self):
        """Standard output from here on."""
        out, _ = self.process.communicate(timeout=60)
        return out


@pytest.fixture()
def served(program, tmp_path):
    s = Served(program("threads_shown"), tmp_path, "-t", "cpu,heap,lock", "--alloc-interval", "4096")
    yield s
    s.process.kill()
    s.process.wait()


HOT = 21  # the line of threads_shown.cc that burns


def test_lines_and_inlined_calls(served):
    out = served.pprof("/profile?seconds=1", "-top", "-lines")
    assert re.search(rf"inner \S*threads_shown\.cc:{HOT - 1}|inner \S*threads_shown\.cc:{HOT}", out), out
    assert "(inline)" in out and re.search(r"outer_function \S*threads_shown\.cc:\d+", out), out
    assert "inner(x)" in served.pprof("/profile?seconds=1", "-list", "outer_function")
    assert served.end() == "children 0, wait() says -1\n"  # the helper process was not the program's to see


def test_without_the_helper_names_are_enough(program, tmp_path):
    s = Served(program("threads_shown"), tmp_path, WICK_SYMBOLIZE="off")
    out = s.pprof("/profile?seconds=1", "-top")
    s.end()
    assert "outer_function" in out and "inline" not in out


def test_goroutine_is_every_thread_where_it_is(served):
    wait_for(lambda: "spinner" in served.pprof("/goroutine", "-traces"), why="a CPU sample of the one that runs")
    out = served.pprof("/goroutine", "-traces")
    stacks = [re.sub(r" \(inline\)", "", b).split() for b in out.split("-----------+" + "-" * 55)[1:]]
    naps = next(s for s in stacks if "napper" in s)
    assert naps[0] == "3" and naps[1] in ("pause", "__libc_pause", "__pause"), naps
    assert naps[-1] in ("clone3", "__clone3", "clone", "[libc.so.6]"), naps  # the last: a libc without a symbol table
    assert any("spinner" in s for s in stacks) and any("main" in s for s in stacks), out
    assert "Type: goroutine" in out and "Total samples = 6" in out
    text = served.get("/goroutine?debug=1")
    assert text.startswith("goroutine profile: total 6\n") and re.search(r"^3 @ 0x", text, re.M)
    assert re.search(r"#\t0x[0-9a-f]+\tnapper\+0x[0-9a-f]+\t\t\S+threads_shown.cc:\d+", text), text
    paragraphs = served.get("/goroutine?debug=2").strip().split("\n\n")
    assert len(paragraphs) == 6 and all(re.match(r"goroutine \d+ \[(waiting|running), thread \S+\]:\n", p) for p in paragraphs)


def test_threadcreate(served):
    out = served.pprof("/threadcreate", "-traces")
    assert "Type: threadcreate" in out and re.search(r"3\s+start_all\n\s+main\n", out), out
    assert served.get("/threadcreate?debug=1").startswith("threadcreate profile: total 6\n")


def test_totals_and_differences(served):
    assert "Type: inuse_space" in served.pprof("/heap", "-top")
    before = float(re.search(r"of (\d+) total", served.pprof("/allocs", "-top", "-sample_index=alloc_objects")).group(1))
    delta = float(re.search(r"of (\d+) total", served.pprof("/allocs?seconds=1", "-top", "-sample_index=alloc_objects")).group(1))
    assert 0 < delta < 3000 and before > 0  # one a millisecond at most
    assert "Type: delay" in served.pprof("/mutex", "-top") and "Type: delay" in served.pprof("/block?seconds=1", "-top")
    heap = served.get("/heap?debug=1")
    assert re.match(r"heap profile: \d+: \d+ \[\d+: \d+\] @ heap/1\n", heap), heap[:200]
    legacy = served.tmp_path / "legacy"
    legacy.write_text(heap)
    got = subprocess.run([*pprof_command(), "-raw", legacy], capture_output=True, text=True)
    assert got.returncode == 0 and "alloc_space" in got.stdout, got.stderr
    (served.tmp_path / "proto").write_bytes(urllib.request.urlopen(served.base + "/heap", timeout=30).read())
    proto = subprocess.run([*pprof_command(), "-raw", served.tmp_path / "proto"], capture_output=True, text=True).stdout
    calls = [set(re.findall(r"^ +\d+: (0x[0-9a-f]+)", raw, re.M)) for raw in (got.stdout, proto)]
    assert calls[0] and calls[0] <= calls[1]  # readers of the text subtract one from every address


def test_index_cmdline_symbol(served):
    page = served.get("/")
    for name in ("allocs", "block", "cmdline", "goroutine", "heap", "mutex", "profile", "symbol", "threadcreate"):
        assert f"'>{name}</a>" in page.replace("debug=1", "").replace("seconds=10", "").replace("?", ""), name
    assert "full goroutine stack dump" in page
    assert re.search(r"/threads_shown\d+$", served.get("/cmdline"))
    address = re.search(r"#\t(0x[0-9a-f]+)\tnapper", served.get("/goroutine?debug=1")).group(1)
    request = urllib.request.Request(served.base + "/symbol", data=f"{address}+{address}".encode(), method="POST")
    answer = urllib.request.urlopen(request, timeout=5).read().decode()
    assert answer.startswith("num_symbols: 1\n") and re.search(rf"{address} \S*napper", answer), answer
    for wrong, code in (("/nothing", 404), ("/profile?seconds=0", 400), ("/profile?seconds=x", 400)):
        with pytest.raises(urllib.error.HTTPError) as e:
            served.get(wrong)
        assert e.value.code == code


def test_many_symbols_read_a_file_once(served):
    """4,300 addresses, as many as a request holds, take about as long as one, and have the names that each has alone."""
    def ask(addresses):
        begun = time.perf_counter()
        request = urllib.request.Request(served.base + "/symbol", data="+".join(map(hex, addresses)).encode(), method="POST")
        answer = urllib.request.urlopen(request, timeout=30).read().decode()
        return time.perf_counter() - begun, dict(re.findall(r"^(0x\w+) (\S+)$", answer, re.M))

    maps = Path(f"/proc/{served.process.pid}/maps").read_text()
    code = [int(m.group(1), 16) for m in re.finditer(r"^(\w+)-\w+ r-xp .*(?:threads_shown\d+|/libc\.so\.6)$", maps, re.M)]
    assert len(code) == 2
    many = [a + 16 * i for a in code for i in range(64, 2214)]
    one, several = min(ask(many[:1])[0] for _ in range(5)), min(ask(many)[0] for _ in range(5))
    assert several < 100 * one, (several, one)
    names = ask(many)[1]
    assert len(names) > 100  # a libc without a symbol table has those of its exports only
    for address in [*many[::430], *(int(a, 16) for a in list(names)[::20])]:
        assert ask([address])[1].get(hex(address)) == names.get(hex(address))
    assert ask([many[0], 1, many[0]])[1] == ask(many[:1])[1]


@pytest.mark.parametrize("host, status", [("localhost:1", 200), ("127.0.0.1", 200), ("[::1]:80", 200), ("1.evil.example", 403),
                                          ("evil.example", 403), ("[::1].evil.example", 403), ("127.0.0.1.evil.example", 403)])
def test_only_names_of_this_machine_are_answered(served, host, status):
    request = urllib.request.Request(served.base + "/cmdline", headers={"Host": host})
    try:
        got = urllib.request.urlopen(request, timeout=10).status
    except urllib.error.HTTPError as e:
        got = e.code
    assert got == status


@pytest.mark.parametrize("what", ["/profile?seconds=60", "/wall?seconds=60", "/heap?seconds=60", "/mutex?seconds=60"])
def test_a_client_that_goes_away_leaves_nothing_on(program, tmp_path, what):
    own = "lock" if "mutex" not in what else "cpu"
    s = Served(program("threads_shown"), tmp_path, "-t", own)

    def wait_for_types(others):
        wait_for(lambda: (re.search(r"Sampled now: ([a-z ]*)<", s.get("/")).group(1).split() != [own]) == others, why=lambda: s.get("/"))

    try:
        wait_for_types(False)
        host, port = s.base.split("/")[2].split(":")
        with socket.create_connection((host, int(port))) as c:
            c.sendall(f"GET /debug/pprof{what} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            wait_for_types(True)
        wait_for_types(False)
    finally:
        s.process.kill()
        s.process.wait()
