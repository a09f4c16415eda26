# SPDX-License-Identifier: Apache-2.0
"""The flame graph in one HTML file: complete, without network, and names are never markup."""
import json
import re
import subprocess

import ui_data
from wick_tools import NASTY, ROOT, WICK, convert, some


def data_of(page):
    text = page.read_text()
    m = re.search(r'<script id="data" type="application/json">(.*?)</script>', text, re.S)
    return text, m.group(1), json.loads(m.group(1))


def paths(data, column=0):
    """The folded stacks that the page holds."""
    found = {}
    for i, v in enumerate(data["self"][column]):
        if v:
            stack, n = [], i
            while n:
                stack.append(data["frames"][data["frame"][n]][0])
                n = data["parent"][n]
            found[";".join(reversed(stack))] = v
    return found


def test_content(tmp_path):
    _, _, data = data_of(convert(tmp_path, "main;work;leaf 3\nmain;work 2\nmain;idle 5\n"))
    assert paths(data) == {"main;work;leaf": 3, "main;work": 2, "main;idle": 5}
    assert all(p < i for i, p in some(enumerate(data["parent"])))


def test_names_are_not_markup(tmp_path):
    stacks = "".join(f"main;{n} {i + 1}\n" for i, n in enumerate(NASTY))
    text, raw, data = data_of(convert(tmp_path, stacks, name="x<b>&.folded"))
    assert not re.search(r"[<>&\u2028]", raw)
    assert text.count("<script") == 2 and text.count("</script>") == 2
    assert "x<b>" not in text
    assert paths(data) == {f"main;{n}": i + 1 for i, n in enumerate(NASTY)}


def test_no_network(tmp_path):
    """The policy forbids every request, and there is none to make: no element that loads, no address but XML name spaces."""
    text, _, _ = data_of(convert(tmp_path, "a;b 1\n"))
    assert "default-src 'none'" in text
    assert not re.search(r"""<(link|img|iframe|script)[^>]*(src|href)=|url\((?!#)|@import|fetch\(|XMLHttp|import\(""", text)
    assert set(re.findall(r"https?://[\w.]+", text)) <= {"http://www.w3.org"}


def test_diff(tmp_path):
    _, _, data = data_of(convert(tmp_path, "main;new 4\nmain;same 1\n", base="main;old 2\nmain;same 1\n"))
    assert paths(data, 0) == {"main;old": 2, "main;same": 1}
    assert paths(data, 1) == {"main;new": 4, "main;same": 1}


def test_no_page_without_the_ui(tmp_path):
    """-Dui=false leaves the page out; tools/ui then writes an empty one."""
    out = tmp_path / "page.c"
    subprocess.run([str(ROOT / "tools/ui"), str(ROOT / "web"), str(out), "--no-page"], check=True)
    assert "flame_html_size = 0" in out.read_text()


def test_rates(tmp_path):
    """The page has the sampling rate, which tells changes from noise; a period of 1 means every event, not a rate."""
    files = []
    for period in (10**7, 5 * 10**6, 1):
        r = ui_data.Request("shop")
        r.profile("cpu", "nanoseconds", 10**18, [(("main", ("work", "/src/w.c", 7)), 10**9)])
        sent = r.done()
        sent.resource_profiles[0].scope_profiles[0].profiles[0].period = period
        files.append(tmp_path / f"{period}.otlp")
        files[-1].write_bytes(sent.SerializeToString())
    for base, now, rates in ((None, 0, [100, 100, 100]), (0, 1, [100, 200, 100]), (0, 2, [0, 0, 0])):
        page = tmp_path / "x.html"
        subprocess.run([WICK, "convert", *(["--base", files[base]] if base is not None else []), files[now], page], check=True, capture_output=True)
        text, _, data = data_of(page)
        assert data["cover"] == [0, 0, *rates]
        assert ["work", "/src/w.c"] in [f[:2] for f in data["frames"]]
        assert f"<title>{files[now].name}{f' against {files[base].name}' if base is not None else ''}</title>" in text
