# SPDX-License-Identifier: Apache-2.0
"""What the agent holds does not grow with the number of processes that it has seen."""
import os
import subprocess
import time
from pathlib import Path

import pytest
from agent_tools import agent_to_file, build, complete_lines, needs_bpf


@pytest.fixture(autouse=True)
def bpf():
    needs_bpf()


ENDED_KEPT = 16  # seconds for which the agent knows a process that has ended, and a moment


def held(pid):
    """Descriptors, mappings and anonymous memory in KiB of a process and its children; what they share counts once."""
    pids = [pid, *map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())]
    memory = "".join(Path(f"/proc/{p}/smaps_rollup").read_text() for p in pids)
    return {"descriptors": sum(len(os.listdir(f"/proc/{p}/fd")) for p in pids),
            "mappings": sum(len(Path(f"/proc/{p}/maps").read_text().splitlines()) for p in pids),
            "kib": sum(int(line.split()[1]) for line in memory.splitlines() if line.startswith("Pss_Anon:"))}


def churn(exe, seconds):
    """Runs the program again and again, two at a time; how often."""
    n, end = 0, time.time() + seconds
    while time.time() < end:
        pair = [subprocess.Popen([exe]) for _ in range(2)]
        n += sum(p.wait() == 0 for p in pair)
    return n


@pytest.mark.parametrize("seconds", [8, pytest.param(1200, marks=pytest.mark.slow)])
def test_flat(tmp_path, seconds):
    exe = build(tmp_path, "brief_life.c", "brief_life")
    with agent_to_file(tmp_path, "-F", 199, "--budget", 0, "--interval", "500ms", "--include", "exe=brief_life") as (out, agent):
        churn(exe, ENDED_KEPT)
        before, lines = held(agent.pid), len(complete_lines(out))
        n = churn(exe, seconds)
        after = held(agent.pid)
        assert agent.poll() is None and len(complete_lines(out)) > lines
    assert n > 2 * seconds, n
    assert after["descriptors"] - before["descriptors"] <= 20, (before, after, n)
    assert after["mappings"] - before["mappings"] <= 20, (before, after, n)
    assert after["kib"] - before["kib"] <= 6 << 10, (before, after, n)
