# SPDX-License-Identifier: Apache-2.0
"""The server's CPU time of a process is what the kernel counted for it, also for programs that sleep and wake thousands of times
a second: of these, the clock that samples misses a half."""
import subprocess
import time

import pytest
from agent_tools import build, is_sampling, needs_bpf
from wick_tools import PROGRAMS, Server, descendants, wait_for


@pytest.fixture(autouse=True)
def bpf():
    needs_bpf()


def of_pid(server, pid):
    return server.json(f"/api/v1/top?limit=1&query=cpu%7Bprocess.pid=%22{pid}%22%7D")["total"] / 1e9


def child_of(pid):
    return int(open(f"/proc/{pid}/task/{pid}/children").read().split()[0])


def judge(tmp_path, monkeypatch, seconds, tolerance, rate, *settings):
    """Those whose total is wrong: (pid, what the server has, user + sys). Two samples are the agent's balance, and what a process
    used after its last sample comes with the next one."""
    monkeypatch.delenv("WICK_NO_AGENT", raising=False)
    exe = build(tmp_path, PROGRAMS / "ping_pong.c", "ping_pong")
    server = Server(tmp_path, *settings)
    programs = []
    try:
        wait_for(lambda: any(is_sampling(p) for p in descendants(server.p.pid)), why="the agent samples")
        for pause in ("50", "-1"):
            programs.append(subprocess.Popen([exe, str(seconds), pause], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
        used = {}
        for p in programs:
            own, child = map(float, p.stdout.readline().split())
            used[p.pid] = own
            if child > 0.1:  # the other one computes alone
                used[child_of(p.pid)] = child
        assert len(used) == 3, used

        def wrong():
            got = {pid: of_pid(server, pid) for pid in used}
            return [(pid, got[pid], cpu) for pid, cpu in used.items() if abs(got[pid] - cpu) > max(tolerance * cpu, 4 / rate)]

        try:  # they only wait now: what the server has grows to what they used, and not further
            wait_for(lambda: not wrong(), 40, step=0.3)
            time.sleep(1)
        except AssertionError:
            pass
        return wrong()
    finally:
        for p in programs:
            p.kill()
            p.wait()
        server.stop()


def test_total_is_what_the_kernel_counted(tmp_path, monkeypatch):
    assert not judge(tmp_path, monkeypatch, 1, 0.05, 499, "--set", "agent.rate=499", "--set", "agent.budget=0")


@pytest.mark.slow
def test_total_at_the_default_rate(tmp_path, monkeypatch):
    assert not judge(tmp_path, monkeypatch, 12, 0.03, 19)
