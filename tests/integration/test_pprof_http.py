# SPDX-License-Identifier: Apache-2.0
"""wick pprof -http: the web UI over files. pprof's own addresses, options and numbers are compared with the Go toolchain's
pprof -http; the UI's questions are answered from the file."""
import html
import json
import os
import re
import shutil
import subprocess
import urllib.parse
from pathlib import Path

import pytest

from pprof_random import profile
from protobuf_lite import message
from wick_tools import WICK, Served


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    place = tmp_path_factory.mktemp("profiles")
    out = {}
    for seed, kind in enumerate(["cpu", "heap"]):
        out[kind] = place / f"{kind}.pb.gz"
        out[kind].write_bytes(profile(seed, kind))
    out["other"] = place / "other.pb.gz"
    out["other"].write_bytes(profile(9, "cpu"))
    return out


@pytest.fixture(scope="module", params=["cpu", "heap", "diff"])
def both(request, files, go_pprof, tmp_path_factory):
    tmp_path = tmp_path_factory.mktemp("both")
    args = ["-no_browser", "-http=127.0.0.1:", "-symbolize=none"]
    args += [f"-diff_base={files['other']}", str(files["cpu"])] if request.param == "diff" else [str(files[request.param])]
    go, wick = Served([*go_pprof, *args], tmp_path), Served([WICK, "pprof", *args], tmp_path)
    yield go, wick
    go.stop()
    assert wick.stop() == 0


def go_table(body):
    m = re.search(r"makeTopTable\(\s*(-?\d+)\s*,\s*(\[.*\]|null)\s*\);", body)
    rows = json.loads(m.group(2)) or []
    return int(m.group(1)), [(r["Name"], r["InlineLabel"], r["Flat"], r["Cum"], r["FlatFormat"], r["CumFormat"]) for r in rows]


def wick_table(body):
    cell = (r'<tr><td data-value="(-?\d+)">([^<]*)</td><td>[^<]*</td><td>[^<]*</td><td data-value="(-?\d+)">([^<]*)</td><td>[^<]*</td>'
            r'<td class="name"><a href="[^"]*">([^<]*)</a></td><td class="more">([^<]*)</td>')
    return [(html.unescape(name), label, int(flat), int(cum), flat_text, cum_text)
            for flat, flat_text, cum, cum_text, name, label in re.findall(cell, body)]


def text_of(body):
    """The text report inside a page of pprof's or ours."""
    m = re.search(r'<pre id="text">(.*?)</pre>', body, re.S) or re.search(r"<pre>(.*?)</pre>", body, re.S)
    return "\n".join(line.rstrip() for line in html.unescape(m.group(1)).strip().splitlines())


STATUS = ["/", "/top?f=main", "/ui", "/ui/", "/ui/?f=main&i=x", "/ui/flamegraph2?h=x", "/ui/flamegraphold", "/ui/top", "/ui/top?f=main",
          "/ui/top?f=(", "/ui/top?i=[", "/ui/top?si=none", "/ui/top?n=x", "/ui/top?g=odd", "/ui/top?sort=odd", "/ui/top?f=matches.nothing",
          "/ui/peek?f=main", "/ui/peek?f=(", "/ui/peek?f=matches.nothing", "/ui/source?f=main", "/ui/source?f=matches.nothing",
          "/ui/disasm?f=matches.nothing", "/ui/disasm", "/ui/flamegraph", "/ui/download"]


def test_status_and_words(both):
    go, wick = both
    for path in STATUS:
        g, w = go.get(path), wick.get(path)
        assert (w[0], w[1].get("location")) == (g[0], g[1].get("location")), path
        if g[0] >= 400:
            assert w[2].strip() == g[2].strip(), path


TOP = ["", "?f=main|serve", "?i=malloc", "?h=^pkg2", "?s=pkg", "?sf=serve", "?tf=route", "?ti=user", "?sort=cum", "?g=lines",
       "?g=files", "?si=0", "?si=0&mean=t", "?f=pkg&rel=t", "?noinlines=t", "?trim=f", "?unit=auto", "?prunefrom=pkg3", "?nf=0.05",
       "?f=main&i=serve&h=malloc&g=filefunctions&sort=cum"]


def test_top_table(both):
    go, wick = both
    for query in TOP:
        path = "/ui/top" + query
        total, expected = go_table(go.get(path)[2].decode())
        got = wick_table(wick.get(path)[2].decode())
        if "files" in query:  # rows that print alike are in no order there
            expected, got = sorted(expected), sorted(got)
        assert got == expected, path


def test_peek_text(both):
    go, wick = both
    for query in ("?f=malloc", "?f=serve&i=pkg1", "?f=main.main&si=0"):
        g, w = go.get("/ui/peek" + query), wick.get("/ui/peek" + query)
        assert w[0] == g[0]
        assert w[0] != 200 or text_of(w[2].decode()) == text_of(g[2].decode()), query


def test_source_listing(both):
    go, wick = both

    def listing(body):
        rows = re.findall(r"<h2>(.*?)</h2>|<span class=line>\s*(\d+)</span> <span class=\w+>\s+(\S+)\s+(\S+)", body)
        return sorted((html.unescape(a), b, c, d) for a, b, c, d in rows if a != "")

    for query in ("?f=main", "?f=pkg1"):
        g, w = go.get("/ui/source" + query), wick.get("/ui/source" + query)
        assert g[0] == w[0]
        assert g[0] != 200 or listing(w[2].decode()) == listing(g[2].decode())


def test_graph(both, request):
    if not shutil.which("dot"):
        pytest.skip("no graphviz")
    if "diff" in request.node.name:
        pytest.skip("pprof leaves the graph of a difference to chance")
    for query in ("?n=12", "?f=serve&n=8"):
        g, w = (s.get("/ui/graph" + query)[2].decode() for s in both)
        titles = [sorted(t for t in re.findall(r"<title>(.*?)</title>", x[x.index("<svg"):]) if not t.startswith("N")) for x in (g, w)]
        texts = [sorted(re.findall(r"<text[^>]*>(.*?)</text>", x)) for x in (g, w)]
        assert titles[0] == titles[1] and texts[0] == texts[1] and texts[0]


def test_download(both, go_pprof):
    (_, gh, g), (_, wh, w) = (s.get("/ui/download") for s in both)
    assert gh["content-type"] == wh["content-type"] and gh["content-disposition"] == wh["content-disposition"]

    def raw(data, name):
        path = Path("/tmp") / f"wick-download-{os.getpid()}-{name}"
        path.write_bytes(data)
        try:
            return subprocess.run([*go_pprof, "-symbolize=none", "-raw", str(path)], capture_output=True, text=True,
                                  check=True).stdout
        finally:
            path.unlink()

    assert raw(g, "g") == raw(w, "w")


# --- what needs no oracle ---

@pytest.fixture
def served(files, tmp_path):
    s = Served([WICK, "pprof", "-no_browser", "-symbolize=none", "-http=localhost:", str(files["cpu"])], tmp_path)
    yield s
    assert s.stop() == 0


def top_of(*args):
    out = subprocess.run([WICK, "pprof", "-top", "-symbolize=none", "-nodecount=1000", "-unit=ns", "-nodefraction=0", *args],
                         capture_output=True, text=True, check=True).stdout
    rows = re.findall(r"^\s*(-?[\d.]+)(?:ns)?\s+\S+\s+\S+\s+(-?[\d.]+)(?:ns)?\s+\S+\s+(.+?)(?: \((?:partial-)?inline\))?$", out, re.M)
    return {name: (float(flat), float(cum)) for flat, cum, name in rows}


@pytest.mark.parametrize("query,options", [("", []), ("f=main", ["-focus=main"]), ("s=pkg", ["-show=pkg"]),
                                           ("sf=serve", ["-show_from=serve"]), ("tf=route", ["-tagfocus=route"])])
def test_questions_are_answered_from_the_file(served, files, query, options):
    expected = top_of(*options, str(files["cpu"]))
    rows = served.json(f"top?limit=10000&query=cpu&{query}")["rows"]
    got = {}
    for r in rows:  # one row per function here: files are not kept apart
        flat, cum = got.get(r["name"], (0, 0))
        got[r["name"]] = (flat + r["self"], cum + r["total"])
    nameless = ("[unknown]", "<unknown>", "[libc.so.6]", "[prog-ram]", "/lib/libc.so.6", "/usr/bin/prog-ram")
    got, expected = ({n: v[0] for n, v in x.items() if v[0] and n not in nameless} for x in (got, expected))
    assert got == expected and got


def test_two_files(files, tmp_path):
    s = Served([WICK, "pprof", "-no_browser", "-http=localhost:", f"-diff_base={files['other']}", str(files["cpu"])], tmp_path)
    try:
        status = s.json("status")
        assert status["mode"] == "files" and len(status["files"]) == 2
        q = urllib.parse.urlencode({"query": status["query"], "base_query": status["baseQuery"], "limit": 10000})
        table = s.json("top?" + q)
        new, base = (top_of("-sample_index=cpu", str(files[f])) for f in ("cpu", "other"))
        assert sum(r["self"][1] for r in table["rows"]) == sum(v[0] for v in new.values()) > 0
        assert sum(r["self"][0] for r in table["rows"]) == sum(v[0] for v in base.values()) > 0
    finally:
        assert s.stop() == 0


def test_pages(served):
    status, headers, body = served.get("/ui/flamegraph?f=main")
    assert status == 200 and "unsafe" not in headers["content-security-policy"]
    for view in ("top", "peek?f=main", "source?f=main", "graph?n=8"):
        status, headers, body = served.get("/ui/" + view)
        if view.startswith("graph") and status == 501:
            continue
        text = body.decode()
        assert status == 200 and "default-src 'none'" in headers["content-security-policy"]
        assert not re.search(r"<script|<style|\son\w+=|\sstyle=", text), view
    assert served.get("/ui/pprof.css")[0] == 200 and served.get("/ui/api/v1/flame?format=binary")[2][:4] == b"WTR2"


def test_hostile_names(tmp_path):
    name = "<script>alert(1)</script>\"'&"
    (tmp_path / "x.folded").write_text(f"main;{name} 5\n")
    s = Served([WICK, "pprof", "-no_browser", "-http=localhost:", str(tmp_path / "x.folded")], tmp_path)
    try:
        for view in ("top", "peek?f=alert", "source?f=alert", "graph", "top?f=" + urllib.parse.quote(name),
                     "top?" + urllib.parse.quote("\"><script>alert(2)</script>") + "=1"):
            body = s.get("/ui/" + view)[2].decode()
            assert "<script" not in body, view
        assert s.json("top?query=" + s.json("status")["query"])["rows"][0]["name"] == name
    finally:
        s.stop()


def test_strangers(served):
    for host in ("evil.example", "1.evil.example", "localhost.evil.example", "localhost@evil.example"):
        assert served.get("/ui/top", Host=host)[0] == 421, host
        assert served.get("/ui/api/v1/status", Host=host)[0] == 421, host
    for wrong in ("", "Bearer ", "Bearer x", "Basic " + "eDp4"):
        for path in ("/ui/", "/ui/top", "/ui/download", "/ui/api/v1/status", "/ui/api/v1/top?query=cpu", "/ui/api/v1/source?file=x"):
            assert served.get(path, Authorization=wrong)[0] == 401, (path, wrong)


def test_token_in_the_url(served, files, tmp_path):
    """The URL that was printed gives a session and an address without the token; the cookie is this server's own."""
    status, headers, _ = served.get(f"/ui/top?f=main&token={served.token}", Authorization="")
    assert status == 303 and headers["location"] == "/ui/top?f=main" and served.token not in str(headers)
    cookie = headers["set-cookie"]
    assert "HttpOnly" in cookie and "SameSite=Strict" in cookie
    cookie = cookie.split(";")[0]
    token, served.token = served.token, None
    assert served.get("/ui/top", Cookie=cookie)[0] == 200
    assert served.get("/ui/top")[0] == 401
    assert served.get("/ui/?token=" + "0" * len(token))[0] == 403
    other = Served([WICK, "pprof", "-no_browser", "-symbolize=none", "-http=0.0.0.0:", str(files["cpu"])], tmp_path)
    port = other.host.split(":")[-1]
    other.host, other.token = "127.0.0.1:" + port, None
    try:  # no address is open, whatever it is called
        assert other.get("/ui/top")[0] == 401 and other.get("/ui/top", Cookie=cookie)[0] == 401
    finally:
        other.stop()


def test_source_of_the_profile_only(tmp_path):
    """Only regular files that the profile names are read, and nothing waits for a FIFO."""
    (tmp_path / "main.c").write_text("int main;\n")
    (tmp_path / "secret").write_text("secret\n")
    os.mkfifo(tmp_path / "fifo")
    named = ["main.c", "fifo", "missing.c"]
    strings = ["", "cpu", "nanoseconds", *(f"f{i}" for i in range(len(named))), *(str(tmp_path / n) for n in named), "/dev/zero"]
    strings.append("/dev/zero")
    data = b"".join(message(6, s.encode()) for s in strings) + message(1, b"\x08\x01\x10\x02")
    for i in range(len(named) + 1):
        name, file = 3 + min(i, len(named) - 1), 3 + len(named) + i
        data += message(5, bytes([8, i + 1, 16, name, 32, file])) + message(4, bytes([8, i + 1]) + message(4, bytes([8, i + 1, 16, 1])))
        data += message(2, message(1, bytes([i + 1])) + message(2, b"\x05"))
    (tmp_path / "p.pb").write_bytes(data)
    s = Served([WICK, "pprof", "-no_browser", "-symbolize=none", "-http=localhost:", str(tmp_path / "p.pb")], tmp_path)
    try:
        assert s.json(f"source?file={tmp_path}/main.c")["text"] == "int main;\n"
        for path in ("/etc/shadow", "/etc/passwd", f"{tmp_path}/secret", f"{tmp_path}/../{tmp_path.name}/main.c", f"{tmp_path}/fifo", "/dev/zero",
                     f"{tmp_path}/missing.c", "main.c", "/proc/self/environ", f"{tmp_path}/main.c%00"):
            status, _, body = s.get("/ui/api/v1/source?file=" + path)
            assert status == 404, (path, body)
        assert s.get("/ui/source?f=f")[0] == 200
    finally:
        assert s.stop() == 0


def test_wrong_addresses(files):
    for address, words in (("nonsense", "could not split http address: address nonsense: missing port in address"),
                           ("localhost:x", "invalid port number: strconv.Atoi: parsing \"x\": invalid syntax")):
        p = subprocess.run([WICK, "pprof", "-no_browser", f"-http={address}", str(files["cpu"])], capture_output=True, text=True)
        assert p.returncode == 2 and words in p.stderr
    p = subprocess.run([WICK, "pprof", "-http=localhost:", "-top", str(files["cpu"])], capture_output=True, text=True)
    assert p.returncode == 2 and "not compatible" in p.stderr


def test_browser_is_opened(files, tmp_path):
    (tmp_path / "browser").write_text(f"#!/bin/sh\necho \"$1\" > {tmp_path}/opened\n")
    (tmp_path / "browser").chmod(0o755)
    env = {**os.environ, "BROWSER": str(tmp_path / "browser")}
    p = subprocess.Popen([WICK, "pprof", "-symbolize=none", "-http=localhost:", "-focus=main", "-cum", str(files["cpu"])], stderr=subprocess.PIPE, text=True, env=env)
    try:
        url = re.search(r"http://\S+", p.stderr.readline()).group()
        for _ in range(100):
            if (tmp_path / "opened").exists() and (tmp_path / "opened").read_text():
                break
            subprocess.run(["sleep", "0.1"])
        opened = (tmp_path / "opened").read_text().strip()
        assert opened.startswith(url + "&") and set(opened.split("?")[1].split("&")[1:]) == {"f=main", "sort=cum"}
    finally:
        p.terminate()
        p.wait()
        p.stderr.close()
