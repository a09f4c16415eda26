# SPDX-License-Identifier: Apache-2.0
"""The web UI in a real browser: Debian's chromium, driven by playwright-core, on a real server with real profiles. Each
module of tests/ui/suites is one test; its checks are listed when it fails. Screenshots go to build/screenshots."""
import base64
import json
import os
import re
import shutil
import subprocess
import threading
import time
import urllib.parse
from pathlib import Path

import pytest

pytest.importorskip("opentelemetry.proto.common.v1.common_pb2")
import file_oracles  # noqa: E402
import timed_data  # noqa: E402
import ui_data  # noqa: E402
from opentelemetry.proto.profiles.v1development import profiles_pb2  # noqa: E402
from wick_tools import NASTY, ROOT, WICK, Served, Server, convert, some

MODULES = ROOT / ".cache/ui-test"
CHROMIUM = os.environ.get("WICK_CHROMIUM", "/usr/bin/chromium")
SHOTS = ROOT / "build/screenshots"

if not shutil.which("node") or not Path(CHROMIUM).exists():
    pytest.skip("no node or no chromium here", allow_module_level=True)
if not (MODULES / "node_modules/playwright-core").exists():
    pytest.skip("playwright-core is not installed: tools/deps test", allow_module_level=True)


def run(suite, timeout=480, **config):
    SHOTS.mkdir(parents=True, exist_ok=True)
    env = {**os.environ, "WICK_UI_MODULES": str(MODULES), "WICK_CHROMIUM": CHROMIUM}
    p = subprocess.run(["node", str(ROOT / "tests/ui/run.mjs"), suite, json.dumps({"shots": str(SHOTS), **config})],
                       capture_output=True, text=True, env=env, timeout=timeout)
    results = [json.loads(line) for line in p.stdout.split("\n") if line.startswith("{")]
    assert results, p.stderr[-2000:]
    bad = [f"{r['name']}\n{r['error']}" for r in results if not r["ok"]]
    assert not bad, f"{len(bad)} of {len(results)} checks failed:\n" + "\n\n".join(bad)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    place = tmp_path_factory.mktemp("ui")
    (place / "shop").mkdir()
    (place / "shop/cart.go").write_text(ui_data.SOURCE)
    (place / "wick.yaml").write_text(f"source:\n  - prefix: /build/shop/\n    dir: {place}/shop\n    repository: https://forge.example/shop\n"
                                     f"  - prefix: /srv/search/\n    dir: {place}/search\n    link: vscode://file{{dir}}/{{path}}:{{line}}\n"
                                     "ui:\n  price_per_core_hour: 0.04\n  own_code: example.com\n")
    s = Server(place, "--config", str(place / "wick.yaml"))
    s.place, s.sent = place, time.time_ns()
    for r in some(ui_data.requests(s.sent)):
        status, body = s.send(r)
        assert status == 200, body
    yield s
    s.stop()


@pytest.mark.parametrize("suite", ["views", "explore", "flame", "details", "start", "compare", "truth", "live", "pages", "hostile", "states", "marks", "shown", "docs"])
def test_suite(server, suite):
    run(suite, url=server.url, hostile=ui_data.HOSTILE, hostileService=ui_data.HOSTILE_SERVICE, depth=ui_data.DEPTH, place=str(server.place), sent=server.sent // 1_000_000,
        otlp=str(server.place / "export.otlp"))
    if suite == "explore":  # what was taken away as OTLP is OTLP, with what was looked at
        taken = profiles_pb2.ProfilesData.FromString((server.place / "export.otlp").read_bytes())
        names = [taken.dictionary.string_table[f.name_strindex] for f in taken.dictionary.function_table]
        assert "example.com/shop/cart.encode" in names and "walk" not in names, names
        assert sum(sum(s.values) for r in taken.resource_profiles for c in r.scope_profiles for p in c.profiles for s in p.samples) > 0


def test_times(tmp_path):
    """Samples with times: the heat map and the flame chart."""
    s = Server(tmp_path, "--no-agent")
    try:
        data = timed_data.Timed()
        data.send(s)
        first = data.start // timed_data.S
        r = ui_data.Request("matcher", "1.0")  # from the sixth second on it compiles regular expressions
        r.profile("cpu", "nanoseconds", data.start, [])
        for i in range(1000):
            r.scope.profiles[-1].samples.add(stack_index=r.stack(("main", "match_route", "regcomp") if i >= 500 else ("main", "render")), values=[10**7],
                                             timestamps_unix_nano=[data.start + (i + 1) * 10**7 - 1])
        assert s.send(r.done())[0] == 200
        run("times", url=s.url, **{"from": first, "to": first + timed_data.SECONDS, "seconds": timed_data.SECONDS, "spike": timed_data.SPIKE})
    finally:
        s.stop()


def seen_twice(now):
    """A minute of a process, as libwick sends it and as another agent of the host does: 50 s and 48 s of CPU time."""
    for scope, sdk, function, seconds in (("ebpf-profiler", "", "seen_by_agent", 48), ("wick", "wick", "seen_by_sdk", 50)):
        r = ui_data.Request("twice", "1.0", "web-1", scope)
        a = r.r.resource_profiles[0].resource.attributes
        a.add(key="process.pid").value.int_value = 4711
        a.add(key="process.executable.name").value.string_value = "shopd"
        if sdk:
            a.add(key="telemetry.sdk.name").value.string_value = sdk
        r.profile("cpu", "nanoseconds", now - 600 * 10**9, [(("main", function), seconds * 10**9)], 60 * 10**9)
        yield r.done()


def test_sources_and_findings(tmp_path):
    """Two sources of one process, findings, and steps that are not complete: nothing in this test is made up in the browser."""
    now = time.time_ns()
    s = Server(tmp_path, "--no-agent")
    try:
        for r in some(reversed(list(seen_twice(now)))):
            assert s.send(r)[0] == 200
        r = ui_data.Request("finder", "1.0")
        for i in range(6):
            r.profile("cpu", "nanoseconds", now - (600 - 10 * i) * 10**9,
                      [(("main", "match_route", "regcomp"), 2 * 10**9), (("main", "match_route", "regcomp", "parse_brackets"), 5 * 10**8), (("main", "render"), 75 * 10**8)])
        assert s.send(r.done())[0] == 200
        r = ui_data.Request("steady", "1.0")
        for i in range(180, 7, -1):  # one core, until 70 s ago
            r.profile("cpu", "nanoseconds", now - 10 * i * 10**9, [(("main", "work"), 10 * 10**9)])
        assert s.send(r.done())[0] == 200
        r = ui_data.Request("minutely", "1.0")
        for i in range(40, 1, -1):  # one core for ten seconds of every minute
            r.profile("cpu", "nanoseconds", now - 60 * i * 10**9, [(("main", "work"), 10 * 10**9)])
        assert s.send(r.done())[0] == 200
        for version, first, last in (("1.4", 55, 30), ("1.5", 29, 12), ("1.4", 11, 2)):  # minutes ago: a rollback
            r = ui_data.Request("rolled", version)
            for i in range(first, last - 1, -1):
                slow = [(("main", "check"), 4 * 10**9)] if version == "1.5" else []
                r.profile("cpu", "nanoseconds", now - 60 * i * 10**9, [(("main", "work"), 10**9), (("main", "rest"), 10**9), *slow], 59 * 10**9)
            assert s.send(r.done())[0] == 200
        for version, first, last in (("1.9.0", 55, 30), ("1.10.0", 29, 2)):
            r = ui_data.Request("numbered", version)
            for i in range(first, last - 1, -1):
                r.profile("cpu", "nanoseconds", now - 60 * i * 10**9, [(("main", "work"), 10**9), (("main", "rest"), 10**9)])
            assert s.send(r.done())[0] == 200
        for service, version, first, last in (("daemon", "a" * 40, 55, 30), ("daemon", "b" * 40, 29, 2),  # build ids: of a service, and of a tool that is compiled and run
                                              ("vet", "/".join(4 * ["aFq_" * 5]), 40, 40), ("vet", "/".join(4 * ["bFq-" * 5]), 3, 3)):
            r = ui_data.Request(service, version)
            for i in range(first, last - 1, -1):
                r.profile("cpu", "nanoseconds", now - 60 * i * 10**9, [(("main", "work"), 10**9)])
            assert s.send(r.done())[0] == 200
        for version, first, size in (("old", 40, 50), ("new", 6, 80)):  # MB in use, each minute
            r = ui_data.Request("holder", version)
            for i in range(first, first - 5 if version == "new" else 6, -1):
                r.profile("inuse_space", "bytes", now - 60 * i * 10**9, [(("main", "cache"), size * 10**6)])
            assert s.send(r.done())[0] == 200
        r = ui_data.Request("rare", "1.0")  # a sample on one line, 1500 on another
        r.profile("cpu", "nanoseconds", now - 600 * 10**9, [(("main", ("tick", "/src/tick.c", 7)), 10**7), (("main", ("tick", "/src/tick.c", 9)), 15 * 10**9)])
        assert s.send(r.done())[0] == 200
        r = ui_data.Request("rare", "1.1")
        r.profile("cpu", "nanoseconds", now - 590 * 10**9, [(("main", ("tick", "/src/tick.c", 7)), 10**7)])
        assert s.send(r.done())[0] == 200
        for version, first, last in (("1.0", 55, 30), ("1.1", 29, 2)):  # built in two folders, with other lines; the first ones came without
            at, r = 10 if version == "1.0" else 20, ui_data.Request("moved", version)
            for i in range(first, last - 1, -1):
                work = ("work", "", 0, "native") if i > 50 else ("work", f"/build/{version}/w.c", at + 1, "native", at)
                r.profile("cpu", "nanoseconds", now - 60 * i * 10**9, [(("main", work), 10**9), (("main", ("run", f"{at}.py", 1, "cpython", 1)), 10**9),
                                                                             (("main", ("serve", f"/srv/{version}/app.py", at + 1, "cpython", at)), 10**9)])
            assert s.send(r.done())[0] == 200
        run("sources", url=s.url, back=(now - 11 * 60 * 10**9) // 10**6)
    finally:
        s.stop()


def test_demo_story(tmp_path):
    """The page of the server of wick demo, whose data is sent here; the suite moves the page's clock."""
    now = time.time_ns()
    s = Server(tmp_path, "--no-agent", WICK_DEMO_TIMES=f"{now + 600 * 10**9}:{now + 1200 * 10**9}")

    def send(version, start, work, host, n=7):  # 70 seconds: the verdict requires a minute
        r = ui_data.Request("checkout", version, host)
        for i in range(n):
            r.profile("cpu", "nanoseconds", start + i * 10**10,
                      [(("main", "price"), 10**9), (("main", "tax"), 10**9), (("main", "discount"), work * 10**9)])
        assert s.send(r.done())[0] == 200

    send("1.5.0", now - 130 * 10**9, 1, "web-1", 12)
    signal, over = tmp_path / "signal", threading.Event()

    def deploy():
        for word, host, work in (("deploy", "web-1", 7), ("more", "web-2", 16)):
            while not (signal.exists() and signal.read_text() == word) and not over.wait(0.05):
                pass
            send("1.6.0", now - 60 * 10**9, work, host)

    later = threading.Thread(target=deploy)
    later.start()
    try:
        run("demo", url=s.url, signalFile=str(signal))
    finally:
        over.set()
        later.join()
        s.stop()


@pytest.mark.slow
def test_walk(tmp_path):
    """Three questions to a running demo, answered by clicks that are counted."""
    env = {**os.environ, "WICK_EXPORT_INTERVAL_MS": "1000", "WICK_RATE": "1000"}
    with subprocess.Popen([WICK, "demo", "-d", "600s", "--deploy-after", "75s", "--http", "127.0.0.1:0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=tmp_path, env=env) as p:
        try:
            url = next(line.strip() for line in p.stdout if line.startswith("  http://"))
            next(line for line in p.stdout if line.startswith("Verdict: "))
            run("walk", url=url)
        finally:
            p.terminate()


BURN = """#include <time.h>

__attribute__((noinline)) unsigned burn(unsigned n)
{
    unsigned x = 1;
    for (unsigned i = 0; i < n; i++) x = x * 3 + i;
    return x;
}

int main(void)
{
    unsigned sum = 0;
    while (clock() < 3 * CLOCKS_PER_SEC) /* the lines of a shorter one are not waited for */
        sum += burn(1000000);
    return sum == 1;
}
"""


def test_source_lines(tmp_path):
    """A program with debug information, profiled by wick run, with its source in a directory of the configuration."""
    (tmp_path / "burn.c").write_text(BURN)
    subprocess.run(["cc", "-g", "-O0", "-o", "burn", str(tmp_path / "burn.c")], cwd=tmp_path, check=True)
    (tmp_path / "wick.yaml").write_text(f"source:\n  - prefix: {tmp_path}/\n    dir: {tmp_path}\n")
    s = Server(tmp_path, "--config", str(tmp_path / "wick.yaml"), "--no-agent")
    try:
        done = subprocess.run([WICK, "run", "-t", "cpu", "--export", "http://" + s.grpc, "--", "./burn"], cwd=tmp_path, timeout=60, capture_output=True,
                              text=True, env={**os.environ, "OTEL_SERVICE_NAME": "burner"})
        assert done.returncode == 0, done.stderr
        # libwick says when each sample was taken, and on which thread
        which = "query=" + urllib.parse.quote('cpu{service.name="burner"}') + "&from=now-10m"
        heat, chart = s.json("/api/v1/heatmap?" + which), s.json("/api/v1/chart?" + which)
        assert heat["untimed"] == 0 and heat["timed"] > 2 * 10**9, {k: v for k, v in heat.items() if k != "values"}
        assert len(chart["threads"]) == 1 and chart["untimed"] == 0, [t["name"] for t in chart["threads"]]
        thread = chart["threads"][0]
        assert thread["id"] == thread["pid"] > 1 and abs(thread["running"] - heat["timed"]) < heat["timed"] / 20, {k: v for k, v in thread.items() if k != "cells"}
        subprocess.run([WICK, "symbols", "upload", "--server", s.url, "burn"], cwd=tmp_path, check=True, capture_output=True)
        listing = subprocess.run(["objdump", "-d", "--no-show-raw-insn", "--disassemble=burn", "burn"], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
        code = [("0x" + a.strip(), " ".join(text.split())) for a, text in re.findall(r"^ +([0-9a-f]+):\t(.*)$", listing, re.M)]
        run("source", url=s.url, service="burner", file=str(tmp_path / "burn.c"), line=6, code=code)
    finally:
        s.stop()


@pytest.mark.slow
def test_live_in_every_view(server):
    run("live", timeout=1500, url=server.url, every=True, timed="query=cpu")


@pytest.mark.slow
@pytest.mark.parametrize("part", ["pictures", "still"])
def test_every_view(tmp_path, part):
    """Every view in every size and theme (pictures in build/screenshots), and eight minutes of it while new data arrive.
    WICK_UI_VIEWS names some of them."""
    (tmp_path / "wick.yaml").write_text("ui:\n  price_per_core_hour: 0.04\n")
    s = Server(tmp_path, "--config", str(tmp_path / "wick.yaml"), "--no-agent")
    stop = threading.Event()

    def keep_sending():
        while not stop.wait(2):
            r = ui_data.Request("checkout", "1.5.0")
            # the largest function already: one that overtakes another moves rows, as it should
            r.profile("cpu", "nanoseconds", time.time_ns() - 5 * 10**9, [(("main", "render"), 10**9)], 5 * 10**9)
            s.send(r.done())

    sender = threading.Thread(target=keep_sending)
    try:
        for r in some(ui_data.requests(time.time_ns())):
            assert s.send(r)[0] == 200
        data = timed_data.Timed()
        data.send(s)
        first = data.start // timed_data.S
        sender.start()
        more = {"only": os.environ["WICK_UI_VIEWS"].split(",")} if "WICK_UI_VIEWS" in os.environ else {}
        run("every", timeout=3000, url=s.url, part=part, **more,
            timed="query=" + urllib.parse.quote('cpu{service.name="ticker"}') + f"&from={first}&to={first + timed_data.SECONDS}")
    finally:
        stop.set()
        if sender.is_alive():
            sender.join()
        s.stop()


def test_upload(server):
    """Two profiles of wall time, of Node and in speedscope's form."""
    cpuprofile = ROOT / "tests/data/files/node-20.cpuprofile"

    def file(name, data, total, frame):
        return {"name": name, "data": base64.b64encode(data).decode(), "total": total, "frame": frame}

    total = sum(file_oracles.cpuprofile(cpuprofile)["wall"].values())
    other = json.dumps({"shared": {"frames": [{"name": "main"}, {"name": "parse"}]}, "$schema": "x", "profiles": [
        {"type": "sampled", "name": "t", "unit": "nanoseconds", "samples": [[0, 1], [0]], "weights": [3000000, 2000000]}]}).encode()
    run("upload", url=server.url, profile=file("app.cpuprofile", cpuprofile.read_bytes(), total, "fib"),
        other=file("b.speedscope.json", other, 5000000, "parse"), files=real_files())


def real_files():
    """Every file of tests/data/files, each written by the tool of its name, with the totals of its types as `wick convert` reads them
    (test_files.py compares those with the tools)."""
    answer = []
    for path in sorted((ROOT / "tests/data/files").iterdir()):
        if ".expected." not in path.name:
            doc = json.loads(subprocess.run([WICK, "convert", str(path), "--to", "otlp-json", "-"], capture_output=True, check=True, timeout=60).stdout)
            profiles = [p for r in doc["resourceProfiles"] for s in r["scopeProfiles"] for p in s["profiles"]]
            totals = {}
            for p in profiles:
                kind = p["sampleType"]["typeStrindex"]
                totals[kind] = totals.get(kind, 0) + sum(int(v) for s in p.get("samples", []) for v in s["values"])
            answer.append({"name": path.name, "path": str(path), "totals": sorted(totals.values())})
    assert len(answer) > 8
    return answer


def test_empty_server(tmp_path):
    s = Server(tmp_path)
    try:
        run("empty", url=s.url)
    finally:
        s.stop()


def test_login(tmp_path):
    def token(scope):
        return subprocess.run([WICK, "token", "create", "--file", str(tmp_path / "tokens"), "--scope", scope], capture_output=True,
                              text=True, check=True).stdout.strip()

    tokens = {scope: token(scope) for scope in ("read", "write")}
    s = Server(tmp_path)
    try:
        run("login", url=s.url, **tokens)
    finally:
        s.stop()


def test_server_gone(tmp_path):
    """The suite says when the server should go away and come back, by files."""
    s = Server(tmp_path)
    address = s.url.split("//")[1]
    s.send(ui_data.requests()[0])
    signal = tmp_path / "signal"
    env = {**os.environ, "WICK_UI_MODULES": str(MODULES), "WICK_CHROMIUM": CHROMIUM}
    p = subprocess.Popen(["node", str(ROOT / "tests/ui/run.mjs"), "gone", json.dumps({"url": s.url, "signal": str(signal), "shots": str(SHOTS)})],
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)
    try:
        deadline = time.time() + 120
        while p.poll() is None and time.time() < deadline:
            if signal.exists():
                what = signal.read_text().strip()
                if what == "stop":
                    s.stop()
                elif what == "start":
                    s.options = ("--http", address)
                    s.start()
                if what:
                    signal.write_text("")
            time.sleep(0.05)
        out, err = p.communicate(timeout=30)
        results = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
        assert results, err[-2000:]
        assert all(r["ok"] for r in results), results
    finally:
        if p.poll() is None:
            p.kill()
        if s.p.poll() is None:
            s.stop()


def test_html_export(tmp_path):
    """`wick convert x.html`: the same flame graph without a server; names are never markup."""

    text = "".join(f"main;work;{n} {i + 1}\n" for i, n in enumerate(NASTY)) + "main;idle 20\n"
    r = ui_data.Request("shop")
    r.profile("cpu", "nanoseconds", 10**18, [(("_start", "Py_RunMain", ("run_mod", "/srv/app.py", 7), "_PyEval_EvalFrameDefault", ("price", "/srv/app.py", 9)), 10**9)])
    (tmp_path / "python.otlp").write_bytes(r.done().SerializeToString())
    subprocess.run([WICK, "convert", tmp_path / "python.otlp", tmp_path / "python.html"], check=True, capture_output=True)
    run("export", url="file://" + str(convert(tmp_path, text)), python=f"file://{tmp_path}/python.html", diff="file://" + str(convert(tmp_path, text, base="main;old 9\nmain;idle 3\n",
        name="diff.folded")), nasty=[n for n in NASTY if ";" not in n])


def test_pprof_http(tmp_path):
    from pprof_random import profile

    for name, seed in (("a", 1), ("b", 2)):
        (tmp_path / f"{name}.pb.gz").write_bytes(profile(seed, "heap"))
    one = Served([WICK, "pprof", "-no_browser", "-symbolize=none", "-http=localhost:", str(tmp_path / "a.pb.gz")], tmp_path)
    two = Served([WICK, "pprof", "-no_browser", "-symbolize=none", "-http=localhost:", f"-diff_base={tmp_path}/b.pb.gz", str(tmp_path / "a.pb.gz")], tmp_path)
    try:
        run("pprof", url=f"http://{one.host}", token=one.token)
        run("pprof_diff", url=f"http://{two.host}", token=two.token)
    finally:
        one.stop()
        two.stop()
