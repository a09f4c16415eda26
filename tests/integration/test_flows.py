# SPDX-License-Identifier: Apache-2.0
"""Follows a push, a question and a sample of the agent through the rooms of the source, in running processes, with gdb
(room_trace.py): the table "Flows" of ARCHITECTURE.md says which rooms each of them passes."""
import collections
import json
import os
import platform
import re
import subprocess
import sys
from pathlib import Path

import pytest

from agent_tools import needs_bpf
from wick_tools import BUILD, ROOT, SHOP, Server, descendants, log_of, need, request, some, wait_for

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="room_trace.py reads x86-64 code")
VOCABULARY = {"", "base", "cli"}  # the system's libraries, what every room uses, and main()
# The request belongs to net and the batch to model: the rooms that have them read them by functions of these two.
OPEN = {"net", "model"}


def documented():
    """The table: flow -> (rooms on the way, rooms that are asked)."""
    flows = {}
    for line in (ROOT / "ARCHITECTURE.md").read_text().partition("## Flows")[2].partition("## How")[0].splitlines():
        cells = [re.findall(r"`(\w+)`", c) for c in line.strip("|").split("|")]
        if line.startswith("| a ") and len(cells) == 3:
            flows[line.split("|")[1].strip().replace("`", "")] = cells[1], cells[2]
    return flows


@pytest.fixture(scope="module")
def functions(tmp_path_factory):
    """The functions that a room calls in another one, all of `serve`, and those of the storage engine: where rooms are entered."""
    need("gdb", "nm")
    defined, used = {}, collections.defaultdict(set)
    for library in some(sorted(BUILD.glob("libwick-*.a"))):
        text = subprocess.run(["nm", "-A", str(library)], capture_output=True, text=True, check=True).stdout
        for room, kind, name in re.findall(r"/src_([a-z0-9]+)_[^:]*\.o:\s*[0-9a-f]*\s*([TU]) (\S+)$", text, re.M):
            if kind == "T":
                defined[name] = room
            else:
                used[name].add(room)
    path = tmp_path_factory.mktemp("rooms") / "functions"
    entries = [n for n, room in defined.items() if room not in VOCABULARY and (room == "serve" or used[n] - {room} or n.startswith("engine_"))]
    assert len(entries) > 300
    path.write_text("\n".join(sorted(entries)))
    return path


class Trace:
    """Records the calls of a process, in one part up to each of `ends`."""

    def __init__(self, functions, tmp_path, pid, *ends):
        self.out, self.ends = tmp_path / f"trace-{ends[0]}", ends
        env = {**os.environ, "FUNCTIONS": str(functions), "END": ",".join(ends), "OUT": str(self.out)}
        self.gdb = subprocess.Popen(["gdb", "-nx", "-batch", "-iex", "set debuginfod enabled off", "-p", str(pid), "-x",
                                     str(ROOT / "tests/integration/room_trace.py")], env=env, stdin=subprocess.DEVNULL,
                                    stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        wait_for(lambda: self.gdb.poll() is not None or os.path.exists(f"{self.out}.ready"), 120, "gdb is ready")
        if self.gdb.poll() is not None and "ptrace" in (said := self.gdb.stdout.read()):
            pytest.skip(f"gdb may not attach: {said.splitlines()[0]}")

    def parts(self):
        try:
            said, _ = self.gdb.communicate(timeout=120)
        except subprocess.TimeoutExpired:
            self.gdb.kill()
            raise
        assert self.gdb.returncode == 0, said
        calls = [json.loads(line) for line in self.out.read_text().splitlines()]
        return [[c for c in calls if c["part"] == i] for i in range(len(self.ends))]


def stack(call):
    """The rooms of a call from the outermost frame inwards, each with whether it was entered by the name of a function."""
    rooms = []
    for room, _, direct in reversed(call["frames"]):
        if room not in VOCABULARY and not (room == "model" and direct is None):  # the inline functions of sink.h
            if not rooms or rooms[-1][0] != room:
                rooms.append((room, direct))
    return rooms


def passed(calls):
    """The rooms of calls in the order in which they were entered first."""
    return list(dict.fromkeys(room for call in calls for room, _ in stack(call)))


def check_way(calls, way, asked):
    """The way has at most six rooms, and these and the asked ones are all that were entered, in this order. No room is entered
    again from one after it, except by a pointer that it gave away; the rooms of OPEN are those of the data itself."""
    seen = passed(calls)
    assert len(way) <= 6 and len(set(way)) == len(way)
    assert [r for r in seen if r not in asked] == way and set(seen) <= {*way, *asked}, (seen, way, asked)
    steps = [(call, before, room, direct) for call in calls for (before, _), (room, direct) in zip(stack(call), stack(call)[1:])]
    for call, before, room, direct in some(steps):
        if room in way and before in way and room not in OPEN and way.index(room) < way.index(before):
            assert direct is False, (call["function"], stack(call))


@pytest.fixture(scope="module")
def requests(functions, tmp_path_factory):
    """The calls of a push, and those of a question about it."""
    tmp_path = tmp_path_factory.mktemp("server")
    server = Server(tmp_path, "--no-agent")
    try:
        trace = Trace(functions, tmp_path, server.p.pid, "engine_append", "engine_select")
        assert server.send(request(SHOP))[0] == 200
        assert b"checkout" in server.get("/api/v1/flame?query=cpu&from=now-10m")[1]
        return trace.parts()
    finally:
        server.stop()


def test_push(requests):
    way, asked = documented()["a push to wick serve"]
    calls = [c for c in requests[0] if c["thread"] == requests[0][-1]["thread"]]  # the loop itself hands the batch to the store
    check_way(calls, way, asked)
    assert [r for r, _ in stack(calls[-1])] == ["net", "serve", "pipeline", "serve", "store"]
    assert [r for r, _ in stack(next(c for c in calls if c["function"] == "batch_new"))] == ["net", "serve", "pipeline", "codec", "model"]


def test_question(requests):
    way, asked = documented()["a question"]
    calls = requests[1][[c["function"] for c in requests[1]].index("front_begin"):]  # before it the push is answered
    threads = {c["thread"] for c in calls if c["function"] in ("front_begin", "engine_select")}
    calls = [c for c in calls if c["thread"] in threads]
    check_way(calls, way, asked)
    assert [r for r, _ in stack(calls[-1])] == ["server", "query", "store"]


def is_agent(pid):
    try:
        return b"--feed-fd" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


@pytest.mark.slow
def test_agent(functions, tmp_path, monkeypatch):
    needs_bpf()
    monkeypatch.delenv("WICK_NO_AGENT", raising=False)
    way, asked = documented()["a sample of the agent"]
    server = Server(tmp_path)
    busy = subprocess.Popen([sys.executable, "-c", "while 1: pass"])
    try:
        # two others start it again when it dies
        agent = wait_for(lambda: [p for p in descendants(server.p.pid) if is_agent(p)][2:], why=lambda: log_of(server))[0]
        sent, stored = (Trace(functions, tmp_path, *x) for x in ((agent, "otlp_encode"), (server.p.pid, "engine_append")))
        (sent,), (stored,) = sent.parts(), stored.parts()
    finally:
        busy.kill()
        busy.wait()
        server.stop()
    made = [c for c in sent if c["thread"] == sent[-1]["thread"]]
    made = made[[c["function"] for c in made].index("agent_take"):]  # the rest is sampling
    kept = [c for c in stored if c["thread"] == stored[-1]["thread"]]
    assert [r for r, _ in stack(made[-1])] == ["host", "codec"] and [r for r, _ in stack(kept[-1])] == ["host", "serve", "store"]
    assert any([r for r, _ in stack(c)] == ["host", "agent", "model"] for c in made)
    assert {*way} <= {*passed(made), *passed(kept)} <= {*way, *asked}
    assert len(way) <= 6 and len(set(way)) == len(way)
