# SPDX-License-Identifier: Apache-2.0
"""The files of `wick record`, as Go's pprof reads them: mappings, names, inlined calls, source and instructions."""
import http.server
import os
import re
import shutil
import socket
import subprocess
import threading
import time
import urllib.request
import xml.etree.ElementTree

import pytest

from agent_tools import WICK, build, needs_bpf
from go_tools import needs_go, pprof_command
from wick_tools import some

SHOP = """
#include <cmath>
#include <cstdio>
#include <ctime>
static inline __attribute__((always_inline)) double tax(double x)
{
    double s = 0;
    for (int i = 0; i < 1000; i++)
        s += std::sqrt(x + i);
    return s;
}
__attribute__((noinline)) double price(int n)
{
    double s = 0;
    for (int i = 0; i < n; i++)
        s += tax(i);
    return s;
}
int main()
{
    double s = 0;
    while (clock() < CLOCKS_PER_SEC / 2)
        s += price(100);
    return s < 0;
}
"""


@pytest.fixture(autouse=True)
def bpf():
    needs_bpf()


def run(*words, ok=True):
    p = subprocess.run(list(map(str, words)), capture_output=True, text=True, timeout=120)
    assert not ok or p.returncode == 0, (words, p.stderr)
    return p


@pytest.fixture(scope="module", params=["pie", "no-pie"])
def recorded(request, tmp_path_factory):
    """A program with an inlined call, and what was recorded of it."""
    needs_bpf()
    d = tmp_path_factory.mktemp("recorded")
    (d / "shop.cc").write_text(SHOP)
    run("g++", "-O2", "-g", f"-{request.param}", "-o", d / "shop", d / "shop.cc")
    run(WICK, "record", "-q", "-F", 499, "-o", d / "shop.pb.gz", "--", d / "shop")
    return d / "shop", d / "shop.pb.gz"


def mappings(text):
    """(start, limit, offset, file, flags) of each mapping of `pprof -raw`."""
    found = re.findall(r"^\d+: (0x[0-9a-f]+)/(0x[0-9a-f]+)/(0x[0-9a-f]+) (\S+) \S+ ?(.*)$", text.split("\nMappings\n")[1], re.M)
    return [(int(a, 16), int(b, 16), int(c, 16), file, flags) for a, b, c, file, flags in found]


@needs_go
def test_mappings(recorded):
    exe, file = recorded
    found = mappings(run(*pprof_command(), "-raw", file).stdout)
    assert found[0][3] == str(exe) and "[FN][FL][LN][IN]" in found[0][4], found
    for start, limit, *_ in some(found):
        assert 0 < start < limit, found
    ranges = sorted(m[:2] for m in found)
    assert all(a[1] <= b[0] for a, b in some(zip(ranges, ranges[1:]))), found


@needs_go
def test_names_and_inlined_calls_are_kept(recorded):
    """pprof reads the binary again only if the file has no names: what wick found must survive, and it also with them."""
    _, file = recorded
    raw = run(*pprof_command(), "-raw", file).stdout
    assert re.search(r"tax \S+shop.cc:\d+:0 s=\d+\n\s+price \S+shop.cc:\d+:0 s=\d+\(_Z5pricei\)", raw), raw
    assert re.search(r"\btax \(inline\)", run(*pprof_command(), "-top", file).stdout)


@needs_go
def test_go_reads_the_same_addresses(recorded):
    """Go's pprof finds the same function at each address when it reads the binary itself."""
    exe, file = recorded
    ours, theirs = (run(*pprof_command(), "-symbolize", how, "-traces", file).stdout for how in ("none", "force"))
    assert ours.count("price") and theirs.count("price") == ours.count("price")
    assert theirs.count("main") == ours.count("main")


@needs_go
@pytest.mark.skipif(not shutil.which("objdump"), reason="no objdump")
def test_instructions(recorded):
    _, file = recorded
    text = run(*pprof_command(), "-disasm", "price", file).stdout
    lines = text.splitlines()
    root = next(i for i, line in enumerate(lines) if "SQRTSD" in line)
    # where the time goes; many CPUs are interrupted at the instruction after it
    assert any(re.match(r"\s+[\d.]+m?s\s+[\d.]+m?s\s+[0-9a-f]+: ", line) for line in lines[root:root + 2]), text


@needs_go
@pytest.mark.skipif(not shutil.which("objdump"), reason="no objdump")
def test_source(recorded, tmp_path):
    exe, file = recorded
    out = tmp_path / "list.html"
    run(*pprof_command(), "-output", out, "-weblist", "price", file)
    page = out.read_text()
    assert "std::sqrt(x" in page and re.search(r"sqrtsd", page, re.I)
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    p = subprocess.Popen([*pprof_command(), "-no_browser", f"-http=127.0.0.1:{port}", str(file)], stderr=subprocess.DEVNULL)
    try:
        end = time.time() + 60
        while True:
            try:
                page = urllib.request.urlopen(f"http://127.0.0.1:{port}/ui/source?f=price", timeout=30).read().decode()
                break
            except OSError:
                assert time.time() < end
                time.sleep(0.1)
    finally:
        p.kill()
        p.wait()
    assert "std::sqrt(x" in page and re.search(r"sqrtsd", page, re.I)


def test_import_of_an_export(recorded, tmp_path):
    """What a store exports is what it got, and importing it into another one gives the same again."""
    _, file = recorded
    files = [file]
    for i in (1, 2):
        files.append(tmp_path / f"{i}.pb.gz")
        run(WICK, "store", "import", "--store", tmp_path / f"store{i}", files[-2])
        run(WICK, "store", "export", "--store", tmp_path / f"store{i}", "--from", "now-1d", "--format", "pprof", "-o", files[-1])
    seen = [run(WICK, "pprof", "-symbolize=none", "-traces", "-lines", f).stdout.split("-----", 1)[1] for f in files]
    blocks = [sorted(re.split(r"-{3,}\+-{3,}\n", s)) for s in seen]
    assert "tax" in seen[0] and "price" in seen[0]
    assert blocks[0] == blocks[1] == blocks[2]
    raws = [run(WICK, "pprof", "-symbolize=none", "-raw", f).stdout.split("\nLocations\n")[1] for f in files]
    addresses = [set(re.findall(r"(0x[0-9a-f]+) M=", raw)) for raw in raws]
    assert addresses[0] == addresses[1] == addresses[2]


def test_two_types_are_two_files(tmp_path):
    for types, first, second, name in (("cpu,offcpu", "cpu", "off_cpu", "x.off_cpu.pb.gz"), ("offcpu,cpu", "off_cpu", "cpu", "x.cpu.pb.gz")):
        p = subprocess.run([WICK, "record", "-F", "999", "-t", types, "-d", "2s", "-o", tmp_path / "x.pb.gz", "--", "sh", "-c",
                            "i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done; sleep 0.2; true"], capture_output=True, text=True, timeout=60)
        assert p.returncode == 0 and name in p.stderr, p.stderr
        for path, kind in ((tmp_path / "x.pb.gz", first), (tmp_path / name, second)):
            assert f"Type: {kind}\n" in run(WICK, "pprof", "-top", path).stdout
            path.unlink()


def test_svg(tmp_path):
    """A well-formed picture in which every function is as wide as its share."""
    source = tmp_path / "x.folded"
    source.write_text("main;a<b>&\"'\x01 30\nmain;b 60\nmain 10\n")
    out = tmp_path / "x.svg"
    run(WICK, "convert", source, out)
    svg = "{http://www.w3.org/2000/svg}"
    frames = {}
    for g in xml.etree.ElementTree.parse(out).getroot().iter(svg + "g"):
        rect = g.find(svg + "rect")
        frames[g.find(svg + "title").text.rsplit(" (", 1)[0]] = tuple(float(rect.get(k)) for k in ("x", "y", "width"))
    assert set(frames) == {"all", "main", "a<b>&\"'?", "b"}
    whole = frames["all"][2]
    assert [round(frames[n][2] / whole, 3) for n in ("main", "a<b>&\"'?", "b")] == [1, 0.3, 0.6]
    assert frames["all"][1] > frames["main"][1] > frames["b"][1] == frames["a<b>&\"'?"][1]


@pytest.mark.parametrize("words,said", [
    (["-F", "0"], "--rate 0 is out of range: 1 to 10000 samples per second"),
    (["-F", "10001"], "--rate 10001 is out of range"),
    (["-o", "x"], "cannot tell the output format from the name 'x': end it in .pb.gz"),
    (["-o", "/no/such/x.pb.gz"], "--output /no/such/x.pb.gz: No such file"),
    (["--html", "/no/such/x.html"], "--html /no/such/x.html: No such file"),
    (["--stats", "/no/such/x.json"], "--stats /no/such/x.json: No such file"),
])
def test_checked_before_the_command_runs(tmp_path, words, said):
    p = subprocess.run([WICK, "record", *words, "--", "sh", "-c", "echo ran"], capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert p.returncode == 2 and said in p.stderr and "ran" not in p.stdout, p.stderr
    assert not list(tmp_path.iterdir())


def names_of_children(tmp_path, via, options, seconds):
    exe, out = build(tmp_path, "children.c", "children", "-O2"), tmp_path / "o.folded"
    parent = subprocess.Popen([exe, str(seconds / 3)], stdout=subprocess.PIPE)
    try:
        assert parent.stdout.readline() == b"running\n"
        p = subprocess.run([WICK, "record", "-q", "--via", via, "-p", str(parent.pid), *options, "-d", f"{seconds}s", "-o", out],
                           capture_output=True, text=True, timeout=120)
    finally:
        parent.kill()
        parent.wait()
    text = out.read_text() if out.exists() else ""
    return {name for name in ("early", "late") if name in text}, p.stderr


@pytest.mark.parametrize("via", ["bpf", "perf"])
@pytest.mark.parametrize("options,expected", [((), {"early", "late"}), (("--no-children",), set())])
def test_children_of_a_process(tmp_path, via, options, expected):
    """-p takes children that run already and those that are started later, unless told otherwise."""
    if via == "bpf":
        needs_bpf()
    found, said = names_of_children(tmp_path, via, options, 1.5)
    if found < expected:  # on a busy machine a child may not have run
        found, said = names_of_children(tmp_path, via, options, 15)
    assert found == expected, said


def test_cost_of_a_short_command(tmp_path):
    """What starting costs is no share of a command that ends at once: it is said in CPU-seconds."""
    needs_bpf()
    p = subprocess.run([WICK, "record", "-o", str(tmp_path / "x.pb.gz"), "--", "true"], capture_output=True, text=True, timeout=60)
    cost = re.search(r"^wick: \d\.\d s, \d+ samples via bpf, 0 lost, cost (\d+\.\d+) CPU-s$", p.stderr, re.M)
    assert cost and 0 < float(cost[1]) < 5, p.stderr


def test_top_has_30_rows(tmp_path):
    needs_bpf()
    source = tmp_path / "many.c"
    functions = "".join(f"__attribute__((noinline)) void f{i}(void) {{ for (int k = 0; k < 5000; k++) sum += sum * 3 + {i}; }}\n" for i in range(60))
    calls = "".join(f"f{i}();" for i in range(60))
    source.write_text("#include <time.h>\nstatic volatile unsigned long sum;\n" + functions +
                      "int main(void) { while (clock() < 2 * CLOCKS_PER_SEC) {" + calls + "} }\n")
    exe = build(tmp_path, source, "many", "-O1")
    p = subprocess.run([WICK, "record", "-q", "-F", "997", "--top", "--", exe], capture_output=True, text=True, timeout=120)
    rows = p.stdout.split("flat%")[1].splitlines()[1:]
    assert p.returncode == 0 and len(rows) == 30, p.stdout + p.stderr


VERSIONED = """
#include <time.h>
static volatile unsigned long sum;
__attribute__((noinline)) void spin_old(void) { clock_t end = clock() + CLOCKS_PER_SEC / 2; while (clock() < end) for (int i = 0; i < 100000; i++) sum += sum * 3; }
__asm__(".symver spin_old, spin@@V1.2");
"""


@pytest.mark.parametrize("via", ["bpf", "perf"])
def test_names_have_no_versions(tmp_path, via):
    """.symtab has "spin@@V1.2"; a name is the same whatever table it comes from."""
    if via == "bpf":
        needs_bpf()
    (tmp_path / "v.c").write_text(VERSIONED)
    (tmp_path / "v.map").write_text("V1.2 { global: spin; local: *; };")
    (tmp_path / "m.c").write_text("void spin(void); int main(void) { spin(); return 0; }")
    flags = ["-O1", "-shared", "-fPIC", f"-Wl,--version-script={tmp_path}/v.map"]
    build(tmp_path, tmp_path / "v.c", "libv.so", *flags)
    subprocess.run(["gcc", "-o", tmp_path / "m", tmp_path / "m.c", tmp_path / "libv.so", f"-Wl,-rpath,{tmp_path}"], check=True)
    symbols = subprocess.run(["readelf", "-sW", tmp_path / "libv.so"], capture_output=True, text=True, check=True).stdout
    assert "spin@@V1.2" in symbols
    out = tmp_path / "o.folded"
    p = subprocess.run([WICK, "record", "-q", "--via", via, "-F", "997", "-o", out, "--", tmp_path / "m"], capture_output=True, text=True, timeout=120)
    assert p.returncode == 0, p.stderr
    assert re.search(r";spin(_old)?[; ]", out.read_text()) and "@" not in out.read_text(), out.read_text()


def frames_of_svg(path):
    svg = "{http://www.w3.org/2000/svg}"
    return [g.find(svg + "title").text.rsplit(" (", 1)[0] for g in xml.etree.ElementTree.parse(path).getroot().iter(svg + "g")]


def test_cpu_and_waits_in_one_picture(tmp_path):
    """Both types are times: a flame graph of both has one half for each."""
    out = tmp_path / "x.svg"
    p = subprocess.run([WICK, "record", "-F", "999", "-t", "cpu,offcpu", "-o", out, "--html", tmp_path / "x.html", "--", "sh", "-c",
                        "i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done; sleep 0.3; true"], capture_output=True, text=True, timeout=60)
    assert p.returncode == 0, p.stderr
    names = frames_of_svg(out)
    assert {"on CPU", "off CPU"} <= set(names), names
    page = (tmp_path / "x.html").read_text()
    assert "on CPU" in page and "off CPU" in page
    assert sorted(f.name for f in tmp_path.iterdir()) == ["x.html", "x.svg"]


@pytest.fixture
def stripped(tmp_path):
    """A program without names, and its debug file under its build id, as a debuginfod server has it."""
    exe, folder = build(tmp_path, "chain.c", "nameless", "-O1", "-g", "-fno-omit-frame-pointer"), tmp_path / "buildid"
    build_id = re.search(r"Build ID: (\w+)", run("readelf", "-n", exe).stdout)[1]
    (folder / build_id).mkdir(parents=True)
    run("objcopy", "--only-keep-debug", exe, folder / build_id / "debuginfo")
    run("strip", exe)
    return exe


def record_stripped(exe, tmp_path, *options, **env):
    return subprocess.run([WICK, "record", "-F", "999", *options, "-o", tmp_path / "x.folded", "--", exe, "5", "1"],
                          capture_output=True, text=True, timeout=60, env={**os.environ, **env})


def test_few_names_come_with_what_helps(stripped, tmp_path):
    p = record_stripped(stripped, tmp_path, DEBUGINFOD_URLS="")
    assert p.returncode == 0 and re.search(r"addresses in \S*nameless have no name: it belongs to no package: build it with -g", p.stderr), \
        p.stderr


def test_debuginfod(stripped, tmp_path):
    """What is missing is fetched, once: the second time the cache has it, and the server is gone."""
    cache, asked = tmp_path / "cache", []

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *args):
            super().__init__(*args, directory=tmp_path)

        def log_message(self, *args):
            asked.append(self.path)

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}/"
    for urls in (url, "http://127.0.0.1:1"):
        p = record_stripped(stripped, tmp_path, "--debuginfod", urls, DEBUGINFOD_CACHE_PATH=str(cache))
        assert p.returncode == 0, p.stderr
        assert "main;" in (tmp_path / "x.folded").read_text() and ";leaf " in (tmp_path / "x.folded").read_text(), p.stderr
        assert not re.search(r"\S*nameless have no name", p.stderr), p.stderr
        server.shutdown()
    assert asked and (cache / asked[0].split("/")[-2] / "debuginfo").exists()
