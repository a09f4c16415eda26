# SPDX-License-Identifier: Apache-2.0
"""A profiled program ends as it does without wick: same output, same status, no later; and its profile is there."""
import os
import pty
import re
import shutil
import signal
import socket
import subprocess
import sys
import time

import pytest
from sdk_tools import LIBWICK, ROOT, WICK, needs_go, top
from wick_tools import cpu_seconds, descendants, wait_for

pytestmark = needs_go

WAYS = ["return", "_exit", "main-leaves", "main-leaves-alone", "fork-from-thread", "dispositions", "term", "int", "once",
        "handler-then-default", "sigwait", "seccomp", "seccomp-tsync", "seccomp-strict"]


@pytest.fixture(scope="module")
def linked(program):
    return program("ending", "-DWITH_WICK", f"-I{ROOT}/include", f"-L{LIBWICK}", "-lwick", f"-Wl,-rpath,{LIBWICK}")


@pytest.fixture()
def silent():
    """The port of a collector that accepts and never answers."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        s.listen()
        yield s.getsockname()[1]


def run(*command, **kw):
    return subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=60, **kw)


@pytest.mark.parametrize("how", WAYS)
def test_ends_as_without(program, tmp_path, how):
    out = tmp_path / "o.pb.gz"
    plain = run(program("ending"), how)
    p = run(WICK, "run", "-t", "cpu,heap", "-o", out, "--", program("ending"), how)
    assert p.stdout == plain.stdout
    assert p.returncode == (plain.returncode if plain.returncode >= 0 else 128 - plain.returncode), p.stderr
    assert top(out)[0]["burn"][1] > 0.05e9


@pytest.mark.parametrize("how", ["return", "main-leaves", "main-leaves-alone", "fork-from-thread"])
def test_ends_as_without_with_libwick(program, linked, tmp_path, how):
    plain = run(program("ending"), how)
    p = run(linked, how, env={**os.environ, "PROFILE": str(tmp_path / "o.pb.gz")})
    assert (p.returncode, p.stdout) == (plain.returncode, plain.stdout), p.stderr
    assert top(tmp_path / "o.pb.gz")[0]["burn"][1] > 0.05e9


@pytest.mark.parametrize("how", ["return", "_exit", "term", "main-leaves-alone"])
def test_a_silent_collector_does_not_delay_the_end(program, silent, how):
    plain = run(program("ending"), how)

    def seconds():
        start = time.time()
        p = run(WICK, "run", "--export", f"http://127.0.0.1:{silent}", "--", program("ending"), how)
        assert (p.returncode, p.stdout) == (plain.returncode, plain.stdout), p.stderr
        return time.time() - start

    assert any(seconds() < 5 for _ in range(3))  # 1 s of it for the collector, and a busy machine


def test_a_silent_collector_does_not_delay_a_stop(linked, silent):
    def seconds():
        start = time.time()
        assert run(linked, "return", env={**os.environ, "ENDPOINT": f"http://127.0.0.1:{silent}"}).returncode == 0
        return time.time() - start

    assert any(seconds() < 6 for _ in range(3))


PYTHON = "import time\nprint('ready', flush=True)\nend = time.time() + 30\nwhile time.time() < end: pass"


def at_a_terminal(*command):
    """Starts the command at a terminal of its own and types Ctrl-C when a line came; (status, output)."""
    pid, terminal = pty.fork()
    if pid == 0:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # it is ignored where the tests run in the background of a shell
        os.execv(command[0], [str(c) for c in command])
    out = b""
    typed = False
    while True:
        try:
            piece = os.read(terminal, 4096)
        except OSError:  # it has ended
            break
        out += piece
        if b"ready" in out and not typed:
            time.sleep(1)
            os.write(terminal, b"\x03")
            typed = True
    os.close(terminal)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), re.sub(r"wick: .*\r\n", "", out.decode())


def test_python_keeps_ctrl_c(tmp_path):
    plain = at_a_terminal(sys.executable, "-c", PYTHON)
    got = at_a_terminal(WICK, "run", "-o", tmp_path / "o.pb.gz", "--", sys.executable, "-c", PYTHON)
    assert "KeyboardInterrupt" in got[1] and got[1] == plain[1]
    assert got[0] == 128 - plain[0]
    assert top(tmp_path / "o.pb.gz")[1] > 0.03e9


@pytest.mark.parametrize("to_group", [False, True])
@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGINT])
def test_node_writes_its_profile(tmp_path, sig, to_group):
    """Sent to `wick run` alone, which forwards it, or to its whole group, so that node gets it twice."""
    if not shutil.which("node"):
        pytest.skip("no node here")
    server = "require('http').createServer().listen(0, '127.0.0.1', () => console.log('ready'));" \
             "setInterval(() => { const t = Date.now() + 30; while (Date.now() < t); }, 40)"
    p = subprocess.Popen([WICK, "run", "-o", tmp_path / "o.pb.gz", "--", "node", "-e", server], stdout=subprocess.PIPE, text=True,
                         start_new_session=True)
    assert p.stdout.readline() == "ready\n"
    wait_for(lambda: sum(map(cpu_seconds, [p.pid, *descendants(p.pid)])) > 0.5, why="half a second of work")
    (os.killpg if to_group else os.kill)(p.pid, sig)
    p.communicate(timeout=60)
    assert p.returncode == 128 + sig
    assert top(tmp_path / "o.pb.gz")[1] > 0.03e9
