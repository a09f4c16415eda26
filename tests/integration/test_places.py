# SPDX-License-Identifier: Apache-2.0
"""Frames are at the call or at the interrupted instruction, compared with gdb and with the source: the next statement after
each call of call_places.c is inlined code of another file, and spins() is interrupted at its first instruction."""
import re
import subprocess

import pytest

from sdk_tools import wick_run
from wick_tools import PROGRAMS, WICK

SOURCE = PROGRAMS / "call_places.c"
BUILDS = [("gcc", "-O0"), ("gcc", "-O1"), ("gcc", "-O2"), ("gcc", "-O3", "-flto"), ("clang", "-O0"), ("clang", "-O2"),
          ("clang", "-O3", "-flto")]


def line_of(text):
    return next(i for i, line in enumerate(SOURCE.read_text().splitlines(), 1) if text in line)


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    made = {}
    out = tmp_path_factory.mktemp("places")

    def make(cc="gcc", *flags):
        exe = out / "-".join((cc, *flags))
        if exe not in made:
            subprocess.run([cc, "-g", *flags, "-o", exe, SOURCE, "-lpthread"], check=True)
            made[exe] = True
        return exe

    return make


def stacks(path, index=None):
    """Stacks of a profile as lists of (function, file:line), leaf first, largest first."""
    text = subprocess.run([WICK, "pprof", "-traces", "-lines", *([f"-sample_index={index}"] if index else []), path],
                          capture_output=True, text=True, check=True).stdout
    ret = []
    for block in text.split("-----------+-------------------------------------------------------")[1:]:
        lines = [l for l in block.splitlines() if l.strip() and not re.match(r"\s*[\w.]+:  ", l)]
        frames = [re.sub(r"^\s*([\d.]+\w*)\s\s+", "", l).replace("(inline)", "").split() for l in lines]
        ret += [[(f[0], f[-1].rsplit("/", 1)[-1] if len(f) > 1 else "") for f in frames]] if frames else []
    return ret


def called_from(exe, function, callee, mode):
    """The caller of callee in function, as gdb has it: (function, file:line)."""
    text = subprocess.run(["gdb", "-nx", "-q", "-batch", "-ex", f"break {function}", "-ex", f"run {mode}", "-ex", f"break {callee}",
                           "-ex", "continue", "-ex", "bt 2", exe], capture_output=True, text=True).stdout
    m = re.search(r"^#1 .* (\w+) \([^)]*\) at (\S+)$", text, re.M)
    assert m, text
    return m.group(1), m.group(2).rsplit("/", 1)[-1]


@pytest.mark.parametrize("build", BUILDS, ids=" ".join)
def test_a_sampled_allocation_is_at_its_call(places, tmp_path, build):
    exe, out = places(*build), tmp_path / "a.pb.gz"
    truth = called_from(exe, "allocates", "malloc", "alloc")
    wick_run("-t", "alloc,heap", "-o", out, exe, "alloc")
    for index in ("alloc_space", "alloc_objects"):
        got = [s[0] for s in stacks(out, index)]
        assert got == [truth] == [("allocates", f"call_places.c:{line_of('the call of allocates */')}")]


@pytest.mark.parametrize("build", BUILDS[2::4], ids=" ".join)
def test_a_sampled_lock_is_at_its_call(places, tmp_path, build):
    exe, out = places(*build), tmp_path / "l.pb.gz"
    truth = called_from(exe, "locks", "pthread_mutex_lock", "lock")
    wick_run("-t", "lock", "-o", out, exe, "lock", "0.5")
    assert truth in [s[0] for s in stacks(out)]
    assert {s[0][0] for s in stacks(out)} <= {"locks", "holder"}


def test_a_sleep_that_no_hook_saw_is_at_its_system_call(places, tmp_path):
    exe, out = places("gcc", "-O2"), tmp_path / "w.pb.gz"
    wick_run("-t", "wall", "-o", out, exe, "wait", "1")
    got = stacks(out)[0]
    assert got[0] == ("waits", f"call_places.c:{line_of('the call of waits */')}") and got[1][0] == "main"


def test_an_interrupted_first_instruction_is_in_its_function(places, tmp_path):
    exe = places("gcc", "-O2")
    for command in (["run", "-t", "cpu"], ["record", "-q"]):
        for mode, leaf in (("spin", 0), ("signal", 2)):
            out = tmp_path / f"{command[0]}-{mode}.pb.gz"
            subprocess.run([WICK, *command, "-o", out, "--", exe, mode, "1"], check=True, capture_output=True, timeout=60)
            got = stacks(out)
            named = [[f for f, _ in s] for s in got]
            assert not any("never_called" in s for s in named), named
            assert any(s[leaf:leaf + 2] == ["spins", "main"] for s in named), named
            if leaf:
                assert any(s[0] == "burns" and s[2:4] == ["spins", "main"] for s in named), named


def test_a_wait_in_a_system_call_is_at_that_call(places, tmp_path):
    exe, out = places("clang", "-O2"), tmp_path / "o.pb.gz"
    here = f"call_places.c:{line_of('the call of waits */')}"
    subprocess.run([WICK, "record", "-t", "offcpu", "-o", out, "--", exe, "wait", "1"], check=True, capture_output=True)
    users = [[f for f in s if f[0] in ("waits", "innocent")] for s in stacks(out)]
    assert users[0] == [("waits", here)], stacks(out)
    with subprocess.Popen([exe, "wait", "20"], stdout=subprocess.PIPE) as p:
        assert p.stdout.readline() == b"ready\n"
        dump = subprocess.run([WICK, "dump", str(p.pid)], check=True, capture_output=True, text=True).stdout
        p.kill()
    assert re.search(rf"#0 +waits +\S+{here}\n +#1 +main", dump), dump
