# SPDX-License-Identifier: Apache-2.0
"""Where wick pprof gets profiles from, and where its reports go: URLs, OTLP, graphviz, a terminal."""
import gzip
import http.server
import os
import pty
import re
import select
import shutil
import ssl
import subprocess
import threading
import time
from pathlib import Path

import pytest

from go_tools import Answering, pprof_command, serving
from pprof_random import profile
from wick_tools import WICK

PROFILE = profile(1, "cpu")


class Handler(Answering):
    def do_GET(self):
        self.server.asked.append(self.path)
        if self.path.startswith("/moved"):
            self.send_response(302)
            self.send_header("Location", "/debug/pprof/profile?seconds=1")
            self.end_headers()
        elif self.path.startswith("/slow"):
            self.server.release.wait(30)
            self.answer(200, PROFILE)
        elif self.path.startswith("/refused"):
            self.answer(500, b"profiling already in use\n", {"X-Go-Pprof": "1", "Content-Type": "text/plain; charset=utf-8"})
        elif self.path.startswith("/encoded"):
            self.answer(200, gzip.compress(PROFILE), {"Content-Encoding": "gzip"})
        elif self.path.startswith("/debug/pprof"):
            self.answer(200, PROFILE)
        else:
            self.answer(404, b"no")


@pytest.fixture
def server():
    with serving(Handler) as s:
        s.asked, s.release = [], threading.Event()
        yield s
        s.release.set()


def address(server):
    return f"127.0.0.1:{server.server_address[1]}"


def run(tmp_path, *args, **kw):
    env = {**os.environ, "TZ": "UTC", "HOME": str(tmp_path), "PPROF_BINARY_PATH": "/nonexistent", **kw.pop("env", {})}
    env.pop("PPROF_TMPDIR", None)
    return subprocess.run([WICK, "pprof", *args], capture_output=True, text=True, env=env, timeout=60, **kw)


def expected(tmp_path, *args):
    path = tmp_path / "same.pb.gz"
    path.write_bytes(PROFILE)
    return run(tmp_path, *args, str(path)).stdout


def test_url(server, tmp_path):
    p = run(tmp_path, "-top", "-seconds=2", f"http://{address(server)}?b=x+y&a=1")
    assert p.returncode == 0 and p.stdout == expected(tmp_path, "-top")
    url = f"http://{address(server)}/debug/pprof/profile?a=1&b=x+y&seconds=2"
    assert f"Fetching profile over HTTP from {url}\nPlease wait... (2s)\n" in p.stderr
    saved = tmp_path / "pprof/pprof.prog-ram.samples.cpu.001.pb.gz"
    assert f"Saved profile in {saved}\n" in p.stderr
    assert run(tmp_path, "-top", str(saved)).stdout == p.stdout
    assert server.asked == ["/debug/pprof/profile?a=1&b=x+y&seconds=2"]


@pytest.mark.parametrize("path", ["/moved", "/encoded", "/debug/pprof/heap"])
def test_other_answers(server, tmp_path, path):
    p = run(tmp_path, "-top", address(server) + path)
    assert p.returncode == 0 and p.stdout == expected(tmp_path, "-top")


def test_refusals(server, tmp_path):
    p = run(tmp_path, "-top", f"http://{address(server)}/nope")
    assert p.returncode == 2
    assert p.stderr.endswith(f"http://{address(server)}/nope: server response: 404 Not Found\npprof: failed to fetch any source profiles\n")
    p = run(tmp_path, "-top", f"http://{address(server)}/refused")
    assert "server response: 500 Internal Server Error - profiling already in use" in p.stderr
    p = run(tmp_path, "-top", "nofile")
    assert p.stderr == "nofile: stat nofile: no such file or directory\npprof: failed to fetch any source profiles\n"


def test_sources_at_once(server, tmp_path):
    """Slow sources are asked together, as pprof does."""
    def release():
        while sum(p.startswith("/slow") for p in server.asked) < 3:
            time.sleep(0.01)
        server.release.set()
    threading.Thread(target=release, daemon=True).start()
    start = time.time()
    p = run(tmp_path, "-top", *[f"http://{address(server)}/slow?{i}" for i in range(3)])
    assert p.returncode == 0 and time.time() - start < 25


def test_interrupt(server, tmp_path):
    p = subprocess.Popen([WICK, "pprof", "-top", f"http://{address(server)}/slow"], stderr=subprocess.PIPE, stdout=subprocess.PIPE,
                         env={**os.environ, "HOME": str(tmp_path)})
    while not any(x.startswith("/slow") for x in server.asked):
        time.sleep(0.01)
    p.send_signal(2)
    _, err = p.communicate(timeout=20)
    assert p.returncode == 2 and b"interrupted" in err


def test_https(tmp_path):
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", str(key), "-out", str(cert), "-days", "2",
                    "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"], check=True, capture_output=True)
    s = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    s.asked, s.release = [], threading.Event()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    s.socket = context.wrap_socket(s.socket, server_side=True)
    threading.Thread(target=s.serve_forever, daemon=True).start()
    try:
        url = f"https://{address(s)}/debug/pprof/profile"
        assert run(tmp_path, "-top", url).returncode == 2
        assert run(tmp_path, "-top", f"-tls_ca={cert}", url).stdout == expected(tmp_path, "-top")
        assert run(tmp_path, "-top", url.replace("https", "https+insecure")).stdout == expected(tmp_path, "-top")
    finally:
        s.shutdown()


def test_otlp_source(tmp_path):
    """A profile that went through OTLP reports the same numbers."""
    source = tmp_path / "in.pb.gz"
    source.write_bytes(PROFILE)
    for name in ["x.otlp", "x.otlp.json"]:
        out = tmp_path / name
        subprocess.run([WICK, "convert", str(source), str(out)], check=True, capture_output=True)
        a, b = run(tmp_path, "-top", "-sample_index=cpu", str(source)), run(tmp_path, "-top", "-sample_index=cpu", str(out))
        assert b.returncode == 0, b.stderr
        assert a.stdout.splitlines()[-20:] == b.stdout.splitlines()[-20:]


@pytest.mark.skipif(not shutil.which("dot"), reason="no graphviz")
def test_graphviz(tmp_path):
    source = tmp_path / "in.pb.gz"
    source.write_bytes(PROFILE)
    for fmt, magic in [("svg", b"<?xml"), ("png", b"\x89PNG"), ("pdf", b"%PDF"), ("ps", b"%!PS"), ("gif", b"GIF8")]:
        out = tmp_path / f"out.{fmt}"
        p = run(tmp_path, f"-{fmt}", "-nodecount=15", f"-output={out}", str(source))
        assert p.returncode == 0, p.stderr
        assert p.stderr.endswith(f"Generating report in {out}\n")
        assert out.read_bytes().startswith(magic)
    svg = (tmp_path / "out.svg").read_text()
    assert '<svg width="100%" height="100%"' in svg and '<g id="viewport"' in svg and svg.count("<script") == 1


@pytest.mark.skipif(not shutil.which("dot") or not shutil.which("go"), reason="no graphviz or go")
def test_svg_as_go(tmp_path):
    """But for the script, the same document."""
    source = tmp_path / "in.pb.gz"
    source.write_bytes(PROFILE)
    documents = []
    for command in ([WICK, "pprof"], pprof_command()):
        p = subprocess.run([*command, "-svg", "-nodecount=15", str(source)], capture_output=True, text=True, timeout=300,
                           env={**os.environ, "TZ": "UTC"})
        assert p.returncode == 0, p.stderr
        documents.append(re.sub(r"(?s)<!\[CDATA\[.*?\]\]>", "", p.stdout))
    assert documents[0] == documents[1]


def test_viewer(tmp_path):
    """-web hands a file to the browser and deletes it afterwards."""
    if not shutil.which("dot"):
        pytest.skip("no graphviz")
    source, log = tmp_path / "in.pb.gz", tmp_path / "log"
    source.write_bytes(PROFILE)
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\nhead -c 5 "$1" >{log}; echo " $1" >>{log}\n')
    browser.chmod(0o755)
    p = run(tmp_path, "-web", "-nodecount=15", str(source), env={"BROWSER": str(browser), "TMPDIR": str(tmp_path)})
    assert p.returncode == 0, p.stderr
    magic, path = log.read_text().split()
    assert magic == "<?xml" and path.startswith(str(tmp_path / "pprof")) and not Path(path).exists()


def read_until(fd, what, timeout=20):
    seen, end = b"", time.time() + timeout
    while what not in seen and time.time() < end:
        if select.select([fd], [], [], 0.2)[0]:
            try:
                seen += os.read(fd, 4096)
            except OSError:
                break
    return seen


def terminal_session(tmp_path, source, keys):
    pid, fd = pty.fork()
    if pid == 0:
        os.environ.update(HOME=str(tmp_path), TERM="xterm", XDG_STATE_HOME=str(tmp_path / "state"), TZ="UTC")
        os.execv(WICK, [WICK, "pprof", str(source)])
    seen = read_until(fd, b"(pprof) ")
    for k in keys:
        os.write(fd, k)
        seen += read_until(fd, b"(pprof) ")
    os.write(fd, b"quit\r")
    seen += read_until(fd, b"\0", 3)
    os.waitpid(pid, 0)
    os.close(fd)
    return seen


def test_terminal(tmp_path):
    source = tmp_path / "in.pb.gz"
    source.write_bytes(PROFILE)
    seen = terminal_session(tmp_path, source, [b"help comm\t\r", b"top 3\r"])
    assert b"Output all profile comments" in seen and b"Showing top 3 nodes" in seen
    assert "top 3" in (tmp_path / "state/wick/pprof_history").read_text().replace("\\040", " ")
    # The last line of the session before comes back with the up key.
    seen = terminal_session(tmp_path, source, [b"\x1b[A\x1b[A\r"])
    assert b"Showing top 3 nodes" in seen
