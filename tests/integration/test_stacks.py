# SPDX-License-Identifier: Apache-2.0
"""Whole stacks as their teams run them (tests/stacks), with the settings of the documentation: profiled from inside and by the agent,
scraped, with spans, under load, all at once. CPU time within 2 % of what the kernel counted, shares within 3 points of the program's own
account and of another profiler's, waits within 5 %, at least 19 samples a second, one name, the agent's budget in every minute."""
import os
import shutil
import subprocess

import pytest
from agent_tools import needs_bpf
from go_tools import GO
from python_tools import python  # noqa: F401
from sdk_tools import LIBWICK
from stack_tools import (STACKS, SECONDS, by_go_pprof, by_perf, by_py_spy, judge, run_stack, serve, shares_are_those_of, span_names,
                         spans_have_their_time, waits_are_right)
from wick_tools import BUILD, ROOT, WICK, free_port

pytestmark = pytest.mark.slow


def count(seen):
    """Samples of the other profiler; go tool pprof has milliseconds."""
    return sum(seen.others.values())


@pytest.fixture(autouse=True)
def bpf():
    needs_bpf()


PYTHON_WAITS = ["lock of guarded", "wall of pause", "shares: py-spy"]  # on a machine that is busy with other things
LATE = 0.08  # of shares: timers of CPU clocks are late by up to a tick, and what runs after a wait gets it (docs/sdk.md)


def needs_python(*modules):
    for m in modules:
        pytest.importorskip(m)


GUNICORN = ["-m", "gunicorn", "--no-control-socket", "-w", "2", "--log-level", "warning"]


@pytest.mark.parametrize("kind,options", [("sync", []), ("gthread", ["--threads", "4"])])
def test_django(tmp_path, monkeypatch, python, kind, options):  # noqa: F811
    needs_python("django", "gunicorn")
    server, port = serve(tmp_path, monkeypatch), free_port()
    command = [python, *GUNICORN, "-k", kind, *options, "-b", f"127.0.0.1:{port}", "django_app:app"]
    seen = run_stack(tmp_path, server, f"django-{kind}", command, port, lambda pid, s: by_py_spy(pid, int(s), tmp_path))
    judge(seen, tmp_path, shares_are_those_of("py-spy", lambda s: s.others, count), spans_have_their_time, span_names,
          waits_are_right("lock", "guarded", "waited"), waits_are_right("wall", "pause", "slept"), known=PYTHON_WAITS)


def test_fastapi(tmp_path, monkeypatch, python):  # noqa: F811
    needs_python("fastapi", "uvicorn")
    port, pprof = free_port(), free_port()
    server = serve(tmp_path, monkeypatch, "--scrape", f"http://127.0.0.1:{pprof}")
    command = [python, "-m", "uvicorn", "--port", port, "--log-level", "warning", "fastapi_app:app"]
    seen = run_stack(tmp_path, server, "fastapi", command, port, lambda pid, s: by_py_spy(pid, int(s), tmp_path), STACK_PPROF=str(pprof))
    judge(seen, tmp_path, shares_are_those_of("py-spy", lambda s: s.others, count), spans_have_their_time, span_names,
          waits_are_right("lock", "guarded", "waited"), waits_are_right("wall", "pause", "slept"), known=PYTHON_WAITS)


def test_chi(tmp_path, monkeypatch):
    exe, port = tmp_path / "chi", free_port()
    if not GO:
        pytest.skip("no go")
    p = subprocess.run([GO, "build", "-o", exe, "."], cwd=STACKS / "chi", capture_output=True, text=True)
    if p.returncode and ("proxy" in p.stderr or "dial tcp" in p.stderr):
        pytest.skip("its modules are not to be had")
    assert p.returncode == 0, p.stderr
    server = serve(tmp_path, monkeypatch, "--scrape", f"http://127.0.0.1:{port}")
    seen = run_stack(tmp_path, server, "chi", [exe, port], port, lambda pid, s: by_go_pprof(port, int(s), tmp_path))
    seen.cpu_bar = 0.1  # Go's profiler samples neither sysmon nor what ran before it
    judge(seen, tmp_path, shares_are_those_of("go tool pprof", lambda s: s.others, lambda s: count(s) / 10), spans_have_their_time,
          span_names, waits_are_right("lock", "guarded", "waited"))


def test_pool(tmp_path, monkeypatch):
    exe, pprof = tmp_path / "pool", free_port()
    subprocess.run(["c++", "-O2", "-g", f"-I{ROOT}/include", "-o", exe, STACKS / "pool.cc", f"-L{LIBWICK}", "-lwick",
                    f"-Wl,-rpath,{LIBWICK}", "-lpthread"], check=True)
    server = serve(tmp_path, monkeypatch, "--scrape", f"http://127.0.0.1:{pprof}")
    seen = run_stack(tmp_path, server, "pool", [exe, SECONDS, f"http://{server.grpc}", f"127.0.0.1:{pprof}"],
                     other=lambda pid, s: by_perf(pid, int(s), tmp_path))
    seen.share_bar = LATE
    judge(seen, tmp_path, shares_are_those_of("perf", lambda s: s.others, count), spans_have_their_time,
          waits_are_right("lock", "guarded", "waited"), waits_are_right("wall", "nap", "slept"))


@pytest.mark.parametrize("allocator", ["system", "jemalloc", "mimalloc"])
def test_axum(tmp_path, monkeypatch, allocator):
    if not shutil.which("cargo"):
        pytest.skip("no cargo")
    features = [] if allocator == "system" else ["--features", allocator]
    p = subprocess.run(["cargo", "build", "--release", "--locked", "--target-dir", BUILD / "axum", *features], cwd=STACKS / "axum",
                       capture_output=True, text=True, env={**os.environ, "CARGO_BUILD_JOBS": "2"})
    if p.returncode and ("download" in p.stderr or "registry" in p.stderr):
        pytest.skip("its crates are not to be had")
    assert p.returncode == 0, p.stderr
    exe, port, pprof = shutil.copy(BUILD / "axum/release/axum-stack", tmp_path), free_port(), free_port()
    server = serve(tmp_path, monkeypatch, "--scrape", f"http://127.0.0.1:{pprof}")
    command = [WICK, "run", "-t", "cpu,heap,lock", "--export", f"http://{server.grpc}", "--pprof", f"127.0.0.1:{pprof}", "--", exe, port]
    seen = run_stack(tmp_path, server, f"axum-{allocator}", command, port, lambda pid, s: by_perf(pid, int(s), tmp_path))
    seen.share_bar = LATE
    judge(seen, tmp_path, shares_are_those_of("perf", lambda s: s.others, count), memory_is_seen(tmp_path),
          waits_are_right("lock", "guarded", "waited"))


def memory_is_seen(tmp_path):
    """The 40 MiB that the program keeps are in its heap profile, at the function that made them."""
    def check(seen):
        held = seen.top("heap")[1].get("keep", 0)
        if not 0.9 * (40 << 20) < held < 1.1 * (40 << 20):
            return f"heap: {held} bytes of {40 << 20}; {(tmp_path / 'err').read_text()}"
    return check
