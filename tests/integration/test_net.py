# SPDX-License-Identifier: Apache-2.0
"""src/net against real clients and servers: curl, openssl, grpcio, nghttp, Python's http.server and raw sockets.

The server is tests/tools/net_echo, the client tests/tools/net_client, both of the sanitizer build.
"""
import concurrent.futures
import gzip
import http.server
import os
import re
import shutil
import socket
import ssl
import subprocess
import threading
import time
import zlib
from pathlib import Path

import pytest
from wick_tools import ROOT, some

TOOLS = Path(os.environ.get("WICK_ASAN", ROOT / "build-asan/src/cli/wick")).parent.parent.parent / "tests/tools"


class Server:
    """net_echo with its first port; its last line of statistics after stop()."""

    def __init__(self, *args, tls=None):
        command = [str(TOOLS / "net_echo"), "--listen", "127.0.0.1:0", *map(str, args)]
        self.p = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.port = int(self.p.stdout.readline().split()[1])
        self.tls = tls
        self.url = f"{'https' if tls else 'http'}://localhost:{self.port}"
        self.stats = None

    def stop(self):
        self.p.stdin.close()
        out = self.p.stdout.read()
        assert self.p.wait(timeout=20) == 0
        words = out.split()
        self.stats = dict(zip(words[-16::2], map(int, words[-15::2])))
        assert self.stats["left"] == 0 and self.stats["buffered"] == 0
        return self.stats

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        if kind:
            self.p.kill()
            self.p.wait()
        elif self.stats is None:
            self.stop()


def curl(*args, check=True):
    p = subprocess.run(["curl", "-sS", "--noproxy", "*", "--max-time", "20", *map(str, args)], capture_output=True)
    if check:
        assert p.returncode == 0, p.stderr.decode()
    return p.stdout


def client(*args):
    p = subprocess.run([str(TOOLS / "net_client"), *map(str, args)], capture_output=True, text=True, timeout=60)
    assert not p.stderr, p.stderr
    return p.stdout.splitlines()


def openssl(*args, **kw):
    return subprocess.run(["openssl", *map(str, args)], check=True, capture_output=True, **kw).stdout


@pytest.fixture(scope="module")
def certs(tmp_path_factory):
    d = tmp_path_factory.mktemp("certs")

    def make(name, cn, ca=None, ext=None):
        openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", d / f"{name}.key")
        if ca is None:
            openssl("req", "-x509", "-new", "-key", d / f"{name}.key", "-subj", f"/CN={cn}", "-days", "2", "-out", d / f"{name}.pem")
            return
        openssl("req", "-new", "-key", d / f"{name}.key", "-subj", f"/CN={cn}", "-out", d / f"{name}.csr")
        (d / f"{name}.ext").write_text(ext or "")
        openssl("x509", "-req", "-in", d / f"{name}.csr", "-CA", d / f"{ca}.pem", "-CAkey", d / f"{ca}.key", "-CAcreateserial",
                "-days", "2", "-extfile", d / f"{name}.ext", "-out", d / f"{name}.pem")

    make("ca", "test CA")
    make("other", "another CA")
    make("server", "first", "ca", "subjectAltName=DNS:localhost,IP:127.0.0.1\n")
    make("second", "second", "ca", "subjectAltName=DNS:localhost,IP:127.0.0.1\n")
    make("wrong", "wrong", "ca", "subjectAltName=DNS:elsewhere.example\n")
    make("client", "a client", "ca")
    make("stranger", "a stranger", "other")
    return d


def tls_args(d, cert="server"):
    return ["--cert", d / f"{cert}.pem", "--key", d / f"{cert}.key"]


def zstd(flag):
    return lambda data: subprocess.run(["zstd", "-q", flag], input=data, stdout=subprocess.PIPE, check=True).stdout


# --- HTTP with curl ---
@pytest.mark.parametrize("flag", ["--http1.1", "--http2-prior-knowledge", "--http1.0"])
def test_curl(flag, tmp_path):
    body = os.urandom(3_000_000)
    big = tmp_path / "body"
    big.write_bytes(body)
    with Server() as s:
        assert curl(flag, s.url + "/hello") == b"hello\n"
        assert curl(flag, s.url + "/thread") == b"from a thread\n"
        assert curl(flag, "--data-binary", f"@{big}", s.url + "/echo", check=False) != body  # over /echo's 1 MiB
        small = body[:900_000]
        big.write_bytes(small)
        assert curl(flag, "--data-binary", f"@{big}", s.url + "/echo") == small
        if flag != "--http1.0":
            assert curl(flag, "-H", "Transfer-Encoding: chunked", "--data-binary", f"@{big}", s.url + "/echo") == small
        large = curl(flag, s.url + "/large?n=3000001")
        assert len(large) == 3000001 and large[1000] == (1000 * 31 >> 3) & 255
        head = curl(flag, "-I", s.url + "/hello").decode().lower()
        assert "200" in head.splitlines()[0] and "content-length: 6" in head
        info = curl(flag, "-H", "Cookie: a=b; session=s3", s.url + "/info?x=%20y").decode()
        assert "query x=%20y" in info and "cookie s3" in info and "path /info" in info


@pytest.mark.parametrize("flag", ["--http1.1", "--http2-prior-knowledge"])
@pytest.mark.parametrize("coding", ["gzip", "deflate", "zstd"])
def test_content_encoding(flag, coding, tmp_path):
    text = b"profile " * 20000
    if coding == "zstd" and not shutil.which("zstd"):
        pytest.skip("no zstd")
    pack, unpack = {"gzip": (gzip.compress, gzip.decompress), "deflate": (zlib.compress, zlib.decompress),
                    "zstd": (zstd("-c"), zstd("-dc"))}[coding]
    packed = pack(text)
    f = tmp_path / "packed"
    f.write_bytes(packed)
    with Server() as s:
        args = [flag, "-H", f"Content-Encoding: {coding}", "--data-binary", f"@{f}"]
        assert curl(*args, s.url + "/echo") == text
        answer = curl(*args, "-H", f"Accept-Encoding: {coding}", s.url + "/echo")
        assert len(answer) < 2000 and unpack(answer) == text
        assert curl(flag, "--compressed", "--data-binary", f"@{f}", "-H", f"Content-Encoding: {coding}", s.url + "/echo") == text
        bomb = gzip.compress(bytes(50_000_000))
        f.write_bytes(bomb)
        out = curl(flag, "-w", "%{http_code}", "-H", "Content-Encoding: gzip", "--data-binary", f"@{f}", s.url + "/echo")
        assert out.endswith(b"413")
        out = curl(flag, "-w", "%{http_code}", "-H", "Content-Encoding: br", "--data-binary", "x", s.url + "/echo")
        assert out.endswith(b"400")


def test_refused_upload_hears_why():
    """A client that sends all of a body that is too large, and only then reads, still gets the answer."""
    body = bytes(24 << 20)
    with Server("--max-body", 100_000) as s:
        for _ in range(3):
            with socket.create_connection(("127.0.0.1", s.port), timeout=30) as c:
                c.sendall(b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body))
                c.sendall(body)
                assert c.makefile("rb").readline().startswith(b"HTTP/1.1 413 ")


def test_limits(tmp_path):
    big = tmp_path / "big"
    big.write_bytes(b"x" * 200_000)
    with Server("--max-body", 100_000, "--max-connections", 4) as s:
        out = curl("-w", "%{http_code}", "-H", "X: " + "v" * 70_000, s.url + "/hello", check=False)
        assert b"431" in out
        for flag in ("--http1.1", "--http2-prior-knowledge"):
            for _ in range(5):
                assert b"413" in curl(flag, "-w", "%{http_code}", "--data-binary", f"@{big}", s.url + "/echo", check=False)
        held = [socket.create_connection(("127.0.0.1", s.port)) for _ in range(6)]
        time.sleep(0.1)
        assert [h for h in held if closed(h)]
        for h in held:
            h.close()


def closed(sock):
    sock.settimeout(0.2)
    try:
        return sock.recv(1) == b""
    except (TimeoutError, ConnectionError) as e:
        return isinstance(e, ConnectionError)


@pytest.mark.parametrize("flag", ["--http1.1", "--http2-prior-knowledge"])
def test_disconnect_cancels(flag):
    with Server() as s:
        p = subprocess.Popen(["curl", "-sS", "--noproxy", "*", flag, s.url + "/hang"])
        for _ in range(100):
            if curl(s.url + "/hung") == b"1\n":
                break
            time.sleep(0.05)
        assert curl(s.url + "/cancelled") == b"0\n"
        p.kill()
        p.wait()
        for _ in range(50):
            if curl(s.url + "/cancelled") == b"1\n":
                break
            time.sleep(0.1)
        assert curl(s.url + "/cancelled") == b"1\n"


def test_half_close_is_answered():
    """A client that shuts its side after the request still gets its answer."""
    with Server() as s, socket.create_connection(("127.0.0.1", s.port)) as c:
        c.sendall(b"GET /thread HTTP/1.1\r\nHost: x\r\n\r\nGET /hello HTTP/1.1\r\nHost: x\r\n\r\n")
        c.shutdown(socket.SHUT_WR)
        out = b""
        while piece := c.recv(4096):
            out += piece
        assert b"from a thread" in out and b"hello" in out


def test_slow_reader_is_dropped():
    with Server("--timeouts", 400) as s, socket.create_connection(("127.0.0.1", s.port)) as c:
        c.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        c.sendall(b"GET /large?n=50000000 HTTP/1.1\r\nHost: x\r\n\r\n")
        time.sleep(1.5)
        assert curl(s.url + "/hello") == b"hello\n"
        assert s.stop()["timeouts"] >= 1


def test_slowloris_leaves_neighbours_alone():
    with Server("--timeouts", 300) as s:
        slow = [socket.create_connection(("127.0.0.1", s.port)) for _ in range(200)]
        for i, c in enumerate(slow):
            c.sendall(b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nab" if i % 2 else b"GET / HTTP/1.1\r\nX: ")
        start = time.time()
        assert curl(s.url + "/hello") == b"hello\n"
        assert time.time() - start < 15
        deadline = time.time() + 60
        for c in slow:
            c.settimeout(max(0.1, deadline - time.time()))
            while c.recv(4096):
                pass
            c.close()
        assert s.stop()["timeouts"] >= 200


def test_port_holder_is_named():
    with Server() as s:
        p = subprocess.run([str(TOOLS / "net_echo"), "--listen", f"127.0.0.1:{s.port}"], capture_output=True, text=True)
        assert p.returncode == 1
        assert f"process {s.p.pid} (net_echo)" in p.stderr


def test_ten_thousand_idle_connections():
    """Of HTTP/2, each with its settings exchanged; memory is what the plain build uses."""
    import resource
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 12000:
        pytest.skip("needs 12,000 descriptors")
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 30000), hard))
    plain = Path(os.environ.get("WICK", ROOT / "build/src/cli/wick")).parent.parent.parent / "tests/tools/net_echo"
    p = subprocess.Popen([str(plain), "--listen", "127.0.0.1:0"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    port = int(p.stdout.readline().split()[1])

    def rss():
        return int(re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{p.pid}/status").read_text()).group(1)) // 1024

    before = rss()
    conns = []
    for _ in range(10000):
        c = socket.create_connection(("127.0.0.1", port))
        c.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0")
        conns.append(c)
    for c in some(conns):
        assert c.recv(9)[3:4] == b"\4"  # the server's SETTINGS
    grown = rss() - before
    assert curl(f"http://127.0.0.1:{port}/hello") == b"hello\n"
    print(f"{grown} MB for 10,000 connections")
    for c in conns:
        c.close()
    p.stdin.close()
    p.wait(timeout=20)
    assert grown <= 200


# --- TLS ---
def test_tls(certs):
    with Server(*tls_args(certs), tls=True) as s:
        assert curl("--cacert", certs / "ca.pem", "--http1.1", s.url + "/hello") == b"hello\n"
        assert b"version 20" in curl("--cacert", certs / "ca.pem", s.url + "/info")  # ALPN chose h2
        assert len(curl("--cacert", certs / "ca.pem", s.url + "/large?n=2000000")) == 2000000
        assert len(curl("--cacert", certs / "ca.pem", "--http1.1", s.url + "/large?n=2000000")) == 2000000
        assert curl("--cacert", certs / "ca.pem", "--tls-max", "1.2", s.url + "/hello") == b"hello\n"
        assert curl("--cacert", certs / "other.pem", s.url + "/hello", check=False) == b""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
        with pytest.raises((ssl.SSLError, ConnectionError)), socket.create_connection(("127.0.0.1", s.port)) as c:
            context.wrap_socket(c)
        with socket.create_connection(("127.0.0.1", s.port)) as c:
            c.sendall(b"GET / HTTP/1.1\r\n\r\n")  # plain to a TLS port: closed, not answered
            c.settimeout(5)
            try:
                while c.recv(4096):
                    pass
            except ConnectionError:
                pass


def test_openssl_s_client(certs):
    with Server(*tls_args(certs), tls=True) as s:
        out = openssl("s_client", "-connect", f"127.0.0.1:{s.port}", "-alpn", "h2,http/1.1", "-CAfile", certs / "ca.pem",
                      "-verify_return_error", input=b"").decode(errors="replace")
        assert "ALPN protocol: h2" in out and "TLSv1.3" in out and "Verify return code: 0" in out


def test_mutual_tls(certs):
    with Server(*tls_args(certs), "--client-ca", certs / "ca.pem", tls=True) as s:
        own = ["--cacert", certs / "ca.pem", "--cert", certs / "client.pem", "--key", certs / "client.key"]
        assert b"CN=a client" in curl(*own, s.url + "/info")
        assert curl("--cacert", certs / "ca.pem", s.url + "/info", check=False) == b""
        assert curl("--cacert", certs / "ca.pem", "--cert", certs / "stranger.pem", "--key", certs / "stranger.key",
                    s.url + "/info", check=False) == b""
        assert client("--http2", "--ca", certs / "ca.pem", "--cert", certs / "client.pem", "--key", certs / "client.key",
                      s.url + "/hello") == ["200 6 hello", ""]
        assert client("--ca", certs / "ca.pem", s.url + "/hello")[0].startswith("error:")


def test_certificate_reload(certs, tmp_path):
    import signal
    shutil.copy(certs / "server.pem", tmp_path / "c.pem")
    shutil.copy(certs / "server.key", tmp_path / "c.key")

    def subject(port):
        context = ssl.create_default_context(cafile=certs / "ca.pem")
        with socket.create_connection(("127.0.0.1", port)) as c, context.wrap_socket(c, server_hostname="localhost") as t:
            return dict(x[0] for x in t.getpeercert()["subject"])["commonName"]

    with Server("--cert", tmp_path / "c.pem", "--key", tmp_path / "c.key", tls=True) as s:
        assert subject(s.port) == "first"
        shutil.copy(certs / "second.pem", tmp_path / "c.pem")
        shutil.copy(certs / "second.key", tmp_path / "c.key")
        s.p.send_signal(signal.SIGHUP)
        for _ in range(50):
            if subject(s.port) == "second":
                break
            time.sleep(0.05)
        assert subject(s.port) == "second"


def test_client_tls(certs):
    with Server(*tls_args(certs), tls=True) as s:
        ca = ["--ca", certs / "ca.pem"]
        assert client(*ca, s.url + "/hello")[0] == "200 6 hello"
        assert client(*ca, "--http2", s.url + "/hello")[0] == "200 6 hello"
        assert client(*ca, "--auto", "--min13", s.url + "/hello")[0] == "200 6 hello"
        assert client(*ca, f"https://127.0.0.1:{s.port}/hello")[0] == "200 6 hello"
        assert "certificate" in client(s.url + "/hello")[0]  # nobody vouches for it
        assert client("--insecure", s.url + "/hello")[0] == "200 6 hello"
    with Server(*tls_args(certs, "wrong"), tls=True) as s:
        out = client("--ca", certs / "ca.pem", s.url + "/hello")[0]
        assert "error" in out and "hostname mismatch" in out
        assert client("--ca", certs / "ca.pem", "--name", "elsewhere.example", s.url + "/hello")[0] == "200 6 hello"


# --- our client against other servers ---
class Python(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        if self.path == "/redirect":
            self.send_response(302)
            self.send_header("Location", "/elsewhere")
            self.send_header("Content-Length", "0")
            self.end_headers()
        elif self.path == "/chunked":
            self.send_response(200)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for i in range(100):
                self.wfile.write(b"5\r\nabcde\r\n")
            self.wfile.write(b"0\r\n\r\n")
        elif self.path == "/close":
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"until the end")
            self.close_connection = True
        elif self.path == "/slow":
            time.sleep(1)
            self.close_connection = True

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


@pytest.fixture()
def python_server():
    s = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Python)
    threading.Thread(target=s.serve_forever, daemon=True).start()
    yield f"http://localhost:{s.server_address[1]}"
    s.shutdown()
    s.server_close()


def test_client_with_python_server(python_server, tmp_path):
    assert client(python_server + "/redirect")[0].startswith("302 0")
    assert client(python_server + "/chunked")[0].startswith("200 500 abcdeabcde")
    assert client(python_server + "/close")[0] == "200 13 until the end"
    out = client("--timeout", 200, python_server + "/slow")[0]
    assert out.startswith("error: no response from localhost")
    f = tmp_path / "data"
    f.write_bytes(b"x" * 1_000_000)
    out = client("--data", f, "--repeat", 20, python_server + "/post")
    assert len(out) == 20 and all(line.startswith("200 1000000") for line in out)


def test_client_errors():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    assert "Connection refused" in client(f"http://127.0.0.1:{port}/")[0]
    assert "cannot resolve" in client("http://no-such-host.invalid/")[0]
    assert "is not a URL" in client("nonsense")[0]


@pytest.mark.parametrize("answer,words", [
    (b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n", "malformed response"),
    (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "malformed chunk"),
    (b"HTTP/1.1 200 OK\r\nX: " + b"v" * 100_000, "larger than"),
    (b"SSH-2.0-OpenSSH_9\r\n\r\n", "malformed response"),
    (b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc", "closed the connection"),
    (b"", "closed the connection"),
])
def test_client_with_broken_servers(answer, words):
    with socket.create_server(("127.0.0.1", 0)) as server:
        def serve():
            c, _ = server.accept()
            c.recv(4096)
            c.sendall(answer)
            c.close()

        t = threading.Thread(target=serve)
        t.start()
        out = client(f"http://127.0.0.1:{server.getsockname()[1]}/")[0]
        t.join()
        assert out.startswith("error:") and words in out


# --- gRPC ---
grpc = pytest.importorskip("grpc", reason="tools/deps test installs grpcio")


def raw_call(channel, method="Unary"):
    return channel.unary_unary(f"/echo.Echo/{method}", request_serializer=None, response_deserializer=None)


@pytest.fixture()
def echo():
    with Server() as s, grpc.insecure_channel(f"127.0.0.1:{s.port}", options=[
            ("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1), ("grpc.enable_http_proxy", 0)]) as channel:
        yield channel
        channel.close()


def test_grpc_unary(echo):
    call = raw_call(echo)
    for n in (0, 1, 100, 70_000, 1_000_000, 4 << 20):
        body = os.urandom(n)
        assert call(body, timeout=20) == body
    assert raw_call(echo, "Discard")(b"x" * 1000, timeout=20) == b""
    body = b"sample" * 100_000
    assert call(body, timeout=20, compression=grpc.Compression.Gzip) == body
    assert call(body, timeout=20, compression=grpc.Compression.Deflate) == body


@pytest.mark.parametrize("asked, coding", [("gzip", "gzip"), ("identity, br, deflate", "deflate"), ("identity", None), ("", None)])
def test_grpc_answer_compression(tmp_path, asked, coding):
    """Answers are compressed for who says that it reads that; short ones are not worth it."""
    for message in (b"sample" * 10_000, b"short"):
        (tmp_path / "frame").write_bytes(b"\0" + len(message).to_bytes(4, "big") + message)
        with Server() as s:
            out = curl("--http2-prior-knowledge", "-i", "-H", "content-type: application/grpc", "-H", f"grpc-accept-encoding: {asked}",
                       "-H", "te: trailers", "--data-binary", f"@{tmp_path}/frame", s.url + "/echo.Echo/Unary")
        head, _, frame = out.partition(b"\r\n\r\n")
        if coding and len(message) > 1000:
            assert f"grpc-encoding: {coding}".encode() in head and frame[0] == 1
            size = int.from_bytes(frame[1:5], "big")
            assert (gzip.decompress if coding == "gzip" else zlib.decompress)(frame[5:5 + size]) == message
        else:
            assert b"grpc-encoding" not in head and frame[:5 + len(message)] == b"\0" + len(message).to_bytes(4, "big") + message


def test_grpc_parallel(echo):
    call = raw_call(echo)
    bodies = [os.urandom(200_000) for _ in range(8)]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        assert all(pool.map(lambda i: call(bodies[i % 8], timeout=60) == bodies[i % 8], range(200)))


def test_grpc_failures(echo):
    call = raw_call(echo)
    with pytest.raises(grpc.RpcError) as e:
        call(b"x", timeout=20, metadata=[("x-code", "3"), ("x-message", "100%25 %C3%A4%0A")])
    assert e.value.code() == grpc.StatusCode.INVALID_ARGUMENT and e.value.details() == "100% ä\n"
    with pytest.raises(grpc.RpcError) as e:
        call(bytes(5 << 20), timeout=20)
    assert e.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED and "larger than max" in e.value.details()
    with pytest.raises(grpc.RpcError) as e:
        call(bytes(50 << 20), timeout=20, compression=grpc.Compression.Gzip)
    assert e.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    with pytest.raises(grpc.RpcError) as e:
        raw_call(echo, "Nothing")(b"x", timeout=20)
    assert e.value.code() == grpc.StatusCode.UNIMPLEMENTED
    assert call(b"still here", timeout=20) == b"still here"


def test_grpc_status_details(echo):
    """RetryInfo, read back by the protobuf runtime from descriptors made here."""
    from google.protobuf import any_pb2, descriptor_pb2, descriptor_pool, duration_pb2, message_factory
    pool = descriptor_pool.DescriptorPool()
    for module in (any_pb2, duration_pb2):
        pool.AddSerializedFile(module.DESCRIPTOR.serialized_pb)
    f = descriptor_pb2.FileDescriptorProto(name="rpc.proto", package="google.rpc", syntax="proto3",
                                           dependency=["google/protobuf/any.proto", "google/protobuf/duration.proto"])
    m = f.message_type.add(name="Status")
    m.field.add(name="code", number=1, type=5, label=1)
    m.field.add(name="message", number=2, type=9, label=1)
    m.field.add(name="details", number=3, type=11, label=3, type_name=".google.protobuf.Any")
    m = f.message_type.add(name="RetryInfo")
    m.field.add(name="retry_delay", number=1, type=11, label=1, type_name=".google.protobuf.Duration")
    pool.Add(f)
    status_class = message_factory.GetMessageClass(pool.FindMessageTypeByName("google.rpc.Status"))
    retry_class = message_factory.GetMessageClass(pool.FindMessageTypeByName("google.rpc.RetryInfo"))
    with pytest.raises(grpc.RpcError) as e:
        raw_call(echo)(b"x", timeout=20, metadata=[("x-code", "8"), ("x-message", "full"), ("x-retry-ms", "2500")])
    trailers = dict(e.value.trailing_metadata())
    status = status_class.FromString(trailers["grpc-status-details-bin"])
    assert (status.code, status.message) == (8, "full")
    assert status.details[0].type_url == "type.googleapis.com/google.rpc.RetryInfo"
    delay = retry_class.FromString(status.details[0].value).retry_delay
    assert (delay.seconds, delay.nanos) == (2, 500_000_000)


def test_grpc_deadline(echo):
    call = raw_call(echo)
    with pytest.raises(grpc.RpcError) as e:
        call(b"x", timeout=0.3, metadata=[("x-delay-ms", "1500")])
    assert e.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED
    assert call(b"next", timeout=20) == b"next"


def test_grpc_tls(certs):
    ca = (certs / "ca.pem").read_bytes()
    key, cert = (certs / "client.key").read_bytes(), (certs / "client.pem").read_bytes()
    with Server(*tls_args(certs), "--client-ca", certs / "ca.pem", tls=True) as s:
        creds = grpc.ssl_channel_credentials(ca, key, cert)
        with grpc.secure_channel(f"localhost:{s.port}", creds) as channel:
            assert raw_call(channel)(b"x" * 500_000, timeout=20) == b"x" * 500_000
        with grpc.secure_channel(f"localhost:{s.port}", grpc.ssl_channel_credentials(ca)) as channel:
            with pytest.raises(grpc.RpcError) as e:
                raw_call(channel)(b"x", timeout=3)
            assert e.value.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)


class GrpcEcho(grpc.GenericRpcHandler):
    def service(self, details):
        def unary(request, context):
            meta = dict(context.invocation_metadata())
            if "x-sleep" in meta:
                time.sleep(float(meta["x-sleep"]))
            if "x-code" in meta:
                context.abort(list(grpc.StatusCode)[int(meta["x-code"])], "as asked: ü")
            return request

        return grpc.unary_unary_rpc_method_handler(unary) if details.method == "/echo.Echo/Unary" else None


def test_grpc_client_with_grpcio_server(tmp_path):
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(4), [GrpcEcho()],
                         options=[("grpc.max_receive_message_length", 20 << 20)], compression=grpc.Compression.Gzip)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    f = tmp_path / "message"
    f.write_bytes(b"sample" * 300_000)
    url = f"http://127.0.0.1:{port}/echo.Echo/Unary"
    try:
        assert client("--grpc", "--data", f, url)[0].startswith("OK 1800000")
        assert client("--grpc", "--gzip", "--data", f, url)[0].startswith("OK 1800000")
        out = client("--grpc", "--gzip", "--data", f, "--repeat", 50, url)
        assert len(out) == 50 and all(line.startswith("OK 1800000") for line in out)
        assert client("--grpc", "--data", f, "--header", "x-code:3", url)[0] == "InvalidArgument 0 retry=-1 as asked: ü"
        assert client("--grpc", "--data", f, "--timeout", 200, "--header", "x-sleep:1", url)[0].startswith("DeadlineExceeded")
        assert client("--grpc", "--data", f, url.replace("Unary", "Nothing"))[0].startswith("Unimplemented")
    finally:
        server.stop(None)
    assert client("--grpc", "--data", f, url)[0].startswith("Unavailable")


# --- load tools, where Debian's nghttp2-client is installed ---
@pytest.mark.skipif(not shutil.which("h2load"), reason="h2load is not installed")
def test_h2load(certs):
    with Server() as s:
        out = subprocess.run(["h2load", "-n", "5000", "-c", "20", "-m", "20", s.url + "/hello"], capture_output=True, text=True).stdout
        assert "5000 succeeded, 0 failed, 0 errored" in out
        out = subprocess.run(["h2load", "--h1", "-n", "2000", "-c", "20", s.url + "/hello"], capture_output=True, text=True).stdout
        assert "2000 succeeded, 0 failed, 0 errored" in out
    with Server(*tls_args(certs), tls=True) as s:
        out = subprocess.run(["h2load", "-n", "2000", "-c", "10", "-m", "10", s.url + "/hello"], capture_output=True, text=True).stdout
        assert "2000 succeeded, 0 failed, 0 errored" in out
