# SPDX-License-Identifier: Apache-2.0
"""The documents as pages: what a server has under /docs, and the static site. Every link leads to a page and a heading that exist, what is not
Markdown is text, and nothing is needed from elsewhere."""
import html.parser
import re
import subprocess
import sys
import urllib.parse
import urllib.request
from importlib.machinery import SourceFileLoader

import pytest
from wick_tools import ROOT, Server, some, tokens_of

sys.dont_write_bytecode = True
docs = SourceFileLoader("docs", str(ROOT / "tools/docs")).load_module()
VOID = {"meta", "link", "input", "img", "source", "br"}


class Reader(html.parser.HTMLParser):
    """Elements that are closed as they were opened; ids, links and what is loaded."""

    def __init__(self, text):
        super().__init__()
        self.open, self.ids, self.links, self.loads, self.attributes = [], [], [], [], set()
        self.feed(text)
        assert self.open == ["html"] or not self.open, self.open

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        if tag not in VOID:
            self.open.append(tag)
        self.attributes |= set(attrs)
        self.ids += [attrs["id"]] if "id" in attrs else []
        self.links += [attrs["href"]] if tag == "a" else []
        self.loads += [v for k, v in attrs.items() if k in ("src", "srcset") or (k == "href" and tag == "link")]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, (tag, self.open)


def check_links(pages, served):
    """pages: name -> text of HTML; what else is there is in served."""
    read = {name: Reader(text) for name, text in pages.items()}
    for name, r in some(read.items()):
        assert len(r.ids) == len(set(r.ids)), name
        assert not {a for a in r.attributes if a.startswith("on") or a == "style"}, name
        for link in some(r.links):
            if re.match(r"https?:", link) or link == "../":
                continue
            file, _, fragment = link.partition("#")
            assert not file or file in read, (name, link)
            assert not fragment or urllib.parse.unquote(fragment) in read[file or name].ids, (name, link)
        for x in some(r.loads):
            assert x in served, (name, x)


def test_served(tmp_path):
    """Each page, without a token also where everything else needs one."""
    tokens_of(tmp_path)
    s = Server(tmp_path, WICK_NO_AGENT="1")
    try:
        files = dict(docs.Site().files(served=True))
        for name, data in some(files.items()):
            status, body = s.get("/docs/" + name)
            assert status == 200 and body == data, name
        check_links({n: d.decode() for n, d in files.items() if n.endswith(".html")}, files)
        assert s.get("/docs/")[1] == s.get("/docs")[1] == files["index.html"]
        for nowhere in ("/docs/none.html", "/docs/../etc/passwd", "/docs/%2e%2e/secret", "/docs/images/", "/docs/index.md"):
            status, body = s.get(nowhere)
            assert status == 404 and b"<html" not in body, nowhere
        head = urllib.request.urlopen(s.url + "/docs/index.html").headers
        assert head["content-type"] == "text/html; charset=utf-8" and "script-src 'self'" in head["content-security-policy"]
    finally:
        s.stop()


def test_static_site(tmp_path):
    """The same pages as files, that a browser opens as they are."""
    subprocess.run([ROOT / "tools/docs", "--site", tmp_path / "site"], check=True)
    files = {str(p.relative_to(tmp_path / "site")): p for p in (tmp_path / "site").rglob("*") if p.is_file()}
    check_links({n: p.read_text() for n, p in files.items() if n.endswith(".html")}, files)
    assert set(files) == {n for n, _ in docs.Site().files(served=False)}
    assert '"../"' not in files["index.html"].read_text()


class Fake:
    def __init__(self):
        self.by_path = {}


def rendered(tmp_path, text):
    path = tmp_path / "page.md"
    path.write_text(text)
    site = Fake()
    page = docs.Page("page", path, site)
    page.fail = page.problems.append
    site.by_path[path.resolve()] = page
    return page.body(), page.problems


@pytest.mark.parametrize("text, wanted", [
    ("<script>alert(1)</script>", "&lt;script&gt;alert(1)&lt;/script&gt;"),
    ("a `<b>&amp;` c", "<code>&lt;b&gt;&amp;amp;</code>"),
    ('[x](https://a/?q="><script>)', 'href="https://a/?q=&quot;&gt;&lt;script&gt;"'),
    ("**bold** *it* 2 * 3 * 4", "<strong>bold</strong> <em>it</em> 2 * 3 * 4"),
    ("- one\n  two\n- three\n\n  ```sh\n  wick x\n  ```", '<li>one two</li><li>three\n<pre class="sh"><code>wick x</code></pre></li>'),
    ("| a | b |\n|---|---|\n| `x\\|y` | <i> |", "<td><code>x|y</code></td><td>&lt;i&gt;</td>"),
    ("```\n# no heading\n```", "<code># no heading</code>"),
    ("# One\n\n## Two words, `code`\n\n## Two words, `code`", 'id="two-words-code-1"'),
])
def test_markdown(text, wanted, tmp_path):
    assert wanted in rendered(tmp_path, text)[0]


@pytest.mark.parametrize("text, words", [("[x](nowhere.md)", "leads nowhere: nowhere.md"), ("[x](#none)", "no heading #none"), ("```\nopen", "without an end"),
                                         ("| a |\n| b |", "a line of dashes")])
def test_mistakes_fail(text, words, tmp_path):
    assert any(words in p for p in rendered(tmp_path, text)[1])


def test_pictures_are_of_the_script():
    subprocess.run([ROOT / "tools/diagrams", "--check"], check=True)


def test_version_is_everywhere_the_same():
    subprocess.run([ROOT / "packaging/version", "--check"], check=True, capture_output=True)
