# SPDX-License-Identifier: Apache-2.0
"""The CPythons of this machine, one of each minor version: of PATH, of pyenv, of the system."""
import glob
import os
import re
import shutil
import subprocess


def found():
    """{(3, 11): "/usr/bin/python3.11", ...}, 3.9 to 3.14."""
    roots = [os.environ.get("PYENV_ROOT", ""), os.path.expanduser("~/.pyenv"), "/opt/pyenv"]
    paths = [p for r in roots if r for p in sorted(glob.glob(f"{r}/versions/3.*/bin/python3"))]
    paths += [p for p in (shutil.which(f"python3.{m}", path="/usr/bin:/usr/local/bin:" + os.environ["PATH"])
                          for m in range(9, 15)) if p]
    paths.append("/usr/bin/python3")
    result = {}
    for p in paths:
        try:
            out = subprocess.run([p, "-c", "import sys,platform;print(platform.python_implementation(),*sys.version_info[:2])"],
                                 capture_output=True, text=True, timeout=20).stdout
        except OSError:
            continue
        m = re.fullmatch(r"CPython 3 (\d+)\n", out)
        if m and 9 <= int(m.group(1)) <= 14:
            result.setdefault((3, int(m.group(1))), os.path.realpath(p))
    return dict(sorted(result.items()))
