# SPDX-License-Identifier: Apache-2.0
"""`wick record -e`: sampling by events. Software events exist on every machine, and their number is known exactly."""
import subprocess
from pathlib import Path

import pytest

from agent_tools import WICK, build, folded, needs_bpf

HARDWARE = Path("/sys/bus/event_source/devices/cpu").exists()


@pytest.fixture(autouse=True)
def bpf():
    needs_bpf()


def record(tmp_path, *args, **more):
    return subprocess.run([WICK, "record", *map(str, args)], capture_output=True, text=True, timeout=120, cwd=tmp_path, **more)


def test_page_faults(tmp_path):
    """Every 100th fault is a sample of 100: together they are the faults that the kernel counted for the process."""
    exe = build(tmp_path, "faults.c", "faults", "-O1", "-fno-omit-frame-pointer")
    p = record(tmp_path, "-e", "page-faults/100", "-o", "x.folded", "--", exe, 30000)
    assert p.returncode == 0, p.stderr
    rows, faults = folded(tmp_path / "x.folded"), int(p.stdout)
    touched = sum(v for stack, v in rows if "touch" in stack)
    assert faults >= 30000 and abs(touched / 30000 - 1) < 0.02, (touched, faults)
    assert sum(v for _, v in rows) <= faults + 2000


def test_two_events_are_two_types(tmp_path):
    exe = build(tmp_path, "faults.c", "faults", "-O1", "-fno-omit-frame-pointer")
    p = record(tmp_path, "-e", "page-faults/10,context-switches/1", "-o", "x.pb.gz", "--", "sh", "-c", f"{exe} 3000; sleep 0.1; true")
    assert p.returncode == 0 and "x.context-switches.pb.gz" in p.stderr, p.stderr
    for name, kind in (("x.pb.gz", "page-faults"), ("x.context-switches.pb.gz", "context-switches")):
        top = subprocess.run([WICK, "pprof", "-top", tmp_path / name], capture_output=True, text=True, check=True).stdout
        assert f"Type: {kind}\n" in top, top


def test_hardware(tmp_path):
    """Where the machine counts them, they are sampled; elsewhere a sentence says why not, and nothing runs."""
    exe = build(tmp_path, "chain.c", "chain", "-O1", "-fno-omit-frame-pointer")
    p = record(tmp_path, "-e", "cycles,cache-misses", "-o", "x.pb.gz", "--", exe, 5, 1)
    if HARDWARE:
        top = subprocess.run([WICK, "pprof", "-top", tmp_path / "x.pb.gz"], capture_output=True, text=True, check=True).stdout
        assert p.returncode == 0 and "Type: cycles\n" in top and "leaf" in top, p.stderr
    else:
        assert p.returncode == 1 and "this machine cannot count 'cycles': " in p.stderr and p.stderr.count("\n") == 1, p.stderr
        assert not (tmp_path / "x.pb.gz").exists() and not p.stdout


@pytest.mark.parametrize("events,said", [("cycels", "'cycels' is not an event; supported: cycles, "), ("cycles/x", "'x' is not a number"),
                                         ("cycles,cpu-cycles", "'cycles' is there twice"), ("", "no event is named")])
def test_wrong_events(tmp_path, events, said):
    p = record(tmp_path, "-e", events, "--", "true")
    assert p.returncode != 0 and said in p.stderr, p.stderr
