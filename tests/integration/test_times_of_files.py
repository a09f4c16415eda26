# SPDX-License-Identifier: Apache-2.0
"""Files whose samples have times, uploaded: the flame chart shows what each thread did when, as the few lines of Python here read it
in the same file. A truth is a list of (thread, leaf, from, to) in nanoseconds of the file's own clock (a leaf of None is not compared),
and when the last sample of any type ended."""
import gzip
import json
import re
import subprocess
import urllib.parse
from datetime import datetime

import pytest

import file_oracles as oracle
from wick_tools import ROOT, some

FILES = ROOT / "tests/data/files"
MS, S = 10**6, 10**9


def v8(nodes, parents, samples, deltas, start, end=None):
    at, out = start * 1000, []
    for i, node in enumerate(samples):
        at += deltas[i] * 1000
        until = at + deltas[i + 1] * 1000 if i + 1 < len(samples) else (end or 0) * 1000
        stack = oracle.v8_stack(nodes, parents, node)
        if until > at:
            out.append(("", stack[-1] if stack else "", at, until))
    return out


def cpuprofile(path):
    doc = json.loads(path.read_text())
    return v8({n["id"]: n for n in doc["nodes"]}, {c: n["id"] for n in doc["nodes"] for c in n.get("children", [])},
              doc["samples"], doc["timeDeltas"], doc["startTime"], doc["endTime"])


def chrome(path):
    nodes, samples, deltas = {}, [], []
    for event in json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]:
        data = event.get("args", {}).get("data", {})
        if event["name"] == "ProfileChunk":
            nodes |= {n["id"]: n for n in data.get("cpuProfile", {}).get("nodes", [])}
            samples += data.get("cpuProfile", {}).get("samples", [])
            deltas += data.get("timeDeltas", [])
    return v8(nodes, {i: n["parent"] for i, n in nodes.items() if "parent" in n}, samples, deltas, 0)


def speedscope(path):
    doc, out = json.loads(path.read_text()), []
    for p in doc["profiles"]:
        at = p["startValue"]
        for stack, weight in zip(p["samples"], p["weights"]):
            out.append((p["name"], doc["shared"]["frames"][stack[-1]]["name"] if stack else "", round(at * S), round((at + weight) * S)))
            at += weight
    return out


def firefox(path):
    out = []
    for t in json.loads(gzip.decompress(path.read_bytes()))["threads"]:
        at = 0
        for i, stack in enumerate(t["samples"]["stack"]):
            at += t["samples"]["timeDeltas"][i]
            used = t["samples"]["threadCPUDelta"][i] * 1000
            if stack is not None and used:
                out.append((t["name"], None, round(at * MS) - used, round(at * MS)))
    return out


def perf(path):
    text = subprocess.run(["perf", "script", "-i", str(path), "-F", "tid,time,period,event", "--ns"], capture_output=True, check=True, text=True).stdout
    out = []
    for line in text.splitlines():
        m = re.match(r"\s*(\d+)\s+(\d+)\.(\d{9}):\s+(\d+)\s", line)
        if m:
            tid, at, period = int(m[1]), int(m[2]) * S + int(m[3]), int(m[4])
            out.append((tid, None, at - period, at))
    return out


TIMED = {"jdk.ExecutionSample", "jdk.NativeMethodSample", "jdk.JavaMonitorEnter", "jdk.ThreadPark", *oracle.JFR_SIZES}


def jfr(path):
    if not oracle.JFR:
        pytest.skip("no JDK")
    text = subprocess.run([oracle.JFR, "print", "--json", "--stack-depth", "4096", str(path)], capture_output=True, check=True, timeout=120).stdout
    out, last = [], 0
    for event in json.loads(text)["recording"]["events"]:
        v = event["values"]
        stack = oracle.jfr_stack(v)
        if not stack:
            continue
        m = re.fullmatch(r"(.*?)(?:\.(\d+))?([+-]\d\d:\d\d|Z)", v["startTime"])
        at = int(datetime.fromisoformat(m[1] + m[3].replace("Z", "+00:00")).timestamp()) * S + int((m[2] or "0").ljust(9, "0"))
        if event["type"] in TIMED:
            last = max(last, at + oracle.jfr_seconds(v.get("duration", "PT0S")))
        if event["type"] == "jdk.ExecutionSample":
            out.append((v["sampledThread"]["osName"], stack[-1], at - oracle.JFR_PERIODS["jdk-17.jfr"]["cpu"], at))
    return out, last


def chart_of(s, data, name, wanted):
    status, body = s.get(f"/api/v1/upload?name={name}", data=data)
    assert status == 200, body
    up = json.loads(body)
    assert wanted in up["types"], up
    query = f'{wanted}{{service.name="{name}",service.version="{up["instance"]}"}}'
    at = {"query": query, "from": up["from"] * MS, "to": up["to"] * MS, "columns": 1000}
    return up, s.json("/api/v1/chart?" + urllib.parse.urlencode(at))


def joined(pieces):
    """Neighbours of one leaf as one piece."""
    out = []
    for leaf, a, z in sorted(pieces, key=lambda p: p[1]):
        if out and out[-1][0] == leaf and a - out[-1][2] < 10_000:
            out[-1][2] = z
        else:
            out.append([leaf, a, z])
    return out


@pytest.mark.parametrize("name, wanted, read, key", [
    ("node-20.cpuprofile", "wall", cpuprofile, None), ("chrome.trace.json.gz", "wall", chrome, None), ("py-spy-0.4.speedscope.json", "wall", speedscope, "name"),
    ("samply-0.13.json.gz", "cpu", firefox, "name"), ("perf-6.1.data.gz", "cpu", perf, "id"), ("jdk-17.jfr.gz", "cpu", jfr, "name")])
def test_time_order(server, tmp_path, name, wanted, read, key):
    path = FILES / name
    if read in (perf, jfr):
        path = tmp_path / name.removesuffix(".gz")
        path.write_bytes(gzip.decompress((FILES / name).read_bytes()))
    truth, last = read(path) if read is jfr else (read(path), None)
    up, c = chart_of(server, (FILES / name).read_bytes(), name, wanted)
    assert c["untimed"] == 0 and not c["sliced"], c["untimed"]
    assert c["count"] == len({t for t, *_ in truth}), [(t["name"], t["id"]) for t in c["threads"]]
    step, start, last = int(c["step"]), int(c["from"]), last or max(z for *_, z in truth)
    end = up["to"] * MS - MS  # the upload was put there, to the millisecond
    margin, compared = step + 2 * MS, 0
    for t in some(c["threads"]):
        mine = [(leaf, a - last + end, z - last + end) for who, leaf, a, z in truth if key is None or who == t[key]]
        assert abs(t["samples"] - len(mine)) <= 1  # one may last for no time
        shown = {}
        for i in range(0, len(t["cells"]), 4):
            column, n, node, _ = t["cells"][i:i + 4]
            shown.update((k, c["names"][c["frames"][node]] if node else "") for k in range(column, column + n))
        for leaf, a, z in some(joined(mine)):  # what lasts for longer than the uncertainty of the comparison
            for k in range(max(0, (a + margin - start) // step + 1), (z - margin - start) // step):
                assert k in shown and leaf in (None, shown[k]), (k, leaf, shown.get(k))
                compared += 1
        total = sum(min(z, start + step * c["columns"]) - max(a, start, end - last) for _, a, z in mine)
        assert t["running"] == pytest.approx(total, rel=0.02, abs=3 * MS)
    assert compared > 10 or read is perf, compared


def evented(ms):
    """Two threads in turns of a millisecond each: thread a runs parse, thread b runs render."""
    def profile(name, frame, first):
        events = [e for i in range(first, ms, 2) for e in ({"type": "O", "frame": 0, "at": i}, {"type": "O", "frame": frame, "at": i},
                                                             {"type": "C", "frame": frame, "at": i + 1}, {"type": "C", "frame": 0, "at": i + 1})]
        return {"type": "evented", "name": name, "unit": "milliseconds", "startValue": 0, "endValue": ms, "events": events}

    return json.dumps({"$schema": "x", "shared": {"frames": [{"name": "main"}, {"name": "parse"}, {"name": "render"}]},
                       "profiles": [profile("a", 1, 0), profile("b", 2, 1)]}).encode()


def test_evented(server):
    _, c = chart_of(server, evented(400), "turns.speedscope.json", "wall")
    assert sorted(t["name"] for t in c["threads"]) == ["a", "b"]
    for t in some(c["threads"]):
        cells = [t["cells"][i:i + 4] for i in range(0, len(t["cells"]), 4)]
        assert {c["names"][c["frames"][x[2]]] for x in cells} == {"parse" if t["name"] == "a" else "render"} and len(cells) == 200
        assert t["running"] == 200 * MS


def test_a_long_file_can_be_looked_into(server):
    """An hour: in its middle, too, and before it there is nothing."""
    events = [{"type": k, "frame": 0, "at": float(at)} for i in range(0, 3600, 4) for k, at in (("O", i), ("C", i + 1))]
    data = json.dumps({"$schema": "x", "shared": {"frames": [{"name": "tick"}]}, "profiles": [
        {"type": "evented", "name": "t", "unit": "seconds", "startValue": 0, "endValue": 3600, "events": events}]}).encode()
    up, _ = chart_of(server, data, "hour.speedscope.json", "wall")
    end = up["to"] * MS
    for minute in (0, 7, 30, 55):
        at = end - 3597 * S + minute * 60 * S
        c = server.json("/api/v1/chart?" + urllib.parse.urlencode({"query": 'wall{service.name="hour.speedscope.json"}', "from": at, "to": at + 60 * S, "columns": 60}))
        assert c["threads"] and 14 * S <= c["threads"][0]["running"] <= 16 * S, (minute, c["threads"])


def test_what_has_no_times_has_none(server):
    _, c = chart_of(server, b"main;work 5\n", "stacks.folded", "samples")
    assert c["untimed"] and not c["threads"]
