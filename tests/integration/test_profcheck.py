# SPDX-License-Identifier: Apache-2.0
"""What wick's producers write conforms to OTLP: profcheck, the conformance checker of OpenTelemetry's profiling group, says so, also about
entries that nothing refers to and about times outside of their profile. It is built from tests/go/profcheck; $PROFCHECK names another one."""
import functools
import os
import subprocess
import time
import urllib.parse

import pytest
from agent_tools import build, needs_bpf
from collector_peer import Collector, Sink, export, svc
from go_tools import GO, needs_go
from python_tools import python, run_python  # noqa: F401
from sdk_tools import wick_run
from timed_data import S as NS
from timed_data import Timed
from wick_tools import BUILD, ROOT, SHARED, WICK, Server, request, some, wait_for

pytestmark = needs_go


@functools.cache
def profcheck():
    if os.environ.get("PROFCHECK"):
        return os.environ["PROFCHECK"]
    out = BUILD / "profcheck"
    p = subprocess.run([GO, "build", "-o", out, "./cmd/profcheck"], cwd=ROOT / "tests/go/profcheck", capture_output=True, text=True)
    if "proxy" in p.stderr or "dial tcp" in p.stderr or "requires go >=" in p.stderr:
        pytest.skip("profcheck cannot be built here: " + p.stderr.strip().splitlines()[-1])
    assert p.returncode == 0, p.stderr
    return out


def conforms(path):
    p = subprocess.run([profcheck(), "-check-orphans", "-check-dupes", str(path)], capture_output=True, text=True)
    assert p.returncode == 0, p.stdout[:2000]


def all_conform(tmp_path, sink, types):
    """Every request, and together they have names, and samples of each type."""
    seen, lines, functions = set(), [], []
    requests = [r for r in sink.requests if r.resource_profiles]
    for i, r in some(enumerate(requests)):
        (tmp_path / f"{i}.pb").write_bytes(r.SerializeToString())
        conforms(tmp_path / f"{i}.pb")
        lines += [line.line for location in r.dictionary.location_table for line in location.lines]
        functions += [f.start_line for f in r.dictionary.function_table[1:]]
        for profiles in [s.profiles for rp in r.resource_profiles for s in rp.scope_profiles]:
            seen |= {r.dictionary.string_table[p.sample_type.type_strindex] for p in profiles if p.samples}
    assert all(n >= 0 for n in some(lines)) and all(n >= 0 for n in some(functions))
    assert types <= seen, seen


def test_the_checker_refuses(tmp_path):
    """It finds what it is asked to find."""
    r = request([("main;work", 5, False)])
    p = r.resource_profiles[0].scope_profiles[0].profiles[0]
    p.samples[0].timestamps_unix_nano.append(p.time_unix_nano - 1)
    (tmp_path / "bad.pb").write_bytes(r.SerializeToString())
    with pytest.raises(AssertionError, match="outside profile time range"):
        conforms(tmp_path / "bad.pb")


@pytest.mark.parametrize("types", ["cpu", "cpu,offcpu"])
def test_agent(tmp_path, types):
    needs_bpf()
    exe = build(tmp_path, "waits.c", "waits")
    busy = subprocess.Popen(["sh", "-c", "while :; do sleep 0.02; done"])
    other = subprocess.Popen([str(exe)], stdout=subprocess.DEVNULL)
    try:
        with Sink() as sink:
            subprocess.run([WICK, "agent", "--export", f"http://{sink.endpoint}", "--interval", "1s", "-d", "6s", "--budget", "0", "-t", types],
                           check=True, capture_output=True, timeout=120)
            all_conform(tmp_path, sink, {"cpu", "off_cpu"} if "," in types else {"cpu"})
            assert len([r for r in sink.requests if r.resource_profiles]) >= 3
    finally:
        for p in (busy, other):
            p.kill()
            p.wait()


@pytest.mark.parametrize("options", [["-F", "199"], ["-t", "offcpu"], ["-t", "cpu,offcpu"], ["--via", "perf"]])
def test_record(tmp_path, options):
    needs_bpf()
    out = tmp_path / "out.otlp.pb"
    subprocess.run([WICK, "record", *options, "-o", out, "--", "sh", "-c", "for i in 1 2 3; do sleep 0.05; head -c 40000000 /dev/urandom | sha256sum; done"],
                   check=True, capture_output=True, timeout=120)
    conforms(out)


def test_libwick(tmp_path):
    exe = build(tmp_path, "lock_wait.c", "lock_wait", "-lpthread")
    with Sink() as sink:
        wick_run("-t", "cpu,wall,heap,lock,alloc", "--export", f"http://{sink.endpoint}", "--", exe, env={"WICK_INTERVAL": "1s"})
        wick_run("-t", "cpu,wall", "--export", f"http://{sink.endpoint}", "--", "sh", "-c", "head -c 60000000 /dev/urandom | sha256sum; sleep 1")
        all_conform(tmp_path, sink, {"cpu", "wall"})


def test_python(tmp_path, python):  # noqa: F811
    script = """
import sys, threading, time, wick
p = wick.start(endpoint=sys.argv[1], profile_types=["cpu", "wall", "alloc", "lock"], export_interval=1)
lock = threading.Lock()
def work():
    end = time.monotonic() + 3
    while time.monotonic() < end:
        with lock:
            [str(i) * 9 for i in range(20000)]
threads = [threading.Thread(target=work) for _ in range(3)]
[t.start() for t in threads]
[t.join() for t in threads]
p.stop()
print("{}")
"""
    with Sink() as sink:
        run_python(python, script, f"http://{sink.endpoint}")
        all_conform(tmp_path, sink, {"cpu", "wall"})


def test_go(tmp_path):
    exe = tmp_path / "checkout"
    subprocess.run([GO, "build", "-o", exe, "./examples/checkout"], cwd=ROOT / "go", check=True, env={**os.environ, "CGO_ENABLED": "0"})
    with Sink() as sink:
        subprocess.run([exe, sink.endpoint, "2"], check=True, capture_output=True, timeout=120)
        all_conform(tmp_path, sink, {"cpu"})


def test_collector(tmp_path):
    """What was received conforms; so does what the filter and the batcher make of it."""
    with Sink() as sink:
        config = {"receivers": {"otlp": {"protocols": {"grpc": {"endpoint": "127.0.0.1:0"}}}},
                  "processors": {"filter": {"error_mode": "ignore", "profiles": {"profile": ['resource.attributes["service.name"] == "other"']}},
                                 "batch": {"timeout": "100ms"}},
                  "exporters": {"otlp_grpc": {"endpoint": sink.endpoint, "tls": {"insecure": True}}},
                  "service": {"pipelines": {"profiles": {"receivers": ["otlp"], "processors": ["filter", "batch"], "exporters": ["otlp_grpc"]}}}}
        with Collector(tmp_path, config) as collector:
            for service in ("shop", "other", "shop"):
                r = request([("main;work;" + service, 5, False), ("main;idle", 2, True)], service=service)
                both = svc.ExportProfilesServiceRequest()
                both.CopyFrom(r)
                if service == "shop":  # one of two resources is dropped
                    other = both.resource_profiles.add()
                    other.CopyFrom(r.resource_profiles[0])
                    other.resource.attributes[0].value.string_value = "other"
                    del other.scope_profiles[0].profiles[0].samples[1:]
                    del both.resource_profiles[0].scope_profiles[0].profiles[0].samples[:1]
                export(collector.grpc, both)
            wait_for(lambda: sink.samples() >= 2)
        time.sleep(0.2)
        all_conform(tmp_path, sink, {"cpu"})
        assert b"work" not in b"".join(r.SerializeToString() for r in sink.requests)


def test_server(tmp_path, monkeypatch):
    """What a server answers as OTLP, of profiles of a pushed service and of its own host, with times and threads, and of a part of them."""
    needs_bpf()
    monkeypatch.delenv("WICK_NO_AGENT", raising=False)
    data = Timed()
    s = Server(tmp_path)
    try:
        data.send(s)
        wait_for(lambda: len(s.json("/api/v1/services")) >= 2, 60)
        for query in ("cpu", "off_cpu", 'cpu{service.name="ticker"}'):
            for part in ("", f"&from={data.start}&to={data.start + 7 * NS}", "&focus=render"):
                status, body = s.get(f"/api/v1/profile?query={urllib.parse.quote(query)}&format=otlp{part}")
                assert status == 200 and body, (query, part)
                (tmp_path / "answer.pb").write_bytes(body)
                conforms(tmp_path / "answer.pb")
    finally:
        s.stop()


FILES = sorted((SHARED / "fixtures/otlp/from-pprof").glob("*.pb.gz")) + sorted((SHARED / "fixtures/otlp/from-pprof").glob("*.cpu")) + \
    sorted((SHARED / "fixtures/otlp/from-pprof").glob("*.heap"))


def test_convert(tmp_path):
    """From pprof, folded stacks, and whatever else is at hand."""
    (tmp_path / "in.folded").write_text("main;work 5\nmain;idle;wait 7\n")
    for source in [tmp_path / "in.folded", *sorted((ROOT / "tests/data/files").iterdir()), *FILES]:
        out = tmp_path / "out.otlp.pb"
        if subprocess.run([WICK, "convert", source, out], capture_output=True).returncode == 0:
            conforms(out)
        else:
            assert source.parent.name == "files", source
