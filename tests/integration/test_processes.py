# SPDX-License-Identifier: Apache-2.0
"""Every process of `wick serve` is killed in turn: sampling goes on, uploads succeed, nothing acknowledged is lost."""
import contextlib
import os
import random
import re
import signal
import time
from pathlib import Path

import pytest
from agent_tools import Sampling, children, commands, keeper_and_agent
from wick_tools import SHOP, Binary, Server, request, some, wait_for


pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to sample the machine")
ROUNDS = int(os.environ.get("WICK_KILL_ROUNDS", "3"))


@pytest.fixture
def sampling(tmp_path):
    s = Sampling(tmp_path)
    yield s
    s.stop()


def test_agent_is_not_root(sampling):
    keep = sum(1 << n for n in (2, 19, 34, 38, 39, 40))  # DAC_READ_SEARCH SYS_PTRACE SYSLOG PERFMON BPF CHECKPOINT_RESTORE
    for pid in some(keeper_and_agent(sampling)):
        status = dict(line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":\t" in line)
        assert "0" not in status["Uid"].split() and not status["Groups"].strip()
        assert int(status["CapEff"], 16) & ~keep == 0 and int(status["CapBnd"], 16) & ~keep == 0
        assert status["NoNewPrivs"] == "1" and status["Seccomp"] == "2"
        assert status["Uid"].split()[0] != Path(f"/proc/{sampling.p.pid}/status").read_text().split("Uid:\t")[1].split()[0]


def test_killed_agent_is_started_again(sampling):
    keeper, agent = keeper_and_agent(sampling)
    os.kill(agent, signal.SIGKILL)
    wait_for(lambda: re.search(r"killed by signal 9; restarting it in \d+ s", (sampling.dir / "log").read_text()))
    keeper2, agent2 = wait_for(lambda: (p := keeper_and_agent(sampling)) and p[1] != agent and p)
    assert keeper2 == keeper
    os.kill(keeper, signal.SIGKILL)
    wait_for(lambda: (p := keeper_and_agent(sampling)) and p[0] == agent2 and p)
    before = sampling.stored()
    wait_for(lambda: sampling.stored() > before)
    sampling.p.terminate()
    assert sampling.p.wait(20) == 0
    wait_for(lambda: not sampling.agents())


def test_refused_samples_are_counted(tmp_path):
    """A tenant limit of one sample a second refuses what the agent sends: status, metrics and log say so."""
    s = Sampling(tmp_path, "--set", "limits.samples_per_second=1")
    try:
        keeper_and_agent(s)
        wait_for(lambda: s.json("/api/v1/status")["agent"]["lostSamples"] > 0)
        assert re.search(r'wick_agent_samples_total{result="lost"} [1-9]', s.get("/metrics")[1].decode())
        assert "samples of this machine were lost" in (tmp_path / "log").read_text()
    finally:
        s.stop()


def symbolizers(s):
    return [c for c in children(s.p.pid) if "symbolize" in commands("symbolize").get(c, "")]


def test_killed_symbolizer_harms_no_upload(tmp_path):
    s = Server(tmp_path)
    try:
        for i in range(3):
            b = Binary(tmp_path, f"program{i}", f"int more{i}(void) {{ return {i}; }}\n")
            status, body = s.get(f"/api/v1/symbols/{b.build_id}", data=b.path.read_bytes(), method="PUT")
            assert status in (200, 201), body
            for child in wait_for(lambda: symbolizers(s)):
                os.kill(child, signal.SIGKILL)
    finally:
        s.p.kill()
        s.p.wait()


def kill_rounds(s, rounds):
    """What was acknowledged before each kill is there at the end."""
    acknowledged = 0
    for i in range(rounds):
        acknowledged += 42 if s.send(request(SHOP, service="kept", start=time.time_ns() - 10**9 * (5 + i)))[0] == 200 else 0
        victims = (s.agents() if isinstance(s, Sampling) else []) + symbolizers(s)
        kind = random.choice(["server", "one", "one"]) if i % 3 else "server"
        if kind == "server":
            s.p.kill()
            s.p.wait()
            s.start()
        elif victims:
            with contextlib.suppress(ProcessLookupError):  # an agent whose server was killed ends by itself
                os.kill(random.choice(victims), signal.SIGKILL)
    kinds = ("cpu", "cpu_also")  # where the agent has sampled this process too, its samples come first
    rows = [r for kind in kinds for r in s.json(f"/api/v1/top?query={kind}{{service.name=%22kept%22}}")["rows"]]
    assert sum(r["self"] for r in rows) == acknowledged


def test_kill_every_process(tmp_path):
    s = Server(tmp_path)
    try:
        kill_rounds(s, ROUNDS)
    finally:
        s.p.kill()
        s.p.wait()


@pytest.mark.slow
def test_kill_every_process_1000_times(sampling):
    keeper_and_agent(sampling)
    kill_rounds(sampling, int(os.environ.get("WICK_KILL_ROUNDS", "1000")))
