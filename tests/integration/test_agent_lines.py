# SPDX-License-Identifier: Apache-2.0
"""Lines and inlined calls of what was sampled on this host equal addr2line's and llvm-symbolizer's, wherever the debug
information is; frames keep their build id and address; the agent reads it beside its work and within its budget."""
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from agent_tools import (PROGRAMS, WICK, agent_to_file, build, child_pids, cmdline, compare, complete_lines, llvm, locations, needs_bpf,
                         record_otlp, with_lines)
from wick_tools import Server, wait_for

@pytest.fixture(autouse=True)
def tools():
    needs_bpf()
    for tool in ("g++", "addr2line", "objcopy"):
        if not shutil.which(tool):
            pytest.skip(f"no {tool}")


def test_record(tmp_path, shop):
    found = locations(record_otlp(tmp_path, "--", shop, 0.5), shop)
    lined = with_lines(found)
    assert len(lined) > 20
    if shutil.which("llvm-symbolizer"):  # the rest is what the linker brings: _start and the like
        assert {a for a, frames in llvm(shop, sorted(found)).items() if frames[0][2]} == set(lined)
    assert max(len(f) for f in lined.values()) > 2
    compare(lined, shop)
    plain = locations(record_otlp(tmp_path, "--no-lines", "--", shop, 0.2), shop)
    assert plain and not with_lines(plain) and all(len(f) == 1 for f in plain.values() if f)


def test_report(tmp_path, shop):
    """Straight into a report: inlined calls are functions there, and the source has its samples."""
    out = tmp_path / "x.pb.gz"
    p = subprocess.run([WICK, "record", "-q", "-F", "499", "--top", "-o", out, "--", shop, "0.3"], capture_output=True, text=True,
                       timeout=60)
    assert "(inline)" in p.stdout, p.stdout
    text = subprocess.run([WICK, "pprof", "-list", "checkout", out], capture_output=True, text=True, timeout=60).stdout
    assert "std::sort" in text and re.search(r"ms .* return c.total\(\);", text), text


@pytest.mark.parametrize("where", ["link", "id"])
def test_separate_file(tmp_path, shop, where):
    exe = tmp_path / "own-thread"
    subprocess.run(["objcopy", "--strip-all", shop, exe], check=True)
    debug = tmp_path / ".debug" / "apart.debug"
    if where == "id":
        built = re.search(r"Build ID: ([0-9a-f]+)", subprocess.run(["readelf", "-n", shop], capture_output=True, text=True).stdout)
        debug = Path("/usr/lib/debug/.build-id", built[1][:2], built[1][2:] + ".debug")
    try:
        debug.parent.mkdir(parents=True, exist_ok=True)
    except OSError:
        pytest.skip("nothing may be written there")
    subprocess.run(["objcopy", "--only-keep-debug", shop, debug], check=True)
    try:
        if where == "link":
            subprocess.run(["objcopy", f"--add-gnu-debuglink={debug}", exe], check=True)
        lined = with_lines(locations(record_otlp(tmp_path, "--", exe, 0.4), exe))
    finally:
        debug.unlink()
    assert len(lined) > 20
    compare(lined, shop, names=False)  # without a symbol table, names are those of the debug information


def test_tables_of_a_linked_file(tmp_path):
    """Call frame information that is in the debug file alone."""
    exe = build(tmp_path, "chain.c", "chain", "-O2", "-fomit-frame-pointer", "-g", "-fno-asynchronous-unwind-tables",
                "-fno-unwind-tables")
    subprocess.run(["objcopy", "--only-keep-debug", exe, tmp_path / "chain.debug"], check=True)
    subprocess.run(["objcopy", "--strip-all", exe], check=True)
    subprocess.run(["objcopy", f"--add-gnu-debuglink={tmp_path / 'chain.debug'}", exe], check=True)
    out = tmp_path / "out.folded"
    subprocess.run([WICK, "record", "-q", "-F", "499", "-o", out, "--", exe, "30", "0.4"], check=True, timeout=60)
    chains = [line.count(";rec") for line in out.read_text().splitlines() if ";leaf " in line]
    assert chains and all(n == 31 for n in chains), chains


def test_replaced_binary(tmp_path, shop):
    """Another file at its path: the one that runs is read, by the descriptor that was kept."""
    exe = tmp_path / "moved"
    shutil.copy(shop, exe)
    p = subprocess.Popen([exe, "20"], stdout=subprocess.DEVNULL)
    out = tmp_path / "out.json"
    try:
        exe.unlink()
        shutil.copy("/bin/true", exe)
        subprocess.run([WICK, "record", "-q", "-F", "499", "-d", "1s", "-o", out, "-p", str(p.pid)], check=True, timeout=60)
    finally:
        p.kill()
        p.wait()
    request = json.loads(out.read_text())
    text = request["dictionary"]["stringTable"]
    (path,) = {text[m["filenameStrindex"]] for m in request["dictionary"]["mappingTable"] if "moved" in text[m.get("filenameStrindex", 0)]}
    lined = with_lines(locations(request, path))
    assert len(lined) > 10
    compare(lined, shop)


def children(pid):
    """Its symbolizers for lines. The processes that read tables and memory stay as long as the agent."""
    return [c for c in child_pids(pid) if b"symbolize" in cmdline(c) and b"--tables" not in cmdline(c)]


def test_agent(tmp_path, shop):
    """They come with a later batch, what they cost is told, and the process that reads them does not stay."""
    stats = tmp_path / "stats.json"
    burner = subprocess.Popen([shop, "60"], stdout=subprocess.DEVNULL)
    try:
        with agent_to_file(tmp_path, "-F", 99, "--interval", "500ms", "--include", "exe=shop", "--stats", stats) as (out, agent):
            def lines():
                for line in complete_lines(out)[-1:]:
                    return with_lines(locations(json.loads(line), shop))

            lined = wait_for(lines)
            wait_for(lambda: not children(agent.pid), why="the process that read them ends")
    finally:
        burner.kill()
        burner.wait()
    compare(lined, shop)
    first = json.loads(complete_lines(out)[0])
    assert not with_lines(locations(first, shop)) and locations(first, shop)  # named at once, by the symbol table


def test_nothing_to_read(tmp_path):
    """A program without debug information starts no process for it."""
    exe = tmp_path / "plain"
    subprocess.run(["gcc", "-O2", "-static", "-s", "-o", exe, PROGRAMS / "chain.c"], check=True)
    burner = subprocess.Popen([exe, "5", "60"], stdout=subprocess.DEVNULL)
    try:
        with agent_to_file(tmp_path, "-F", 99, "--interval", "200ms", "--include", "exe=plain", "--no-kernel") as (out, agent):
            def fourth():
                assert not children(agent.pid)
                return len(complete_lines(out)) >= 4

            wait_for(fourth, step=0.02)
    finally:
        burner.kill()
        burner.wait()


def top(server, service):
    answer = server.json(f"/api/v1/top?query=cpu%7Bservice.name=%22{service}%22%7D")
    return {r["name"] for r in answer["rows"]}


def test_upload(tmp_path, shop):
    """The agent sends addresses alone; the server names them, with inlined calls, from files that the agent gave it. Each once."""
    server = Server(tmp_path, WICK_NO_AGENT="1")
    burner = subprocess.Popen([shop, "90"], stdout=subprocess.DEVNULL)
    agent = subprocess.Popen([WICK, "agent", "--export", "http://" + server.grpc, "--server", server.url, "-F", "99", "--interval", "500ms",
                              "--include", "exe=shop", "--no-names", "--upload-symbols"], stderr=subprocess.DEVNULL)
    try:
        want = {"shop::checkout", "shop::Cart::total", "main"}
        wait_for(lambda: server.json("/api/v1/services") and want <= top(server, "shop"), why=lambda: top(server, "shop"), step=0.5)
        built = re.search(r"Build ID: ([0-9a-f]+)", subprocess.run(["readelf", "-n", shop], capture_output=True, text=True).stdout)[1]
        files = {f["buildId"]: f for f in server.json("/api/v1/binaries")["files"]}
        assert files[built]["bytes"] == shop.stat().st_size and files[built]["quality"] == "lines"
        assert server.json(f"/api/v1/symbols/{built}") == {"complete": True, "offset": shop.stat().st_size}
        assert server.json("/api/v1/symbols/0123456789")["complete"] is False
        say = [WICK, "symbols", "upload", "--server", server.url, str(shop)]
        assert subprocess.run([*say, "--if-missing"], capture_output=True, check=True).stdout == b""
        assert built in subprocess.run(say, capture_output=True, check=True, text=True).stdout
    finally:
        for p in (agent, burner):
            p.terminate()
            p.wait(60)
        server.stop()


def test_upload_usage():
    p = subprocess.run([WICK, "agent", "--feed-fd", "9", "--upload-symbols"], capture_output=True, text=True,
                       env={"PATH": "/usr/bin:/bin"}, timeout=30)
    assert "requires --server URL" in p.stderr
