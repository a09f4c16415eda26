# SPDX-License-Identifier: Apache-2.0
"""A server that samples its host, for long, while programs come and go, two tenants send and people look: descriptors, mappings,
threads, memory and disk of each of its processes stay where they were after the first quarter. WICK_CHURN_SECONDS: 20 minutes by
default; 5400 before a release."""
import os
import re
import statistics
import subprocess
import threading
import time
from pathlib import Path

import pytest
from tenant_tools import Names, push
from wick_tools import PROGRAMS, SHOP, Server, family, request, some, token_of, tokens_of, wait_for

SECONDS = int(os.environ.get("WICK_CHURN_SECONDS", "1200"))
SAMPLES = 40
# What may be added between the second quarter and the last: caches that fill, a batch that is on its way. The server has limits.memory
# to fill, and a mapping for each file of earlier stacks until retention drops them.
ROOM = {"descriptors": 20, "mappings": 40, "threads": 4, "kilobytes": 24 << 10}
SERVER_ROOM = {**ROOM, "mappings": 150, "kilobytes": 96 << 10}


def look(pid):
    """What a process holds; None when it has ended."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
        return {"descriptors": len(os.listdir(f"/proc/{pid}/fd")), "mappings": Path(f"/proc/{pid}/maps").read_text().count("\n"),
                "threads": int(re.search(r"^Threads:\s+(\d+)", status, re.M)[1]), "kilobytes": int(re.search(r"^VmRSS:\s+(\d+)", status, re.M)[1])}
    except (OSError, TypeError):
        return None


def name_of(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[:2]
    except OSError:
        return None


def disk(folder):
    return sum(f.stat().st_blocks * 512 for f in folder.rglob("*") if f.is_file() and not f.is_symlink())


class Churn:
    """Programs that live for a moment, some with many threads, some with a binary of their own; senders; questions."""

    def __init__(self, s, place, tokens):
        self.s, self.place, self.tokens, self.ending, self.wrong = s, place, tokens, False, []
        self.brief = place / "brief"
        subprocess.run(["gcc", "-O1", "-Wl,--build-id", "-o", self.brief, PROGRAMS / "brief_life.c"], check=True)
        self.threads = [threading.Thread(target=self.guarded, args=(f,)) for f in (self.programs, self.copies, self.senders, self.readers)]
        for t in self.threads:
            t.start()

    def guarded(self, f):
        k = 0
        while not self.ending:
            k += 1
            try:
                f(k)
            except Exception as e:  # noqa: BLE001
                self.wrong.append(repr(e))
                return

    def programs(self, k):
        subprocess.run([self.brief], stdout=subprocess.DEVNULL)
        subprocess.run(["python3", "-c", "sum(i * i for i in range(100000))"])
        time.sleep(0.1)

    def copies(self, k):
        """A new file each time, which is deleted while the agent knows it."""
        copy = self.place / f"copy{k % 20}"
        copy.unlink(missing_ok=True)
        copy.write_bytes(self.brief.read_bytes() + b"%d" % k)
        copy.chmod(0o755)
        subprocess.run([copy], stdout=subprocess.DEVNULL)
        time.sleep(0.3)

    def senders(self, k):
        names = self.__dict__.setdefault("names", Names(300))
        for t in some(self.tokens):
            assert self.s.send(request(SHOP, service=f"s{k % 50}"), t)[0] == 200
        assert push(self.s, self.tokens[0], names.next())[0] in (200, 503)
        time.sleep(0.2)

    def readers(self, k):
        for path in ("/api/v1/flame?query=cpu&max_nodes=1000", "/api/v1/top?query=cpu", "/api/v1/services", "/api/v1/status", "/"):
            assert self.s.get(path, self.tokens[k % 3])[0] == 200, path
        time.sleep(0.5)

    def stop(self):
        self.ending = True
        for t in self.threads:
            t.join()


def grown(seen, what):
    """By how much the median of the last quarter is above that of the second one."""
    n = len(seen)
    early, late = ([x[what] for x in seen[a:b]] for a, b in ((n // 4, n // 2), (3 * n // 4, n)))
    return statistics.median(late) - statistics.median(early)


@pytest.mark.slow
def test_agent_and_server_stay_flat(tmp_path, monkeypatch):
    monkeypatch.delenv("WICK_NO_AGENT", raising=False)
    tokens = tokens_of(tmp_path)
    s = Server(tmp_path, "--set", "retention.size=64MiB", "--set", "store.memory=4MiB", "--set", "limits.memory=96MiB", "--set", "agent.interval=1s", "--set",
               "agent.include=['name~^(brief|copy)']")
    tokens.append(token_of(s, "admin"))
    wait_for(lambda: s.get("/api/v1/status", tokens[2])[0] == 200)
    churn = Churn(s, tmp_path, tokens)
    seen, disks, server = {}, [], s.p.pid
    try:
        for _ in range(SAMPLES):
            time.sleep(SECONDS / SAMPLES)
            assert not churn.wrong, churn.wrong
            for pid in family(s.p.pid):
                held = look(pid)
                if held:
                    seen.setdefault(pid, []).append(held)
            disks.append({"bytes": disk(tmp_path / "store")})
        assert s.get("/readyz")[0] == 200
        assert s.json("/api/v1/top?query=cpu&from=now-5m", token=tokens[2])["total"] > 0  # of the host
    finally:
        churn.stop()
        names = {pid: name_of(pid) for pid in seen}
        s.stop()
    steady = {pid: v for pid, v in seen.items() if len(v) >= SAMPLES - 1}
    assert len(steady) >= 3, names  # server, agent and what they have below them
    for pid, v in some(steady.items()):
        report = {what: (v[0][what], v[-1][what], grown(v, what)) for what in ROOM}
        print(names[pid], report)
        for what, room in some((SERVER_ROOM if pid == server else ROOM).items()):
            assert grown(v, what) <= room, (names[pid], report)
    assert max(d["bytes"] for d in disks) < 100 << 20 and grown(disks, "bytes") < 32 << 20, disks
