# SPDX-License-Identifier: Apache-2.0
"""wick beside Pyroscope itself: both get the same profiles, profilecli asks both every question it has, and the answers are compared.
tools/peers builds them; without them the tests are skipped."""
import json
import os
import re
import subprocess
import time

import pytest

from pyroscope_calls import GO, SPANS, fill
from pyroscope_peer import PROFILECLI, PYROSCOPE, Pyroscope
from pyroscope_tools import pprof
from wick_tools import ROOT, Server, profiles_service, some, wait_for

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not (PYROSCOPE and PROFILECLI), reason="tools/peers has not built them")]
START = (time.time_ns() // 10**10 - 12) * 10**10
WINDOW = ["--from", str(START // 10**9 - 5), "--to", str(START // 10**9 + 40)]


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    peer = Pyroscope(tmp_path_factory.mktemp("pyroscope"))
    wick = Server(tmp_path_factory.mktemp("wick"))
    try:
        for s in (peer, wick):
            fill(s, START)
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
    """With no names, all labels of series are listed."""
    def sets(s):
        found = json.loads(ask(s, "query", "series", "--output", "json", *[x for n in names for x in ("--label-names", n)]))["series"]
        return {tuple(sorted((k, v) for k, v in one.items() if k in (names or LABELS))) for one in found}
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


def test_async_profiler_has_the_same_names(both):
    """OTLP of async-profiler 4.5, without service.name: both give the type and the service the same names."""
    file = ROOT / "tests/data/async-profiler-4.5.otlp"
    r = profiles_service().ExportProfilesServiceRequest.FromString(file.read_bytes())
    old = r.resource_profiles[0].scope_profiles[0].profiles[0].time_unix_nano.to_bytes(8, "little")
    data = file.read_bytes().replace(old, START.to_bytes(8, "little"))
    for s in some(both):
        assert s.get("/v1development/profiles", data=data, headers={"Content-Type": "application/x-protobuf"})[0] == 200

    def named(s):
        found = json.loads(ask(s, "query", "series", "--output", "json", "--label-names", "service_name", "--label-names", "__profile_type__"))["series"]
        return {(x["service_name"], x["__profile_type__"]) for x in found if x["service_name"].startswith("unknown_service")}
    peer = wait_for(lambda: named(both[0]), 60)
    assert named(both[1]) == peer == {("unknown_service", "itimer:itimer:count:itimer:ns")}
