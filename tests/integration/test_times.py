# SPDX-License-Identifier: Apache-2.0
"""When samples were taken: the questions heatmap and chart, and times=sample, against what was sent; the tenants keep apart;
the agent's own samples, end to end."""
import os
import re
import subprocess
import sys
import urllib.parse

import pytest

pytest.importorskip("opentelemetry.proto.common.v1.common_pb2")
from agent_tools import needs_bpf  # noqa: E402
from timed_data import MS, S, SECONDS, SPAN, SPIKE, THREADS, Timed  # noqa: E402
from ui_data import Request  # noqa: E402
from wick_tools import WICK, Server, some, wait_for  # noqa: E402

QUERY = 'cpu{service.name="ticker"}'


def ask(s, name, **params):
    return s.json(f"/api/v1/{name}?" + urllib.parse.urlencode({"query": QUERY, **params}))


@pytest.fixture(scope="module")
def sent(tmp_path_factory):
    s = Server(tmp_path_factory.mktemp("times"), "--no-agent")
    s.data = Timed()
    s.data.send(s)
    yield s
    s.stop()


def rows(answer):
    return {r["name"]: r["total"] for r in answer["rows"]}


def test_heat_map_counts_every_sample(sent):
    d = sent.data
    h = ask(sent, "heatmap", **{"from": d.start, "to": d.start + SECONDS * S, "step": "1s", "rows": 50})
    cells = [0] * (SECONDS * 50)
    for _, _, at, v in d.samples():
        cells[(at - d.start) // (20 * MS)] += v
    assert (int(h["from"]), int(h["step"]), h["columns"], h["rows"]) == (d.start, S, SECONDS, 50)
    assert h["timed"] == sum(cells) and h["untimed"] == 0 and h["samples"] == sum(1 for _ in d.samples())
    assert h["max"] == max(cells)
    assert [v * h["scale"] for v in h["values"]] == pytest.approx(cells, abs=h["scale"])


@pytest.mark.parametrize("kind, unit", [("lock_count", "count"), ("inuse_space", "bytes"), ("lock_widgets", "widgets")])
def test_heat_map_has_its_unit(sent, kind, unit):
    """Whatever a type is called: numbers of locks are no time. Of types that wick does not know, as their profiles say."""
    d, r = sent.data, Request("locks", version="1.0")
    r.profile(kind, unit, d.start, [(("main", "take"), 7)])
    assert sent.send(r.done())[0] == 200
    h = sent.json(f"/api/v1/heatmap?query={kind}&from={d.start}&to={d.start + SECONDS * S}")
    assert h["unit"] == unit and h["untimed"] == 7, h
    assert ask(sent, "heatmap", **{"from": d.start, "to": d.start + SECONDS * S})["unit"] == "nanoseconds"


def test_heat_map_is_bounded(sent):
    """Any range: at most 300 columns, whose step is a usual one; a part of a second as well as 30 days."""
    d = sent.data
    for length, step in ((S, 10 * MS), (60 * S, S), (300 * S, S), (3600 * S, 15 * S), (86400 * S, 300 * S), (30 * 86400 * S, 3 * 3600 * S)):
        h = ask(sent, "heatmap", **{"from": d.start + SECONDS * S - length, "to": d.start + SECONDS * S})
        assert int(h["step"]) == step and h["columns"] <= 301 and len(h["values"]) == h["columns"] * h["rows"], (length, h["step"], h["columns"])
    status, body = sent.get("/api/v1/heatmap?query=cpu&from=now-1d&to=now&step=1s")
    assert status == 400 and b"too many columns" in body, body


def test_flame_of_a_part_of_a_second(sent):
    d, at = sent.data, sent.data.start + 12 * S
    for a, b in ((at, at + 200 * MS), (at + 500 * MS, at + 620 * MS), (at + 150 * MS, at + 510 * MS), (at + 990 * MS, at + 3 * S)):
        top = ask(sent, "top", **{"from": a, "to": b, "times": "sample"})
        want = d.taken(a, b)
        assert {k: v for k, v in rows(top).items() if k not in ("main", "work")} == want, (a, b)
    first, second = (at, at + 200 * MS), (d.start + SPIKE * S, d.start + SPIKE * S + 200 * MS)
    diff = ask(sent, "top", base_from=first[0], base_to=first[1], **{"from": second[0], "to": second[1], "times": "sample"})
    got = {r["name"]: r["total"] for r in diff["rows"]}
    assert got["spike"] == [0, 200 * MS] and got["render"] == [800 * MS, 600 * MS], got


def test_chart_of_each_thread(sent):
    d, at = sent.data, sent.data.start + (SPIKE - 1) * S
    c = ask(sent, "chart", **{"from": at, "to": at + 3 * S, "columns": 300})
    assert c["count"] == THREADS and not c["sliced"] and int(c["step"]) == 10 * MS
    for t in some(c["threads"]):
        number = t["id"] - 100
        assert t["name"] == f"worker-{number}" and t["service"] == "ticker"

        def time_in(spans):
            return sum(max(0, min(z, at + 3 * S) - max(a, at)) for w, _, a, z in spans if w == number)

        assert t["running"] == pytest.approx(time_in(d.running), abs=2 * 10 * MS)
        assert t["waiting"] == time_in(d.waiting)
        cells = [t["cells"][i:i + 4] for i in range(0, len(t["cells"]), 4)]
        seen = [(name(c, node), kind) for _, _, node, kind in cells]
        if number == 1:
            quiet = [("render", 0), ("poll", 1), ("parse", 0), ("poll", 1)]
            assert [s for s in seen] == [*quiet, ("spike", 0), *quiet], seen
            column, n = next((c0, n) for c0, n, node, _ in cells if name(c, node) == "spike")
            assert (column, n) == (100, 100)
    (span,) = c["spans"]
    assert span["spanId"] == SPAN and span["name"] == "GET /spike" and c["threads"][span["thread"]]["name"] == "worker-1"
    assert int(span["start"]) == d.start + SPIKE * S and int(span["end"]) == d.start + (SPIKE + 1) * S


def name(c, node):
    return c["names"][c["frames"][node]]


@pytest.mark.parametrize("before, after", [(3600, 0), (1800, 1234), (86400, 60)])
def test_chart_of_a_long_range_with_little_data(sent, before, after):
    """Wherever in the range the data is: all of it is shown. (Ranges with more are read in parts: test_query_times.)"""
    start, end = sent.data.start, sent.data.start + SECONDS * S
    short = ask(sent, "chart", **{"from": start, "to": end})
    c = ask(sent, "chart", **{"from": start - before * S, "to": end + after * S})
    assert not c["sliced"] and c["count"] == short["count"] > 0
    assert [t["samples"] for t in c["threads"]] == [t["samples"] for t in short["threads"]]


def test_tenants_keep_apart(sent):
    c = sent.json("/api/v1/chart?query=cpu%7Bservice.name%3D%22other%22%7D")
    assert c["threads"] == [] and c["count"] == 0
    status, body = sent.get("/api/v1/flame?query=cpu&times=sometimes")
    assert status == 400 and b"times: 'sometimes' is not sample or profile" in body


def test_agent_sends_times(tmp_path, monkeypatch):
    """What the agent of this host samples has times and threads: the heat map counts it, the chart shows its thread."""
    needs_bpf()
    monkeypatch.delenv("WICK_NO_AGENT", raising=False)
    s = Server(tmp_path)
    try:
        program = subprocess.Popen([sys.executable, "-c", "while True: sum(range(10000))"], env={**os.environ, "OTEL_SERVICE_NAME": "spinner"})
        try:
            query = urllib.parse.quote('cpu{service.name="spinner"}')

            def heat():
                h = s.json(f"/api/v1/heatmap?query={query}&from=now-5m&to=now")
                return h if h["samples"] >= 20 else None

            h = wait_for(heat, 90, "samples with times")
            assert h["untimed"] == 0 and h["timed"] > 0
            c = s.json(f"/api/v1/chart?query={query}&from=now-5m&to=now")
            assert [t["id"] for t in c["threads"]] == [program.pid], c["threads"]
            assert c["threads"][0]["running"] > 0
        finally:
            program.kill()
            program.wait()
    finally:
        s.stop()


def test_at_the_terminal(sent):
    """wick query heatmap and chart are tables, with a line over time."""
    data = sent.data
    selection = [QUERY, "--from", str(data.start // S), "--to", str(data.start // S + SECONDS), "--server", sent.url]
    p = subprocess.run([WICK, "query", "heatmap", *selection, "--step", "1s"], capture_output=True, text=True, timeout=60)
    head, *rows = [line for line in p.stdout.splitlines() if not line.startswith(("note:", "sampled at"))]
    assert p.returncode == 0 and head.split() == ["TIME", "SHARE", "WITHIN", "THE", "STEP"], (p.stdout, p.stderr)
    assert len(rows) == SECONDS
    at = head.index("WITHIN")
    for second, row in some(enumerate(rows)):
        assert re.fullmatch(r"\S{50}" if second == SPIKE else r"\S{10} {15}\S{10}", row[at:]), row
    p = subprocess.run([WICK, "query", "chart", *selection], capture_output=True, text=True, timeout=60)
    head, *rows = [line for line in p.stdout.splitlines() if not line.startswith(("note:", "sampled at"))]
    assert p.returncode == 0 and head.split()[:4] == ["THREAD", "SAMPLES", "RUNNING", "WAITING"], (p.stdout, p.stderr)
    assert {r.split()[5]: r.split()[2] for r in rows} == {f"worker-{t}": "24.6s" if t == 1 else "24.0s" for t in range(THREADS)}, rows
