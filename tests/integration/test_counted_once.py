# SPDX-License-Identifier: Apache-2.0
"""One process that is seen by two sources is counted once: what arrives is compared with user+sys of the process."""
import json
import os
import signal
import subprocess
import sys
import time

import pytest

pytest.importorskip("opentelemetry.proto.common.v1.common_pb2")
import ui_data  # noqa: E402
from agent_tools import PROGRAMS, ROOT, WICK, agent_to_file, complete_lines, is_sampling, needs_bpf
from go_tools import needs_go
from sdk_tools import LIBWICK
from wick_tools import Server, descendants, free_port, log_of, measured, some, wait_for


@pytest.fixture(autouse=True)
def bpf():
    needs_bpf()


def cpu_of(path, pid, mark=None):
    """CPU seconds of a process in what a collector wrote; mark: in scopes with this attribute."""
    total = 0
    for line in map(json.loads, complete_lines(path)):
        strings = line["dictionary"]["stringTable"]
        for resource in line["resourceProfiles"]:
            attrs = {a["key"]: a["value"] for a in resource["resource"]["attributes"]}
            if int(attrs.get("process.pid", {}).get("intValue", 0)) != pid:
                continue
            scopes = [s for s in resource["scopeProfiles"] if not mark or mark in [a["key"] for a in s["scope"].get("attributes", [])]]
            for profile in (p for s in scopes for p in s["profiles"]):
                if strings[profile["sampleType"]["typeStrindex"]] == "cpu":
                    total += sum(int(v) for s in profile["samples"] for v in s["values"])
    return total / 1e9


def sampled_while_it_publishes(tmp_path, types, *options):
    """CPU seconds that the agent sent: all, and those marked as sent by the process, too; then user+sys when the context was
    published, changed to nothing, and at the end."""
    with agent_to_file(tmp_path, "-F", 199, "--interval", "700ms", "--budget", 0, *options) as (out, agent):
        wait_for(lambda: is_sampling(agent.pid))
        p = subprocess.Popen([sys.executable, PROGRAMS / "publishes_context.py", types, "1", "3", "4"],
                             stdout=subprocess.PIPE, text=True)
        try:
            times = [float(p.stdout.readline()) for _ in range(3)]
            cpu = settled(lambda: cpu_of(out, p.pid), 3)
            also = cpu_of(out, p.pid, "wick.also_sent")
        finally:
            p.kill()
            p.wait()
    return cpu, also, *times


def settled(measure, seconds):
    """measure(), when it is not 0 and has not changed for so many seconds."""
    seen, since = 0, time.monotonic()

    def still():
        nonlocal seen, since
        now = measure()
        if now != seen:
            seen, since = now, time.monotonic()
        return seen and time.monotonic() - since > seconds

    wait_for(still, 90, "no change", 0.3)
    return seen


def test_what_a_process_sends_itself_is_marked(tmp_path):
    """From the moment its context says so until it says otherwise; a second late is a fourth of the whole. Nothing is missing: the
    agent does not know who gets it."""
    def ratio(k):
        cpu, also, begin, end, last = sampled_while_it_publishes(tmp_path, "heap,cpu")
        return 1 + (also - (end - begin)) / last if abs(cpu / last - 1) < 0.1 else cpu / last

    measured(ratio, 0.1)


@pytest.mark.parametrize("types,options", [("heap", ()), ("cpu", ("--both",))])
def test_what_it_does_not_send_is_not_marked(tmp_path, types, options):
    def ratio(k):
        cpu, also, _, _, last = sampled_while_it_publishes(tmp_path, types, *options)
        return (cpu + also) / last

    measured(ratio, 0.1)


BURN = """
import os, sys, time
while time.process_time() < float(sys.argv[1]):
    sum(range(2000))
t = os.times()
print(t.user + t.system)
"""


def libwick_program(tmp_path):
    exe = tmp_path / "late_libwick"
    subprocess.run(["cc", "-O2", f"-I{ROOT}/include", "-o", exe, PROGRAMS / "late_libwick.c", f"-L{LIBWICK}", "-lwick",
                    f"-Wl,-rpath,{LIBWICK}"], check=True)
    return exe


def commands(tmp_path, server, other, seconds):
    """What is run, by the service's name: by the agent alone, by libwick and the agent in every order, and by libwick for another
    server than that of the host."""
    exe, grpc, away = libwick_program(tmp_path), "http://" + server.grpc, "http://" + other.grpc
    run = [WICK, "run", "--export", grpc, "--"]
    python = [sys.executable, "-c", BURN, str(seconds)]
    third = str(seconds / 3)
    return {"agent": python,
            "run": [*run, *python],
            "exec": [*run, "sh", "-c", 'exec "$@"', "sh", *python],
            "libwick": [exe, grpc, "0", str(seconds), "0"],
            "late": [exe, grpc, third, third, third],
            "contained": ["unshare", "-p", "-u", "-f", "--mount-proc", "sh", "-c", 'hostname elsewhere; exec "$@"', "sh", *run, *python],
            "away_run": [WICK, "run", "--export", away, "--", *python],
            "away_late": [exe, away, third, third, third],
            "away_nowhere": [exe, f"http://127.0.0.1:{free_port()}", "0", str(seconds), "0"]}


def total(server, service):
    return server.json(f"/api/v1/top?limit=1&query=cpu%7Bservice.name=%22{service}%22%7D")["total"] / 1e9


def judge_combinations(tmp_path, monkeypatch, seconds, tolerance):
    monkeypatch.delenv("WICK_NO_AGENT", raising=False)
    server = Server(tmp_path, "--set", "agent.rate=99", "--set", "agent.budget=0")
    (tmp_path / "other").mkdir()
    other = Server(tmp_path / "other", "--no-agent")
    try:
        wait_for(lambda: any(is_sampling(p) for p in descendants(server.p.pid)), why="the agent samples")
        truth = {}
        for name, command in some(commands(tmp_path, server, other, seconds).items()):
            p = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=seconds * 30 + 60,
                               env={**os.environ, "OTEL_SERVICE_NAME": "once_" + name})
            assert p.returncode == 0, (name, p.stderr)
            truth[name] = float(p.stdout.split()[-1])
        settled(lambda: sum(total(server, "once_" + name) for name in truth), 8)  # a batch comes every 5 s
        got = {name: total(server, "once_" + name) for name in truth}
        wrong = {name: (got[name], cpu) for name, cpu in truth.items() if abs(got[name] / cpu - 1) > tolerance}
        there = total(other, "once_away_run")
        if abs(there / truth["away_run"] - 1) > tolerance:
            wrong["there"] = there
    finally:
        server.stop()
        other.stop()
    return wrong


def test_combinations(tmp_path, monkeypatch):
    """Counted once: twice would be +100 %, not at all -100 %, and of `late` a third. A loaded machine adds noise."""
    wrong = judge_combinations(tmp_path, monkeypatch, 1.5, 0.25)
    if wrong:  # again, of more samples: what is counted twice is so every time
        (tmp_path / "again").mkdir()
        wrong = judge_combinations(tmp_path / "again", monkeypatch, 4, 0.25)
    assert not wrong, wrong


@pytest.mark.slow
def test_combinations_exactly(tmp_path, monkeypatch):
    wrong = judge_combinations(tmp_path, monkeypatch, 20, 0.03)
    assert not wrong, wrong


PUSHES = """
import os, sys, time, urllib.request
def push(seconds, since):
    url = f"{sys.argv[1]}/ingest?name={sys.argv[2]}&from={int(since)}&until={int(time.time())}&format=folded&sampleRate=100&spyName=other"
    urllib.request.urlopen(urllib.request.Request(url, data=b"main;burn %d\\n" % round(seconds * 100))).read()
time.sleep(1 - time.time() % 1)  # a push says when in whole seconds: what runs after the last of them was seen by the agent alone
begin = time.time()
while time.process_time() < float(sys.argv[3]):
    sum(range(2000))
push(time.process_time(), begin)
t = os.times()
print(t.user + t.system)
"""


def test_a_sender_without_a_pid(tmp_path, monkeypatch):
    """As Pyroscope's SDKs push, over loopback: the process is the one that holds the socket, and is counted once."""
    monkeypatch.delenv("WICK_NO_AGENT", raising=False)
    server = Server(tmp_path, "--set", "agent.rate=99", "--set", "agent.budget=0")
    try:
        wait_for(lambda: any(is_sampling(p) for p in descendants(server.p.pid)), why="the agent samples")
        p = subprocess.run([sys.executable, "-c", PUSHES, server.url, "once_push", "2"], capture_output=True, text=True, timeout=120,
                           env={**os.environ, "OTEL_SERVICE_NAME": "once_push"})
        assert p.returncode == 0, p.stderr
        cpu = float(p.stdout.split()[-1])
        wait_for(lambda: server.json("/api/v1/top?query=cpu_also%7Bservice.name=%22once_push%22%7D")["total"], 60, "two sources")
        settled(lambda: total(server, "once_push"), 6)
        assert 0.6 * cpu < total(server, "once_push") < 1.4 * cpu, (total(server, "once_push"), cpu)
    finally:
        server.stop()


def test_a_sender_is_known_while_the_agent_waits_for_its_turn(tmp_path, monkeypatch):
    """Who pushes is answered by another process than the one that samples, which is stopped here."""
    monkeypatch.delenv("WICK_NO_AGENT", raising=False)
    server = Server(tmp_path)
    try:
        sampler = wait_for(lambda: next((p for p in descendants(server.p.pid) if is_sampling(p)), None), why="the agent samples")
        os.kill(sampler, signal.SIGSTOP)
        p = subprocess.Popen([sys.executable, "-c", PUSHES, server.url, "pushed", "0.05"], stdout=subprocess.DEVNULL)
        assert p.wait(120) == 0
        os.kill(sampler, signal.SIGCONT)
        series = server.json("/api/v1/series?query=cpu%7Bservice.name=%22pushed%22%7D&group_by=process.pid&from=now-5m")["series"]
        assert [s["labels"]["process.pid"] for s in series] == [str(p.pid)], series
    finally:
        server.stop()


GO_PROGRAM = """package main

import (
	"fmt"
	"net/http"
	_ "net/http/pprof"
	"os"
	"strconv"
	"syscall"
)

var sink uint64

func used() float64 {
	var r syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &r)
	return float64(r.Utime.Sec+r.Stime.Sec) + float64(r.Utime.Usec+r.Stime.Usec)/1e6
}

func main() {
	seconds, _ := strconv.ParseFloat(os.Args[2], 64)
	go http.ListenAndServe(os.Args[1], nil)
	for used() < seconds {
		for i := 0; i < 1000000; i++ {
			sink = sink*31 + 7
		}
	}
	fmt.Println(used())
}
"""

PYROSCOPE = """
import os, sys, time, pyroscope
pyroscope.configure(application_name=sys.argv[2], server_address=sys.argv[1], sample_rate=100)
while time.process_time() < float(sys.argv[3]):
    sum(range(2000))
pyroscope.shutdown()
t = os.times()
print(t.user + t.system)
"""


def scrape_config(tmp_path, port):
    config = tmp_path / "wick.yaml"
    config.write_text(f"""
receivers:
  pprof:
    interval: 5s
    targets: [{{endpoint: "127.0.0.1:{port}", labels: {{service_name: once_scrape}}}}]
    profiles: {{cpu: {{seconds: 4s}}, heap: {{enabled: false}}, mutex: {{enabled: false}}, block: {{enabled: false}}, goroutine: {{enabled: false}}}}
exporters:
  sink: {{}}
service:
  pipelines:
    profiles: {{receivers: [pprof], exporters: [sink]}}
""")
    return config


@needs_go
@pytest.mark.slow
def test_scraped_and_pushed_exactly(tmp_path, monkeypatch):
    """A Go program that is scraped and Python programs with Pyroscope's SDK, one of them under wick run, each sampled by the
    agent as well."""
    monkeypatch.delenv("WICK_NO_AGENT", raising=False)
    pytest.importorskip("pyroscope")
    port = free_port()
    source = tmp_path / "main.go"
    source.write_text(GO_PROGRAM)
    subprocess.run(["go", "build", "-o", tmp_path / "scraped", source], check=True, cwd=tmp_path)
    server = Server(tmp_path, "--config", str(scrape_config(tmp_path, port)), "--set", "agent.rate=99", "--set", "agent.budget=0")
    try:
        wait_for(lambda: any(is_sampling(p) for p in descendants(server.p.pid)), why="the agent samples")
        commands = {"once_scrape": [tmp_path / "scraped", f"127.0.0.1:{port}", "25"],
                    "once_pyroscope": [sys.executable, "-c", PYROSCOPE, server.url, "once_pyroscope", "25"],
                    "once_run_pyroscope": [WICK, "run", "--export", "http://" + server.grpc, "--", sys.executable, "-c", PYROSCOPE,
                                           server.url, "once_run_pyroscope", "25"]}
        truth = {}
        for name, command in commands.items():
            p = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=900, env={**os.environ, "OTEL_SERVICE_NAME": name})
            assert p.returncode == 0, (name, p.stderr)
            truth[name] = float(p.stdout.split()[-1])
        settled(lambda: sum(total(server, name) for name in truth), 12)
        also = {name: server.json(f"/api/v1/top?query=cpu_also%7Bservice.name=%22{name}%22%7D")["total"] for name in truth}
        assert all(also.values()), also  # both sources arrived
        wrong = {name: (total(server, name), cpu) for name, cpu in truth.items() if abs(total(server, name) / cpu - 1) > 0.03}
        assert not wrong, wrong
    finally:
        server.stop()


def names_of(server, pid):
    """{type: names of the service} of a process."""
    series = {kind: server.json(f"/api/v1/series?query={kind}%7Bprocess.pid=%22{pid}%22%7D&group_by=service.name&from=now-5m")["series"]
              for kind in ("cpu", "cpu_also")}
    return {kind: {s["labels"]["service.name"] for s in found} for kind, found in series.items()}


def test_what_is_scraped_has_the_name_that_the_agent_has_for_it(tmp_path, monkeypatch):
    """Its command is python, and its environment says what it is called."""
    monkeypatch.delenv("WICK_NO_AGENT", raising=False)
    port = free_port()
    server = Server(tmp_path, "--scrape", f"http://127.0.0.1:{port}", "--set", "receivers.pprof/scrape.interval=2s",
                    "--set", "receivers.pprof/scrape.profiles.cpu.seconds=1s", "--set", "agent.budget=0")
    p = subprocess.Popen([WICK, "run", "--pprof", f"127.0.0.1:{port}", "--", sys.executable, "-c", "while True: sum(range(2000))"],
                         stderr=subprocess.DEVNULL, env={**os.environ, "OTEL_SERVICE_NAME": "once_named"})
    try:
        wait_for(lambda: all(names_of(server, p.pid).values()), 90, lambda: (names_of(server, p.pid), log_of(server)))
        assert names_of(server, p.pid) == {"cpu": {"once_named"}, "cpu_also": {"once_named"}}
    finally:
        p.kill()
        p.wait()
        server.stop()


class Vendor:
    """Profiles of one process as a vendor's agent or SDK sends them: 1 s of CPU time in each profile of 10 s."""

    def __init__(self, server, scope, sdk="", spans=False, pid=4242, service="shop"):
        self.server, self.scope, self.sdk, self.spans, self.pid, self.service = server, scope, sdk, spans, pid, service

    def send(self, at, seconds=10, kind="cpu", unit="nanoseconds"):
        r = ui_data.Request(self.service, host="web-1", scope=self.scope)
        attrs = r.r.resource_profiles[0].resource.attributes
        attrs.add(key="process.pid").value.int_value = self.pid
        attrs.add(key="process.executable.path").value.string_value = "/usr/bin/shop"
        if self.sdk:
            attrs.add(key="telemetry.sdk.name").value.string_value = self.sdk
        leaf = "inside" if self.sdk else "outside"
        r.profile(kind, unit, int(at * 1e9), [(("main", leaf), int(seconds * 1e8))], int(seconds * 1e9))
        if self.spans:
            r.d.link_table.add(trace_id=os.urandom(16), span_id=os.urandom(8))
            r.scope.profiles[0].samples[0].link_index = 1
        status, body = self.server.send(r.done())
        assert status == 200, body


@pytest.mark.parametrize("kind,spans", [("memory", True), ("disk", False)])
def test_two_vendors_meet_in_the_store(tmp_path, kind, spans):
    """One is counted: the SDK if it has spans, once it is there, else the agent; the answer says so, and nothing is lost."""
    server = Server(tmp_path, *(("--store", "memory") if kind == "memory" else ()))
    try:
        start = time.time() - 600
        agent = Vendor(server, "go.opentelemetry.io/ebpf-profiler")
        sdk = Vendor(server, "vendor", "vendor", spans=spans)
        alone = Vendor(server, "vendor", "vendor", spans=True, pid=77, service="alone")
        for i in range(10):
            agent.send(start + 10 * i)
            if i >= 2:
                sdk.send(start + 10 * i + 3)
            alone.send(start + 10 * i)
        shop = server.json("/api/v1/top?query=cpu%7Bservice.name=%22shop%22%7D")
        assert shop["total"] == (10.3e9 if spans else 10e9), shop  # the SDK's last profile ends 3 s later
        assert shop["notes"]["also"] is True
        parts = {f["name"]: f["self"] for f in server.json("/api/v1/top?query=cpu%7Bservice.name=%22shop%22%7D")["rows"]}
        assert parts == ({"inside": 7.3e9, "outside": 3e9, "main": 0} if spans else {"outside": 10e9, "main": 0}), parts
        assert "also" not in server.json("/api/v1/top?query=cpu%7Bservice.name=%22alone%22%7D").get("notes", {})
        assert total(server, "alone") == 10
        rest = server.json("/api/v1/top?query=cpu_also%7Bservice.name=%22shop%22%7D")["total"]
        assert shop["total"] + rest == 18e9
        text = subprocess.run([WICK, "query", "top", "--server", server.url], capture_output=True, text=True, timeout=60).stderr
        assert "it is counted once" in text, text
    finally:
        server.stop()


@pytest.mark.parametrize("kind,arrives,unit", [("lock", "delay", "nanoseconds"), ("alloc", "alloc_space", "bytes"), ("heap", "inuse_space", "bytes")])
def test_what_is_sent_and_scraped_is_counted_once(tmp_path, kind, arrives, unit):
    """Locks, allocations and memory of a process that sends them and is scraped as well; of one that is only scraped, too."""
    server = Server(tmp_path)
    try:
        start = time.time() - 600
        sdk, scraped, alone = Vendor(server, "wick", "wick"), Vendor(server, "net/http/pprof"), Vendor(server, "net/http/pprof", pid=77, service="alone")
        for i in range(10):
            for vendor in (scraped, sdk, alone) if i % 2 else (sdk, scraped, alone):
                vendor.send(start + 10 * i, kind=arrives, unit=unit)

        def of(kind, service):
            return server.json(f"/api/v1/top?query={kind}%7Bservice.name=%22{service}%22%7D")

        whole = 1e9 if kind == "heap" else 10e9
        assert of(kind, "shop")["total"] == of(kind, "alone")["total"] == whole
        assert of(kind + "_also", "shop")["total"] == whole and of(kind + "_also", "alone")["total"] == 0
        assert of(kind, "shop")["notes"]["also"] is True and "also" not in of(kind, "alone").get("notes", {})
    finally:
        server.stop()


@pytest.mark.parametrize("kind", ["memory", "disk"])
def test_memory_is_held_once_whoever_sends_it(tmp_path, kind):
    """A program is scraped from its start on; its SDK sends the first profile later. Over the whole time, at each moment of it, after a
    restart of the server, and beside a second process."""
    options = ("--store", "memory") if kind == "memory" else ()
    server, start = Server(tmp_path, *options), time.time() - 600
    scraped, sdk, other = Vendor(server, ""), Vendor(server, "wick.dev/go", "opentelemetry"), Vendor(server, "", pid=77)

    def send(rounds):
        for i in rounds:
            at = start + 10 * i
            for vendor in (scraped, other, *((sdk,) if i >= 4 else ())):
                vendor.send(at, kind="inuse_space", unit="bytes")

    def held(more=""):
        return server.json(f"/api/v1/top?query=heap%7Bservice.name=%22shop%22{more}%7D")["total"]

    try:
        send(range(8))
        if kind == "disk":
            assert server.stop()[0] == 0
            server = scraped.server = sdk.server = other.server = Server(tmp_path)
        send(range(8, 10))
        assert held(",process.pid=%224242%22") == held(",process.pid=%2277%22") == 1e9
        assert held() == 2e9
        points = server.json("/api/v1/series?query=heap%7Bservice.name=%22shop%22%7D&step=10s")["series"]
        assert {v for s in some(points) for v in s["values"] if v} == {2e9}, points
        assert server.json("/api/v1/top?query=heap_also%7Bservice.name=%22shop%22%7D")["total"] == 1e9
    finally:
        server.stop()


def test_agent_that_samples_all_and_libwick(tmp_path, monkeypatch):
    """With --both, the agent sends what libwick sends: the store counts it once. Twice would be +100 %."""
    monkeypatch.delenv("WICK_NO_AGENT", raising=False)
    server = Server(tmp_path, "--set", "agent.rate=99", "--set", "agent.budget=0", "--set", "agent.both=true")
    try:
        wait_for(lambda: any(is_sampling(p) for p in descendants(server.p.pid)), why="the agent samples")
        command = [libwick_program(tmp_path), "http://" + server.grpc, "0", "3", "0"]
        p = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=120,
                           env={**os.environ, "OTEL_SERVICE_NAME": "once_both"})
        assert p.returncode == 0, p.stderr
        cpu = float(p.stdout.split()[-1])
        wait_for(lambda: server.json("/api/v1/top?query=cpu_also%7Bservice.name=%22once_both%22%7D")["total"],
                 why=lambda: [(x["name"], x["types"]) for x in server.json("/api/v1/services?from=now-5m")])
        settled(lambda: total(server, "once_both"), 8)  # a batch comes every 5 s
        got = total(server, "once_both")
        assert 0.6 * cpu < got < 1.4 * cpu, (got, cpu)
    finally:
        server.stop()
