#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that what a lock protects is used with the lock held: clang's thread-safety analysis of the annotations of base/macros.h
(_guarded_by_, _locked_ and others). Speaks TAP. tests/locks.py [FILE...]

It first looks at code that breaks each rule, so that a check that finds nothing has looked. clang-tidy comes from PyPI: the clang of
Debian 12 does not read members of a struct in the annotations of another one."""
import concurrent.futures
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CLANG_TIDY = ROOT / "build/venv/bin/clang-tidy"
ANNOTATION = re.compile(r"\b_(guarded_by|locked)_\b")
WRONG = """
#include <pthread.h>
#include "base/macros.h"
struct counted { pthread_mutex_t lock; int n _guarded_by_(lock); };
static void add(struct counted *c) _locked_(c->lock) { c->n++; }
void read_without(struct counted *c, int *ret) { *ret = c->n; }
void call_without(struct counted *c) { add(c); }
void leave_locked(struct counted *c, int early) { pthread_mutex_lock(&c->lock); if (early) return; pthread_mutex_unlock(&c->lock); }
void unlock_twice(struct counted *c) { pthread_mutex_lock(&c->lock); pthread_mutex_unlock(&c->lock); pthread_mutex_unlock(&c->lock); }
void right(struct counted *c) { pthread_mutex_lock(&c->lock); add(c); pthread_mutex_unlock(&c->lock); }
_unshared_ void make(struct counted *c) { c->n = 0; }
"""
WRONG_LINES = [6, 7, 8, 9]


def problems_of(path):
    p = subprocess.run([str(CLANG_TIDY), "--quiet", "--checks=-*,misc-static-assert,clang-diagnostic-thread-safety*,clang-diagnostic-error",
                        "--header-filter=.*", str(path), "--", "-std=gnu17", "-D_GNU_SOURCE", "-DWICK_CHECK_LOCKS", '-DWICK_VERSION=""',
                        f"-I{ROOT}/tests/tools/locks", f"-I{ROOT}/src", f"-I{ROOT}/include", f"-I{ROOT}/build/src/agent/bpf", "-Wno-everything",
                        "-Wthread-safety", "-fexperimental-late-parse-attributes"], capture_output=True, text=True, cwd=ROOT)
    return sorted(set(re.findall(r"^(/\S+?:\d+:\d+: (?:error|warning): .*)$", p.stdout, re.M)))


def annotated():
    """Files with annotations, and those that include a header which has some."""
    texts = {p: p.read_text() for suffix in ("c", "h") for p in (ROOT / "src").rglob(f"*.{suffix}") if ".bpf." not in p.name}
    headers = {str(p.relative_to(ROOT / "src")) for p, t in texts.items() if p.suffix == ".h" and p.name != "macros.h" and ANNOTATION.search(t)}
    while True:  # headers that include such a header
        more = {str(p.relative_to(ROOT / "src")) for p, t in texts.items() if p.suffix == ".h" and headers & set(re.findall(r'#include "(.*?)"', t))}
        if more <= headers:
            break
        headers |= more
    return sorted(p for p, t in texts.items() if p.suffix == ".c" and "src/sdk/" not in str(p) and
                  (ANNOTATION.search(t) or headers & set(re.findall(r'#include "(.*?)"', t))))


def main():
    names = sys.argv[1:]
    if not CLANG_TIDY.exists():
        print("ok 1 - locks # SKIP no clang-tidy in build/venv: tools/deps test\n1..1")
        return 0
    with tempfile.TemporaryDirectory() as tmp:
        wrong = Path(tmp) / "wrong.c"
        wrong.write_text(WRONG)
        lines = sorted({int(p.split(":")[1]) for p in problems_of(wrong)})
    files = [f for f in annotated() if not names or any(n in str(f) for n in names)]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 2) as pool:
        problems = sorted({x.replace(f"{ROOT}/", "") for found in pool.map(problems_of, files) for x in found})
    if lines != WRONG_LINES:
        print(f"# of code that breaks the rules in lines {WRONG_LINES}, the analysis sees {lines}")
    print(f"{'' if lines == WRONG_LINES else 'not '}ok 1 - the analysis finds what is wrong")
    for x in problems[:60]:
        print("# " + x)
    print(f"{'' if not problems and files else 'not '}ok 2 - locks are held where they must be, in {len(files)} files\n1..2")
    return 1 if problems or lines != WRONG_LINES else 0


if __name__ == "__main__":
    sys.exit(main())
