# SPDX-License-Identifier: Apache-2.0
"""Numbers and times at their extremes, in every parameter of every route of the API and of Pyroscope's: an answer or a 4xx, never 500, and the
server lives."""
import json
import time
import urllib.parse

import pytest

from wick_tools import SHOP, Server, profiles_service, request

VALUES = ["0", "-0", "-1", "1", "2147483647", "2147483648", "-2147483649", "4294967296", "9223372036854775807", "9223372036854775808",
          "-9223372036854775808", "18446744073709551615", "18446744073709551616", "1e18", "1e308", "-1e308", "1e999", "nan", "inf", "-inf", "0.5",
          "100000d", "-100000d", "1ns", "0s", "106751d", "106752d", "9223372036854775807ns", "999999999999999999999d", "now", "now-100000d", "now+100000d",
          "1970-01-01T00:00:00Z", "2262-04-11T23:47:16Z", "9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z", "", " ", "x" * 300]
TEXT = {"query", "base_query", "label", "name", "function", "file", "format", "service", "by", "what", "metric", "trace", "span", "id", "build_id"}


def server_with_data(tmp_path, *options):
    profiles_service()
    server = Server(tmp_path, *options)
    now = time.time_ns()
    for i in range(3):
        assert server.send(request(SHOP, "shop", now - i * 20_000_000_000))[0] == 200
    return server


def routes_of(server):
    spec = server.json("/api/v1/openapi.json")
    for path, methods in sorted(spec["paths"].items()):
        for method, what in methods.items():
            if method == "get":
                yield path, [p["name"] for p in what.get("parameters", []) if p["in"] == "query"]


BASE = {"query": "cpu", "from": "now-5m", "base_query": "cpu", "function": "checkout", "label": "service.name"}


@pytest.mark.parametrize("engine", ("segment", "memory"))
def test_routes(tmp_path, engine):
    server = server_with_data(tmp_path, *(["--store", "memory"] if engine == "memory" else []))
    bad, n = [], 0
    try:
        for path, names in routes_of(server):
            if "{" in path or path.endswith("openapi.json") or "/scrape" in path or "/pid" in path:
                continue
            for name in names:
                if name in TEXT:
                    continue
                for v in VALUES:
                    fields = {k: BASE[k] for k in BASE if k in names and k != name}
                    url = path + "?" + urllib.parse.urlencode({**fields, name: v})
                    status, body = server.get(url)
                    n += 1
                    if status >= 500:
                        bad.append((path, name, v, status, body[:200].decode()))
        assert server.get("/readyz")[0] == 200
    finally:
        server.stop()
    assert not bad, (n, len(bad), bad)
    assert n > 1000


NUMBERS = [0, -1, 1, 2**31 - 1, 2**31, -2**31, 2**32, 2**53, 2**63 - 1, -2**63, 2**63, 2**64, 0.5, 1e-9, -0.0, 1e18, 1e300, 1e308, -1e308, None, True, "1e308", "9223372036854775807", "nan"]
CPU = "process_cpu:cpu:nanoseconds:cpu:nanoseconds"
SELECT = {"profileTypeID": CPU, "labelSelector": "{}", "start": 0, "end": 0}
METHODS = [("SelectMergeStacktraces", ("start", "end", "maxNodes", "format"), {}), ("SelectMergeProfile", ("start", "end", "maxNodes"), {}),
           ("SelectMergeSpanProfile", ("start", "end", "maxNodes", "format"), {"spanSelector": ["0102030405060708"]}),
           ("SelectSeries", ("start", "end", "step", "limit", "aggregation", "exemplarType"), {"step": 15}),
           ("SelectHeatmap", ("start", "end", "step", "limit", "queryType", "exemplarType"), {"step": 15}),
           ("ProfileTypes", ("start", "end"), None), ("LabelNames", ("start", "end"), None), ("LabelValues", ("start", "end"), {"name": "service_name"}),
           ("Series", ("start", "end"), None), ("AnalyzeQuery", ("start", "end"), {"query": CPU + "{}"})]


def test_pyroscope(tmp_path):
    server = server_with_data(tmp_path)
    now, bad, n = int(time.time() * 1000), [], 0

    def ask(path, data=None):
        nonlocal n
        n += 1
        status, body = server.get(path, data=data, headers={"Content-Type": "application/json"} if data else None)
        if status in (500, 504) or status > 504:
            bad.append((path, data, status, body[:200].decode()))

    try:
        for method, names, more in METHODS:
            base = {**SELECT, "start": now - 60_000, "end": now, **(more or {})}
            if method in ("ProfileTypes", "LabelNames", "LabelValues", "Series", "AnalyzeQuery"):
                base = {"start": now - 60_000, "end": now, **(more or {})}
            assert server.get("/querier.v1.QuerierService/" + method, data=json.dumps(base).encode(), headers={"Content-Type": "application/json"})[0] == 200
            for name in names:
                for v in NUMBERS:
                    ask("/querier.v1.QuerierService/" + method, json.dumps({**base, name: v}).encode())
            for a in NUMBERS:  # both ends at once
                ask("/querier.v1.QuerierService/" + method, json.dumps({**base, "start": a, "end": NUMBERS[n % len(NUMBERS)]}).encode())
        for path, names in (("/pyroscope/render", ("from", "until", "maxNodes")), ("/pyroscope/render-diff", ("leftFrom", "leftUntil", "rightFrom", "rightUntil", "maxNodes")),
                            ("/pyroscope/labels", ("from", "until")), ("/pyroscope/label-values", ("from", "until"))):
            base = {"query": CPU + "{}", "from": "now-5m", "leftQuery": CPU + "{}", "rightQuery": CPU + "{}", "label": "service_name",
                    "leftFrom": "now-5m", "leftUntil": "now", "rightFrom": "now-5m", "rightUntil": "now"}
            for name in names:
                for v in VALUES:
                    ask(path + "?" + urllib.parse.urlencode({**base, name: v}))
        for v in NUMBERS:
            ask("/api/v1/notes", json.dumps({"text": "t", "time": v}).encode())
            ask("/api/v1/notes", json.dumps({"text": "t", "time": str(v)}).encode())
            ask("/settings.v1.RecordingRulesService/UpsertRecordingRule", json.dumps(
                {"metricName": "m", "matchers": ['{__profile_type__="' + CPU + '"}'], "generation": v}).encode())
            for tool in ("top", "series", "heatmap", "flame"):
                ask("/mcp", json.dumps({"jsonrpc": "2.0", "id": v, "method": "tools/call", "params": {"name": tool, "arguments": {"query": "cpu", "from": str(v), "limit": str(v)}}}).encode())
        assert server.get("/readyz")[0] == 200
    finally:
        server.stop()
    assert not bad, (n, len(bad), bad)
    assert n > 900
