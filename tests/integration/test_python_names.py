# SPDX-License-Identifier: Apache-2.0
"""Every Python function, file and line that is shown exists in the sources that ran: names are read later than their samples, and the
code of a module is gone when its import is done."""
import collections
import json
import os
import subprocess
import time
from pathlib import Path

import pytest

import pythons
from agent_tools import agent_to_file, complete_lines, may_sample
from wick_tools import WICK, some

PYTHONS = pythons.found()
TRUTH = Path(__file__).parent / "python_truth.py"
pytestmark = pytest.mark.skipif(not may_sample(), reason="BPF programs may not be loaded here")

IMPORTS = "import asyncio,json,email.mime.text,http.client,unittest,argparse,logging.config,xml.dom.minidom\n"
SPAWN = f"""import multiprocessing
def job(n):
    {IMPORTS.strip()}
    return sum(i * i for i in range(n))
if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        pool.map(job, [30000] * 4)
"""
# Code objects that come and go at the same address, the same but for their texts.
LOOP = """import sys, time
end, i = time.process_time() + float(sys.argv[1]), 0
while time.process_time() < end:
    i, n = (i + 1) % 5, "abcde"[i]
    source = "\\n" * ord(n) + f"def fn_{n}():\\n    x = 0\\n    for i in range(20000):\\n        x += i\\nfn_{n}()\\n"
    exec(compile(source, f"/nowhere/{n}.py", "exec"), {})
"""
NEWEST, OLDEST = (f(PYTHONS, default=(3, 0)) for f in (max, min))
EACH = pytest.mark.parametrize("version", PYTHONS, ids=lambda v: "%d.%d" % v)


class Shown:
    """What a recording shows of Python: {(function, file, line): frames}, and samples."""

    def __init__(self):
        self.frames, self.samples, self.python, self.unnamed = collections.Counter(), 0, 0, 0

    def add(self, path, service=None):
        for line in complete_lines(path):
            request = json.loads(line)
            for r in request["resourceProfiles"]:
                if service and not any(a["value"].get("stringValue") == service for a in r["resource"]["attributes"]):
                    continue
                for p in (p for s in r["scopeProfiles"] for p in s["profiles"]):
                    self.add_profile(request["dictionary"], p)

    def add_profile(self, d, profile):
        if d["stringTable"][profile["sampleType"].get("typeStrindex", 0)] == "samples":  # each is in "cpu", too
            return
        for x in profile.get("samples", []):
            self.add_sample(d, x)

    def add_sample(self, d, x):
        n = max(len(x.get("timestampsUnixNano", [])), 1)
        frames = [d["locationTable"][i] for i in d["stackTable"][x.get("stackIndex", 0)].get("locationIndices", [])]
        frames = [f for f in frames if "cpython" in kinds(d, f)]
        self.samples += n
        self.python += n * bool(frames)
        self.unnamed += n * any(f[0] == "[unknown]" for x in frames for f in named(d, x))
        for f in frames:
            self.frames.update({t: n for t in named(d, f) if t[0] != "[unknown]"})

    def wrong(self, python, script):
        """What does not exist, by the interpreter that ran it."""
        given = json.dumps(list(self.frames))
        out = subprocess.run([python, TRUTH, script], input=given, capture_output=True, text=True, check=True).stdout
        return {tuple(w): self.frames[tuple(w)] for w in json.loads(out)}


def kinds(d, location):
    for i in location.get("attributeIndices", []):
        yield d["attributeTable"][i]["value"].get("stringValue")


def named(d, location):
    strings, result = d["stringTable"], []
    for n in location.get("lines", []):
        f = d["functionTable"][n.get("functionIndex", 0)]
        if f.get("nameStrindex"):
            result.append((strings[f["nameStrindex"]], strings[f.get("filenameStrindex", 0)], int(n.get("line", 0))))
    return result


def record(tmp_path, shown, command, *options):
    out = tmp_path / "x.json"
    out.unlink(missing_ok=True)
    r = subprocess.run([WICK, "record", "-q", *options, "-o", out, "--", *map(str, command)], capture_output=True, text=True, timeout=900,
                       cwd=tmp_path)
    assert r.returncode == 0, r.stderr
    shown.add(out)


def judge(shown, python, script, samples):
    print(f"{shown.python} samples with Python frames of {shown.samples}, {shown.unnamed} with an unknown one")
    assert shown.python >= samples
    assert not shown.wrong(python, script)
    assert shown.unnamed <= 0.02 * shown.python


@EACH
def test_imports(tmp_path, version):
    script, shown = tmp_path / "imports.py", Shown()
    script.write_text(IMPORTS)
    record(tmp_path, shown, [PYTHONS[version], script], "-F", "997")
    judge(shown, PYTHONS[version], script, 20)


@pytest.mark.parametrize("version", [OLDEST, NEWEST], ids=lambda v: "%d.%d" % v)
def test_spawned_workers(tmp_path, version):
    script, shown = tmp_path / "spawn.py", Shown()
    script.write_text(SPAWN)
    record(tmp_path, shown, [PYTHONS[version], script], "-F", "499")
    judge(shown, PYTHONS[version], script, 40)


@pytest.mark.parametrize("how,version", [*(("bpf", v) for v in PYTHONS), ("perf", OLDEST), ("perf", NEWEST)], ids=str)
def test_code_at_an_address_that_was_another_one(tmp_path, how, version):
    """One function for each file, five in turn at one address. Without BPF, code may be gone when it is read: then it has no name."""
    script, shown, made = tmp_path / "loop.py", Shown(), collections.Counter()
    script.write_text(LOOP)
    record(tmp_path, shown, [PYTHONS[version], script, 0.4], "-F", "499", "--via", how)
    for (function, file, line), n in some(shown.frames.items()):
        if file.startswith("/nowhere/"):
            name = Path(file).stem
            made[name] += n
            first = not line or function == "<module>" and line == 1  # at an instruction that has no line
            assert function in ("<module>", f"fn_{name}") and (first or 0 < line - ord(name) <= 5), (function, file, line)
    assert len(made) == 5 and sum(made.values()) > 60, made
    assert how == "perf" or shown.unnamed <= 0.02 * shown.python


@pytest.mark.slow
def test_agent_at_its_own_rate(tmp_path):
    """At 19 Hz, of processes that live for a fifth of a second: of each only a sample or two, the first of which is taken before the
    agent knows its interpreter. As many are run as it takes for a number of samples of which two percent can be one. (Within its usual
    budget an agent on a busy machine reads only a few of them.)"""
    script, shown, end = tmp_path / "imports.py", Shown(), time.time() + 200
    script.write_text(IMPORTS)
    loop = f'for i in $(seq 5); do "{PYTHONS[NEWEST]}" "{script}"; done'
    with agent_to_file(tmp_path, "-F", "19", "--budget", "0", "--interval", "1s") as (out, _):
        while not complete_lines(out):
            time.sleep(0.1)
        while shown.python < 50 and time.time() < end:
            runs = [subprocess.Popen(["sh", "-c", loop], env={**os.environ, "OTEL_SERVICE_NAME": "python-names"}) for _ in range(2)]
            assert [p.wait(120) for p in runs] == [0, 0]
            shown = Shown()
            shown.add(out, "python-names")
    judge(shown, PYTHONS[NEWEST], script, 50)


@pytest.mark.slow
@EACH
@pytest.mark.parametrize("program", [IMPORTS, SPAWN], ids=["imports", "spawn"])
def test_none_wrong_in_ten_thousand(tmp_path, version, program):
    script, shown = tmp_path / "program.py", Shown()
    script.write_text(program)
    while shown.python < 10000 // 2:  # of either program
        record(tmp_path, shown, ["sh", "-c", f'for i in $(seq 30); do "{PYTHONS[version]}" "{script}" || exit; done'], "-F", "199")
    judge(shown, PYTHONS[version], script, 10000 // 2)
