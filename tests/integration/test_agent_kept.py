# SPDX-License-Identifier: Apache-2.0
"""What happens to a server's agent when its processes are stopped or killed: it comes back, and meanwhile log, status, metrics and
/readyz say that the machine is not sampled."""
import glob
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from agent_tools import WICK, Sampling, children, keeper_and_agent, needs_bpf
from wick_tools import wait_for


@pytest.fixture
def sampling(tmp_path):
    needs_bpf()
    s = Sampling(tmp_path)
    yield s
    for p in s.agents():
        os.kill(p, signal.SIGCONT)
    s.stop()


def agent_state(s):
    return s.json("/api/v1/status")["agent"]


def ready(s):
    status, body = s.get("/readyz")
    return body.decode() if status == 200 else None


def log_of(s):
    return (s.dir / "log").read_text()


def start(s):
    pair = keeper_and_agent(s)
    wait_for(lambda: agent_state(s)["state"] == "running")
    return pair


def kill_at_once(pids):
    """None sees another one's end."""
    for sig in (signal.SIGSTOP, signal.SIGKILL):
        for p in pids:
            os.kill(p, sig)


def test_all_killed_at_once(sampling):
    s = sampling
    keeper, agent = start(s)
    assert ready(s) == "ok\n" and agent_state(s)["problems"] == []
    kill_at_once((keeper, agent))
    wait_for(lambda: "all processes of the agent were killed" in log_of(s))
    again = wait_for(lambda: (p := keeper_and_agent(s)) and not {*p} & {keeper, agent} and p)
    assert again
    before = s.stored()
    wait_for(lambda: s.stored() > before)
    assert agent_state(s)["state"] == "running"


def test_starter_killed_too(sampling):
    """Then nobody can start it again without rights: what to do is in the log, in the status and in /readyz, and no zombie is left."""
    s = sampling
    start(s)
    starter = [p for p in children(s.p.pid) if p in s.agents()]
    kill_at_once({*starter, *s.agents()})
    told = wait_for(lambda: (a := agent_state(s))["state"] == "failed" and a)
    assert "were killed" in told["reason"] and told["fix"] == "restart the server"
    text = ready(s)
    assert text.startswith("ok\nagent failed: ") and "restart the server" in text
    assert "the host agent is off" in log_of(s) and "restart the server" in log_of(s)
    assert re.search(r"^wick_agent_up 0$", s.get("/metrics")[1].decode(), re.M)
    wait_for(lambda: not set(starter) & set(children(s.p.pid)))


def test_stopped_supervisor_keeps_no_server(sampling):
    s = sampling
    keeper, agent = start(s)
    for p in (keeper, agent):
        os.kill(p, signal.SIGSTOP)
    began = time.time()
    s.p.terminate()
    assert s.p.wait(60) == 0 and time.time() - began < 30
    wait_for(lambda: not s.agents())


def test_stopped_reader_stops_no_sampling(sampling):
    s = sampling
    _, agent = start(s)
    reader = wait_for(lambda: [p for p in children(agent) if b"--tables" in Path(f"/proc/{p}/cmdline").read_bytes()])[0]
    os.kill(reader, signal.SIGSTOP)
    wait_for(lambda: reader not in children(agent))  # replaced at the next new binary
    before = s.stored()
    wait_for(lambda: s.stored() > before)
    assert agent_state(s)["state"] == "running"


@pytest.mark.slow
def test_hung_sampler_is_told_and_replaced(sampling):
    s = sampling
    _, agent = start(s)
    os.kill(agent, signal.SIGSTOP)
    told = wait_for(lambda: (a := agent_state(s))["state"] == "hung" and a)
    assert "not sampled" in told["reason"] and "agent hung: " in ready(s)
    assert "the host agent does not respond" in log_of(s)
    wait_for(lambda: (p := keeper_and_agent(s)) and p[1] != agent)
    wait_for(lambda: agent_state(s)["state"] == "running")
    assert "it is killed and started again" in log_of(s) and "responds again" in log_of(s)
    before = s.stored()
    wait_for(lambda: s.stored() > before)


def test_descriptors_used_up(tmp_path):
    """An agent that can open no more files says so, once."""
    needs_bpf()
    few = tmp_path / "few"
    few.write_text(f"#!/bin/sh\nulimit -n 128\nexec {WICK} \"$@\"\n")
    few.chmod(0o755)
    s = Sampling(tmp_path, wick=few)
    try:
        start(s)
        libraries = glob.glob("/usr/lib/*/lib*.so*")
        programs = [subprocess.Popen([sys.executable, "-c", f"""
import ctypes, time
for x in {libraries[i::8]!r}:
    try: ctypes.CDLL(x)
    except OSError: pass
end = time.time() + 20
while time.time() < end: sum(range(10000))"""]) for i in range(8)]
        problem = wait_for(lambda: [x for x in agent_state(s)["problems"] if x["name"] == "descriptors"])[0]
        for p in programs:
            p.kill()
            p.wait()
        assert problem["count"] > 0 and "LimitNOFILE" in problem["text"]
        assert "LimitNOFILE" in ready(s) and "LimitNOFILE" in log_of(s)
        assert re.search(r'wick_agent_losses_total{kind="descriptors"} [1-9]', s.get("/metrics")[1].decode())
        assert log_of(s).count("LimitNOFILE") == 1
    finally:
        s.stop()
