# SPDX-License-Identifier: Apache-2.0
"""wick as Pyroscope, asked as its canary-exporter, profilecli and Profiles Drilldown ask: the calls are those of
cmd/profilecli/canary_exporter_probes.go, and the answers have to be what those probes check. test_canary runs the real one, which
tools/peers builds."""
import json
import re
import struct
import subprocess
import time
import urllib.parse

import pytest

from pyroscope_messages import CPU, M
from pyroscope_peer import PROFILECLI
from pyroscope_tools import hour, pprof, push, querier, querier_raw
from wick_tools import free_port, profiles_service, request, some, wait_for

OWN = "deadmans_switch:made_up:profilos:made_up:profilos"
OTLP = "otlp_test:otlp_test:count:otlp_test:samples"
SPAN = "00000bac2a5ab0c7"
WHO = '{service_name="pyroscope-canary-exporter", job="canary-exporter", instance="here"}'


def canary_otlp(now, method):
    """Its table of locations has no zero value: location 0 is func1."""
    r = profiles_service().ExportProfilesServiceRequest()
    d = r.dictionary
    d.string_table.extend(["", "otlp_test", "samples", "count", "func1", "func2"])
    d.mapping_table.add()
    for name in (0, 4, 5):
        d.function_table.add(name_strindex=name)
    d.location_table.add().lines.add(function_index=1)
    d.location_table.add().lines.add(function_index=2)
    d.stack_table.add()
    d.stack_table.add(location_indices=[1, 0])
    d.stack_table.add(location_indices=[0])
    rp = r.resource_profiles.add()
    for k, v in {"service.name": "pyroscope-canary-exporter", "job": "canary-exporter", "instance": "here", "ingestion_method": method}.items():
        rp.resource.attributes.add(key=k).value.string_value = v
    p = rp.scope_profiles.add().profiles.add(time_unix_nano=now, period=1)
    p.sample_type.type_strindex, p.sample_type.unit_strindex = 1, 3
    p.period_type.type_strindex, p.period_type.unit_strindex = 1, 2
    p.samples.add(stack_index=1, values=[10])
    p.samples.add(stack_index=2, values=[20])
    return r


def five_seconds(now):
    return {"start": str(now // 10**6), "end": str(now // 10**6 + 5000)}


def stacks(profile):
    text, names = profile["stringTable"], {}
    functions = {int(f["id"]): text[int(f["name"])] for f in profile["function"]}
    locations = {int(x["id"]): functions[int(x["line"][0]["functionId"])] for x in profile["location"]}
    for s in profile["sample"]:
        stack = ">".join(locations[int(i)] for i in s["locationId"])
        names[stack] = names.get(stack, 0) + int(s["value"][0])
    return names


def test_probes_of_the_canary(server):
    now = time.time_ns()
    push(server, pprof([("made_up", "profilos")], [("func2;func1", [10], {}), ("func1", [20], {"profile_id": SPAN})],
                       ("made_up", "profilos", 1), start=now),
         service_name="pyroscope-canary-exporter", job="canary-exporter", instance="here", __name__="deadmans_switch")
    from google.protobuf import json_format
    for body, kind in ((canary_otlp(now, "pb").SerializeToString(), "application/x-protobuf"),
                       (json_format.MessageToJson(canary_otlp(now, "json")).encode(), "application/json")):
        status, text = server.get("/v1development/profiles", data=body, headers={"Content-Type": kind})
        assert status == 200, text
    t = five_seconds(now)
    one = {"labelSelector": WHO, "profileTypeID": OWN, **t}
    assert stacks(querier(server, "SelectMergeProfile", **one)) == {"func1>func2": 10, "func1": 20}
    assert stacks(querier(server, "SelectMergeProfile", **{**one, "profileTypeID": OTLP})) == {"func2>func1": 20, "func1": 40}
    assert OWN in [x["ID"] for x in querier(server, "ProfileTypes", **t)["profileTypes"]]
    sets = querier(server, "Series", labelNames=["service_name", "__profile_type__"], **t)["labelsSet"]
    assert {"service_name": "pyroscope-canary-exporter", "__profile_type__": OWN} in [{p["name"]: p["value"] for p in s["labels"]} for s in sets]
    names = querier(server, "LabelNames", matchers=['{service_name="pyroscope-canary-exporter"}'], **t)["names"]
    assert {"__name__", "__period_type__", "__period_unit__", "__profile_type__", "__service_name__", "__type__", "__unit__",
            "service_name", "job", "instance"} <= set(names) and len(names) == len(set(names))
    assert querier(server, "LabelValues", name="service_name", matchers=['{service_name="pyroscope-canary-exporter"}'], **t)["names"] == [
        "pyroscope-canary-exporter"]
    series = querier(server, "SelectSeries", step=1000, groupBy=["service_name"], **one)["series"]
    assert len(series) == 1 and len(series[0]["points"]) == 1 and len(series[0]["labels"]) == 1
    flame = querier(server, "SelectMergeStacktraces", **one)["flamegraph"]
    assert len(flame["names"]) == 3 and len(flame["levels"]) == 3
    span = querier(server, "SelectMergeSpanProfile", spanSelector=[SPAN], **one)["flamegraph"]
    assert len(span["names"]) == 2 and len(span["levels"]) == 2
    assert querier(server, "GetProfileStats")["dataIngested"]
    q = urllib.parse.urlencode({"query": OWN + WHO, "from": t["start"], "until": t["end"]})
    bearer = server.json("/pyroscope/render?" + q)["flamebearer"]
    assert len(bearer["names"]) == 3 and len(bearer["levels"]) == 3
    q = urllib.parse.urlencode({"leftQuery": OWN + WHO, "leftFrom": t["start"], "leftUntil": t["end"], "rightQuery": OWN + WHO,
                                "rightFrom": t["start"], "rightUntil": t["end"]})
    bearer = server.json("/pyroscope/render-diff?" + q)["flamebearer"]
    assert len(bearer["names"]) == 3 and len(bearer["levels"]) == 3
    series = querier(server, "SelectSeries", step=5, exemplarType="EXEMPLAR_TYPE_INDIVIDUAL", **one)["series"]
    assert len(series) == 1 and len(series[0]["points"]) == 1
    exemplar, = series[0]["points"][0]["exemplars"]
    assert exemplar["value"] == "30" and re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", exemplar["profileId"])
    flame = querier(server, "SelectMergeStacktraces", profileIdSelector=[exemplar["profileId"]], **one)["flamegraph"]
    assert len(flame["names"]) == 3 and len(flame["levels"]) == 3


def shop(server):
    """Two services, three profiles, in known steps of 10 s."""
    start = (time.time_ns() // 10**10 - 3) * 10**10
    for service, at, value in (("shop", 1, 30), ("shop", 11, 50), ("bank", 1, 7)):
        assert server.send(request([(f"main;{service}", value, True), ("main;other", 1, False)], service, start + at * 10**9))[0] == 200
    return start


def test_series_as_pyroscope(server):
    start = shop(server)
    t = {"start": str(start // 10**6), "end": str(start // 10**6 + 20_000)}
    ask = {"profileTypeID": CPU, "labelSelector": "{}", "step": 10, **t}
    points = querier(server, "SelectSeries", **ask)["series"][0]["points"]
    assert [(int(p["timestamp"]) - start // 10**6, p["value"]) for p in points] == [(10_000, 39), (20_000, 51)]  # the end of the step
    largest, = querier(server, "SelectSeries", groupBy=["service_name"], limit="1", **ask)["series"]
    assert largest["labels"] == [{"name": "service_name", "value": "shop"}]
    mean = querier(server, "SelectSeries", aggregation="TIME_SERIES_AGGREGATION_TYPE_AVERAGE", **ask)["series"][0]["points"]
    assert [p["value"] for p in mean] == [19.5, 51]
    status, body = querier_raw(server, "SelectSeries", exemplarType="EXEMPLAR_TYPE_SPAN", **ask)
    assert status == 501 and json.loads(body)["code"] == "unimplemented" and "spans" in json.loads(body)["message"]


def test_selectors_and_formats(server):
    shop(server)
    ask = {"profileTypeID": CPU, "labelSelector": "{}", **hour()}
    trace, span = bytes(range(1, 17)).hex(), bytes(range(1, 9)).hex()
    total = lambda **f: int(querier(server, "SelectMergeStacktraces", **ask, **f)["flamegraph"]["total"])  # noqa: E731
    assert total() == 90 and total(spanSelector=[span]) == 87 and total(traceIdSelector=[trace]) == 87
    assert total(traceIdSelector=["0" * 31 + "1"]) == 0
    assert total(stackTraceSelector={"callSite": [{"name": "main"}, {"name": "shop"}]}) == 80
    assert stacks(querier(server, "SelectMergeStacktraces", format="PROFILE_FORMAT_PPROF", **ask)["pprof"]["profile"]) == {
        "shop>main": 80, "bank>main": 7, "other>main": 3}
    dot = querier(server, "SelectMergeStacktraces", format="PROFILE_FORMAT_DOT", **ask)["dot"]
    assert dot.startswith("digraph") and "shop" in dot
    status, text = server.get("/pyroscope/render?format=dot&" + urllib.parse.urlencode({"query": CPU + "{}", "from": "now-1h"}))
    assert status == 200 and text.startswith(b"digraph")
    tree = __import__("base64").b64decode(querier(server, "SelectMergeStacktraces", format="PROFILE_FORMAT_TREE", **ask)["tree"])
    assert tree[:3] == b"\x00\x00\x01" and tree[3:8] == b"\x04main"  # a root without a name with one child
    names = querier(server, "LabelValues", name="service_name", matchers=['{service_name="shop"}', '{service_name="bank"}'], **hour())
    assert names["names"] == ["bank", "shop"]


def test_other_services(server):
    def call(method, **fields):
        return server.get("/" + method, data=json.dumps(fields).encode(), headers={"Content-Type": "application/json"})

    assert json.loads(call("settings.v1.SettingsService/Get")[1]) == {"settings": []}
    assert call("settings.v1.SettingsService/Set", setting={"name": "pluginSettings", "value": "{}"})[0] == 200
    setting, = json.loads(call("settings.v1.SettingsService/Get")[1])["settings"]
    assert (setting["name"], setting["value"]) == ("pluginSettings", "{}")
    assert call("settings.v1.SettingsService/Delete", name="pluginSettings")[0] == 200
    assert json.loads(call("settings.v1.RecordingRulesService/ListRecordingRules")[1]) == {"rules": []}
    assert json.loads(call("capabilities.v1.FeatureFlagsService/GetFeatureFlags")[1]) == {"featureFlags": []}
    assert json.loads(call("querier.v1.QuerierService/AnalyzeQuery", query=CPU + "{}")[1])["queryImpact"]["deduplicationNeeded"] is False
    for method in ("vcs.v1.VCSService/GithubApp", "adhocprofiles.v1.AdHocProfileService/Nonsense", "querier.v1.QuerierService/Nonsense"):
        status, body = call(method)
        assert status == 501 and json.loads(body)["code"] == "unimplemented" and method in json.loads(body)["message"]
    assert server.get("/ready")[0] == 200 and server.get("/explore")[0] == 200
    assert server.get("/config")[0] == 404 and server.get("/nonsense")[0] == 404


def test_grpc_and_grpc_web(server):
    shop(server)
    grpc = pytest.importorskip("grpc")
    t = hour()
    ask = M["SelectRequest"](profile_typeID=CPU, label_selector="{}", start=int(t["start"]), end=int(t["end"]))
    with grpc.insecure_channel(server.url.removeprefix("http://").rstrip("/")) as channel:
        method = channel.unary_unary("/querier.v1.QuerierService/SelectMergeStacktraces", M["SelectRequest"].SerializeToString, M["Flame"].FromString)
        assert method(ask, timeout=30).flamegraph.total == 90
        with pytest.raises(grpc.RpcError) as failed:
            method(M["SelectRequest"](profile_typeID=CPU, label_selector="{a="), timeout=30)
        assert failed.value.code() == grpc.StatusCode.INVALID_ARGUMENT and "selector" in failed.value.details()
    body = ask.SerializeToString()
    status, answer = server.get("/querier.v1.QuerierService/SelectMergeStacktraces", data=b"\0" + struct.pack(">I", len(body)) + body,
                                headers={"Content-Type": "application/grpc-web+proto"})
    size = struct.unpack(">I", answer[1:5])[0]
    assert status == 200 and M["Flame"].FromString(answer[5:5 + size]).flamegraph.total == 90
    assert answer[5 + size] == 0x80 and b"grpc-status:0" in answer[5 + size:]


@pytest.mark.slow
def test_canary(server):
    """Pyroscope's own: profilecli canary-exporter with all probes."""
    if not PROFILECLI:
        pytest.skip("tools/peers has not built profilecli")
    port = free_port()
    p = subprocess.Popen([PROFILECLI, "canary-exporter", "--url", server.url.rstrip("/"), "--query-probe-set", "all", "--listen-address",
                          f"127.0.0.1:{port}", "--test-delay", "1s", "--test-frequency", "1h"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        def result():
            try:
                return re.findall(r'probe_success{name="([^"]+)"} (\d)', server.get("/metrics", base=f"http://127.0.0.1:{port}")[1].decode())
            except OSError:
                return []
        probes = wait_for(lambda: len(found := result()) == 16 and found)
        assert all(ok == "1" for _, ok in some(probes)), probes
    finally:
        p.kill()
        p.communicate()
