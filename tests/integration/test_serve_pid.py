# SPDX-License-Identifier: Apache-2.0
"""/pid/N/debug/pprof/profile: pprof's own client asks wick serve for a profile of any process. Needs the agent's rights."""
import json
import os
import re
import shutil
import subprocess

import pytest

from agent_tools import WICK, build, child_pids, cmdline, needs_bpf
from wick_tools import Server, go_tool, wait_for


@pytest.fixture
def watched(tmp_path, monkeypatch):
    """A server with its agent, a process to look at, and tokens."""
    needs_bpf()
    exe = build(tmp_path, "chain.c", "asked_for", "-O2", "-fomit-frame-pointer")
    process = subprocess.Popen([str(exe), "5", "1000"], stdout=subprocess.DEVNULL)

    def token(scope):
        return subprocess.run([WICK, "token", "create", "--file", str(tmp_path / "tokens"), "--scope", scope], capture_output=True,
                              text=True, check=True).stdout.strip()

    admin, read = token("admin"), token("read")
    monkeypatch.delenv("WICK_NO_AGENT", raising=False)
    s = Server(tmp_path)
    s.admin, s.read, s.pid = admin, read, process.pid
    yield s
    process.kill()
    process.wait()
    if s.p.poll() is None:
        s.stop()


def url(s, query="", pid=None, token=None):
    host = s.url.removeprefix("http://")
    return f"http://x:{token or s.admin}@{host}/pid/{pid or s.pid}/debug/pprof/profile{query}"


def profiles(server):
    """How many are being recorded: children of the agent's supervisor, which the starter started, besides the one that samples."""
    at = [p for p in child_pids(server.p.pid) if b"--feed-fd" in cmdline(p)]
    for _ in range(2):
        at = [q for p in at for q in child_pids(p)]
    return len(at) - 1


@pytest.mark.skipif(not shutil.which("go"), reason="needs go")
def test_go_tool_pprof_asks_for_a_process(watched, tmp_path):
    env = {**os.environ, "PPROF_TMPDIR": str(tmp_path), "PPROF_BINARY_PATH": str(tmp_path)}
    p = go_tool("tool", "pprof", "-top", url(watched, "?seconds=2"), env=env)
    assert p.returncode == 0, p.stderr
    assert "Type: cpu" in p.stdout and re.search(r"Duration: \d", p.stdout), p.stdout
    assert re.search(r"[\d.]+m?s +[\d.]+% .* leaf$", p.stdout, re.M) and re.search(r"[\d.]+m?s +[\d.]+%  main$", p.stdout, re.M), p.stdout


def test_wick_pprof_asks_for_a_process(watched, tmp_path):
    env = {**os.environ, "PPROF_TMPDIR": str(tmp_path)}
    p = subprocess.run([WICK, "pprof", "-raw", url(watched, "?seconds=2")], capture_output=True, text=True, timeout=120, env=env)
    assert p.returncode == 0, p.stderr
    assert "asked_for" in p.stdout and "samples/count cpu/nanoseconds" in p.stdout
    assert re.search(r"PeriodType: cpu nanoseconds\nPeriod: 1010\d{4}\n", p.stdout), p.stdout[:300]  # 99 Hz


def test_rights_and_wrong_questions(watched):
    path = f"/pid/{watched.pid}/debug/pprof/profile"
    assert watched.get(path)[0] == 401
    assert watched.get(path, token=watched.read)[0] == 403
    for query, words in [("?seconds=0", "between 1 and 300"), ("?seconds=301", "between 1 and 300"), ("?seconds=x", "not a number")]:
        status, body = watched.get(path + query, token=watched.admin)
        assert status == 400 and words in json.loads(body)["error"]["message"]
    assert watched.get("/pid/init/debug/pprof/profile", token=watched.admin)[0] == 400
    status, body = watched.get("/pid/2147483600/debug/pprof/profile", token=watched.admin)
    assert status == 404 and b"no such process on this machine: 2147483600" in body
    idle = subprocess.Popen(["sleep", "100"])
    try:
        status, body = watched.get(f"/pid/{idle.pid}/debug/pprof/profile?seconds=1", token=watched.admin)
        assert status == 404 and b"no samples" in body, body
    finally:
        idle.kill()
        idle.wait()


def test_few_at_once_and_none_after_a_hang_up(watched):
    wait_for(lambda: profiles(watched) == 0)
    asked = [subprocess.Popen([WICK, "pprof", "-raw", url(watched, "?seconds=200")], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
             for _ in range(4)]
    wait_for(lambda: profiles(watched) == 4)
    status, body = watched.get(f"/pid/{watched.pid}/debug/pprof/profile?seconds=1", token=watched.admin)
    assert status == 429 and b"4 calls that take long" in body
    assert watched.get("/api/v1/services", token=watched.admin)[0] == 200  # questions are answered meanwhile
    for p in asked:
        p.kill()
        p.wait()
    wait_for(lambda: profiles(watched) == 0)
    last = subprocess.Popen([WICK, "pprof", "-raw", url(watched, "?seconds=200")], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_for(lambda: profiles(watched) == 1)
    code, seconds = watched.stop()
    assert code == 0 and seconds < 60  # not the 200 that were asked for
    assert last.wait(timeout=60) != 0


def test_agent_off_says_so(server):  # noqa: F811
    status, body = server.get(f"/pid/{os.getpid()}/debug/pprof/profile?seconds=1")
    assert status == 503 and "--no-agent" in json.loads(body)["error"]["message"]
    assert server.get(f"/pid/{os.getpid()}/debug/pprof/symbol", data=b"0x1+0x2")[1] == b"num_symbols: 0\n"
