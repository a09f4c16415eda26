# SPDX-License-Identifier: Apache-2.0
"""The Go module go/: its own tests, its conversion beside `wick convert`, and its examples against a real server."""
import json
import os
import socket
import subprocess
import tarfile
from pathlib import Path

import pytest

from agent_tools import needs_bpf
from go_tools import GO, needs_go
from otlp_oracle import flatten
from wick_tools import ROOT, WICK, Server, log_of, profiles_service, wait_for

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
    check_orders(server, built, server.grpc)


@pytest.mark.slow
def test_the_documented_program_through_the_collector(server, built, tmp_path):
    """The same by way of the real OpenTelemetry Collector."""
    from collector_peer import Peer, build_peer
    exporters = {"otlp": {"endpoint": server.grpc, "tls": {"insecure": True}}}
    with Peer(build_peer(tmp_path), tmp_path, exporters) as peer:
        check_orders(server, built, peer.grpc)


def check_orders(server, built, endpoint):
    """The span of an order names the function that it spends most of its time in: 3 parts in calculateTotals, 1 in chargePayment."""
    p = subprocess.run([built / "checkout", endpoint, "2"], capture_output=True, text=True, timeout=300,
                       env={**os.environ, "OTEL_SERVICE_NAME": "shop"})
    assert p.returncode == 0 and p.stderr == "", p.stderr
    traces = [line.split()[0] for line in p.stdout.splitlines()]
    assert len(traces) == 2
    wait_for(lambda: len(kinds_of(server).get("shop", ())) == 5, why=lambda: kinds_of(server))
    spans = server.json("/api/v1/spans?query=cpu&from=now-5m")
    assert {s["traceId"] for s in spans["spans"]} == set(traces), spans
    assert spans["linked"] >= 0.9 * spans["total"]  # the rest is the runtime's own work
    for trace in traces:  # its root span may have a sample as well, of printing
        s = max((s for s in spans["spans"] if s["traceId"] == trace), key=lambda s: s["value"])
        rows = {r["name"]: r["total"] for r in top(server, trace_id=s["traceId"], span_id=s["spanId"])["rows"]}
        # Some 120 samples: four standard errors are 0.16.
        assert 0.55 < rows["main.calculateTotals"] / rows["main.processOrder"] < 0.95, rows
    assert kinds_of(server)["shop"] == {"cpu", "alloc", "alloc_objects", "heap", "heap_objects"}


# --- scraping ---

class Scraped:
    """tests/go/scraped under a name of its own."""

    def __init__(self, binary):
        self.p = subprocess.Popen([binary], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.url = "http://" + self.p.stdout.readline().strip()

    def stop(self):
        self.p.communicate()


@pytest.fixture(scope="module")
def scraped(tmp_path_factory):
    """Two programs, cart and mail."""
    place = tmp_path_factory.mktemp("scraped")
    for name in ("cart", "mail"):
        subprocess.run([GO, "build", "-o", str(place / name), str(ROOT / "tests/go/scraped/main.go")], check=True)
    programs = [Scraped(place / name) for name in ("cart", "mail")]
    yield programs
    for p in programs:
        p.stop()


QUICK = [x for k, v in {"interval": "1s", "initial_delay": "10ms", "profiles.cpu.seconds": "1s"}.items()
         for x in ("--set", f"receivers.pprof/scrape.{k}={v}")]
TYPES = {"cpu", "heap", "heap_objects", "alloc", "alloc_objects", "lock", "lock_count", "block", "block_count", "goroutine"}


def kinds_of(server):
    return {s["name"]: set(s["types"]) for s in server.json("/api/v1/services?from=now-5m")}


def test_scrape_flag(tmp_path, scraped):
    """wick serve --scrape: all types of two programs under their own names; a program that is not there harms nobody."""
    nowhere = "http://127.0.0.1:1"
    server = Server(tmp_path, "--no-agent", "--scrape", scraped[0].url, "--scrape", scraped[1].url + "/debug/pprof/",
                    "--scrape", nowhere, *QUICK)
    try:
        wait_for(lambda: kinds_of(server) == {"cart": TYPES, "mail": TYPES}, 120, why=lambda: f"{kinds_of(server)}\n{log_of(server)}")

        def shares():
            rows = server.json('/api/v1/top?query=cpu{service.name="cart"}&from=now-5m')["rows"]
            return {r["name"]: r["total"] for r in rows}
        seen = wait_for(lambda: (lambda s: s if s.get("main.hot", 0) + s.get("main.cold", 0) > 1e9 else None)(shares()), 120)
        assert 0.70 < seen["main.hot"] / (seen["main.hot"] + seen["main.cold"]) < 0.99, seen  # 7/8, of 100 samples or more
        rows = server.json("/api/v1/top?query=alloc&from=now-5m")["rows"]
        assert any(r["name"] == "main.allocate" for r in rows), rows
        rows = server.json("/api/v1/top?query=lock&from=now-5m")["rows"]
        assert any(r["name"] == "main.contend" for r in rows), rows
        rows = server.json("/api/v1/top?query=block&from=now-5m")["rows"]  # the scrape of CPU time waits a second per second
        assert any(r["name"] == "main.contend" for r in rows) and not any("pprof" in r["name"] for r in rows), rows
        assert nowhere + "/debug/pprof/cmdline" in log_of(server)
        assert "8888" not in log_of(server)  # no listener besides the server's own
    finally:
        server.stop()


@pytest.mark.parametrize("url", ["ftp://x", "http://", "http://a'b", "http://a b", ""])
def test_scrape_flag_wrong(tmp_path, url):
    p = subprocess.run([WICK, "serve", "--no-agent", "--check", "--scrape", url], capture_output=True, text=True,
                       env={**os.environ, "HOME": str(tmp_path)})
    assert p.returncode != 0 and "--scrape" in p.stderr, p.stderr


def test_scrape_of_the_start_page(tmp_path, scraped):
    """The API of the Start page finds programs with /debug/pprof/ on this machine and scrapes one of them; nothing beyond loopback."""
    server = Server(tmp_path, "--no-agent", "--scrape", scraped[1].url.replace("127.0.0.1", "localhost"))
    urls = [p.url.replace("127.0.0.1", "localhost") for p in scraped]
    try:
        def found():
            status, body = server.get("/api/v1/scrape/find", data=b"")
            assert status == 200, body
            return {p["url"]: (p["program"], p["scraped"]) for p in json.loads(body) if p["url"] in urls}
        wait_for(lambda: found() == {urls[0]: ("cart", False), urls[1]: ("mail", True)}, why=found)
        for _ in range(2):  # the second time changes nothing
            assert server.get("/api/v1/scrape?url=" + urls[0], data=b"")[0] == 200
        assert found()[urls[0]] == ("cart", True)
        wait_for(lambda: "goroutine" in kinds_of(server).get("cart", ()), why=lambda: f"{kinds_of(server)}\n{log_of(server)}")
        for bad in ("http://192.0.2.1:80", "http://169.254.169.254", "ftp://localhost", "", "http://localhost:80'"):
            assert server.get("/api/v1/scrape?url=" + bad, data=b"")[0] == 400, bad
        assert server.get("/api/v1/scrape/find")[0] == 405
        status, _ = server.get("/api/v1/scrape/find", data=b"", headers={"Origin": "http://evil.example"})
        assert status == 403
    finally:
        server.stop()


@pytest.mark.slow
def test_the_documented_webserver(tmp_path, built):
    """The program that only imports net/http/pprof, as it is written, with the one flag."""
    with socket.socket() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            s.bind(("", 8080))
        except OSError:
            pytest.skip("port 8080 is in use")
    program = subprocess.Popen([built / "webserver"], stderr=subprocess.DEVNULL)
    server = Server(tmp_path, "--no-agent", "--scrape", "http://localhost:8080")
    try:  # its loop uses 1 ms of CPU time in 100 ms or less
        wait_for(lambda: {"cpu", "heap", "goroutine"} <= kinds_of(server).get("webserver", set()), 180, why=lambda: log_of(server))

        def names():
            return [r["name"] for r in server.json("/api/v1/top?query=cpu&from=now-10m")["rows"]]
        wait_for(lambda: "main.doWork" in names(), 180, why=names)
    finally:
        server.stop()
        program.terminate()
        program.wait(30)


@pytest.mark.slow
def test_scrape_flag_of_agent(tmp_path, scraped, server):
    """wick agent --scrape sends them with its own profiles."""
    needs_bpf()
    agent = subprocess.Popen([WICK, "agent", "--export", f"http://{server.grpc}", "--scrape", scraped[0].url],
                             stderr=subprocess.DEVNULL)
    try:
        wait_for(lambda: "goroutine" in kinds_of(server).get("cart", ()), 120, why=lambda: kinds_of(server))
    finally:
        agent.terminate()
        agent.wait(60)


@pytest.mark.slow
def test_go_1_19(tmp_path):
    """Debian 12's Go builds the module and passes its tests."""
    places = [ROOT / ".cache/go1.19/bin/go", Path("/usr/lib/go-1.19/bin/go")]  # tools/deps all; Debian's
    old = next((p for p in places if p.exists()), None)
    if not old:
        pytest.skip("no Go 1.19: tools/deps all")
    env = {**os.environ, "GOROOT": str(old.parents[1]), "GOCACHE": str(tmp_path / "cache"), "CGO_ENABLED": "0"}
    for args in (["version"], ["vet", "./..."], ["vet", "-tags", "wick_portable_labels", "./..."], ["test", "./..."]):
        p = subprocess.run([old, *args], cwd=MODULE, capture_output=True, text=True, env=env)
        assert p.returncode == 0, p.stdout + p.stderr
        assert args != ["version"] or " go1.19" in p.stdout


@pytest.mark.slow
def test_overhead_counted(server, tmp_path):
    """What wick adds to Go's own profilers, counted as CPU time of the process and not as the difference of noisy runs: all samples of the work
    are exported at once, after it. At most 1 % of the work."""
    go("build", "-o", f"{tmp_path}/overhead", "./internal/cmd/overhead")
    p = subprocess.run([tmp_path / "overhead", "-mode", "wick", "-endpoint", server.grpc, "-rounds", "15000", "-interval", "1h"], capture_output=True, text=True,
                       timeout=300, check=True)
    work, _, direct, first = map(int, p.stdout.split())
    print(f"work {work / 1e9:.2f} s, its export {first / 1e6:.2f} ms ({first / work:.3%}), an export without samples {direct / 1e6:.2f} ms")
    assert work > 1e9 and 0 < first <= 0.01 * work, p.stdout
    assert direct <= 0.01 * 10e9, p.stdout  # of one core, at the default interval of 10 s
