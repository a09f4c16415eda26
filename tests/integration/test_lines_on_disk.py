# SPDX-License-Identifier: Apache-2.0
"""Lines and inlined calls on the default, on-disk server: for every way in, after a restart, and equal to what `wick record` and
llvm-symbolizer say."""
import json
import os
import shutil
import subprocess
import time

import pytest
from agent_tools import WICK, compare, locations, needs_bpf, with_lines
from wick_tools import Server, wait_for

INLINED = "shop::Cart::total"  # only ever inlined
OURS = ("shop.cc", "driver.cc")


@pytest.fixture(autouse=True)
def tools():
    needs_bpf()
    if not shutil.which("g++"):
        pytest.skip("no g++")


def rows(server, service, by):
    return server.json(f"/api/v1/top?by={by}&limit=1000&query=cpu%7Bservice.name=%22{service}%22%7D")["rows"]


def shares(server, service):
    """{function: share of the time with it on the stack}; each function once, although lines arrive for some addresses first."""
    found = rows(server, service, "function")
    names = [(r["name"], r.get("kind") == "kernel") for r in found]
    assert len(set(names)) == len(names), [n for n in names if names.count(n) > 1]
    whole = max((r["total"] for r in found), default=1)
    return {r["name"]: r["total"] / whole for r in found}


def recorded_shares(tmp_path, exe):
    out = subprocess.run([WICK, "record", "-q", "-F", "499", "-o", tmp_path / "x.folded", "--", exe, "1"], capture_output=True)
    assert out.returncode == 0, out.stderr
    total, by = 0, {}
    for line in (tmp_path / "x.folded").read_text().splitlines():
        stack, value = line.rsplit(" ", 1)
        total += int(value)
        for name in set(stack.split(";")):
            by[name] = by.get(name, 0) + int(value)
    return {name: v / total for name, v in by.items()}


def download(server, service, tmp_path):
    """What the server has of a service, as an OTLP request in JSON."""
    out = tmp_path / "stored.pb.gz"
    status, body = server.get(f"/api/v1/profile?query=cpu%7Bservice.name=%22{service}%22%7D")
    assert status == 200, body
    out.write_bytes(body)
    subprocess.run([WICK, "convert", "--to", "otlp-json", out, tmp_path / "stored.json"], check=True)
    return json.loads((tmp_path / "stored.json").read_text())


def judge(server, service, exe, tmp_path):
    """The server's shares are those of record, and the lines of every stored address are addr2line's and llvm-symbolizer's."""
    got, want = shares(server, service), recorded_shares(tmp_path, exe)
    for name in ("main", "shop::checkout", INLINED):
        assert abs(got.get(name, 0) - want.get(name, 0)) < 0.15, (name, got.get(name), want.get(name))
    stored = with_lines(locations(download(server, service, tmp_path), exe))
    assert len(stored) > 20 and any(name.endswith("shop.cc") for frames in stored.values() for _, name, _ in frames)
    compare(stored, exe)
    truth = {(os.path.basename(file), line) for frames in stored.values() for _, file, line in frames}
    shown = {(os.path.basename(r["file"]), r["line"]) for r in rows(server, service, "line") if r.get("file", "").endswith(OURS)}
    assert shown and shown <= truth, shown - truth
    assert any(r["name"].endswith("shop.cc") for r in rows(server, service, "file"))


def restart(server):
    server.stop()
    server.env["WICK_NO_AGENT"] = "1"
    server.start()


def test_agent(tmp_path, shop, monkeypatch):
    """The server's own agent: names first, lines with a later batch."""
    exe = tmp_path / "lined_shop"
    shutil.copy(shop, exe)
    monkeypatch.delenv("WICK_NO_AGENT", raising=False)
    server = Server(tmp_path, "--set", "agent.rate=99")
    burner = subprocess.Popen([exe, "90"], stdout=subprocess.DEVNULL)
    try:
        wait_for(lambda: shares(server, "lined_shop").get(INLINED, 0) > 0.05, why="no inlined calls")
        time.sleep(6)  # another batch
        burner.kill()
        burner.wait()
        judge(server, "lined_shop", exe, tmp_path)
        restart(server)
        judge(server, "lined_shop", exe, tmp_path)
    finally:
        burner.kill()
        burner.wait()
        server.stop()


def send_by(way, server, exe, tmp_path):
    """Sends a second of the program's CPU time with names or addresses alone; the service's name."""
    env = {**os.environ, "OTEL_SERVICE_NAME": "sent_shop"}
    if way in ("names", "addresses"):
        option = "--no-lines" if way == "names" else "--no-names"
        p = subprocess.Popen([exe, "60"], stdout=subprocess.DEVNULL, env=env)
        subprocess.run([WICK, "agent", "--export", "http://" + server.grpc, "-F", "199", "--interval", "500ms", option, "-p",
                        str(p.pid), "-d", "4s"], stderr=subprocess.DEVNULL, check=True)
        p.kill()
        p.wait()
    elif way == "libwick":
        subprocess.run([WICK, "run", "--export", "http://" + server.grpc, "--", exe, "1.5"], check=True, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL, env=env)
    else:
        out = tmp_path / "x.pb.gz"
        subprocess.run([WICK, "record", "-q", "-F", "299", "--no-lines", "-o", out, "--", exe, "1"], check=True)
        now = int(time.time())
        server.get(f"/ingest?name=sent_shop&from={now - 1}&until={now}&format=pprof", data=out.read_bytes(), method="POST")


@pytest.mark.parametrize("way", ["names", "addresses", "libwick", "pprof"])
def test_uploaded_file(tmp_path, shop, way):
    """Whatever the sender said of its frames, a file that is uploaded later says more."""
    server = Server(tmp_path, WICK_NO_AGENT="1")
    try:
        send_by(way, server, shop, tmp_path)
        wait_for(lambda: rows(server, "sent_shop", "function"), why="nothing arrived")
        if way != "libwick":
            assert INLINED not in shares(server, "sent_shop")
        subprocess.run([WICK, "symbols", "upload", "--server", server.url, str(shop)], check=True, stdout=subprocess.DEVNULL)
        wait_for(lambda: shares(server, "sent_shop").get(INLINED, 0) > 0.05, why="no inlined calls")
        judge(server, "sent_shop", shop, tmp_path)
        restart(server)
        judge(server, "sent_shop", shop, tmp_path)
    finally:
        server.stop()
