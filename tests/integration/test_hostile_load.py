# SPDX-License-Identifier: Apache-2.0
"""Hostile and honest load at once: the honest ones are served in time, no callback holds an event loop up, and nothing is left
afterwards. `make test` runs a few seconds of it, `make test-all` an hour (WICK_HOSTILE_SECONDS sets the time).

Run as a program this file is the attacker: KIND HTTP OTLP_HTTP GRPC TOKEN SECONDS."""
import gzip
import os
import random
import re
import resource
import socket
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0"


# --- the attacker ---

def dial(address):
    host, port = address.rsplit(":", 1)
    s = socket.create_connection((host, int(port)), timeout=5)
    s.settimeout(5)
    return s


def slow_heads(a, until):
    """Hundreds of connections, each with a head that never ends."""
    held = []
    while time.time() < until:
        if len(held) < 300:
            s = dial(a["http"])
            s.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n")
            held.append(s)
        for s in list(held):
            try:
                s.sendall(b"x: y\r\n")
            except OSError:
                held.remove(s)
        time.sleep(0.01)


def slow_bodies(a, until):
    """Bodies that drip, with a right token and a large length."""
    held = []
    head = f"POST /v1development/profiles HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {a['token']}\r\n" \
           "Content-Type: application/x-protobuf\r\nContent-Length: 50000000\r\n\r\n".encode()
    while time.time() < until:
        if len(held) < 300:
            s = dial(a["otlp"])
            s.sendall(head)
            held.append(s)
        for s in list(held):
            try:
                s.sendall(b"\0" * 100)
            except OSError:
                held.remove(s)
        time.sleep(0.01)


def post(address, path, body, *headers):
    with dial(address) as s:
        head = [f"POST {path} HTTP/1.1", "Host: localhost", f"Content-Length: {len(body)}", "Connection: close", *headers]
        s.sendall(("\r\n".join(head) + "\r\n\r\n").encode() + body)
        while s.recv(65536):
            pass


def bombs(a, until):
    """Small bodies that inflate to as much as is allowed, and to more."""
    token = "Authorization: Bearer " + a["token"]
    bodies = [gzip.compress(bytes(n), 6) for n in (60 << 20, 200 << 20)]
    bodies.append(gzip.compress(b"\x12\x02\x3a\x00" * (4 << 20), 6))  # four million empty stacks
    bodies.append(gzip.compress(b"[" * (32 << 20), 6))
    while time.time() < until:
        body = random.choice(bodies)
        kind = random.choice(("application/x-protobuf", "application/json"))
        post(a["otlp"], "/v1development/profiles", body, token, "Content-Type: " + kind, "Content-Encoding: gzip")
        post(a["http"], "/ingest?name=x&format=pprof", body, token)


def large(a, until):
    """The largest bodies that are allowed, as fast as they go."""
    body = b"\x12\x04\x3a\x02\x08\x00" * (8 << 20)
    while time.time() < until:
        post(a["otlp"], "/v1development/profiles", body, "Authorization: Bearer " + a["token"], "Content-Type: application/x-protobuf")


def connections(a, until):
    """As many connections as this process may have, over and over."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, 4096), most))
    while time.time() < until:
        held = []
        try:
            for _ in range(3000):
                held.append(dial(a["http"]))
        except OSError:
            pass
        time.sleep(0.2)
        for s in held:
            s.close()


def floods(a, until):
    """HTTP/2: rapid resets, pings, settings; HTTP/1.1: pipelining of thousands without reading."""
    from serve_poison import frame
    heads = b"".join(frame(1, 5, 2 * i + 1, b"\x82\x84\x86\x01\x09localhost") + frame(3, 0, 2 * i + 1, bytes(4)) for i in range(2000))
    kinds = [PREFACE + heads, PREFACE + frame(6, 0, 0, bytes(8)) * 20000, PREFACE + frame(4, 0, 0, b"\0\3\0\0\0\1") * 20000,
             b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n" * 5000]
    while time.time() < until:
        with dial(random.choice((a["http"], a["otlp"], a["grpc"]))) as s:
            s.sendall(random.choice(kinds))
            time.sleep(0.05)


def poisoned(a, until):
    from serve_poison import poison
    rng = random.Random(1)
    while time.time() < until:
        with dial(rng.choice((a["http"], a["otlp"], a["grpc"]))) as s:
            s.sendall(poison(rng))
            s.settimeout(0.2)
            s.recv(65536)


ATTACKS = {f.__name__: f for f in (slow_heads, slow_bodies, bombs, large, connections, floods, poisoned)}


def attack(kind, http, otlp, grpc, token, seconds):
    a = {"http": http, "otlp": otlp, "grpc": grpc, "token": token}
    until = time.time() + float(seconds)
    while time.time() < until:
        try:
            ATTACKS[kind](a, until)
        except OSError:
            time.sleep(0.05)


if __name__ == "__main__":
    attack(*sys.argv[1:])
    sys.exit(0)

import pytest  # noqa: E402
from wick_tools import Server, request, some, token_of, wait_for  # noqa: E402


# --- the honest ---

class Honest(threading.Thread):
    """Sends a profile and asks a question, again and again, and notes how long each took."""

    def __init__(self, server, write, read):
        super().__init__()
        self.server, self.write, self.read = server, write, read
        self.times, self.failures, self.sent = [], [], 0
        self.ending = threading.Event()

    def run(self):
        while not self.ending.wait(0.02):
            start = time.time()
            try:
                status, body = self.server.send(request([("main;checkout", 1, False)]), self.write)
                self.times.append(time.time() - start)
                self.sent += status == 200
                if status != 200:
                    self.failures.append((status, body))
                start = time.time()
                status, body = self.server.get("/api/v1/top?query=cpu&from=now-5m", self.read)
                self.times.append(time.time() - start)
                if status != 200:
                    self.failures.append((status, body))
            except OSError as e:
                self.failures.append(e)

    def measure(self, seconds):
        self.times, self.failures = [], []
        time.sleep(seconds)
        return sorted(self.times), list(self.failures)


def process(server):
    status = Path(f"/proc/{server.p.pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+)", status).group(1)) << 10, len(os.listdir(f"/proc/{server.p.pid}/fd"))


def under_load(tmp_path, seconds, report=None):
    s = Server(tmp_path, WICK_LOOP_LIMIT_MS="100")
    attackers, honest = [], None
    try:
        write, read, bad = token_of(s, "write"), token_of(s, "read"), token_of(s, "write", "bad")
        wait_for(lambda: s.get("/api/v1/status")[0] == 401 and s.get("/api/v1/status", read)[0] == 200)
        honest = Honest(s, write, read)
        honest.start()
        calm, failures = honest.measure(min(1.5, seconds))
        assert calm and not failures, failures[:3]
        _, fds_before = process(s)
        for kind in ATTACKS:
            attackers.append(subprocess.Popen(["nice", sys.executable, __file__, kind, s.url[7:], s.http[7:], s.grpc, bad, str(seconds)],
                                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True))
        rss, busy, failures, end = 0, [], [], time.time() + seconds
        while time.time() < end:
            times, bad_ones = honest.measure(min(1, max(0.1, end - time.time())))
            busy += times
            failures += bad_ones
            rss = max(rss, process(s)[0])
            assert s.p.poll() is None, (tmp_path / "log").read_text()[-2000:]
        for p in some(attackers):
            assert p.wait(timeout=60) == 0, p.stderr.read()
        time.sleep(1)
        after, _ = honest.measure(1)
        fds = process(s)[1]
        honest.ending.set()
        honest.join()
        busy.sort()
        line = (f"{seconds} s: honest calm p50 {statistics.median(calm) * 1e3:.0f} ms, under attack p50 {statistics.median(busy) * 1e3:.0f} ms, "
                f"p99 {busy[int(len(busy) * 0.99)] * 1e3:.0f} ms, max {busy[-1] * 1e3:.0f} ms of {len(busy)}; {len(failures)} failed; "
                f"RSS {rss >> 20} MiB; descriptors {fds_before} before, {fds} after")
        print(line)
        if report:
            Path(report).write_text(line + "\n")
        log = (tmp_path / "log").read_text()
        assert "event loop: a callback" not in log, re.findall(r".*event loop: a callback.*", log)[:5]
        assert len(failures) <= 0.01 * len(busy) + 1, failures[:3]
        # The machine is as busy with the attackers as the server is: how much slower is said, a stall is an error.
        assert statistics.median(busy) < max(20 * statistics.median(calm), 1.5), line
        assert after and rss < 2 << 30 and fds < fds_before + 3000, line
        assert s.json("/api/v1/top?query=cpu&from=now-2h", token=read)["total"] == honest.sent, line
        return line
    finally:
        if honest:
            honest.ending.set()
            honest.join()
        for p in attackers:
            p.kill()
            p.wait()
            p.stderr.close()
        s.stop()


def test_honest_beside_hostile(tmp_path):
    under_load(tmp_path, float(os.environ.get("WICK_HOSTILE_SHORT", "5")))


@pytest.mark.slow
def test_an_hour(tmp_path):
    under_load(tmp_path, float(os.environ.get("WICK_HOSTILE_SECONDS", "3600")), os.environ.get("WICK_HOSTILE_REPORT"))
