# SPDX-License-Identifier: Apache-2.0
"""`wick query findings` on real programs in C, Go and Python that waste time in one known way each, recorded from outside: the rule is
found, it blames the function that does it, and a program that only computes gets none."""
import json
import subprocess
import sys
from pathlib import Path

import pytest
from agent_tools import needs_bpf
from go_tools import GO
from wick_tools import WICK

pytestmark = pytest.mark.slow
PROGRAMS = Path(__file__).parents[1] / "programs"

CASES = [("c", "regexp", "regexp_compile", "waste_regexp"), ("c", "malloc", "malloc_churn", "waste_malloc"),
         ("c", "faults", "page_faults", "waste_faults"), ("c", "locks", "lock_convoy", "waste_locks"), ("c", "none", None, None),
         ("go", "regexp", "regexp_compile", "main.wasteRegexp"), ("go", "json", "serialisation", "main.wasteJSON"),
         ("go", "gc", "gc", "runtime.gcBgMarkWorker"), ("go", "locks", "lock_convoy", "main.wasteLocks"), ("go", "none", None, None),
         ("python", "regexp", "regexp_compile", "waste_regexp"), ("python", "json", "serialisation", "waste_json"),
         ("python", "gc", "gc", None), ("python", "none", None, None)]


@pytest.fixture(scope="module")
def commands(tmp_path_factory):
    needs_bpf()
    d = tmp_path_factory.mktemp("wasteful")
    made = {"python": [sys.executable, str(PROGRAMS / "wasteful.py")], "c": [str(d / "c")], "go": [str(d / "go")]}
    subprocess.run(["gcc", "-O1", "-g", "-pthread", "-o", d / "c", PROGRAMS / "wasteful.c"], check=True)
    if GO:
        subprocess.run([GO, "build", "-o", d / "go", PROGRAMS / "wasteful.go"], check=True, cwd=d)
    return made


@pytest.mark.parametrize("language, waste, rule, blamed", CASES, ids=[f"{c[0]}-{c[1]}" for c in CASES])
def test_waste_is_found(tmp_path, commands, language, waste, rule, blamed):
    if language == "go" and not GO:
        pytest.skip("no go")
    file, store = tmp_path / "x.pb.gz", tmp_path / "store"
    subprocess.run([WICK, "record", "-q", "-F", "199", "-o", file, "--", *commands[language], waste, "4"], check=True, timeout=120)
    subprocess.run([WICK, "store", "import", "--store", store, file], check=True, capture_output=True)
    p = subprocess.run([WICK, "query", "findings", "cpu", "--store", store, "--from", "now-10m", "--json"], capture_output=True, text=True)
    found = {f["rule"]: f for f in json.loads(p.stdout)["findings"]}
    print(p.stdout)
    if not rule:
        assert not [f for f in found.values() if f["severity"] == "warning"], found
        return
    assert rule in found, found
    names = [f["function"] for f in found[rule]["frames"]]
    assert found[rule]["sentence"] and names
    if blamed:
        assert names[0] == blamed
