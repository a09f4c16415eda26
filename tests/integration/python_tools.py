# SPDX-License-Identifier: Apache-2.0
"""The Python package: built with pip into a virtual environment (for this Python), or with Meson into a folder (for others)."""
import fcntl
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from pythons import found
from wick_tools import BUILD, ROOT

VENV = ROOT / "build/venv"
PACKAGE = ROOT / "python"
NEEDED = ["meson-python", "opentelemetry-sdk"]


def tools_env():
    """Meson and ninja of the virtual environment: Debian's Meson is too old for meson-python."""
    return {**os.environ, "PATH": f"{VENV / 'bin'}:{os.environ['PATH']}"}


def needs_package():
    for name in ("mesonpy", "opentelemetry.sdk"):
        pytest.importorskip(name)
    if not any(Path(p).joinpath("Python.h").exists() for p in include_of(sys.executable)):
        pytest.skip("no Python.h: install python3-dev")


def include_of(python):
    ask = "import sysconfig;print(sysconfig.get_paths()['include'])"
    return subprocess.run([python, "-c", ask], capture_output=True, text=True, check=True).stdout.split()


def build_wheel(out):
    """`pip install ./python` without the network. The objects are kept in the build folder."""
    kept = BUILD / "python-package"
    with open(BUILD / "python-package.lock", "w") as lock:  # tests may run in several processes
        fcntl.flock(lock, fcntl.LOCK_EX)
        subprocess.run([VENV / "bin/python", "-m", "pip", "wheel", "-q", "--disable-pip-version-check", "--no-build-isolation", "--no-deps",
                        f"--config-settings=build-dir={kept}", "-w", str(out), str(PACKAGE)], check=True, env=tools_env(), timeout=900)
    return next(Path(out).glob("*.whl"))


def make_environment(out):
    """A virtual environment with the wheel, beside the real opentelemetry-api and -sdk. Returns its Python."""
    subprocess.run([VENV / "bin/python", "-m", "venv", "--without-pip", out / "venv"], check=True)
    site = next((out / "venv/lib").glob("python3*/site-packages"))
    with zipfile.ZipFile(build_wheel(out)) as z:
        z.extractall(site)
    (site / "zz_libraries.pth").write_text(str(next((VENV / "lib").glob("python3*/site-packages"))) + "\n")
    return out / "venv/bin/python"


@pytest.fixture(scope="session")
def python(tmp_path_factory):
    """A Python that has the package."""
    needs_package()
    return make_environment(tmp_path_factory.mktemp("python"))


def run_python(python, script, *args, env=None, timeout=300):
    """Runs a script (a path, or text) and returns what it prints, decoded as JSON if it is."""
    command = [str(python), *(["-c", script] if isinstance(script, str) else [str(script)]), *map(str, args)]
    p = subprocess.run(command, capture_output=True, text=True, timeout=timeout, env={**os.environ, **(env or {})})
    assert p.returncode == 0, p.stdout + p.stderr
    try:
        return json.loads(p.stdout)
    except ValueError:
        return p.stdout


def build_for(python, out, *options):
    """The package for another CPython, built with Meson into out; the environment to use it with."""
    out = Path(out)
    (out / "native.ini").write_text(f"[binaries]\npython = '{python}'\n")
    subprocess.run(["meson", "setup", out / "build", PACKAGE, "--native-file", out / "native.ini", "--prefix", "/usr", *options],
                   check=True, env=tools_env(), stdout=subprocess.DEVNULL)
    subprocess.run(["meson", "install", "-C", out / "build", "--destdir", out / "dest"], check=True, env=tools_env(), stdout=subprocess.DEVNULL)
    site = next(p for p in (out / "dest").rglob("wick") if (p / "__init__.py").exists()).parent
    return {"PYTHONPATH": f"{site}:{site / 'wick/shim'}"}


def others():
    """Other CPythons of this machine with headers."""
    return {v: p for v, p in found().items() if any(Path(i, "Python.h").exists() for i in include_of(p))}
