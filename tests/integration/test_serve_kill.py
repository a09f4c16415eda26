# SPDX-License-Identifier: Apache-2.0
"""kill -9 of every process of wick serve in turn, while two tenants send: what was acknowledged is there, once, after each
round. A few rounds by default, WICK_KILL_ROUNDS of them where that is set (make test-all)."""
import os
import re
import signal
import subprocess
import threading
import time

import pytest
from s3_lite import S3Lite
from tenant_tools import Names, push
from wick_tools import SHOP, WICK, Server, family, request, some, token_of, tokens_of, wait_for


ROUNDS = int(os.environ.get("WICK_KILL_ROUNDS", "8"))


class Sender(threading.Thread):
    """Sends one profile after the other; counts those that were acknowledged and those of which nobody knows."""

    def __init__(self, s, token):
        super().__init__()
        self.s, self.token, self.acked, self.unknown, self.ending = s, token, 0, 0, False

    def run(self):
        while not self.ending:
            try:
                status, _ = self.s.send(request(SHOP, start=time.time_ns()), self.token)
                self.acked += status == 200
            except OSError:
                self.unknown += 1
                time.sleep(0.02)


def kill_one(s, k):
    """The k-th process of the server's, as they come."""
    processes = family(s.p.pid)
    victim = processes[k % len(processes)]
    try:
        os.kill(victim, signal.SIGKILL)
    except ProcessLookupError:
        pass
    return victim


def test_kill_every_process(tmp_path):
    tokens = tokens_of(tmp_path)
    s = Server(tmp_path)
    acked, unknown = [0, 0], [0, 0]
    try:
        for k in range(ROUNDS):
            senders = [Sender(s, t) for t in tokens]
            for x in senders:
                x.start()
            time.sleep(0.15 + k % 5 * 0.03)
            victim = kill_one(s, k)
            if victim == s.p.pid:
                s.p.wait()
            else:
                time.sleep(0.1)
            for x in senders:
                x.ending = True
            for x in senders:
                x.join()
            if victim == s.p.pid:
                s.log.close()
                s.start()
            for i, x in some(enumerate(senders)):
                acked[i] += x.acked
                unknown[i] += x.unknown
                total = s.json("/api/v1/top?query=cpu&from=now-1h", token=tokens[i])["total"]
                assert total % 42 == 0
                assert acked[i] <= total // 42 <= acked[i] + unknown[i], (k, total // 42, acked, unknown)
            wait_for(lambda: s.get("/readyz")[0] == 200)  # logs that were read again are written to segments first
        assert all(acked)
        assert "damage" not in (tmp_path / "log").read_text()
    finally:
        if s.p.poll() is None:
            s.stop()


DAY = 86400 * 10**9


class GreedySender(threading.Thread):
    """Sends what its tenant's limit of size cannot hold, so that retention is always at work."""

    def __init__(self, s, token):
        super().__init__()
        self.s, self.token, self.names, self.ending = s, token, Names(5000), False

    def run(self):
        while not self.ending:
            try:
                push(self.s, self.token, self.names.next())
            except OSError:
                time.sleep(0.02)


class OldSender(Sender):
    """As Sender, and half of the profiles are of three days ago: their segments move to the object store."""

    def run(self):
        k = 0
        while not self.ending:
            k += 1
            try:
                status, _ = self.s.send(request(SHOP, start=time.time_ns() - k % 2 * 3 * DAY), self.token)
                self.acked += status == 200
            except OSError:
                self.unknown += 1
                time.sleep(0.02)


def check_totals(s, tokens, acked, unknown, k):
    for i, token in enumerate(some(tokens)):
        total = s.json("/api/v1/top?query=cpu&from=now-5d", token=token)["total"]
        assert total % 42 == 0
        assert acked[i] <= total // 42 <= acked[i] + unknown[i], (k, total // 42, acked, unknown)


@pytest.mark.slow
def test_kill_with_retention_and_cold_objects(tmp_path):
    """Two tenants whose old segments are in an object store, and a third that is always over its size: every process is killed in turn, in
    the middle of moving, dropping and compacting, and each tenant has what was acknowledged."""
    tokens = tokens_of(tmp_path, ("one", "two", "greedy"))
    with S3Lite() as objects:
        s = Server(tmp_path, "--set", f"store.cold={objects.place()}", "--set", "limits.tenants=[{tenant: greedy, size: 4MiB}]", "--set",
                   "store.memory=1MiB", **S3Lite.ENV)
        operator = token_of(s, "admin")
        acked, unknown, dropped = [0, 0], [0, 0], 0
        try:
            k = -1
            while (k := k + 1) < max(ROUNDS // 20, 12) or (not dropped and k < 200):  # until the greedy one's size was reached
                senders = [OldSender(s, t) for t in tokens[:2]]
                greedy = GreedySender(s, tokens[2])
                for x in (*senders, greedy):
                    x.start()
                time.sleep(0.5 + k % 5 * 0.3)
                victim = kill_one(s, k if k % 2 else 0)
                if victim == s.p.pid:
                    s.p.wait()
                else:
                    time.sleep(0.1)
                for x in (*senders, greedy):
                    x.ending = True
                for x in (*senders, greedy):
                    x.join()
                if victim == s.p.pid:
                    s.log.close()
                    s.start()
                wait_for(lambda: s.get("/readyz")[0] == 200)
                for i, x in enumerate(senders):
                    acked[i] += x.acked
                    unknown[i] += x.unknown
                check_totals(s, tokens[:2], acked, unknown, k)
                metrics = s.get("/metrics", token=operator)[1].decode()
                dropped += float(re.search(r"^wick_store_dropped_bytes_total (\S+)$", metrics, re.M)[1]) > 0
            s.stop()  # flushes; the next start moves what is old
            s.start()
            wait_for(lambda: objects.objects, 180, "segments are moved to the object store")
            check_totals(s, tokens[:2], acked, unknown, "end")
            assert all(acked) and dropped, (acked, dropped)
            assert "damage" not in (tmp_path / "log").read_text()
        finally:
            if s.p.poll() is None:
                s.stop()
        check = subprocess.run([WICK, "store", "check", tmp_path / "store"], capture_output=True, text=True, env={**os.environ, **S3Lite.ENV})
        assert "0 problems" in check.stdout, check
