# SPDX-License-Identifier: Apache-2.0
"""wick serve from outside: OTLP in, questions out, rights, ports, restarts. Needs opentelemetry-proto."""
import json
import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

common_pb2 = pytest.importorskip("opentelemetry.proto.common.v1.common_pb2")
from opentelemetry.proto.collector.profiles.v1development import profiles_service_pb2 as service_pb2  # noqa: E402
from pyroscope_tools import pprof, push  # noqa: E402
from wick_tools import ROOT, SHOP, SPAN, TRACE, WICK, Binary, Server, go_tool, native, need, request, some, token_of, wait_for  # noqa: E402


def test_send_and_ask(server):
    status, body = server.send(request(SHOP))
    assert status == 200, body
    top = server.json("/api/v1/top?query=cpu")
    assert top["total"] == 42
    assert [(r["name"], r["self"], r["total"]) for r in top["rows"][:2]] == [("encode", 30, 30), ("sort", 10, 10)]
    assert server.json("/api/v1/services")[0]["name"] == "shop"
    assert server.json("/api/v1/labels/service.name/values") == ["shop"]
    flame = server.json("/api/v1/flame?query=cpu{service.name=%22shop%22}")
    assert flame["nodes"][0][3] == 42 and len(flame["nodes"]) == 6
    linked = server.json(f"/api/v1/top?query=cpu&trace_id={TRACE.hex()}")
    assert linked["total"] == 30
    text = subprocess.run([WICK, "query", "top", "cpu", "--server", server.url], capture_output=True, text=True, check=True).stdout
    assert re.search(r"30\s?ns\s+71.43%.*encode", text), text


def test_async_profiler(server):
    """What async-profiler 4.5 sends, with its values unpacked; truth: protobuf's own library."""
    r = service_pb2.ExportProfilesServiceRequest.FromString((Path(__file__).parents[1] / "data/async-profiler-4.5.otlp").read_bytes())
    profile = r.resource_profiles[0].scope_profiles[0].profiles[0]
    old = profile.time_unix_nano.to_bytes(8, "little")
    data = (Path(__file__).parents[1] / "data/async-profiler-4.5.otlp").read_bytes()
    assert data.count(old) == 1
    data = data.replace(old, (time.time_ns() - 5_000_000_000).to_bytes(8, "little"))
    status, body = server.get("/v1development/profiles", None, data, {"Content-Type": "application/x-protobuf"},
                              base=server.http)
    assert status == 200, body
    d, self_time = r.dictionary, {}
    for s in profile.samples:
        leaf = d.location_table[d.stack_table[s.stack_index].location_indices[0]]
        name = d.string_table[d.function_table[leaf.lines[0].function_index].name_strindex]
        self_time[name] = self_time.get(name, 0) + s.values[0]
    text = subprocess.run([WICK, "query", "top", "itimer", "--json", "--server", server.url], capture_output=True, text=True,
                          check=True).stdout
    rows = json.loads(text)["rows"]
    assert {x["name"]: x["self"] for x in rows if x["self"]} == self_time and sum(self_time.values()) == 129


def test_slowest_spans(server):
    """Samples added up by span: counted here by hand from what is sent."""
    def linked(spans, service, start):
        r = request([(f"main;f{i}", v, False) for i, (_, v) in enumerate(spans)] + [("main;idle", 100, False)], service, start)
        samples = r.resource_profiles[0].scope_profiles[0].profiles[0].samples
        for sample, (span, _) in zip(samples, spans):
            r.dictionary.link_table.add(trace_id=TRACE, span_id=span)
            sample.link_index = len(r.dictionary.link_table) - 1
        assert server.send(r)[0] == 200

    slow, quick, other = bytes([1] * 8), bytes([2] * 8), bytes([3] * 8)
    now = time.time_ns()
    linked([(slow, 50), (quick, 3)], "shop", now - 20 * 10**9)
    linked([(slow, 30), (other, 7)], "shop", now - 10 * 10**9)
    linked([(quick, 5)], "cart", now - 5 * 10**9)
    got = server.json("/api/v1/spans?query=cpu")
    assert (got["total"], got["linked"], got["count"], got["unit"]) == (395, 95, 3, "nanoseconds")
    assert [(s["spanId"], s["value"], s["samples"]) for s in got["spans"]] == [(slow.hex(), 80, 2), (quick.hex(), 8, 2), (other.hex(), 7, 1)]
    assert got["spans"][0]["traceId"] == TRACE.hex() and got["spans"][0]["service"] == "shop"
    assert int(got["spans"][0]["from"]) == now - 20 * 10**9 and int(got["spans"][0]["to"]) == now - 9 * 10**9
    one = server.json(f"/api/v1/spans?query=cpu&trace_id={TRACE.hex()}&span_id={quick.hex()}")["spans"]
    assert [(s["spanId"], s["value"]) for s in one] == [(quick.hex(), 8)]
    cart = server.json("/api/v1/spans?query=cpu{service.name=%22cart%22}&limit=1")["spans"]
    assert [(s["spanId"], s["value"], s["service"]) for s in cart] == [(quick.hex(), 5, "cart")]
    assert server.json(f"/api/v1/spans?query=cpu&trace_id={'ab' * 16}")["spans"] == []
    text = subprocess.run([WICK, "query", "spans", "cpu", "--server", server.url], capture_output=True, text=True, check=True).stdout
    assert re.search(rf"80\s?ns +2  {TRACE.hex()}  {slow.hex()}  shop", text), text


def test_sent_twice_stored_once(server):
    r = request(SHOP, start=time.time_ns() - 10**9)
    assert server.send(r)[0] == 200 and server.send(r)[0] == 200
    assert server.json("/api/v1/top?query=cpu")["total"] == 42


def test_grpc(server):
    grpc = pytest.importorskip("grpc")
    with grpc.insecure_channel(server.grpc) as channel:
        export = channel.unary_unary(
            "/opentelemetry.proto.collector.profiles.v1development.ProfilesService/Export",
            request_serializer=lambda m: m.SerializeToString(),
            response_deserializer=service_pb2.ExportProfilesServiceResponse.FromString)
        export(request(SHOP), timeout=10)
        with pytest.raises(grpc.RpcError) as e:
            bad = request(SHOP)
            bad.resource_profiles[0].scope_profiles[0].profiles[0].samples[0].stack_index = 999
            export(bad, timeout=10)
        assert e.value.code() == grpc.StatusCode.INVALID_ARGUMENT and "stack" in e.value.details()
    assert server.json("/api/v1/top?query=cpu")["total"] == 42


def test_acknowledged_survives_kill(server):
    assert server.send(request(SHOP))[0] == 200
    server.stop(signal.SIGKILL)
    server.start()
    assert server.json("/api/v1/top?query=cpu")["total"] == 42


def test_clean_stop_is_quick(server):
    server.send(request(SHOP))
    code, seconds = server.stop()
    assert code == 0 and seconds < 10
    server.start()
    assert server.json("/api/v1/top?query=cpu")["total"] == 42


def test_tokens_and_tenants(server):
    def token(*options):
        return subprocess.run([WICK, "token", "create", "--file", str(server.dir / "tokens"), *options], capture_output=True,
                              text=True, check=True).stdout.strip()

    a_write, a_read = token("--scope", "write", "--tenant", "a"), token("--scope", "read", "--tenant", "a")
    b_read, admin = token("--scope", "read", "--tenant", "b"), token("--scope", "admin", "--tenant", "a")
    wait_for(lambda: server.send(request(SHOP))[0] == 401)  # the file is read again within a second
    assert server.send(request(SHOP), a_read)[0] == 403
    assert server.send(request(SHOP), a_write)[0] == 200
    assert server.get("/api/v1/top")[0] == 401
    assert server.get("/api/v1/top", a_write)[0] == 403
    assert server.json("/api/v1/top?query=cpu", token=a_read)["total"] == 42
    assert server.json("/api/v1/top?query=cpu", token=b_read)["total"] == 0
    assert server.get("/api/v1/delete?query=cpu&from=now-1h&to=now", a_read, b"", method="POST")[0] == 403
    assert server.get("/api/v1/delete?query=cpu&from=now-1h&to=now", admin, b"", method="POST")[0] == 200
    assert server.json("/api/v1/top?query=cpu", token=a_read)["total"] == 0


def test_tenant_limit(tmp_path):
    s = Server(tmp_path, "--set", "limits.samples_per_second=1")
    try:
        status = 200
        for i in range(8):  # three samples each; ten are saved up
            status, body = s.send(request(SHOP, start=time.time_ns() - i * 10**6))
            if status != 200:
                break
        assert status == 429 and b"limits.samples_per_second" in body and i >= 3
        assert re.search(r"wick_ingest_limited_total 1\n", s.get("/metrics")[1].decode())
        q = urllib.request.Request(s.url + "/ingest?name=x&format=folded", data=b"a;b 1\n")
        with pytest.raises(urllib.error.HTTPError) as e:
            urllib.request.urlopen(q, timeout=30)
        assert e.value.code == 429 and int(e.value.headers["Retry-After"]) >= 1
    finally:
        s.stop()


def test_taken_ports(tmp_path):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        s.listen()
        port = s.getsockname()[1]
        first = subprocess.Popen(
            [WICK, "serve", "--store", "memory", "--http", f"127.0.0.1:{port}", "--otlp-grpc", f"127.0.0.1:{port}",
             "--otlp-http", "off"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**os.environ, "XDG_DATA_HOME": str(tmp_path), "HOME": str(tmp_path)})
        assert "is ready" in first.stdout.readline()
        first.terminate()
        err = first.communicate(timeout=10)[1]
        assert "the API uses" in err and "OTLP/gRPC is off" in err


@pytest.mark.parametrize("options,words", [
    (["--http", "0.0.0.0:0"], "not a loopback address"),
    (["--set", "listen.htpp=1"], "http"),
    (["--set", "store.engine=paper"], "one of segment, memory"),
    (["--nonsense"], "unknown option"),
])
def test_wrong_words(tmp_path, options, words):
    p = subprocess.run([WICK, "serve", "--store", str(tmp_path / "s"), *options], capture_output=True, text=True, timeout=20,
                       env={**os.environ, "XDG_DATA_HOME": str(tmp_path), "HOME": str(tmp_path)})
    assert p.returncode in (1, 2) and words in p.stderr
    assert len(p.stderr.strip().splitlines()) == 1


def test_store_of_another(server, tmp_path):
    p = subprocess.run([WICK, "serve", "--store", str(tmp_path / "store"), "--http", "127.0.0.1:0", "--otlp-grpc", "off",
                        "--otlp-http", "off"], capture_output=True, text=True, timeout=20,
                       env={**os.environ, "XDG_DATA_HOME": str(tmp_path), "HOME": str(tmp_path)})
    assert p.returncode == 1 and "store" in p.stderr


def test_reference_page_is_current():
    page = subprocess.run([WICK, "serve", "--print-reference"], capture_output=True, text=True, check=True).stdout
    assert page == (ROOT / "docs/configuration.md").read_text()


def go_is_new_enough():
    go = shutil.which("go")
    if not go:
        return False
    m = re.search(r"go1\.(\d+)", subprocess.run([go, "version"], capture_output=True, text=True).stdout)
    return m and int(m.group(1)) >= 26


@pytest.mark.slow
@pytest.mark.skipif(not go_is_new_enough(), reason="Pyroscope's Go client wants Go 1.26")
@pytest.mark.parametrize("form", ["json", "proto"])
def test_pyroscope_client(server, tmp_path, form):
    tool = tmp_path / "pyroscope"
    subprocess.run(["go", "build", "-o", str(tool), "."], cwd=ROOT / "tests/go/pyroscope", check=True)
    server.send(request(SHOP))
    now = int(time.time() * 1000)
    r = subprocess.run([str(tool), server.url, form, str(now - 3600_000), str(now + 1000), SPAN.hex()], capture_output=True,
                       text=True, timeout=60)
    assert r.returncode == 0, r.stderr
    out = json.loads(r.stdout)
    assert out["types"][0]["ID"] == "process_cpu:cpu:nanoseconds:cpu:nanoseconds"
    assert "service_name" in out["names"] and out["values"] == ["shop"]
    assert {p["name"]: p["value"] for p in out["series"][0]["labels"]}["service_name"] == "shop"
    assert int(out["flame"]["total"]) == 42 and out["flame"]["levels"][0]["values"][:2] == [0, 42]
    assert int(out["span"]["total"]) == 30
    assert int(out["diff"]["leftTicks"]) == 42
    assert sum(p["value"] for p in out["points"][0]["points"] if "value" in p) == 42
    assert sum(sum(s.get("counts", [])) for s in out["heatmap"][0]["slots"]) == 1
    assert out["stats"]["data_ingested"] is True
    assert out["error"] == "invalid_argument"
    if form == "proto":
        assert out["profile"]["samples"] == 3


@pytest.mark.skipif(not shutil.which("go"), reason="needs go")
def test_go_tool_pprof_reads_it(server, tmp_path):
    server.send(request(SHOP))
    p = go_tool("tool", "pprof", "-top", f"{server.url}/api/v1/profile?query=cpu", env={**os.environ, "PPROF_TMPDIR": str(tmp_path)})
    assert p.returncode == 0, p.stderr
    assert re.search(r"30ns 71\.43% .* encode$", p.stdout, re.M), p.stdout
    out = tmp_path / "default.pgo"
    p = subprocess.run([WICK, "pgo", "shop", "-o", str(out), "--server", server.url], check=True, capture_output=True, text=True)
    assert p.stderr == f"wick: wrote {out}; build with: go build -pgo={out}\n" and not p.stdout
    assert go_tool("tool", "pprof", "-raw", str(out)).stdout.count("encode") >= 1
    p = subprocess.run([WICK, "pgo", "nobody", "-o", str(tmp_path / "x"), "--server", server.url], capture_output=True, text=True)
    assert p.returncode == 1 and "no profile matches" in p.stderr


@pytest.mark.parametrize("mode", ["", "-symbolize=remote", "-symbolize=force"])
@pytest.mark.parametrize("command", [["go", "tool", "pprof"], [WICK, "pprof"]], ids=["go", "wick"])
def test_pprof_of_frames_without_names(server, tmp_path, command, mode):
    """pprof asks the server for the names of such frames; without and with tokens."""
    need(command[0])
    server.send(native("ab" * 20, [([0x1234, 0x2345], 7)]))
    url = f"{server.url}/api/v1/profile?query=cpu"
    for _ in range(2):
        p = subprocess.run([*command, "-top", "-addresses", *filter(None, [mode]), url], capture_output=True, text=True, timeout=120,
                           env={**os.environ, "PPROF_TMPDIR": str(tmp_path)})
        assert p.returncode == 0 and not re.search(r"\b40[14]\b", p.stderr), p.stderr  # not a port
        assert re.search(r"^ +7ns +100% +100% +7ns +100% +0+1234 ", p.stdout, re.M), p.stdout
        token = token_of(server, "read")
        wait_for(lambda: server.get("/api/v1/profile?query=cpu")[0] == 401)
        url = f"{server.url}/api/v1/profile?query=cpu".replace("//", f"//x:{token}@")
    assert server.get("/api/v1/symbolz", data=b"0x1234", method="POST")[0] == 401


@pytest.mark.skipif(not shutil.which("go"), reason="needs go")
def test_pprof_keeps_the_names_of_the_server(server, tmp_path):
    """A mapping says what is known of it, so that pprof does not read every binary of a host again."""
    binary = Binary(tmp_path)
    address = binary.address("hot_function")
    r = native(binary.build_id, [([address], 5), ([address + 1], 2)])
    d = r.dictionary
    d.string_table.extend(["told_by_sender", "profile.frame.type", "native", str(binary.path)])
    n = len(d.string_table)
    d.function_table.add(name_strindex=n - 4)
    d.attribute_table.add(key_strindex=n - 3).value.string_value = "native"
    d.mapping_table[1].filename_strindex = n - 1
    named = next(x for x in d.location_table if x.address == address)
    named.lines.add(function_index=len(d.function_table) - 1)
    named.attribute_indices.append(len(d.attribute_table) - 1)
    server.send(r)
    p = go_tool("tool", "pprof", "-raw", f"{server.url}/api/v1/profile?query=cpu", env={**os.environ, "PPROF_TMPDIR": str(tmp_path)})
    assert p.returncode == 0 and "told_by_sender" in p.stdout, p.stdout + p.stderr
    assert re.search(rf"^1: .*{binary.path} {binary.build_id} \[FN\]$", p.stdout, re.M), p.stdout


def test_metrics_read_as_prometheus(server):
    server.send(request(SHOP))
    server.json("/api/v1/top?query=cpu")
    text = server.get("/metrics")[1].decode()
    values, types = {}, {}
    for line in some(text.splitlines()):
        if line.startswith("# TYPE "):
            name, kind = line.split()[2:]
            assert name not in types, name
            types[name] = kind
        elif not line.startswith("#"):
            m = re.fullmatch(r'([a-z_]+)(\{[^}]*\})? (\S+)', line)
            assert m, line
            base = re.sub(r"_(bucket|sum|count)$", "", m[1])
            assert m[1] in types or base in types, line
            values[m[1] + (m[2] or "")] = float(m[3])
    assert values["wick_ingest_profiles_total"] == 1 and values["wick_ingest_samples_total"] == 3
    assert values["wick_ingest_seconds_count"] == 1 and 0 < values["wick_ingest_lag_seconds"] < 60
    assert values["wick_store_samples_total"] == 3 and values['wick_net_requests_total{listener="otlp_http"}'] == 1
    assert values["wick_http_call_seconds_count"] >= 1 and values["process_resident_memory_bytes"] > 1e6


@pytest.mark.skipif(not shutil.which("go"), reason="needs go")
def test_profile_of_the_server_itself(server, tmp_path):
    if not list(Path(WICK).resolve().parents[1].glob("sdk/libwick.so.1")):
        pytest.skip("libwick is not beside it")
    stop = threading.Event()

    def work():
        while not stop.is_set():
            server.send(request(SHOP))
            server.get("/api/v1/flame?query=cpu")

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    p = go_tool("tool", "pprof", "-raw", f"{server.url}/debug/pprof/profile?seconds=3", env={**os.environ, "PPROF_TMPDIR": str(tmp_path)})
    busy = server.get("/debug/pprof/profile?seconds=1")[0]
    stop.set()
    for t in threads:
        t.join()
    assert p.returncode == 0, p.stderr
    assert "cpu/nanoseconds" in p.stdout and re.search(r"(loop_run|otlp_decode|writer|conn_)", p.stdout), p.stdout[:3000]
    assert busy == 200 and b"cmdline" in server.get("/debug/pprof/")[1]


def test_wick_pprof_reads_it(server):
    server.send(request(SHOP))
    host = server.url.removeprefix("http://")

    def top(source, **env):
        return subprocess.run([WICK, "pprof", "-top", source], capture_output=True, text=True, timeout=60, env={**os.environ, **env})

    p = top(f"wick://{host}/shop?type=cpu&from=now-1h")
    assert p.returncode == 0 and re.search(r"30ns 71\.43% .* encode$", p.stdout, re.M), p.stderr
    assert "Total" in top(f"wick://{host}/shop?trace_id={TRACE.hex()}").stdout or "30ns" in top(f"wick://{host}/shop?trace_id={TRACE.hex()}").stdout
    assert top(f"wick://{host}/no%22body").returncode != 0
    token = subprocess.run([WICK, "token", "create", "--file", str(server.dir / "tokens"), "--scope", "read"], capture_output=True,
                           text=True, check=True).stdout.strip()
    wait_for(lambda: top(f"wick://{host}/shop").returncode != 0)
    assert top(f"wick://{host}/shop", WICK_TOKEN=token).returncode == 0


PGO_GO = """package main

import (
	"fmt"
	"net/http"
	_ "net/http/pprof"
	"os"
)

type shape interface{ area(x int) int }
type square struct{ k int }
type circle struct{ k int }

func (s square) area(x int) int { return x*x*s.k + mix(x) }
func (c circle) area(x int) int { return 3*x*x + mix(x+c.k) }

//go:noinline
func sum(v []shape, n int) int {
	t := 0
	for i := 0; i < n; i++ {
		for _, s := range v {
			t += s.area(i)
		}
	}
	return t
}

func mix(x int) int {
	for i := 0; i < 3; i++ {
		x ^= x << 7
		x ^= x >> 9
		x += i * 31
		if x&1 == 0 {
			x = -x
		}
	}
	return x & 1023
}

func main() {
	v := []shape{}
	for i := 0; i < 64; i++ {
		v = append(v, square{i})
	}
	v = append(v, circle{1})
	if len(os.Args) > 1 {
		go http.ListenAndServe(os.Args[1], nil)
		for {
			sum(v, 20000)
		}
	}
	fmt.Println(sum(v, 2000000))
}
"""


@pytest.mark.slow
@pytest.mark.skipif(not go_is_new_enough(), reason="needs a Go with -pgo")
def test_pgo_makes_a_program_faster(server, tmp_path):
    """pprof's CPU profile of the program, through Pyroscope's push into wick, out with wick pgo, into go build -pgo."""
    source = tmp_path / "pgo"
    source.mkdir()
    (source / "main.go").write_text(PGO_GO)
    (source / "go.mod").write_text("module pgo\n\ngo 1.21\n")

    def build(out, pgo):
        subprocess.run(["go", "build", f"-pgo={pgo}", "-o", str(tmp_path / out), "."], cwd=source, check=True)

    build("plain", "off")
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    program = subprocess.Popen([str(tmp_path / "plain"), f"127.0.0.1:{port}"])
    try:
        deadline = time.time() + 60
        while True:
            try:
                profile = urllib.request.urlopen(f"http://127.0.0.1:{port}/debug/pprof/profile?seconds=5", timeout=30).read()
                break
            except OSError:
                assert time.time() < deadline
                time.sleep(0.1)
    finally:
        program.kill()
        program.wait()
    status, body = server.get("/ingest?name=pgo&format=pprof", data=profile)
    assert status == 200, body
    subprocess.run([WICK, "pgo", "pgo", "-o", str(tmp_path / "default.pgo"), "--server", server.url], check=True)
    build("fast", tmp_path / "default.pgo")
    best = {"plain": [], "fast": []}
    for _ in range(3):
        for name in best:
            before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
            subprocess.run([str(tmp_path / name)], capture_output=True, check=True)
            best[name].append(resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before)
    ratio = min(best["plain"]) / min(best["fast"])
    print(f"go build -pgo: {ratio:.2f} times as fast")
    assert ratio > 1.03, best


def rpc(method, params=None, id=1):
    return json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params or {}}).encode()


def test_mcp_over_http_and_stdio(server):
    server.send(request(SHOP))
    call = rpc("tools/call", {"name": "top", "arguments": {"query": "cpu", "limit": 2}})
    over_http = json.loads(server.get("/mcp", data=call, headers={"Content-Type": "application/json"})[1])
    lines = b"\n".join([rpc("initialize", {"protocolVersion": "2025-06-18"}), rpc("tools/list", id=2), call, b""])
    p = subprocess.run([WICK, "mcp", "--server", server.url], input=lines, capture_output=True, check=True)
    first, tools, top = map(json.loads, p.stdout.splitlines())
    assert first["result"]["serverInfo"]["name"] == "wick"
    assert {"services", "top", "callers", "lines", "spans"} <= {t["name"] for t in tools["result"]["tools"]}
    for answer in (over_http, top):
        rows = json.loads(answer["result"]["content"][0]["text"])["rows"]
        assert [r["name"] for r in rows] == ["encode", "sort"]
    server.send(request([(f"main;{'a_long_name_' * 8}{i}", 1, False) for i in range(1000)], service="many"))
    many = json.loads(server.get("/mcp", data=rpc("tools/call", {"name": "top", "arguments": {"query": "cpu", "limit": 5000}}))[1])
    text = many["result"]["content"][0]["text"]
    assert len(text) < 25000 and "Reduce the result with limit" in text  # an answer never floods who asked
    bad = json.loads(server.get("/mcp", data=rpc("tools/call", {"name": "top", "arguments": {"query": "{a="}}))[1])
    assert bad["result"]["isError"] and "query" in bad["result"]["content"][0]["text"]


def test_mcp_text_and_arguments(server):
    server.send(request(SHOP))

    def call(name, **arguments):
        answer = json.loads(server.get("/mcp", data=rpc("tools/call", {"name": name, "arguments": arguments}))[1])["result"]
        return answer["isError"], answer["content"][0]["text"]

    failed, flame = call("flame", query="cpu")
    lines = [x.split() for x in flame.splitlines()[1:]]
    assert not failed and [x[-1] for x in lines] == ["main", "checkout", "encode", "sort", "idle"]
    assert lines[0][0] == "100.00%" and lines[2][:2] == ["71.43%", "71.43%"]  # 30 of 42
    failed, text = call("callers", query="cpu", function="encode")
    assert not failed and "checkout" in text and "callees" in text
    assert call("callers", query="cpu") == (True, "callers needs the argument 'function'")
    wide = request([(f"main;handler_{i:03}", 1000 - i, False) for i in range(300)], "wide")
    assert server.send(wide)[0] == 200
    sizes = [len(call("flame", query='cpu{service.name="wide"}', tokens=n)[1]) for n in (100, 500, 5000)]
    assert sizes[0] <= 400 + 100 and 1000 < sizes[1] <= 2000 + 100 and 5000 < sizes[2] <= 20000, sizes
    assert "unknown tool 'calers'; did you mean 'callers'?" in server.get("/mcp", data=rpc("tools/call", {"name": "calers", "arguments": {}}))[1].decode()
    assert call("top", qurey="cpu") == (True, "top has no argument 'qurey'; did you mean 'query'?")
    listed = {t["name"]: t for t in json.loads(server.get("/mcp", data=rpc("tools/list"))[1])["result"]["tools"]}
    assert listed["callers"]["inputSchema"]["required"] == ["function"] and "Use it after top" in listed["callers"]["description"]
    failed, labels = call("labels")
    assert not failed and {"name": "service.name", "slow": False} in json.loads(labels)
    assert call("leaks", query='heap{service.name="shop"}') == (False, "no stack grows in this range\n")
    now = time.time_ns()
    for i in range(8):  # 1 MiB more in each eighth of an hour
        push(server, pprof([("inuse_space", "bytes")], [("main;cache;put", [(i + 1) << 20], {}), ("main;steady", [5 << 20], {})],
                           ("space", "bytes", 1), start=now - (3600 - 450 * i - 60) * 10**9), service_name="shop", __name__="memory")
    failed, leaks = call("leaks", query='heap{service.name="shop"}')
    lines = leaks.splitlines()
    assert not failed and lines[1].split()[:3] == ["+8", "MB/h", "fit"] and lines[1].endswith("1 MB -> 8 MB"), leaks
    assert [x.strip() for x in lines[2:5]] == ["main", "cache", "put"] and "steady" not in leaks


@pytest.mark.slow
def test_mcp_client(server):
    """The protocol's own Python client, over both transports."""
    mcp = pytest.importorskip("mcp")
    import asyncio

    from mcp.client.stdio import stdio_client
    from mcp.client import streamable_http

    http_client = getattr(streamable_http, "streamable_http_client", None) or streamable_http.streamablehttp_client

    server.send(request(SHOP))

    async def converse(streams):
        async with mcp.ClientSession(streams[0], streams[1]) as session:
            await session.initialize()
            tools = await session.list_tools()

            async def ask(tool, **arguments):
                answer = await session.call_tool(tool, {"query": "cpu", **arguments})
                assert not getattr(answer, "isError", None) and not getattr(answer, "is_error", None), answer
                return json.loads(answer.content[0].text)

            # why is the service slow? each step as a coding agent takes it
            assert [s["name"] for s in await ask("services")] == ["shop"]
            top = await ask("top", limit="2")
            assert [r["name"] for r in top["rows"]] == ["encode", "sort"]
            both = await ask("callers", function="encode", format="json")
            assert "checkout" in json.dumps(both["callers"]) and "callees" in both
            lines = await ask("lines", function="encode")
            assert [(r["line"], r["self"]) for r in lines["rows"]] == [(7, 30)]
            diff = await ask("top", base_from="now-2h", base_to="now-1h", sort="share")
            assert diff["total"] == [0, 42]
            spans = (await ask("spans"))["spans"]
            assert [(s["spanId"], s["value"]) for s in spans] == [(SPAN.hex(), 30)]
            of_span = await ask("top", trace_id=spans[0]["traceId"], span_id=spans[0]["spanId"])
            assert of_span["total"] == 30
            return [t.name for t in tools.tools], top["total"]

    async def both():
        async with stdio_client(mcp.StdioServerParameters(command=WICK, args=["mcp", "--server", server.url])) as s:
            stdio = await converse(s)
        async with http_client(server.url + "/mcp") as s:
            return stdio, await converse(s)

    for tools, total in some(asyncio.run(both())):
        assert "top" in tools and total == 42


@pytest.mark.slow
def test_openapi_by_schemathesis(server):
    pytest.importorskip("schemathesis")
    server.send(request(SHOP))
    tool = Path(os.sys.executable).parent / "schemathesis"
    p = subprocess.run([str(tool), "run", server.url + "/api/v1/openapi.json", "--checks",
                        "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance",
                        "--max-examples", "40", "--include-path-regex", "^/api/v1/", "--exclude-path-regex", "delete|scrape|snapshot|log(in|out)"],
                       capture_output=True, text=True, timeout=600, cwd=server.dir)
    assert p.returncode == 0, p.stdout[-3000:]
