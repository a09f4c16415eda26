# SPDX-License-Identifier: Apache-2.0
"""The CPythons of this machine, one of each minor version: of pyenv, of the system, of tools/deps."""
import functools
import glob
import os
import re
import subprocess

ASK = "import sys,platform;print(platform.python_implementation(),*sys.version_info[:2])"


def candidates():
    roots = [os.environ.get("PYENV_ROOT", ""), os.path.expanduser("~/.pyenv"), "/opt/pyenv"]
    roots.append(os.path.join(os.path.dirname(__file__), "../../.cache/python"))  # tools/deps all
    for path in [p for r in roots if r for p in sorted(glob.glob(f"{r}/versions/3.*/bin/python3.*[0-9]"))]:
        yield path
    for folder in ("/usr/bin", "/usr/local/bin"):
        yield from sorted(glob.glob(f"{folder}/python3.*[0-9]"))


@functools.lru_cache
def found():
    """{(3, 11): "/usr/bin/python3.11", ...}, 3.9 to 3.14."""
    result = {}
    for path in candidates():
        name = re.fullmatch(r"python3\.(\d+)", os.path.basename(path))
        if not name or not 9 <= int(name.group(1)) <= 14 or (3, int(name.group(1))) in result:
            continue
        try:
            out = subprocess.run([path, "-c", ASK], capture_output=True, text=True, timeout=60).stdout
        except (OSError, subprocess.TimeoutExpired):
            continue
        if out == f"CPython 3 {name.group(1)}\n":
            result[(3, int(name.group(1)))] = os.path.realpath(path)
    return dict(sorted(result.items()))
