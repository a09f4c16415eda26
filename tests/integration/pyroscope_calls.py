# SPDX-License-Identifier: Apache-2.0
"""The calls of Grafana's Pyroscope data source and of Profiles Drilldown, and a form of their answers that can be compared: times count from
the first profile, flame graphs and merged profiles are stacks with values, ids of profiles are left out. Left out, too: the period of a
merged profile, which is the sender's in wick and a constant in Pyroscope, and labels of exemplars that are not labels of series in wick."""
import json
import urllib.parse

from pyroscope_tools import pprof, push

GO = [("samples", "count"), ("cpu", "nanoseconds")]
SPANS = ["00000bac2a5ab0c7", "0102030405060708"]
CPU, COUNT = "process_cpu:cpu:nanoseconds:cpu:nanoseconds", "process_cpu:samples:count:cpu:nanoseconds"
HEAP = "memory:inuse_space:bytes:space:bytes"
SHOP = '{service_name="shop"}'


def fill(server, start):
    """Two services, three profiles of CPU each with known stacks, spans and labels; heap; locks."""
    for service, region in (("shop", "eu"), ("bank", "us")):
        for i in range(3):
            push(server, pprof(GO, [("main;serve;price", [i + 1, (i + 1) * 10_000_000], {"span_id": SPANS[0], "span_name": "GET /cart"}),
                                    ("main;serve;tax", [2, 20_000_000], {"span_id": SPANS[1]}), ("main;gc;mark;scan;sweep;free", [5, 50_000_000], {})],
                               ("cpu", "nanoseconds", 10_000_000), start=start + i * 10 * 10**9),
                 service_name=service, __name__="process_cpu", region=region)
    push(server, pprof([("alloc_objects", "count"), ("alloc_space", "bytes"), ("inuse_objects", "count"), ("inuse_space", "bytes")],
                       [("main;cache;put", [10, 1000, 3, 300], {})], ("space", "bytes", 524288), start=start), service_name="shop", __name__="memory")
    for name, delay in (("mutex", 30), ("block", 70)):
        push(server, pprof([("contentions", "count"), ("delay", "nanoseconds")], [("main;lock", [3, delay], {})], ("contentions", "count", 1), start=start),
             service_name="shop", __name__=name)


Q = "querier.v1.QuerierService/"
RULES = "settings.v1.RecordingRulesService/"
ONE = {"profileTypeID": CPU, "labelSelector": SHOP}
# (who calls, method or path, fields); start and end, or from and until, are added
CALLS = [
    ("data source", Q + "ProfileTypes", {}),
    ("data source", Q + "LabelNames", {"matchers": [f'{{__profile_type__="{CPU}"}}']}),
    ("data source", Q + "LabelValues", {"name": "service_name", "matchers": [f'{{__profile_type__="{CPU}"}}']}),
    ("data source", Q + "LabelValues", {"name": "region", "matchers": ["{}"]}),
    ("data source", Q + "SelectSeries", {**ONE, "groupBy": [], "step": 15}),
    ("data source", Q + "SelectSeries", {**ONE, "labelSelector": "{}", "groupBy": ["service_name"], "step": 10, "limit": "1"}),
    ("data source", Q + "SelectSeries", {**ONE, "groupBy": ["service_name"], "step": 10, "exemplarType": "EXEMPLAR_TYPE_INDIVIDUAL"}),
    ("data source", Q + "SelectMergeStacktraces", {**ONE, "maxNodes": "16384"}),
    ("data source", Q + "SelectMergeStacktraces", {**ONE, "profileTypeID": HEAP}),
    ("data source", Q + "SelectMergeSpanProfile", {**ONE, "spanSelector": [SPANS[0]], "maxNodes": "16384"}),
    ("data source", Q + "SelectHeatmap", {**ONE, "step": 10, "queryType": "HEATMAP_QUERY_TYPE_INDIVIDUAL"}),
    ("drilldown", Q + "Series", {"matchers": [], "labelNames": ["service_name", "__profile_type__"]}),
    ("drilldown", Q + "Series", {"matchers": [SHOP], "labelNames": ["service_name", "region"]}),
    ("drilldown", Q + "LabelNames", {"matchers": [SHOP]}),
    ("drilldown", Q + "SelectSeries", {**ONE, "profileTypeID": COUNT, "groupBy": ["region"], "step": 10, "aggregation": "TIME_SERIES_AGGREGATION_TYPE_SUM"}),
    ("drilldown", Q + "SelectSeries", {**ONE, "groupBy": [], "step": 10, "aggregation": "TIME_SERIES_AGGREGATION_TYPE_AVERAGE"}),
    ("drilldown", Q + "SelectMergeProfile", {**ONE}),
    ("drilldown", Q + "SelectMergeProfile", {**ONE, "profileTypeID": HEAP}),
    ("drilldown", Q + "SelectMergeStacktraces", {**ONE, "stackTraceSelector": {"callSite": [{"name": "main"}, {"name": "serve"}]}}),
    ("drilldown", Q + "Diff", {"left": {**ONE}, "right": {**ONE, "labelSelector": '{service_name="bank"}'}}),
    ("drilldown", Q + "GetProfileStats", {}),
    ("drilldown", "pyroscope/render", {"query": CPU + SHOP, "format": "json", "max-nodes": "16384"}),
    ("drilldown", "pyroscope/render", {"query": HEAP + SHOP, "format": "json"}),
    ("drilldown", "pyroscope/render-diff", {"leftQuery": CPU + SHOP, "rightQuery": CPU + '{service_name="bank"}', "format": "json", "max-nodes": "16384"}),
    ("drilldown", Q + "SelectMergeSpanProfile", {**ONE, "spanSelector": SPANS}),
    ("drilldown", Q + "SelectMergeStacktraces", {**ONE, "spanSelector": [SPANS[1]], "maxNodes": "16384"}),
    ("drilldown", Q + "SelectSeries", {**ONE, "labelSelector": "{}", "groupBy": ["region", "service_name"], "step": 10}),
    ("drilldown", Q + "LabelValues", {"name": "__profile_type__", "matchers": [SHOP]}),
    ("drilldown", RULES + "ListRecordingRules", {}),
    ("drilldown", RULES + "UpsertRecordingRule", {"id": "abc", "metricName": "profiles_recorded_price", "matchers": [f'{{__profile_type__="{CPU}", service_name="shop"}}'],
                                                  "groupBy": ["service_name"], "generation": "0", "stacktraceFilter": {"functionName": {"functionName": "price"}}}),
    ("drilldown", RULES + "GetRecordingRule", {"id": "abc"}),
    ("drilldown", RULES + "GetRecordingRule", {"id": "xyz"}),
    ("drilldown", RULES + "UpsertRecordingRule", {"metricName": "m", "matchers": []}),
    ("drilldown", RULES + "DeleteRecordingRule", {"id": "abc"}),
    ("drilldown", "adhocprofiles.v1.AdHocProfileService/List", {}),
    ("drilldown", "settings.v1.SettingsService/Set", {"setting": {"name": "pluginSettings", "value": '{"collapsedFlamegraphs":false}'}}),
    ("drilldown", "settings.v1.SettingsService/Get", {}),
]


def call(server, method, fields, start):
    """(status, answer in a form to be compared)."""
    ms = start // 10**6
    t = {"start": str(ms - 5000), "end": str(ms + 40_000)}
    if method.startswith("pyroscope/"):
        times = {side + k: v for side in ("left", "right") for k, v in (("From", t["start"]), ("Until", t["end"]))} if "diff" in method else \
            {"from": t["start"], "until": t["end"]}
        status, body = server.get("/" + method + "?" + urllib.parse.urlencode({**fields, **times}))
    else:
        fields = {k: ({**v, **t} if k in ("left", "right") else v) for k, v in fields.items()}
        status, body = server.get("/" + method, data=json.dumps({**t, **fields} if method.startswith(Q) else fields).encode(),
                                  headers={"Content-Type": "application/json"})
    if status != 200:  # the words are each server's own
        return status, {"code": json.loads(body)["code"]}
    return status, plain(json.loads(body), ms)


def flame(f, diff=False):
    """{stack: numbers} of a flame graph's levels."""
    width, out = (7 if diff else 4), {}
    above = [((), 0, None)]
    for level in f.get("levels", []):
        values, here, end = [int(v) for v in (level["values"] if isinstance(level, dict) else level)], [], 0
        for i in range(0, len(values), width):
            v = values[i:i + width]
            x, size = end + v[0] + (v[3] if diff else 0), v[1] + (v[4] if diff else 0)
            parent = next((p for p, at, n in above if n is None or at <= x < at + max(n, 1)), ())
            path = parent + (f["names"][v[-1]],)
            out[";".join(path)] = [*v[1:3], *(v[4:6] if diff else [])]
            here.append((path, x, size))
            end = x + size
        above = here
    return out


def stacks(p):
    text = p["stringTable"]
    functions = {int(f["id"]): text[int(f["name"])] for f in p["function"]}
    locations = {int(x["id"]): functions[int(x["line"][0]["functionId"])] for x in p["location"]}
    out = {}
    for s in p["sample"]:
        k = ">".join(locations[int(i)] for i in s["locationId"])
        out[k] = out.get(k, 0) + int(s["value"][0])

    def kind(t):
        return [text[int(t.get("type", 0))], text[int(t.get("unit", 0))]]
    return {"stacks": out, "sampleType": [kind(t) for t in p["sampleType"]], "periodType": kind(p["periodType"])}


def by_labels(x):
    return sorted((p["name"], p["value"]) for p in x.get("labels", []))


def plain(a, ms):
    if isinstance(a, list):
        return [plain(x, ms) for x in a]
    if not isinstance(a, dict):
        return a
    if "levels" in a and "names" in a:
        diff = "leftTicks" in a or (a["levels"] and len(a["levels"][0]["values"] if isinstance(a["levels"][0], dict) else a["levels"][0]) == 7)
        return {"stacks": flame(a, diff), **{k: int(a[k]) for k in ("total", "maxSelf", "numTicks", "leftTicks", "rightTicks") if k in a}}
    if "stringTable" in a:
        return stacks(a)
    out = {}
    for k, v in a.items():
        if k in ("timestamp", "startTime", "oldestProfileTime", "newestProfileTime", "modifiedAt"):
            v = int(v) - (ms if int(v) > 10**12 else ms // 1000)
            v = "a time" if k not in ("timestamp", "startTime") else v
        elif k == "profileId":
            v = "an id"
        elif k == "exemplars":
            v = [{**plain(x, ms), "labels": [p for p in by_labels(x) if p[0] != "region"]} for x in v]
        elif k == "labels":
            v = by_labels(a)
        elif k in ("names", "profileTypes", "labelsSet", "series") and isinstance(v, list):
            v = sorted((plain(x, ms) for x in v), key=lambda x: json.dumps(x, sort_keys=True))
        else:
            v = plain(v, ms)
        out[k] = v
    return {k: v for k, v in out.items() if v not in (0, False, "", [], None, {})}  # proto3 leaves out what is zero
