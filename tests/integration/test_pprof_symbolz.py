# SPDX-License-Identifier: Apache-2.0
"""Names from the process that a profile was fetched from (-symbolize=remote), side by side with go tool pprof."""
import os
import re
import subprocess

import pytest

from go_tools import Answering, pprof_command, serving
from protobuf_lite import message, number, packed
from wick_tools import WICK

NAMES = {0x401000 + 16 * i: name for i, name in enumerate(
    ["main.main", "main.work", "_ZN3app4loopEi", "runtime.goexit", "_ZNSt6vectorIiSaIiEE9push_backEOi", "a name with blanks"])}


def profile(mappings, named=False):
    """Two samples over the addresses of NAMES; mappings: (start, limit, file, build id)."""
    strings = ["", "samples", "count"]
    s = lambda text: strings.index(text) if text in strings else strings.append(text) or len(strings) - 1
    body = message(1, number(1, 1) + number(2, 2))
    for i, (start, limit, file, build_id) in enumerate(mappings):
        body += message(3, number(1, i + 1) + number(2, start) + number(3, limit) + number(5, s(file)) + number(6, s(build_id)))
    base = mappings[0][0] if mappings else 0x401000
    addresses = [a - 0x401000 + base for a in sorted(NAMES)]
    for i, a in enumerate(addresses):
        line = message(4, number(1, 1) + number(2, 7)) if named and i == 0 else b""
        body += message(4, number(1, i + 1) + number(2, 1 if mappings else 0) + number(3, a) + line)
    if named:
        body += message(5, number(1, 1) + number(2, s("known.function")))
    ids = list(range(1, len(addresses) + 1))
    body += message(2, packed(1, ids[:4]) + packed(2, [10])) + message(2, packed(1, ids[2:]) + packed(2, [5]))
    return body + b"".join(message(6, x.encode()) for x in strings)


class Handler(Answering):
    def do_GET(self):
        self.answer(200, self.server.profile)

    def do_POST(self):
        question = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.server.asked.append((self.path, self.headers["Content-Type"], question))
        if self.server.status != 200:
            self.answer(self.server.status, b"not today")
            return
        lines = ["num_symbols: 1"]
        for a in question.split("+"):
            name = NAMES.get(int(a, 16) - self.server.moved)
            if name:
                lines.append(f"{a}\t{name}")
        self.answer(200, ("\n".join(lines + self.server.extra) + "\n0x401000 cut short").encode())


@pytest.fixture
def server():
    with serving(Handler) as s:
        s.asked, s.status, s.moved, s.extra = [], 200, 0, []
        yield s


def run(tmp_path, command, *args):
    env = {**os.environ, "TZ": "UTC", "PPROF_BINARY_PATH": "/nonexistent", "PPROF_TMPDIR": str(tmp_path / "saved")}
    p = subprocess.run([*command, *args], capture_output=True, text=True, env=env, timeout=60)
    return p.returncode, p.stdout, re.sub(r"\.\d{3}\.pb\.gz", ".N.pb.gz", p.stderr)


def both(tmp_path, server, *args):
    """The answers of both and what each of them asked the server for."""
    got = []
    for command in (pprof_command(), [WICK, "pprof"]):
        server.asked.clear()
        got.append((run(tmp_path, command, *args), list(server.asked)))
    return got


def same(want, got):
    """Equal but for the name in front of errors (docs/pprof-compat.md), and google/pprof's word for a missing binary."""
    (code, out, err), asked = want
    assert got[1] == asked
    assert got[0][0] == code
    assert got[0][1] == out
    assert got[0][2].replace("pprof: ", "") == err.replace("pprof: ", "").replace(": open /no/", ": stat /no/")


MAPPINGS = {
    "file": [(0x401000, 0x402000, "/no/such/server", "")],
    "build-id": [(0x401000, 0x402000, "/no/such/server", "abcdef0123456789")],
    "nothing": [(0x401000, 0x402000, "", "")],
    "moved": [(0x55d000401000, 0x55d000402000, "/no/such/server", "")],
    "none": [],
}


PATHS = ["/debug/pprof/profile", "/pprof/heap", "/profilez", "/deep/down/profilez?seconds=1"]


@pytest.mark.parametrize("kind, path", [(k, PATHS[0]) for k in MAPPINGS] + [("build-id", p) for p in PATHS[1:]])
def test_remote_names(server, tmp_path, kind, path):
    server.profile = profile(MAPPINGS[kind])
    server.moved = MAPPINGS[kind][0][0] - 0x401000 if MAPPINGS[kind] else 0
    want, got = both(tmp_path, server, "-traces", server.url + path)
    same(want, got)
    assert "main.work" in got[0][1] and len(got[1]) == 1


@pytest.mark.parametrize("mode", ["", "remote", "local", "none", "remote:force", "force", "remote:demangle=full", "remote:demangle=none"])
@pytest.mark.parametrize("named", [False, True])
def test_modes(server, tmp_path, mode, named):
    server.profile = profile(MAPPINGS["file"], named)
    want, got = both(tmp_path, server, "-raw", f"-symbolize={mode}", server.url + "/debug/pprof/profile")
    same(want, got)


def test_odd_answers(server, tmp_path):
    """Lines without a name, words before the address, an address given twice, one that was not asked for."""
    server.profile = profile(MAPPINGS["file"])
    server.extra = ["0x401000", "at 0x401010   second name ", "0x401010\tthird", "0xzz bad", "0x999999 other", "00x401020 f", "0x401030x g"]
    want, got = both(tmp_path, server, "-traces", server.url + "/debug/pprof/profile")
    same(want, got)


def test_refused(server, tmp_path):
    server.profile, server.status = profile(MAPPINGS["file"]), 503
    want, got = both(tmp_path, server, "-top", server.url + "/debug/pprof/profile")
    same(want, got)
    assert got[0][0] == 2 and "server response: 503 Service Unavailable" in got[0][2]


def test_too_large_address(server, tmp_path):
    server.profile, server.extra = profile(MAPPINGS["file"]), ["0x123456789abcdef012 f"]
    want, got = both(tmp_path, server, "-top", server.url + "/debug/pprof/profile")
    same(want, got)
    assert got[0][0] == 2


def test_merged_sources(server, tmp_path):
    server.profile = profile(MAPPINGS["build-id"])
    url = server.url + "/debug/pprof/profile"
    want, got = both(tmp_path, server, "-top", url, url)
    same(want, got)
    want, got = both(tmp_path, server, "-top", "-base", url, url)
    same(want, got)
