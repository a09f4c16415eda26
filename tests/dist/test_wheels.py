# SPDX-License-Identifier: Apache-2.0
"""The wheels of wick-profiler: pip installs them without a compiler, from a folder, and a program is profiled."""
import functools
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from release_tools import LIBC, ROOT

sys.path.insert(0, str(ROOT / "tests/integration"))
from pythons import found  # noqa: E402
from wick_tools import WICK  # noqa: E402

pytestmark = pytest.mark.slow
PROGRAM = """
import sys, time, wick

def spin_here(end):
    x = 0
    while time.process_time() < end:
        x += 1
    return x

with wick.ContinuousProfiler(file=sys.argv[1], profile_types=["cpu"]):
    spin_here(time.process_time() + 2)
"""


@functools.cache
def wheels(path):
    """The wheel for this interpreter."""
    p = subprocess.run([ROOT / "packaging/wheels", path], cwd=ROOT, capture_output=True, text=True)
    if "header files" in p.stderr:
        pytest.skip(p.stderr.strip())
    assert p.returncode == 0, p.stderr[-3000:]
    return Path(p.stdout.strip())


@pytest.mark.parametrize("version", found())
def test_install_and_profile(version, tmp_path):
    wheel = wheels(found()[version])
    tag = f"cp{version[0]}{version[1]}"
    assert re.fullmatch(rf"wick_profiler-[\d.]+-{tag}-{tag}-manylinux_2_31_\w+\.whl", wheel.name)
    with zipfile.ZipFile(wheel) as z:
        (module,) = [n for n in z.namelist() if n.endswith(".so")]
        z.extract(module, tmp_path)
    text = subprocess.run(["readelf", "-dVW", tmp_path / module], capture_output=True, text=True, check=True).stdout
    assert {n.split(".so")[0] for n in re.findall(r"NEEDED.*\[(.*)\]", text)} <= {"libc", "libm", "libdl", "libpthread", "librt", "ld-linux-x86-64", "ld-linux-aarch64"}
    assert max(tuple(map(int, v.split("."))) for v in re.findall(r"GLIBC_([\d.]+)", text)) <= (2, 31)
    assert str(LIBC.parents[2]).encode() not in (tmp_path / module).read_bytes()
    subprocess.run([found()[version], "-m", "venv", tmp_path / "venv"], check=True)
    env = {"PATH": "/nonexistent", "HOME": str(tmp_path)}  # no compiler
    subprocess.run([tmp_path / "venv/bin/python", "-m", "pip", "install", "-q", "--no-index", "--find-links", wheel.parent, "wick-profiler"], check=True,
                   env=env)
    (tmp_path / "p.py").write_text(PROGRAM)
    subprocess.run([tmp_path / "venv/bin/python", tmp_path / "p.py", tmp_path / "out.pb.gz"], check=True, env=env, cwd=tmp_path)
    top = subprocess.run([WICK, "pprof", "-top", tmp_path / "out.pb.gz"], capture_output=True, text=True, check=True).stdout
    assert re.search(r" (9\d|100)(\.\d+)?% +.*spin_here", top), top
