#!/usr/bin/env python3
"""Checks the JavaScript and the styles of web/, tests/ui/ and bench/. Speaks TAP.

 - formatted as biome.json says, and without what its linter finds
 - the types that JSDoc names are kept (web/tsconfig.json)
 - no line is longer than 120 columns, and a view is a file of fewer than 300 lines

tests/javascript.py --write formats instead. The tools are those of tests/javascript/package-lock.json; tools/deps test puts them
into .cache/ui-check."""
import platform
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TOOLS = ROOT / ".cache/ui-check/node_modules"
BIOME = TOOLS / f"@biomejs/cli-linux-{'arm64' if platform.machine() == 'aarch64' else 'x64'}/biome"
FOLDERS = ["web", "tests/ui", "bench"]
COLUMNS, VIEW_LINES = 120, 300
results = []


def check(name, problems):
    results.append(not problems)
    for p in problems[:60]:
        print("# " + p)
    print(f"{'not ' if problems else ''}ok {len(results)} - {name}")


def output_of(*command):
    p = subprocess.run([str(c) for c in command], capture_output=True, text=True, errors="replace", cwd=ROOT)
    lines = [line for line in (p.stdout + p.stderr).splitlines() if line.strip()]
    return [] if p.returncode == 0 else lines or [f"exit status {p.returncode}"]


def sources():
    names = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", *FOLDERS], capture_output=True, text=True, cwd=ROOT, check=True)
    return [ROOT / n for n in names.stdout.split() if n.endswith((".js", ".mjs", ".css")) and (ROOT / n).exists()]


def long_lines(files):
    return [f"{p.relative_to(ROOT)}:{n} has {len(line)} columns; {COLUMNS} are the most"
            for p in files for n, line in enumerate(p.read_text().split("\n"), 1) if len(line) > COLUMNS]


def large_views(files):
    lines = {p: p.read_text().count("\n") for p in files if p.parent == ROOT / "web/src/views"}
    return [f"{p.relative_to(ROOT)} has {n} lines; a view has fewer than {VIEW_LINES}" for p, n in lines.items() if n >= VIEW_LINES]


def main():
    if "--write" in sys.argv:
        return subprocess.run([BIOME, "format", "--write", *FOLDERS], cwd=ROOT).returncode
    files = sources()
    assert len(files) > 50, files
    check("no line is too long", long_lines(files))
    check("views are small", large_views(files))
    if BIOME.exists():
        check("formatted, and nothing that the linter finds", output_of(BIOME, "ci", "--colors=off", "--error-on-warnings", *FOLDERS))
        check("types", output_of(TOOLS / ".bin/tsc", "-p", "web/tsconfig.json"))
    else:
        print("ok 3 - formatted, linted, types # SKIP biome and tsc are not installed: tools/deps test")
        results.append(True)
    print(f"1..{len(results)}")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
