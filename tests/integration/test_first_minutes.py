# SPDX-License-Identifier: Apache-2.0
"""What a person reads first: the lines that `wick serve` prints, the verdict of `wick doctor`, and its plan for a fleet."""
import json
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from agent_tools import may_sample
from wick_tools import ROOT, WICK, Server, some


def lines(server, n=4):
    return {line.split(None, 1)[0]: line.split(None, 1)[1].strip() for line in some(server.p.stdout.readline() for _ in range(n))}


def test_server_without_agent(tmp_path):
    s = Server(tmp_path, "--set", "retention.keep=3d", "--set", "retention.size=2GiB")
    try:
        said = lines(s)
        assert set(said) == {"receives", "samples", "keeps", "lacks"}
        assert s.grpc in said["receives"] and s.http.removeprefix("http://") in said["receives"]
        assert said["samples"] == "nothing of this host"
        assert said["keeps"] == f"profiles in {tmp_path}/store, 3 days, at most 2 GiB"
        assert f"sudo wick agent --export http://{s.grpc}" in said["lacks"]
    finally:
        s.stop()


@pytest.mark.skipif(not may_sample(), reason="the agent may not sample here")
def test_server_with_agent(tmp_path, monkeypatch):
    monkeypatch.delenv("WICK_NO_AGENT", raising=False)
    s = Server(tmp_path)
    try:
        said = lines(s)
        assert said["samples"].startswith("the processes of this host") and said["lacks"] == "nothing; wick doctor checks more"
    finally:
        s.stop()


@pytest.fixture
def place_of_user():
    """A directory of a user who has no rights, below one that all may enter."""
    if os.geteuid() != 0:
        pytest.skip("needs root, to be another user")
    place = Path(tempfile.mkdtemp(prefix="wick-first-", dir="/tmp"))
    os.chown(place, 52001, 52001)
    yield place
    shutil.rmtree(place)


def test_server_of_a_user_without_rights(place_of_user, monkeypatch):
    """What it lacks is the reason that the agent gives, with the command that helps; the server runs."""
    monkeypatch.delenv("WICK_NO_AGENT", raising=False)
    s = Server(place_of_user, before=["setpriv", "--reuid=52001", "--regid=52001", "--clear-groups"])
    try:
        said = lines(s)
        assert said["samples"] == "nothing of this host" and re.search(r"CAP_BPF.*: .*(sudo|root|doctor)", said["lacks"]), said
        assert s.get("/healthz")[0] == 200
    finally:
        s.stop()


def test_a_taken_port_is_what_it_lacks(tmp_path):
    first = Server(tmp_path)
    port = first.http.removeprefix("http://")
    second = subprocess.Popen([WICK, "serve", "--store", "memory", "--http", "127.0.0.1:0", "--otlp-grpc", "off", "--otlp-http", port],
                              env={**os.environ, "XDG_DATA_HOME": str(tmp_path / "second")}, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        said = [second.stdout.readline() for _ in range(5)]
        assert said[1] == "  receives  Pyroscope's clients at the address above\n" and "in memory" in said[3]
        assert said[4].startswith("  lacks ") and "OTLP/HTTP is off: " in said[4] and port in said[4]
    finally:
        first.stop()
        second.terminate()
        second.wait(60)
        second.stdout.close()


def doctor(*options, **kw):
    return subprocess.run([WICK, "doctor", *options], capture_output=True, text=True, **kw)


def test_verdict(tmp_path):
    """The last line says what the checks together mean; exit status and verdict agree."""
    p = doctor(env={**os.environ, "HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path)})
    last = p.stdout.splitlines()[-1]
    bad = [line for line in p.stdout.splitlines() if line.startswith("BAD")]
    assert last.startswith("Verdict: wick serve ") and (p.returncode == 1) == bool(bad)
    samples = re.search(r"^ok +host agent ", p.stdout, re.M)
    assert ("samples this machine" in last) == (not bad and bool(samples)) == (" -> " not in last)
    assert isinstance(json.loads(doctor("--json").stdout), list)


def test_verdict_of_a_user_without_rights(place_of_user):
    user = {"user": 52001, "group": 52001, "extra_groups": []}
    p = doctor(env={**os.environ, "XDG_DATA_HOME": str(place_of_user)}, **user)
    assert p.returncode == 0 and "but does not sample this machine: sampling other" in p.stdout.splitlines()[-1], p.stdout
    os.chown(place_of_user, 0, 0)
    p = doctor(env={**os.environ, "XDG_DATA_HOME": str(place_of_user)}, **user)
    assert p.returncode == 1 and "wick serve does not run here" in p.stdout.splitlines()[-1], p.stdout


def measured(pattern):
    return float(re.search(pattern, (ROOT / "bench/RESULTS.md").read_text())[1])


def test_plan_is_what_was_measured():
    """The figures of the calculator are those of bench/RESULTS.md, and it calculates with them."""
    agent = r"\*\*agent: (?s:.*?)"
    detail, store = measured(agent + r"bytes per sample, everything counted \| ([\d.]+)"), measured(agent + r"CPU per million samples[^|]*\| ([\d.]+)")
    totals = measured(r"\*\*synthetic(?s:.*?)bytes per sample, everything counted \| ([\d.]+)")
    wire = measured(r"bytes per event, steady / mixed with names \|[^|]*\| [\d.]+ / ([\d.]+)")
    receive = measured(r"ingest to synced disk, CPU-s per million samples \| ([\d.]+)")
    got = json.loads(doctor("--plan", "hosts=10,cores=4,busy=50,rate=99,keep=20d,detail=2d", "--json").stdout)
    samples = 10 * 4 * 0.5 * 99
    assert got["samplesPerSecond"] == samples and got["networkBytesPerSecond"] == pytest.approx(samples * wire)
    assert got["busyCores"] == pytest.approx(samples * (store + receive) / 1e6, abs=0.001) and got["cores"] == 1
    assert got["diskBytes"] == pytest.approx(1.25 * samples * 86400 * (2 * detail + 18 * totals) + 2**30, rel=0.001)
    text = doctor("--plan", "hosts=10000,cores=64,busy=100,rate=99").stdout
    assert "share a ClickHouse" in text and "7 days with detail, then totals up to 30 days" in text


@pytest.mark.parametrize("plan, why", [("cores=8", "hosts=N is required"), ("hosts=0", "number from 1"), ("hosts=nan", "number from 1"),
                                       ("hosts=1,keep=0s", "keep must be"), ("hosts=1,disks=2", "unknown key 'disks'"), ("hosts=1,keep=x", "x")])
def test_wrong_plans(plan, why):
    p = doctor("--plan", plan)
    assert p.returncode == 2 and why in p.stderr, p.stderr
