# SPDX-License-Identifier: Apache-2.0
"""kill -9 of every process of wick serve in turn, while two tenants send: what was acknowledged is there, once, after each
round. A few rounds by default, WICK_KILL_ROUNDS of them where that is set (make test-all)."""
import os
import signal
import threading
import time
from wick_tools import SHOP, Server, family, request, tokens_of, wait_for


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
            for i, x in enumerate(senders):
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
