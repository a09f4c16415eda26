# SPDX-License-Identifier: Apache-2.0
"""The systemd units: what systemd itself thinks of their exposure."""
import os
import re
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest
from agent_tools import may_sample
from wick_tools import WICK, Server

PACKAGING = Path(__file__).resolve().parent.parent.parent / "packaging"


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="needs systemd-analyze")
@pytest.mark.parametrize("unit, most", [("wick.service", 2), ("wick-agent.service", 2.2)])  # the agent's opener needs CAP_SYS_ADMIN
def test_exposure(unit, most, tmp_path):
    text = (PACKAGING / unit).read_text().replace("@bindir@", "/usr/bin").replace("@sysconfdir@", "/etc")
    (tmp_path / unit).write_text(text)
    p = subprocess.run(["systemd-analyze", "security", "--no-pager", "--offline=true", tmp_path / unit], capture_output=True, text=True)
    if "offline" in p.stderr:
        pytest.skip("this systemd-analyze cannot look at a file: " + p.stderr.strip())
    exposure = float(re.search(r"Overall exposure level for [^:]*: ([0-9.]+)", p.stdout).group(1))
    assert exposure <= most, p.stdout
    assert "Unknown" not in p.stderr, p.stderr


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="needs systemd-analyze")
@pytest.mark.parametrize("unit", ["wick.service", "wick-agent.service", "wick-user.service"])
def test_verify(unit, tmp_path):
    """systemd has nothing to say about the units."""
    text = (PACKAGING / unit).read_text().replace("@bindir@/wick", WICK).replace("@sysconfdir@", "/etc")
    (tmp_path / unit).write_text(text)
    p = subprocess.run(["systemd-analyze", "verify", "--man=no", *(["--user"] if unit == "wick-user.service" else []), tmp_path / unit],
                       capture_output=True, text=True, env={**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)})
    assert p.returncode == 0 and unit not in p.stdout + p.stderr, p.stdout + p.stderr


# --- what the units rely on: sd_notify(3), spoken to a socket of the test ---
class Manager:
    def __init__(self, tmp_path, watchdog=2.0):
        self.path = tmp_path / "notify"
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(str(self.path))
        self.socket.settimeout(60)
        self.env = {"NOTIFY_SOCKET": str(self.path), "WATCHDOG_USEC": str(int(watchdog * 1e6))}

    def next(self, but=()):
        """The next message that does not begin with one of these words, as a dict."""
        while True:
            message = dict(line.split("=", 1) for line in self.socket.recv(4096).decode().splitlines())
            if not set(message) & set(but):
                return message


@pytest.fixture
def manager(tmp_path):
    m = Manager(tmp_path)
    yield m
    m.socket.close()


def test_server_tells_the_manager(manager, tmp_path):
    """Ready once it listens, alive again and again, a reload from its beginning to its end, and that it stops."""
    manager.path.chmod(0o777)
    s = Server(tmp_path, **manager.env)
    try:
        first = manager.next()
        assert first["READY"] == "1" and first["STATUS"] == s.url
        times = []
        while len(times) < 3:
            assert manager.next() == {"WATCHDOG": "1"}
            times.append(time.monotonic())
        before = time.monotonic()
        s.p.send_signal(signal.SIGHUP)
        reloading = manager.next(but=["WATCHDOG"])
        assert reloading["RELOADING"] == "1" and before <= int(reloading["MONOTONIC_USEC"]) / 1e6 <= time.monotonic()
        assert manager.next()["READY"] == "1"
    finally:
        s.stop()
    assert manager.next(but=["WATCHDOG"]) == {"STOPPING": "1"}


def test_agent_tells_the_manager(manager, tmp_path):
    """The child of nobody: ready when it samples; alive; it takes the variables from its own children."""
    if not may_sample():
        pytest.skip("BPF programs may not be loaded here")
    p = subprocess.Popen([WICK, "agent", "--export", "http://127.0.0.1:9", "-d", "3s"], stderr=subprocess.DEVNULL,
                         env={**os.environ, **manager.env, "HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path)})
    try:
        assert manager.next()["READY"] == "1"
        assert manager.next() == {"WATCHDOG": "1"}
        assert manager.next(but=["WATCHDOG"]) == {"STOPPING": "1"}
    finally:
        p.wait(60)
