"""wick collector: receiving, processing and sending profiles, against grpcio and protobuf's own library."""
import json
import os
import random
import subprocess
import time

import grpc
import pytest
from collector_peer import (METHOD, ROOT, Collector, Sink, attributes_of, export, export_error, free_port, invalid,
                            otlp_receiver, pipeline, post, run, same, to_sink, wait_for, without_ids)
from google.protobuf import duration_pb2
from google.rpc import error_details_pb2, status_pb2
from opentelemetry.proto.collector.profiles.v1development import profiles_service_pb2 as svc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as trace_svc
from otlp_oracle import flatten, pb, random_request, to_json
from wick_tools import SHARED, some

PATH = "/v1development/profiles"


def request(seed, size=12):
    return random_request(random.Random(seed), size)


def as_data(m):
    return pb.ProfilesData.FromString(m.SerializeToString())


# --- through and through ---

def test_grpc_to_grpc(tmp_path):
    with Sink() as sink, Collector(tmp_path, pipeline(to_sink(sink))) as c:
        sent = [request(i) for i in range(8)]
        for i, m in enumerate(sent):
            export(c.grpc, m, compression=grpc.Compression.Gzip if i % 2 else None)
        wait_for(lambda: len(sink.requests) == len(sent))
        got = {str(flatten(without_ids(as_data(m)))) for m in sink.requests}
        assert got == {str(flatten(without_ids(m))) for m in sent}
        assert sink.metadata[0]["otlp-profiles-development-version"] == "1"
        assert sink.metadata[0]["user-agent"].startswith("wick/")
        items = sum(len(p.samples) for m in sent for r in m.resource_profiles for s in r.scope_profiles for p in s.profiles)
        assert c.metric("otelcol_receiver_accepted_profile_samples", transport="grpc") == items
        wait_for(lambda: c.metric("otelcol_exporter_sent_profile_samples") == items)
        assert c.metric("otelcol_exporter_queue_capacity", data_type="profiles") == 1000


@pytest.mark.parametrize("encoding", ["proto", "json"])
def test_http_both_ways(tmp_path, encoding):
    with Sink() as sink, Collector(tmp_path, pipeline(to_sink(sink))) as last:
        exporter = {"otlphttp": {"endpoint": last.http, "encoding": encoding}}
        with Collector(tmp_path, pipeline(exporter)) as c:
            m = request(1)
            assert post(c.http + PATH, m.SerializeToString())[0] == 200
            status, headers, body = post(c.http + PATH, json.dumps(to_json(m)).encode(), "application/json")
            assert (status, json.loads(body)) == (200, {"partialSuccess": {}})
            assert headers["content-type"] == "application/json"
            wait_for(lambda: len(sink.requests) == 2)
            for got in sink.requests:
                same(as_data(got), m)


def test_empty_profile_id_is_filled(tmp_path):
    m = request(3)
    for r in m.resource_profiles:
        for s in r.scope_profiles:
            for p in s.profiles:
                p.profile_id = b""
                p.time_unix_nano = 1
    with Sink() as sink, Collector(tmp_path, pipeline(to_sink(sink))) as c:
        export(c.grpc, m)
        export(c.grpc, m)
        wait_for(lambda: len(sink.requests) == 2)
        ids = [[p.profile_id for r in q.resource_profiles for s in r.scope_profiles for p in s.profiles]
               for q in sink.requests]
        assert ids[0] == ids[1] and all(len(i) == 16 and i != bytes(16) for i in ids[0])


# --- what is refused ---

def test_poison_fails_alone(tmp_path):
    with Sink() as sink, Collector(tmp_path, pipeline(to_sink(sink))) as c, grpc.insecure_channel(c.grpc) as channel:
        call = channel.unary_unary(METHOD)
        bad = request(1)
        bad.resource_profiles[0].scope_profiles[0].profiles[0].samples[0].stack_index = 1000000
        good = [call.future(request(i).SerializeToString()) for i in range(10)]
        poison = [call.future(b) for b in (bad.SerializeToString(), b"\xff\xff\xff", b"\x0a\x7fshort")]
        for f in good:
            f.result(20)
        for f in some(poison):
            with pytest.raises(grpc.RpcError) as e:
                f.result(20)
            assert e.value.code() == grpc.StatusCode.INVALID_ARGUMENT
            assert e.value.details(), "without a reason"
        wait_for(lambda: len(sink.requests) == 10)


def test_statuses(tmp_path):
    with Collector(tmp_path, pipeline({"nop": {}})) as c:
        m = request(1).SerializeToString()
        big = svc.ExportProfilesServiceRequest()
        big.dictionary.string_table.append("x" * (5 << 20))
        e = export_error(c.grpc, big)
        assert e.code() == grpc.StatusCode.RESOURCE_EXHAUSTED and "larger than max" in e.details()
        e = export_error(c.grpc, m, metadata=[("otlp-profiles-development-version", "2")])
        assert e.code() == grpc.StatusCode.INVALID_ARGUMENT
        assert e.details() == "otlp-profiles-development-version: '2' is not supported; supported: 1"
        export(c.grpc, m, metadata=[("otlp-profiles-development-version", "1")])
        assert export(c.grpc, b"") == svc.ExportProfilesServiceResponse()
        with grpc.insecure_channel(c.grpc) as channel:
            with pytest.raises(grpc.RpcError) as x:
                channel.unary_unary("/opentelemetry.proto.collector.trace.v1.TraceService/Export")(b"", timeout=20)
            assert x.value.code() == grpc.StatusCode.UNIMPLEMENTED
        assert post(c.http + "/v1/other", m)[0] == 404
        assert post(c.http + "/v1/traces", m)[0] == 404
        assert post(c.http + PATH, m, "text/plain")[0] == 415
        status, headers, body = post(c.http + PATH, b"{bad", "application/json")
        assert status == 400 and headers["content-type"] == "application/json" and json.loads(body)["code"] == 3
        status, headers, body = post(c.http + PATH, b"\xff")
        assert status == 400 and headers["content-type"] == "application/x-protobuf"
        assert status_pb2.Status.FromString(body).code == 3
        assert post(c.http + PATH, m, content_encoding="br")[0] == 400
        assert subprocess.run(["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", c.http + PATH],
                              capture_output=True, text=True).stdout == "405"
        (tmp_path / "big").write_bytes(bytes(21 << 20))  # curl reads an answer that comes before all is sent
        p = subprocess.run(["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "-H", "content-type: application/x-protobuf",
                            "--data-binary", f"@{tmp_path}/big", c.http + PATH], capture_output=True, text=True)
        assert p.stdout == "413"


@pytest.mark.parametrize("name", ["G2", "G4"])
def test_older_generations_are_named(tmp_path, name):
    with Collector(tmp_path, pipeline({"nop": {}})) as c:
        e = export_error(c.grpc, (ROOT / f"tests/data/otlp/generations/{name}.pb").read_bytes())
        assert e.code() == grpc.StatusCode.INVALID_ARGUMENT and "opentelemetry-proto 1." in e.details()


# --- the sending queue ---

def with_status(code, retry_s=None):
    def answer(context):
        if retry_s is not None:
            st = status_pb2.Status(code=code.value[0], message="later")
            info = error_details_pb2.RetryInfo(retry_delay=duration_pb2.Duration(nanos=int(retry_s * 1e9)))
            st.details.add().Pack(info)
            context.set_trailing_metadata((("grpc-status-details-bin", st.SerializeToString()),))
        context.abort(code, "later")
    return answer


FAST = {"retry_on_failure": {"initial_interval": "50ms", "max_interval": "100ms"}}


def test_retries(tmp_path):
    with Sink(answers=[with_status(grpc.StatusCode.UNAVAILABLE), with_status(grpc.StatusCode.RESOURCE_EXHAUSTED, 0.3),
                       with_status(grpc.StatusCode.ABORTED)]) as sink:
        with Collector(tmp_path, pipeline(to_sink(sink, **FAST))) as c:
            start = time.monotonic()
            export(c.grpc, request(1))
            wait_for(lambda: sink.requests)
            assert time.monotonic() - start > 0.3, "RetryInfo was not kept to"
            same(as_data(sink.requests[0]), request(1))


@pytest.mark.parametrize("code", [grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.RESOURCE_EXHAUSTED])
def test_permanent_errors_are_not_retried(tmp_path, code):
    with Sink(answers=[with_status(code)]) as sink, Collector(tmp_path, pipeline(to_sink(sink, **FAST))) as c:
        export(c.grpc, request(1))
        wait_for(lambda: c.metric("otelcol_exporter_send_failed_profile_samples"))
        export(c.grpc, request(2))
        wait_for(lambda: len(sink.requests) == 1)
        same(as_data(sink.requests[0]), request(2))


def test_without_queue_the_sender_hears(tmp_path):
    off = {"sending_queue": {"enabled": False}}
    with Sink(answers=[with_status(grpc.StatusCode.INVALID_ARGUMENT)]) as sink:
        with Collector(tmp_path, pipeline(to_sink(sink, **off, **FAST))) as c:
            e = export_error(c.grpc, request(1))
            assert e.code() == grpc.StatusCode.INVALID_ARGUMENT and "later" in e.details()
            export(c.grpc, request(1))
            assert len(sink.requests) == 1


def test_full_queue_refuses(tmp_path):
    port = free_port()  # nobody listens there
    exporter = {"otlp": {"endpoint": f"127.0.0.1:{port}", "tls": {"insecure": True},
                         "sending_queue": {"queue_size": 2, "num_consumers": 1}}}
    with Collector(tmp_path, pipeline(exporter)) as c:
        codes = []
        for i in range(6):
            try:
                export(c.grpc, request(i))
                codes.append(None)
            except grpc.RpcError as e:
                codes.append(e.code())
        assert codes[:2] == [None, None] and codes[-1] == grpc.StatusCode.UNAVAILABLE
        assert post(c.http + PATH, request(1).SerializeToString())[0] == 503
        assert c.metric("otelcol_exporter_enqueue_failed_profile_samples") > 0
        assert c.metric("otelcol_receiver_refused_profile_samples") > 0
        c.kill()


def test_partial_success_is_not_retried(tmp_path):
    def partial(_):
        r = svc.ExportProfilesServiceResponse()
        r.partial_success.rejected_profiles = 1
        r.partial_success.error_message = "one was odd"
        return r
    with Sink(answers=[partial]) as sink, Collector(tmp_path, pipeline(to_sink(sink, **FAST))) as c:
        export(c.grpc, request(1))
        wait_for(lambda: "one was odd" in c.log())
        export(c.grpc, request(2))
        wait_for(lambda: len(sink.requests) == 1)


def persistent(tmp_path, sink_port, **queue):
    exporters = {"otlp": {"endpoint": f"127.0.0.1:{sink_port}", "tls": {"insecure": True}, **FAST,
                          "sending_queue": {"storage": "file_storage", **queue}}}
    return pipeline(exporters, processors={"batch": {"timeout": "60s"}},
                    extensions={"file_storage": {"directory": str(tmp_path / "queue")}})


def test_kill_9_loses_nothing(tmp_path):
    port = free_port()
    sent = [request(i) for i in range(20)]
    c = Collector(tmp_path, persistent(tmp_path, port))
    for m in sent[:10]:
        export(c.grpc, m)
    c.kill()
    c = Collector(tmp_path, persistent(tmp_path, port))
    for m in sent[10:]:
        export(c.grpc, m)
    assert c.metric("otelcol_exporter_queue_size") == 20
    c.kill()
    want = sum(len(p.samples) for m in sent for r in m.resource_profiles for s in r.scope_profiles for p in s.profiles)
    config = persistent(tmp_path, port)
    config["processors"]["batch"]["timeout"] = "100ms"
    with Sink(port=port) as sink, Collector(tmp_path, config) as c:
        wait_for(lambda: sink.samples() >= want)
        wait_for(lambda: c.metric("otelcol_exporter_queue_size") == 0)
        assert sink.samples() == want
        assert len(sink.requests) < 20, "nothing was batched"
        got = sorted(str(x) for m in sink.requests for x in flatten(without_ids(as_data(m))))
        assert got == sorted(str(x) for m in sent for x in flatten(without_ids(m)))
    with Sink(port=port) as sink, Collector(tmp_path, config):
        time.sleep(0.3)
        assert not sink.requests, "sent again"


def test_batch_merges(tmp_path):
    processors = {"batch": {"timeout": "60s", "send_batch_size": 40}}
    with Sink() as sink, Collector(tmp_path, pipeline(to_sink(sink), processors)) as c:
        sent = [request(i, 4) for i in range(12)]
        for m in sent:
            export(c.grpc, m)
        c.stop()  # drains
        assert 0 < len(sink.requests) < 12
        got = sorted(str(x) for m in sink.requests for x in flatten(without_ids(as_data(m))))
        assert got == sorted(str(x) for m in sent for x in flatten(without_ids(m)))


def test_batch_max_size(tmp_path):
    processors = {"batch": {"timeout": "50ms", "send_batch_size": 5, "send_batch_max_size": 5}}
    with Sink() as sink, Collector(tmp_path, pipeline(to_sink(sink), processors)) as c:
        m = request(5, 40)
        want = sum(len(p.samples) for r in m.resource_profiles for s in r.scope_profiles for p in s.profiles)
        export(c.grpc, m)
        wait_for(lambda: sink.samples() == want)
        for q in some(sink.requests):
            assert sum(len(p.samples) for r in q.resource_profiles for s in r.scope_profiles for p in s.profiles) <= 5


def large_request(samples=120000):
    m = svc.ExportProfilesServiceRequest()
    d = m.dictionary
    d.string_table.extend(["", "samples", "count"])
    d.mapping_table.add()
    d.location_table.add()
    d.function_table.add()
    d.link_table.add()
    d.attribute_table.add()
    d.stack_table.add()
    for i in range(2000):
        d.string_table.append(f"function_{i}_" + "x" * 40)
        d.function_table.add(name_strindex=i + 3)
        d.location_table.add(address=i + 1).lines.add(function_index=i + 1, line=i)
        d.stack_table.add().location_indices.extend([i + 1, (i * 7) % 2000 + 1])
    p = m.resource_profiles.add().scope_profiles.add().profiles.add(time_unix_nano=1)
    p.sample_type.type_strindex, p.sample_type.unit_strindex = 1, 2
    for i in range(samples):
        s = p.samples.add(stack_index=i % 2000 + 1)
        s.values.append(i)
        s.timestamps_unix_nano.extend([i * 3, ])
    return m


def test_requests_are_split_below_4_mib(tmp_path):
    m = large_request(250000)
    assert m.ByteSize() > 4 << 20
    with Sink() as sink, Collector(tmp_path, pipeline(to_sink(sink))) as c:  # grpcio's own limit is 4 MiB
        assert post(c.http + PATH, m.SerializeToString())[0] == 200
        wait_for(lambda: sink.samples() == 250000)
        assert len(sink.requests) > 1
        assert sum(s.values[0] for q in sink.requests for s in q.resource_profiles[0].scope_profiles[0].profiles[0].samples) == \
            sum(range(250000))


def test_shutdown_drains(tmp_path):
    with Sink() as sink, Collector(tmp_path, pipeline(to_sink(sink), {"batch": {"timeout": "1h"}})) as c:
        for i in range(5):
            export(c.grpc, request(i))
        assert not sink.requests
        assert c.stop() == 0
        assert sink.requests


# --- other signals ---

def test_traces_pass_through(tmp_path):
    t = trace_svc.ExportTraceServiceRequest()
    spans = t.resource_spans.add().scope_spans.add().spans
    for i in range(3):
        spans.add(name=f"span {i}", trace_id=bytes(16), span_id=bytes(8))
    path = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
    with Collector(tmp_path, pipeline({"debug": {}}, signal_name="traces")) as last:
        exporters = {"otlp": {"endpoint": last.grpc, "tls": {"insecure": True}}, "otlphttp": {"endpoint": last.http}}
        with Collector(tmp_path, pipeline(exporters, signal_name="traces")) as c, grpc.insecure_channel(c.grpc) as channel:
            channel.unary_unary(path)(t.SerializeToString(), timeout=20)
            assert post(c.http + "/v1/traces", t.SerializeToString())[0] == 200
            assert post(c.http + "/v1/traces", b"\xff\xff")[0] == 400
            wait_for(lambda: last.metric("otelcol_receiver_accepted_spans") == 12)
            assert c.metric("otelcol_receiver_accepted_spans", transport="http") == 3


# --- configuration ---

SEED = """
receivers:
  otlp:
    protocols:
      grpc:
        endpoint: 0.0.0.0:4317
      http:
        endpoint: 0.0.0.0:4318

processors:
  batch:
    timeout: 10s
    send_batch_size: 100
  resource:
    attributes:
      - key: deployment.environment
        value: production
        action: upsert

exporters:
  otlp/profiles:
    endpoint: https://oneuptime.com/otlp
    headers:
      Authorization: "Bearer your-api-key"

service:
  pipelines:
    profiles:
      receivers: [otlp]
      processors: [batch, resource]
      exporters: [otlp/profiles]
"""


def seed_config():
    """The documentation's example as it stands."""
    for f in sorted((SHARED / "seeds").glob("001*")):
        text = f.read_text()
        start = text.index("# otel-collector-config.yaml")
        return text[start:text.index("```", start)]
    return SEED


def certificate(tmp_path):
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                    "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1",
                    "-keyout", tmp_path / "key.pem", "-out", tmp_path / "cert.pem"], check=True, capture_output=True)
    return (tmp_path / "key.pem").read_bytes(), (tmp_path / "cert.pem").read_bytes()


def test_the_example_runs(tmp_path):
    """Over TLS with the system's certificates (one of them ours), only the endpoint changed, and ports that are free."""
    assert yaml_like(seed_config()) == yaml_like(SEED)
    pair = certificate(tmp_path)
    with Sink(credentials=grpc.ssl_server_credentials([pair])) as sink:
        text = seed_config().replace("https://oneuptime.com/otlp", f"https://localhost:{sink.port}/otlp")
        args = ["--set", "receivers.otlp.protocols.grpc.endpoint=127.0.0.1:0",
                "--set", "receivers.otlp.protocols.http.endpoint=127.0.0.1:0",
                "--set", "service.telemetry.metrics.level=none"]
        with Collector(tmp_path, text, args, env={"SSL_CERT_FILE": str(tmp_path / "cert.pem")}) as c:
            m = request(1, 60)
            for _ in range(10):
                export(c.grpc, m)
            wait_for(lambda: sink.requests)
            assert sink.metadata[0]["authorization"] == "Bearer your-api-key"
            for r in some(sink.requests[0].resource_profiles):
                attrs = {kv.key: kv.value.string_value for kv in r.resource.attributes}
                assert attrs["deployment.environment"] == "production"


def yaml_like(text):
    return [line.split("#")[0].rstrip() for line in text.splitlines() if line.split("#")[0].strip()]


OK = """receivers: {otlp: {protocols: {grpc: }}}
exporters: {nop: }
service:
  pipelines:
    profiles: {receivers: [otlp], exporters: [nop]}
"""


def test_validate(tmp_path):
    (tmp_path / "c.yaml").write_text(OK)
    assert run("validate", "--config", tmp_path / "c.yaml", "--feature-gates=service.profilesSupport").returncode == 0
    where = f"{tmp_path}/c.yaml"
    assert f"{where}:1:20: unknown key 'protocol'; did you mean 'protocols'?" in invalid(tmp_path, OK.replace("protocols", "protocol"))
    assert f"{where}:2:19: wick has no exporter 'nopp'; did you mean 'nop'?" in invalid(tmp_path, OK.replace("{nop:", "{nopp:"))
    assert f"{where}:5" in (m := invalid(tmp_path, OK.replace("exporters: [nop]", "exporters: [otlp/x]"))) and \
        'references exporter "otlp/x" which is not configured' in m
    assert "must have at least one exporter" in invalid(tmp_path, OK.replace("exporters: [nop]", "exporters: []"))
    assert "unknown key 'recievers'; did you mean 'receivers'" in invalid(tmp_path, OK.replace("receivers: {otlp:", "recievers: {otlp:"))
    assert "profiles, traces, metrics or logs" in invalid(tmp_path, OK.replace("profiles:", "profile:"))
    assert run("validate").returncode == 2
    assert run("validate", "--config", tmp_path / "missing.yaml").returncode == 1


def test_lenient(tmp_path):
    text = OK.replace("exporters: {nop: }", "processors: {probabilistic_sampler: {hash_seed: 22}, batch: }\nexporters: {nop: }") \
        .replace("exporters: [nop]}", "exporters: [nop], processors: [probabilistic_sampler, batch]}") + \
        "    traces: {receivers: [otlp], processors: [batch], exporters: [nop]}\n"
    assert "wick has no processor 'probabilistic_sampler'" in invalid(tmp_path, text)
    p = run("validate", "--lenient", "--config", tmp_path / "c.yaml")
    assert p.returncode == 0, p.stderr
    assert p.stderr.count("probabilistic_sampler") == 1


def test_print_config(tmp_path):
    (tmp_path / "c.yaml").write_text(SEED)
    p = run("print-config", "--config", tmp_path / "c.yaml", "--config", "yaml:exporters::otlp/profiles::timeout: 9s",
            "--set", "processors.batch.send_batch_size=${env:SIZE:-77}", env={**os.environ, "SIZE": ""})
    assert p.returncode == 0, p.stderr
    assert "[REDACTED]" in p.stdout and "your-api-key" not in p.stdout
    assert "timeout: 9s" in p.stdout and "send_batch_size: 77" in p.stdout and "queue_size: 1000" in p.stdout
    (tmp_path / "again.yaml").write_text(p.stdout)
    assert run("validate", "--config", tmp_path / "again.yaml").returncode == 0, "what it prints is no configuration"
    assert "your-api-key" in run("print-config", "--mode=unredacted", "--config", tmp_path / "c.yaml").stdout


def test_components(tmp_path):
    p = run("components")
    assert p.returncode == 0 and "name: otlphttp" in p.stdout and "also: otlp_http" in p.stdout
    p = run("components", "batch")
    assert "send_batch_size (number, default 8192)" in p.stdout
    assert run("components", "nonsense").returncode == 1


# --- processors ---

def test_resource_actions(tmp_path):
    import hashlib
    m = svc.ExportProfilesServiceRequest()
    m.dictionary.string_table.append("")
    r = m.resource_profiles.add()
    r.scope_profiles.add().profiles.add().samples.add().values.append(1)
    for k, v in [("a", "1"), ("b", "two"), ("mail", "x@y.z"), ("secret.one", "s"), ("secret.two", "t"), ("num", "42")]:
        r.resource.attributes.add(key=k).value.string_value = v
    actions = [
        {"key": "a", "value": "no", "action": "insert"},
        {"key": "new", "value": 7, "action": "insert"},
        {"key": "b", "value": True, "action": "update"},
        {"key": "absent", "value": "x", "action": "update"},
        {"key": "up", "value": 1.5, "action": "upsert"},
        {"key": "copy", "from_attribute": "a", "action": "upsert"},
        {"key": "tenant", "from_context": "metadata.x-tenant", "action": "upsert"},
        {"key": "dflt", "from_attribute": "nobody", "default_value": "d", "action": "upsert"},
        {"key": "mail", "action": "hash"},
        {"pattern": "^secret", "action": "delete"},
        {"key": "b2", "value": "user-7", "action": "insert"},
        {"key": "b2", "pattern": "^(?P<kind>[a-z]+)-(?P<nr>\\d+)$", "action": "extract"},
        {"key": "num", "action": "convert", "converted_type": "int"},
        {"key": "client", "from_context": "client.address", "action": "upsert"},
    ]
    receivers = otlp_receiver()
    receivers["otlp"]["protocols"]["grpc"]["include_metadata"] = True
    with Sink() as sink, Collector(tmp_path, pipeline(to_sink(sink), {"resource": {"attributes": actions}}, receivers)) as c:
        export(c.grpc, m, metadata=[("x-tenant", "blue")])
        wait_for(lambda: sink.requests)
        assert attributes_of(sink.requests[0]) == [{
            "a": "1", "new": 7, "b": True, "up": 1.5, "copy": "1", "tenant": "blue", "dflt": "d",
            "mail": hashlib.sha256(b"x@y.z").hexdigest(), "b2": "user-7", "kind": "user", "nr": "7", "num": 42,
            "client": "127.0.0.1"}]


def test_memory_limiter_refuses(tmp_path):
    processors = {"memory_limiter": {"check_interval": "1s", "limit_mib": 1}}
    with Collector(tmp_path, pipeline({"nop": {}}, processors)) as c:
        e = export_error(c.grpc, request(1))
        assert e.code() == grpc.StatusCode.UNAVAILABLE and "memory" in e.details()
        status, headers, _ = post(c.http + PATH, request(1).SerializeToString())
        assert status == 503 and int(headers["retry-after"]) >= 1


# --- who may come in ---

def test_authentication(tmp_path):
    receivers = otlp_receiver(auth={"authenticator": "basicauth"})
    receivers["otlp"]["protocols"]["grpc"]["auth"] = {"authenticator": "bearertokenauth"}
    extensions = {"bearertokenauth": {"token": "sesame"}, "basicauth": {"htpasswd": {"inline": "ann:pw\n"}}}
    m = request(1)
    with Collector(tmp_path, pipeline({"nop": {}}, receivers=receivers, extensions=extensions)) as c:
        assert export_error(c.grpc, m).code() == grpc.StatusCode.UNAUTHENTICATED
        assert export_error(c.grpc, m, metadata=[("authorization", "Bearer wrong")]).code() == grpc.StatusCode.UNAUTHENTICATED
        export(c.grpc, m, metadata=[("authorization", "Bearer sesame")])
        assert post(c.http + PATH, m.SerializeToString())[0] == 401
        assert post(c.http + PATH, m.SerializeToString(), authorization="Basic YW5uOnB3")[0] == 200
        exporters = {"otlp": {"endpoint": c.grpc, "tls": {"insecure": True}, "auth": {"authenticator": "bearertokenauth"}},
                     "otlphttp": {"endpoint": c.http, "auth": {"authenticator": "basicauth/client"}}}
        extensions = {"bearertokenauth": {"token": "sesame"},
                      "basicauth/client": {"client_auth": {"username": "ann", "password": "pw"}}}
        with Collector(tmp_path, pipeline(exporters, extensions=extensions)) as first:
            export(first.grpc, m)
            items = 2 * first.metric("otelcol_receiver_accepted_profile_samples")
            wait_for(lambda: first.metric("otelcol_exporter_sent_profile_samples") == items)


def test_who_was_let_in_becomes_an_attribute(tmp_path):
    receivers = otlp_receiver(auth={"authenticator": "basicauth"})
    receivers["otlp"]["protocols"]["http"]["include_metadata"] = True
    processors = {"resource": {"attributes": [{"key": "enduser.id", "from_context": "auth.username", "action": "upsert"},
                                              {"key": "agent", "from_context": "metadata.x-agent", "action": "upsert"}]}}
    m = svc.ExportProfilesServiceRequest()
    m.dictionary.string_table.append("")
    m.resource_profiles.add().scope_profiles.add().profiles.add().samples.add().values.append(1)
    with Sink() as sink, Collector(tmp_path, pipeline(to_sink(sink), receivers=receivers, processors=processors,
                                                      extensions={"basicauth": {"htpasswd": {"inline": "ann:pw\n"}}})) as c:
        headers = {"authorization": "Basic YW5uOnB3", "x-agent": "a1", "auth.username": "eve"}
        assert post(c.http + PATH, m.SerializeToString(), **headers)[0] == 200
        wait_for(lambda: len(sink.requests) == 1)
        got = {a.key: a.value.string_value for a in sink.requests[0].resource_profiles[0].resource.attributes}
        assert got == {"enduser.id": "ann", "agent": "a1"}


def test_json_traces_need_http(tmp_path):
    """What is passed through opaque stays as it is encoded: JSON goes on over HTTP, and over gRPC it is refused in words."""
    body = b'{"resourceSpans":[{"scopeSpans":[{"spans":[{"name":"s"}]}]}]}'
    with Collector(tmp_path, pipeline({"debug": {}}, signal_name="traces")) as last:
        off = {"sending_queue": {"enabled": False}, "retry_on_failure": {"enabled": False}}
        exporters = {"otlphttp": {"endpoint": last.http, **off}}
        with Collector(tmp_path, pipeline(exporters, signal_name="traces")) as c:
            assert post(c.http + "/v1/traces", body, "application/json")[0] == 200
        exporters = {"otlp": {"endpoint": last.grpc, "tls": {"insecure": True}, **off}}
        with Collector(tmp_path, pipeline(exporters, signal_name="traces")) as c:
            status, _, answer = post(c.http + "/v1/traces", body, "application/json")
            assert status == 400 and b"otlphttp" in answer


def test_processors_of_other_signals_are_named(tmp_path):
    text = OK.replace("exporters: {nop: }", "processors: {batch: , resource: {attributes: [{key: a, value: b, action: insert}]}, memory_limiter: {check_interval: 1s, limit_mib: 100}}\nexporters: {nop: }")
    for signal_name in ("traces", "metrics", "logs"):
        for name in ("batch", "resource"):
            p = text + f"    {signal_name}: {{receivers: [otlp], processors: [{name}], exporters: [nop]}}\n"
            assert f"service::pipelines::{signal_name}: wick's processor '{name}' does not support {signal_name}" in invalid(tmp_path, p)
            run_lenient = run("validate", "--lenient", "--config", tmp_path / "c.yaml")
            assert run_lenient.returncode == 0 and run_lenient.stderr.count(f"skipping processor '{name}' in pipeline {signal_name}") == 1
        ok = text + f"    {signal_name}: {{receivers: [otlp], processors: [memory_limiter], exporters: [nop]}}\n"
        (tmp_path / "c.yaml").write_text(ok)
        assert run("validate", "--config", tmp_path / "c.yaml").returncode == 0


def test_health_check(tmp_path):
    config = pipeline({"nop": {}}, extensions={"health_check": {"endpoint": "127.0.0.1:0"}})
    with Collector(tmp_path, config) as c:
        p = subprocess.run(["curl", "-s", f"http://127.0.0.1:{c.ports('health_check')[0]}/"], capture_output=True, text=True)
        assert json.loads(p.stdout)["status"] == "Server available"


def test_certificates_are_read_again(tmp_path):
    """TLS and client certificates on the receiver; a new certificate is used without a restart."""
    import socket
    import ssl
    key, cert = certificate(tmp_path)
    receivers = otlp_receiver()
    tls = {"cert_file": str(tmp_path / "cert.pem"), "key_file": str(tmp_path / "key.pem"), "reload_interval": "50ms"}
    receivers["otlp"]["protocols"]["grpc"]["tls"] = tls

    def serial(port):
        with socket.create_connection(("127.0.0.1", port)) as s:
            context = ssl.create_default_context()
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            context.set_alpn_protocols(["h2"])
            with context.wrap_socket(s) as t:
                assert t.selected_alpn_protocol() == "h2"
                return t.getpeercert(True)

    with Collector(tmp_path, pipeline({"nop": {}}, receivers=receivers)) as c:
        port = c.ports("otlp")[0]
        with grpc.secure_channel(f"localhost:{port}", grpc.ssl_channel_credentials(cert)) as channel:
            channel.unary_unary(METHOD)(request(1).SerializeToString(), timeout=20)
        before = serial(port)
        certificate(tmp_path)
        wait_for(lambda: serial(port) != before)


def test_mutual_tls_between_collectors(tmp_path):
    certificate(tmp_path)
    files = {"cert_file": str(tmp_path / "cert.pem"), "key_file": str(tmp_path / "key.pem")}
    receivers = otlp_receiver(tls={**files, "client_ca_file": str(tmp_path / "cert.pem")})
    receivers["otlp"]["protocols"]["grpc"]["tls"] = {**files, "client_ca_file": str(tmp_path / "cert.pem")}
    with Sink() as sink, Collector(tmp_path, pipeline(to_sink(sink), receivers=receivers)) as last:
        ports = last.ports("otlp")
        with_cert = {"ca_file": str(tmp_path / "cert.pem"), **files}
        exporters = {"otlp": {"endpoint": f"localhost:{ports[0]}", "tls": with_cert},
                     "otlphttp": {"endpoint": f"https://localhost:{ports[1]}", "tls": with_cert},
                     "otlp/nobody": {"endpoint": f"localhost:{ports[0]}", "tls": {"ca_file": str(tmp_path / "cert.pem")},
                                     "retry_on_failure": {"enabled": False}}}
        with Collector(tmp_path, pipeline(exporters)) as c:
            export(c.grpc, request(1))
            wait_for(lambda: len(sink.requests) == 2)
            wait_for(lambda: c.metric("otelcol_exporter_send_failed_profile_samples", exporter="otlp/nobody"))
            assert len(sink.requests) == 2
