# SPDX-License-Identifier: Apache-2.0
"""Mixed load with one poisonous request in a hundred: nothing crashes, nothing leaks, no neighbour is hurt.

Senders (OTLP, Pyroscope's push and ingest), readers (every kind of question) and one poisoner work at once. Every request
that is right must be answered rightly, whatever the poisoner does beside it; what was acknowledged must be there at the
end, also after a kill -9 and a restart. The short run takes WICK_LOAD_SECONDS (6); the slow one an hour (WICK_SOAK_SECONDS)."""
import gzip
import http.client
import json
import os
import random
import signal
import socket
import threading
import time
import urllib.parse
import zlib
from pathlib import Path

import pytest

from test_pyroscope import CPU, M, pprof
from test_serve import ROOT, SHOP, WICK, Server, request

ASAN = os.environ.get("WICK_ASAN", str(ROOT / "build-asan/src/cli/wick"))


class Load:
    def __init__(self, server, seed):
        self.s, self.seed = server, seed
        self.stop = threading.Event()
        self.lock = threading.Lock()
        self.sent = {"otlp": 0, "push": 0, "ingest": 0}
        self.asked = self.poisoned = 0
        self.wrong = []

    def fail(self, words):
        with self.lock:
            self.wrong.append(words)
        self.stop.set()

    def connection(self, url):
        u = urllib.parse.urlsplit(url)
        return http.client.HTTPConnection(u.hostname, u.port, timeout=60)

    def sender(self, n):
        otlp, api, k = self.connection(self.s.http), self.connection(self.s.url), 0
        while not self.stop.is_set():
            k += 1
            what = ("otlp", "push", "ingest")[k % 3]
            start = time.time_ns() - n * 1000 - k * 10_000_000 % 10**11
            if what == "otlp":
                c, path, kind = otlp, "/v1development/profiles", "application/x-protobuf"
                body = request(SHOP, service=f"otlp-{n}", start=start).SerializeToString()
            elif what == "push":
                message = M["PushRequest"]()
                series = message.series.add()
                series.labels.add(name="service_name", value=f"push-{n}")
                series.samples.add(raw_profile=pprof([("a;b", 5), ("a;c", 7)]))
                c, path, kind, body = api, "/push.v1.PusherService/Push", "application/proto", message.SerializeToString()
            else:
                c, path, kind = api, f"/ingest?name=ingest-{n}&format=folded&sampleRate=100&from={start}&until={start + 10**9}", "text/plain"
                body = b"main;work 10\nmain;idle 2\n"
            try:
                c.request("POST", path, body, {"Content-Type": kind})
                r = c.getresponse()
                text = r.read()
            except (OSError, http.client.HTTPException) as e:
                return self.fail(f"{what}: {e!r}")
            if r.status != 200:
                return self.fail(f"{what}: {r.status} {text[:200]}")
            with self.lock:
                self.sent[what] += 1

    def reader(self, n):
        c, rng = self.connection(self.s.url), random.Random(self.seed + n)
        t = {"start": 0, "end": 4 * 10**12}
        while not self.stop.is_set():
            path, body = rng.choice([
                ("/api/v1/flame?query=cpu&max_nodes=100", None), ("/api/v1/top?query=cpu", None), ("/api/v1/services", None),
                ("/api/v1/series?query=cpu&group_by=service.name", None), ("/api/v1/profile?query=cpu&format=folded&from=now-1m", None),
                ("/metrics", None), ("/readyz", None), ("/api/v1/callers?query=cpu&function=checkout", None),
                ("/querier.v1.QuerierService/SelectMergeStacktraces", {"profileTypeID": CPU, "labelSelector": "{}", **t}),
                ("/mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "top", "arguments": {}}}),
            ])
            try:
                c.request("POST" if body else "GET", path, json.dumps(body) if body else None, {"Content-Type": "application/json"} if body else {})
                r = c.getresponse()
                text = r.read()
            except (OSError, http.client.HTTPException) as e:
                return self.fail(f"{path}: {e!r}")
            if r.status not in (200, 404) or (r.status == 404 and "/profile" not in path):
                return self.fail(f"{path}: {r.status} {text[:200]}")
            with self.lock:
                self.asked += 1
            time.sleep(0.02)

    def poison(self, rng):
        noise = rng.randbytes(rng.randrange(1, 4096))
        bomb = gzip.compress(bytes(80 << 20), 1) if rng.random() < 0.02 else gzip.compress(bytes(1 << 20))
        cut = gzip.compress(request(SHOP).SerializeToString())[:-9]
        good = bytearray(request(SHOP).SerializeToString())
        for _ in range(rng.randrange(1, 6)):
            good[rng.randrange(len(good))] = rng.randrange(256)
        deep = b"[" * 5000

        def post(path, body, *headers):
            lines = [f"POST {path} HTTP/1.1", "Host: localhost", f"Content-Length: {len(body)}", *headers]
            return ("\r\n".join(lines) + "\r\n\r\n").encode() + body

        return rng.choice([
            noise, b"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n", b"GET /" + b"a" * 70000 + b" HTTP/1.1\r\n\r\n",
            post("/ingest?name=x&format=pprof", noise), post("/ingest?name=x&format=pprof", zlib.compress(noise)),
            post("/push.v1.PusherService/Push", noise, "Content-Type: application/proto"),
            post("/push.v1.PusherService/Push", deep, "Content-Type: application/json"),
            post("/querier.v1.QuerierService/Diff", deep, "Content-Type: application/json"),
            post("/querier.v1.QuerierService/SelectSeries", noise, "Content-Type: application/proto"),
            post("/mcp", deep), post("/mcp", noise), post("/api/v1/login", noise), post("/api/v1/delete?query={", b""),
            post("/v1development/profiles", bytes(good), "Content-Type: application/x-protobuf"),
            post("/v1development/profiles", cut, "Content-Type: application/x-protobuf", "Content-Encoding: gzip"),
            post("/v1development/profiles", bomb, "Content-Type: application/x-protobuf", "Content-Encoding: gzip"),
            post("/v1development/profiles", deep, "Content-Type: application/json"),
            b"PUT /api/v1/symbols/" + b"ab" * 20 + b" HTTP/1.1\r\nHost: localhost\r\nContent-Length: 8\r\n\r\n\x7fELF\2\1\1\0",
            b"GET /api/v1/flame?query=cpu{a=~%22((((a*)*)*)*%22}&from=0&step=-1&max_nodes=99999999999 HTTP/1.1\r\nHost: localhost\r\n\r\n",
            b"POST /ingest HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n",
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + noise,
        ])

    def poisoner(self):
        rng = random.Random(self.seed)
        ports = [urllib.parse.urlsplit(u).port for u in (self.s.url, self.s.http)] + [int(self.s.grpc.rsplit(":", 1)[1])]
        while not self.stop.is_set():
            if self.poisoned * 100 > sum(self.sent.values()) + self.asked:
                time.sleep(0.005)
                continue
            try:
                with socket.create_connection(("127.0.0.1", rng.choice(ports)), timeout=5) as c:
                    c.sendall(self.poison(rng))
                    if rng.random() < 0.7:
                        c.settimeout(0.5)
                        c.recv(4096)
            except OSError:
                pass
            self.poisoned += 1

    def run(self, seconds):
        threads = [threading.Thread(target=self.sender, args=(n,)) for n in range(3)]
        threads += [threading.Thread(target=self.reader, args=(n,)) for n in range(2)]
        threads.append(threading.Thread(target=self.poisoner))
        for t in threads:
            t.start()
        self.stop.wait(seconds)
        self.stop.set()
        for t in threads:
            t.join(120)
        assert not self.wrong, self.wrong[:3]

    def check_totals(self):
        for what, each in (("otlp", 42), ("ingest", 12 * 10_000_000)):
            q = urllib.parse.quote(f'cpu{{service.name=~"{what}-.*"}}')
            got = self.s.json(f"/api/v1/top?query={q}&from=now-3h&to=now%2B1h")["total"]
            assert got == self.sent[what] * each, (what, self.sent, got)


def resident(pid):
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) // 1024


def mixed_load(tmp_path, wick, seconds, seed, kill=True):
    s = Server(tmp_path, wick=wick, ASAN_OPTIONS="detect_leaks=1", UBSAN_OPTIONS="halt_on_error=1")
    try:
        load = Load(s, seed)
        load.run(seconds)
        assert s.p.poll() is None, (s.dir / "log").read_text()[-2000:]
        assert load.poisoned > 0 and all(load.sent.values()) and load.asked
        load.check_totals()
        rss = resident(s.p.pid)
        code, _ = s.stop(signal.SIGKILL if kill else signal.SIGTERM)
        assert kill or code == 0, (s.dir / "log").read_text()[-3000:]  # a leak would say so here
        s.start()
        load.check_totals()
        code, took = s.stop()
        assert code == 0 and took < 10
        log = (s.dir / "log").read_text()
        assert "Sanitizer" not in log and "runtime error" not in log
        print(f"{sum(load.sent.values())} sent, {load.asked} asked, {load.poisoned} poisonous; {rss} MB")
        return rss
    finally:
        if s.p.poll() is None:
            s.stop(signal.SIGKILL)


@pytest.mark.parametrize("which", ["plain", "asan"])
def test_mixed_load(tmp_path, which):
    wick = WICK if which == "plain" else ASAN
    if not Path(wick).exists():
        pytest.skip("not built")
    mixed_load(tmp_path, wick, float(os.environ.get("WICK_LOAD_SECONDS", "6")), seed=1, kill=which == "plain")


@pytest.mark.slow
def test_soak(tmp_path):
    rss = mixed_load(tmp_path, WICK, float(os.environ.get("WICK_SOAK_SECONDS", "3600")), seed=int(time.time()))
    assert rss < 400
