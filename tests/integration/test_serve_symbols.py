# SPDX-License-Identifier: Apache-2.0
"""Names at query time: frames that are (build id, address) get names from uploads and from debuginfod; addr2line and nm are
the oracles."""
import http.server
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time
import urllib.parse
from pathlib import Path

import pytest

from wick_tools import WICK, Binary, Server, descendants, log_of, native, request, wait_for

def names(server, service="native"):
    return {r["name"]: r["self"] for r in server.json(f'/api/v1/top?query=cpu{{service.name="{service}"}}'.replace('"', "%22"))["rows"]}


def state(server, build_id):
    return next(b for b in server.json("/api/v1/binaries")["buildIds"] if b["buildId"] == build_id)


def upload(server, *files, check=True):
    return subprocess.run([WICK, "symbols", "upload", "--server", server.url, *map(str, files)], capture_output=True, text=True, check=check)


def test_names_after_upload(server, tmp_path):
    b = Binary(tmp_path)
    leaf, other = b.inlined_address(), b.address("other_function")
    assert server.send(native(b.build_id, [([leaf, other + 1], 20), ([other + 1], 3)]))[0] == 200
    assert not {"hot_function", "other_function"} & set(names(server))
    assert state(server, b.build_id)["state"] == "missing"
    assert upload(server, b.path).stdout.startswith(b.build_id)
    got = names(server)
    assert got["inlined_leaf"] == 20 and got["other_function"] == 3 and got["hot_function"] == 0
    s = state(server, b.build_id)
    assert s["state"] == "found" and s["quality"] == "lines" and s["named"] == 2
    lines = server.json("/api/v1/lines?query=cpu&function=inlined_leaf")
    assert lines["rows"] and "program.c" in lines["rows"][0]["file"]
    pprof = server.get("/api/v1/profile?query=cpu&format=folded")[1].decode()
    assert "other_function;hot_function;inlined_leaf 20" in pprof
    files = server.json("/api/v1/binaries")["files"]
    assert files[0]["buildId"] == b.build_id and files[0]["bytes"] == b.path.stat().st_size
    server.stop()
    server.start()  # names and files are on disk
    assert names(server)["inlined_leaf"] == 20
    assert server.json("/api/v1/binaries")["files"][0]["origin"] == "upload"
    subprocess.run([WICK, "symbols", "delete", b.build_id, "--server", server.url], check=True)
    assert server.json("/api/v1/binaries")["files"] == []


def test_debuggers_get_what_was_uploaded(server, tmp_path):
    """debuginfod's protocol: the file with code and debug information is both, one with debug information only is not an executable."""
    b = Binary(tmp_path)
    only = tmp_path / "only.debug"
    upload(server, b.path)
    whole = b.path.read_bytes()
    for kind in ("debuginfo", "executable"):
        assert server.get(f"/buildid/{b.build_id}/{kind}") == (200, whole)
    subprocess.run(["objcopy", "--only-keep-debug", str(b.path), str(only)], check=True)
    subprocess.run([WICK, "symbols", "delete", b.build_id, "--server", server.url], check=True)
    upload(server, only)
    assert server.get(f"/buildid/{b.build_id}/debuginfo") == (200, only.read_bytes())
    status, body = server.get(f"/buildid/{b.build_id}/executable")
    assert status == 404 and b"debug information only" in body
    assert server.get("/buildid/0123456789abcdef/debuginfo")[0] == 404
    assert server.get(f"/buildid/{b.build_id}/source/main.c")[0] == 501
    if shutil.which("gdb"):  # a real client: the stripped program has no lines but by way of the server
        stripped = tmp_path / "stripped"
        subprocess.run(["strip", "-o", str(stripped), str(b.path)], check=True)
        env = {**os.environ, "DEBUGINFOD_URLS": server.url, "DEBUGINFOD_CACHE_PATH": str(tmp_path / "gdb-cache"), "HOME": str(tmp_path)}
        told = subprocess.run(["gdb", "-nx", "-batch", "-iex", "set debuginfod enabled on", "-ex", "info line other_function", str(stripped)],
                              capture_output=True, text=True, timeout=60, env=env).stdout
        assert re.search(r'Line \d+ of ".*program\.c" starts at address', told), told
    if shutil.which("debuginfod-find"):
        found = subprocess.run(["debuginfod-find", "debuginfo", b.build_id], capture_output=True, text=True, check=True,
                               env={**os.environ, "DEBUGINFOD_URLS": server.url, "DEBUGINFOD_CACHE_PATH": str(tmp_path / "cache")}).stdout
        assert Path(found.strip()).read_bytes() == only.read_bytes()


def test_profile_asked_for_first(server, tmp_path):
    b = Binary(tmp_path)
    server.send(native(b.build_id, [([b.address("other_function") + 1], 3)]))
    upload(server, b.path)
    assert "other_function 3" in server.get("/api/v1/profile?query=cpu&format=folded")[1].decode()


def test_uploads_that_are_refused(tmp_path):
    s = Server(tmp_path, "--set", "symbols.max_file=1MiB", "--set", "symbols.quota=1MiB")
    try:
        b = Binary(tmp_path)
        put = {"method": "PUT", "data": b.path.read_bytes()}
        status, body = s.get("/api/v1/symbols/0123456789abcdef", **put)
        assert status == 400 and b"build id" in body
        status, body = s.get("/api/v1/symbols/0123456789abcdef", method="PUT", data=b"no ELF at all")
        assert status == 400 and b"rejected" in body
        assert s.get("/api/v1/symbols/..%2f..%2fetc", **put)[0] == 400
        assert s.get("/api/v1/symbols/0123456789abcdef", method="PUT", data=bytes(2 << 20))[0] == 413
        assert s.json("/api/v1/binaries")["files"] == []
        assert s.get("/api/v1/symbols/" + b.build_id, **put)[0] == 200
        big = Binary(tmp_path, "big", "char pad[1 << 20] = {1};\n")
        p = upload(s, big.path, check=False)
        assert p.returncode == 1 and "symbols." in p.stderr
        # pieces that do not continue what is there
        status, body = s.get("/api/v1/symbols/abcdef01?offset=5&size=10", method="PUT", data=b"12345")
        assert status == 409 and json.loads(body) == {"complete": False, "offset": 0}
    finally:
        s.stop()


def test_tenants_do_not_share(server, tmp_path):
    def token(tenant):
        return subprocess.run([WICK, "token", "create", "--file", str(server.dir / "tokens"), "--scope", "admin", "--tenant", tenant],
                              capture_output=True, text=True, check=True).stdout.strip()

    b = Binary(tmp_path)
    mine, theirs = token("mine"), token("theirs")
    wait_for(lambda: server.get("/api/v1/status")[0] == 401)
    for t in (mine, theirs):
        assert server.send(native(b.build_id, [([b.address("other_function") + 1], 3)]), t)[0] == 200
    assert server.get("/api/v1/symbols/" + b.build_id, mine, b.path.read_bytes(), method="PUT")[0] == 200
    assert b"other_function" in server.get("/api/v1/top?query=cpu", mine)[1]
    assert b"other_function" not in server.get("/api/v1/top?query=cpu", theirs)[1]


def objdump(path, function):
    out = subprocess.run(["objdump", "-d", "--no-show-raw-insn", "--disassemble=" + function, str(path)], capture_output=True, text=True, check=True).stdout
    return ["0x" + a for a in re.findall(r"^ +([0-9a-f]+):\t", out, re.M)]


def test_instructions(server, tmp_path):
    """Of an uploaded file, and of a file of this machine only if it has the build id that was asked for."""
    with tempfile.TemporaryDirectory() as place:  # tmp_path cannot be read by the user that the server runs as
        os.chmod(place, 0o755)
        check_instructions(server, Binary(Path(place)), tmp_path)


def check_instructions(server, b, tmp_path):
    at = b.address("other_function")

    def code(token=None, **q):
        status, body = server.get("/api/v1/code?" + urllib.parse.urlencode({"build_id": b.build_id, "address": hex(at), "missing": "ok", **q}), token)[:2]
        assert status == 200, body
        return json.loads(body)

    local = code(file=str(b.path))
    assert [i["address"] for i in local["instructions"]] == objdump(b.path, "other_function") and local["symbol"] == "other_function"
    assert any(i.get("file", "").endswith("program.c") and i["line"] > 0 for i in local["instructions"])
    assert code(file=str(b.path), build_id="00" * 20)["instructions"] == []
    assert "build ID" in code(file=str(b.path), build_id="00" * 20)["reason"]
    for file in ("/etc/passwd", "/dev/zero", str(tmp_path), "relative", ""):
        assert code(file=file)["instructions"] == [], file
    assert server.get(f"/api/v1/code?build_id={b.build_id}&address=zz")[0] == 400
    assert server.get(f"/api/v1/code?build_id={b.build_id}&address=1")[0] == 404
    upload(server, b.path)
    uploaded = code()
    assert uploaded["instructions"] == local["instructions"]
    assert code(address="0x1")["instructions"] == []  # nothing is there
    # a tenant sees neither what others uploaded nor files of this machine
    token = subprocess.run([WICK, "token", "create", "--file", str(server.dir / "tokens"), "--scope", "read", "--tenant", "other"], capture_output=True,
                           text=True, check=True).stdout.strip()
    wait_for(lambda: server.get("/api/v1/status")[0] == 401)
    assert code(token, file=str(b.path)) == {"instructions": [], "reason": "this server cannot read the binary: wick symbols upload BINARY"}


@pytest.fixture
def debuginfod(tmp_path):
    asked = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            m = re.fullmatch(r"/buildid/([0-9a-f]+)/(debuginfo|executable)", self.path)
            data = self.server.files.get((m.group(1), m.group(2))) if m else None
            self.send_response(200 if data else 404)
            self.send_header("Content-Length", str(len(data or b"")))
            self.end_headers()
            self.wfile.write(data or b"")

        def log_message(self, *a):
            pass

    s = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    s.files, s.asked = {}, asked
    threading.Thread(target=s.serve_forever, daemon=True).start()
    yield s
    s.shutdown()


def test_debuginfod(tmp_path, debuginfod):
    b = Binary(tmp_path)
    debuginfod.files[b.build_id, "executable"] = b.path.read_bytes()
    s = Server(tmp_path, "--set", f"symbols.debuginfod=http://127.0.0.1:{debuginfod.server_port}")
    try:
        s.send(native(b.build_id, [([b.address("other_function") + 1], 3)]))
        s.send(native("00" * 20, [([0x1000], 4)], service="unknown"))
        wait_for(lambda: "other_function" in names(s), why=lambda: s.json("/api/v1/binaries"))
        names(s, "unknown")
        wait_for(lambda: state(s, "00" * 20)["state"] == "missing")
        n = len(debuginfod.asked)
        for _ in range(5):
            names(s, "unknown")
        assert len(debuginfod.asked) == n  # what was not found is not asked for again
        assert s.json("/api/v1/binaries")["files"][0]["origin"] == "debuginfod"
    finally:
        s.stop()


OBJDUMP = """#!/bin/sh
if read -r x < {secret}; then said="read the tokens"; else said="denied"; fi
{{ echo x > {place}/written; }} 2>/dev/null && said="$said, written"
while [ $# -gt 0 ]; do case $1 in --adjust-vma=0x*) at=${{1#--adjust-vma=0x}};; esac; shift; done
printf '    %s:\\t%s\\n' "$at" "$said"
{then}
"""


def test_objdump_is_confined_and_timed(tmp_path):
    """What disassembles strangers' bytes can read programs and nothing of the server's, writes nothing, and has 5 s."""
    b = Binary(tmp_path)
    with tempfile.TemporaryDirectory(dir="/opt") as place, tempfile.TemporaryDirectory() as open_to_all:
        os.chmod(place, 0o777)
        os.chmod(open_to_all, 0o755)
        fake = Path(place) / "objdump"
        secret = Path(open_to_all) / "secret"
        secret.write_text("wick_token\n")
        os.chmod(secret, 0o644)

        def install(then):
            fake.write_text(OBJDUMP.format(secret=secret, place=place, then=then))
            fake.chmod(0o755)

        install("")
        s = Server(tmp_path, PATH=f"{place}:{os.environ['PATH']}")
        try:
            upload(s, b.path)
            path = "/api/v1/code?missing=ok&build_id=%s&address=%#x" % (b.build_id, b.address("other_function"))
            got = s.json(path)
            assert [i["text"] for i in got["instructions"]] == ["denied"], got
            assert not (Path(place) / "written").exists()
            install("while :; do :; done")
            start = time.monotonic()
            got = s.json(path)
            assert got["instructions"] == [] and "objdump took longer" in got["reason"]
            assert time.monotonic() - start < 15
        finally:
            s.stop()


def symbolizer_of(s):
    found = [p for p in descendants(s.p.pid) if b"symbolize" in Path(f"/proc/{p}/cmdline").read_bytes()]
    return found[0] if found else None


def test_more_build_ids_than_fit(server):
    """Binaries of which nobody has a file never reach the symbolizer, and are not looked for again at every question."""
    n = 20000
    assert server.send(native("%040x" % 0, [([0x1000], 1)]))[0] == 200
    r = request([], service="native")
    d = r.dictionary
    strings = list(d.string_table)
    strings.append("process.executable.build_id.gnu")
    key = len(strings) - 1
    p = r.resource_profiles[0].scope_profiles[0].profiles[0]
    for i in range(1, n):
        d.attribute_table.add(key_strindex=key).value.string_value = "%040x" % i
        d.mapping_table.add(attribute_indices=[i])
        d.location_table.add(mapping_index=i, address=0x1000)
        d.stack_table.add(location_indices=[i])
        p.samples.add(stack_index=i, values=[1])
    del d.string_table[:]
    d.string_table.extend(strings)
    assert server.send(r)[0] == 200

    def ask():
        start = time.monotonic()
        top = server.json("/api/v1/top?query=cpu&limit=5")
        assert top["total"] == n, top
        return time.monotonic() - start

    first, again = ask(), min(ask() for _ in range(3))
    assert again < max(first / 2, 0.3), (first, again)  # known: only the store is asked
    assert symbolizer_of(server) is None


@pytest.mark.slow
def test_symbolizer_hangs_once(server, tmp_path):
    """A symbolizer that is stopped makes others wait for 3 s at most, and its file is not missing: the answer says that names are
    to come, and they come."""
    first, second = (Binary(tmp_path, name, f"int unique_{name};") for name in ("first", "second"))
    upload(server, first.path, second.path)
    for b, service in ((first, "one"), (second, "two")):
        server.send(native(b.build_id, [([b.address("other_function") + 1], 3)], service=service))

    def top(service):
        return server.json(f"/api/v1/top?query=cpu%7Bservice.name=%22{service}%22%7D")

    pid = wait_for(lambda: symbolizer_of(server))
    os.kill(pid, signal.SIGSTOP)
    asking = threading.Thread(target=top, args=["one"])
    asking.start()
    time.sleep(1)
    start = time.monotonic()
    got = top("two")
    assert time.monotonic() - start < 8 and got["notes"]["naming"]
    asking.join()
    assert top("one")["notes"]["naming"]  # it took 20 s; the next attempt is made after 10 s more
    assert state(server, first.build_id)["state"] == "later"
    text = subprocess.run([WICK, "query", "top", "cpu{service.name=\"one\"}", "--server", server.url], capture_output=True, text=True)
    assert "still being looked up" in text.stdout + text.stderr
    wait_for(lambda: "other_function" in names(server, "one"), 30)
    assert "naming" not in top("one").get("notes", {})
    assert "other_function" in names(server, "two")
    assert "another attempt follows" in log_of(server)
