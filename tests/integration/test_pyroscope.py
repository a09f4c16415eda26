# SPDX-License-Identifier: Apache-2.0
"""wick serve as Pyroscope: its clients push, Grafana's data source asks.

Grafana's requests are what pkg/tsdb/grafana-pyroscope-datasource makes (its Connect client with protobuf) and what
Profiles Drilldown's page sends (Connect with JSON); answers are read with descriptors of the same messages, written out
below, by Python's protobuf."""
import gzip
import json
import subprocess
import sys
import time
import urllib.parse

import pytest

import file_oracles
from wick_tools import ROOT, SHOP, SPAN, request, wait_for
from pyroscope_messages import CPU, M, pprof

def connect(server, method, message, answer):
    """As connect-go calls: POST, protobuf, gzip both ways."""
    status, body = server.get("/querier.v1.QuerierService/" + method, data=gzip.compress(message.SerializeToString()), headers={
        "Content-Type": "application/proto", "Content-Encoding": "gzip", "Connect-Protocol-Version": "1", "User-Agent": "connect-go/1.16.2"})
    assert status == 200, body
    return M[answer].FromString(body)


def drilldown(server, method, **fields):
    """As the page calls: Connect with JSON."""
    return server.json("/querier.v1.QuerierService/" + method, data=json.dumps(fields).encode(),
                       headers={"Content-Type": "application/json"})


def hour():
    now = int(time.time() * 1000)
    return {"start": now - 3600_000, "end": now + 1000}


def test_grafana_data_source(server):
    server.send(request(SHOP))
    t, shop = hour(), '{service_name="shop"}'
    types = connect(server, "ProfileTypes", M["ProfileTypesRequest"](**t), "ProfileTypesResponse").profile_types
    assert [x.ID for x in types] == [CPU, "process_cpu:samples:count:cpu:nanoseconds"] and types[0].sample_type == "cpu"
    names = connect(server, "LabelNames", M["LabelNamesRequest"](matchers=[""], **t), "Names").names
    assert "service_name" in names
    assert connect(server, "LabelValues", M["LabelValuesRequest"](name="service_name", matchers=["{}"], **t), "Names").names == ["shop"]
    flame = connect(server, "SelectMergeStacktraces", M["SelectRequest"](profile_typeID=CPU, label_selector=shop, max_nodes=16384, **t),
                    "Flame").flamegraph
    assert flame.total == 42 and list(flame.levels[0].values) == [0, 42, 0, 0]
    assert flame.max_self == 30 and {"main", "checkout", "encode", "sort", "idle"} <= set(flame.names)
    span = connect(server, "SelectMergeSpanProfile", M["SpanRequest"](profile_typeID=CPU, label_selector=shop, span_selector=[SPAN.hex()], **t),
                   "Flame").flamegraph
    assert span.total == 30
    series = connect(server, "SelectSeries", M["SelectSeriesRequest"](profile_typeID=CPU, label_selector=shop, group_by=["service_name"],
                                                                    step=15, **t), "SelectSeriesResponse").series
    assert [(p.name, p.value) for p in series[0].labels] == [("service_name", "shop")]
    assert sum(p.value for p in series[0].points) == 42
    stats = connect(server, "GetProfileStats", M["ProfileTypesRequest"](), "StatsResponse")
    assert stats.data_ingested and t["start"] < stats.newest_profile_time < t["end"]
    nothing = connect(server, "SelectMergeStacktraces", M["SelectRequest"](profile_typeID=CPU, label_selector='{service_name="none"}', **t), "Flame")
    assert nothing.flamegraph.total == 0


def test_drilldown_page(server):
    server.send(request(SHOP))
    t = {k: str(v) for k, v in hour().items()}  # 64-bit numbers may come as strings
    labels = drilldown(server, "Series", matchers=[], labelNames=["service_name", "__profile_type__"], **t)["labelsSet"]
    assert {p["name"]: p["value"] for p in labels[0]["labels"]} == {"service_name": "shop", "__profile_type__": CPU}
    series = drilldown(server, "SelectSeries", profileTypeID=CPU, labelSelector="{}", groupBy=["service_name"], step=15, **t)["series"]
    assert sum(p.get("value", 0) for p in series[0]["points"]) == 42
    left = {"profileTypeID": CPU, "labelSelector": "{}", **t}
    diff = drilldown(server, "Diff", left=left, right=left)["flamegraph"]
    assert diff["leftTicks"] == diff["rightTicks"] == "42"
    heat = drilldown(server, "SelectHeatmap", profileTypeID=CPU, labelSelector="{}", step=60, **t)["series"]
    assert sum(sum(s.get("counts", [])) for s in heat[0]["slots"]) == 1
    profile = drilldown(server, "SelectMergeProfile", profileTypeID=CPU, labelSelector="{}", **t)
    text = profile["stringTable"]
    assert sorted(int(s["value"][0]) for s in profile["sample"]) == [2, 10, 30]
    assert (text[int(profile["sampleType"][0]["type"])], text[int(profile["sampleType"][0]["unit"])]) == ("cpu", "nanoseconds")
    assert {text[int(f["name"])] for f in profile["function"]} == {"main", "checkout", "encode", "sort", "idle"}
    status, body = server.get("/querier.v1.QuerierService/SelectSeries", data=b'{"profileTypeID":"x","labelSelector":"{a="}',
                              headers={"Content-Type": "application/json"})
    assert status == 400 and json.loads(body)["code"] == "invalid_argument"


def test_render(server):
    server.send(request(SHOP, "shop", time.time_ns() - 60 * 10**9))  # the step that has not ended is not in a timeline
    q = urllib.parse.quote(CPU + '{service_name="shop"}')
    answer = server.json(f"/pyroscope/render?query={q}&from=now-1h&until=now&format=json&groupBy=service_name")
    bearer = answer["flamebearer"]
    assert answer["version"] == 1 and bearer["numTicks"] == 42 and bearer["levels"][0] == [0, 42, 0, 0]
    assert answer["metadata"]["units"] == "samples" and answer["metadata"]["sampleRate"] == 10**9
    assert sum(answer["timeline"]["samples"]) == 42 == sum(answer["groups"]["shop"]["samples"])
    assert answer["timeline"]["durationDelta"] == 15
    diff = server.json(f"/pyroscope/render-diff?leftQuery={q}&leftFrom=now-2h&leftUntil=now-1h&rightQuery={q}&rightFrom=now-1h&rightUntil=now")
    assert (diff["leftTicks"], diff["rightTicks"], diff["metadata"]["format"]) == (0, 42, "double")
    assert len(diff["flamebearer"]["levels"][0]) == 7
    assert server.json("/pyroscope/label-values?label=service_name") == ["shop"]
    assert server.json("/pyroscope/label-values?label=__name__") == [CPU, "process_cpu:samples:count:cpu:nanoseconds"]
    assert "service_name" in server.json("/pyroscope/labels")
    assert server.get("/pyroscope/render?from=now-1h")[0] == 400
    assert server.get(f"/pyroscope/render?query={q}&from=yesterday-ish")[0] == 400


def total(server, service, path="/api/v1/top", query="cpu"):
    return server.json(f"{path}?query=" + urllib.parse.quote(f'{query}{{service.name="{service}"}}'))["total"]


def test_push(server):
    message = M["PushRequest"]()
    s = message.series.add()
    for name, value in [("service_name", "pushed"), ("__name__", "process_cpu"), ("region", "eu")]:
        s.labels.add(name=name, value=value)
    s.samples.add(raw_profile=pprof([("a;b", 5), ("a;c", 7)]))
    path = "/push.v1.PusherService/Push"
    status, body = server.get(path, data=message.SerializeToString(), headers={"Content-Type": "application/proto"})
    assert status == 200, body
    assert total(server, "pushed") == 12
    body = {"series": [{"labels": [{"name": "service_name", "value": "json"}],
                        "samples": [{"rawProfile": __import__("base64").b64encode(pprof([("x", 3)])).decode()}]}]}
    assert server.get(path, data=json.dumps(body).encode(), headers={"Content-Type": "application/json"}) == (200, b"{}")
    assert total(server, "json") == 3
    status, body = server.get(path, data=b"\xff\xff", headers={"Content-Type": "application/proto"})
    assert status == 400 and json.loads(body)["code"] == "invalid_argument"


def test_ingest(server):
    now = int(time.time())
    folded = b"main;work 10\nmain;idle 2\n"
    status, body = server.get(f"/ingest?name=old.cpu{{region=eu}}&from={now - 10}&until={now}&sampleRate=100&format=folded", data=folded)
    assert status == 200, body
    assert total(server, "old") == 12 * 10_000_000
    status, body = server.get(f"/ingest?name=raw&from={now - 10}&until={now}&format=pprof", data=pprof([("p;q", 9)]))
    assert status == 200, body
    assert total(server, "raw") == 9
    status, body = server.get(f"/ingest?name=java&from={now - 10}&until={now}&format=jfr", data=b"FLR\0")
    assert status == 400 and b"no chunk at byte 0" in body
    status, body = server.get(f"/ingest?name=trie&from={now - 10}&until={now}&format=trie", data=b"x")
    assert status == 415 and b"'trie' is not supported" in body


def snapshot(contexts):
    """LabelsSnapshot of Pyroscope's Java agent: {context: {label: value}}."""
    def field(number, payload):
        return (bytes([number << 3, payload]) if isinstance(payload, int) else bytes([number << 3 | 2, len(payload)]) + payload)

    strings = sorted({s for labels in contexts.values() for pair in labels.items() for s in pair})
    ids = {s: i + 1 for i, s in enumerate(strings)}
    out = b""
    for number, labels in contexts.items():
        context = b"".join(field(1, field(1, ids[k]) + field(2, ids[v])) for k, v in labels.items())
        out += field(1, field(1, number) + field(2, context))
    return out + b"".join(field(2, field(1, i) + field(2, s.encode())) for s, i in ids.items())


def form(fields):
    boundary = "------------------------d74496d66958873e"
    body = b"".join(f'--{boundary}\r\nContent-Disposition: form-data; name="{k}"; filename="{k}"\r\n'
                    f"Content-Type: application/octet-stream\r\n\r\n".encode() + v + b"\r\n" for k, v in fields.items())
    return body + f"--{boundary}--\r\n".encode(), f"multipart/form-data; boundary={boundary}"


def test_ingest_jfr(server):
    """Two Java services as Pyroscope's Java agent sends them: gzip in a form, with labels; and the plain body. The recording
    was made at 5 ms; the agent's sampleRate of 100 Hz counts."""
    data = (ROOT / "tests/data/files/async-profiler-4.5.jfr.gz").read_bytes()
    want = file_oracles.load(ROOT / "tests/data/files/async-profiler-4.5.jfr.expected.json.gz")
    now = int(time.time())
    body, kind = form({"jfr": data, "labels": gzip.compress(snapshot({0: {"vehicle": "bike"}}))})
    where = f"from={now - 10}&until={now}&spyName=javaspy&format=jfr"
    status, answer = server.get(f"/ingest?name=rides{{region=eu}}&sampleRate=100&{where}", data=body, headers={"Content-Type": kind})
    assert status == 200, answer
    status, answer = server.get(f"/ingest?name=plain.java&{where}", data=gzip.decompress(data))
    assert status == 200, answer
    cpu = sum(want["cpu"].values())
    assert total(server, "rides") == 2 * cpu and total(server, "plain.java") == cpu
    assert total(server, "rides", query="wall") == sum(want["wall"].values()) // 2
    assert total(server, "plain.java", query="alloc") == sum(want["alloc_in_new_tlab_bytes"].values())
    status, answer = server.get(f"/ingest?name=bad&{where}", data=form({"jfr": data[:100]})[0], headers={"Content-Type": kind})
    assert status == 400, answer


PROGRAM = """
import sys, time, pyroscope
pyroscope.configure(application_name="py-client", server_address=sys.argv[1], sample_rate=100, tags={"region": "eu"},
                    basic_auth_username="any", basic_auth_password=sys.argv[2])
def burn_python(until):
    x = 0
    while time.time() < until:
        x = (x * 31 + 7) % 1000003
    return x
burn_python(time.time() + 12)
pyroscope.shutdown()
"""


@pytest.mark.slow
def test_pyroscope_io(server, tmp_path):
    """The Python client of Pyroscope, as its users run it; it uploads every ten seconds."""
    pytest.importorskip("pyroscope")
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    token = subprocess.run([server.wick, "token", "create", "--file", str(server.dir / "tokens"), "--scope", "admin", "--tenant", "py"],
                           capture_output=True, text=True, check=True).stdout.strip()
    p = subprocess.run([sys.executable, str(program), server.url, token], capture_output=True, text=True, timeout=60)
    assert p.returncode == 0, p.stderr

    def top(query):
        return server.json("/api/v1/top?query=" + urllib.parse.quote(query), token=token)

    wait_for(lambda: top('cpu{service.name="py-client"}')["total"], why=lambda: (server.dir / "log").read_text())
    rows = top('cpu{service.name="py-client",region="eu"}')["rows"]
    burn = next(r for r in rows if "burn_python" in r["name"])
    assert burn["total"] > 3e9, rows[:5]  # of twelve seconds on a machine that may be busy
