# SPDX-License-Identifier: Apache-2.0
"""What the tests of libwick share: test programs, `wick run`, and go tool pprof as the reader of what it wrote."""
import os
import re
import subprocess
import time
from pathlib import Path

import pytest

from go_tools import GO, needs_go, pprof_command  # noqa: F401
from wick_tools import BUILD, PROGRAMS, ROOT, WICK, free_port  # noqa: F401

LIBWICK = BUILD / "src/sdk"


@pytest.fixture(scope="session")
def program(tmp_path_factory):
    made = {}
    out = tmp_path_factory.mktemp("programs")

    def make(name, *flags):
        key = (name, flags)
        if key not in made:
            source = next(PROGRAMS.glob(f"{name}.c*"))
            exe = out / f"{name}{len(made)}"
            cc = "c++" if source.suffix == ".cc" else "cc"
            subprocess.run([cc, "-O2", "-g", "-o", exe, source, "-lpthread", *flags], check=True)
            made[key] = exe
        return made[key]

    return make


def wick_run(*args, env=None, timeout=120, check=True):
    p = subprocess.run([WICK, "run", *map(str, args)], capture_output=True, text=True, timeout=timeout,
                       env={**os.environ, **(env or {})})
    if check:
        assert p.returncode == 0, p.stderr
    return p


def top(path, index=None):
    """{function: (flat, cum)} and the total, in base units."""
    unit = ["-unit=ns"] if index in (None, "cpu", "wall", "delay") else ["-unit=B"] if "space" in index else []
    out = subprocess.run([*pprof_command(), "-top", "-nodecount=500", "-nodefraction=0", *unit,
                          *([f"-sample_index={index}"] if index else []), str(path)], capture_output=True, text=True)
    assert out.returncode == 0, out.stderr
    rows, number = {}, r"(-?[\d.]+)[a-zA-Z]*"
    for line in out.stdout.splitlines():
        m = re.match(rf"\s*{number}\s+[\d.]+%\s+[\d.]+%\s+{number}\s+[\d.]+%\s+(.*)", line)
        if m:
            rows[m.group(3).replace(" (inline)", "")] = (float(m.group(1)), float(m.group(2)))
    m = re.search(rf"of {number} total", out.stdout)
    return rows, float(m.group(1)) if m else 0.0


def traces(path):
    out = subprocess.run([*pprof_command(), "-traces", str(path)], capture_output=True, text=True).stdout
    stacks = []
    for block in out.split("-----------+-------------------------------------------------------")[1:]:
        frames = [re.sub(r"^\s*([\d.]+\w*)\s\s+", "", l).strip() for l in block.splitlines() if l.strip()]
        frames = [f for f in frames if not re.match(r"^\w+:\s", f)]
        if frames:
            stacks.append(frames)
    return stacks


def per_function(path, index):
    """{function of the stack's leaf: value}, exact: pprof's own sum over -raw samples."""
    out = subprocess.run([*pprof_command(), "-raw", str(path)], capture_output=True, text=True).stdout
    types = re.search(r"Samples:\n(.*)\n", out).group(1).split()
    column = [t.split("/")[0] for t in types].index(index)
    names = {int(m.group(1)): m.group(2) for m in re.finditer(r"^\s+(\d+): 0x[0-9a-f]+ M=\d+ (\S+)", out, re.M)}
    sums = {}
    for m in re.finditer(r"^\s*((?:-?\d+ *)+): ((?:\d+ *)+)$", out, re.M):
        name = next((names[int(l)] for l in m.group(2).split() if names.get(int(l), "").startswith("site")), None)
        if name:
            sums[name] = sums.get(name, 0) + int(m.group(1).split()[column])
    return sums


def process_context(pid, timeout=60):
    """The payload of the process's OTEL_CTX (OTEP 4719) as soon as there is one."""
    deadline = time.time() + timeout
    while True:
        line = next((l for l in Path(f"/proc/{pid}/maps").read_text().splitlines() if "OTEL_CTX" in l), None)
        if line:
            with open(f"/proc/{pid}/mem", "rb") as mem:
                mem.seek(int(line.split("-")[0], 16))
                head = mem.read(32)
                if head[:8] == b"OTEL_CTX" and head[16:24] != bytes(8):
                    mem.seek(int.from_bytes(head[24:32], "little"))
                    return mem.read(int.from_bytes(head[12:16], "little"))
        assert time.time() < deadline, "no OTEL_CTX"
        time.sleep(0.02)
