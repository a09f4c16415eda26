"""A running `wick collector` and the peers around it, for the tests of the pipeline."""
import json
import os
import re
import signal
import subprocess
import threading
import time
import urllib.error
import urllib.request
from concurrent import futures
from pathlib import Path

import grpc
import yaml_lite
from opentelemetry.proto.collector.profiles.v1development import profiles_service_pb2 as svc
from opentelemetry.proto.collector.profiles.v1development import profiles_service_pb2_grpc as svc_grpc
from otlp_oracle import flatten
from wick_tools import ROOT, SHARED, WICK_ASAN as WICK, free_port, wait_for  # noqa: F401

METHOD = "/opentelemetry.proto.collector.profiles.v1development.ProfilesService/Export"


class Collector:
    """wick collector with a config (a dict, or text); ports are found in its messages."""

    def __init__(self, tmp_path, config, args=(), env=None, binary=WICK, ready=True):
        self.log_path = tmp_path / f"collector-{time.monotonic_ns()}.log"
        path = tmp_path / f"config-{time.monotonic_ns()}.yaml"
        path.write_text(config if isinstance(config, str) else yaml_lite.dump(config))
        self.log_file = open(self.log_path, "wb")
        self.process = subprocess.Popen([binary, "collector", "--config", str(path), *args], stderr=self.log_file,
                                        stdout=self.log_file, env={**os.environ, **(env or {})})
        if ready:
            wait_for(lambda: "Everything is ready" in self.log() or self.process.poll() is not None)
            assert self.process.poll() is None, self.log()

    def log(self):
        return self.log_path.read_text(errors="replace")

    def ports(self, who):
        return [int(p) for p in re.findall(rf'{who}: listening on \S+ port=(\d+)', self.log())]

    @property
    def grpc(self):
        return f"127.0.0.1:{self.ports('otlp')[0]}"

    @property
    def http(self):
        return f"http://127.0.0.1:{self.ports('otlp')[-1]}"

    def metric(self, name, **labels):
        text = urllib.request.urlopen(f"http://127.0.0.1:{self.ports('metrics')[0]}/metrics", timeout=10).read().decode()
        total = None
        for line in text.splitlines():
            m = re.fullmatch(rf'{name}(?:\{{(.*)\}})? (\S+)', line)
            if m and all(f'{k}="{v}"' in (m.group(1) or "") for k, v in labels.items()):
                total = (total or 0) + float(m.group(2))
        return total

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.log_file.close()

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(60)
        self.log_file.close()
        text = self.log()
        assert "AddressSanitizer" not in text and "runtime error" not in text and "LeakSanitizer" not in text, text
        return code

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if self.process.poll() is None:
            if kind:
                print(self.log())
                self.kill()
            else:
                assert self.stop() == 0, self.log()


class Sink(svc_grpc.ProfilesServiceServicer):
    """A gRPC peer that keeps what it gets. `answers` scripts the first answers: each a function of the context."""

    def __init__(self, port=0, answers=(), max_message=None, credentials=None):
        self.requests, self.metadata, self.answers = [], [], list(answers)
        self.lock = threading.Lock()
        options = [("grpc.max_receive_message_length", max_message)] if max_message else []
        self.server = grpc.server(futures.ThreadPoolExecutor(4), options=options)
        svc_grpc.add_ProfilesServiceServicer_to_server(self, self.server)
        address = f"127.0.0.1:{port}"
        self.port = self.server.add_secure_port(address, credentials) if credentials else \
            self.server.add_insecure_port(address)
        assert self.port
        self.server.start()

    def Export(self, request, context):
        with self.lock:
            self.metadata.append(dict(context.invocation_metadata()))
            answer = self.answers.pop(0) if self.answers else None
            if answer is None:
                self.requests.append(request)
        if answer is not None:
            return answer(context)
        return svc.ExportProfilesServiceResponse()

    @property
    def endpoint(self):
        return f"127.0.0.1:{self.port}"

    def samples(self):
        with self.lock:
            return sum(len(p.samples) for q in self.requests for r in q.resource_profiles for s in r.scope_profiles
                       for p in s.profiles)

    def close(self):
        self.server.stop(0).wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def export(address, request, metadata=(), compression=None, timeout=20):
    with grpc.insecure_channel(address, options=[("grpc.max_send_message_length", -1)]) as channel:
        call = channel.unary_unary(METHOD, request_serializer=lambda m: m if isinstance(m, bytes) else m.SerializeToString(),
                                   response_deserializer=svc.ExportProfilesServiceResponse.FromString)
        return call(request, metadata=metadata, compression=compression, timeout=timeout)


def export_error(address, request, **kw):
    try:
        export(address, request, **kw)
    except grpc.RpcError as e:
        return e
    raise AssertionError("it was taken")


def post(url, body, content_type="application/x-protobuf", **headers):
    """(status, headers, body) of a POST."""
    q = urllib.request.Request(url, body, {"content-type": content_type, **{k.replace("_", "-"): v for k, v in headers.items()}})
    try:
        with urllib.request.urlopen(q, timeout=20) as r:
            return r.status, r.headers, r.read()
    except urllib.error.HTTPError as e:
        return e.code, e.headers, e.read()


def otlp_receiver(**http):
    return {"otlp": {"protocols": {"grpc": {"endpoint": "127.0.0.1:0"}, "http": {"endpoint": "127.0.0.1:0", **http}}}}


def pipeline(exporters, processors=None, receivers=None, extensions=None, signal_name="profiles"):
    """A config with one pipeline of everything given."""
    receivers = receivers or otlp_receiver()
    config = {
        "receivers": receivers, "exporters": exporters,
        "service": {
            "telemetry": {"metrics": {"readers": [{"pull": {"exporter": {"prometheus": {"host": "127.0.0.1", "port": 0}}}}]}},
            "pipelines": {signal_name: {"receivers": list(receivers), "exporters": list(exporters)}},
        },
    }
    if processors:
        config["processors"] = processors
        config["service"]["pipelines"][signal_name]["processors"] = list(processors)
    if extensions:
        config["extensions"] = extensions
        config["service"]["extensions"] = list(extensions)
    return config


def to_sink(sink, **more):
    return {"otlp": {"endpoint": sink.endpoint, "tls": {"insecure": True}, **more}}


def without_ids(m):
    """What wick adds to a profile without an id is not part of what was sent."""
    m = type(m).FromString(m.SerializeToString())
    for r in m.resource_profiles:
        for s in r.scope_profiles:
            for p in s.profiles:
                p.profile_id = b""
    return m


def same(got, want):
    assert flatten(without_ids(got)) == flatten(without_ids(want))


def run(*args, **kw):
    return subprocess.run([WICK, "collector", *map(str, args)], capture_output=True, text=True, timeout=60, **kw)


def invalid(tmp_path, text, *args):
    (tmp_path / "c.yaml").write_text(text)
    p = run("validate", "--config", tmp_path / "c.yaml", *args)
    assert p.returncode == 1, p.stdout + p.stderr
    assert len(p.stderr.strip().splitlines()) == 1
    return p.stderr


def attributes_of(m):
    out = []
    for r in m.resource_profiles:
        out.append({kv.key: getattr(kv.value, kv.value.WhichOneof("value")) if kv.value.WhichOneof("value") else None
                    for kv in r.resource.attributes})
    return out


# --- the real Collector ---

def build_peer(place):
    """The Collector 0.159, built of its own modules."""
    out = place / "collector"
    subprocess.run(["go", "build", "-o", out, "."], cwd=ROOT / "tests/go/collector", check=True)
    return out


class Peer:
    def __init__(self, binary, tmp_path, exporters, processors=None):
        self.port, http = free_port(), free_port()
        receivers = {"otlp": {"protocols": {"grpc": {"endpoint": f"127.0.0.1:{self.port}"}, "http": {"endpoint": f"127.0.0.1:{http}"}}}}
        config = pipeline(exporters, processors, receivers)
        config["service"]["telemetry"] = {"metrics": {"level": "none"}}
        self.path = tmp_path / f"peer-{self.port}.yaml"
        self.path.write_text(json.dumps(config))
        self.log = open(tmp_path / f"peer-{self.port}.log", "wb+")
        self.process = subprocess.Popen([binary, "run", "--feature-gates=service.profilesSupport", "--config", self.path],
                                        stderr=self.log, stdout=self.log)
        self.grpc, self.http = f"127.0.0.1:{self.port}", f"http://127.0.0.1:{http}"
        wait_for(lambda: b"Everything is ready" in Path(self.log.name).read_bytes() or self.process.poll() is not None, 60)
        assert self.process.poll() is None, Path(self.log.name).read_text()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(30)
        self.log.close()
