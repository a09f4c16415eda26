# SPDX-License-Identifier: Apache-2.0
"""The web UI's files as wick serve hands them out: routes, caching, encodings, what browsers are told."""
import gzip
import http.client
import os
import re
import subprocess
import sys

import pytest
from wick_tools import ROOT, Server, some


LIMIT = 150_000  # gzipped bytes of everything that a browser loads


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    s = Server(tmp_path_factory.mktemp("ui"))
    yield s
    s.stop()


def get(server, path, method="GET", **headers):
    c = http.client.HTTPConnection(server.url.split("//")[1], timeout=10)
    c.request(method, path, headers={k.replace("_", "-"): v for k, v in headers.items()})
    r = c.getresponse()
    body = r.read()
    c.close()
    return r.status, {k.lower(): v for k, v in r.getheaders()}, body


def page(server):
    status, headers, body = get(server, "/")
    assert status == 200 and headers["content-type"] == "text/html; charset=utf-8"
    return headers, body.decode()


def test_page_and_places(server):
    headers, body = page(server)
    for place in ("/start", "/services", "/explore?query=cpu", "/compare", "/senders", "/settings", "/login"):
        status, h, b = get(server, place)
        assert (status, b.decode(), h["content-type"]) == (200, body, headers["content-type"]), place
    status, h, _ = get(server, "/trace/" + 32 * "a")
    assert status == 302 and h["location"] == "../trace?trace=" + 32 * "a" and get(server, "/trace")[0] == 200
    for nowhere in ("/assets/none.js", "/api/v1/none", "/a/b", "/trace/xyz", "/trace/" + 33 * "a", "/trace/" + 31 * "a" + "%0d", "/x.html", "/../etc/passwd", "/assets/"):
        assert get(server, nowhere)[0] == 404, nowhere
    for nowhere in ("/nowhere", "/x.html"):  # a person who gets there sees a page
        status, h, b = get(server, nowhere, accept="text/html,*/*;q=0.8")
        assert (status, b.decode(), h["content-type"]) == (404, body, headers["content-type"]), nowhere
    assert get(server, "/a/b", accept="text/html")[0] == 404 and b"<html" not in get(server, "/assets/none.js", accept="text/html")[2]
    assert get(server, "/explore", "POST")[0] == 404
    assert get(server, "/mcp")[0] == 405  # the page does not hide what a path takes
    assert get(server, "/", "HEAD")[2] == b""


def test_policy(server):
    headers, body = page(server)
    policy = headers["content-security-policy"]
    assert "unsafe" not in policy and "http" not in policy
    for part in ("default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'", "frame-ancestors 'none'",
                 "base-uri 'none'", "form-action 'self'"):
        assert part in policy
    assert headers["x-content-type-options"] == "nosniff" and headers["referrer-policy"] == "no-referrer"
    assert not re.search(r"<script(?![^>]*src=)|<style|\son\w+=|style=|https?://", body)  # nothing inline, nothing from elsewhere
    assert get(server, "/api/v1/status")[1]["x-content-type-options"] == "nosniff"


def test_caching(server):
    names = re.findall(r'"(assets/[^"]+)"', page(server)[1])
    assert len(names) >= 3
    for name in names:
        status, headers, _ = get(server, "/" + name)
        assert status == 200 and headers["cache-control"] == "public, max-age=31536000, immutable"
        status, h, body = get(server, "/" + name, If_None_Match=headers["etag"])
        assert (status, body, h["etag"]) == (304, b"", headers["etag"])
        assert get(server, "/" + name, If_None_Match='"other"')[0] == 200
        assert get(server, "/" + name.split("?")[0] + "?v=old")[1]["cache-control"] == "no-cache"
    assert page(server)[0]["cache-control"] == "no-cache"
    assert get(server, "/favicon.ico")[1]["content-type"] == "image/svg+xml"


def test_encodings_and_size(server):
    total = len(get(server, "/", Accept_Encoding="gzip")[2])
    for name in some(re.findall(r'"(assets/[^"]+)"', page(server)[1])):
        plain = get(server, "/" + name)
        packed = get(server, "/" + name, Accept_Encoding="br, gzip")
        assert "content-encoding" not in plain[1] and packed[1]["content-encoding"] == "gzip"
        assert gzip.decompress(packed[2]) == plain[2] and packed[1]["vary"] == plain[1]["vary"] == "accept-encoding"
        assert get(server, "/" + name, Accept_Encoding="gzip;q=0")[2] == plain[2]
        total += len(packed[2])
    assert total <= LIMIT


def test_needs_no_token(server, tmp_path):
    tokens = tmp_path / "tokens"
    subprocess.run([server.wick, "token", "create", "--file", str(tokens), "--scope", "read"], check=True, capture_output=True)
    s = Server(tmp_path)
    try:
        assert get(s, "/api/v1/status")[0] == 401
        assert get(s, "/")[0] == 200 and get(s, "/login")[0] == 200
    finally:
        s.stop()


def test_build_without_npm(tmp_path):
    """-Dui=false makes the table of one page; a tree whose web/dist is current builds without npm."""
    empty = tmp_path / "bin"
    empty.mkdir()
    env = {**os.environ, "PATH": str(empty)}
    out = tmp_path / "plain.c"
    subprocess.run([sys.executable, ROOT / "tools/ui", "web", out, "--plain", ROOT / "src/server/plain.html"], check=True, env=env)
    assert out.read_text().count('"/') == 1 and "/index.html" in out.read_text()

    web = tmp_path / "web"
    web.mkdir()
    (web / "build.mjs").write_text("")
    p = subprocess.run([sys.executable, ROOT / "tools/ui", web, out], env=env, capture_output=True, text=True)
    assert p.returncode and "-Dui=false" in p.stderr
    if not (ROOT / "web/dist/.digest").exists():
        pytest.skip("this build has no UI")
    full = tmp_path / "full.c"
    subprocess.run([sys.executable, ROOT / "tools/ui", ROOT / "web", full], check=True, env=env)
    assert "/assets/app.js" in full.read_text()
