# SPDX-License-Identifier: Apache-2.0
"""The store in ClickHouse, with real servers: Debian's clickhouse-server (18.16), alone and as a cluster with ZooKeeper; and a current
version, libchdb behind an HTTP server (chdb_peer.py). All of it is slow but the first tests, which need no server."""
import base64
import http.server
import os
import random
import re
import signal
import subprocess
import threading
import time
import urllib.parse
from pathlib import Path

import pytest

import chdb_peer
import clickhouse_peer
import minio_peer
from wick_tools import BUILD, SHOP, WICK, Server, free_port, log_of, request, some, tokens_of, wait_for

slow = pytest.mark.slow
SCHEMA = 4  # the version of the tables


def test_refuses_what_it_cannot_do(tmp_path):
    env = {**os.environ, "XDG_DATA_HOME": str(tmp_path), "HOME": str(tmp_path), "WICK_CLICKHOUSE_PASSWORD": "pa55word"}

    def run(*args):
        p = subprocess.run([WICK, *args], capture_output=True, text=True, timeout=60, env=env)
        assert p.returncode != 0
        assert "pa55word" not in p.stdout + p.stderr
        return p.stdout + p.stderr

    assert "must not contain a password" in run("serve", "--store", "clickhouse://u:x@127.0.0.1:1/wick")
    assert "127.0.0.1:1" in run("store", "stats", "--store", "clickhouse://u@127.0.0.1:1/wick")
    assert "need a store that servers share" in run("serve", "--store", str(tmp_path / "s"), "--role", "query")
    assert "role" in run("serve", "--store", "clickhouse://u@127.0.0.1:1/wick", "--role", "both")


class Hung(http.server.BaseHTTPRequestHandler):
    """Answers as a ClickHouse with wick's tables that has no rows; an INSERT gets no answer until `hangs` is cleared."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_POST(self):  # noqa: N802
        body = self.rfile.read(int(self.headers.get("content-length", "0")))
        words = urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query)
        sql, answer = words["query"][0] if "query" in words else body.decode("latin-1"), b""
        if self.server.password and base64.b64decode(self.headers["authorization"].split()[1]).decode() != f"default:{self.server.password}":
            answer = b"Code: 516. DB::Exception: default: Authentication failed"
            self.server.refused += 1
            self.send_response(403)
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)
            return
        if self.server.silent:
            self.server.inserts.append((sql, body))
            self.server.ended.wait(60)
            return
        if "version()" in sql:
            answer = b"26.5.1.1\n"
        elif "FROM system.tables" in sql:
            answer = b"1\n"
        elif "max(version)" in sql:
            answer = self.server.schema
        elif sql.startswith("INSERT"):
            self.server.inserts.append((sql.split()[2], body))
            if self.server.refuses:
                self.send_error(500)
                return
            if self.server.hangs:
                self.server.ended.wait(60)
                return
        elif self.server.hostile:
            self.server.hostile(self)
            return
        self.send_response(200)
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)


class HungPeer(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, port=0):
        super().__init__(("127.0.0.1", port), Hung)
        self.inserts, self.hangs, self.ended, self.schema = [], True, threading.Event(), b"%d\n" % SCHEMA
        self.silent = False  # True: nothing is answered
        self.refuses = False  # True: every INSERT fails
        self.password, self.refused = None, 0
        self.hostile = None  # answers queries
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def url(self):
        return f"clickhouse://default@127.0.0.1:{self.server_address[1]}/wick"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.shutdown()
        self.server_close()


def test_ends_while_clickhouse_hangs(tmp_path):
    """SIGTERM ends a server within seconds although ClickHouse does not answer. Without a spool the request is not
    acknowledged; with a spool the same blocks are sent after the next start."""
    with HungPeer() as peer:
        plain = serve(tmp_path, "plain", peer.url())
        with HungPeer() as other:
            spool = serve(tmp_path, "spool", other.url(), "--set", "store.ack=spool", "--set", f"store.spool={tmp_path}/log")
            answers = []

            def send():
                try:
                    answers.append(plain.send(request(SHOP))[0])
                except OSError:
                    answers.append(0)

            sender = threading.Thread(target=send)
            sender.start()
            assert spool.send(request(SHOP))[0] == 200
            wait_for(lambda: peer.inserts and other.inserts, 60, "inserts have begun")
            for s in (plain, spool):
                s.p.send_signal(signal.SIGTERM)
            begin = time.monotonic()
            for s in (plain, spool):
                assert s.p.wait(60) == 0, log_of(s)
            assert time.monotonic() - begin < 30  # about 4 s; a request to ClickHouse may take 60 s
            sender.join(60)
            assert answers in ([503], [0]), answers  # refused, or the connection was closed
            first = list(other.inserts)
            other.hangs = False
            spool.start()
            wait_for(lambda: "profiles" in [t for t, _ in other.inserts], 60, "the spool is sent")
            assert first[0] in other.inserts[len(first):], "the same block"
            assert {"series", "stacks", "locations", "samples", "links", "profiles"} <= {t for t, _ in other.inserts}
            spool.stop()


def test_password_changes(tmp_path):
    """The password of a ClickHouse is changed, and then the file: the server goes on without a restart; before, it refuses with 503."""
    secret = tmp_path / "secret"
    secret.write_text("first\n")
    secret.chmod(0o644)
    with HungPeer() as peer:
        peer.hangs, peer.password = False, "first"
        s = serve(tmp_path, "s", f"{peer.url()}?password_file={secret}", "--set", 'user=""')
        try:
            assert s.send(request(SHOP))[0] == 200
            peer.password = "second"
            status, body = s.send(request(SHOP, service="cart"))
            assert status == 503 and peer.refused
            n = len(peer.inserts)
            (tmp_path / "new").write_text("second\n")
            (tmp_path / "new").chmod(0o644)
            (tmp_path / "new").rename(secret)
            wait_for(lambda: s.send(request(SHOP, service="cart"))[0] == 200, 60, "the new password is used")
            assert len(peer.inserts) > n
            assert "first" not in log_of(s) and "second" not in log_of(s)
        finally:
            s.stop()


def send_raw(handler, body, length=None):
    handler.send_response(200)
    handler.send_header("content-length", str(len(body) if length is None else length))
    handler.end_headers()
    handler.wfile.write(body)
    if length is not None:
        handler.wfile.flush()
        handler.close_connection = True


def send_endless(handler):
    handler.send_response(200)
    handler.send_header("transfer-encoding", "chunked")
    handler.end_headers()
    chunk = b"100000\r\n" + bytes(0x100000) + b"\r\n"
    try:
        for _ in range(3000):
            handler.wfile.write(chunk)
    except OSError:
        pass
    handler.close_connection = True


def send_slowly(handler):
    handler.send_response(200)
    handler.send_header("content-length", "1000")
    handler.end_headers()
    handler.server.ended.wait(20)
    handler.close_connection = True


HOSTILE = {
    "damaged": lambda h: send_raw(h, random.Random(5).randbytes(100_000)),
    "lengths": lambda h: send_raw(h, b"\xff" * 4096),
    "text": lambda h: send_raw(h, b"<html>Welcome to nginx</html>\n" * 100),
    "truncated": lambda h: send_raw(h, bytes(500), 1_000_000),
    "length that cannot be": lambda h: send_raw(h, b"", 1 << 62),
    "slow": send_slowly,
}


def rss_kb(pid):
    return next(int(line.split()[1]) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmHWM"))


def hostile_queries(s):
    now = time.time_ns()
    for path in ("top?query=cpu", "flame?query=cpu", "series?query=cpu&step=60s", "services", "labels", "spans?query=cpu"):
        yield path, s.get(f"/api/v1/{path}{'&' if '?' in path else '?'}from={now - 3600 * 10**9}&to={now}")


@pytest.mark.parametrize("kind", [pytest.param(k, marks=slow) if k == "slow" else k for k in HOSTILE])
def test_hostile_answers(tmp_path, kind):
    """A ClickHouse that answers queries with what it should not: an error message or an answer without data, never a crash or a hang, little memory;
    and the server still answers when ClickHouse does."""
    with HungPeer() as peer:
        peer.hangs = False
        s = serve(tmp_path, "s", f"{peer.url()}?timeout=1")
        try:
            peer.hostile = HOSTILE[kind]
            statuses = {path: answer for path, answer in hostile_queries(s)}
            assert s.p.poll() is None, log_of(s)
            assert all(status in (200, 500, 502, 503, 504) for status, _ in some(statuses.values())), statuses
            if kind in ("truncated", "length that cannot be", "slow"):
                assert statuses["top?query=cpu"][0] >= 500 and b"ClickHouse" in statuses["top?query=cpu"][1], statuses
            assert rss_kb(s.p.pid) < 600_000
            peer.hostile = None
            assert s.get("/api/v1/services")[0] == 200
            assert s.send(request(SHOP))[0] == 200
        finally:
            s.stop()


@slow
def test_endless_answer(tmp_path):
    """An answer of gigabytes ends at a gigabyte, with an error message."""
    with HungPeer() as peer:
        peer.hangs = False
        s = serve(tmp_path, "s", peer.url())
        try:
            peer.hostile = send_endless
            status, body = s.get("/api/v1/top?query=cpu")
            assert status >= 400 and b"choose a shorter time range" in body, (status, body)
            peer.hostile = None
            assert s.get("/api/v1/services")[0] == 200 and rss_kb(s.p.pid) < 3_000_000
        finally:
            s.stop()


def test_ends_while_it_starts(tmp_path):
    """SIGTERM ends a server that waits for the first answer of ClickHouse."""
    with HungPeer() as peer:
        peer.silent = True
        p = subprocess.Popen([WICK, "serve", "--no-agent", "--store", peer.url(), "--http", "127.0.0.1:0"], stderr=subprocess.PIPE, text=True,
                             env={**os.environ, "XDG_DATA_HOME": str(tmp_path), "HOME": str(tmp_path)})
        try:
            wait_for(lambda: peer.inserts, 60, "it asks")
            p.send_signal(signal.SIGTERM)
            assert "stopping" in p.communicate(timeout=30)[1]  # a request may take 60 s
            assert p.returncode != 0
        finally:
            p.kill()


def test_starts_while_clickhouse_is_away(tmp_path):
    """ack: quorum: the server starts, refuses with the reason and 503, and accepts as soon as ClickHouse is there, without a restart."""
    port = free_port()
    url = f"clickhouse://default@127.0.0.1:{port}/wick"
    s, asking = serve(tmp_path, "s", url), serve(tmp_path, "query", url, "--role", "query")
    try:
        status, body = s.send(request(SHOP))
        assert status == 503 and f"127.0.0.1:{port}".encode() in body, (status, body)
        assert s.get("/readyz")[0] == 503 and s.get("/healthz")[0] == 200
        status = s.json("/api/v1/status")
        assert not status["storing"] and f"127.0.0.1:{port}" in status["problem"]
        for x in (s, asking):
            code, body = x.get("/api/v1/top?query=cpu")
            assert code == 503 and f"127.0.0.1:{port}".encode() in body, (code, body)
        assert f"127.0.0.1:{port}" in log_of(s)
        with HungPeer(port) as peer:
            peer.hangs = False
            wait_for(lambda: s.send(request(SHOP))[0] == 200)
            assert {t for t, _ in peer.inserts} >= {"samples", "profiles"}
            assert s.get("/readyz")[0] == 200 and s.json("/api/v1/status")["storing"]
    finally:
        s.stop()
        asking.stop()


def test_depth_of_the_spool(tmp_path):
    """What is acknowledged and not in ClickHouse yet: number, size and age in metrics and status, and in answers that lack it, also after
    a restart; nothing of it is left when ClickHouse has it."""
    with HungPeer() as peer:
        peer.hangs, peer.refuses = False, True
        s = serve(tmp_path, "s", peer.url(), "--set", "store.ack=spool", "--set", f"store.spool={tmp_path}/log")

        def spool():
            return s.json("/api/v1/status")["spool"]

        def metric(name):
            return float(re.search(rf"^wick_store_spool_{name} (\S+)$", s.get("/metrics")[1].decode(), re.M).group(1))

        try:
            assert spool() == {"records": 0, "bytes": 0, "seconds": 0} and metric("age_seconds") == 0
            assert s.send(request(SHOP))[0] == 200
            begin = time.monotonic()
            wait_for(lambda: spool()["seconds"] >= 2, why=spool)
            assert 2 <= metric("age_seconds") <= time.monotonic() - begin + 2 and metric("records") == 1 and metric("bytes") > 100
            s.stop()
            s.start()
            assert s.send(request(SHOP, service="other"))[0] == 200
            wait_for(lambda: spool()["records"] == 2, why=spool)
            assert 2 <= metric("age_seconds") <= time.monotonic() - begin + 2
            notes = s.json("/api/v1/top?query=cpu")["notes"]
            assert notes["spool"]["seconds"] >= 2 and notes["spool"]["bytes"] == spool()["bytes"], notes
            p = subprocess.run([WICK, "query", "top", "--server", s.url], capture_output=True, text=True)
            assert "still in the server's spool" in p.stdout + p.stderr, p
            peer.refuses = False
            wait_for(lambda: spool() == {"records": 0, "bytes": 0, "seconds": 0}, why=spool)
            assert "notes" not in s.json("/api/v1/top?query=cpu") and metric("age_seconds") == 0
        finally:
            s.stop()


@pytest.fixture(scope="module", params=["18.16", "current"])
def single(request, tmp_path_factory):
    if request.param == "18.16" and not clickhouse_peer.SERVER:
        pytest.skip("no clickhouse-server")
    if request.param == "current" and not chdb_peer.library():
        pytest.skip("no libchdb")
    kind = clickhouse_peer.Single if request.param == "18.16" else chdb_peer.Chdb
    peer = kind(tmp_path_factory.mktemp("clickhouse"))
    yield peer
    peer.stop()


@pytest.fixture
def database(single, request):
    name = re.sub(r"\W", "_", request.node.name)[:40]
    yield name
    single.node.ask(f"DROP DATABASE IF EXISTS {name}")


class Half(Server):
    """A server of one role: one that only answers queries has no OTLP."""

    def start(self):
        try:
            super().start()
        except IndexError:
            pass


def total(server, query="cpu", **kw):
    return server.json(f"/api/v1/top?query={query}", **kw)["total"]


def serve(directory, name, url, *options, **env):
    (directory / name).mkdir(mode=0o755)
    return Half(directory / name, "--store", url, *options, **env)


@slow
@pytest.mark.parametrize("part", ["fresh", "reopened", "random1", "random2"])
def test_answers_as_the_other_engines(single, database, part):
    program = BUILD / "tests/unit/test_store_clickhouse"
    env = {**os.environ, "WICK_CLICKHOUSE_URL": single.url(database), "WICK_CLICKHOUSE_PARTS": part}
    p = subprocess.run([program], capture_output=True, text=True, timeout=900, env=env)
    assert p.returncode == 0 and "not ok" not in p.stdout, p.stdout[-3000:]
    assert p.stdout.count("\nok") > (20 if part in ("fresh", "reopened") else 5)


@slow
def test_servers_share_a_database(single, database, tmp_path):
    """One server takes profiles, one answers, one does both; a user with a password from a file; nothing is stored twice."""
    secret = tmp_path / "secret"
    secret.write_text("s3cret & long\n")
    secret.chmod(0o644)
    url = single.url(database)
    ingest = serve(tmp_path, "ingest", url, "--role", "ingest")
    both = serve(tmp_path, "both", url.replace("default@", "ingest@") + f"?password_file={secret}", "--set", 'user=""')
    query = serve(tmp_path, "query", url, "--role", "query")
    try:
        r = request(SHOP)
        for _ in range(3):
            assert ingest.send(r)[0] == 200
        assert both.send(request(SHOP, service="cart"))[0] == 200
        for s in (both, query):
            assert total(s) == 84
            assert total(s, "cpu{service.name=%22shop%22}") == 42
            assert {x["name"] for x in s.json("/api/v1/services")} == {"shop", "cart"}
            assert s.json("/api/v1/labels/service.name/values") == ["cart", "shop"]
            top = {x["name"]: x["self"] for x in s.json("/api/v1/top?query=cpu")["rows"]}
            assert top["encode"] == 60 and top["sort"] == 20 and top["idle"] == 4
            spans = s.json("/api/v1/spans?query=cpu")["spans"]
            assert [x["value"] for x in spans] == [60]
        assert ingest.get("/api/v1/top?query=cpu")[0] == 404
        status, body = query.get("/v1development/profiles", data=r.SerializeToString(),
                                 headers={"Content-Type": "application/x-protobuf"})
        assert status == 503 and b"only answers queries" in body
        ingest.stop()
        ingest = serve(tmp_path, "again", url, "--role", "ingest")
        assert ingest.send(r)[0] == 200  # known although the server is new
        assert total(query, "cpu{service.name=%22shop%22}") == 42
        assert "s3cret" not in log_of(both)
    finally:
        for s in (ingest, both, query):
            if s.p.poll() is None:
                s.stop()


@slow
def test_tls_several_hosts_and_password_from_the_environment(tmp_path):
    """HTTPS with an own CA; the first host does not answer; a certificate that is not trusted and a wrong password are refused."""
    if not clickhouse_peer.SERVER:
        pytest.skip("no clickhouse-server")
    key, cert, port = tmp_path / "key.pem", tmp_path / "cert.pem", clickhouse_peer.free_port()
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", cert, "-days", "2", "-subj",
                    "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True)
    cert.chmod(0o644)
    node = clickhouse_peer.Node(str(tmp_path / "peer"))
    node.configure(f"""<https_port>{port}</https_port><openSSL><server><certificateFile>{cert}</certificateFile>
<privateKeyFile>{key}</privateKeyFile><verificationMode>none</verificationMode></server></openSSL>""")
    node.start()
    try:
        url = f"clickhouse://ingest@127.0.0.1:1,127.0.0.1:{port}/wick?tls=true"
        s = serve(tmp_path, "s", f"{url}&ca={cert}", "--set", 'user=""', WICK_CLICKHOUSE_PASSWORD="s3cret & long")
        try:
            assert s.send(request(SHOP))[0] == 200
            assert total(s) == 42
            assert "s3cret" not in log_of(s)
        finally:
            s.stop()
        for place, password, words in ((url, "s3cret & long", "certificate"), (f"{url}&ca={cert}", "wrong", "refused the user name")):
            p = subprocess.run([WICK, "serve", "--no-agent", "--store", place, "--http", "127.0.0.1:0", "--set", 'user=""'], capture_output=True, text=True, timeout=60,
                               env={**os.environ, "XDG_DATA_HOME": str(tmp_path), "HOME": str(tmp_path), "WICK_CLICKHOUSE_PASSWORD": password})
            assert p.returncode != 0 and words in p.stderr, p.stderr
            assert password not in p.stderr
    finally:
        node.stop()


@slow
def test_spool(tmp_path):
    """ack: spool: acknowledged while ClickHouse is stopped or killed, also by a server that starts meanwhile; two tenants; all of it
    is there once afterwards. A spool that is full refuses."""
    if not clickhouse_peer.SERVER:
        pytest.skip("no clickhouse-server")
    peer = clickhouse_peer.Single(tmp_path / "peer")
    s = serve(tmp_path, "s", peer.url("wick"), "--set", "store.ack=spool", "--set", f"store.spool={tmp_path}/spool")
    tokens = tokens_of(s.dir)
    sent = 0

    def push(times):
        nonlocal sent
        for _ in range(times):
            sent += 1
            for t in some(tokens):
                r = request(SHOP, start=time.time_ns() - 600 * 10**9 + sent)
                status, body = s.send(r, t)
                assert status == 200, body
                assert s.send(r, t)[0] == 200  # again: a duplicate

    def check():
        for t in tokens:
            wait_for(lambda: total(s, token=t) == 42 * sent, 120, lambda: f"{total(s, token=t)} of {42 * sent}")  # noqa: B023

    try:
        push(5)
        check()
        peer.node.stop()
        push(5)
        s.stop()
        s.start()  # ClickHouse is away
        push(5)
        peer.node.start()
        check()
        for _ in range(3):  # killed while blocks arrive
            push(3)
            check()
            peer.node.stop(signal.SIGKILL)
            push(3)
            peer.node.start()
            check()
        peer.node.stop()
        s.stop()
        s.options = (*s.options, "--set", "store.spool_size=1")
        s.start()
        assert s.send(request(SHOP, service="last"), tokens[0])[0] == 200
        status, body = s.send(request(SHOP), tokens[0])
        assert status == 503 and b"spool is full" in body, (status, body)
        assert s.get("/readyz")[0] == 503
        peer.node.start()
        wait_for(lambda: s.send(request(SHOP, service="other"), tokens[0])[0] == 200)
        wait_for(lambda: total(s, "cpu{service.name=%22last%22}", token=tokens[0]) == 42)
    finally:
        s.stop()
        peer.stop()


@slow
def test_tenants(single, database, tmp_path):
    s = serve(tmp_path, "s", single.url(database))
    try:
        one, two = tokens_of(s.dir)
        assert s.send(request(SHOP), one)[0] == 200
        assert s.send(request([("main;other", 5, False)]), two)[0] == 200
        assert total(s, token=one) == 42 and total(s, token=two) == 5
    finally:
        s.stop()


@slow
def test_refuses_while_clickhouse_is_away(tmp_path_factory, tmp_path):
    """Senders get 503 and try again; the request that was in progress is stored once."""
    if not clickhouse_peer.SERVER:
        pytest.skip("no clickhouse-server")
    peer = clickhouse_peer.Single(tmp_path_factory.mktemp("away"))
    s = serve(tmp_path, "s", peer.url())
    try:
        first, second = request(SHOP), request(SHOP, service="cart")
        assert s.send(first)[0] == 200
        peer.node.stop()
        status, body = s.send(second)
        assert status == 503, body
        assert s.send(second)[0] == 503
        assert s.get("/api/v1/top?query=cpu")[0] >= 500
        peer.node.start()
        wait_for(lambda: s.send(second)[0] == 200, why="accepted again")
        assert s.send(second)[0] == 200
        assert total(s) == 84
    finally:
        s.stop()
        peer.stop()


class Load(threading.Thread):
    """Sends one profile after the other until it is stopped, each until it is accepted."""

    VALUE = 200  # of one profile

    def __init__(self, server, service):
        super().__init__()
        self.server, self.service = server, service
        self.accepted = self.refused = 0
        self.ended = threading.Event()

    def run(self):
        n = 0
        while not self.ended.is_set():
            n += 1
            r = request([(f"main;f{n % 50};g{k}", 1, k % 7 == 0) for k in range(Load.VALUE - 2)] + [("main;idle", 2, False)],
                        service=self.service, start=time.time_ns() - 5_000_000_000)
            while True:
                try:
                    status = self.server.send(r)[0]
                except OSError:
                    status = 0
                if status == 200:
                    self.accepted += Load.VALUE
                    break
                self.refused += 1
                if self.ended.wait(0.2):
                    return


@slow
def test_cluster_loses_a_replica(tmp_path):
    """2 shards x 2 replicas under load: replicas of both shards are killed and started again. Everything that was acknowledged is there,
    once, on both replicas."""
    if not clickhouse_peer.SERVER:
        pytest.skip("no clickhouse-server")
    peer = clickhouse_peer.Cluster(tmp_path / "cluster")
    s, loads = None, []
    try:
        s = serve(tmp_path, "s", peer.url())
        loads = [Load(s, f"svc-{i}") for i in range(4)]
        for x in loads:
            x.start()
        for node in (peer.nodes[1], peer.nodes[2], peer.nodes[1]):
            before = [x.accepted for x in loads]
            wait_for(lambda: all(x.accepted > b + 10 * Load.VALUE for x, b in zip(loads, before)), 120, why="load")  # noqa: B023
            node.stop(signal.SIGKILL)
            time.sleep(3)
            node.start()
        before = [x.accepted for x in loads]
        wait_for(lambda: all(x.accepted > b + 10 * Load.VALUE for x, b in zip(loads, before)), 120, why="load after the restarts")
        for x in loads:
            x.ended.set()
        for x in loads:
            x.join()
        print("accepted", [x.accepted for x in loads], "refused", [x.refused for x in loads])
        for x in some(loads):
            # the last request may have been stored without having been acknowledged
            assert total(s, f"cpu{{service.name=%22{x.service}%22}}") - x.accepted in (0, Load.VALUE)
        for a, b in ((0, 1), (2, 3)):
            sql = "SELECT count(), sum(value) FROM wick.samples_local"
            wait_for(lambda: peer.nodes[a].ask(sql) == peer.nodes[b].ask(sql), why="replicas are equal")
    finally:
        for x in loads:
            x.ended.set()
        if s:
            s.stop()
        peer.stop()


def wick(tmp_path, *args, code=0):
    env = {**os.environ, "XDG_DATA_HOME": str(tmp_path), "HOME": str(tmp_path)}
    p = subprocess.run([WICK, *args], capture_output=True, text=True, timeout=120, env=env)
    assert p.returncode == code, p.stderr
    return p


@slow
def test_migrate(single, database, tmp_path):
    url = single.url(database)
    dry = wick(tmp_path, "store", "migrate", "--store", url, "--dry-run").stdout
    assert "CREATE TABLE" in dry and single.node.ask(f"SELECT count() FROM system.databases WHERE name = '{database}'") == "0"
    assert wick(tmp_path, "store", "migrate", "--store", url).stdout == dry
    assert single.node.ask(f"SELECT count() FROM system.tables WHERE database = '{database}'") == str(dry.count("CREATE TABLE"))
    assert wick(tmp_path, "store", "migrate", "--store", url).stdout == ""
    single.node.ask(f"INSERT INTO {database}.schema (version) VALUES (99)")
    assert "use a later one" in wick(tmp_path, "store", "migrate", "--store", url, code=1).stderr


def statements_of_version_3(tmp_path, url, version):
    """The statements that create the schema of version 3, which say that it is this version."""
    for statement in wick(tmp_path, "store", "migrate", "--store", url, "--dry-run").stdout.split(";\n"):
        for now, then in ((r"LowCardinality\(Int64\) CODEC\(ZSTD\(3\)\)", "Int64 CODEC(Delta, ZSTD(1))"),
                          (r"LowCardinality\(UInt64\) CODEC\(ZSTD\(3\)\)", "UInt64 CODEC(ZSTD(1))"),
                          (r" TTL toDateTime\(.*?\) \+ INTERVAL 2 DAY", ""), (r", allow_suspicious\w+ = 1", ""),
                          (r"VALUES \(\d+\)", f"VALUES ({version})")):
            statement = re.sub(now, then, statement)
        if statement.strip():
            yield statement


@slow
def test_migrate_from_version_3(single, database, tmp_path):
    """Version 3 kept the keys of all profiles, and other types in `samples`: what was stored is answered after the migration, a profile that is
    sent again is recognised, and (on servers that have TTL) the keys of profiles that were received days ago are dropped."""
    url, db = single.url(database), database
    for statement in statements_of_version_3(tmp_path, url, 3):
        single.node.ask(statement)
    assert "TTL" not in single.node.ask(f"SHOW CREATE TABLE {db}.profiles")
    single.node.ask(f"INSERT INTO {db}.schema (version) VALUES ({SCHEMA})")  # a server fills it as version 3 would have
    again = request(SHOP)
    s = serve(tmp_path, "s", url)
    try:
        assert s.send(again)[0] == 200 and total(s) == 42
    finally:
        s.stop()
    single.node.ask(f"DROP TABLE {db}.schema")
    for statement in statements_of_version_3(tmp_path, url, 3):
        if ".schema" in statement:
            single.node.ask(statement)
    columns = ("tenant, service, type, unit, time, duration, series, meta, seq, joined, id, value, samples, {0} AS key_start, {0} AS key, "
               "received - 5 * toInt64(86400000000000) AS received")
    single.node.ask(f"INSERT INTO {db}.profiles SELECT {columns.format(77)} FROM {db}.profiles")
    dry = wick(tmp_path, "store", "migrate", "--store", url, "--dry-run").stdout
    assert f"VALUES ({SCHEMA})" in dry and "CREATE" not in dry and "samples.time" not in dry
    assert wick(tmp_path, "store", "migrate", "--store", url).stdout == dry
    assert wick(tmp_path, "store", "migrate", "--store", url).stdout == ""
    single.node.ask(f"OPTIMIZE TABLE {db}.profiles FINAL")
    keys = single.node.ask(f"SELECT key FROM {db}.profiles ORDER BY received FORMAT TSV").split()
    assert len(keys) == 2 and keys[1] not in ("0", "77")
    assert keys[0] == ("0" if "TTL" in dry else "77")
    single.node.ask(f"ALTER TABLE {db}.profiles DELETE WHERE received < toInt64({time.time_ns() - 86400 * 10**9})")
    s = serve(tmp_path, "s2", url)
    try:
        assert s.send(again)[0] == 200
        assert s.send(request(SHOP))[0] == 200
        assert total(s) == 84
    finally:
        s.stop()


@slow
def test_migrate_from_version_2(single, database, tmp_path):
    """Version 2 had other codecs: what was stored and what is stored later is answered after the migration."""
    url, db = single.url(database), database
    for statement in statements_of_version_3(tmp_path, url, 2):
        single.node.ask(re.sub(r"CODEC\(((GCD, )?T64, ZSTD\(1\)|ZSTD\(3\))\)", "CODEC(ZSTD(1))", statement))
    assert "T64" not in single.node.ask(f"SHOW CREATE TABLE {db}.samples")
    old = ", ".join(["''", "'old'", "'cpu'", f"{time.time_ns() - 3600 * 10**9} + number", "unhex('" + "11" * 16 + "')", "1", "1", "0", "0", "0",
                     "if(number % 3, toInt64(-9223372036854775808), toInt64(number * 1000003))", "10000000 * number"])
    single.node.ask(f"INSERT INTO {db}.samples SELECT {old} FROM system.numbers LIMIT 20000")
    sums = f"SELECT count(), sum(value), sum(ts % 1000000007), sum(cityHash64(time, ts, value)) FROM {db}.samples WHERE service = 'old'"
    want = single.node.ask(sums)
    dry = wick(tmp_path, "store", "migrate", "--store", url, "--dry-run").stdout
    assert "VALUES (3)" in dry and f"VALUES ({SCHEMA})" in dry and "CREATE" not in dry
    assert wick(tmp_path, "store", "migrate", "--store", url).stdout == dry
    assert wick(tmp_path, "store", "migrate", "--store", url).stdout == ""
    assert ("T64" in single.node.ask(f"SHOW CREATE TABLE {db}.samples")) == ("CODEC" in dry)
    s = serve(tmp_path, "s", url)
    try:
        assert s.send(request(SHOP))[0] == 200
        single.node.ask(f"OPTIMIZE TABLE {db}.samples FINAL")
        assert single.node.ask(sums) == want
        assert total(s, "cpu{service.name=%22shop%22}") == 42
    finally:
        s.stop()


@slow
def test_migrate_from_version_1(single, database, tmp_path):
    """Version 1 had the IDs of trace and span in `samples`: its rows are answered, by trace too, after the migration."""
    url, db = single.url(database), database
    for statement in wick(tmp_path, "store", "migrate", "--store", url, "--dry-run").stdout.split(";\n"):
        if f"{db}.samples " in statement:
            statement = statement.replace("linked UInt8", "trace FixedString(16), span FixedString(8)").replace(" CODEC(ZSTD(1)), ts", ", ts")
        if statement.strip():
            single.node.ask(statement.replace(f"VALUES ({SCHEMA})", "VALUES (1)"))
    refused = subprocess.run([WICK, "serve", "--store", url, "--http", "127.0.0.1:0"], capture_output=True, text=True, timeout=60,
                             env={**os.environ, "XDG_DATA_HOME": str(tmp_path), "HOME": str(tmp_path)})
    assert refused.returncode != 0 and "wick store migrate" in refused.stderr
    row = "'', 'old', 'cpu', 1700000000000000000, unhex('%s'), 1, 1, 0, 0, unhex('%s'), unhex('%s'), -9223372036854775808, 5"
    for trace, span in (("00" * 16, "00" * 8), ("ab" * 16, "cd" * 8)):
        single.node.ask(f"INSERT INTO {db}.samples (tenant, service, type, time, stack, series, meta, seq, attrs, trace, span, ts, value) "
                        f"SELECT {row % ('11' * 16, trace, span)}")
    dry = wick(tmp_path, "store", "migrate", "--store", url, "--dry-run").stdout
    assert "ALTER TABLE" in dry and "CREATE" not in dry
    assert wick(tmp_path, "store", "migrate", "--store", url).stdout == dry
    assert wick(tmp_path, "store", "migrate", "--store", url).stdout == ""
    assert single.node.ask(f"SELECT linked, value FROM {db}.samples ORDER BY linked FORMAT TSV") == "0\t5\n1\t5"
    s = serve(tmp_path, "s", url)
    try:
        assert s.send(request(SHOP))[0] == 200
        assert total(s) == 42
        assert [x["value"] for x in s.json("/api/v1/spans?query=cpu")["spans"]] == [30]
    finally:
        s.stop()


@slow
def test_copy_continues(single, database, tmp_path):
    """A store on disk is copied; the copy is interrupted, and what it had copied is not there twice."""
    now = time.time_ns()
    source, url, state = tmp_path / "source", single.url(database), tmp_path / "state"
    files = []
    for i in range(30):
        r = request([(f"main;f{i}", 100 + i, i % 3 == 0)], start=now - i * 1_800_000_000_000)
        files.append(tmp_path / f"{i}.otlp")
        files[-1].write_bytes(r.SerializeToString())
    wick(tmp_path, "store", "import", "--store", str(source), *map(str, files))
    want = sum(100 + i for i in range(30))
    state.write_text(f"{now - 7 * 3_600_000_000_000}\n")  # as if the first hours had been copied
    p = wick(tmp_path, "store", "copy", str(source), url, "--state", str(state))
    assert "continuing" in p.stderr and "done" in p.stderr and not state.exists()
    part = int(single.node.ask(f"SELECT sum(value) FROM {database}.samples"))
    assert 0 < part < want
    wick(tmp_path, "store", "copy", str(source), url, "--state", str(state))  # all of it: the rest is known
    assert int(single.node.ask(f"SELECT sum(value) FROM {database}.samples")) == want
    back = tmp_path / "back"
    wick(tmp_path, "store", "copy", url, str(back), "--state", str(state))
    files = [tmp_path / "a.json", tmp_path / "b.json"]
    for store, file in ((source, files[0]), (back, files[1])):
        wick(tmp_path, "store", "export", "--store", str(store), "--format", "pprof", "-o", str(file))
    texts = [subprocess.run([WICK, "pprof", "-top", "-nodecount=100", str(f)], capture_output=True, text=True).stdout for f in files]
    assert sorted(texts[0].splitlines()[4:]) == sorted(texts[1].splitlines()[4:]) and "f29" in texts[0]


@slow
def test_copy_is_killed(single, database, tmp_path):
    """A copy is killed (SIGKILL) again and again while it is between the first and the last hour, and continues each time; in the end all of it is
    there once, of both tenants' stores."""
    now, hours = time.time_ns(), 24
    for k, base in ((0, 100), (1, 7000)):
        source, state, db = tmp_path / f"source{k}", tmp_path / f"state{k}", f"{database}{k}"
        files = []
        for i in range(hours):
            r = request([(f"main;f{i}", base + i, i % 3 == 0)], start=now - (i + 1) * 3600 * 10**9)
            files.append(tmp_path / f"{i}.otlp")
            files[-1].write_bytes(r.SerializeToString())
        wick(tmp_path, "store", "import", "--store", str(source), *map(str, files))
        copy = [WICK, "store", "copy", str(source), None, "--state", str(state)]
        env = {**os.environ, "XDG_DATA_HOME": str(tmp_path), "HOME": str(tmp_path)}
        kills = 0
        with minio_peer.Counted(f"http://{single.node.address}", 0.05) as proxy:
            copy[4] = f"clickhouse://default@{proxy.url[7:]}/{db}"
            try:
                for _ in range(60):
                    before = state.read_text() if state.exists() else None
                    p = subprocess.Popen(copy, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=env)
                    wait_for(lambda: p.poll() is not None or (state.exists() and state.read_text() not in ("", before)), 120, "an hour is copied")  # noqa: B023
                    if p.poll() is None and kills < 5:
                        p.kill()
                        kills += 1
                        p.communicate()
                        continue
                    said = p.communicate(timeout=120)[1]
                    assert p.returncode == 0, said
                    break
                assert kills >= 3 and "continuing" in said and "done" in said, (kills, said)
                assert not state.exists()
                assert int(single.node.ask(f"SELECT sum(value) FROM {db}.samples")) == sum(base + i for i in range(hours))
                assert int(single.node.ask(f"SELECT count() FROM {db}.profiles")) == hours
            finally:
                single.node.ask(f"DROP DATABASE IF EXISTS {db}")
