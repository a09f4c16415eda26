# SPDX-License-Identifier: Apache-2.0
"""Mixed load with one poisonous request in a hundred: nothing crashes, nothing leaks, no neighbour is hurt.

Senders (OTLP over gRPC and HTTP, Pyroscope's push and ingest), readers (every kind of question, the UI, MCP), one who
deletes, one who uploads symbols, and a poisoner work at once. Every request that is right must be answered rightly,
whatever the poisoner does beside it; each request that was acknowledged must be there at the end, once, also after a
kill -9 and a restart; memory, descriptors and threads stay where they were after the first quarter. The short run takes
WICK_LOAD_SECONDS (6); the slow one an hour (WICK_SOAK_SECONDS), with pauses between its requests, so that it is not the
machine's speed that is tested.

The whole machine may stand still for minutes meanwhile (a suspended laptop, SIGSTOP for everybody). What was under way
then may fail by its time limit: it is sent again, the same bytes, and must still count once."""
import gzip
import http.client
import json
import os
import random
import re
import shutil
import signal
import socket
import threading
import time
import urllib.parse
from pathlib import Path

import pytest

from serve_poison import poison, poison_message
from wick_tools import ROOT, SHOP, SPAN, TRACE, WICK, Binary, Server, native, request, some
from pyroscope_messages import CPU, M, pprof

grpc = pytest.importorskip("grpc")

ASAN = os.environ.get("WICK_ASAN", str(ROOT / "build-asan/src/cli/wick"))
EXPORT = "/opentelemetry.proto.collector.profiles.v1development.ProfilesService/Export"
KINDS = 1000  # names among a sender's requests, so that each of them is counted by itself
RANGE = "&from=now-6h&to=now%2B1h"
WHOLE = {"start": 0, "end": 4 * 10**12}


class Wrong(Exception):
    pass


class Pauses(threading.Thread):
    """Notes when this process stood still."""

    def __init__(self):
        super().__init__(daemon=True)
        self.last, self.lost = 0, 0
        self.start()

    def run(self):
        at = time.monotonic()
        while True:
            time.sleep(0.2)
            now = time.monotonic()
            if now - at > 3:
                self.last, self.lost = now, self.lost + now - at
            at = now

    def excuse(self, since):
        """Whether there was a pause after this time or shortly before."""
        time.sleep(0.5)  # the note itself may come late
        return self.last > since - 60


class Client:
    """One connection for each server of it; a request that fails because of a pause is made again."""

    def __init__(self, load):
        self.load, self.connections = load, {}

    def once(self, base, method, path, body, headers):
        u = urllib.parse.urlsplit(base)
        c = self.connections.setdefault(base, http.client.HTTPConnection(u.hostname, u.port, timeout=60))
        try:
            c.request(method, path, body, headers)
            r = c.getresponse()
            text = r.read()
        except (OSError, http.client.HTTPException):
            c.close()
            raise
        return r.status, text

    def ask(self, path, body=None, headers=None, method=None, base=None, right=(200,)):
        def call():
            status, text = self.once(base or self.load.s.url, method or ("GET" if body is None else "POST"), path, body, headers or {})
            if status not in right:
                raise Wrong(f"{path[:100]}: {status} {text[:200]}")
            return text

        return self.load.steady(path, call)

    def json(self, path, **kw):
        return json.loads(self.ask(path, **kw))


class Load:
    def __init__(self, server, seed, rest=0.0):
        self.s, self.seed, self.rest = server, seed, rest
        self.stop, self.lock, self.pauses = threading.Event(), threading.Lock(), Pauses()
        self.sent = {}  # (service, function): weight that was acknowledged
        self.counts = {}
        self.poisoned = 0
        self.answers = {}  # to poison, by status
        self.wrong = []
        self.binary = self.victim = None
        if shutil.which("gcc"):
            self.binary, self.victim = Binary(server.dir), Binary(server.dir, "victim", "int victim;\n")

    def fail(self, words):
        with self.lock:
            self.wrong.append(words)
        self.stop.set()

    def steady(self, what, call):
        while True:
            since = time.monotonic()
            try:
                return call()
            except (OSError, http.client.HTTPException, grpc.RpcError, Wrong) as e:
                if not self.pauses.excuse(since):
                    raise e if isinstance(e, Wrong) else Wrong(f"{what[:100]}: {e!r}") from e
                self.count("again")

    def count(self, what):
        with self.lock:
            self.counts[what] = self.counts.get(what, 0) + 1

    def good(self):
        return sum(self.counts.values())

    def acknowledged(self, service, weights):
        with self.lock:
            for function, weight in weights.items():
                self.sent[service, function] = self.sent.get((service, function), 0) + weight

    # --- senders: each gives (what a call does, weights by function) for its k-th request ---

    def send_otlp(self, n, k, client):
        weight = k % 7 + 1
        m = request([*SHOP, (f"main;request;r{k % KINDS}", weight, k % 3 == 0)], service=f"otlp-{n}", start=time.time_ns() - k % 100 * 10**9)
        body = m.SerializeToString()
        weights = {"encode": 30, "sort": 10, "idle": 2, f"r{k % KINDS}": weight}
        headers = {"Content-Type": "application/x-protobuf"}
        if k % 2:
            return lambda: client.export(body, timeout=60), weights
        if k % 4 == 0:
            body, headers["Content-Encoding"] = gzip.compress(body, 1), "gzip"
        return lambda: client.ask("/v1development/profiles", body, headers, base=self.s.http), weights

    def send_push(self, n, k, client):
        message, weight = M["PushRequest"](), k % 5 + 1
        series = message.series.add()
        series.labels.add(name="service_name", value=f"push-{n}")
        series.samples.add(raw_profile=pprof([("a;b", 5), (f"a;r{k % KINDS}", weight)]))
        body = message.SerializeToString()
        return (lambda: client.ask("/push.v1.PusherService/Push", body, {"Content-Type": "application/proto"}),
                {"b": 5, f"r{k % KINDS}": weight})

    def send_ingest(self, n, k, client):
        start, weight = time.time_ns() - k % 100 * 10**9, k % 3 + 1
        path = f"/ingest?name=ingest-{n}&format=folded&sampleRate=100&from={start}&until={start + 10**9}"
        body = f"main;work 10\nmain;r{k % KINDS} {weight}\n".encode()
        return lambda: client.ask(path, body, {"Content-Type": "text/plain"}), {"work": 10**8, f"r{k % KINDS}": weight * 10**7}

    def sender(self, n):
        client = Client(self)
        with grpc.insecure_channel(self.s.grpc) as channel:
            client.export = channel.unary_unary(EXPORT)
            for k in range(10**9):
                if self.stop.is_set():
                    return
                kind = ("otlp", "push", "ingest", "otlp")[k % 4]
                call, weights = getattr(self, "send_" + kind)(n, k, client)
                self.steady(kind, call)
                if k % 50 == 0:
                    self.steady(kind, call)  # sent twice, stored once
                self.acknowledged(f"{kind}-{n}", weights)
                self.count("otlp/grpc" if kind == "otlp" and k % 2 else kind)
                time.sleep(self.rest)

    # --- who asks ---

    def questions(self, rng):
        querier, js = "/querier.v1.QuerierService/", {"Content-Type": "application/json"}
        select = {"profileTypeID": CPU, "labelSelector": "{}", **WHOLE}
        page = rng.choice(self.pages)

        def mcp(tool, **arguments):
            return "/mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}

        q = urllib.parse.quote(CPU + "{}")
        return rng.choice([
            *[(f"/api/v1/{what}", None) for what in (
                "flame?query=cpu&max_nodes=100", "flame?query=cpu&max_nodes=100&format=binary", "flame?query=cpu&base_from=now-2m&base_to=now-1m&max_nodes=50",
                "top?query=cpu", "top?query=cpu&by=line", "top?query=cpu&sort=share&base_from=now-2m&base_to=now-1m", "callers?query=cpu&function=checkout",
                f"top?query=cpu&trace_id={TRACE.hex()}", f"top?query=cpu&trace_id={TRACE.hex()}&span_id={SPAN.hex()}", "lines?query=cpu&function=encode", "symbols?query=cpu",
                "series?query=cpu&group_by=service.name", "leaks", "profiles?query=cpu&limit=20", "services", "labels", "labels/service.name/values",
                "types", "status", "session", "senders", "binaries", "openapi.json", "source/links?file=main.c&line=3", "source?file=main.c&missing=ok",
                *[f"profile?query=cpu&format={f}&from=now-1m" for f in ("folded", "pprof", "otlp", "otlp-json", "speedscope", "html")])],
            ("/metrics", None), ("/readyz", None), ("/healthz", None), (page, None), (page, None),
            *[(querier + method, {**select, **more}) for method, more in (
                ("SelectMergeStacktraces", {}), ("SelectMergeSpanProfile", {"spanSelector": [SPAN.hex()]}), ("ProfileTypes", {}), ("LabelNames", {}),
                ("LabelValues", {"name": "service_name"}), ("Series", {"labelNames": ["service_name"]}), ("GetProfileStats", {}),
                ("SelectSeries", {"step": 60, "start": int(time.time() - 600) * 1000, "end": int(time.time()) * 1000}),
                ("Diff", {"left": select, "right": select}))],
            (f"/pyroscope/render?query={q}&from=now-10m&until=now&format=json", None), ("/pyroscope/labels", None),
            mcp("top"), mcp("services"), mcp("callers", function="checkout"), mcp("lines", function="encode"), ("/mcp", {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}),
        ]), js

    def reader(self, n):
        client, rng = Client(self), random.Random(self.seed + n)
        while not self.stop.is_set():
            (path, body), headers = self.questions(rng)
            client.ask(path, json.dumps(body) if body else None, headers if body else {}, right=(200, 404) if "/profile?" in path else (200,))
            if rng.random() < 0.1:  # what never changes is answered rightly, whatever else goes on
                got = client.json(f"/api/v1/top?query=cpu%7Bservice.name%3D%22still%22%7D{RANGE}")["total"]
                if got != 42:
                    raise Wrong(f"the neighbour has {got} instead of 42")
            self.count("asked")
            time.sleep(max(self.rest, 0.02))

    def deleter(self):
        client = Client(self)
        k, q = 0, urllib.parse.quote('cpu{service.name="doomed"}')
        while not self.stop.is_set():
            k += 1
            body = request([("main;doomed", 5, False)], service="doomed", start=time.time_ns() - 10**9).SerializeToString()
            client.ask("/v1development/profiles", body, {"Content-Type": "application/x-protobuf"}, base=self.s.http)
            if client.json(f"/api/v1/top?query={q}{RANGE}")["total"] != 5:
                raise Wrong("what was sent to be deleted is not there once")
            client.ask(f"/api/v1/delete?query={q}{RANGE}", b"")
            if client.json(f"/api/v1/top?query={q}{RANGE}")["total"]:
                raise Wrong("what was deleted is there")
            self.count("deleted")
            time.sleep(self.rest * 50 + 0.2)

    def uploader(self):
        client, b = Client(self), self.binary
        address = b.address("other_function") + 1
        data = b.path.read_bytes()
        q = urllib.parse.quote('cpu{service.name="native"}')
        while not self.stop.is_set():
            client.ask("/api/v1/symbols/" + b.build_id, data, method="PUT")
            body = native(b.build_id, [([address], 3)]).SerializeToString()
            client.ask("/v1development/profiles", body, {"Content-Type": "application/x-protobuf"}, base=self.s.http)
            rows = client.json(f"/api/v1/top?query={q}{RANGE}")["rows"]
            if [r["name"] for r in rows] != ["other_function"]:
                raise Wrong(f"names: {rows[:3]}")
            client.ask("/api/v1/symbols/" + b.build_id, method="DELETE")
            self.count("symbols")
            time.sleep(self.rest * 100 + 0.5)

    # --- who should not ---

    def poison_raw(self, rng, ports):
        with socket.create_connection(("127.0.0.1", rng.choice(ports)), timeout=5) as c:
            data = poison(rng, self.victim)
            if rng.random() < 0.1:
                data = data[: rng.randrange(len(data))]  # cut anywhere
            c.sendall(data)
            if rng.random() < 0.1:
                c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # reset instead of an end
                return
            c.settimeout(0.5)
            m = re.match(rb"HTTP/1.1 (\d+)", c.recv(4096))
            status = m.group(1).decode() if m else "other"
            self.answers[status] = self.answers.get(status, 0) + 1
            if status == "500":
                self.fail(f"500 for {data[:300]!r}")

    def poison_call(self, rng, export):
        try:
            export(poison_message(rng), timeout=5)
        except grpc.RpcError as e:
            self.answers[e.code().name] = self.answers.get(e.code().name, 0) + 1
            if e.code() in (grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN):
                self.fail(f"gRPC: {e.code()} {e.details()}")

    def poisoner(self):
        rng, held = random.Random(self.seed), []
        ports = [urllib.parse.urlsplit(u).port for u in (self.s.url, self.s.http)] + [int(self.s.grpc.rsplit(":", 1)[1])]
        with grpc.insecure_channel(self.s.grpc) as channel:
            export = channel.unary_unary(EXPORT)
            while not self.stop.is_set():
                if self.poisoned * 100 > self.good():
                    time.sleep(0.005)
                    continue
                try:
                    if rng.random() < 0.15:
                        self.poison_call(rng, export)
                    elif rng.random() < 0.05:  # one who never ends his request
                        held.append(socket.create_connection(("127.0.0.1", rng.choice(ports)), timeout=5))
                        held[-1].sendall(b"POST /ingest?name=slow HTTP/1.1\r\nHost: localhost\r\nContent-Length: 999\r\n\r\nhalf")
                        if len(held) > 20:
                            held.pop(0).close()
                    else:
                        self.poison_raw(rng, ports)
                except OSError:
                    pass
                self.poisoned += 1
        for c in held:
            c.close()

    # --- the whole ---

    def thread(self, work, *args):
        def guarded():
            try:
                work(*args)
            except Exception as e:  # noqa: BLE001  (whatever it is: the run failed)
                self.fail(f"{work.__name__}: {e!r}")

        t = threading.Thread(target=guarded)
        t.start()
        return t

    def run(self, seconds, each_second=lambda: None):
        client = Client(self)
        client.ask("/v1development/profiles", request(SHOP, service="still").SerializeToString(),
                   {"Content-Type": "application/x-protobuf"}, base=self.s.http)
        page = client.ask("/").decode()
        self.pages = ["/", *{p if p.startswith("/") else "/" + p for p in re.findall(r'(?:src|href)="([^"#:]+)"', page)}]
        threads = [self.thread(self.sender, n) for n in range(3)] + [self.thread(self.reader, n) for n in range(2)]
        threads += [self.thread(self.poisoner), self.thread(self.deleter)] + ([self.thread(self.uploader)] if self.binary else [])
        end = time.monotonic() + seconds
        while time.monotonic() < end and not self.stop.wait(1):
            each_second()
        self.stop.set()
        for t in threads:
            t.join(1800)
        assert not self.wrong, self.wrong[:3]

    def check_totals(self):
        """Each acknowledged request is there, once."""
        client = Client(self)
        for service in some(sorted({s for s, _ in self.sent})):
            q = urllib.parse.quote(f'cpu{{service.name="{service}"}}')
            got = {r["name"]: r["self"] for r in client.json(f"/api/v1/top?query={q}&limit=100000{RANGE}")["rows"] if r["self"]}
            want = {f: w for (s, f), w in self.sent.items() if s == service}
            assert got == want, (service, {f: (want.get(f), got.get(f)) for f in {*want, *got} if want.get(f) != got.get(f)})


class Watch:
    """What the server holds, over time: resident MB, those of no file, MB of its children, descriptors, threads."""

    def __init__(self, load, every):
        self.load, self.every, self.next, self.begin, self.seen = load, every, 0, time.monotonic(), []

    def look(self):
        pid = self.load.s.p.pid
        children = [c for t in Path(f"/proc/{pid}/task").glob("*/children") for c in read(t).split()]
        return (resident(pid), resident(pid, "RssAnon"), sum(map(resident, children)), len(os.listdir(f"/proc/{pid}/fd")), len(os.listdir(f"/proc/{pid}/task")))

    def each_second(self):
        now = time.monotonic()
        if now < self.next:
            return
        self.next = now + self.every
        self.seen.append(self.look())
        print(f"{now - self.begin:6.0f} s: {self.seen[-1]}, {self.load.counts}, {self.load.poisoned} poisonous {self.load.answers}, "
              f"{self.load.pauses.lost:.0f} s of pauses", flush=True)

    def check_flat(self):
        """The last quarter's highest is what the second quarter's was, with a little air."""
        n = len(self.seen) // 4
        before, after = ([max(column) for column in zip(*rows)] for rows in (self.seen[n:2 * n], self.seen[3 * n:]))
        print(f"second quarter {before}, last {after}")
        for was, is_now, air in zip(before, after, (24, 16, 16, 24, 1)):
            assert is_now <= was * 1.1 + air, (before, after)


def read(path):
    try:
        return path.read_text()
    except OSError:  # gone meanwhile
        return ""


def resident(pid, what="VmRSS"):
    m = re.search(rf"{what}:\s+(\d+)", read(Path(f"/proc/{pid}/status")))
    return int(m.group(1)) // 1024 if m else 0


def end(s, load, sig):
    """Stops the server; the seconds it took, without pauses."""
    begin, lost = time.monotonic(), load.pauses.lost
    s.p.send_signal(sig)
    code = s.p.wait(timeout=1800)
    s.log.close()
    s.p.stdout.close()
    took = time.monotonic() - begin
    return code, 0 if load.pauses.excuse(begin) else took - (load.pauses.lost - lost)


def mixed_load(tmp_path, wick, seconds, seed, kill=True, rest=0.0, watch_every=0):
    s = Server(tmp_path, wick=wick, ASAN_OPTIONS="detect_leaks=1", UBSAN_OPTIONS="halt_on_error=1")
    try:
        load = Load(s, seed, rest)
        watch = Watch(load, watch_every)
        load.run(seconds, watch.each_second if watch_every else lambda: None)
        assert s.p.poll() is None, (s.dir / "log").read_text()[-2000:]
        assert load.poisoned > 0 and {"otlp", "otlp/grpc", "push", "ingest", "asked", "deleted"} <= set(load.counts), load.counts
        load.check_totals()
        rss = resident(s.p.pid)
        code, _ = end(s, load, signal.SIGKILL if kill else signal.SIGTERM)
        assert kill or code == 0, (s.dir / "log").read_text()[-3000:]  # a leak would say so here
        s.start()
        load.check_totals()
        code, took = end(s, load, signal.SIGTERM)
        assert code == 0 and took < 30
        log = (s.dir / "log").read_text()
        assert "Sanitizer" not in log and "runtime error" not in log
        assert "crashed" not in log, [line for line in log.splitlines() if "crashed" in line][:5]  # the symbolizer's children
        print(f"{load.counts}, {load.poisoned} poisonous {load.answers}; {rss} MB; {load.pauses.lost:.0f} s of pauses")
        if watch_every:
            watch.check_flat()
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
    seconds = float(os.environ.get("WICK_SOAK_SECONDS", "3600"))
    rss = mixed_load(tmp_path, WICK, seconds, seed=int(time.time()), rest=0.06, watch_every=max(seconds / 120, 1))
    assert rss < 400
