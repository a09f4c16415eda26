# SPDX-License-Identifier: Apache-2.0
"""A server that was asked to stop ends within ten seconds, whatever hangs then: its children, its peers, those who read its answers. What
was acknowledged is there afterwards."""
import os
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path

import pytest
from tenant_tools import Names
from wick_tools import SHOP, WICK, Binary, Server, descendants, native, request, some, wait_for

PROMISED, LATE = 10, 5  # seconds; LATE: what a machine that is busy with other tests may add


class Hole:
    """Accepts connections and never answers."""

    def __init__(self):
        self.s = socket.create_server(("127.0.0.1", 0))
        self.url, self.held = f"http://127.0.0.1:{self.s.getsockname()[1]}", []
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        try:
            while True:
                self.held.append(self.s.accept()[0])
        except OSError:
            pass

    def close(self):
        self.s.close()
        for c in self.held:
            c.close()


@pytest.fixture
def hole():
    h = Hole()
    yield h
    h.close()


def ends(s):
    code, seconds = s.stop()
    assert code == 0 and seconds < PROMISED + LATE, (code, seconds, (s.dir / "log").read_text()[-2000:])


def test_children_that_are_stopped(tmp_path, monkeypatch):
    """SIGSTOP for the agent, its supervisor, its reader and the symbolizer."""
    monkeypatch.delenv("WICK_NO_AGENT", raising=False)
    s = Server(tmp_path, "--set", "agent.exclude=['name~.']")
    children = []
    try:
        assert s.send(request(SHOP))[0] == 200
        b = Binary(tmp_path)
        s.get("/api/v1/symbols/" + b.build_id, None, b.path.read_bytes(), method="PUT")
        s.send(native(b.build_id, [([b.address("other_function")], 3)]))
        wait_for(lambda: len(descendants(s.p.pid)) >= 1)
        children = descendants(s.p.pid)
        for pid in some(children):
            os.kill(pid, signal.SIGSTOP)
        asking = socket.create_connection(("127.0.0.1", int(s.url.rsplit(":", 1)[1])))
        asking.sendall(b"GET /api/v1/top?query=cpu%7Bservice.name=%22native%22%7D HTTP/1.1\r\nhost: localhost\r\n\r\n")
        time.sleep(0.5)
        ends(s)
        asking.close()
    finally:
        for pid in children:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass


def test_peers_that_hang(tmp_path, hole):
    """debuginfod and a scraped program accept a connection and say nothing; readers of a large answer stop reading."""
    config = tmp_path / "wick.yaml"
    config.write_text(f"symbols: {{debuginfod: ['{hole.url}']}}\n")
    s = Server(tmp_path, "--config", str(config), "--scrape", hole.url, WICK_NO_AGENT="1")
    assert s.send(request(SHOP))[0] == 200
    assert s.send(native("ab" * 20, [([0x1000], 3)]))[0] == 200
    assert s.get("/v1development/profiles", None, Names(20000).next(), {"Content-Type": "application/x-protobuf", "Content-Encoding": "gzip"},
                 base=s.http)[0] == 200
    port, held = int(s.url.rsplit(":", 1)[1]), []
    for path in ["/api/v1/top?query=cpu%7Bservice.name=%22native%22%7D"] + ["/api/v1/flame?query=cpu&max_nodes=100000"] * 10:
        c = socket.create_connection(("127.0.0.1", port))
        c.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        c.sendall(f"GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode())
        held.append(c)
    half = socket.create_connection(("127.0.0.1", port))  # a request whose body never comes
    half.sendall(b"POST /api/v1/notes HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000\r\n\r\n{")
    wait_for(lambda: hole.held)
    time.sleep(0.5)
    ends(s)
    for c in (*held, half):
        c.close()


def test_a_start_that_hangs(tmp_path):
    """A file that can be opened only when somebody writes to it, as on a disk that does not answer: signals wait, and are obeyed."""
    s = Server(tmp_path, WICK_NO_AGENT="1")
    assert s.send(request(SHOP))[0] == 200
    s.stop()
    (tmp_path / "store/alerts.json").unlink(missing_ok=True)
    os.mkfifo(tmp_path / "store/alerts.json")
    with open(tmp_path / "second", "w+") as log:
        p = subprocess.Popen([WICK, "serve", "--no-agent", "--store", tmp_path / "store", "--http", "0", "--otlp-grpc", "off", "--otlp-http", "off"],
                             stdout=subprocess.DEVNULL, stderr=log, env={**os.environ, "XDG_DATA_HOME": str(tmp_path), "HOME": str(tmp_path)})
        try:
            wait_for(lambda: any(b"end" == (t / "comm").read_bytes().strip() for t in Path(f"/proc/{p.pid}/task").iterdir()))
            time.sleep(1)
            begin = time.monotonic()
            p.send_signal(signal.SIGTERM)
            assert p.wait(60) == 0 and time.monotonic() - begin < PROMISED + LATE
            log.seek(0)
            assert "ending now; what was acknowledged is on the disk" in log.read()
        finally:
            p.kill()
    (tmp_path / "store/alerts.json").unlink()
    s.start()
    try:
        assert s.json("/api/v1/top?query=cpu&from=now-1h")["total"] == 42
    finally:
        s.stop()
