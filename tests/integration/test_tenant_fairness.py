# SPDX-License-Identifier: Apache-2.0
"""One tenant takes as much as it can, of one thing in each test: the others keep working, and the server's memory and disk keep
to their limits."""
import concurrent.futures
import hashlib
import http.client
import multiprocessing
import os
import re
import subprocess
import threading
import time

import pytest
from tenant_tools import Names, Shared, push, total
from wick_tools import SHOP, Binary, need, request, some, token_of, wait_for

MIB = 1 << 20


@pytest.fixture
def shared(tmp_path):
    s = Shared(tmp_path, "--set", "limits.memory=256MiB")
    yield s
    if s.p.poll() is None:
        s.stop()


def status_of(s):
    """The status line of an answer that begins to arrive, or 0 if the connection was closed."""
    s.settimeout(20)
    try:
        got = s.recv(64)
    except ConnectionError:
        return 0
    return int(got.split()[1]) if got else 0


def close(sockets):
    for s in sockets:
        s.close()


def h2_digest(url, token):
    p = subprocess.run(["curl", "-sS", "--http2-prior-knowledge", "-H", f"Authorization: Bearer {token}", "-o", "-", url],
                       capture_output=True, timeout=120)
    assert p.returncode == 0, p.stderr
    return hashlib.sha256(p.stdout).hexdigest()


def test_files_are_streamed(shared, tmp_path):
    """Forty readers of a file of 60 MiB that stop reading: no memory for the files; others read them whole, by HTTP/1.1 and 2."""
    need("curl")
    b = Binary(tmp_path, "big", "char pad[60 << 20] = {1};\n")
    content = b.path.read_bytes()
    for token in (shared.greedy, shared.honest):
        assert shared.get("/api/v1/symbols/" + b.build_id, token, content, method="PUT")[0] == 200
    path, before = f"/buildid/{b.build_id}/debuginfo", shared.resident()
    held = shared.unread(path, shared.greedy, 40)
    try:
        assert {status_of(s) for s in held} <= {200, 503}
        time.sleep(1)
        assert shared.resident() - before < 64 * MIB
        want = hashlib.sha256(content).hexdigest()
        status, got = shared.get(path, shared.honest)
        assert status == 200 and hashlib.sha256(got).hexdigest() == want
        assert h2_digest(shared.url + path, shared.honest) == want
        assert shared.resident() - before < 64 * MIB
    finally:
        close(held)
    status, got = shared.get(path, shared.greedy)
    assert status == 200 and hashlib.sha256(got).hexdigest() == want
    p = subprocess.run(["curl", "-sSI", "-H", f"Authorization: Bearer {shared.honest}", shared.url + path], capture_output=True, text=True)
    assert re.search(rf"content-length: {len(content)}\b", p.stdout), p.stdout


def test_a_truncated_file_is_noticed(shared, tmp_path):
    """The rest of a file disappears while it is sent: the peer sees an incomplete answer, and the server goes on."""
    need("curl")
    b = Binary(tmp_path, "big", "char pad[30 << 20] = {1};\n")
    assert shared.get("/api/v1/symbols/" + b.build_id, shared.honest, b.path.read_bytes(), method="PUT")[0] == 200
    path = f"/buildid/{b.build_id}/debuginfo"
    for http2 in (False, True):
        if http2:
            p = subprocess.Popen(["curl", "-sS", "--http2-prior-knowledge", "--limit-rate", "6M", "-H", f"Authorization: Bearer {shared.honest}",
                                  "-o", str(tmp_path / "got"), shared.url + path], stderr=subprocess.PIPE)
            wait_for(lambda: (tmp_path / "got").exists() and (tmp_path / "got").stat().st_size > 0)
        else:
            [s] = shared.unread(path, shared.honest, 1)
            assert status_of(s) == 200
        [stored] = [f for f in (shared.dir / "store/binaries").iterdir() if f.stat().st_size > MIB]
        whole = stored.stat().st_size
        os.truncate(stored, 20 * MIB)
        if http2:
            assert p.wait(timeout=60) != 0
            p.stderr.close()
        else:
            n = 0
            while got := s.recv(MIB):
                n += len(got)
            assert n < whole
            s.close()
        os.truncate(stored, whole)
        assert shared.get("/api/v1/status", shared.honest)[0] == 200


def many_stacks(n, service="wide"):
    return request([(f"main;f{i % 97};{'long_function_name_' * 8}{i}", 1 + i, False) for i in range(n)], service=service)


FLAME = "/api/v1/pprof?query=cpu{service.name=%22wide%22}"


def big_answer(s, tokens):
    """A question whose answer has several MiB."""
    r = many_stacks(20000)
    for token in some(tokens):
        assert s.send(r, token)[0] == 200
    path = "/api/v1/flame?query=cpu&max_nodes=100000"
    status, body = s.get(path, tokens[0])
    assert status == 200 and len(body) > 2 * MIB, (status, len(body), body[:200])
    return path, len(body)


def test_unread_answers_are_counted(shared):
    """Answers in memory count for the tenant that does not read them, and are dropped when it asks for more."""
    path, size = big_answer(shared, [shared.greedy, shared.honest])
    before = shared.resident()
    held = shared.unread(path, shared.greedy, 60)
    try:
        states = [status_of(s) for s in held]
        assert set(states) == {200, 503}, states
        assert shared.metric('wick_net_answers_bytes{listener="http"}') < 16 * MIB + 4 * size
        assert shared.metric('wick_net_unread_total{listener="http"}') > 0
        for _ in range(5):
            assert shared.get(path, shared.honest)[0] == 200
        assert shared.resident() - before < 128 * MIB
        wait_for(lambda: shared.get(path, shared.greedy)[0] == 200, 20)  # those who read nothing make room for one who reads
    finally:
        close(held)
    wait_for(lambda: shared.metric('wick_net_answers_bytes{listener="http"}') == 0)
    assert shared.get(path, shared.greedy)[0] == 200


def ask(s, path, token, timeout=60):
    """Status, seconds and body of one question on a connection of its own."""
    c, start = http.client.HTTPConnection("127.0.0.1", s.port, timeout=timeout), time.monotonic()
    try:
        c.request("GET", path, headers={"Authorization": "Bearer " + token})
        r = c.getresponse()
        body = r.read()
        return r.status, time.monotonic() - start, body
    finally:
        c.close()


def slow_question(i):
    """A question that is not the same as another, so that its answer is made anew."""
    return f"/api/v1/flame?query=cpu&max_nodes=100000&from=now-{100000 + i}s&to=now"


class Flood:
    """Connections that ask slow questions with one token, each again as soon as it has its answer."""

    def __init__(self, s, token, n):
        self.s, self.token, self.ending, self.states = s, token, False, {}
        self.threads = [threading.Thread(target=self.run, args=(i,)) for i in range(n)]
        for t in self.threads:
            t.start()

    def run(self, i):
        while not self.ending:
            try:
                status = ask(self.s, slow_question(i), self.token)[0]
            except OSError:
                status = 0
            self.states[status] = self.states.get(status, 0) + 1
            i += 1000
            time.sleep(0.05 if status != 200 else 0)

    def stop(self):
        self.ending = True
        for t in self.threads:
            t.join()


def test_a_flood_of_questions(tmp_path):
    """Of 300 connections of one tenant some are refused; others and the operator are answered."""
    s = Shared(tmp_path, "--set", "limits.query_workers=2")
    try:
        for token in (s.greedy, s.honest):
            assert s.send(many_stacks(20000), token)[0] == 200
            assert s.send(request(SHOP), token)[0] == 200
        flood = Flood(s, token_of(s, "read", "greedy"), 300)
        try:
            wait_for(lambda: flood.states.get(429), why=lambda: flood.states)
            for _ in range(10):
                assert ask(s, "/api/v1/top?query=cpu{service.name=%22shop%22}", s.honest)[0] == 200
                assert ask(s, "/metrics", s.operator)[0] == 200
                assert ask(s, "/api/v1/status", s.honest)[0] == 200
                assert s.get("/healthz")[0] == s.get("/readyz")[0] == 200
            assert any("limits.tenant_queries" in ask(s, slow_question(-i), s.greedy)[2].decode() for i in range(1, 30))
        finally:
            flood.stop()
        assert ask(s, slow_question(0), s.greedy)[0] == 200
    finally:
        s.stop()


def test_tenant_queries(tmp_path):
    """limits.tenant_queries: as many are answered at once, one more is refused, for this tenant only."""
    n = 3
    s = Shared(tmp_path, "--set", f"limits.tenant_queries={n}", "--set", "limits.query_workers=1")
    try:
        for token in (s.greedy, s.honest):
            assert s.send(many_stacks(20000), token)[0] == 200
        for i, k in enumerate((n - 1, n, n + 1)):
            asked = [s.unread(slow_question(10 * i + j), s.greedy, 1)[0] for j in range(k)]
            assert ask(s, slow_question(i), s.honest)[0] == 200
            assert sorted(status_of(x) for x in asked) == [200] * min(k, n) + [429] * (k - n)
            close(asked)
    finally:
        s.stop()


def login(s, token):
    c = http.client.HTTPConnection("127.0.0.1", s.port, timeout=30)
    c.request("POST", "/api/v1/login", token)
    r = c.getresponse()
    body = r.read()
    cookie = r.getheader("set-cookie")
    c.close()
    return r.status, cookie and cookie.split(";")[0], body


def signed_in(s, cookie):
    return s.get("/api/v1/status", headers={"Cookie": cookie})[0] == 200


SESSIONS = 100  # of one token


def test_logins_do_not_lock_others_out(shared):
    """Thousands of logins with one token replace that token's own sessions, the oldest first."""
    honest = login(shared, shared.honest)[1]
    assert signed_in(shared, honest)
    mine = [login(shared, shared.greedy) for _ in range(SESSIONS)]
    assert {x[0] for x in mine} == {200} and signed_in(shared, mine[0][1])
    assert login(shared, shared.greedy)[0] == 200
    assert [signed_in(shared, x[1]) for x in (mine[0], mine[1], mine[-1])] == [False, True, True]

    def many(_):
        c = http.client.HTTPConnection("127.0.0.1", shared.port, timeout=30)
        states = set()
        for _ in range(2600):
            c.request("POST", "/api/v1/login", shared.greedy)
            r = c.getresponse()
            r.read()
            states.add(r.status)
        c.close()
        return states

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        assert set.union(*pool.map(many, range(4))) == {200}
    assert signed_in(shared, honest)
    status, cookie, _ = login(shared, shared.honest)
    assert status == 200 and signed_in(shared, cookie)


def check_unique_names(s, rounds, n):
    """One tenant sends only names that nobody sent before; the other sends new stacks, too, but few. Returns the greedy one's totals."""
    flood, honest, accepted, refused, sent = Names(n), Names(200), 0, 0, 0
    for _ in range(rounds):
        status, body = push(s, s.greedy, flood.next())
        assert status in (200, 503) and (status == 200 or b"'greedy'" in body), (status, body)
        accepted, refused = accepted + (status == 200), refused + (status != 200)
        status, body = push(s, s.honest, honest.next())
        assert status == 200, (body, accepted, refused)
        sent += 1
    print(f"{accepted} accepted, {refused} refused, resident {s.resident('VmHWM') >> 20} MiB at most")
    assert total(s, s.honest, "unique") == sent * 200
    assert total(s, s.greedy, "unique") == accepted * n

    def recovers():
        return push(s, s.greedy, flood.next())[0] == 200

    wait_for(recovers, 20)
    s.stop()
    s.start()
    s.port = int(s.url.rsplit(":", 1)[1])
    assert push(s, s.honest, honest.next())[0] == 200
    wait_for(recovers, 20)
    assert total(s, s.honest, "unique") == (sent + 1) * 200
    assert total(s, s.greedy, "unique") == (accepted + 2) * n
    return accepted * n


def test_unique_names(shared):
    """Three times the names that fit into the memory for stacks: they are stored or refused, and only the sender notices."""
    stored = check_unique_names(shared, 16, 50_000)
    assert stored * (64 + 150) > 128 * MIB  # what did not fit is in files
    assert shared.resident("RssAnon") < 256 * MIB


@pytest.mark.slow
def test_a_flood_of_unique_names(shared):
    check_unique_names(shared, 200, 100_000)
    assert shared.resident("RssAnon") < 256 * MIB


# --- all at once ---

def attack_names(s, end):
    names = Names(20_000)
    while time.monotonic() < end:
        push(s, s.greedy, names.next())


def attack_questions(s, end):
    flood = Flood(s, s.greedy, 130)
    time.sleep(max(end - time.monotonic(), 0))
    flood.stop()


def attack_logins(s, end):
    while time.monotonic() < end:
        login(s, s.greedy)


def attack_disk(s, end):
    """Uploads of files that are no binaries and of one that is: what may be kept of them is bounded."""
    k = 0
    while time.monotonic() < end:
        k += 1
        s.get(f"/api/v1/symbols/{k:040x}", s.greedy, os.urandom(1 << 20), method="PUT")


def attack_answers(s, end):
    while time.monotonic() < end:
        held = s.unread(slow_question(os.getpid()), s.greedy, 40)
        time.sleep(2)
        close(held)


ATTACKS = (attack_names, attack_questions, attack_questions, attack_logins, attack_disk, attack_answers)


def run_attack(attack, s, end):
    os.nice(19)  # it is the server that is tested, not the machine that both share
    try:
        attack(s, end)
    except OSError:
        pass
    os._exit(0)


def honest_seconds(s, seconds):
    """What one tenant waits for each of its requests, in turn: a push, two questions, a status; and how many of them failed."""
    took, failed, end, k = [], [], time.monotonic() + seconds, 0
    while time.monotonic() < end:
        k += 1
        for what in (lambda: s.send(request(SHOP), s.honest)[0], lambda n=k: ask(s, slow_question(-n), s.honest)[0],
                     lambda: ask(s, "/api/v1/top?query=cpu{service.name=%22shop%22}", s.honest)[0],
                     lambda: ask(s, "/api/v1/status", s.honest)[0], lambda: ask(s, "/metrics", s.operator)[0]):
            start = time.monotonic()
            status = what()
            took.append(time.monotonic() - start)
            if status != 200:
                failed.append((k, status))
    took.sort()
    return took[int(len(took) * 0.99)], took[len(took) // 2], len(took), failed


@pytest.mark.slow
def test_all_attacks_at_once(tmp_path):
    """The five attacks of one tenant together, from processes of their own: every request of another tenant and of the operator is answered,
    and its 99th percentile is at most twice what it is without them."""
    s = Shared(tmp_path, "--set", "limits.memory=512MiB", "--set", "limits.tenants=[{tenant: greedy, size: 64MiB}]")
    try:
        for token in (s.greedy, s.honest):
            assert s.send(many_stacks(20000), token)[0] == 200

        def ratio():
            alone = honest_seconds(s, 15)
            end = time.monotonic() + 25
            attackers = [multiprocessing.get_context("fork").Process(target=run_attack, args=(a, s, end)) for a in ATTACKS]
            for a in attackers:
                a.start()
            time.sleep(3)
            under = honest_seconds(s, 20)
            for a in attackers:
                a.join(60)
                a.kill()
            print(f"alone p99 {alone[0] * 1e3:.0f} ms, median {alone[1] * 1e3:.0f} ms of {alone[2]}; "
                  f"under attack p99 {under[0] * 1e3:.0f} ms, median {under[1] * 1e3:.0f} ms of {under[2]}")
            assert not alone[3] and not under[3], (alone[3], under[3])
            return under[0] / alone[0]

        ratios = []
        while len(ratios) < 3 and (not ratios or min(ratios) > 2):
            ratios.append(ratio())  # a machine that is busy with something else is tried again
        assert min(ratios) <= 2, ratios
        assert s.resident() < 1 << 30
        assert login(s, s.honest)[0] == 200
    finally:
        s.stop()
