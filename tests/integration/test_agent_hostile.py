# SPDX-License-Identifier: Apache-2.0
"""The agent belongs to the host, not to the strangest program on it: beside programs that are expensive or impossible to read, an
honest one has its CPU time, and the agent keeps its budgets in every minute."""
import contextlib
import json
import os
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest
import silent_file
from agent_tools import agent_to_file, build, child_pids, complete_lines, needs_bpf
from wick_tools import WICK, cpu_seconds, some

BUDGET, CPUS = 0.01, os.cpu_count()


@pytest.fixture(autouse=True)
def bpf():
    needs_bpf()


@contextlib.contextmanager
def hostile(tmp_path, seconds):
    """Ten of them, and one more on a file system that does not answer."""
    flags = ("-O1", "-pthread")
    circle, never, many = (build(tmp_path, f"{n}.c", n, *flags) for n in ("python_circle", "page_never", "hostile"))
    mine = (f"end=$(($(date +%s) + {seconds})); while [ $(date +%s) -lt $end ]; do unshare -Urpf --mount-proc /bin/true 2>/dev/null || true; "
            "/bin/true; done")
    commands = [[circle, seconds, "circle"], [circle, seconds, "long"], [never, seconds], ["sh", "-c", mine],
                *([many, kind, seconds] for kind in ("map", "map", "threads", "mappings", "context", "exec"))]
    running = []
    with contextlib.ExitStack() as stack:
        if silent_file.usable():
            file = tmp_path / "on_fuse"
            stop = stack.enter_context(silent_file.served(file, Path(circle).read_bytes()))
            running.append(subprocess.Popen([file, str(seconds)]))
            time.sleep(1)
            stop()
        try:
            for c in commands:
                running.append(subprocess.Popen(["nice", "-n", "19", *map(str, c)], stderr=subprocess.DEVNULL))
            yield
        finally:
            for p in running:
                p.kill()
                p.wait()


def cost(agent):
    """CPU seconds so far, in BPF too, and private memory in bytes, as the kernel counts them."""
    pids, seconds, memory = [agent.pid], 0, 0
    for p in pids:
        with contextlib.suppress(OSError):
            pids += child_pids(p)
            fields = Path(f"/proc/{p}/stat").read_text().rsplit(")", 1)[1].split()
            seconds += sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")  # with children that have ended
            if p == agent.pid:  # its helper shares its memory
                memory = int(Path(f"/proc/{p}/status").read_text().split("RssAnon:")[1].split()[0]) << 10
    return seconds, memory


def stats(path):
    for _ in range(100):
        with contextlib.suppress(OSError, json.JSONDecodeError):
            return json.loads(path.read_text())
        time.sleep(0.1)
    raise AssertionError(path.read_text())


def sampled(lines, pid):
    """CPU seconds of a process in what the agent sent."""
    total = 0
    for line in lines:
        for r in json.loads(line)["resourceProfiles"]:
            if any(a["key"] == "process.pid" and int(a["value"]["intValue"]) == pid for a in r["resource"]["attributes"]):
                total += sum(int(v) for s in r["scopeProfiles"] for p in s["profiles"] for x in p.get("samples", []) for v in x["values"])
    return total / 1e9


def profiles_of(lines, pid):
    """(begin, length, CPU time) of each profile of a process with one thread, in seconds."""
    for line in lines:
        for r in json.loads(line)["resourceProfiles"]:
            if not any(a["key"] == "process.pid" and int(a["value"]["intValue"]) == pid for a in r["resource"]["attributes"]):
                continue
            for p in (p for s in r["scopeProfiles"] for p in s["profiles"]):
                yield int(p["timeUnixNano"]) / 1e9, int(p["durationNano"]) / 1e9, sum(int(v) for x in p.get("samples", []) for v in x["values"]) / 1e9


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [150, 1200])
def test_beside_hostile_programs(tmp_path, seconds):
    chain, told = build(tmp_path, "chain.c", "honest_chain", "-O2"), tmp_path / "stats"
    with hostile(tmp_path, seconds + 60), agent_to_file(tmp_path, "--stats", told, "--interval", "5s") as (out, agent):
        while not complete_lines(out):
            time.sleep(0.2)
        honest = subprocess.Popen([chain, "20", str(seconds)], stdout=subprocess.DEVNULL)
        minutes, used, began = [], 0, time.time()
        while time.time() - began < seconds:
            before, bpf = cost(agent)[0], stats(told)["bpf_ns"] / 1e9
            deadline = time.time() + 60
            memory = 0
            while time.time() < deadline:
                time.sleep(1)
                memory = max(memory, cost(agent)[1] + stats(told)["map_bytes"])
            minutes.append((round((cost(agent)[0] - before + stats(told)["bpf_ns"] / 1e9 - bpf) / 60 / CPUS, 5), memory >> 20))
        honest.send_signal(signal.SIGSTOP)  # what it used now is all
        used = cpu_seconds(honest.pid)
        time.sleep(12)
        lines = complete_lines(out)
        assert agent.poll() is None
        got, last = sampled(lines, honest.pid), stats(told)
        honest.kill()
        honest.wait()
    print(f"honest: {got:.2f} of {used:.2f} s; part of the CPUs and MiB, by minute: {minutes}; {last}")
    assert abs(got - used) <= 0.02 * used + 0.1, (got, used)
    assert all(cpu <= BUDGET * 1.05 and memory <= 64 for cpu, memory in some(minutes)), minutes
    assert last["hangs"] > 0 or not silent_file.usable()


@pytest.mark.parametrize("away", [8, pytest.param(120, marks=pytest.mark.slow)])
def test_upstream_away(tmp_path, away):
    """What is sampled while the receiver is away arrives later, with its own times."""
    out, config = tmp_path / "out.json", tmp_path / "c.yaml"
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    config.write_text(f"""
receivers: {{otlp: {{protocols: {{grpc: {{endpoint: "127.0.0.1:{port}"}}}}}}}}
exporters: {{file: {{path: {out}, append: true}}}}
service: {{telemetry: {{metrics: {{level: none}}}}, pipelines: {{profiles: {{receivers: [otlp], exporters: [file]}}}}}}
""")
    chain = build(tmp_path, "chain.c", "honest_chain", "-O2")

    def collect():
        return subprocess.Popen([WICK, "collector", "--config", config], stderr=subprocess.DEVNULL)
    running = [collect()]
    try:
        running.append(subprocess.Popen([WICK, "agent", "--export", f"http://127.0.0.1:{port}", "--interval", "1s", "-F", "97", "--budget", "0"],
                                        stderr=subprocess.PIPE, text=True))
        while not complete_lines(out):
            time.sleep(0.1)
        honest = subprocess.Popen([chain, "20", "1000"], stdout=subprocess.DEVNULL)
        time.sleep(3)
        running[0].terminate()
        running[0].wait(60)
        time.sleep(away)
        running[0] = collect()
        time.sleep(3)
        honest.send_signal(signal.SIGSTOP)
        used = cpu_seconds(honest.pid)
        deadline = time.time() + 60
        while sampled(complete_lines(out), honest.pid) < 0.98 * used - 0.1 and time.time() < deadline:
            time.sleep(1)
        honest.kill()
        honest.wait()
    finally:
        for p in reversed(running):
            p.terminate()
            p.wait(60)
    lines = complete_lines(out)
    got = sampled(lines, honest.pid)
    assert abs(got - used) <= 0.02 * used + 0.1, (got, used, running[1].stderr.read())
    for begin, length, value in some(profiles_of(lines, honest.pid)):
        assert value <= 1.1 * length + 0.05, (begin, length, value)
