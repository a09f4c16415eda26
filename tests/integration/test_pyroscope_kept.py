# SPDX-License-Identifier: Apache-2.0
"""What Pyroscope's clients keep on the server, settings and uploaded profiles, for two tenants and across a restart; and the queries
that profilecli makes besides Grafana's: counts of samples, gauges in every format, call sites, Go's PGO, heat maps of spans. The truth is
what was sent."""
import base64
import json
import time
import urllib.parse

import pytest

from pyroscope_messages import CPU
from pyroscope_tools import pprof, push, querier, querier_raw
from wick_tools import Server, request, some, token_of, tokens_of, wait_for

COUNT = "process_cpu:samples:count:cpu:nanoseconds"
GO = [("samples", "count"), ("cpu", "nanoseconds")]
ADHOC = "adhocprofiles.v1.AdHocProfileService/"


def call(server, method, token=None, **fields):
    status, body = server.get("/" + method, token=token, data=json.dumps(fields).encode(), headers={"Content-Type": "application/json"})
    return status, json.loads(body)


def upload(server, token, name, samples):
    return call(server, ADHOC + "Upload", token, name=name, profile=base64.b64encode(pprof(GO, samples, ("cpu", "nanoseconds", 10))).decode())


@pytest.mark.parametrize("engine", ["segment", "memory"])
def test_settings_and_uploads_are_kept(tmp_path, engine):
    one, two = tokens_of(tmp_path)
    server = Server(tmp_path, "--set", f"store.engine={engine}")
    try:
        for token, value in ((one, '{"a":1}'), (two, "2")):
            status, answer = call(server, "settings.v1.SettingsService/Set", token, setting={"name": "pluginSettings", "value": value})
            assert status == 200 and answer["setting"]["value"] == value and int(answer["setting"]["modifiedAt"]) > 1e12
        call(server, "settings.v1.SettingsService/Set", one, setting={"name": "other", "value": "x"})
        assert call(server, "settings.v1.SettingsService/Delete", one, name="other")[0] == 200
        assert call(server, "settings.v1.SettingsService/Delete", one, name="other")[0] == 404
        status, first = upload(server, one, "cpu profile.pb", [("main;a", [1, 10], {}), ("main;b", [2, 20], {})])
        assert status == 200 and first["name"] == "cpu_profile.pb" and first["profileTypes"] == ["samples", "cpu"], first
        status, second = upload(server, one, "later.pb", [("main;a", [5, 50], {})])
        assert status == 200 and second["id"] > first["id"]
        if engine == "segment":
            server.stop()
            server.start()
        for token, value in ((one, '{"a":1}'), (two, "2")):
            assert [s["value"] for s in call(server, "settings.v1.SettingsService/Get", token)[1]["settings"]] == [value]
        assert [p["id"] for p in call(server, ADHOC + "List", one)[1]["profiles"]] == [second["id"], first["id"]]
        assert call(server, ADHOC + "List", two)[1] == {"profiles": []} and call(server, ADHOC + "Get", two, id=first["id"])[0] == 404
        got = call(server, ADHOC + "Get", one, id=first["id"], profileType="cpu")[1]
        flame = json.loads(got["flamebearerProfile"])
        assert flame["flamebearer"]["numTicks"] == 30 and set(flame["flamebearer"]["names"]) == {"total", "main", "a", "b"}
        assert flame["metadata"] == {"format": "single", "spyName": "", "sampleRate": 10**9, "units": "samples", "name": "cpu"}
        assert got["uploadedAt"] == first["uploadedAt"] and got["profileType"] == "cpu"
        diff = call(server, ADHOC + "Diff", one, leftId=first["id"], rightId=second["id"], profileType="cpu")[1]
        flame = json.loads(diff["flamebearerProfile"])
        assert (flame["leftTicks"], flame["rightTicks"], flame["metadata"]["format"]) == (30, 50, "double")
        assert diff["profileTypes"] == ["samples", "cpu"]
    finally:
        server.stop()


def test_uploads_that_are_refused(server):
    good = base64.b64encode(pprof(GO, [("a", [1, 10], {})])).decode()
    for fields, status in (({"name": "x", "profile": "!"}, 400), ({"name": "x", "profile": base64.b64encode(b"nonsense").decode()}, 400), ({"name": "x"}, 400)):
        assert call(server, ADHOC + "Upload", **fields)[0] == status
    assert call(server, ADHOC + "Get", id="../../tokens")[0] == 400 and call(server, ADHOC + "Get", id="")[0] == 400
    read = token_of(server, "read")
    wait_for(lambda: call(server, ADHOC + "Upload", None, name="x", profile=good)[0] == 401)  # once there is a token
    status, answer = call(server, ADHOC + "Upload", read, name="x", profile=good)
    assert status == 403 and "scope write" in answer["message"]
    assert call(server, "settings.v1.SettingsService/Set", read, setting={"name": "a", "value": "b"})[0] == 403


def total(server, type_id, **fields):
    return int(querier(server, "SelectMergeStacktraces", profileTypeID=type_id, labelSelector="{}", **fields)["flamegraph"]["total"])


def merged(server, type_id, method="SelectMergeProfile", **fields):
    """The types of a merged profile, and its stacks, leaf first."""
    p = querier(server, method, profileTypeID=type_id, labelSelector="{}", **fields)
    p = p["pprof"]["profile"] if "pprof" in p else p
    text = p["stringTable"]
    functions = {int(f["id"]): text[int(f["name"])] for f in p["function"]}
    locations = {int(x["id"]): functions[int(x["line"][0]["functionId"])] for x in p["location"]}
    out = {}
    for s in some(p["sample"]):
        assert len(s["value"]) == 1
        stack = ">".join(locations[int(i)] for i in s["locationId"])
        out[stack] = out.get(stack, 0) + int(s["value"][0])
    return [(text[int(t["type"])], text[int(t["unit"])]) for t in p["sampleType"]], out


def test_counts_of_samples(server):
    """Go's CPU profile has counts and time at 100 Hz; another sender has only time, at 50 Hz."""
    push(server, pprof(GO, [("main;a", [3, 30_000_000], {}), ("main;b", [1, 10_000_000], {})], ("cpu", "nanoseconds", 10_000_000)),
         service_name="go", __name__="process_cpu")
    only_go = '{service_name="go"}'
    assert int(querier(server, "SelectMergeStacktraces", profileTypeID=COUNT, labelSelector=only_go)["flamegraph"]["total"]) == 4
    r = request([("main;c", 40_000_000, False)], "other")
    p = r.resource_profiles[0].scope_profiles[0].profiles[0]
    p.period = 20_000_000
    p.period_type.type_strindex, p.period_type.unit_strindex = p.sample_type.type_strindex, p.sample_type.unit_strindex
    assert server.send(r)[0] == 200
    assert (total(server, CPU), total(server, COUNT)) == (80_000_000, 6)
    points = [p["value"] for s in querier(server, "SelectSeries", profileTypeID=COUNT, labelSelector="{}", step=3600)["series"] for p in s["points"]]
    assert sum(points) == 6
    bearer = server.json("/pyroscope/render?" + urllib.parse.urlencode({"query": COUNT + "{}", "from": "now-1h"}))
    assert bearer["flamebearer"]["numTicks"] == 6 and bearer["metadata"]["units"] == "objects" and bearer["metadata"]["name"] == "samples"
    for method in ("SelectMergeProfile", "SelectMergeStacktraces"):
        assert merged(server, COUNT, method, format="PROFILE_FORMAT_PPROF") == ([("samples", "count")], {"a>main": 3, "b>main": 1, "c>main": 2})
        assert merged(server, CPU, method, format="PROFILE_FORMAT_PPROF") == (
            [("cpu", "nanoseconds")], {"a>main": 30_000_000, "b>main": 10_000_000, "c>main": 40_000_000})


def test_gauges_by_one_rule(server):
    """Two snapshots of one process and one of another: averages of each, added up, whichever question is asked."""
    now = time.time_ns() - 60 * 10**9
    heap = "memory:inuse_space:bytes:space:bytes"
    for service, at, value in (("one", 0, 100), ("one", 10, 300), ("two", 0, 50)):
        push(server, pprof([("inuse_objects", "count"), ("inuse_space", "bytes")], [("main;keep", [1, value], {})], ("space", "bytes", 524288),
                           start=now + at * 10**9), service_name=service, __name__="memory")
    want = 250
    assert total(server, heap) == want
    assert merged(server, heap) == ([("inuse_space", "bytes")], {"keep>main": want})
    assert merged(server, heap, "SelectMergeStacktraces", format="PROFILE_FORMAT_PPROF")[1] == {"keep>main": want}
    tree = base64.b64decode(querier(server, "SelectMergeStacktraces", profileTypeID=heap, labelSelector="{}", format="PROFILE_FORMAT_TREE")["tree"])
    assert b"\x04keep\xfa\x01" in tree  # 250 as a varint
    assert "keep" in (dot := querier(server, "SelectMergeStacktraces", profileTypeID=heap, labelSelector="{}", format="PROFILE_FORMAT_DOT")["dot"])
    assert "250B" in dot
    bearer = server.json("/pyroscope/render?" + urllib.parse.urlencode({"query": heap + "{}", "from": "now-1h"}))
    assert bearer["flamebearer"]["numTicks"] == want and sum(bearer["timeline"]["samples"]) and bearer["metadata"]["name"] == "inuse_space"
    assert server.json("/api/v1/top?query=heap")["total"] == want
    series = querier(server, "SelectSeries", profileTypeID=heap, labelSelector="{}", step=3600)["series"]
    assert max(p["value"] for s in series for p in s["points"]) == want


def test_call_sites_and_pgo(server):
    push(server, pprof(GO, [("main;a;x;y;z", [1, 10], {}), ("main;b;x;y;z", [2, 20], {})], ("cpu", "nanoseconds", 10)), service_name="go")
    site = {"stackTraceSelector": {"callSite": [{"name": "main"}, {"name": "b"}]}}
    assert merged(server, CPU, "SelectMergeStacktraces", format="PROFILE_FORMAT_PPROF", **site)[1] == {"z>y>x>b>main": 20}
    assert merged(server, CPU, **site)[1] == {"z>y>x>b>main": 20} and total(server, CPU, **site) == 20
    pgo = {"stackTraceSelector": {"goPgo": {"keepLocations": 2, "aggregateCallees": True}}}
    assert merged(server, CPU, **pgo)[1] == {"z>y": 30}
    answer = querier(server, "SelectMergeProfile", profileTypeID=CPU, labelSelector="{}", **pgo)
    assert sorted(int(x["line"][0].get("line", 0)) for x in answer["location"]) == [0, 1]  # the leaf has no line
    status, body = querier_raw(server, "SelectMergeStacktraces", profileTypeID=CPU, labelSelector="{}", async_="x", **{"async": {"type": "ASYNC_QUERY_TYPE_FORCE"}})
    assert status == 501 and "async" in json.loads(body)["message"]


def test_heat_maps(server):
    """Slots end at their time, empty ones are left out; exemplars name the profile or the span."""
    start = (time.time_ns() // 10**10 - 3) * 10**10
    for service, at, value in (("shop", 1, 30), ("shop", 11, 50), ("bank", 1, 7)):
        assert server.send(request([(f"main;{service}", value, True), ("main;other", 1, False)], service, start + at * 10**9))[0] == 200
    t = {"start": str(start // 10**6), "end": str(start // 10**6 + 20_000)}
    ask = {"profileTypeID": CPU, "labelSelector": "{}", "step": 10, **t}
    slots = querier(server, "SelectHeatmap", **ask)["series"][0]["slots"]
    assert [(int(s["timestamp"]) - start // 10**6, sum(s["counts"])) for s in slots] == [(10_000, 2), (20_000, 1)]
    assert slots[0]["yMin"][0] == 8 and len(slots[0]["yMin"]) == 20 and slots[1]["counts"][19] == 1
    by = querier(server, "SelectHeatmap", groupBy=["service_name"], exemplarType="EXEMPLAR_TYPE_INDIVIDUAL", **ask)["series"]
    got = {s["labels"][0]["value"]: [int(e["value"]) for slot in s["slots"] for e in slot["exemplars"]] for s in by}
    assert got == {"shop": [31, 51], "bank": [8]}
    profile = by[0]["slots"][0]["exemplars"][0]["profileId"]
    assert total(server, CPU, profileIdSelector=[profile]) in (31, 8)
    spans = querier(server, "SelectHeatmap", queryType="HEATMAP_QUERY_TYPE_SPAN", exemplarType="EXEMPLAR_TYPE_SPAN", **ask)["series"]
    exemplars = [e for s in spans for slot in s["slots"] for e in slot["exemplars"]]
    assert [(e["spanId"], e["traceId"], e["value"]) for e in exemplars] == [
        (bytes(range(1, 9)).hex(), bytes(range(1, 17)).hex(), value) for value in ("37", "50")]  # in each step
