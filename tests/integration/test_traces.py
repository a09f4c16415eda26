# SPDX-License-Identifier: Apache-2.0
"""Traces: `wick serve` takes them over OTLP next to profiles, and answers what spans did. Every expected number is computed here
from what was sent."""
import json
import os
import random
import subprocess
import time
from types import SimpleNamespace

import pytest
from wick_tools import WICK, Server, free_port, log_of, profiles_service, request, server, tokens_of, token_of, wait_for  # noqa: F401

traces_pb = pytest.importorskip("opentelemetry.proto.collector.trace.v1.trace_service_pb2")
MS = 1_000_000
KINDS = {"internal": 1, "server": 2, "client": 3}


def trace_request(spans, service="shop", version="", instance=""):
    """spans: dicts with trace, span, name, start, duration; optional parent, kind, error."""
    r = traces_pb.ExportTraceServiceRequest()
    rs = r.resource_spans.add()
    for key, value in (("service.name", service), ("service.version", version), ("service.instance.id", instance)):
        if value:
            rs.resource.attributes.add(key=key).value.string_value = value
    ss = rs.scope_spans.add()
    for s in spans:
        x = ss.spans.add(trace_id=s["trace"], span_id=s["span"], parent_span_id=s.get("parent", b""), name=s["name"],
                         kind=KINDS[s.get("kind", "server")], start_time_unix_nano=s["start"],
                         end_time_unix_nano=s["start"] + s["duration"])
        if s.get("error"):
            x.status.code = 2
    return r


def linked_request(samples, service="shop", kind="cpu", start=None):
    """One profile; samples is a list of (folded stack, value, trace, span)."""
    r = request([], service, start)
    d, p = r.dictionary, r.resource_profiles[0].scope_profiles[0].profiles[0]
    d.string_table[p.sample_type.type_strindex] = kind
    functions, links = {}, {}

    def string(s):
        d.string_table.append(s)
        return len(d.string_table) - 1

    for stack, value, trace, span in samples:
        if (trace, span) not in links:
            d.link_table.add(trace_id=trace, span_id=span)
            links[trace, span] = len(d.link_table) - 1
        s = d.stack_table.add()
        for name in reversed(stack.split(";")):
            if name not in functions:
                d.function_table.add(name_strindex=string(name))
                d.location_table.add().lines.add(function_index=len(d.function_table) - 1, line=7)
                functions[name] = len(d.location_table) - 1
            s.location_indices.append(functions[name])
        p.samples.add(stack_index=len(d.stack_table) - 1, values=[value], link_index=links[trace, span])
    return r


def send_traces(server, r, token=None, path="/v1/traces", base=None, kind="application/x-protobuf"):
    body = r if isinstance(r, bytes) else r.SerializeToString()
    return server.get(path, token, body, {"Content-Type": kind}, base=base or server.http)


def query(server, *args, check=True):
    p = subprocess.run([WICK, "query", *args, "--server", server.url, "--json"], capture_output=True, text=True)
    assert not check or p.returncode == 0, p.stderr
    return json.loads(p.stdout)


class Shop:
    """Two kinds of spans: POST /pay has a child db.query, GET /list has none. One /pay in twenty is slow, and its time goes to
    another function than that of the quick ones."""

    def __init__(self, n=200, seed=1):
        rnd = random.Random(seed)
        now = time.time_ns() - 30_000 * MS
        self.spans, self.samples, self.slow = [], [], set()
        for i in range(n):
            trace, span, child = rnd.randbytes(16), rnd.randbytes(8), rnd.randbytes(8)
            start = now + i * 10 * MS
            if i % 10 < 7:
                slow = i % 20 == 3
                length = (900 if slow else 100) * MS + i
                self.spans.append(dict(trace=trace, span=span, name="POST /pay", start=start, duration=length, error=i % 20 == 4))
                self.spans.append(dict(trace=trace, span=child, parent=span, name="db.query", start=start + MS, duration=length // 2,
                                       kind="client"))
                self.samples.append(("main;pay;sign", 60 * MS, trace, span))
                self.samples.append(("main;pay;query", 10 * MS, trace, child))
                if slow:
                    self.samples.append(("main;pay;retry_loop", 800 * MS, trace, span))
                    self.slow.add(span)
            else:
                self.spans.append(dict(trace=trace, span=span, name="GET /list", start=start, duration=50 * MS + i))
                self.samples.append(("main;list;render", 70 * MS, trace, span))

    def of(self, name):
        return [s for s in self.spans if s["name"] == name]

    def value(self, function, spans):
        ids = {s["span"] for s in spans}
        return sum(v for stack, v, _, span in self.samples if stack.endswith(function) and span in ids)

    def send(self, server, token=None, kind="cpu"):
        status, body = send_traces(server, trace_request(self.spans, version="1.0", instance="a"), token)
        assert status == 200, body
        assert server.send(linked_request(self.samples, kind=kind, start=time.time_ns() - 31_000 * MS), token)[0] == 200


def rows(answer, column=None):
    """Self values of the functions, without those that only call others."""
    return {r["name"]: v for r in answer["rows"] if (v := r["self"] if column is None else r["self"][column]) or column is not None}


def percentile(values, share):
    values = sorted(values)
    return values[max(0, -(-len(values) * int(share * 100) // 100) - 1)]


def test_names_with_latency(server):
    shop = Shop()
    shop.send(server)
    got = {s["name"]: s for s in server.json("/api/v1/span_names?service=shop")["spans"]}
    assert set(got) == {"POST /pay", "GET /list", "db.query"}
    for name, s in got.items():
        want = [x["duration"] for x in shop.of(name)]
        assert (s["count"], s["max"], s["total"]) == (len(want), max(want), sum(want))
        assert [s["p50"], s["p95"], s["p99"]] == [percentile(want, p) for p in (0.5, 0.95, 0.99)]
        assert s["errors"] == sum(x.get("error", False) for x in shop.of(name))
    assert server.json("/api/v1/span_names?service=other")["spans"] == []
    text = subprocess.run([WICK, "query", "span_names", "--server", server.url], capture_output=True, text=True, check=True).stdout
    assert text.splitlines()[0].split() == ["COUNT", "ERRORS", "P50", "P95", "P99", "MAX", "TOTAL", "SERVICE", "NAME"]
    assert len(text.splitlines()) == 4


def test_profile_of_spans(server):
    """Of a trace, of one span with and without its children, and of all spans of a name: 70 in 100 spans are /pay, 30 /list."""
    shop = Shop()
    shop.send(server)
    pay = shop.of("POST /pay")
    one = pay[0]
    ids = ["--trace-id", one["trace"].hex(), "--span-id", one["span"].hex()]
    assert rows(query(server, "span", *ids)) == {"sign": 60 * MS}
    assert rows(query(server, "span", *ids, "--children", "true")) == {"sign": 60 * MS, "query": 10 * MS}
    assert rows(query(server, "span", "--trace-id", one["trace"].hex())) == {"sign": 60 * MS, "query": 10 * MS}
    for name, functions in (("POST /pay", ("sign", "retry_loop")), ("GET /list", ("render",)), ("db.query", ("query",))):
        answer = query(server, "span", "--service", "shop", "--span-name", name)
        assert rows(answer) == {f: shop.value(f, shop.spans) for f in functions} and answer["type"] == "cpu"
        assert answer["spans"]["selected"] == len(shop.of(name)) and answer["spans"]["duration"] == sum(s["duration"] for s in shop.of(name))
    both = query(server, "flame", "cpu", "--span-name", "POST /pay", "--service", "shop", "--children", "true")
    assert both["spans"]["selected"] == len(pay)
    want = sum(v for stack, v, _, _ in shop.samples if ";pay;" in stack)
    assert query(server, "top", "--span-name", "POST /pay", "--children", "true")["total"] == want
    failed = query(server, "span", "--span-name", "POST /pay", "--span-status", "error")
    assert failed["spans"]["selected"] == sum(s["error"] for s in pay)


def test_slowest_against_the_rest(server):
    shop = Shop()
    shop.send(server)
    pay = sorted(shop.of("POST /pay"), key=lambda s: -s["duration"])
    n = -(-len(pay) * 5 // 100)
    slow, rest = pay[:n], pay[n:]
    answer = query(server, "span", "--span-name", "POST /pay", "--service", "shop", "--slowest", "5")
    assert (answer["spans"]["selected"], answer["spans"]["rest"]) == (n, len(pay) - n)
    assert answer["spans"]["threshold"] == slow[-1]["duration"]
    assert answer["rows"][0]["name"] == "retry_loop", "what the slow ones did differently comes first"
    for f in ("sign", "retry_loop"):
        assert rows(answer, 0)[f] == shop.value(f, rest) and rows(answer, 1)[f] == shop.value(f, slow)
    # the same by a brush over the heat map: durations from 500 ms on, against the others
    answer = query(server, "span", "--span-name", "POST /pay", "--min-duration", "500ms", "--against", "rest")
    assert answer["spans"]["selected"] == len(shop.slow) and rows(answer, 0).get("retry_loop", 0) == 0
    text = subprocess.run([WICK, "query", "span", "--span-name", "POST /pay", "--slowest", "5", "--server", server.url],
                          capture_output=True, text=True, check=True).stdout
    assert "per span" in text and "retry_loop" in text


def test_type_tells_latency(server):
    """Wall time, where the samples have it; else CPU."""
    shop = Shop(20)
    shop.send(server)
    assert query(server, "span", "--span-name", "POST /pay")["type"] == "cpu"
    assert server.send(linked_request([(s, v, t, i) for s, v, t, i in shop.samples], kind="wall", start=time.time_ns() - 31_000 * MS))[0] == 200
    assert query(server, "span", "--span-name", "POST /pay")["type"] == "wall"
    assert query(server, "span", "cpu", "--span-name", "POST /pay")["type"] == "cpu"
    assert server.json(f"/api/v1/flame?trace_id={shop.spans[0]['trace'].hex()}")["type"] == "wall"


def test_heat_map(server):
    shop = Shop()
    shop.send(server)
    pay = shop.of("POST /pay")
    h = server.json("/api/v1/span_heatmap?service=shop&span_name=POST%20/pay&from=now-2m&step=1s&rows=10")
    start, step, bounds = int(h["from"]), int(h["step"]), h["bounds"]
    assert h["count"] == len(pay) and len(bounds) == 11 and len(h["counts"]) == 120
    want = [[0] * 10 for _ in h["counts"]]
    for s in pay:
        row = max(i for i in range(10) if bounds[i] <= s["duration"])
        want[(s["start"] - start) // step][row] += 1
    assert h["counts"] == want
    # brushing the topmost row selects the slowest
    got = server.json(f"/api/v1/span?span_name=POST%20/pay&service=shop&min_duration={bounds[9]}ns&max_duration={bounds[10]}ns&against=rest")
    assert got["spans"]["selected"] == sum(r[9] for r in want)


def test_trace_and_its_tree(server):
    shop = Shop(40)
    shop.send(server)
    one = shop.spans[0]
    t = server.json(f"/api/v1/trace?trace_id={one['trace'].hex()}")
    assert [(s["name"], s["depth"], s["value"]) for s in t["spans"]] == [("POST /pay", 0, 60 * MS), ("db.query", 1, 10 * MS)]
    assert t["spans"][1]["parentId"] == one["span"].hex() and t["spans"][0]["kind"] == "server"
    assert int(t["spans"][0]["duration"]) == one["duration"] and int(t["spans"][0]["start"]) == one["start"]
    longest = server.json("/api/v1/spans?sort=duration&service=shop&limit=3")["spans"]
    want = sorted(shop.spans, key=lambda s: -s["duration"])[:3]
    assert [s["spanId"] for s in longest] == [s["span"].hex() for s in want]
    listed = server.json("/api/v1/spans?query=cpu&limit=1000")["spans"]
    names = {s["span"].hex(): s["name"] for s in shop.spans}
    assert listed and all(s["name"] == names[s["spanId"]] for s in listed)
    text = subprocess.run([WICK, "query", "trace", "--trace-id", one["trace"].hex(), "--server", server.url], capture_output=True, text=True,
                          check=True).stdout
    assert "  db.query" in text


@pytest.mark.parametrize("period,value,length,want", [
    (52.6, 83, 1.84, 1.84),  # one sample of 19 Hz, weighed
    (10, 10, 1.84, 1.84),
    (10, 10, 12, 10),
    (10, 400, 150, 400),  # four threads; equal samples are joined
    (10, 20, 1.5, 3),
    (0, 10, 1.84, 1.84),  # the period is not known
])
def test_a_span_has_at_most_its_length_times_its_threads(server, period, value, length, want):
    start, service = time.time_ns() - 10_000 * MS, f"of-{period}-{value}"
    trace, span = random.randbytes(16), random.randbytes(8)
    known = {"trace": trace, "span": span, "name": "short", "start": start, "duration": int(length * MS)}
    assert send_traces(server, trace_request([known], service))[0] == 200
    r = linked_request([("main;work", int(value * MS), trace, span)], service, start=start)
    p = r.resource_profiles[0].scope_profiles[0].profiles[0]
    p.period, p.period_type.type_strindex, p.period_type.unit_strindex = int(period * MS), p.sample_type.type_strindex, p.sample_type.unit_strindex
    assert server.send(r)[0] == 200
    listed = f"spans?query=cpu{{service.name=%22{service}%22}}&from=now-5m"
    for question in (f"trace?trace_id={trace.hex()}&query=cpu", listed, listed + "&sort=duration"):
        got = next(s for s in server.json(f"/api/v1/{question}")["spans"] if s["spanId"] == span.hex())
        assert (got["value"], got.get("sampled", got["value"])) == (int(want * MS), int(value * MS)), question


def stored(store, tenant):
    """The number of spans in a store that no server has open."""
    r = subprocess.run([WICK, "query", "span_names", "--store", str(store), "--tenant", tenant, "--json"],
                       capture_output=True, text=True)
    assert r.returncode in (0, 4), r.stderr  # 4: there are none
    return sum(x["count"] for x in json.loads(r.stdout)["spans"])


def check_store_commands(tmp_path, counts):
    """`wick store` snapshot, check and delete know the span index."""
    def run(*args, status=(0,)):
        r = subprocess.run([WICK, "store", *map(str, args)], capture_output=True, text=True)
        assert r.returncode in status, f"{args}: {r.stderr}{r.stdout}"
        return r.stdout

    store, copy = tmp_path / "store", tmp_path / "copy"
    run("snapshot", copy, "--store", store)
    for dir in (store, copy):
        assert {t: stored(dir, t) for t in counts} == counts
        text = run("check", "--store", dir, status=(0, 1))  # the store has its own tests
        assert f"span index: {sum(counts.values())} spans" in text and ".spans:" not in text
    damaged = next((copy / "spans").glob("t-*/*.spans"))
    data = bytearray(damaged.read_bytes())
    data[len(data) // 2] ^= 1
    damaged.write_bytes(data)
    assert ".spans: 1 damaged place" in run("check", "--store", copy, status=(1,))
    run("delete", "{}", "--from", "0", "--tenant", "one", "--store", store)
    assert {t: stored(store, t) for t in counts} == counts | {"one": 0}
    assert not list((store / "spans" / ("t-" + b"one".hex())).glob("*")), "nothing of it is left on disk"
    run("delete", 'spans{service.name="nobody"}', "--from", "0", "--tenant", "two", "--store", store)
    assert stored(store, "two") == counts["two"]


def test_tenants_restart_and_doubles(tmp_path):
    """Each tenant sees its own spans, on every way in; all survive a restart and a torn end of a file; a retry is stored once."""
    one, two = tokens_of(tmp_path)
    reader = token_of(SimpleNamespace(dir=tmp_path), "read", "one")
    s = Server(tmp_path)
    try:
        a, b = Shop(30, 2), Shop(10, 3)
        a.send(s, one)
        b.send(s, two)
        r = trace_request([dict(trace=b"t" * 16, span=b"s" * 8, name="again", start=time.time_ns(), duration=5)])
        for _ in range(3):
            assert send_traces(s, r, one)[0] == 200
        assert send_traces(s, r, one, base=s.url)[0] == 200, "the port of the page takes them, too"
        assert send_traces(s, r)[0] == 401 and send_traces(s, r, base=s.url)[0] == 401
        assert send_traces(s, r, reader)[0] == 403

        def counts(token):
            return {x["name"]: x["count"] for x in s.json("/api/v1/span_names", token=token)["spans"]}

        want = {n: len(a.of(n)) for n in ("POST /pay", "GET /list", "db.query")} | {"again": 1}
        assert counts(one) == want
        assert counts(two) == {n: len(b.of(n)) for n in ("POST /pay", "GET /list", "db.query")}
        trace = b.spans[0]["trace"].hex()
        assert s.json(f"/api/v1/trace?trace_id={trace}", token=one)["spans"] == []
        s.p.kill()
        s.p.wait()
        newest = sorted((tmp_path / "store/spans").glob("t-*/*.spans"))
        assert len(newest) == 2
        for f in newest:
            with open(f, "ab") as out:
                out.write(b"WSB1 torn")
        s.start()
        assert counts(one) == want
        c = Shop(10, 4)
        c.send(s, one)
        assert counts(one)["db.query"] == want["db.query"] + len(c.of("db.query"))
        s.stop()
        assert stored(tmp_path / "store", "one") == len(a.spans) + len(c.spans) + 1
        check_store_commands(tmp_path, {"one": len(a.spans) + len(c.spans) + 1, "two": len(b.spans)})
    finally:
        if s.p.poll() is None:
            s.stop()


def test_size_is_limited(tmp_path):
    """Over the limit the oldest spans of the largest tenant go; those of the small one stay."""
    one, two = tokens_of(tmp_path)
    admin = token_of(SimpleNamespace(dir=tmp_path), "admin")
    s = Server(tmp_path, "--set", "traces.size=1MiB")
    try:
        small = [dict(trace=os.urandom(16), span=os.urandom(8), name="small", start=time.time_ns(), duration=1) for _ in range(100)]
        assert send_traces(s, trace_request(small), two)[0] == 200
        for i in range(24):
            many = [dict(trace=os.urandom(16), span=os.urandom(8), name=f"n{i}", start=time.time_ns(), duration=1) for _ in range(1000)]
            assert send_traces(s, trace_request(many), one)[0] == 200

        def size():
            return sum(f.stat().st_size for f in (tmp_path / "store/spans").rglob("*.spans"))

        wait_for(lambda: size() <= 1 << 20, why=lambda: f"{size()} bytes")
        names = {x["name"]: x["count"] for x in s.json("/api/v1/span_names", token=one)["spans"]}
        assert names["n23"] == 1000 and "n0" not in names and size() > 512 << 10
        assert s.json("/api/v1/span_names", token=two)["spans"][0]["count"] == 100
        assert b"wick_spans_total 24100" in s.get("/metrics", admin)[1]
    finally:
        s.stop()


def test_json_and_grpc(server):
    """The same spans by JSON and by gRPC; what has no ID is refused by a partial success. A name that an SDK made up is that of the program,
    as in its profiles."""
    grpc = pytest.importorskip("grpc")
    service = pytest.importorskip("opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc")
    start = time.time_ns()
    body = {"resourceSpans": [{"scopeSpans": [{"spans": [
        {"traceId": "0af7651916cd43dd8448eb211c80319c", "spanId": "b7ad6b7169203331", "name": "j\u00e9son", "kind": "SPAN_KIND_SERVER",
         "startTimeUnixNano": str(start), "endTimeUnixNano": str(start + 7000), "status": {"code": "STATUS_CODE_ERROR"}},
        {"name": "no IDs", "startTimeUnixNano": str(start)}]}]}],
    }
    body["resourceSpans"][0]["resource"] = {"attributes": [{"key": "service.name", "value": {"stringValue": "unknown_service:js"}}]}
    status, answer = send_traces(server, json.dumps(body).encode(), kind="application/json")
    assert status == 200 and json.loads(answer)["partialSuccess"]["rejectedSpans"] == "1"
    with grpc.insecure_channel(server.grpc) as channel:
        r = trace_request([dict(trace=b"g" * 16, span=b"g" * 8, name="rpc", start=start, duration=9)], "unknown_service:py")
        service.TraceServiceStub(channel).Export(r, timeout=30)
    got = {x["name"]: (x["service"], x["count"], x["errors"], x["max"]) for x in server.json("/api/v1/span_names")["spans"]}
    assert got == {"j\u00e9son": ("js", 1, 1, 7000), "rpc": ("py", 1, 0, 9)}
    for name in ("py", "unknown_service:py"):
        assert server.send(request([("main;work", 3, False)], name))[0] == 200
    assert [s["name"] for s in server.json("/api/v1/services")] == ["py"]
    assert send_traces(server, b"\x0a\xff")[0] == 400
    assert send_traces(server, b"[", kind="application/json")[0] == 400
    assert "error" not in log_of(server)


def sdk_exporter(server):
    """The SDK's own exporter where it is installed (make test-all); else one that encodes the SDK's spans here."""
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        return OTLPSpanExporter(endpoint=server.http + "/v1/traces")
    except ImportError:
        export = pytest.importorskip("opentelemetry.sdk.trace.export")

    class Exporter(export.SpanExporter):
        def export(self, spans):
            made = [dict(trace=s.context.trace_id.to_bytes(16, "big"), span=s.context.span_id.to_bytes(8, "big"), name=s.name,
                         parent=s.parent.span_id.to_bytes(8, "big") if s.parent else b"", start=s.start_time, kind="internal",
                         duration=s.end_time - s.start_time) for s in spans]
            attributes = spans[0].resource.attributes
            status, _ = send_traces(server, trace_request(made, attributes["service.name"], attributes["service.version"]))
            return export.SpanExportResult.SUCCESS if status == 200 else export.SpanExportResult.FAILURE

    return Exporter()


def test_sdk_exports_to_it(server):
    """The OpenTelemetry SDK of Python with its batch processor."""
    pytest.importorskip("opentelemetry.sdk.trace")
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor
    provider = TracerProvider(resource=Resource.create({"service.name": "pysdk", "service.version": "3"}))
    provider.add_span_processor(BatchSpanProcessor(sdk_exporter(server)))
    tracer = provider.get_tracer("t")
    for _ in range(5):
        with tracer.start_as_current_span("outer"):
            with tracer.start_as_current_span("inner") as inner:
                trace = f"{inner.get_span_context().trace_id:032x}"
    provider.shutdown()
    got = {x["name"]: x["count"] for x in server.json("/api/v1/span_names?service=pysdk")["spans"]}
    assert got == {"outer": 5, "inner": 5}
    shown = server.json(f"/api/v1/trace?trace_id={trace}")["spans"]
    assert [(s["name"], s["depth"], s["version"]) for s in shown] == [("outer", 0, "3"), ("inner", 1, "3")]


def test_link_out_and_pipeline(tmp_path):
    """traces.link appears with each span; a pipeline of the configuration keeps traces and passes them on."""
    (tmp_path / "peer").mkdir()
    peer = Server(tmp_path / "peer")
    (tmp_path / "wick.yaml").write_text(f"""
traces:
  link: https://jaeger.example.com/trace/{{trace_id}}?uiFind={{span_id}}
receivers:
  otlp/apps: {{protocols: {{http: {{endpoint: "127.0.0.1:{(port := free_port())}"}}}}}}
exporters:
  sink: {{}}
  otlp_http/next: {{endpoint: "{peer.http}"}}
service:
  pipelines:
    traces: {{receivers: [otlp/apps], exporters: [sink, otlp_http/next]}}
""")
    s = Server(tmp_path, "--config", str(tmp_path / "wick.yaml"))
    try:
        span = dict(trace=b"p" * 16, span=b"q" * 8, name="piped", start=time.time_ns(), duration=3)
        assert send_traces(s, trace_request([span]), base=f"http://127.0.0.1:{port}")[0] == 200
        for server in (s, peer):
            wait_for(lambda: server.json("/api/v1/span_names")["spans"], why="the span")
        shown = s.json(f"/api/v1/trace?trace_id={span['trace'].hex()}")["spans"][0]
        assert shown["link"] == f"https://jaeger.example.com/trace/{span['trace'].hex()}?uiFind={span['span'].hex()}"
        assert s.json("/api/v1/status")["traceLink"].endswith("{span_id}")
    finally:
        s.stop()
        peer.stop()


def test_wrong_questions(server):
    for path, word in (("span", "required"), ("span?span_name=x&slowest=200", "percentage"), ("trace", "trace_id"),
                       ("span_heatmap?rows=0", "rows"), ("flame?span_name=x&min_duration=soon", "min_duration"),
                       ("top?span_name=x&slowest=5&base_from=now-2h", "base"), ("span?span_name=x&children=maybe", "children"),
                       ("series?query=cpu&base_from=now-2h", "does not compare"), ("deploys?base_query=cpu", "does not compare")):
        status, body = server.get("/api/v1/" + path)
        assert status == 400 and word in body.decode(), (path, body)
    tools = json.loads(server.get("/mcp", data=b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}', headers={"Content-Type": "application/json"})[1])
    assert {"span", "trace", "span_names", "span_heatmap"} <= {t["name"] for t in tools["result"]["tools"]}


def test_traces_off(tmp_path):
    s = Server(tmp_path, "--set", "traces.enabled=false")
    try:
        assert send_traces(s, trace_request([dict(trace=b"p" * 16, span=b"q" * 8, name="x", start=1, duration=3)]))[0] == 404
        assert b"no traces are stored" in s.get("/api/v1/span?span_name=x")[1]
        assert s.json("/api/v1/span_names")["spans"] == []
    finally:
        s.stop()
