#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs clang-tidy over src with the checks that .clang-tidy names. Speaks TAP. tests/tidy.py [BUILD] [FILE...]

One process per file: clang-tidy 14 reports a va_list that is not there when it is given several. Flags that only gcc knows are taken
out of the build's compile_commands.json. A minute on two cores."""
import concurrent.futures
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ONLY_GCC = re.compile(r"-ftrivial-auto-var-init=\S+|-fstack-clash-protection|-mtls-dialect=\S+|-fcf-protection\S*|-Wno-\S*|-Werror\S*|-W[a-z]\S*|-pipe")


VERSION = 14  # Debian 12's; others know more checks, which nobody has looked at


def clang_tidy():
    for name in (f"clang-tidy-{VERSION}", "clang-tidy"):
        path = shutil.which(name)
        if path and f"version {VERSION}." in subprocess.run([path, "--version"], capture_output=True, text=True).stdout:
            return path
    return None


def commands(build):
    """The compilations of our own C files, each file once."""
    seen, out = set(), []
    for c in json.loads((build / "compile_commands.json").read_text()):
        path = (Path(c["directory"]) / c["file"]).resolve()
        if path.suffix == ".c" and (ROOT / "src") in path.parents and path not in seen:
            seen.add(path)
            out.append({"directory": c["directory"], "file": str(path), "command": ONLY_GCC.sub("", c["command"])})
    return out


def main():
    words = sys.argv[1:]
    build = Path(words.pop(0)).resolve() if words and (Path(words[0]) / "compile_commands.json").exists() else ROOT / "build"
    tidy = clang_tidy()
    if not tidy or not (build / "compile_commands.json").exists():
        print(f"ok 1 - clang-tidy # SKIP no clang-tidy {VERSION}, or nothing is built\n1..1")
        return 0
    found = commands(build)
    files = [c["file"] for c in found if not words or any(w in c["file"] for w in words)]
    with tempfile.TemporaryDirectory() as tmp:
        (Path(tmp) / "compile_commands.json").write_text(json.dumps(found))

        def one(path):
            p = subprocess.run([tidy, "--quiet", "-p", tmp, path], capture_output=True, text=True, cwd=ROOT)
            found = sorted(set(re.findall(rf"^((?:{ROOT}|\.\.)/\S+?:\d+:\d+: (?:error|warning): .*)$", p.stdout, re.M)))
            return found or ([f"{path}: {(p.stdout + p.stderr).strip()[-300:]}"] if p.returncode else [])

        with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 2) as pool:
            problems = sorted({x.replace(f"{ROOT}/", "").replace("build/../", "") for found in pool.map(one, files) for x in found})
    for x in problems[:50]:
        print("# " + x)
    print(f"{'not ' if problems else ''}ok 1 - clang-tidy finds nothing in {len(files)} files\n1..1")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
