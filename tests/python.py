#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the Python of the tree with ruff, as ruff.toml says. Speaks TAP.

 - nothing that the linter finds, in the package, the tests and the tools
 - the package (python/) is formatted

tests/python.py --write formats instead. ruff is in build/venv: tools/deps test puts it there."""
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RUFF = ROOT / "build/venv/bin/ruff"
FORMATTED = ["python"]
results = []


def check(name, command):
    p = subprocess.run([RUFF, *command], capture_output=True, text=True, cwd=ROOT)
    results.append(p.returncode == 0)
    for line in (p.stdout + p.stderr).splitlines()[:60] if p.returncode else []:
        print("# " + line)
    print(f"{'ok' if results[-1] else 'not ok'} {len(results)} - {name}")


def sources():
    """Files that end in .py, and programs whose first line names python."""
    names = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], capture_output=True, text=True, cwd=ROOT, check=True).stdout.split("\n")
    for name in names:
        path = ROOT / name
        if path.suffix == ".py" and path.is_file():
            yield name
        elif name and "." not in path.name and path.is_file():
            with path.open("rb") as f:
                first = f.readline(80)
            if first.startswith(b"#!") and b"python" in first:
                yield name


def main():
    if not RUFF.exists():
        print("ok 1 - python # SKIP no ruff in build/venv: tools/deps test\n1..1")
        return 0
    if "--write" in sys.argv:
        return subprocess.run([RUFF, "format", *FORMATTED], cwd=ROOT).returncode
    files = sorted(sources())
    assert len(files) > 100, files
    check("nothing that the linter finds", ["check", "--no-cache", "--output-format", "concise", *files])
    check("the package is formatted", ["format", "--no-cache", "--check", *FORMATTED])
    print(f"1..{len(results)}")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
