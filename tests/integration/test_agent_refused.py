# SPDX-License-Identifier: Apache-2.0
"""A BPF program that the kernel refuses costs only its own feature, and every summary says so: refuse_bpf.c refuses programs as
the verifier would. Nothing falls back in silence, and --via never falls back."""
import json
import os
import platform
import shutil
import subprocess

import pytest
from agent_tools import build, folded, needs_bpf
from wick_tools import WICK, Server, some, wait_for

REASON = "R2 min value is negative, either use unsigned or 'var &= const'"
BUSY = "def f(n):\n    return f(n - 1) if n else sum(range(3000))\nimport time\nwhile time.process_time() < 1: f(20)\n"


def refusal(program):
    return f"Linux {platform.release()} refused the BPF program {program}: {REASON}"


@pytest.fixture(scope="module")
def shim(tmp_path_factory):
    needs_bpf()
    return build(tmp_path_factory.mktemp("refuse"), "refuse_bpf.c", "refuse_bpf.so", "-shared", "-fPIC", "-ldl")


class Recorded:
    def __init__(self, shim, tmp_path, refused, *args):
        out, stats = tmp_path / "out.folded", tmp_path / "stats"
        out.unlink(missing_ok=True)
        stats.unlink(missing_ok=True)
        self.p = subprocess.run([WICK, "record", "-F", "199", "-o", out, "--stats", stats, *args], capture_output=True, text=True, timeout=60,
                                env={**os.environ, "LD_PRELOAD": str(shim), "REFUSE": refused})
        self.said = self.p.stderr
        self.stats = json.loads(stats.read_text()) if stats.exists() else None
        self.rows = folded(out) if out.exists() else []
        self.names = {f for stack, _ in self.rows for f in stack}


def test_language(shim, tmp_path):
    (tmp_path / "busy.py").write_text(BUSY)
    command = ["--", shutil.which("python3"), tmp_path / "busy.py"]
    r = Recorded(shim, tmp_path, "on_tick_python", *command)
    lack = "no Python frames: " + refusal("on_tick_python")
    assert r.p.returncode == 0 and r.stats["via"] == "bpf" and r.stats["lacks"] == lack and not r.stats["via_reason"], r.said
    assert f"wick: {lack}\n" in r.said and "samples via bpf (limited), 0 lost" in r.said
    assert "f" not in r.names and "_start" in r.names and r.stats["stacks_whole"] > r.stats["stacks_cut"]
    r = Recorded(shim, tmp_path, "on_something", *command)
    assert "f" in r.names and not r.stats["lacks"] and " samples via bpf, " in r.said and "refused" not in r.said


@pytest.mark.parametrize("program", ["on_switch", "on_task"])
def test_off_cpu(shim, tmp_path, program):
    exe = build(tmp_path, "sleeper.c", "sleeper", "-O2")
    r = Recorded(shim, tmp_path, program, "-t", "cpu,offcpu", "--", exe)
    assert r.p.returncode == 0 and r.stats["lacks"] == "no off-CPU time: " + refusal(program) and r.stats["samples"], r.said
    r = Recorded(shim, tmp_path, program, "-t", "offcpu", "--", exe)
    assert r.p.returncode == 1 and "no off-CPU time: " + refusal(program) in r.said and not r.rows, r.said


def test_ways(shim, tmp_path):
    """The programs for old kernels, then perf: with the reason. A way that was asked for is the only one."""
    command = ["--", build(tmp_path, "chain.c", "chain", "-O2"), "30", "0.5"]
    r = Recorded(shim, tmp_path, "on_tick", *command)
    assert (r.stats["via"], r.stats["via_reason"]) == ("old-bpf", refusal("on_tick")) and "leaf" in r.names, r.said
    assert f"wick: sampled via old-bpf: {refusal('on_tick')}\n" in r.said
    r = Recorded(shim, tmp_path, "on_tick,old_tick_part", *command)
    assert (r.stats["via"], r.stats["via_reason"]) == ("perf", refusal("on_tick")) and "leaf" in r.names, r.said
    for via, refused in (("bpf", "on_tick"), ("old-bpf", "old_tick_part")):
        r = Recorded(shim, tmp_path, refused, "--via", via, *command)
        assert r.p.returncode == 1 and refusal(refused) in r.said and not r.rows, (via, r.said)


@pytest.mark.parametrize("how", ["bpf", "old-bpf"])
def test_tables(shim, tmp_path, how):
    """A kernel that takes no memory for unwind tables is asked once: stacks are copied, and are whole."""
    chain = build(tmp_path, "chain.c", "chain", "-O2", "-fomit-frame-pointer")
    r = Recorded(shim, tmp_path, "wick_rows", "--via", how, "--", chain, "30", "0.7")
    assert r.p.returncode == 0 and r.said.count("refused the map wick_rows") == 1 and not r.stats["stacks_cut"], r.said
    assert sum(v for s, v in r.rows if s.count("rec") == 31 and s[0] == "_start") > 0.9 * sum(v for s, v in r.rows if "leaf" in s) > 0.3e9, r.rows


@pytest.mark.parametrize("how", ["bpf", "old-bpf"])
def test_steps(shim, tmp_path, how):
    """Without the program of a language's steps, the other programs for old kernels still load."""
    chain = build(tmp_path, "chain.c", "chain", "-O2", "-fomit-frame-pointer")
    r = Recorded(shim, tmp_path, "old_step_v8js", "--via", how, "--", chain, "30", "0.7")
    lack = "" if how == "bpf" else "no JavaScript frames by BPF: " + refusal("old_step_v8js")
    assert r.p.returncode == 0 and r.stats["lacks"] == lack and r.stats["via"] == how and not r.stats["stacks_cut"], r.said


@pytest.mark.parametrize("refused, verdict, state", [("on_something", "ok", "samples via bpf"),
                                                     ("on_tick_python", "note", "samples via bpf; no Python frames: " + refusal("on_tick_python")),
                                                     ("on_tick", "note", "samples via old-bpf: " + refusal("on_tick")),
                                                     ("on_tick,old_tick_part", "bad", refusal("on_tick"))])
def test_doctor(shim, refused, verdict, state):
    """It tries what the agent does, with the rights that the agent has, and says the same."""
    p = subprocess.run([WICK, "doctor", "--json"], capture_output=True, text=True, timeout=60,
                       env={**os.environ, "LD_PRELOAD": str(shim), "REFUSE": refused})
    said = {c["check"]: c for c in json.loads(p.stdout)}["host agent"]
    assert said["verdict"] == verdict and said["state"].startswith(state), said
    assert verdict != "bad" or (said["fix"] and p.returncode == 1), said


def test_top(shim, tmp_path):
    p = subprocess.run([WICK, "top", "-n", "1", "-d", "0.5s"], capture_output=True, text=True, timeout=60,
                       env={**os.environ, "LD_PRELOAD": str(shim), "REFUSE": "on_tick_go"})
    assert "via bpf" in p.stdout and "no Go labels: " + refusal("on_tick_go") in p.stdout + p.stderr, (p.stdout, p.stderr)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to sample the machine")
def test_server(shim, tmp_path, monkeypatch):
    """The log, and the list of senders, which has it from the attributes of the scope."""
    monkeypatch.setenv("LD_PRELOAD", str(shim))
    monkeypatch.setenv("REFUSE", "on_tick_python")
    monkeypatch.delenv("WICK_NO_AGENT", raising=False)
    s = Server(tmp_path, "--set", "agent.rate=97")
    try:
        wait_for(lambda: any(x.get("via") for x in s.json("/api/v1/senders")["senders"]), 60)
        found = [x for x in s.json("/api/v1/senders")["senders"] if x.get("via")]
        assert all(x["via"] == "bpf" and x["lacks"] == "no Python frames: " + refusal("on_tick_python") for x in some(found)), found
        assert refusal("on_tick_python") in (tmp_path / "log").read_text()
    finally:
        s.p.kill()
        s.p.wait()
