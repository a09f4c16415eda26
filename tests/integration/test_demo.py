# SPDX-License-Identifier: Apache-2.0
"""wick demo: services, spans, a deploy that is slower, and nothing left behind."""
import json
import math
import os
import re
import signal
import subprocess
import sys
import urllib.parse
import urllib.request
from pathlib import Path

import pytest
from wick_tools import ROOT, WICK, descendants, wait_for


def children(pid):
    out = subprocess.run(["ps", "-eo", "pid,pgid,ppid,args"], capture_output=True, text=True).stdout
    return [line for line in out.splitlines() if str(pid) in line.split()[:3]]


def ask(url, path, **args):
    with urllib.request.urlopen(f"{url}/api/v1/{path}?{urllib.parse.urlencode(args)}", timeout=20) as r:
        return json.load(r)


@pytest.fixture
def demo(tmp_path):
    env = {**os.environ, "WICK_EXPORT_INTERVAL_MS": "1000", "WICK_RATE": "1000"}
    p = subprocess.Popen([WICK, "demo", "-d", "150s", "--deploy-after", "15s", "--http", "127.0.0.1:0"], stdout=subprocess.PIPE, text=True,
                         stderr=open(tmp_path / "err", "w"), env=env, cwd=tmp_path)
    text = ""
    while not (m := re.search(r"^  (http://\S+)$", text, re.M)):
        line = p.stdout.readline()
        assert line, (tmp_path / "err").read_text()
        text += line
    yield p, m.group(1), tmp_path
    p.kill()
    p.wait()


def share_of(url, function, version):
    """What share of checkout's CPU a function has; None while there are too few samples to tell."""
    answer = ask(url, "top", query=f'cpu{{service.name="checkout",service.version="{version}"}}', sort="total", limit=50)
    if answer["total"] < 80e6:
        return None
    return sum(r["total"] for r in answer["rows"] if r["name"] == function) / answer["total"]


def test_bad_deploy_is_found(demo):
    p, url, cwd = demo
    def share_above(function, version, least):
        """Its share, once there are so many samples that it is above the least: few say little."""
        share = share_of(url, function, version)
        return share if share and share > least else None

    wait_for(lambda: share_above("price_tax", "1.5.0", 0.3), 120, "profiles of the good version", 0.5)
    after = wait_for(lambda: share_above("price_discount", "1.6.0", 0.4), 120, "profiles of the bad deploy", 0.5)
    assert share_of(url, "price_discount", "1.5.0") < after / 2
    names = {(s["service"], s["name"]): s["count"] for s in ask(url, "span_names")["spans"]}
    assert set(names) == {("gateway", "GET /checkout"), ("checkout", "POST /order"), ("inventory", "POST /reserve")}, "its traces arrive"
    slow = ask(url, "span", service="checkout", span_name="POST /order", slowest=5)
    assert slow["type"] == "wall" and slow["spans"]["rest"] > slow["spans"]["selected"] > 0

    def whole_trace():
        """A slow trace with all its spans: services send them on their own, and the one that the deploy replaced may not have."""
        for one in ask(url, "spans", service="gateway", sort="duration", limit=20)["spans"]:
            tree = ask(url, "trace", trace_id=one["traceId"])["spans"]
            if [(s.get("name"), s["depth"]) for s in tree] == [("GET /checkout", 0), ("POST /order", 1), ("POST /reserve", 2)]:
                return tree
        return None

    wait_for(whole_trace, why="a trace with all its spans")

    def file_of_line():
        """Lines are looked up after the samples have arrived."""
        rows = ask(url, "lines", query='cpu{service.name="checkout"}', function="discount_matches")["rows"]
        return next((r["file"] for r in rows if r.get("line")), None)

    file = wait_for(file_of_line, 60, "lines")  # shown from the binary's own copy, whatever tree it was built in
    assert ask(url, "source", file=file)["text"] == (ROOT / "src/demo/demo_shop.c").read_text()
    other = ask(url, "source", file="/etc/passwd", missing="ok")
    assert other["text"] is None and "not /etc/passwd" in other["reason"]
    assert ask(url, "status")["pricePerCoreHour"] == 0.04
    p.terminate()
    assert p.wait(60) == 0
    assert os.listdir(cwd) == ["err"]


def samples_of(url, function, version):
    """How many samples a function has, and how many seconds are covered."""
    answer = ask(url, "top", query=f'cpu{{service.name="checkout",service.version="{version}"}}', sort="total", limit=50)
    rate = answer.get("meanRate") or answer["rate"]
    return sum(r["self"] for r in answer["rows"] if r["name"] == function) / 1e9 * rate, answer["coverage"] / 1e9, rate


@pytest.mark.slow
def test_verdict_by_minute_five(tmp_path):
    """The demo as it is without options: a bad deploy at minute 2, and before minute 5 the verdict, which names the innermost function with
    nearly all of the change. A function that did not change costs as much per second as before."""
    with subprocess.Popen([WICK, "demo", "--http", "127.0.0.1:0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=tmp_path) as p:
        url, verdict, costs = "", "", []
        for line in p.stdout:
            url = url or (line.strip() if line.startswith("  http://") else "")
            verdict = verdict or (line if line.startswith("Verdict: ") else "")
            if verdict and not costs:
                costs = [samples_of(url, "price_tax", version) for version in ("1.5.0", "1.6.0")]
    assert p.returncode == 0 and re.match(r"Verdict: checkout 1\.5\.0 . 1\.6\.0: worse: .*discount_matches", verdict), verdict
    (n, t, rate), (m, u, rate2) = costs
    change, error = m / rate2 / u - n / rate / t, math.hypot(n**0.5 / rate / t, m**0.5 / rate2 / u)
    assert n > 20 and m > 10 and abs(change) < 4 * error, costs
    assert os.listdir(tmp_path) == []


def test_interrupt_leaves_nothing(demo):
    p, url, cwd = demo
    started = wait_for(lambda: len(children(p.pid)) >= 4 and children(p.pid), why=lambda: children(p.pid))
    p.send_signal(signal.SIGINT)
    assert p.wait(60) == 0
    pids = [line.split()[0] for line in started]
    wait_for(lambda: not children(p.pid) and not [x for x in pids if Path(f"/proc/{x}").exists()], why=lambda: children(p.pid))
    with pytest.raises(OSError):
        urllib.request.urlopen(url, timeout=2)


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


@pytest.mark.parametrize("sig", [signal.SIGKILL, signal.SIGTERM])
def test_nothing_is_left_of_a_killed_demo(demo, sig):
    """The server is another user's and the services are programs of their own: all end with the demo, however it ends."""
    p, url, cwd = demo
    pids = wait_for(lambda: (d := descendants(p.pid)) and len(d) >= 4 and d, 60)
    assert ask(url, "types") is not None
    p.send_signal(sig)
    p.wait()
    wait_for(lambda: not [x for x in pids if alive(x)], 20, lambda: str(children(pids[0])))


def test_with_other_languages(tmp_path):
    """--with: those that are installed run and send, the others are named; a word that is none is refused; nothing is left."""
    p = subprocess.run([WICK, "demo", "--with", "python,cobol"], capture_output=True, text=True)
    assert p.returncode == 2 and "'cobol' is none of go, python, node, java, ruby, php" in p.stderr
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/python3").symlink_to(os.path.realpath(sys.executable))
    env = {**os.environ, "PATH": str(tmp_path / "bin"), "TMPDIR": str(tmp_path), "WICK_NO_AGENT": "1"}
    p = subprocess.Popen([WICK, "demo", "-d", "100s", "--http", "127.0.0.1:0", "--with", "python,ruby"], stdout=subprocess.PIPE, text=True, env=env, cwd=tmp_path,
                         stderr=open(tmp_path / "err", "w"))
    try:
        text = ""
        while "ruby" not in text:
            line = p.stdout.readline()
            assert line, (tmp_path / "err").read_text()
            text += line
        assert "checkout-python is running" in text and "ruby is left out: ruby is not installed" in text
        url = re.search(r"^  (http://\S+)$", text, re.M).group(1)
        rows = wait_for(lambda: ask(url, "top", query='cpu{service.name="checkout-python"}', sort="total", limit=20)["rows"], 60, "profiles of the example", 0.5)
        assert any(r["name"].endswith("price_item") for r in rows), rows
        started = descendants(p.pid)
        assert any(b"checkout.py" in Path(f"/proc/{x}/cmdline").read_bytes() for x in started)
    finally:
        p.send_signal(signal.SIGINT)
        p.wait(60)
    assert not [x for x in started if Path(f"/proc/{x}").exists()] and not list(tmp_path.glob("wick-demo-*"))
