# SPDX-License-Identifier: Apache-2.0
"""Names of functions, files, labels and units are text in every output: each format is read back by a parser of its own, which finds the names
and nothing else."""
import gzip
import html.parser
import json
import re
import shutil
import subprocess
import urllib.parse
import xml.etree.ElementTree as ET

import pytest
from protobuf_lite import message, number, packed
from wick_tools import WICK, request, server, wait_for  # noqa: F401

HOSTILE = [
    'quote" URL="javascript:alert(1)" x="',
    "back\\slash\\",
    "line\nend 99\nforged;row 5",
    "</text></svg><script>alert(1)</script>",
    "'><img src=x onerror=alert(1)>",
    "&lt;b&gt; & &#60;i&#62;",
    "semi;colon 12",
    "tab\there\rreturn",
    "esc\x1b[2Jape\x07",
    "rtl\u202egnp.exe",
    "zero\u200bwidth\u2066isolate\u2069",
    "]}];//*/ -->]]>",
    "%s%n${x}$(id)`id`",
    "c1\x9b31m",
]
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069]")


def profile(path):
    """main calls every hostile function, which has a hostile file, label and mapping; values are 100, 101, ..."""
    strings = [""]

    def s(text):
        if text not in strings:
            strings.append(text)
        return strings.index(text)

    out = message(1, number(1, s("samples")) + number(2, s("count")))
    functions = ["main", *HOSTILE]
    for i, name in enumerate(functions):
        if i:
            label = message(3, number(1, s("key" + name)) + number(2, s("value" + name)))
            out += message(2, packed(1, [i + 1, 1]) + packed(2, [100 + i]) + label)
        out += message(4, number(1, i + 1) + number(2, 1) + number(3, 0x1000 + 16 * i) + message(4, number(1, i + 1) + number(2, 7)))
        out += message(5, number(1, i + 1) + number(2, s(name)) + number(3, s(name)) + number(4, s("/src/" + name.replace("/", "_"))))
    out += message(3, number(1, 1) + number(2, 0x1000) + number(3, 0x9000) + number(5, s("/bin/" + HOSTILE[0])) + number(7, 1) + number(8, 1) + number(9, 1))
    out += number(13, s("comment" + HOSTILE[3] + HOSTILE[8]))
    for t in strings:
        out += message(6, t.encode())
    path.write_bytes(gzip.compress(out))
    return path


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    return profile(tmp_path_factory.mktemp("names") / "hostile.pb.gz")


def pprof(hostile, *flags):
    p = subprocess.run([WICK, "pprof", "-nodefraction=0", "-edgefraction=0", "-nodecount=1000", *flags, hostile], capture_output=True, timeout=60)
    assert p.returncode == 0, p.stderr
    return p.stdout.decode()


def shown(name):
    """As a name is shown: what a terminal must not get is escaped."""
    return CONTROL.sub(lambda m: "".join(rf"\x{b:02x}" for b in m[0].encode()) if ord(m[0]) < 0x100 else rf"\u{ord(m[0]):04x}", name)


@pytest.mark.parametrize("how", ["-top", "-tree", "-peek=.", "-traces", "-raw", "-tags", "-comments", "-text"])
def test_terminal(hostile, how):
    out = pprof(hostile, how)
    assert not CONTROL.search(out), out
    assert "forged" in out or how == "-comments"
    for line in out.split("\n"):
        assert not re.match(r"\s*forged", line), out


def test_top_has_a_row_per_function(hostile):
    rows = pprof(hostile, "-top").splitlines()
    start = next(i for i, line in enumerate(rows) if line.split()[:2] == ["flat", "flat%"])
    assert len(rows) - start - 1 == len(HOSTILE) + 1


def dot_strings(text):
    """The statements of a DOT file as [(head, {attribute: value})]; anything that is not of this form fails."""
    token = re.compile(r'\s*(?:"((?:[^"\\]|\\.)*)"|(->|[\w.+-]+|[\[\]{}=;,]))', re.S)
    pos, out = 0, []
    while text[pos:].strip():
        m = token.match(text, pos)
        assert m, text[pos:pos + 80]
        out.append(m[1] if m[1] is not None else (m[2],))
        pos = m.end()
    return out


def test_dot(hostile):
    tokens = dot_strings(pprof(hostile, "-dot"))
    attributes = {t[0] for t, after in zip(tokens, tokens[1:]) if isinstance(t, tuple) and after == ("=",)}
    assert attributes <= {"style", "fillcolor", "shape", "fontsize", "label", "id", "tooltip", "color", "weight", "penwidth", "labeltooltip", "minlen"}
    assert {"label", "tooltip", "labeltooltip"} <= attributes
    strings = [t for t in tokens if isinstance(t, str)]
    assert sum("javascript:" in t for t in strings) >= 4
    assert not any(CONTROL.search(t) for t in strings)


@pytest.mark.skipif(not shutil.which("dot"), reason="needs graphviz")
def test_svg_of_the_graph(hostile):
    root = ET.fromstring(pprof(hostile, "-svg"))
    links = [v for e in root.iter() for k, v in e.attrib.items() if k.endswith("href")]
    assert not [v for v in links if "javascript" in v]
    text = ["".join(e.itertext()) for e in root.iter() if e.tag.endswith("}text")]
    for want in ("javascript:alert(1)", "<script>", "onerror=", "&lt;b&gt; & &#60;i&#62;"):
        assert any(want.split(".")[0] in t for t in text), (want, text)


class Page(html.parser.HTMLParser):
    """Tags with their attributes, and the text outside of scripts."""

    def __init__(self):
        super().__init__()
        self.tags, self.text, self.scripts, self.inside = [], [], [], ""

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.inside = tag

    def handle_endtag(self, tag):
        self.inside = ""

    def handle_data(self, data):
        (self.scripts if self.inside == "script" else self.text).append(data)


def convert(hostile, tmp_path, name):
    out = tmp_path / name
    p = subprocess.run([WICK, "convert", hostile, out], capture_output=True, timeout=60)
    assert p.returncode == 0, p.stderr
    return out.read_bytes().decode()


def check_page(text):
    page = Page()
    page.feed(text)
    assert not [t for t, a in page.tags if any("alert" in (v or "") for k, v in a.items() if k.startswith("on")) or "javascript:" in (a.get("href") or "")]
    assert not [t for t, a in page.tags if t == "img"]
    assert not [s for s in page.scripts if s.strip() == "alert(1)"]
    return page


def test_html(hostile, tmp_path):
    page = check_page(convert(hostile, tmp_path, "x.html"))
    assert any("onerror" in s for s in page.scripts + page.text)


def test_weblist(hostile):
    check_page(pprof(hostile, "-weblist=.", "-output=/dev/stdout"))


def test_flame_svg(hostile, tmp_path):
    root = ET.fromstring(convert(hostile, tmp_path, "x.svg"))
    titles = ["".join(e.itertext()) for e in root.iter() if e.tag.endswith("}title")]
    assert any("</text></svg><script>" in t for t in titles)
    assert not [e for e in root.iter() if e.tag.endswith("}script") and "alert(1)" in "".join(e.itertext())]


def test_folded(hostile, tmp_path):
    rows = [re.fullmatch(r"main;([^;]*) (\d+)", line) for line in convert(hostile, tmp_path, "x.folded").splitlines()]
    assert all(rows) and sorted(int(m[2]) for m in rows) == [101 + i for i in range(len(HOSTILE))]


def test_callgrind(hostile, tmp_path):
    for text in (pprof(hostile, "-callgrind"), convert(hostile, tmp_path, "x.callgrind")):
        for line in text.split("\n"):
            assert not line or re.match(r"(positions|events|ob|fl|fn|cfn|cfl|cob|calls)[:=]|[+*0-9-]", line), line
        assert len(re.findall(r"^fn=", text, re.M)) == len(HOSTILE) + 1


@pytest.mark.parametrize("name", ["x.speedscope.json", "x.firefox.json", "x.cpuprofile", "x.otlp.json"])
def test_json(hostile, tmp_path, name):
    text = convert(hostile, tmp_path, name)
    found = set()

    def walk(v):
        if isinstance(v, str):
            found.add(v)
        for x in v.values() if isinstance(v, dict) else v if isinstance(v, list) else []:
            walk(x)

    walk(json.loads(text))
    for h in HOSTILE:
        assert h in found, (name, h)


def test_round_trip(hostile, tmp_path):
    """pprof and OTLP keep every byte of a name."""
    otlp = tmp_path / "x.otlp.pb"
    subprocess.run([WICK, "convert", hostile, otlp], check=True, timeout=60)
    subprocess.run([WICK, "convert", otlp, tmp_path / "back.pb.gz"], check=True, timeout=60)
    back = gzip.decompress((tmp_path / "back.pb.gz").read_bytes())
    for h in HOSTILE:
        assert message(6, h.encode()) in back, h


def test_from_a_server(server):
    """A service, and functions, of hostile names: the DOT file, the table in a terminal, the page, folded stacks and the metrics."""
    service = HOSTILE[0]
    names = [h for h in HOSTILE if ";" not in h]
    assert server.send(request([(f"main;{h}", 100 + i, False) for i, h in enumerate(names)], service=service))[0] == 200
    rows = wait_for(lambda: server.json("/api/v1/top?type=cpu&n=100").get("rows"))
    assert {h for h in names if h in {r["name"] for r in rows}} == set(names)
    query = urllib.parse.urlencode({"query": "process_cpu:cpu:nanoseconds:cpu:nanoseconds{}", "from": "now-1h", "format": "dot"})
    status, text = server.get("/pyroscope/render?" + query)
    tokens = dot_strings(text.decode())
    assert status == 200 and sum("javascript:" in t for t in tokens if isinstance(t, str)) >= 2
    assert not [t for t in tokens if isinstance(t, tuple) and t[0] == "URL"]
    for what in ("top", "services", "series"):
        p = subprocess.run([WICK, "query", what, "--server", server.url], capture_output=True, timeout=60)
        assert p.returncode == 0 and not CONTROL.search(p.stdout.decode()), (what, p.stdout)
    status, text = server.get("/metrics")
    sample = re.compile(r'[a-zA-Z_:][a-zA-Z0-9_:]*(\{[a-zA-Z_]\w*="(?:[^"\\\n]|\\["\\n])*"(,[a-zA-Z_]\w*="(?:[^"\\\n]|\\["\\n])*")*\})? [-+0-9.eEInfNa]+')
    lines = [line for line in text.decode().split("\n") if line and not line.startswith("#")]
    assert status == 200 and lines and all(sample.fullmatch(line) for line in lines)
