# SPDX-License-Identifier: Apache-2.0
"""The Python package on every CPython of this machine, under sanitizers, in prefork servers, and beside its peers."""
import os
import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from collector_peer import Sink
from go_tools import needs_go
from agent_tools import may_sample
from python_tools import AWAITS, LOCKS, SPANS, build_for, check_awaits, check_locks, check_published, check_spans, exported, others, python, run_python  # noqa: F401
from wick_tools import PROGRAMS, ROOT, free_port, some, wait_for

pytestmark = pytest.mark.slow


def install(interpreter, target, *packages):
    """From PyPI; skips without it. An interpreter without pip gets wheels by way of the one that runs the tests."""
    p = subprocess.run([str(interpreter), "-m", "pip", "install", "-q", "--target", str(target), *packages], capture_output=True, text=True)
    if "No module named pip" in p.stderr:
        version = subprocess.run([str(interpreter), "-c", "import sys;print('%d.%d' % sys.version_info[:2])"], capture_output=True, text=True).stdout.strip()
        p = subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--target", str(target), "--python-version", version, "--only-binary", ":all:",
                            *packages], capture_output=True, text=True)
    if p.returncode:
        pytest.skip(f"cannot install {packages}: {p.stderr[-300:]}")
    return str(target)


@needs_go
@pytest.mark.parametrize("version", sorted(others()), ids=lambda v: f"{v[0]}.{v[1]}")
def test_every_version(tmp_path, version):
    interpreter = others()[version]
    env = build_for(interpreter, tmp_path)
    env["PYTHONPATH"] += ":" + install(interpreter, tmp_path / "libraries", "opentelemetry-sdk")
    truth = run_python(interpreter, SPANS, tmp_path / "o.pb.gz", env=env)
    check_spans(tmp_path / "o.pb.gz", truth)
    run_python(interpreter, LOCKS, tmp_path / "locks.pb.gz", env=env)
    check_locks(tmp_path / "locks.pb.gz")
    check_awaits(tmp_path / "awaits.pb.gz", run_python(interpreter, AWAITS, tmp_path / "awaits.pb.gz", 8, "wall", env=env), 8)
    if may_sample():
        check_published(interpreter, tmp_path, env)
    seconds = float(os.environ.get("WICK_PYTHON_STRESS", 20))
    assert run_python(interpreter, PROGRAMS / "py_stress.py", seconds, env=env, timeout=seconds + 600) == "fine\n"


def test_under_sanitizers(tmp_path):
    """Everything of the package but libwick itself, which is never sanitized: it reads stacks of others."""
    runtime = subprocess.run(["cc", "-print-file-name=libasan.so"], capture_output=True, text=True).stdout.strip()
    if not os.path.isabs(runtime):
        pytest.skip("no libasan.so")
    env = build_for(sys.executable, tmp_path, "-Db_sanitize=address,undefined", "-Db_lundef=false")
    env.update(LD_PRELOAD=runtime, ASAN_OPTIONS="detect_leaks=0:halt_on_error=1", UBSAN_OPTIONS="halt_on_error=1:print_stacktrace=1")
    assert run_python(sys.executable, PROGRAMS / "py_stress.py", 20, "nofork", env=env, timeout=600) == "fine\n"


BUSY = """
import os, time
def busy():
    end = time.process_time() + 0.05
    while time.process_time() < end:
        sum(i * i for i in range(100))
"""
APP = BUSY + """
def app(environ, start_response):
    busy()
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [str(os.getpid()).encode()]
"""
ASGI = BUSY + """
async def app(scope, receive, send):
    if scope["type"] == "http":
        busy()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain"), (b"connection", b"close")]})
        await send({"type": "http.response.body", "body": str(os.getpid()).encode()})
"""


def descendants(pid):
    found = {pid}
    for _ in range(4):
        for x in Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = x.read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue
            if int(fields[1]) in found:
                found.add(int(x.parent.name))
    return found - {pid}


def serve(python, tmp_path, server, port, libraries):
    """Runs a prefork server with two workers under the profiler, asks it until both have been sampled, and compares who answered with who
    was sampled. Ends it by a signal."""
    with Sink() as sink:
        env = {**os.environ, "PYTHONPATH": f"{libraries}:{tmp_path}", "WICK_EXPORT": f"http://127.0.0.1:{sink.port}", "WICK_EXPORT_INTERVAL_MS": "500"}
        p = subprocess.Popen([str(python), "-m", "wick", "run", "--service", "shop", "-m", *server], env=env, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
        try:
            def answer():
                try:
                    return urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=10).read().decode()
                except OSError:
                    return None
            wait_for(answer)
            answered = set()

            def both():
                answered.add(answer())
                functions, resource = exported(sink)
                return len(functions.get("busy", ())) >= 2 and resource["service.name"] == "shop"
            wait_for(both, 120)
            workers = descendants(p.pid)
        finally:
            p.send_signal(signal.SIGTERM)
            _, messages = p.communicate(timeout=60)
        functions, _ = exported(sink)
    assert {int(a) for a in answered if a} <= workers and {int(x) for x in functions["busy"]} <= workers, (answered, functions["busy"], workers)
    assert not re.search(r"Traceback|wick:", messages), messages


def test_gunicorn(python, tmp_path):
    """The master is profiled; its workers are forked from it, and end by a signal."""
    libraries = install(sys.executable, tmp_path / "libraries", "gunicorn")
    (tmp_path / "shop.py").write_text(APP)
    port = free_port()
    serve(python, tmp_path, ["gunicorn.app.wsgiapp", "-w", "2", "-b", f"127.0.0.1:{port}", "shop:app"], port, libraries)


def test_uvicorn_under_gunicorn(python, tmp_path):
    """uvicorn's workers, forked from gunicorn's master: each has an event loop of its own."""
    libraries = install(sys.executable, tmp_path / "libraries", "gunicorn", "uvicorn", "uvicorn-worker")
    (tmp_path / "shop.py").write_text(ASGI)
    port = free_port()
    serve(python, tmp_path, ["gunicorn.app.wsgiapp", "-w", "2", "-k", "uvicorn_worker.UvicornWorker", "-b", f"127.0.0.1:{port}", "shop:app"], port, libraries)


def test_uvicorn(python, tmp_path):
    """uvicorn --workers starts new interpreters: they are told by the environment to profile themselves."""
    libraries = install(sys.executable, tmp_path / "libraries", "uvicorn")
    (tmp_path / "shop.py").write_text(ASGI)
    port = free_port()
    serve(python, tmp_path, ["uvicorn", "--workers", "2", "--port", str(port), "--log-level", "error", "shop:app"], port, libraries)


CELERY = BUSY + """
from celery import Celery
app = Celery("shop", broker="filesystem://")
app.conf.update(broker_transport_options={k: os.environ["QUEUE"] for k in ("data_folder_in", "data_folder_out")}, worker_prefetch_multiplier=1)
@app.task
def work():
    busy()
    with open(os.path.join(os.environ["DONE"], f"{os.getpid()}-{time.monotonic_ns()}"), "w"):
        pass
"""


def test_celery(python, tmp_path):
    """A prefork worker with two children and a broker of files: tasks are sampled in the children that ran them."""
    libraries = install(sys.executable, tmp_path / "libraries", "celery")
    (tmp_path / "shop.py").write_text(CELERY)
    for name in ("queue", "done"):
        (tmp_path / name).mkdir()
    with Sink() as sink:
        env = {**os.environ, "PYTHONPATH": f"{libraries}:{tmp_path}", "WICK_EXPORT": f"http://127.0.0.1:{sink.port}", "WICK_EXPORT_INTERVAL_MS": "500",
               "QUEUE": str(tmp_path / "queue"), "DONE": str(tmp_path / "done"), "C_FORCE_ROOT": "1"}
        p = subprocess.Popen([str(python), "-m", "wick", "run", "--service", "shop", "-m", "celery", "-A", "shop", "worker", "-c", "2", "-P", "prefork",
                              "--without-gossip", "--without-mingle", "--without-heartbeat", "-l", "ERROR"], env=env, cwd=tmp_path, stderr=subprocess.PIPE,
                             stdout=subprocess.DEVNULL, text=True)
        try:
            subprocess.run([str(python), "-c", "import shop\nfor _ in range(80): shop.work.delay()"], env={**env, "WICK_EXPORT": "none"}, cwd=tmp_path, check=True,
                           timeout=120)
            wait_for(lambda: len(list((tmp_path / "done").iterdir())) == 80, 120)
            wait_for(lambda: len(exported(sink)[0].get("busy", ())) >= 2, 60)
        finally:
            p.send_signal(signal.SIGTERM)
            _, messages = p.communicate(timeout=120)
        functions, resource = exported(sink)
    workers = {int(f.name.split("-")[0]) for f in (tmp_path / "done").iterdir()}
    assert {int(x) for x in functions["busy"]} == workers and len(workers) == 2 and resource["service.name"] == "shop", (functions["busy"], workers)
    assert not re.search(r"Traceback|wick:", messages), messages


def test_beside_its_peers():
    """bench/python_bench.py with few rounds. What is counted in the process has its limit; what is measured by pairs of runs is compared with
    peers that cost much more, so that the order does not depend on how busy the machine is."""
    p = subprocess.run([sys.executable, str(ROOT / "bench/python_bench.py"), os.environ.get("WICK_PYTHON_ROUNDS", "3")], capture_output=True, text=True, timeout=3000)
    print(p.stdout)
    assert p.returncode == 0, p.stderr

    def number(before):
        return float(re.search(re.escape(before) + r" ([\d.]+)", p.stdout).group(1))
    assert number("- cost of 100 samples a second:") <= 0.5 and number("- import:") <= 50 and number("- memory:") <= 6
    for what, part in zip(("cpu", "alloc", "lock"), re.split(r"\n\w+: ratio to the program", p.stdout)[1:]):
        medians = {name: float(m) for name, m in re.findall(r"^\| ([\w-]+) \| ([\d.]+) \[", part, re.M)}
        assert "wick" in medians, part
        if what != "cpu":
            assert all(medians["wick"] < m for name, m in some(medians.items()) if name != "wick"), medians
