# SPDX-License-Identifier: Apache-2.0
"""The Go module go/: its own tests, its conversion beside `wick convert`, and its examples against a real server."""
import os
import subprocess
import tarfile

import pytest

from go_tools import GO, needs_go
from otlp_oracle import flatten
from wick_tools import ROOT, WICK, profiles_service, wait_for

pytestmark = needs_go
MODULE = ROOT / "go"


def go(*args, **kw):
    p = subprocess.run([GO, *args], cwd=MODULE, capture_output=True, text=True, **kw)
    if "dial tcp" in p.stderr or "no such host" in p.stderr:
        pytest.skip("the modules that go/ needs are not in the cache: tools/deps test")
    assert p.returncode == 0, p.stdout + p.stderr
    return p.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The examples and the converter, built without cgo."""
    out = tmp_path_factory.mktemp("go")
    go("build", "-o", f"{out}/", "./examples/checkout", "./examples/webserver", "./internal/cmd/pprof2otlp",
       env={**os.environ, "CGO_ENABLED": "0"})
    return out


def test_the_module():
    assert "FAIL" not in go("test", "./...")
    assert (MODULE / "go.mod").read_text().split("\n")[2] == "go 1.19"  # the language level that the compiler holds it to


@pytest.fixture(scope="module")
def profiles(tmp_path_factory):
    """pprof files of many shapes: golden ones, and all kinds that Go's runtime writes."""
    place = tmp_path_factory.mktemp("profiles")
    with tarfile.open(ROOT / "tests/data/pprof-golden.tar.xz") as t:
        for m in t.getmembers():
            if m.name.endswith(".pb.gz"):
                (place / os.path.basename(m.name)).write_bytes(t.extractfile(m).read())
    subprocess.run([GO, "run", str(ROOT / "tests/integration/goprofiles/main.go"), str(place)], check=True, capture_output=True)
    return [f for f in sorted(place.iterdir()) if f.read_bytes()[:2] == b"\x1f\x8b"]


def test_conversion_agrees_with_wick_convert(built, profiles, tmp_path):
    pairs = [(f, tmp_path / (f.name + ".go.otlp")) for f in profiles]
    subprocess.run([built / "pprof2otlp", *(x for pair in pairs for x in pair)], check=True)
    for source, theirs in pairs:
        ours = tmp_path / (source.name + ".otlp")
        subprocess.run([WICK, "convert", source, ours], check=True, capture_output=True)
        a, b = (flatten(profiles_service().ExportProfilesServiceRequest.FromString(x.read_bytes())) for x in (ours, theirs))
        assert a == b, source.name
    assert len(pairs) > 10


def top(server, **params):
    query = "&".join(f"{k}={v}" for k, v in params.items())
    return server.json(f"/api/v1/top?query=cpu&from=now-5m&{query}")


def test_the_documented_program(server, built):
    """The span of an order names the function that it spends most of its time in: 3 parts in calculateTotals, 1 in chargePayment."""
    p = subprocess.run([built / "checkout", server.grpc, "2"], capture_output=True, text=True, timeout=300,
                       env={**os.environ, "OTEL_SERVICE_NAME": "shop"})
    assert p.returncode == 0 and p.stderr == "", p.stderr
    traces = [line.split()[0] for line in p.stdout.splitlines()]
    assert len(traces) == 2
    wait_for(lambda: server.json("/api/v1/services?from=now-5m"), why="the service")
    spans = server.json("/api/v1/spans?query=cpu&from=now-5m")
    assert {s["traceId"] for s in spans["spans"]} == set(traces), spans
    assert spans["linked"] >= 0.9 * spans["total"]  # the rest is the runtime's own work
    for s in spans["spans"]:
        rows = {r["name"]: r["total"] for r in top(server, trace_id=s["traceId"], span_id=s["spanId"])["rows"]}
        # Some 120 samples: four standard errors are 0.16.
        assert 0.55 < rows["main.calculateTotals"] / rows["main.processOrder"] < 0.95, rows
    kinds = {x["name"]: set(x["types"]) for x in server.json("/api/v1/services?from=now-5m")}
    assert kinds == {"shop": {"cpu", "alloc", "alloc_objects", "heap", "heap_objects"}}


@pytest.mark.slow
def test_go_1_19(tmp_path):
    """Debian 12's Go builds the module and passes its tests."""
    old = ROOT / ".cache/go1.19/bin/go"
    if not old.exists():
        pytest.skip("no Go 1.19: tools/deps all")
    env = {**os.environ, "GOROOT": str(old.parents[1]), "GOCACHE": str(tmp_path / "cache"), "CGO_ENABLED": "0"}
    for args in (["version"], ["vet", "./..."], ["vet", "-tags", "wick_portable_labels", "./..."], ["test", "./..."]):
        p = subprocess.run([old, *args], cwd=MODULE, capture_output=True, text=True, env=env)
        assert p.returncode == 0, p.stdout + p.stderr
        assert args != ["version"] or " go1.19" in p.stdout
