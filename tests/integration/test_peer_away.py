# SPDX-License-Identifier: Apache-2.0
"""Peers that go away: every client against one that refuses, resets, closes at once, dies in the middle of a response, is silent, or has
no address. Bars: the cause is in the message, at most 1 % of a core while it is away, sent again when it is back."""
import contextlib
import http.server
import os
import re
import signal
import socket
import ssl
import struct
import subprocess
import sys
import threading
import time
import urllib.parse

import pytest
from collector_peer import Collector, Sink, otlp_receiver, pipeline, post, to_sink, wait_for
from wick_tools import SHOP, WICK, Server, cpu_seconds, free_port, log_of, measured, native, request, some

CPU_BAR = 0.01


class Peer:
    """A TCP peer with one bad habit; counts the connections it gets."""

    def __init__(self, habit, port=0):
        self.habit, self.connections, self.held = habit, 0, []
        self.socket = socket.create_server(("127.0.0.1", port), backlog=512)
        self.host, self.port = "127.0.0.1", self.socket.getsockname()[1]
        self.listens = habit not in ("refuses", "has no address")
        if habit == "has no address":
            self.host = "no-such-host.invalid"
        if not self.listens:
            self.socket.close()
        else:
            threading.Thread(target=self.serve, daemon=True).start()

    @property
    def url(self):
        return f"http://{self.host}:{self.port}"

    def serve(self):
        with contextlib.suppress(OSError):
            while True:
                c, _ = self.socket.accept()
                self.connections += 1
                self.treat(c)

    def treat(self, c):
        if self.habit == "resets":
            c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        elif self.habit == "dies in mid-body":
            c.settimeout(2)
            with contextlib.suppress(OSError):
                c.recv(65536)
                c.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf")
        elif self.habit == "is silent":
            self.held.append(c)
            return
        c.close()

    def close(self):
        if self.listens:
            self.listens = False
            self.socket.shutdown(socket.SHUT_RDWR)
            self.socket.close()
        for c in self.held:
            c.close()


CAUSES = {
    "refuses": ["refused"],
    "resets": ["reset", "closed the connection", "Broken pipe"],
    "closes": ["closed the connection", "reset", "Broken pipe"],
    "dies in mid-body": ["closed the connection", "reset", "ended the", "HTTP/2"],
    "is silent": ["no response", "within", "respond"],
    "has no address": ["cannot resolve 'no-such-host.invalid'", "cannot resolve host 'no-such-host.invalid'"],
}


def only(*quick, habits=CAUSES):
    """All of them, of which only the quick ones are in `make test`."""
    return [h if h in quick else pytest.param(h, marks=pytest.mark.slow) for h in habits]


@pytest.fixture(params=CAUSES)
def peer(request):
    p = Peer(request.param)
    yield p
    p.close()


def has_cause(peer, text):
    return any(c in text for c in CAUSES[peer.habit])


def cpu_share(pid, seconds=3.0):
    """Of a core, over a while."""
    began, cpu = time.monotonic(), cpu_seconds(pid)
    time.sleep(seconds)
    return (cpu_seconds(pid) - cpu) / (time.monotonic() - began)


def everything_to(host, port, **retry):
    """A collector that scrapes the peer and exports to it over gRPC and HTTP, ten requests at a time."""
    exporter = {"tls": {"insecure": True}, "timeout": "2s", "retry_on_failure": {"initial_interval": "500ms", **retry}}
    queue = {"sending_queue": {"queue_size": 1000, "num_consumers": 10}}
    scrape = {"pprof": {"interval": "500ms", "initial_delay": "10ms", "timeout": "2s", "targets": [{"endpoint": f"{host}:{port}"}]}}
    config = pipeline({"otlp": {"endpoint": f"{host}:{port}", **exporter, **queue},
                       "otlphttp": {"endpoint": f"http://{host}:{port}", **exporter, **queue}},
                      receivers={**otlp_receiver(), **scrape})
    return config


def push(collector, n):
    body = request(SHOP).SerializeToString()
    for _ in range(n):
        assert post(collector.http + "/v1development/profiles", body)[0] == 200


def lines_of(collector, who):
    return [line for line in collector.log().splitlines() if who in line and ("failed" in line or "cannot" in line)]


def test_away_peer_costs_nothing(peer, tmp_path):
    """100 requests to a peer that fails, over both protocols, while four of its profiles are scraped."""
    with Collector(tmp_path, everything_to(peer.host, peer.port), binary=WICK) as c:
        push(c, 100)
        before = peer.connections
        measured(lambda k: 1 if cpu_share(c.process.pid) <= CPU_BAR else 2, 0.5)
        assert peer.connections - before < 400
        for who in ("otlp:", "otlphttp:", "cannot scrape"):
            wait_for(lambda: any(has_cause(peer, line) for line in lines_of(c, who)), 30, lambda: c.log())
        assert len(os.listdir(f"/proc/{c.process.pid}/task")) < 24, "names are looked up by a few threads"
        c.kill()


def test_name_of_a_peer_that_refuses(tmp_path):
    """Looked up now and then, not for each attempt."""
    with Collector(tmp_path, everything_to("localhost", free_port()), binary=WICK) as c:
        push(c, 100)
        measured(lambda k: 1 if cpu_share(c.process.pid) <= CPU_BAR else 2, 0.5)
        assert any("refused" in line for line in lines_of(c, "otlphttp:"))
        c.kill()


@pytest.mark.parametrize("habit", ["refuses", "closes"])
def test_sent_when_it_is_back(habit, tmp_path):
    bad = Peer(habit)
    config = pipeline({"otlp": {"endpoint": f"localhost:{bad.port}", "tls": {"insecure": True},
                                "retry_on_failure": {"initial_interval": "300ms", "max_interval": "1s"}}})
    with Collector(tmp_path, config, binary=WICK) as c:
        push(c, 20)
        wait_for(lambda: "trying again" in c.log())
        bad.close()
        with Sink(bad.port) as sink:
            wait_for(lambda: sink.samples() >= 60, 20)
            assert sink.samples() == 60
        assert c.metric("otelcol_exporter_sent_profile_samples") == 60
        assert not c.metric("otelcol_exporter_send_failed_profile_samples")


def test_every_loss_is_said(peer, tmp_path):
    """After max_elapsed_time, all that was acknowledged is either sent or in a message about drops, and counted."""
    limits = {"initial_interval": "200ms", "max_interval": "500ms", "max_elapsed_time": "1s"}
    config = pipeline({"otlphttp": {"endpoint": peer.url, "timeout": "500ms", "retry_on_failure": limits}})
    with Collector(tmp_path, config, binary=WICK) as c:
        began = time.monotonic()
        push(c, 10)
        if peer.habit == "dies in mid-body":  # its status was 200
            wait_for(lambda: "trying again" in c.log() or "dropped" in c.log(), 10, lambda: c.log())
        wait_for(lambda: c.metric("otelcol_exporter_send_failed_profile_samples") == 30, 20, lambda: c.log())
        assert time.monotonic() - began < 1 + 0.5 + 2.5
        c.stop()
        said = sum(map(int, re.findall(r"dropped profiles: (\d+) ", c.log())))
        assert said == 30, c.log()
        assert "no more retries left" in c.log() and any(has_cause(peer, line) for line in c.log().splitlines() if "dropped" in line)


# --- commands ---

def command(*args, **env):
    began = time.monotonic()
    p = subprocess.run([WICK, *map(str, args)], capture_output=True, text=True, timeout=60, env={**os.environ, **env})
    return p, time.monotonic() - began


NOT_SILENT = [h for h in CAUSES if h != "is silent"]


@pytest.mark.parametrize("peer", NOT_SILENT, indirect=True)
def test_query_says_what_happened(peer):
    p, seconds = command("query", "services", "--server", peer.url)
    assert p.returncode == 1 and seconds < 5 + 10 * (peer.habit == "has no address")
    assert has_cause(peer, p.stderr), p.stderr
    assert len(p.stderr.strip().splitlines()) == 1


@pytest.fixture(scope="module")
def nameless(tmp_path_factory):
    """A program without symbols."""
    exe = tmp_path_factory.mktemp("nameless") / "nameless"
    source = "int main(void) { for (volatile long i = 0; i < 300000000; i++) ; return 0; }"
    subprocess.run(["gcc", "-O1", "-s", "-Wl,--build-id", "-x", "c", "-o", exe, "-"], input=source, text=True, check=True)
    return exe


@pytest.mark.parametrize("peer", NOT_SILENT, indirect=True)
def test_record_says_why_there_are_no_names(peer, nameless, tmp_path):
    """The client of debuginfod in `wick record`: the recording is written, and the reason is named."""
    p, seconds = command("record", "-F", "199", "--debuginfod", peer.url, "-o", tmp_path / "x.folded", "--", nameless,
                         DEBUGINFOD_CACHE_PATH=str(tmp_path / "cache"))
    assert p.returncode == 0 and (tmp_path / "x.folded").stat().st_size and seconds < 40, p.stderr
    assert any(has_cause(peer, line) for line in p.stderr.splitlines() if "no debug information of" in line), p.stderr
    assert peer.connections < 20


WORKS = """
import os, threading, time
end = time.monotonic() + 4
def others():
    mine = {threading.get_native_id()}
    ticks = 0
    for t in os.listdir("/proc/self/task"):
        if int(t) not in mine:
            f = open(f"/proc/self/task/{t}/stat").read().rsplit(")", 1)[1].split()
            ticks += int(f[11]) + int(f[12])
    return ticks / os.sysconf("SC_CLK_TCK")
while time.monotonic() < end:
    sum(range(2000))
    time.sleep(0.01)
print(others())
"""


@pytest.mark.parametrize("peer", only("refuses", "is silent"), indirect=True)
def test_run_costs_nothing_while_its_server_is_away(peer):
    """libwick's exporter, five times a second, in a program that works; its end is not delayed by a peer that does not answer."""
    began = time.monotonic()
    p = subprocess.run([WICK, "run", "--export", peer.url, "--", sys.executable, "-c", WORKS], capture_output=True, text=True, timeout=60,
                       env={**os.environ, "WICK_EXPORT_INTERVAL_MS": "200"})
    assert p.returncode == 0 and time.monotonic() - began < 25
    assert float(p.stdout) <= 4 * CPU_BAR + 0.04, "of the threads that are not the program's"
    assert peer.connections < 60
    if peer.habit != "dies in mid-body":  # its status was 200: the profiles have arrived
        assert has_cause(peer, p.stderr), p.stderr


# --- reload ---

def test_reload(tmp_path):
    """SIGHUP: a wrong configuration changes nothing and is named with its place; a right one takes over, and what was accepted
    before is sent."""
    with Sink() as first, Sink() as second:
        config = pipeline({"otlp": {"endpoint": first.endpoint, "tls": {"insecure": True}}},
                          processors={"batch": {"timeout": "60s", "send_batch_size": 100000}})
        with Collector(tmp_path, config, binary=WICK) as c:
            path = next(tmp_path.glob("config-*.yaml"))
            push(c, 3)
            assert first.samples() == 0, "it waits in the batch"
            good = path.read_text()
            path.write_text(good.replace("batch", "no_such_processor"))
            c.process.send_signal(signal.SIGHUP)
            wait_for(lambda: "was not reloaded" in c.log())
            assert re.search(rf"not reloaded.*{path.name}:\d+.*no_such_processor", c.log()), c.log()
            push(c, 1)
            assert first.samples() == 0
            path.write_text(good.replace(first.endpoint, second.endpoint).replace("60s", "10ms"))
            c.process.send_signal(signal.SIGHUP)
            wait_for(lambda: c.log().count("Everything is ready") == 2)
            assert first.samples() == 12, "drained"
            port = c.ports("otlp")[-1]
            assert post(f"http://127.0.0.1:{port}/v1development/profiles", request(SHOP).SerializeToString())[0] == 200
            wait_for(lambda: second.samples() == 3)


def test_reload_to_what_cannot_start(tmp_path):
    with Sink() as sink, socket.create_server(("127.0.0.1", 0)) as taken:
        with Collector(tmp_path, pipeline(to_sink(sink)), binary=WICK) as c:
            path = next(tmp_path.glob("config-*.yaml"))
            path.write_text(path.read_text().replace("127.0.0.1:0", f"127.0.0.1:{taken.getsockname()[1]}"))
            c.process.send_signal(signal.SIGHUP)
            wait_for(lambda: c.log().count("Everything is ready") == 2)
            assert "going back to the old one: " in c.log() and "in use" in c.log()
            port = c.ports("otlp")[-1]
            assert post(f"http://127.0.0.1:{port}/v1development/profiles", request(SHOP).SerializeToString())[0] == 200
            wait_for(lambda: sink.samples() == 3)


# --- wick serve: webhooks, Alertmanager, an object store, debuginfod ---

SERVE = """
alerts:
  interval: 1s
  webhooks: ['{url}/hook']
  alertmanagers: ['{url}']
  rules:
    - {{name: hot, type: threshold, selector: 'cpu{{service.name="shop"}}', function: en.*de, over: 50%, window: 1h, for: 0s}}
symbols:
  debuginfod: ['{url}']
  fetch_timeout: 1s
store:
  cold: 's3://bucket/p?endpoint={url}&timeout=1'
"""
DAY = 86400 * 10**9
BUILD_ID = "ab" * 20


class Well(http.server.BaseHTTPRequestHandler):
    """The peer when it is back: takes whatever is sent, has no file, and is a ClickHouse with wick's tables and without rows."""
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self):
        body = self.rfile.read(int(self.headers.get("content-length", "0")))
        sql = (urllib.parse.unquote(self.path) + body[:200].decode("latin-1")) if self.path.startswith("/?") else ""
        self.server.asked.append(sql[max(sql.find("INSERT"), 0):] or f"{self.command} {self.path.split('?')[0]}")
        said = b"26.5.1.1\n" if "version()" in sql else b"1\n" if "system.tables" in sql else b"4\n" if "max(version)" in sql else b""
        self.send_response(404 if "/buildid/" in self.path else 200)
        self.send_header("content-length", str(len(said)))
        self.send_header("etag", '"1"')
        self.end_headers()
        self.wfile.write(said)

    do_GET = do_POST = do_PUT = do_HEAD = do_DELETE = answer


class WellServer(http.server.ThreadingHTTPServer):
    daemon_threads, request_queue_size = True, 256

    def __init__(self, port=0):
        self.asked = []
        super().__init__(("127.0.0.1", port), Well)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.shutdown()
        self.server_close()

    def has(self, start):
        return any(x.startswith(start) for x in self.asked)


def server_with_clients(tmp_path, peer):
    """A server that has something to tell each of the peers that its configuration names."""
    (tmp_path / "wick.yaml").write_text(SERVE.format(url=peer.url))
    s = Server(tmp_path, "--no-agent", "--config", str(tmp_path / "wick.yaml"), AWS_ACCESS_KEY_ID="a", AWS_SECRET_ACCESS_KEY="b")
    for i in range(20):
        assert s.send(request(SHOP, start=time.time_ns() // DAY * DAY - 3 * DAY + i * 10**9))[0] == 200
    s.stop()  # flushes: the old segment is to be moved to the objects from now on
    s.start()
    assert s.send(request(SHOP))[0] == 200
    for i in range(8):
        assert s.send(native(f"{i}{BUILD_ID[1:]}", [([0x1000 + k], 10) for k in range(20)]))[0] == 200
    return s


def ask_names(s):
    s.json("/api/v1/top?query=cpu&from=now-1h")
    return [b for b in s.json("/api/v1/binaries")["buildIds"] if b["buildId"].endswith(BUILD_ID[1:])]


def failures_of_clients(s):
    """What the server says about each of its peers; False until all four have failed."""
    targets = s.json("/api/v1/alerts")["targets"]
    names = ask_names(s)
    cold = [line for line in log_of(s).splitlines() if "the object store cannot be used" in line]
    if len(targets) < 2 or not all(t["error"] for t in targets) or not any(n.get("why") for n in names) or not cold:
        return False
    return [t["error"] for t in targets] + cold[:1] + [n["why"] for n in names if "why" in n][:1]


@pytest.mark.parametrize("peer", only("refuses", "is silent"), indirect=True)
def test_clients_of_the_server(peer, tmp_path):
    """Everything that a server asks others for is away: it says why, costs nothing, works, and stops."""
    s = server_with_clients(tmp_path, peer)
    try:
        said = wait_for(lambda: failures_of_clients(s), 60, lambda: log_of(s))
        for text in some(said):
            assert has_cause(peer, text), said
        measured(lambda k: 1 if cpu_share(s.p.pid) <= 2 * CPU_BAR else 2, 0.5)  # the server has its own work, too
        assert peer.connections < 150
    finally:
        if s.p.poll() is None:
            assert s.stop()[1] < 15


@pytest.mark.slow
@pytest.mark.parametrize("habit", ["refuses", "closes", "dies in mid-body", "is silent"])
def test_clients_of_the_server_try_again(habit, tmp_path):
    """Without a restart and without being asked to: webhook, Alertmanager, object store, and debuginfod with the next question."""
    peer = Peer(habit)
    s = server_with_clients(tmp_path, peer)
    try:
        wait_for(lambda: failures_of_clients(s), 60, lambda: log_of(s))
        peer.close()
        with WellServer(peer.port) as well:
            for start in ("POST /hook", "POST /api/v2/alerts", "PUT /bucket/p", "GET /buildid/"):
                wait_for(lambda: well.has(start) or (ask_names(s) and False), 120, lambda: (start, well.asked, log_of(s)), step=0.5)
            wait_for(lambda: not any(t["error"] for t in s.json("/api/v1/alerts")["targets"]), 60)
            wait_for(lambda: all(n["state"] == "missing" for n in ask_names(s)), 120, lambda: ask_names(s), step=0.5)
            assert "wick_store_cold_failing" in s.get("/metrics")[1].decode()
    finally:
        peer.close()
        if s.p.poll() is None:
            s.stop()


# --- a store in ClickHouse ---

def at_once(n, fn):
    """[fn()] of so many threads."""
    got = []
    threads = [threading.Thread(target=lambda: got.append(fn())) for _ in range(n)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
    assert len(got) == n
    return got


def server_on_clickhouse(tmp_path, peer, *options):
    more = [f"--set={o}" for o in options]
    return Server(tmp_path, "--no-agent", "--store", f"clickhouse://default@{peer.host}:{peer.port}/wick?timeout=2", *more)


@pytest.mark.parametrize("habit", only("refuses", "dies in mid-body", habits=NOT_SILENT))
def test_clickhouse_goes_away(habit, tmp_path):
    """100 requests at once: each is refused with the cause, or kept in the spool; what was kept is stored when ClickHouse is back."""
    well = WellServer()
    away = habit == "has no address"
    spool = [f"store.spool={tmp_path}/spool", "store.ack=spool"]
    peer = Peer(habit) if away else well
    peer.host, port = peer.host if away else "127.0.0.1", well.server_address[1]
    if not away:
        peer.port = port
    s = server_on_clickhouse(tmp_path, peer, *(spool if away else []))
    try:
        well.__exit__()
        bad = peer if away else Peer(habit, port)
        answers = at_once(100, lambda: s.send(request(SHOP)))
        if away:
            assert {status for status, _ in answers} == {200}
            wait_for(lambda: has_cause(bad, log_of(s)), 30, lambda: log_of(s))
        else:
            assert {status for status, _ in answers} == {503}
            assert all(has_cause(bad, body.decode(errors="replace")) for _, body in some(answers)), answers[:3]
        measured(lambda k: 1 if cpu_share(s.p.pid) <= 2 * CPU_BAR else 2, 0.5)
        bad.close()
        if away:
            return
        with WellServer(port) as back:
            wait_for(lambda: s.send(request(SHOP))[0] == 200, 60, lambda: log_of(s))
            assert back.has("INSERT")
    finally:
        s.stop()


# --- TLS ---

@pytest.fixture(scope="module")
def private_ca(tmp_path_factory):
    """A TLS server with a certificate of a private CA: (port, file of the CA). It closes each connection after the handshake."""
    d = tmp_path_factory.mktemp("ca")

    def openssl(*args):
        subprocess.run(["openssl", *args], check=True, capture_output=True, cwd=d)

    openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", "ca.key", "-subj", "/CN=ours",
            "-days", "2", "-out", "ca.pem")
    openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", "key.pem", "-subj", "/CN=localhost",
            "-out", "csr.pem")
    (d / "ext").write_text("subjectAltName=DNS:localhost\n")
    openssl("x509", "-req", "-in", "csr.pem", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2", "-extfile", "ext",
            "-out", "cert.pem")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(d / "cert.pem", d / "key.pem")
    plain = socket.create_server(("127.0.0.1", 0))

    def serve():
        with contextlib.suppress(OSError):
            while True:
                c, _ = plain.accept()
                with contextlib.suppress(OSError):
                    context.wrap_socket(c, server_side=True).close()

    threading.Thread(target=serve, daemon=True).start()
    yield plain.getsockname()[1], d / "ca.pem"
    plain.shutdown(socket.SHUT_RDWR)
    plain.close()


def test_private_ca_is_named(private_ca, tmp_path):
    port, ca = private_ca
    p, _ = command("query", "services", "--server", f"https://localhost:{port}")
    assert p.returncode == 1 and "certificate was rejected: unable to get local issuer certificate" in p.stderr, p.stderr
    assert "SSL_CERT_FILE" in p.stderr
    p, _ = command("query", "services", "--server", f"https://localhost:{port}", SSL_CERT_FILE=str(ca))
    assert p.returncode == 1 and "certificate" not in p.stderr, p.stderr  # the handshake succeeded
    p, _ = command("query", "services", "--server", f"https://127.0.0.1:{port}", SSL_CERT_FILE=str(ca))
    assert "IP address mismatch" in p.stderr and "SSL_CERT_FILE" not in p.stderr
    config = pipeline({"otlphttp": {"endpoint": f"https://localhost:{port}"}})
    with Collector(tmp_path, config, binary=WICK) as c:
        push(c, 1)
        wait_for(lambda: "ca_file in a configuration" in c.log())
        c.kill()
