# SPDX-License-Identifier: Apache-2.0
"""wick query on a terminal: every question is a table with headings whose values are those of --json, and a question that nothing
matches says what is nearest and ends with status 4."""
import json
import re
import subprocess
import time

import pytest
from wick_tools import ROOT, WICK, Server

NO_DATA = 4


def folded(server, name, text, at):
    status, body = server.get(f"/ingest?name={name}&from={at}&until={at + 10}&format=folded&units=samples&sampleRate=100", data=text.encode(),
                              method="POST")
    assert status == 200, body


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    s = Server(tmp_path_factory.mktemp("query"), WICK_NO_AGENT="1")
    now = int(time.time()) - 60
    folded(s, "checkout", "main;run;price 300\nmain;run;tax 100\n", now)
    folded(s, "billing", "main;send 50\n", now)
    yield s
    s.stop()


def query(server, *words):
    """Status, standard output and error. Without the line after the rows that names the sampling rate."""
    p = subprocess.run([WICK, "query", *words, "--server", server.url], capture_output=True, text=True, timeout=60)
    return p.returncode, re.sub(r"^sampled at .* Hz.*\n\Z", "", p.stdout, flags=re.M), p.stderr


HEADINGS = {
    "flame": ["TOTAL", "TOTAL%", "FUNCTION"],
    "top": ["SELF", "SELF%", "TOTAL", "TOTAL%", "NAME"],
    "series": ["TIME", "VALUE"],
    "coverage": ["SELECTION", "COVERED", "SECONDS"],
    "deploys": ["SERVICE", "VERSION", "FIRST", "SINCE", "LAST", "LATEST"],
    "profiles": ["TIME", "VALUE", "SAMPLES", "PROFILE", "LABELS"],
    "services": ["SERVICE", "TYPES", "VERSIONS"],
    "labels": ["NAME"],
    "types": ["TYPE", "UNIT", "RULE", "MEANING"],
}


@pytest.mark.parametrize("question", sorted(HEADINGS))
def test_headings(server, question):
    code, text, err = query(server, question)
    assert code == 0, err
    assert text.splitlines()[0].split() == HEADINGS[question]
    assert len(text.splitlines()) > 1
    code, answer, err = query(server, question, "--json")
    assert code == 0 and json.loads(answer), err


def test_reference_page_is_current():
    page = subprocess.run([WICK, "query", "--print-reference"], capture_output=True, text=True, check=True).stdout
    assert page == (ROOT / "docs/answers.md").read_text()


def test_types_are_those_of_the_store(server):
    """The table lists what there are profiles of, the answer also what wick knows besides."""
    _, text, _ = query(server, "types")
    assert [line.split()[0] for line in text.splitlines()[1:]] == ["cpu"]
    answer = {t["name"]: t for t in server.json("/api/v1/types")}
    assert answer["cpu"]["stored"] and not answer["heap"]["stored"] and answer["heap"]["unit"] == "bytes"


def test_symbols(tmp_path):
    """A binary whose functions have no names, and the command that gives it names."""
    exe = tmp_path / "busy"
    (tmp_path / "busy.c").write_text("int main(void) { for (volatile long i = 0; i < 1000000000; i++); }")
    subprocess.run(["gcc", "-O1", "-o", exe, tmp_path / "busy.c", "-Wl,--build-id", "-s"], check=True)
    out = tmp_path / "x.otlp"
    p = subprocess.run([WICK, "record", "-q", "-d", "2s", "-o", out, "--", exe], capture_output=True, text=True)
    if p.returncode:
        pytest.skip(p.stderr)
    server = Server(tmp_path, WICK_NO_AGENT="1")
    try:
        status, body = server.get("/v1development/profiles", data=out.read_bytes(), headers={"Content-Type": "application/x-protobuf"},
                                  base=server.http)
        assert status == 200, body
        code, text, err = query(server, "symbols", 'cpu{service.name="busy"}')
        assert code == 0, err
        assert text.splitlines()[0].split() == ["SELF%", "NAMED%", "FRAMES", "NAMED", "STATUS", "BUILD", "ID", "BINARY"]
        line = next(x for x in text.splitlines() if x.endswith(str(exe)))
        assert line.split()[1] == "0.00%" and "To name the rest: wick symbols upload" in text, text
    finally:
        server.stop()


def test_values(server):
    _, text, _ = query(server, "top", 'cpu{service.name="checkout"}')
    rows = {line.split()[-1]: line.split() for line in text.splitlines()[1:]}
    assert rows["price"][:4] == ["3s", "75.00%", "3s", "75.00%"]
    assert rows["run"][:4] == ["0s", "0.00%", "4s", "100.00%"]
    assert re.search(r"^4 CPU-seconds in 10\.0 covered seconds: 0\.4 cores$", text, re.M)
    _, text, _ = query(server, "services")
    assert [line.split()[0] for line in text.splitlines()[1:]] == ["billing", "checkout"]
    _, text, _ = query(server, "callers", "cpu", "--function", "price")
    assert text.startswith("CALLERS") and "CALLEES" in text and re.search(r"100\.00% +price\n.*100\.00% +run\n", text)
    _, text, _ = query(server, "series", "cpu", "--group-by", "service.name")
    assert text.splitlines()[0].split() == ["TIME", "service.name=checkout", "service.name=billing"]
    assert sum(float(line.split()[1].rstrip("s")) for line in text.splitlines()[1:] if line.split()[1] != "-") == 4


@pytest.mark.parametrize("words, message", [
    (["top", 'cpu{service.name="chekout"}'], 'no data for cpu{service.name="chekout"}; nearest service: checkout'),
    (["top", 'cpu{service.name="zzz"}'], 'no data for cpu{service.name="zzz"}; services: billing, checkout'),
    (["flame", "cpuu"], "no data for cpuu; nearest type: cpu"),
    (["top", "cpu", "--from", "now-3h", "--to", "now-2h"], "no data for cpu in this range; there is data in the last 24 hours: --from now-24h"),
    (["callers", "cpu", "--function", "pric"], "no data for cpu with function 'pric'; nearest function: price"),
    (["lines", "cpu", "--function", "nosuch"], "no data for cpu with function 'nosuch'; functions: price, tax, send, main, run"),
    (["labels", "--label", "servce.name"], "no data with a label 'servce.name'; nearest label: service.name"),
    (["spans", "cpu"], "no samples with spans for cpu"),
    (["leaks", "heap"], "no growing memory for heap; types: "),
    (["leaks"], "no growing memory for heap; types: "),
    (["symbols"], "no binaries for cpu"),
    (["top", 'cpu{service="checkout"}'], "; no profile has a label 'service': did you mean service.name?"),
    (["top", 'cpu{servce.name="checkout"}'], "; no profile has a label 'servce.name'; nearest label: service.name"),
    (["top", "checkout"], "no data for checkout; did you mean 'cpu{service.name=\"checkout\"}'?"),
    (["leaks", "checkout"], "no growing memory for checkout; did you mean 'heap{service.name=\"checkout\"}'?"),
    (["drift", "cpu"], "no data for cpu in the baseline, which is as much time before the range unless"),
    (["drift", 'cpu{service.name="chekout"}'], 'no data for cpu{service.name="chekout"}; nearest service: checkout'),
])
def test_no_data(server, words, message):
    for extra in ([], ["--json"]):
        code, text, err = query(server, *words, *extra)
        assert code == NO_DATA and message in err, (code, err)
        assert not text if not extra else json.loads(text) is not None


def test_empty_store(tmp_path):
    s = Server(tmp_path, "--http", "0", "--otlp-grpc", "0", "--otlp-http", "0", WICK_NO_AGENT="1")  # ports alone: of loopback
    try:
        assert s.url.startswith("http://127.0.0.1:")
        code, text, err = query(s, "top", "cpu")
        assert code == NO_DATA and not text and "nothing has been received yet" in err
        code, text, err = query(s, "services")
        assert code == NO_DATA and "nothing has been received yet" in err
    finally:
        s.stop()


def test_text_format(server):
    """What the API answers as text is printed as it is."""
    for words in (["flame", 'cpu{service.name="checkout"}'], ["callers", 'cpu{service.name="checkout"}', "--function", "run"]):
        code, text, err = query(server, *words, "--format", "text")
        assert code == 0 and not err, err
        assert re.search(r"^ *75\.00%.* price$", text, re.M), text
    for words in (["flame", "cpuu"], ["callers", "--function", "pric"], ["leaks", "heap"]):
        code, text, err = query(server, *words, "--format", "text")
        assert code == NO_DATA and not text and "no " in err, (code, text, err)
    code, _, err = query(server, "flame", "--format", "text", "--json")
    assert code == 2 and "--json and --format text exclude each other" in err
    code, _, err = query(server, "flame", "--format", "xml")
    assert code == 2 and "format: 'xml' is not text, binary or json" in err


def test_messages_of_the_server_are_whole(server):
    code, _, err = query(server, "top", 'cpu{a="b" c="d"}')
    assert code == 2 and "'cpu{a=\"b\" c=\"d\"}'" in err and "at character" in err, err
    code, _, err = query(server, "top", "--by", 'x"} y')
    assert code == 2 and "by: 'x\"} y' is not function, file, line, mapping or package" in err, err


def test_misspelled(server):
    code, _, err = query(server, "toop", "cpu")
    assert code == 2 and "did you mean 'top'?" in err
    code, _, err = query(server, "top", "--sorrt", "self")
    assert code == 2 and "did you mean --sort?" in err


def test_leaks_are_found_in_what_is_held(server):
    code, _, err = query(server, "leaks", "cpu")
    assert code == 2 and "leaks are found in what a program holds (heap, heap_objects, goroutine, thread), not in 'cpu'" in err
    code, _, err = query(server, "leaks", '{service.name="checkout"}')
    assert code == NO_DATA, err


def test_every_question_has_a_route(server):
    """What wick query offers with --store, a server answers as well."""
    more = {"callers": "&function=price", "lines": "&function=price", "span": "&span_name=x", "trace": "&trace_id=" + 32 * "a"}
    names = re.findall(r"^  ([a-z_]+) ", subprocess.run([WICK, "query", "--help"], capture_output=True, text=True).stdout.split("example")[0], re.M)
    assert "coverage" in names and len(names) >= 13
    for name in names:
        status, body = server.get(f"/api/v1/{name}?query={'heap' if name == 'leaks' else 'cpu'}" + more.get(name, ""))
        assert status == 200, (name, body)
