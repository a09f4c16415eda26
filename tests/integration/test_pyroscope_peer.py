# SPDX-License-Identifier: Apache-2.0
"""wick beside Pyroscope itself: both get the same profiles, profilecli asks both every question it has, and the answers are compared.
$PYROSCOPE and $PROFILECLI name the programs of grafana/pyroscope; without them the tests are skipped."""
import json
import os
import re
import subprocess
import time
import urllib.request

import pytest

from pyroscope_messages import CPU
from pyroscope_tools import pprof, push
from wick_tools import free_port, wait_for

PYROSCOPE, PROFILECLI = os.environ.get("PYROSCOPE"), os.environ.get("PROFILECLI")
pytestmark = [pytest.mark.slow, pytest.mark.skipif(not (PYROSCOPE and PROFILECLI), reason="PYROSCOPE and PROFILECLI do not name grafana/pyroscope's programs")]
GO = [("samples", "count"), ("cpu", "nanoseconds")]
SPANS = ["00000bac2a5ab0c7", "0102030405060708"]
START = (time.time_ns() // 10**10 - 12) * 10**10
WINDOW = ["--from", str(START // 10**9 - 5), "--to", str(START // 10**9 + 40)]


class Pyroscope:
    """The single binary on loopback, with nothing but what is sent to it."""

    def __init__(self, directory):
        self.dir, port, grpc, raft = directory, free_port(), free_port(), free_port()
        self.url = f"http://127.0.0.1:{port}"
        local = [f"-{x}=127.0.0.1" for x in (
            "server.http-listen-address", "server.grpc-listen-address", "memberlist.bind-addr", "memberlist.advertise-addr", "distributor.ring.instance-addr",
            "overrides-exporter.ring.instance-addr", "query-frontend.instance-addr", "query-scheduler.ring.instance-addr",
            "segment-writer.lifecycler.addr")]
        local += [f"-metastore.address=127.0.0.1:{grpc}", f"-query-backend.address=127.0.0.1:{grpc}", *[f"-metastore.raft.{x}=127.0.0.1:{raft}" for x in (
            "bind-address", "advertise-address")]]
        self.log = open(directory / "pyroscope.log", "w")
        self.p = subprocess.Popen([PYROSCOPE, "-target=all", f"-server.http-listen-port={port}", f"-server.grpc-listen-port={grpc}",
                                   f"-memberlist.bind-port={free_port()}", *local, "-usage-stats.enabled=false", "-self-profiling.disable-push=true",
                                   "-architecture.storage=v2"],
                                  cwd=directory, stdout=self.log, stderr=self.log)

        def ready():
            assert self.p.poll() is None, (directory / "pyroscope.log").read_text()[-3000:]
            try:
                return urllib.request.urlopen(self.url + "/ready", timeout=5).status == 200
            except OSError:
                return False
        wait_for(ready, 180)

    def get(self, path, token=None, data=None, headers=None):
        with urllib.request.urlopen(urllib.request.Request(self.url + path, data=data, headers=headers or {}), timeout=60) as r:
            return r.status, r.read()

    def stop(self):
        self.p.kill()
        self.p.wait()
        self.log.close()


def fill(server):
    """Two services, three profiles of CPU each with known stacks, spans and labels; heap; locks."""
    for service, region in (("shop", "eu"), ("bank", "us")):
        for i in range(3):
            push(server, pprof(GO, [("main;serve;price", [i + 1, (i + 1) * 10_000_000], {"span_id": SPANS[0], "span_name": "GET /cart"}),
                                    ("main;serve;tax", [2, 20_000_000], {"span_id": SPANS[1]}), ("main;gc;mark;scan;sweep;free", [5, 50_000_000], {})],
                               ("cpu", "nanoseconds", 10_000_000), start=START + i * 10 * 10**9),
                 service_name=service, __name__="process_cpu", region=region)
    push(server, pprof([("alloc_objects", "count"), ("alloc_space", "bytes"), ("inuse_objects", "count"), ("inuse_space", "bytes")],
                       [("main;cache;put", [10, 1000, 3, 300], {})], ("space", "bytes", 524288), start=START), service_name="shop", __name__="memory")
    for name, delay in (("mutex", 30), ("block", 70)):
        push(server, pprof([("contentions", "count"), ("delay", "nanoseconds")], [("main;lock", [3, delay], {})], ("contentions", "count", 1), start=START),
             service_name="shop", __name__=name)


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    from wick_tools import Server
    peer = Pyroscope(tmp_path_factory.mktemp("pyroscope"))
    wick = Server(tmp_path_factory.mktemp("wick"))
    try:
        for s in (peer, wick):
            fill(s)
        wait_for(lambda: "bank" in ask(peer, "query", "series", "--label-names", "service_name"), 60)
        yield peer, wick
    finally:
        peer.stop()
        wick.stop()


def ask(server, *args):
    p = subprocess.run([PROFILECLI, *args, *(WINDOW if args[0] == "query" else []), "--url", server.url.rstrip("/")], capture_output=True, text=True,
                       timeout=120, cwd=getattr(server, "dir", None))
    assert p.returncode == 0, p.stderr[-2000:]
    return p.stdout


def raw(text):
    """The samples of `go tool pprof -raw`'s form that profilecli prints: {stack: value}, with its types."""
    kinds = re.search(r"Samples:\n(.*)\n", text)
    names = {int(m[1]): m[2] for m in re.finditer(r"^\s+(\d+): 0x[0-9a-f]+ (?:M=\d+ )?(\S+)", text, re.M)}
    out = {}
    for m in re.finditer(r"^\s*(-?\d+): ((?:\d+ *)+)$", text, re.M):
        stack = ">".join(names[int(i)] for i in m[2].split())
        out[stack] = out.get(stack, 0) + int(m[1])
    return kinds and kinds[1].split("[")[0].strip(), out


PROFILES = {
    "everything": [], "one service": ["--query", '{service_name="shop"}'], "a regular expression": ["--query", '{service_name=~"sh.*"}'],
    "not equal": ["--query", '{region!="eu"}'], "counts": ["--profile-type", "process_cpu:samples:count:cpu:nanoseconds"],
    "memory in use": ["--profile-type", "memory:inuse_space:bytes:space:bytes"], "allocated": ["--profile-type", "memory:alloc_space:bytes:space:bytes"],
    "mutex": ["--profile-type", "mutex:delay:nanoseconds:contentions:count"], "block": ["--profile-type", "block:contentions:count:contentions:count"],
    "a call site": ["--stacktrace-selector", "main", "--stacktrace-selector", "serve"], "a span": ["--span-selector", SPANS[0]],
    "two spans": ["--span-selector", SPANS[0], "--span-selector", SPANS[1]], "names alone": ["--function-names-only"],
    "names of a call site": ["--function-names-only", "--stacktrace-selector", "main", "--stacktrace-selector", "serve"],
}


def samples(path):
    return raw(subprocess.run(["go", "tool", "pprof", "-raw", path], capture_output=True, text=True, check=True).stdout)


def profile(s, *args):
    path = f"{s.dir}/{time.monotonic_ns()}.pb.gz"
    ask(s, *args, "--output", f"pprof={path}")
    return samples(path)


@pytest.mark.parametrize("name", PROFILES)
def test_query_profile(both, name):
    peer, wick = (profile(s, "query", "profile", *PROFILES[name]) for s in both)
    assert peer[1] and wick == peer


def test_query_go_pgo(both):
    peer, wick = (profile(s, "query", "go-pgo", "--keep-locations", "3") for s in both)
    assert peer[1] and wick == peer


LABELS = ("service_name", "region", "__profile_type__", "__name__", "__type__", "__unit__", "__period_type__", "__period_unit__", "__service_name__")


@pytest.mark.parametrize("names", [["service_name"], ["service_name", "__profile_type__"], ["__profile_type__"], ["region", "service_name"], []])
def test_query_series(both, names):
    """With no names, all labels of series are listed; region is none in wick unless store.labels has it."""
    def sets(s):
        found = json.loads(ask(s, "query", "series", "--output", "json", *[x for n in names for x in ("--label-names", n)]))["series"]
        return {tuple(sorted((k, v) for k, v in one.items() if k in (names or LABELS) and (names or k != "region"))) for one in found}
    peer, wick = map(sets, both)
    assert peer and wick == peer


def test_query_top(both):
    def rows(s, *args):
        found = json.loads(ask(s, "query", "top", "--output", "json", *args))["series"]
        return sorted((tuple(x["labels"].items()), x["total"]) for x in found)
    for args in ([], ["--label-names", "region"], ["--top-n", "1"], ["--profile-type", "memory:inuse_space:bytes:space:bytes"],
                 ["--profile-type", "process_cpu:samples:count:cpu:nanoseconds"]):
        peer, wick = (rows(s, *args) for s in both)
        assert wick == peer, args


def test_query_label_values_cardinality(both):
    def rows(s):
        found = re.findall(r"^\W*(\w+)\W+(\d+)\W*$", ask(s, "query", "label-values-cardinality"), re.M)
        return {k: int(v) for k, v in found if k in LABELS}
    peer, wick = map(rows, both)
    assert peer and wick == peer


def test_query_exemplars(both):
    def entries(s, kind, *keys):
        out = json.loads(ask(s, "query", "exemplars", kind, "--output", "json"))
        return sorted(tuple(str(e.get(k)) for k in keys) for e in out["exemplars"] or [])
    peer, wick = (entries(s, "profile", "value", "timestamp") for s in both)
    assert wick == peer
    peer, wick = (entries(s, "span", "span_id") for s in both)
    if peer:
        assert wick == peer


def test_ready_and_upload(both, tmp_path):
    path = tmp_path / "up.pb"
    path.write_bytes(pprof(GO, [("main;uploaded", [1, 10], {})], ("cpu", "nanoseconds", 10)))
    for s in both:
        ask(s, "ready")
        subprocess.run([PROFILECLI, "upload", "--url", s.url.rstrip("/"), "--extra-labels", "service_name=uploaded", "--override-timestamp", str(path)],
                       check=True, capture_output=True)
    for s in both:
        def found():
            path = f"{s.dir}/{time.monotonic_ns()}.pb.gz"
            subprocess.run([PROFILECLI, "query", "profile", "--output", f"pprof={path}", "--query", '{service_name="uploaded"}', "--url", s.url.rstrip("/")],
                           capture_output=True)
            return os.path.exists(path) and samples(path)[1] == {"uploaded>main": 10}
        wait_for(found, 60)
    assert CPU
