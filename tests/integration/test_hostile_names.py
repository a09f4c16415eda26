# SPDX-License-Identifier: Apache-2.0
"""Names that programs choose for themselves reach a terminal and a log only in printable form."""
import re
import subprocess

import pytest
from agent_tools import PROGRAMS, WICK, needs_bpf

EVIL = b"evil\x1b]0;owned\x07\x9b2J\x7f"
CONTROL = re.compile(rb"[\x00-\x08\x0b-\x1f\x7f]|\xc2[\x80-\x9f]")


@pytest.fixture
def burner(tmp_path):
    """A program with control characters in its functions' names, its file's name, its thread's name and its service's name."""
    subprocess.run(["gcc", "-O2", "-c", "-o", tmp_path / "chain.o", PROGRAMS / "chain.c"], check=True)
    for name in (b"leaf", b"worker"):
        subprocess.run([b"objcopy", b"--redefine-sym", name + b"=" + EVIL + name, str(tmp_path / "chain.o").encode()], check=True)
    exe = str(tmp_path).encode() + b"/x" + EVIL[4:]
    subprocess.run([b"gcc", b"-o", exe, str(tmp_path / "chain.o").encode()], check=True)
    p = subprocess.Popen([exe, "3", "120"], stdout=subprocess.DEVNULL, env={"OTEL_SERVICE_NAME": b"svc" + EVIL})
    yield p
    p.kill()
    p.wait()


def check(p):
    out = p.stdout + p.stderr
    assert p.returncode == 0 and not CONTROL.search(out), out
    assert rb"\x1b]0;owned" in p.stdout, out


def test_dump(burner):
    check(subprocess.run([WICK, "dump", str(burner.pid)], capture_output=True, timeout=120))
    p = subprocess.run([WICK, "dump", "--json", str(burner.pid)], capture_output=True, timeout=120)
    assert p.returncode == 0 and not CONTROL.search(p.stdout), p.stdout


def test_top(burner):
    needs_bpf()
    check(subprocess.run([WICK, "top", "-n", "1", "-d", "1s", "--pid", str(burner.pid)], capture_output=True, timeout=120))


def test_record(burner, tmp_path):
    needs_bpf()
    p = subprocess.run([WICK, "record", "-d", "1s", "--pid", str(burner.pid), "-o", tmp_path / "out.pb.gz"], capture_output=True,
                       timeout=120)
    assert p.returncode == 0 and not CONTROL.search(p.stdout + p.stderr), p.stderr
    check(subprocess.run([WICK, "pprof", "-top", tmp_path / "out.pb.gz"], capture_output=True, timeout=120))
