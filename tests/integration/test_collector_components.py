"""The other receivers, processors and exporters of wick collector."""
import base64
import gzip
import http.server
import json
import os
import random
import subprocess
import threading
import time

import pytest
from collector_peer import Collector, Sink, attributes_of, export, invalid, pipeline, post, to_sink, wait_for, without_ids
from opentelemetry.proto.collector.profiles.v1development import profiles_service_pb2 as svc
from otlp_oracle import flatten, random_request
from wick_tools import some

OK = "receivers: {otlp: {protocols: {grpc: }}}\nexporters: {nop: }\nservice: {pipelines: {profiles: {receivers: [otlp], processors: [filter], exporters: [nop]}}}\n"


# --- a pprof writer of its own: field numbers of profile.proto ---

def varint(n):
    out = b""
    n &= (1 << 64) - 1
    while n > 0x7f:
        out += bytes([n & 0x7f | 0x80])
        n >>= 7
    return out + bytes([n])


def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def pprof(types, stacks, time_ns=0, period=None):
    """types: [(type, unit)]; stacks: {("leaf", "root"): [values]}"""
    strings = [""]

    def s(text):
        if text not in strings:
            strings.append(text)
        return strings.index(text)

    out = b"".join(field(1, field(1, s(t)) + field(2, s(u))) for t, u in types)
    names = sorted({f for st in stacks for f in st})
    for st, values in stacks.items():
        out += field(2, field(1, b"".join(varint(names.index(f) + 1) for f in st)) + field(2, b"".join(map(varint, values))))
    for i, f in enumerate(names):
        out += field(4, field(1, i + 1) + field(3, 0x1000 + i) + field(4, field(1, i + 1) + field(2, 7)))
        out += field(5, field(1, i + 1) + field(2, s(f)))
    if period:
        out += field(11, field(1, s(period[0])) + field(2, s(period[1]))) + field(12, period[2])
    out += field(9, time_ns)
    return out + b"".join(field(6, x.encode()) for x in strings)


def stacks_of(m, kind=None):
    """{(type, (leaf, ..., root)): value} of a request."""
    d, out = m.dictionary, {}
    for r in m.resource_profiles:
        for sc in r.scope_profiles:
            for p in sc.profiles:
                t = d.string_table[p.sample_type.type_strindex]
                for sample in p.samples:
                    names = tuple(d.string_table[d.function_table[line.function_index].name_strindex]
                                  for loc in d.stack_table[sample.stack_index].location_indices
                                  for line in d.location_table[loc].lines)
                    key = (t, names)
                    out[key] = out.get(key, 0) + (sum(sample.values) if sample.values else len(sample.timestamps_unix_nano))
    return {k[1]: v for k, v in out.items() if k[0] == kind} if kind else out


def service_names(m):
    return [a.get("service.name") for a in attributes_of(m)]


# --- files ---

@pytest.mark.parametrize("options", [{}, {"format": "proto"}, {"format": "proto", "compression": "zstd"}])
def test_file_out_and_in(tmp_path, options):
    exporters = {"file": {"path": str(tmp_path / "out/profiles"), "create_directory": True, **options}}
    sent = [random_request(random.Random(i), 6) for i in range(3)]
    with Collector(tmp_path, pipeline(exporters)) as c:
        for m in sent:
            export(c.grpc, m)
    receivers = {"file": {"include": [str(tmp_path / "out/*")], "poll_interval": "20ms"}}
    with Sink() as sink, Collector(tmp_path, pipeline(to_sink(sink), receivers=receivers)):
        wait_for(lambda: sink.requests)
        got = sorted(str(x) for m in sink.requests for x in flatten(without_ids(m)))
        assert got == sorted(str(x) for m in sent for x in flatten(without_ids(m)))


def test_file_keeps_max_backups(tmp_path):
    rotation = {"max_megabytes": 0, "max_backups": 2}  # each request begins a new file
    exporters = {"file": {"path": str(tmp_path / "out/p.json"), "create_directory": True, "rotation": rotation}}
    (tmp_path / "out").mkdir()
    for other in ("p-mine.json", "p-2020-01-01T00-00-00.000.json", "q-2020-01-01T00-00-00.000.json"):
        (tmp_path / "out" / other).write_text("x")
    with Collector(tmp_path, pipeline(exporters)) as c:
        for i in range(6):
            export(c.grpc, random_request(random.Random(i), 2))
    left = sorted(x.name for x in (tmp_path / "out").iterdir())
    full = [x for x in left if x.startswith("p-20")]
    assert len(full) == 2 and "p-2020-01-01T00-00-00.000.json" not in full
    assert {"p.json", "p-mine.json", "q-2020-01-01T00-00-00.000.json"} <= set(left) and len(left) == 5


def test_options_without_effect(tmp_path):
    """What would change security is refused, the rest is one warning each."""
    config = pipeline({"otlphttp": {"endpoint": "https://127.0.0.1:1", "tls": {"cipher_suites": ["TLS_RSA_WITH_RC4_128_SHA"]}}})
    text = invalid(tmp_path, json.dumps(config))
    assert "cipher_suites" in text and "not supported" in text
    with Collector(tmp_path, pipeline({"otlphttp": {"endpoint": "http://127.0.0.1:1", "max_idle_conns": 3}})) as c:
        wait_for(lambda: "max_idle_conns" in c.log())
        assert c.log().count("max_idle_conns") == 1 and "no effect" in c.log()


def test_file_receiver_reads_what_comes(tmp_path):
    (tmp_path / "in").mkdir()
    receivers = {"file": {"include": [str(tmp_path / "in/*")], "poll_interval": "20ms", "delete_after_read": True}}
    with Sink() as sink, Collector(tmp_path, pipeline(to_sink(sink), receivers=receivers)) as c:
        (tmp_path / "in/bad").write_bytes(b"\xff\xfe nothing")
        wait_for(lambda: "bad" in c.log())
        (tmp_path / "in/.new").write_bytes(gzip.compress(pprof([("samples", "count")], {("f", "main"): [3]})))
        (tmp_path / "in/.new").rename(tmp_path / "in/a.pb.gz")
        wait_for(lambda: sink.requests)
        assert stacks_of(sink.requests[0]) == {("samples", ("f", "main")): 3}
        wait_for(lambda: not (tmp_path / "in/a.pb.gz").exists())


# --- filter ---

def filter_request():
    m = svc.ExportProfilesServiceRequest()
    d = m.dictionary
    d.string_table.extend(["", "cpu", "wall", "nanoseconds", "idle", "work", "main"])
    for t in (d.mapping_table, d.location_table, d.function_table, d.link_table, d.attribute_table, d.stack_table):
        t.add()
    for i, name in enumerate(("idle", "work", "main")):
        d.function_table.add(name_strindex=4 + i)
        d.location_table.add(address=i + 1).lines.add(function_index=i + 1)
    d.stack_table.add().location_indices.extend([1, 3])
    d.stack_table.add().location_indices.extend([2, 3])
    for service in ("checkout", "debug-shell"):
        r = m.resource_profiles.add()
        r.resource.attributes.add(key="service.name").value.string_value = service
        r.resource.attributes.add(key="replicas").value.int_value = 3
        for t in (1, 2):
            p = r.scope_profiles.add().profiles.add(duration_nano=5000)
            p.sample_type.type_strindex, p.sample_type.unit_strindex = t, 3
            for stack in (1, 2):
                p.samples.add(stack_index=stack).values.append(10 * t + stack)
    return m


@pytest.mark.parametrize("conditions,left", [
    ({"profile": ['resource.attributes["service.name"] == "debug-shell"']}, {"checkout": {11, 12, 21, 22}}),
    ({"resource": ['IsMatch(attributes["service.name"], "^debug-")']}, {"checkout": {11, 12, 21, 22}}),
    ({"profile": ['sample_type.type == "wall" and resource.attributes["replicas"] >= 3']},
     {"checkout": {11, 12}, "debug-shell": {11, 12}}),
    ({"sample": ['function == "idle"']}, {"checkout": {12, 22}, "debug-shell": {12, 22}}),
    ({"sample": ['not (function.name != "idle")', 'HasPrefix(resource.attributes["service.name"], "debug")']}, {"checkout": {12, 22}}),
    ({"profile": ['attributes["nobody"] == "x" or duration_unix_nano < 10']},
     {"checkout": {11, 12, 21, 22}, "debug-shell": {11, 12, 21, 22}}),
    ({"profile": ['resource.attributes["nobody"] == nil']}, {}),
])
def test_filter(tmp_path, conditions, left):
    with Sink() as sink, Collector(tmp_path, pipeline(to_sink(sink), {"filter": {"profiles": conditions}})) as c:
        export(c.grpc, filter_request())
        c.stop()
        got = {}
        for q in sink.requests:
            for r, attrs in zip(q.resource_profiles, attributes_of(q)):
                got[attrs["service.name"]] = {v for s in r.scope_profiles for p in s.profiles for x in p.samples for v in x.values}
        assert got == left


@pytest.mark.parametrize("condition,message", [
    ('Split(name, ",") == "x"', "not supported: function 'Split'"),
    ('trace_id == "x"', "not supported: path 'trace_id'"),
    ('function == "x"', "not available at this level: path 'function'"),
    ('resource.attributes["a"] =~ "x"', "expected a comparison"),
    ('resource.attributes["a"] == "x', "unterminated string"),
    ('IsMatch(type, "(")', "("),
])
def test_filter_refuses_by_name(tmp_path, condition, message):
    text = OK.replace("exporters: {nop", "processors: {filter: {profiles: {profile: [%s]}}}\nexporters: {nop" % json.dumps(condition))
    assert message in invalid(tmp_path, text)


def test_resourcedetection(tmp_path):
    processors = {"resourcedetection": {"detectors": ["env", "system"], "override": False,
                                        "system": {"resource_attributes": {"host.arch": {"enabled": True}}}}}
    env = {"OTEL_RESOURCE_ATTRIBUTES": "deployment.environment=te%20st,service.name=no"}
    with Sink() as sink, Collector(tmp_path, pipeline(to_sink(sink), processors), env=env) as c:
        export(c.grpc, filter_request())
        wait_for(lambda: sink.requests)
        a = attributes_of(sink.requests[0])[0]
        assert a["deployment.environment"] == "te st" and a["service.name"] == "checkout"
        assert a["host.name"] == os.uname().nodename and a["os.type"] == "linux" and a["host.arch"]
    text = OK.replace("[filter]", "[resourcedetection]").replace("exporters: {nop", "processors: {resourcedetection: {detectors: [gcp]}}\nexporters: {nop")
    assert "unknown detector 'gcp'" in invalid(tmp_path, text)


def test_symbolize(tmp_path):
    source = tmp_path / "p.c"
    source.write_text("int helper(int x) { return x * 3; }\nint main(void) { return helper(4); }\n")
    exe = tmp_path / "p"
    subprocess.run(["cc", "-g", "-O0", "-Wl,--build-id", "-o", exe, source], check=True)
    notes = subprocess.run(["readelf", "-n", exe], capture_output=True, text=True).stdout
    build_id = notes.split("Build ID:")[1].split()[0]
    address = next(int(line.split()[0], 16) for line in subprocess.run(["nm", exe], capture_output=True, text=True).stdout.splitlines()
                   if line.endswith(" helper"))
    m = svc.ExportProfilesServiceRequest()
    d = m.dictionary
    d.string_table.extend(["", "process.executable.build_id.gnu", str(exe), "samples", "count"])
    for t in (d.mapping_table, d.location_table, d.function_table, d.link_table, d.attribute_table, d.stack_table):
        t.add()
    d.attribute_table.add(key_strindex=1).value.string_value = build_id
    d.mapping_table.add(filename_strindex=2).attribute_indices.append(1)
    d.location_table.add(mapping_index=1, address=address + 4)
    d.stack_table.add().location_indices.append(1)
    p = m.resource_profiles.add().scope_profiles.add().profiles.add()
    p.sample_type.type_strindex, p.sample_type.unit_strindex = 3, 4
    p.samples.add(stack_index=1).values.append(5)
    with Sink() as sink, Collector(tmp_path, pipeline(to_sink(sink), {"symbolize": {"local_files": True}})) as c:
        export(c.grpc, m)
        wait_for(lambda: sink.requests)
        assert stacks_of(sink.requests[0]) == {("samples", ("helper",)): 5}
    with Sink() as sink, Collector(tmp_path, pipeline(to_sink(sink), {"symbolize": {}})) as c:
        export(c.grpc, m)  # a path that a profile names is not opened
        wait_for(lambda: sink.requests)
        assert stacks_of(sink.requests[0]) == {("samples", ()): 5}


# --- pyroscope ---

def pyroscope(tmp_path, sink):
    return Collector(tmp_path, pipeline(to_sink(sink), receivers={"pyroscope": {"protocols": {"http": {"endpoint": "127.0.0.1:0"}}}}))


def test_pyroscope_ingest(tmp_path):
    with Sink() as sink, pyroscope(tmp_path, sink) as c:
        url = f"http://127.0.0.1:{c.ports('pyroscope')[0]}"
        status, _, _ = post(url + "/ingest?name=shop.cart.cpu%7Benv%3Dprod%7D&from=1700000000&until=1700000010&sampleRate=50",
                            b"main;work 3\nmain;idle 4\n", "text/plain")
        assert status == 200
        wait_for(lambda: len(sink.requests) == 1)
        m = sink.requests[0]
        assert attributes_of(m) == [{"service.name": "shop.cart", "env": "prod"}]
        assert stacks_of(m) == {("samples", ("work", "main")): 3, ("samples", ("idle", "main")): 4}
        p = m.resource_profiles[0].scope_profiles[0].profiles[0]
        assert (p.time_unix_nano, p.duration_nano, p.period) == (1700000000 * 10**9, 10 * 10**9, 20_000_000)
        assert m.dictionary.string_table[p.period_type.type_strindex] == "cpu"
        raw = gzip.compress(pprof([("cpu", "nanoseconds")], {("f", "main"): [70]}))
        assert post(url + "/ingest?name=app&format=pprof", raw, "application/octet-stream")[0] == 200
        form = b"--X\r\nContent-Disposition: form-data; name=\"profile\"; filename=\"p\"\r\n\r\n" + raw + b"\r\n--X--\r\n"
        assert post(url + "/ingest?name=app", form, "multipart/form-data; boundary=X")[0] == 200
        wait_for(lambda: len(sink.requests) == 3)
        assert all(stacks_of(q) == {("cpu", ("f", "main")): 70} for q in some(sink.requests[1:]))
        assert post(url + "/ingest?name=app&format=jfr", b"x", "text/plain")[0] == 400
        assert post(url + "/ingest", b"a 1", "text/plain")[0] == 400
        assert post(url + "/ingest?name=a", b"no number here", "text/plain")[0] == 400
        assert post(url + "/elsewhere", b"", "text/plain")[0] == 404


def test_pyroscope_push(tmp_path):
    raw = gzip.compress(pprof([("inuse_space", "bytes"), ("inuse_objects", "count")], {("f", "main"): [70, 2]}))
    labels = {"__name__": "memory", "service_name": "cart", "region": "eu"}
    series = b"".join(field(1, field(1, k.encode()) + field(2, v.encode())) for k, v in labels.items()) + \
        field(2, field(1, raw) + field(2, b"id"))
    as_json = {"series": [{"labels": [{"name": k, "value": v} for k, v in labels.items()],
                           "samples": [{"rawProfile": base64.b64encode(raw).decode(), "ID": "x"}]}]}
    with Sink() as sink, pyroscope(tmp_path, sink) as c:
        url = f"http://127.0.0.1:{c.ports('pyroscope')[0]}/push.v1.PusherService/Push"
        assert post(url, field(1, series), "application/proto")[0] == 200
        status, _, body = post(url, json.dumps(as_json).encode(), "application/json")
        assert (status, body) == (200, b"{}")
        wait_for(lambda: len(sink.requests) == 2)
        for m in some(sink.requests):
            assert attributes_of(m) == [{"service.name": "cart", "region": "eu"}]
            assert stacks_of(m) == {("inuse_space", ("f", "main")): 70, ("inuse_objects", ("f", "main")): 2}
        status, _, body = post(url, field(1, field(2, field(1, b"not pprof"))), "application/proto")
        assert status == 400 and json.loads(body)["code"] == "invalid_argument"


def test_pyroscope_push_is_bounded(tmp_path):
    with Sink() as sink, pyroscope(tmp_path, sink) as c:
        url = f"http://127.0.0.1:{c.ports('pyroscope')[0]}"
        bomb = gzip.compress(pprof([("cpu", "nanoseconds")], {("f", "main"): [70]}) + field(6, bytes(30 << 20)))
        push = b"".join(field(1, field(2, field(1, bomb))) for _ in range(20))  # 600 MiB in 600 kB
        status, _, body = post(url + "/push.v1.PusherService/Push", push, "application/proto")
        assert status == 400, body


# --- pprof ---

class Target:
    """A program with /debug/pprof: heap and mutex count since its start, cpu for the seconds asked."""

    def __init__(self, redirect=None):
        self.asked, self.turn, self.redirect = [], 0, redirect
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                outer.asked.append(self.path)
                body = outer.answer(self.path)
                if outer.redirect:
                    self.send_response(302)
                    self.send_header("location", outer.redirect)
                    self.end_headers()
                    return
                self.send_response(200 if body else 404)
                self.end_headers()
                self.wfile.write(body or b"")

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def answer(self, path):
        if path.startswith("/debug/pprof/profile"):
            return gzip.compress(pprof([("samples", "count"), ("cpu", "nanoseconds")], {("work", "main"): [1, 10]}, 1))
        if path.startswith("/debug/pprof/heap"):
            self.turn += 1
            n = self.turn if self.turn != 4 else 1  # the fourth time it was started again
            if self.turn > 4:
                n = self.turn - 3
            return gzip.compress(pprof([("alloc_objects", "count"), ("alloc_space", "bytes"), ("inuse_objects", "count"),
                                        ("inuse_space", "bytes")], {("alloc", "main"): [n * 10, n * 100, 5, 50]}))
        return None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.shutdown()


def scraper(**more):
    return {"pprof": {"interval": "100ms", "initial_delay": "10ms", "profiles": {
        "cpu": {"seconds": "0s"}, "heap": {}, "mutex": {"enabled": False}, "block": {"enabled": False},
        "goroutine": {"enabled": False}}, **more}}


def test_scrape(tmp_path):
    with Target() as target, Sink() as sink:
        receivers = scraper(targets=[{"endpoint": target.address, "labels": {"service_name": "cart"}}])
        with Collector(tmp_path, pipeline(to_sink(sink), receivers=receivers)) as c:
            wait_for(lambda: target.turn >= 6)
            c.stop()
        assert all(n == ["cart"] for n in some(map(service_names, sink.requests)))
        heaps = [stacks_of(m) for m in sink.requests if ("inuse_space", ("alloc", "main")) in stacks_of(m)]
        allocs = [h.get(("alloc_space", ("alloc", "main")), 0) for h in heaps]
        assert allocs[:5] == [0, 100, 100, 100, 100], "differences, also over a restart"
        assert all(h[("inuse_space", ("alloc", "main"))] == 50 for h in some(heaps))
        assert any(stacks_of(m).get(("cpu", ("work", "main"))) == 10 for m in sink.requests)


def test_scrape_discovery(tmp_path):
    found = tmp_path / "targets.json"
    found.write_text("[]")
    with Target() as one, Target() as two, Sink() as sink:
        receivers = scraper(files=[str(tmp_path / "targets.*")], refresh_interval="50ms")
        with Collector(tmp_path, pipeline(to_sink(sink), receivers=receivers)):
            found.write_text(json.dumps([{"targets": [one.address], "labels": {"service_name": "one"}}]))
            wait_for(lambda: ["one"] in [service_names(m) for m in sink.requests])
            found.write_text(json.dumps([{"targets": [two.address], "labels": {"service_name": "two"}}]))
            wait_for(lambda: ["two"] in [service_names(m) for m in sink.requests])

            def quiet():
                before = len(one.asked)
                time.sleep(0.5)
                return len(one.asked) == before

            wait_for(quiet, why="the end of scrapes of what left the list")


def test_scrape_kubernetes(tmp_path):
    with Target() as target, Sink() as sink:
        port = target.address.split(":")[1]
        pods = {"kind": "PodList", "items": [
            {"metadata": {"name": "cart-1", "namespace": "shop", "labels": {"app": "cart"},
                          "annotations": {"profiles.grafana.com/cpu.scrape": "true", "profiles.grafana.com/cpu.port": port}},
             "spec": {"nodeName": "n1", "containers": []}, "status": {"phase": "Running", "podIP": "127.0.0.1"}},
            {"metadata": {"name": "other", "namespace": "shop"}, "status": {"phase": "Running", "podIP": "127.0.0.2"}}]}

        class Api(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                ok = self.path == "/api/v1/pods?resourceVersion=0" and self.headers["authorization"] == "Bearer t0ken"
                self.send_response(200 if ok else 403)
                self.end_headers()
                self.wfile.write(json.dumps(pods).encode())

            def log_message(self, *_):
                pass

        api = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Api)
        threading.Thread(target=api.serve_forever, daemon=True).start()
        (tmp_path / "token").write_text("t0ken\n")
        receivers = scraper(kubernetes={"api_server": f"http://127.0.0.1:{api.server_port}", "token_file": str(tmp_path / "token")})
        with Collector(tmp_path, pipeline(to_sink(sink), receivers=receivers)):
            wait_for(lambda: sink.requests)
            assert attributes_of(sink.requests[0])[0] == {
                "service.name": "cart", "k8s.namespace.name": "shop", "k8s.pod.name": "cart-1", "k8s.node.name": "n1",
                "service.instance.id": target.address}
            assert all(p.startswith("/debug/pprof/profile") for p in some(target.asked))
        api.shutdown()


def test_scrape_stays_where_it_was_sent(tmp_path):
    with Target() as victim, Target(redirect=f"http://{victim.address}/debug/pprof/heap") as target, Sink() as sink:
        receivers = scraper(targets=[{"endpoint": target.address}, {"endpoint": "169.254.169.254:80"}])
        with Collector(tmp_path, pipeline(to_sink(sink), receivers=receivers)) as c:
            wait_for(lambda: "redirects are not followed" in c.log() and "link-local" in c.log())
            assert not victim.asked and not sink.requests


def test_posted_pprof(tmp_path):
    with Sink() as sink, Collector(tmp_path, pipeline(to_sink(sink), receivers={"pprof": {"server": {"endpoint": "127.0.0.1:0"}}})) as c:
        url = f"http://127.0.0.1:{c.ports('pprof')[0]}/v1/pprof"
        raw = pprof([("cpu", "nanoseconds")], {("f", "main"): [70]})
        assert post(url, gzip.compress(raw), "application/octet-stream")[0] == 204
        wait_for(lambda: sink.requests)
        assert stacks_of(sink.requests[0]) == {("cpu", ("f", "main")): 70}
        assert post(url, b"\xff\xff", "application/octet-stream")[0] == 400
