# SPDX-License-Identifier: Apache-2.0
"""The Python package on every CPython of this machine, under sanitizers, in prefork servers, and beside its peers."""
import os
import re
import signal
import subprocess
import sys
import urllib.request

import pytest
from collector_peer import Sink
from go_tools import needs_go
from python_tools import SPANS, build_for, check_spans, exported, others, python, run_python  # noqa: F401
from wick_tools import PROGRAMS, free_port, wait_for

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
    seconds = float(os.environ.get("WICK_PYTHON_STRESS", 20))
    assert run_python(interpreter, PROGRAMS / "py_stress.py", seconds, env=env, timeout=seconds + 600) == "fine\n"


def test_under_sanitizers(tmp_path):
    """Everything of the package but libwick itself, which is never sanitized: it reads stacks of others."""
    runtime = subprocess.run(["cc", "-print-file-name=libasan.so"], capture_output=True, text=True).stdout.strip()
    if not os.path.isabs(runtime):
        pytest.skip("no libasan.so")
    env = build_for(sys.executable, tmp_path, "-Db_sanitize=address,undefined", "-Db_lundef=false")
    env.update(LD_PRELOAD=runtime, ASAN_OPTIONS="detect_leaks=0:halt_on_error=1", UBSAN_OPTIONS="halt_on_error=1:print_stacktrace=1")
    assert run_python(sys.executable, PROGRAMS / "py_stress.py", 20, env=env, timeout=600) == "fine\n"


APP = """
import os, time
def busy():
    end = time.process_time() + 0.05
    while time.process_time() < end:
        sum(i * i for i in range(100))
def app(environ, start_response):
    busy()
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [str(os.getpid()).encode()]
"""


def test_gunicorn(python, tmp_path):
    """The master is profiled; its workers are forked from it, and end by a signal."""
    libraries = install(sys.executable, tmp_path / "libraries", "gunicorn")
    (tmp_path / "shop.py").write_text(APP)
    port = free_port()
    with Sink() as sink:
        env = {**os.environ, "PYTHONPATH": f"{libraries}:{tmp_path}", "WICK_EXPORT": f"http://127.0.0.1:{sink.port}", "WICK_EXPORT_INTERVAL_MS": "500"}
        p = subprocess.Popen([str(python), "-m", "wick", "run", "--service", "shop", "-m", "gunicorn.app.wsgiapp", "-w", "2", "-b", f"127.0.0.1:{port}", "shop:app"],
                             env=env, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
        try:
            def pids_of_answers():
                try:
                    return urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=10).read().decode()
                except OSError:
                    return None
            wait_for(pids_of_answers)
            answered = set()

            def both():
                answered.add(pids_of_answers())
                functions, resource = exported(sink)
                return len(functions.get("busy", ())) >= 2 and resource["service.name"] == "shop"
            wait_for(both)
            workers = {int(a) for a in answered if a}
        finally:
            p.send_signal(signal.SIGTERM)
            _, messages = p.communicate(timeout=60)
        functions, _ = exported(sink)
    assert {int(x) for x in functions["busy"]} <= workers, (functions["busy"], workers)
    assert not re.search(r"Traceback|wick:", messages), messages
