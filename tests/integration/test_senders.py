# SPDX-License-Identifier: Apache-2.0
"""What Pyroscope's senders do besides sending pprof: OTLP to port 4040, spans in labels, mutex and block profiles with the same sample
types, types of their own. The truth is what was sent."""
import json
import time
import urllib.parse

import pytest

from pyroscope_messages import CPU
from pyroscope_tools import pprof, push, querier
from wick_tools import SHOP, profiles_service, request

SPAN = "00000bac2a5ab0c7"


def flame_total(server, type_id, selector="{}", **fields):
    return int(querier(server, "SelectMergeStacktraces", profileTypeID=type_id, labelSelector=selector, **fields)
               .get("flamegraph", {}).get("total", 0))


def top_total(server, query):
    return server.json("/api/v1/top?query=" + urllib.parse.quote(query))["total"]


def test_otlp_on_the_api_port(server):
    r = request(SHOP)
    status, body = server.get("/v1development/profiles", data=r.SerializeToString(), headers={"Content-Type": "application/x-protobuf"})
    assert status == 200, body
    grpc = pytest.importorskip("grpc")
    name = "opentelemetry.proto.collector.profiles.v1development.profiles_service_pb2_grpc"
    stub = pytest.importorskip(name).ProfilesServiceStub
    with grpc.insecure_channel(server.url.removeprefix("http://").rstrip("/")) as channel:
        stub(channel).Export(request([("main;rpc", 8, False)], "bank"), timeout=30)
    assert top_total(server, "cpu") == 50 and profiles_service()


def test_spans_in_labels(server):
    for label in ("span_id", "profile_id"):
        push(server, pprof([("samples", "count"), ("cpu", "nanoseconds")],
                           [("main;a", [1, 10], {label: SPAN, "endpoint": "/cart"}), ("main;b", [2, 20], {})], ("cpu", "nanoseconds", 10)),
             service_name="go-" + label, __name__="process_cpu")
        selector = f'{{service_name="go-{label}"}}'
        assert flame_total(server, CPU, selector) == 30
        span = querier(server, "SelectMergeSpanProfile", profileTypeID=CPU, labelSelector=selector, spanSelector=[SPAN])["flamegraph"]
        assert int(span["total"]) == 10 and "b" not in span["names"]
    spans = server.json("/api/v1/spans?query=cpu")["spans"]
    assert sum(s["value"] for s in spans if s["spanId"] == SPAN) == 20
    assert "endpoint" in server.json("/api/v1/labels") and "span_id" not in server.json("/api/v1/labels")


def test_mutex_and_block_are_two_types(server):
    types = [("contentions", "count"), ("delay", "nanoseconds")]
    push(server, pprof(types, [("main;lock", [3, 30], {})], ("contentions", "count", 1)), service_name="go", __name__="mutex")
    push(server, pprof(types, [("main;wait", [5, 50], {})], ("contentions", "count", 1)), service_name="go", __name__="block")
    assert flame_total(server, "mutex:delay:nanoseconds:contentions:count") == 30
    assert flame_total(server, "mutex:contentions:count:contentions:count") == 3
    assert flame_total(server, "block:delay:nanoseconds:contentions:count") == 50
    assert flame_total(server, "block:contentions:count:contentions:count") == 5
    assert (top_total(server, "lock"), top_total(server, "block")) == (30, 50)
    ids = {t["ID"] for t in querier(server, "ProfileTypes")["profileTypes"]}
    assert {"mutex:delay:nanoseconds:contentions:count", "block:delay:nanoseconds:contentions:count"} <= ids


def test_ingest_tells_block_from_mutex(server):
    """As pyroscope-go sends both: a form with the names that the types are to be shown with."""
    types, now = [("contentions", "count"), ("delay", "nanoseconds")], int(time.time())
    for kind, value in (("mutex", 7), ("block", 11)):
        config = {"contentions": {"units": "lock_samples", "display-name": f"{kind}_count"},
                  "delay": {"units": "lock_nanoseconds", "display-name": f"{kind}_duration"}}
        parts = [("profile", pprof(types, [("main;x", [1, value], {})])), ("sample_type_config", json.dumps(config).encode())]
        body = b"".join(b'--X\r\nContent-Disposition: form-data; name="%s"; filename="f"\r\n\r\n%s\r\n' % (n.encode(), p) for n, p in parts)
        status, text = server.get(f"/ingest?name=go&from={now - 10}&until={now}&spyName=gospy", data=body + b"--X--\r\n",
                                  headers={"Content-Type": "multipart/form-data; boundary=X"})
        assert status == 200, text
    assert (top_total(server, "lock"), top_total(server, "block")) == (7, 11)


def test_types_keep_their_ids(server):
    own = "deadmans_switch:made_up:profilos:made_up:profilos"
    push(server, pprof([("made_up", "profilos")], [("func1;func2", [10], {})], ("made_up", "profilos", 1)), service_name="canary",
         __name__="deadmans_switch")
    assert own in {t["ID"] for t in querier(server, "ProfileTypes")["profileTypes"]}
    assert flame_total(server, own) == 10
    profile = querier(server, "SelectMergeProfile", profileTypeID=own, labelSelector="{}")
    text = profile["stringTable"]
    assert (text[int(profile["sampleType"][0]["type"])], text[int(profile["sampleType"][0]["unit"])]) == ("made_up", "profilos")


def test_refusals_are_seen_on_the_server(server):
    """What a sender does wrong is in the log once a minute for each peer, and in metrics by reason."""
    for _ in range(5):
        assert server.get("/v1development/profiles", data=b"\xff\xff", headers={"Content-Type": "application/x-protobuf"}, base=server.http)[0] == 400
    assert server.get("/push.v1.PusherService/Push", data=b"\xff\xff", headers={"Content-Type": "application/proto"})[0] == 400
    assert server.get("/ingest?name=x&format=nonsense", data=b"x")[0] == 415
    metrics = server.get("/metrics")[1].decode()
    assert 'wick_receiver_refused_requests_total{receiver="otlp",reason="malformed"} 5' in metrics
    assert 'wick_receiver_refused_requests_total{receiver="pyroscope",reason="malformed"} 1' in metrics
    assert 'wick_receiver_refused_requests_total{receiver="pyroscope",reason="unsupported"} 1' in metrics
    assert 'otelcol_receiver_refused_profile_samples{receiver="otlp",transport="http"} 5' in metrics
    log = (server.dir / "log").read_text()
    assert log.count("refused a request from 127.0.0.1") == 1


def unnamed(kind, unit, period, executable=None):
    """A profile of a process that does not declare service.name."""
    r = request([("main;work", 7, False)], "x")
    d, resource = r.dictionary, r.resource_profiles[0].resource
    del resource.attributes[:]
    if executable:
        resource.attributes.add(key="process.executable.name").value.string_value = executable
    profile = r.resource_profiles[0].scope_profiles[0].profiles[0]
    for value, (name, of) in ((profile.sample_type, (kind, unit)), (profile.period_type, period)):
        d.string_table.extend([name, of])
        value.type_strindex, value.unit_strindex = len(d.string_table) - 2, len(d.string_table) - 1
    profile.period = 10_000_000
    return r


@pytest.mark.parametrize("kind, unit, period, want", [
    ("itimer", "count", ("itimer", "ns"), "itimer:itimer:count:itimer:ns"), ("ctimer", "count", ("ctimer", "ns"), "ctimer:ctimer:count:ctimer:ns"),
    ("cpu", "nanoseconds", ("cpu", "nanoseconds"), CPU), ("samples", "count", ("cpu", "nanoseconds"), CPU)])
def test_types_and_services_without_a_name(server, kind, unit, period, want):
    """async-profiler's OTLP, and others without service.name: the type has the id, and the service the name, that Pyroscope gives
    (test_pyroscope_peer compares). A process that names its executable is a service of that name in wick."""
    assert server.send(unnamed(kind, unit, period))[0] == 200
    assert want in {t["ID"] for t in querier(server, "ProfileTypes")["profileTypes"]}
    assert querier(server, "LabelValues", name="service_name", matchers=["{}"])["names"] == ["unknown_service"]
    assert flame_total(server, want) == 7 * (10_000_000 if kind == "samples" else 1)
    assert server.send(unnamed(kind, unit, period, "java"))[0] == 200
    assert querier(server, "LabelValues", name="service_name", matchers=["{}"])["names"] == ["java", "unknown_service"]
