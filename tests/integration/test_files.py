# SPDX-License-Identifier: Apache-2.0
"""Profiles of other tools through `wick convert`: totals and stacks against the tool's own reader (file_oracles.py), on files
that the real tools wrote (tests/data/files), and on new ones where the tool is on the machine."""
import gzip
import json
import os
import subprocess

import pytest

import file_oracles as oracle
from wick_tools import ROOT

FILES = ROOT / "tests/data/files"
WICK = os.environ.get("WICK_ASAN", str(ROOT / "build-asan/src/cli/wick"))


def convert(path, *args, ok=True):
    p = subprocess.run([WICK, "convert", *args, str(path), "--to", "otlp-json", "-"], capture_output=True, timeout=60)
    if not ok:
        assert p.returncode == 1, p.stdout[:200]
        return p.stderr.decode()
    assert p.returncode == 0, p.stderr.decode()
    return json.loads(p.stdout)


def stacks(path, *args):
    return oracle.otlp_stacks(convert(path, *args))


# --- JFR ---

@pytest.mark.parametrize("name", sorted(oracle.JFR_PERIODS))
def test_jfr(name):
    """Every event kind, as the JDK's jfr tool prints it."""
    assert stacks(FILES / (name + ".gz")) == oracle.load(FILES / (name + ".expected.json.gz"))


def test_jfr_threads_and_frames(tmp_path):
    doc = convert(FILES / "async-profiler-4.5.jfr.gz")
    strings = doc["dictionary"]["stringTable"]
    attrs = {(strings[a["keyStrindex"]], a["value"].get("stringValue", a["value"].get("intValue")))
             for a in doc["dictionary"]["attributeTable"] if a.get("keyStrindex")}
    assert {("profile.frame.type", k) for k in ("jvm", "native")} <= attrs
    assert ("thread.name", "worker-0") in attrs
    lines = oracle.otlp_stacks(doc, lines=True)["cpu"]
    assert any(frame.startswith("Busy.spin:") and not frame.endswith(":0") for stack in lines for frame in stack)


def test_jfr_refused(tmp_path):
    whole = gzip.decompress((FILES / "async-profiler-4.5.jfr.gz").read_bytes())
    cases = {
        "cut": (whole[:5000], "is cut short"),
        "version": (whole[:5] + b"\x09" + whole[6:], "version 9.0 is not supported"),
        "plain": (whole[:67] + b"\0" + whole[68:], "without compressed integers"),
        "empty": (whole[:68], "is cut short"),
    }
    for name, (data, message) in cases.items():
        path = tmp_path / name
        path.write_bytes(data)
        assert message in convert(path, ok=False), name


@pytest.mark.slow
@pytest.mark.skipif(not oracle.JFR, reason="no JDK")
def test_jfr_of_this_jdk(tmp_path):
    (tmp_path / "Spin.java").write_text("""public class Spin { static volatile long s; public static void main(String[] a) {
        long end = System.currentTimeMillis() + 2000; while (System.currentTimeMillis() < end) { byte[] b = new byte[10000]; s += b.length; } } }""")
    path = tmp_path / "spin.jfr"
    subprocess.run(["java", f"-XX:StartFlightRecording=filename={path},settings=profile", "Spin.java"], cwd=tmp_path, check=True,
                   capture_output=True, timeout=120)
    assert stacks(path) == oracle.jfr(path, {"cpu": 10_000_000, "native": 20_000_000, "wall": 0})
