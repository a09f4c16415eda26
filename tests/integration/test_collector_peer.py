"""wick between two real Collectors, and a real Collector between two wicks: what comes out is what went in."""
import json
import subprocess
import time

import pytest
import random
from collector_peer import Collector, Peer, Sink, build_peer, export, free_port, pipeline, to_sink, wait_for, without_ids
from otlp_oracle import flatten, random_request
from wick_tools import SHARED

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def peer(tmp_path_factory):
    return build_peer(tmp_path_factory.mktemp("peer"))


def requests():
    sent = [random_request(random.Random(100 + i), 20) for i in range(6)]
    for name in ("ebpf-profiler-1-small.pb", "ebpf-profiler-2.pb", "synthetic-tiny-refs.pb", "pdata-v0.164/synthetic-tiny.refs.pb",
                 "pdata-v0.164/ebpf-profiler-2.refs.pb", "from-pprof/java.cpu.otlp.pb"):
        f = SHARED / "fixtures/otlp" / name
        if f.exists():
            sent.append(type(sent[0]).FromString(f.read_bytes()))
    return sent


def check(sink, sent):
    wait_for(lambda: len(sink.requests) >= len(sent), 60)
    got = sorted(str(flatten(without_ids(m))) for m in sink.requests)
    assert got == sorted(str(flatten(without_ids(m))) for m in sent)


def no_references(m):
    """Collectors before 0.163 do not understand references in resource attributes; wick sends them resolved."""
    return not any(kv.key_strindex for r in m.resource_profiles for kv in r.resource.attributes)


@pytest.mark.parametrize("wire", ["grpc", "http", "json"])
def test_collector_wick_collector(peer, tmp_path, wire):
    sent = [m for m in requests() if no_references(m)]
    with Sink() as sink, Peer(peer, tmp_path, {"otlp_grpc": {"endpoint": sink.endpoint, "tls": {"insecure": True}}}) as last:
        out = {"otlp": {"endpoint": last.grpc, "tls": {"insecure": True}}} if wire == "grpc" else \
            {"otlphttp": {"endpoint": last.http, "encoding": "json" if wire == "json" else "proto"}}
        with Collector(tmp_path, pipeline(out)) as wick:
            into = {"otlp_grpc": {"endpoint": wick.grpc, "tls": {"insecure": True}}} if wire == "grpc" else \
                {"otlp_http": {"endpoint": wick.http, "encoding": "json" if wire == "json" else "proto"}}
            with Peer(peer, tmp_path, into) as first:
                for m in sent:
                    export(first.grpc, m)
                check(sink, sent)


@pytest.mark.parametrize("compression", ["gzip", "zstd", "none"])
def test_wick_collector_wick(peer, tmp_path, compression):
    sent = requests()
    with Sink() as sink, Collector(tmp_path, pipeline(to_sink(sink))) as last:
        with Peer(peer, tmp_path, {"otlp_grpc": {"endpoint": last.grpc, "tls": {"insecure": True}, "compression": compression}}) as middle:
            first_out = {"otlp": {"endpoint": middle.grpc, "tls": {"insecure": True}, "compression": compression}}
            with Collector(tmp_path, pipeline(first_out)) as first:
                for m in sent:
                    export(first.grpc, m)
                check(sink, sent)


def test_references_between_wicks(tmp_path):
    """The other encoding of attributes, which Collectors since 0.163 send."""
    sent = requests()
    with Sink() as sink, Collector(tmp_path, pipeline(to_sink(sink))) as last:
        out = {"otlp": {"endpoint": last.grpc, "tls": {"insecure": True}, "attribute_references": True}}
        with Collector(tmp_path, pipeline(out)) as first:
            for m in sent:
                export(first.grpc, m)
            check(sink, sent)


def test_retry_through_the_collector(peer, tmp_path):
    """A Collector that is not there yet: what was acknowledged arrives when it comes."""
    port = free_port()
    with Sink() as sink:
        out = {"otlp": {"endpoint": f"127.0.0.1:{port}", "tls": {"insecure": True},
                        "retry_on_failure": {"initial_interval": "100ms", "max_interval": "200ms"}}}
        with Collector(tmp_path, pipeline(out)) as wick:
            sent = [random_request(random.Random(7), 9)]
            export(wick.grpc, sent[0])
            time.sleep(0.5)
            receivers = {"otlp": {"protocols": {"grpc": {"endpoint": f"127.0.0.1:{port}"}}}}
            peer_config = pipeline({"otlp_grpc": {"endpoint": sink.endpoint, "tls": {"insecure": True}}}, receivers=receivers)
            peer_config["service"]["telemetry"] = {"metrics": {"level": "none"}}
            (tmp_path / "late.yaml").write_text(json.dumps(peer_config))
            process = subprocess.Popen([peer, "run", "--feature-gates=service.profilesSupport", "--config", tmp_path / "late.yaml"],
                                       stderr=subprocess.DEVNULL)
            try:
                check(sink, sent)
            finally:
                process.terminate()
                process.wait(30)
