# SPDX-License-Identifier: Apache-2.0
"""Labels: any attribute of a resource, a profile or a sample is listed, filtered and grouped by, in every spelling, in wick's API, in
Pyroscope's and over MCP; what no profile has is an error. The truth is what was sent."""
import json
import time
import urllib.parse

import pytest

from engine_places import place_of
from pyroscope_messages import CPU
from wick_tools import Server, profiles_service, request, tokens_of

NAMES = {"service.name", "k8s.pod.name", "team", "profile.kind", "thread.name"}


def tagged(service, pod, threads, team="blue", start=None):
    """One profile; threads is {name or None: value}."""
    r = request([("main;work", v, False) for v in threads.values()], service, start)
    d, rp = r.dictionary, r.resource_profiles[0]
    rp.resource.attributes.add(key="k8s.pod.name").value.string_value = pod
    rp.resource.attributes.add(key="team").value.string_value = team

    def attribute(key, value):
        d.string_table.append(key)
        d.attribute_table.add(key_strindex=len(d.string_table) - 1).value.string_value = value
        return len(d.attribute_table) - 1

    profile = rp.scope_profiles[0].profiles[0]
    profile.attribute_indices.append(attribute("profile.kind", "warm"))
    for sample, thread in zip(profile.samples, threads):
        if thread:
            sample.attribute_indices.append(attribute("thread.name", thread))
    return r


def send_all(server, token=None):
    start = time.time_ns() - 20_000_000_000
    for k, r in enumerate([tagged("shop", "shop-1", {"io": 3, "cpu": 5, None: 7}), tagged("shop", "shop-2", {"io": 11}, "red"),
                           tagged("bank", "bank-1", {"gc": 13})]):
        r.resource_profiles[0].scope_profiles[0].profiles[0].time_unix_nano = start + k
        assert server.send(r, token)[0] == 200


def groups(server, by, query="cpu"):
    answer = server.json("/api/v1/series?" + urllib.parse.urlencode({"query": query, "group_by": by}))
    return {next(iter(s["labels"].values()), ""): sum(s["values"]) for s in answer["series"]}


def hour():
    now = int(time.time() * 1000)
    return {"start": str(now - 3600_000), "end": str(now + 1000)}


def querier(server, method, **fields):
    return server.get("/querier.v1.QuerierService/" + method, data=json.dumps({**hour(), **fields}).encode(),
                      headers={"Content-Type": "application/json"})


@pytest.mark.parametrize("engine", ["segment", "memory", pytest.param("clickhouse", marks=pytest.mark.slow)])
def test_any_attribute(tmp_path, engine):
    """The engine clickhouse chooses no labels by cardinality: it reads them from detail, with the same answers."""
    profiles_service()
    with place_of(engine, tmp_path) as options:
        check_any_attribute(Server(tmp_path, *options), {"team", "k8s.pod.name"} if engine != "clickhouse" else set())


def check_any_attribute(server, chosen):
    try:
        send_all(server)
        assert NAMES <= set(server.json("/api/v1/labels"))
        slow = {name for name, is_slow in marked(server).items() if is_slow}
        assert slow & NAMES == NAMES - {"service.name"} - chosen
        assert set(server.json("/api/v1/labels?attributes=false")) == {"service.name"} | chosen
        for spelling in ("k8s.pod.name", "k8s_pod_name"):
            assert server.json(f"/api/v1/labels/{spelling}/values") == ["bank-1", "shop-1", "shop-2"]
        assert server.json("/api/v1/labels/thread_name/values?query=" + urllib.parse.quote('cpu{team="red"}')) == ["io"]
        assert "profile.kind" in server.json("/api/v1/labels?query=" + urllib.parse.quote('{thread.name="gc"}'))
        assert groups(server, "thread_name") == {"io": 14, "cpu": 5, "gc": 13, "": 7}
        assert groups(server, "team") == {"blue": 28, "red": 11} and groups(server, "profile_kind") == {"warm": 39}
        assert groups(server, "team", 'cpu{thread.name="io"}') == {"blue": 3, "red": 11}
        assert groups(server, "host.name") == {"": 39}  # a label of series that nothing has
        status, body = server.get("/api/v1/series?query=cpu&group_by=nonsense")
        assert status == 400 and b"no profile of the selection has an attribute 'nonsense'" in body
    finally:
        server.stop()


def test_pyroscope_and_mcp(server):
    send_all(server)
    names = json.loads(querier(server, "LabelNames", matchers=["{}"])[1])["names"]
    assert {"service_name", "k8s_pod_name", "team", "thread_name"} <= set(names) and len(names) == len(set(names))
    assert json.loads(querier(server, "LabelValues", name="thread_name", matchers=['{service_name="shop"}'])[1])["names"] == ["cpu", "io"]
    status, body = querier(server, "SelectSeries", profileTypeID=CPU, labelSelector='{service_name="shop"}', groupBy=["team"], step=3600)
    series = {s["labels"][0]["value"]: sum(p["value"] for p in s["points"]) for s in json.loads(body)["series"]}
    assert status == 200 and series == {"blue": 15, "red": 11}
    assert json.loads(querier(server, "SelectSeries", profileTypeID=CPU, groupBy=["nonsense"], step=60)[1])["code"] == "invalid_argument"
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "labels", "arguments": {"label": "team"}}}
    answer = server.json("/mcp", data=json.dumps(call).encode(), headers={"Content-Type": "application/json"})
    assert "blue" in answer["result"]["content"][0]["text"] and not answer["result"]["isError"]


def test_labels_of_the_configuration(tmp_path):
    profiles_service()
    (tmp_path / "wick.yaml").write_text("store:\n  labels: [team, k8s_pod_name]\nretention:\n  detail: 1s\n")
    server = Server(tmp_path, "--config", str(tmp_path / "wick.yaml"))
    try:
        send_all(server)
        marked = {x["name"]: x["slow"] for x in server.json("/api/v1/labels?attributes=marked")}
        assert marked["team"] is False and marked["thread.name"] is True
        assert groups(server, "team") == {"blue": 28, "red": 11}
        assert groups(server, "k8s.pod.name") == {"shop-1": 15, "shop-2": 11, "bank-1": 13}
    finally:
        server.stop()


def one(service, value, start, **attributes):
    r = request([("main;work", value, False)], service, start)
    for k, v in attributes.items():
        r.resource_profiles[0].resource.attributes.add(key=k).value.string_value = v
    return r


def marked(server):
    return {x["name"]: x["slow"] for x in server.json("/api/v1/labels?attributes=marked")}


@pytest.mark.parametrize("engine", ["segment", "memory"])
def test_labels_are_chosen_by_cardinality(tmp_path, engine):
    """Resource attributes with few values are labels; one with many values, or one that names a process, is read from detail. The sums are right
    either way, for series before and after the limit."""
    profiles_service()
    server = Server(tmp_path, "--set", f"store.engine={engine}", "--set", "store.label_values=20")
    try:
        start = time.time_ns() - 50_000_000_000
        for i in range(30):
            r = one("shop", 1 << i % 8, start + i, region=("eu", "us")[i % 2], request=f"r{i}", **{"process.pid": str(i), "app-tier": "web"})
            assert server.send(r)[0] == 200
        assert groups(server, "region") == {"eu": sum(1 << i % 8 for i in range(0, 30, 2)), "us": sum(1 << i % 8 for i in range(1, 30, 2))}
        assert groups(server, "request") == {f"r{i}": 1 << i % 8 for i in range(30)}
        assert groups(server, "app_tier") == {"web": sum(1 << i % 8 for i in range(30))}
        assert groups(server, "process.pid") == {str(i): 1 << i % 8 for i in range(30)}
        for i in (3, 27):  # one that is a label, and one that came after the limit
            assert groups(server, "region", f'cpu{{request="r{i}"}}') == {"us": 1 << i % 8}
            assert server.json("/api/v1/labels/region/values?query=" + urllib.parse.quote(f'cpu{{request="r{i}"}}')) == ["us"]
        assert groups(server, "region", 'cpu{request!~"r[12].*"}') == {"eu": 1 + 16 + 64 + 1, "us": 8 + 32 + 128 + 2}
        assert server.json("/api/v1/labels/request/values") == sorted(f"r{i}" for i in range(30))
        slow = marked(server)
        assert slow["region"] is False and slow["app-tier"] is False and slow["process.pid"] is True
        status, body = querier(server, "Series", matchers=["{}"], labelNames=["region", "service_name"])
        assert status == 200 and {tuple(sorted(x["value"] for x in s["labels"])) for s in json.loads(body)["labelsSet"]} == {("eu", "shop"), ("shop", "us")}
        status, body = querier(server, "SelectSeries", profileTypeID=CPU, labelSelector='{region="eu"}', groupBy=["region"], step=3600,
                               exemplarType="EXEMPLAR_TYPE_INDIVIDUAL")
        assert status == 200 and json.loads(body)["series"][0]["labels"][0]["value"] == "eu", body
        # series that begin now do not have the attribute as a label any more
        status, body = querier(server, "Series", matchers=['{region="eu"}'], labelNames=[])
        sets = [{x["name"]: x["value"] for x in s["labels"]} for s in json.loads(body)["labelsSet"]]
        assert 1 <= len([s for s in sets if "request" not in s]) <= 2 and len({s.get("request") for s in sets if "request" in s}) == 10
    finally:
        server.stop()


def test_profiles_that_were_stored_without_the_label(tmp_path):
    """What was stored before an attribute was a label is found, too; and sums are the same on disk."""
    profiles_service()
    for k, values in enumerate(("0", "100")):
        server = Server(tmp_path, "--set", f"store.label_values={values}")
        try:
            start = time.time_ns() - 50_000_000_000
            for i, team in enumerate(("red", "blue")):
                assert server.send(one("shop", 10 ** k * (i + 1), start + 10 * k + i, team=team))[0] == 200
            if k:
                assert groups(server, "team") == {"red": 11, "blue": 22}
                assert groups(server, "service.name", 'cpu{team="blue"}') == {"shop": 22}
                assert server.json("/api/v1/labels/team/values") == ["blue", "red"]
                top = server.json("/api/v1/top?" + urllib.parse.urlencode({"query": 'cpu{team="red"}', "by": "function"}))
                assert "work" in json.dumps(top)
        finally:
            server.stop()


def test_a_tenant_with_many_values_does_not_matter_to_another(tmp_path):
    profiles_service()
    tokens = tokens_of(tmp_path)
    server = Server(tmp_path, "--set", "store.label_values=3")
    try:
        start = time.time_ns() - 50_000_000_000
        for token, n in zip(tokens, (9, 3)):
            for i in range(n):
                assert server.send(one("shop", 1, start + i, zone=f"z{i}"), token)[0] == 200
        for token, n in zip(tokens, (9, 3)):
            assert server.json("/api/v1/labels/zone/values", token=token) == [f"z{i}" for i in range(n)]
            answer = server.json("/querier.v1.QuerierService/Series", token=token, headers={"Content-Type": "application/json"},
                                 data=json.dumps({**hour(), "matchers": ["{}"], "labelNames": []}).encode())
            zones = [x["value"] for s in answer["labelsSet"] for x in s["labels"] if x["name"] == "zone"]
            assert sorted(set(zones)) == ["z0", "z1", "z2"]
    finally:
        server.stop()
