# SPDX-License-Identifier: Apache-2.0
"""CPU time of a runtime whose functions are not shown is said: in record's summary, in answers of the server, and by `wick query`."""
import os
import shutil
import subprocess

import pytest
from agent_tools import needs_bpf
from wick_tools import WICK, Server, wait_for

PERL = ["perl", "-e", "while (1) { $x += 1 }"]
PYTHON = ["python3", "-c", "while True: pass"]


@pytest.fixture(autouse=True)
def tools():
    needs_bpf()
    if not shutil.which("perl"):
        pytest.skip("no perl")


def test_record_says_it(tmp_path):
    p = subprocess.run([WICK, "record", "-F", "199", "-o", tmp_path / "x.pb.gz", "--", "perl", "-e", "$x += $_ for 1 .. 1e7"],
                       capture_output=True, text=True, check=True)
    assert "of the CPU time is in Perl, whose functions are not shown" in p.stderr


def test_server_says_it(tmp_path):
    server = Server(tmp_path, WICK_NO_AGENT="1")
    programs = [subprocess.Popen(c) for c in (PERL, PERL, PYTHON)]
    agent = subprocess.Popen([WICK, "agent", "--export", "http://" + server.grpc, "-F", "99", "--interval", "500ms",
                              *(x for p in programs for x in ("-p", str(p.pid)))], stderr=subprocess.DEVNULL)
    try:
        ask = "/api/v1/series?query=cpu&from=now-1h&group_by=wick.hidden_runtime"
        wait_for(lambda: len(server.json(ask).get("series", [])) > 1 and "hidden" in server.json(ask).get("notes", {}), why="not both arrived")
        got = server.json(ask)
        assert got["notes"]["hidden"] == "Perl", got.get("notes")
        share = {s["labels"].get("wick.hidden_runtime", ""): sum(v for v in s["values"] if v) for s in got["series"]}
        assert set(share) == {"", "Perl"} and all(v > 0 for v in share.values()), share
        selected = server.json("/api/v1/top?query=cpu%7Bprocess.pid=%22" + str(programs[2].pid) + "%22%7D&from=now-1h")
        assert selected["rows"] and "hidden" not in selected.get("notes", {}), selected.get("notes")
        # The first answer with names, which are looked up for it: notes are kept.
        text = subprocess.run([WICK, "query", "--server", server.url, "top", "cpu"], capture_output=True, text=True, check=True)
        assert "part of this is in Perl, whose functions are not shown" in text.stderr
        assert "part of" not in text.stdout
    finally:
        for p in (agent, *programs):
            p.terminate()
            p.wait()
        server.stop()


def test_children_have_names(tmp_path):
    """In ps: by their command, not "exe"."""
    def names(of):
        children = subprocess.run(["ps", "-o", "pid=,comm=", "--ppid", str(of)], capture_output=True, text=True).stdout.split("\n")
        found = {n for pid, n in (line.split(maxsplit=1) for line in children if line.strip())}
        return found.union(*(names(line.split()[0]) for line in children if line.strip()))

    p = subprocess.Popen([WICK, "record", "-q", "-d", "60s", "-o", tmp_path / "x.pb.gz", "-p", str(os.getpid())])
    try:
        wait_for(lambda: "wick-symbolize" in names(p.pid), why=lambda: names(p.pid))
        assert "exe" not in names(p.pid)
    finally:
        p.terminate()
        p.wait()
