# SPDX-License-Identifier: Apache-2.0
"""Line tables of CPython: the line of every instruction of thousands of code objects, as their own interpreter tells it."""
import os
import subprocess

import pytest

import pythons
from wick_tools import BUILD, some

TOOL = BUILD / "tests/tools/python_line"
PYTHONS = pythons.found()

# Prints "MINOR FIRST TABLE INSTR... | LINE..." for each code object of some large modules.
TELL = r'''
import dis, sys, types
minor = sys.version_info[1]

def codes(c):
    yield c
    for x in c.co_consts:
        if isinstance(x, types.CodeType):
            yield from codes(x)

def lines(c):
    if hasattr(c, "co_lines"):
        for start, end, line in c.co_lines():
            for at in range(start, end, 2):
                yield at, line or 0
    else:
        starts = dict(dis.findlinestarts(c))
        # an instruction has the line of the last start before it: sys._getframe().f_lineno's rule, PyCode_Addr2Line
        line = c.co_firstlineno
        table, at, i = c.co_lnotab, 0, 0
        bounds = []
        for k in range(0, len(table), 2):
            at += table[k]
            line += table[k + 1] - (256 if table[k + 1] > 127 else 0)
            bounds.append((at, line))
        for pos in range(0, len(c.co_code), 2):
            now = c.co_firstlineno
            for a, l in bounds:
                if a > pos:
                    break
                now = l
            assert pos not in starts or starts[pos] == now
            yield pos, now

for name in ("argparse", "inspect", "typing", "_pydecimal", "enum"):
    source = open(__import__(name).__file__).read()
    for c in codes(compile(source, name, "exec")):
        table = (c.co_linetable if minor >= 10 else c.co_lnotab).hex() or "-"
        pairs = list(lines(c))
        print(minor, c.co_firstlineno, table, *[a for a, _ in pairs], "|", *[l for _, l in pairs])
'''


@pytest.mark.parametrize("version", [f"3.{m}" for _, m in PYTHONS])
def test_lines(version):
    told = subprocess.run([PYTHONS[(3, int(version[2:]))], "-c", TELL], capture_output=True, text=True, check=True,
                          env={**os.environ, "PYTHONIOENCODING": "utf-8"}).stdout.splitlines()
    ask = "".join(t.split("|")[0].rstrip() + "\n" for t in told)
    got = subprocess.run([TOOL], input=ask, capture_output=True, text=True, check=True).stdout.splitlines()
    assert len(told) == len(got) > 500
    n = 0
    for t, g in some(zip(told, got)):
        want = t.split("|")[1].split()
        n += len(want)
        assert g.split() == want, t[:300]
    assert n > 30000
