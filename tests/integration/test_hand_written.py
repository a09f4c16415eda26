# SPDX-License-Identifier: Apache-2.0
"""Stacks in assembly without call frame information: callers are those that called, or there are none; what was inferred is marked, and
the rest is said."""
import platform
import subprocess

import pytest
from agent_tools import PROGRAMS, folded, labels_of, needs_bpf
from wick_tools import WICK, some

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="callers are inferred from code of x86-64")

# way: what is on the stack above call_asm; the leaf last
WAYS = {"bare": ["asm_bare"], "saves": ["asm_saves"], "aligned": ["asm_aligned"], "framed": ["asm_framed"], "calls": ["asm_calls", "asm_inner"],
        "hidden": ["asm_hidden"]}
CALLERS = ["main", "repeat", "call_asm"]


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    exe = tmp_path_factory.mktemp("asm") / "hand_written"
    subprocess.run(["gcc", "-O2", "-g", "-fno-inline", "-fno-optimize-sibling-calls", "-o", exe, PROGRAMS / "hand_written.c"], check=True)
    return exe


def record(program, tmp_path, way, out, *options):
    p = subprocess.run([WICK, "record", "-F", "997", *options, "-o", tmp_path / out, "--", program, way, "0.4"], capture_output=True, text=True,
                       timeout=120)
    assert p.returncode == 0, p.stderr
    return p.stderr


def of_program(frames):
    """Frames of the program in assembly and above it, without the kernel's and the C library's."""
    known = {*CALLERS, *(f for w in WAYS.values() for f in w), "stale", "[truncated]"}
    return [f for f in frames if f in known]


@pytest.mark.parametrize("via", ["bpf", "old-bpf", "perf"])
@pytest.mark.parametrize("way", WAYS)
def test_stacks(program, tmp_path, way, via):
    """Of each sample in the assembly. The stack has the return addresses of calls that are over where the assembly has its frame."""
    needs_bpf()
    said = record(program, tmp_path, way, "x.folded", "--via", via)
    rows = [(of_program(f), v) for f, v in folded(tmp_path / "x.folded") if any(x.startswith("asm_") and x in WAYS[way] for x in f)]
    whole, cut = [*CALLERS, *WAYS[way]], ["[truncated]", *WAYS[way][-1:]]
    time = sum(v for _, v in some(rows))
    assert time > 0.2e9
    assert all(f in (whole, [*CALLERS, *WAYS[way][:1]], cut) for f, _ in some(rows)), rows
    if way == "hidden":
        assert f"most of them in {program}" in said
    else:
        assert sum(v for f, v in rows if f != cut) >= 0.98 * time, rows
        assert "callers were inferred" in said


def test_marked(program, tmp_path):
    """Stacks through the assembly have the label, and only those."""
    needs_bpf()
    record(program, tmp_path, "saves", "x.otlp.json")
    marks = {}
    for function, attributes, _, _ in some(labels_of(tmp_path / "x.otlp.json", {"asm_saves", "main"})):
        marks.setdefault(function, set()).add(attributes.get("wick.stack"))
    assert marks["asm_saves"] == {"inferred"} and marks["main"] >= {"inferred"}
    record(program, tmp_path, "saves", "x.pb.gz")
    tags = subprocess.run([WICK, "pprof", "-tags", tmp_path / "x.pb.gz"], capture_output=True, text=True, check=True).stdout
    assert "wick.stack" in tags and "inferred" in tags
