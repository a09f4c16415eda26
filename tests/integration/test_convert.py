"""wick convert, with `go tool pprof` as the judge of what a pprof says, on profiles of Go's runtime made here, on those of
tests/data, and on those of ../shared where they are."""
import gzip
import json
import os
import re
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

from go_tools import GO, needs_go, pprof_command
from wick_tools import ROOT, some

SHARED = Path(os.environ.get("WICK_SHARED", ROOT.parent / "shared"))
WICK_ASAN = os.environ.get("WICK_ASAN", str(ROOT / "build-asan/src/cli/wick"))
DATA = ROOT / "tests/data"
OTLP = [p for p in (DATA / "otlp", SHARED / "fixtures/otlp") if p.is_dir()]

FOLDED = "main;parse;read 12\nmain;parse 3\nmain;write_[k] 1\n"


def wick(*args, stdin=None, binary=WICK_ASAN, ok=True):
    p = subprocess.run([binary, "convert", *map(str, args)], input=stdin, capture_output=True, timeout=60)
    if ok:
        assert p.returncode == 0, p.stderr.decode()
    return p


def pprof(*args):
    p = subprocess.run([*pprof_command(), "-symbolize=none", *map(str, args)], capture_output=True, timeout=60,
                       env={**os.environ, "PPROF_TMPDIR": "/nonexistent"})
    assert p.returncode == 0, p.stderr.decode()
    return p.stdout.decode(errors="replace")


def raw(path):
    return pprof("-raw", path)


def content(path, tmp_path):
    """What a profile says, whatever its ids and the order of its tables: pprof renumbers when it merges, so it is merged
    with itself, as protobuf, for pprof takes the first of two legacy files for a binary."""
    same = tmp_path / "content.pb.gz"
    pprof("-proto", f"-output={same}", path)
    return pprof("-raw", same, same)


@pytest.fixture(scope="session")
def go_profiles(tmp_path_factory):
    out = tmp_path_factory.mktemp("goprofiles")
    subprocess.run([GO, "run", str(ROOT / "tests/integration/goprofiles/main.go"), str(out)], check=True, timeout=120)
    return sorted(out.iterdir())


@pytest.fixture(scope="session")
def golden_profiles(tmp_path_factory):
    """The profiles of the golden archives, and what the Collector was given."""
    found = []
    for archive in (DATA / "pprof-golden.tar.xz", SHARED / "pprof-golden.tar.gz"):
        if archive.exists():
            out = tmp_path_factory.mktemp("golden")
            with tarfile.open(archive) as t:
                t.extractall(out, [m for m in t.getmembers() if m.isfile() and Path(m.name).parent.name == "profiles"])
            found += sorted(p for p in out.rglob("*") if p.is_file())
    for place in OTLP:
        found += sorted(p for p in (place / "from-pprof").glob("*") if ".otlp." not in p.name)
    return found + sorted((SHARED / "tools/corpus/base").glob("*.pb.gz"))


def without_orphans(text):
    """OTLP has no place for a mapping that nothing refers to, and none for one that says nothing; pprof keeps the first one, the program,
    all the same. The others are numbered anew."""
    head, _, tail = text.partition("\nMappings\n")
    used = set(re.findall(r"^ *\d+: 0x[0-9a-f]+ M=(\d+) ", head, re.M))
    rows = [line.split(": ", 1) for line in tail.splitlines()]
    numbers = {n: str(i + 1) for i, n in enumerate(n for n, m in rows if n in used and m.split() != ["0x0/0x0/0x0"])}
    head = re.sub(r" M=(\d+) ", lambda m: f" M={numbers[m[1]]} " if m[1] in numbers else " ", head)
    return head, [(numbers[n], m) for n, m in rows if n in numbers]


def check_identity(path, tmp_path):
    wick(path, tmp_path / "a.otlp.pb")
    wick(tmp_path / "a.otlp.pb", tmp_path / "b.otlp.json")
    wick(tmp_path / "b.otlp.json", tmp_path / "c.pb.gz")
    ours, theirs = content(tmp_path / "c.pb.gz", tmp_path), content(path, tmp_path)
    assert ours == theirs or without_orphans(ours) == without_orphans(theirs), path


def check_reading(path, tmp_path):
    """pprof reads in what it makes of the file what it reads in what wick makes of it: ids and all. (Not in the file
    itself: profile.proto cannot hold the label bytes:[0] that pprof finds in some legacy files.)"""
    wick(path, tmp_path / "out.pb.gz")
    pprof("-proto", f"-output={tmp_path / 'theirs.pb.gz'}", path)
    assert raw(tmp_path / "out.pb.gz") == raw(tmp_path / "theirs.pb.gz"), path


@needs_go
def test_go_profiles(go_profiles, tmp_path):
    assert len(go_profiles) == 13
    for path in go_profiles:
        check_reading(path, tmp_path)
        check_identity(path, tmp_path)


@needs_go
def test_some_golden_profiles(golden_profiles, tmp_path):
    assert len(golden_profiles) >= 8
    for path in golden_profiles[::max(1, len(golden_profiles) // 8)]:
        check_reading(path, tmp_path)
        check_identity(path, tmp_path)


@needs_go
@pytest.mark.slow
def test_golden_profiles(golden_profiles, tmp_path):
    for path in golden_profiles:
        check_reading(path, tmp_path)
        check_identity(path, tmp_path)


@needs_go
def test_bytes_are_pprofs(go_profiles, tmp_path):
    """What google/pprof wrote comes out byte for byte."""
    for path in some(p for p in go_profiles if p.suffix == ".gz"):
        pprof("-proto", f"-output={tmp_path / 'theirs.pb.gz'}", path)
        wick(tmp_path / "theirs.pb.gz", tmp_path / "ours.pb")
        assert (tmp_path / "ours.pb").read_bytes() == gzip.decompress((tmp_path / "theirs.pb.gz").read_bytes()), path


def lines_sorted(text):
    """The Collector's translation mixes up the lines of a location, and loses the default type."""
    head, rest = text.replace("[dflt]", "").split("Locations\n")
    locations = []
    for line in rest.splitlines():
        if re.match(r" {13}\S", line):  # another line of the location above
            locations[-1][1].append(line.strip())
        else:
            words = re.match(r"( *\d+: 0x[0-9a-f]+ (?:M=\d+ )?)(.*)", line)
            locations.append((words[1], [words[2].strip()]) if words else (line, []))
    return head, [(key, sorted(lines)) for key, lines in locations]


@needs_go
@pytest.mark.parametrize("kind", ["pb", "json"])
def test_collector_translation(tmp_path, kind):
    """A pprof that went through the Collector as OTLP, taken back, is that pprof again."""
    paths = sorted(p for place in OTLP for p in (place / "from-pprof").glob(f"*.otlp.{kind}"))
    assert paths
    for path in paths:
        original = path.with_name(path.name.replace(f".otlp.{kind}", ""))
        if not original.exists():
            original = original.with_name(original.name + ".pb.gz")
        wick(path, tmp_path / "out.pb.gz")
        assert lines_sorted(content(tmp_path / "out.pb.gz", tmp_path)) == \
            lines_sorted(content(original, tmp_path)), path


def test_collector_files(tmp_path):
    """The file exporter's two formats are recognised."""
    paths = [p for place in OTLP for p in (*place.glob("*.jsonl"), *place.glob("*framed.bin"))]
    assert len(paths) >= 2
    for path in paths:
        wick(path, tmp_path / "out.pb")
        assert (tmp_path / "out.pb").stat().st_size > 500


# --- the other formats ---

def test_folded_round_trip(tmp_path):
    (tmp_path / "in.folded").write_text(FOLDED)
    for via in ("x.pb.gz", "x.otlp.pb", "x.otlp.json", "x.pb.zst"):
        wick(tmp_path / "in.folded", tmp_path / via)
        wick("--annotate", tmp_path / via, tmp_path / "out.folded")
        # pprof has no kinds of frames
        want = FOLDED if "otlp" in via else FOLDED.replace("_[k]", "")
        assert sorted((tmp_path / "out.folded").read_text().splitlines()) == sorted(want.splitlines()), via


def test_standard_streams():
    out = wick("--to", "speedscope", "-", "-", stdin=FOLDED.encode()).stdout
    doc = json.loads(out)
    profile = doc["profiles"][0]
    names = [f["name"] for f in doc["shared"]["frames"]]
    stacks = {";".join(names[i] for i in s): w for s, w in zip(profile["samples"], profile["weights"])}
    assert stacks == {"main;parse;read": 12, "main;parse": 3, "main;write": 1}
    assert profile["endValue"] == 16 and profile["type"] == "sampled" and profile["unit"] == "none"
    again = wick("--to", "folded", "-", "-", stdin=wick("--to", "otlp", "-", "-", stdin=FOLDED.encode()).stdout).stdout
    assert b"main;parse 3\n" in again


PERF = """app worker 100/101 [001] 1.5:   250000 cpu-clock:
\t  401000 f+0x10 (/bin/app)
\t  402000 main+0x20 (/bin/app)

app worker 100/101 [001] 1.6:   250000 cpu-clock:
\t  401000 f+0x10 (/bin/app)
\t  402000 main+0x20 (/bin/app)

"""


@needs_go
def test_perf_script(tmp_path):
    (tmp_path / "perf.txt").write_text(PERF)
    wick(tmp_path / "perf.txt", tmp_path / "out.pb.gz")
    text = raw(tmp_path / "out.pb.gz")
    assert "samples/count cpu/nanoseconds" in text
    assert "2     500000: 1 2" in text and "thread.name:[app worker]" in text and "0x401000 M=1 f" in text


@pytest.mark.slow
@pytest.mark.parametrize("options", [[], ["-F", "+srcline"], ["-F", "comm,tid,ip,sym"], ["-F", "comm,pid,tid,time,event,ip,sym,dso"]])
def test_real_perf_script(tmp_path, options):
    """Every sample of a real recording is counted, with the stack that perf prints."""
    data = tmp_path / "perf.data"
    record = subprocess.run(["perf", "record", "-q", "-g", "-e", "cpu-clock", "-F", "500", "-o", data, "sh", "-c",
                             "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done"], capture_output=True) \
        if shutil.which("perf") else None
    if not record or record.returncode:
        pytest.skip("perf cannot record here")
    text = subprocess.run(["perf", "script", "-i", data, *options], capture_output=True, timeout=120).stdout
    (tmp_path / "perf.txt").write_bytes(text)
    out = wick("--to=folded", "--type=samples", tmp_path / "perf.txt", "-").stdout.decode()
    samples = [block for block in text.decode().split("\n\n") if block.strip()]
    assert sum(int(line.rsplit(" ", 1)[1]) for line in out.splitlines()) == len(samples) > 10


def test_choice_of_type(tmp_path):
    (tmp_path / "perf.txt").write_text(PERF)
    assert wick("--to=folded", "--type=samples", tmp_path / "perf.txt", "-").stdout == b"main;f 2\n"
    assert wick("--to=folded", tmp_path / "perf.txt", "-").stdout == b"main;f 500000\n"
    p = wick("--to=folded", "--type=nonsense", tmp_path / "perf.txt", "-", ok=False)
    assert p.returncode == 1 and b"no sample type 'nonsense'" in p.stderr


# --- what is refused, and how ---

def test_usage(tmp_path):
    for args in ([], ["x"], ["--nonsense", "a", "b"]):
        assert wick(*args, ok=False).returncode == 2
    assert b"usage: wick convert" in wick("--help").stdout
    p = wick("-", tmp_path / "out.nonsense", stdin=b"a 1\n", ok=False)
    assert p.returncode == 2 and b"--to" in p.stderr


@pytest.mark.parametrize("data, words", [
    (b"", b"empty input file"),
    (b"hello\n", b"unrecognized profile format"),
    (b"a;b 1\na;b\n", b"line 2"),
    (b"\x0a\x04\x08\x01\x10\x02\x12\x7f", b"at byte 6"),
    (b"{\"resourceProfiles\":[", b"byte 2"),
    (gzip.compress(b"hello world, again and again", mtime=0)[:-9], b"standard input: "),
])
def test_refused(data, words):
    p = wick("--to=folded", "-", "-", stdin=data, ok=False)
    assert p.returncode == 1 and words in p.stderr and p.stderr.count(b"\n") == 1, p.stderr


def test_every_truncation(tmp_path):
    """A cut file is an error or, at the seams, a smaller profile; never a crash."""
    (tmp_path / "in").write_text(FOLDED)
    wick(tmp_path / "in", tmp_path / "x.pb")
    whole = (tmp_path / "x.pb").read_bytes()
    for n in range(0, len(whole), 7):
        assert wick("--to=folded", "-", "-", stdin=whole[:n], ok=False).returncode in (0, 1)


@needs_go
def test_scripted_names_and_program(tmp_path):
    """`<module>` of Python stays: a frame that is not native has no system name, which pprof would demangle. "File:" is the
    program, not the library that was sampled first."""
    strings = ["", "cpu", "nanoseconds", "<module>", "app.py", "/usr/lib/libc.so.6", "/usr/bin/python3.11", "profile.frame.type", "write", "main"]
    doc = {"resourceProfiles": [{"resource": {}, "scopeProfiles": [{"scope": {}, "profiles": [{
        "sampleType": {"typeStrindex": 1, "unitStrindex": 2}, "samples": [{"stackIndex": 1, "values": ["7"]}]}]}]}],
        "dictionary": {
            "stringTable": strings, "linkTable": [{}],
            "mappingTable": [{}, {"filenameStrindex": 5}, {"filenameStrindex": 6}],
            "functionTable": [{}, {"nameStrindex": 3, "systemNameStrindex": 3, "filenameStrindex": 4}, {"nameStrindex": 8, "systemNameStrindex": 8},
                              {"nameStrindex": 9, "systemNameStrindex": 9}],
            "attributeTable": [{}, {"keyStrindex": 7, "value": {"stringValue": "cpython"}}, {"keyStrindex": 7, "value": {"stringValue": "native"}}],
            "locationTable": [{}, {"lines": [{"functionIndex": 1, "line": "3"}], "attributeIndices": [1]},
                              {"mappingIndex": 1, "address": "4096", "lines": [{"functionIndex": 2}], "attributeIndices": [2]},
                              {"mappingIndex": 2, "address": "8192", "lines": [{"functionIndex": 3}], "attributeIndices": [2]}],
            "stackTable": [{}, {"locationIndices": [2, 1, 3]}]}}
    (tmp_path / "in.json").write_text(json.dumps(doc))
    wick(tmp_path / "in.json", tmp_path / "out.pb.gz")
    p = subprocess.run([*pprof_command(), "-top", str(tmp_path / "out.pb.gz")], capture_output=True, text=True, timeout=60,
                       env={**os.environ, "PPROF_TMPDIR": "/nonexistent", "PPROF_BINARY_PATH": "/nonexistent"})
    assert p.returncode == 0, p.stderr
    assert "<module>" in p.stdout and "<unknown>" not in p.stdout, p.stdout
    assert p.stdout.startswith("File: python3.11\n"), p.stdout
    text = raw(tmp_path / "out.pb.gz")
    assert "1: 0x0/0x0/0x0 /usr/bin/python3.11" in text and "2: 0x0/0x0/0x0 /usr/lib/libc.so.6" in text, text
