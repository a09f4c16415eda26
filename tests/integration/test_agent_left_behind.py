# SPDX-License-Identifier: Apache-2.0
"""Memory and files of a program never stop the profiler: circles, endless lists, pages that never arrive, stopped children."""
import resource
import subprocess
import time

import pytest
from agent_tools import WICK, build, needs_bpf
from wick_tools import cpu_seconds, some


@pytest.fixture(autouse=True)
def bpf():
    needs_bpf()


def cpu_of(*command, timeout):
    """CPU seconds of a command."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(list(map(str, command)), check=True, timeout=timeout, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@pytest.fixture
def circles(tmp_path):
    """Programs that look like Python, with lists that are circles, and others that are as long as is allowed."""
    exe = build(tmp_path, "python_circle.c", "python_circle", "-O1")
    running = [subprocess.Popen([exe, "60", kind]) for kind in ("circle", "long")]
    time.sleep(0.3)
    yield running
    for p in running:
        p.kill()
        p.wait()


def test_circles_in_python(tmp_path, circles):
    out = tmp_path / "out.folded"
    pids = [x for p in circles for x in ("-p", p.pid)]
    assert cpu_of(WICK, "record", *pids, "-F", 99, "-d", "3s", "-o", out, timeout=40) < 2.5
    assert "main" in out.read_text()
    for p in some(circles):
        assert cpu_of(WICK, "dump", p.pid, timeout=20) < 2.5


@pytest.fixture
def page_never(tmp_path):
    exe = build(tmp_path, "page_never.c", "page_never", "-O1")
    p = subprocess.Popen([exe, "90"], stderr=subprocess.PIPE)
    time.sleep(0.3)
    if p.poll() == 77:
        pytest.skip("userfaultfd is not permitted")
    yield p
    p.kill()
    p.wait()


def test_page_that_never_arrives(tmp_path, page_never):
    """The program is sampled without Python's names, and the honest one beside it as if it were alone."""
    honest = subprocess.Popen([build(tmp_path, "chain.c", "honest_chain", "-O2"), "30", "120"], stdout=subprocess.DEVNULL)
    out = tmp_path / "out.folded"
    try:
        begin = cpu_seconds(honest.pid)
        subprocess.run([WICK, "record", "-p", str(honest.pid), "-p", str(page_never.pid), "-F", "199", "-d", "6s", "-o", out],
                       check=True, timeout=30, capture_output=True)
        used = cpu_seconds(honest.pid) - begin
    finally:
        honest.kill()
        honest.wait()
    sampled = {"rec": 0, "main": 0}
    for line in out.read_text().splitlines():
        stack, ns = line.rsplit(" ", 1)
        sampled["rec" if ";rec;" in stack else "main"] += int(ns) / 1e9
    assert sampled["main"] > 0.2 and 0.6 * used < sampled["rec"] <= used * 1.05, (sampled, used)
    before = time.time()
    subprocess.run([WICK, "dump", str(page_never.pid)], timeout=30, capture_output=True)
    assert time.time() - before < 10
