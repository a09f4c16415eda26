# SPDX-License-Identifier: Apache-2.0
"""CPython's own tests of signals, processes and threads give the same result under `wick run` as without it."""
import os
import re
import signal
import subprocess
from pathlib import Path

import pytest
from sdk_tools import WICK

TESTS = ["test_signal", "test_subprocess", "test_threading", "test_fork1"]
PYENV = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"


def interpreters():
    """Those of pyenv: unlike a distribution's, they come with the tests."""
    return sorted(p for p in PYENV.glob("3.*/bin/python") if next(p.parent.parent.glob("lib/python3*/test/test_signal.py"), None))


def results(command, cwd):
    """{test: result}, of those that ran."""
    p = subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=1800, cwd=cwd, errors="replace",
                       preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))  # ignored below nohup, where a test never ends
    got = {}
    for m in re.finditer(r"^(test\w* \([\w.]+\)).*?\.\.\. .*?(ok|FAIL|ERROR|skipped)\b", p.stdout + p.stderr, re.M | re.S):
        got[m.group(1)] = m.group(2)
    return got


@pytest.mark.slow
@pytest.mark.parametrize("python", interpreters(), ids=lambda p: p.parent.parent.name)
def test_cpython_passes_as_without(tmp_path, python):
    command = [python, "-m", "test", "-v", *TESTS]
    plain = results(command, tmp_path)
    assert len(plain) > 300
    wick = [WICK, "run", "-t", "cpu,heap", "-o", tmp_path / "o.pb.gz", "--"]
    got = results(wick + command, tmp_path)
    worse = {t for t in plain if plain[t] in ("ok", "skipped") and got.get(t) != plain[t]}
    for t in sorted(worse):  # may be none; once more by itself, both ways: some depend on how busy the machine is
        name = t.split()[0]
        again = [python, "-m", "test", "-v", *TESTS, "-m", name]
        assert results(wick + again, tmp_path).get(t) == results(again, tmp_path).get(t), t
