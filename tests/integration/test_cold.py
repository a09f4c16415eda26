# SPDX-License-Identifier: Apache-2.0
"""Segments in an object store (store.cold): what is refused without a server, and, slow, everything with a real one (MinIO). The
unit test test_store_cold.c injects the failures that a real server does not have."""
import json
import os
import subprocess
import time

import minio_peer
import pytest
from wick_tools import SHOP, WICK, Server, free_port, log_of, request, some, token_of, tokens_of, wait_for

slow = pytest.mark.slow
DAY = 86400 * 10**9


def check(tmp_path, *sets, **env):
    p = subprocess.run([WICK, "serve", "--check", *[f"--set={s}" for s in sets]], capture_output=True, text=True, timeout=60,
                       env={**os.environ, "XDG_DATA_HOME": str(tmp_path), "HOME": str(tmp_path), **env})
    return p.returncode, p.stdout + p.stderr


def test_refused_by_check_and_by_start(tmp_path):
    """--check refuses what the start refuses, with the same message."""
    tls = tmp_path / "no-such.pem"
    for sets, words in [
            (["store.dir=clickhouse://u:pa55word@127.0.0.1:1/wick"], "must not contain a password"),
            (["store.dir=clickhouse://u@127.0.0.1:1/wick?quorum=x"], "quorum must be a number"),
            (["store.cold=s3://AKID:pa55word@bucket/p"], "must not contain keys"),
            (["store.cold=s3://bucket/p?speed=fast"], "unknown option"),
            (["store.cold=/some/directory"], "is not a location of objects"),
            (["store.cold=s3://bucket", "store.dir=memory"], "only possible with a store in a directory"),
            (["store.ack=spool"], "only possible with ClickHouse"),
            (["store.ack=never"], "one of quorum, spool"),
            (["store.engine=rocks"], "one of segment, memory"),
            (["store.timestamps=seconds"], "one of ns, us, ms, off"),
            (["listen.http=0.0.0.0:4040"], "is not a loopback address"),
            ([f"listen.tls.cert_file={tls}", f"listen.tls.key_file={tls}"], "no-such.pem")]:
        code, said = check(tmp_path, *sets)
        assert code != 0 and words in said, (sets, said)
        p = subprocess.run([WICK, "serve", "--no-agent", "--http", "127.0.0.1:0", *[f"--set={s}" for s in sets]]
                           if "listen.http" not in sets[0] else
                           [WICK, "serve", "--no-agent", *[f"--set={s}" for s in sets]],
                           capture_output=True, text=True, timeout=60,
                           env={**os.environ, "XDG_DATA_HOME": str(tmp_path), "HOME": str(tmp_path)})
        assert p.returncode != 0 and words in p.stdout + p.stderr, (sets, p.stderr)
        assert "pa55word" not in said + p.stdout + p.stderr
    assert check(tmp_path, "store.cold=s3://bucket/p?endpoint=http://127.0.0.1:1")[0] == 0
    assert check(tmp_path, "store.dir=clickhouse://u@127.0.0.1:1/wick")[0] == 0


@pytest.fixture
def minio(tmp_path):
    if not minio_peer.program():
        pytest.skip("minio cannot be built here")
    (tmp_path / "objects").mkdir()
    with minio_peer.Minio(tmp_path / "objects", free_port()) as m:
        yield m


def metric(s, name):
    for line in s.get("/metrics", s.root)[1].decode().splitlines():
        if line.startswith(name + " "):
            return float(line.split()[1])
    return None


def total(s, token, start, stop):
    return s.json(f"/api/v1/top?query=cpu&from={start}&to={stop}", token=token)["total"]


@slow
def test_minio(tmp_path, minio):
    """Two tenants; data of three days ago moves to the objects, is answered from there, survives MinIO being away, a restart with
    other credentials, and is deleted by retention."""
    d = tmp_path / "wick"
    d.mkdir(mode=0o755)
    tokens = tokens_of(d)
    now = time.time_ns()
    midnight = now // DAY * DAY - 3 * DAY
    s = Server(d, f"--set=store.cold={minio.place()}", **minio.env())
    s.root = token_of(s, "admin")
    try:
        for i in range(0, 24 * 12):
            for t in some(tokens):
                assert s.send(request(SHOP, start=midnight + i * 300 * 10**9), t)[0] == 200
        assert s.send(request(SHOP, start=now - 60 * 10**9), tokens[0])[0] == 200
        want = total(s, tokens[0], midnight, midnight + DAY)
        assert want == 42 * 24 * 12
        s.stop()  # flushes
        s.start()
        wait_for(lambda: metric(s, "wick_store_cold_segments") == 2, 180, "two segments are moved")
        assert len(minio.objects()) == 2
        assert len(list((d / "store").glob("*/seg/*.cold"))) == 2
        s.stop()
        s.start()
        for t in some(tokens):  # one service over a cold day: at most three round trips, at most a second
            rounds = metric(s, "wick_store_cold_rounds_total")
            begin = time.monotonic()
            assert total(s, t, midnight, midnight + DAY) == want
            took = time.monotonic() - begin
            assert metric(s, "wick_store_cold_rounds_total") - rounds <= 3
            assert took < 10, took  # a second on a machine of its own
            assert total(s, t, midnight + 333 * 10**9, midnight + DAY - 333 * 10**9) == want - 3 * 42
        p = subprocess.run([WICK, "store", "check", "--store", str(d / "store")], capture_output=True, text=True)
        assert "in use by another process" in p.stdout + p.stderr

        minio.kill()
        s.stop()
        s.start()  # MinIO is away: writing goes on, the recent is answered, the cold has a clear error
        assert s.send(request(SHOP, start=time.time_ns()), tokens[0])[0] == 200
        assert total(s, tokens[0], now - 3600 * 10**9, time.time_ns()) == 84
        status, body = s.get(f"/api/v1/top?query=cpu&from={midnight}&to={midnight + DAY}", token=tokens[0])
        assert status >= 500 and b"s3://wick/p at http://127.0.0.1" in body, (status, body)
        minio.start()
        wait_for(lambda: s.get(f"/api/v1/top?query=cpu&from={midnight}&to={midnight + DAY}", token=tokens[0])[0] == 200)
        assert total(s, tokens[0], midnight, midnight + DAY) == want
        s.stop()
        p = subprocess.run([WICK, "store", "check", "--store", str(d / "store")], capture_output=True, text=True,
                           env={**os.environ, **minio.env()})
        assert p.returncode == 0 and p.stdout.count("object /wick/p/") == 2, p.stdout + p.stderr
        assert p.stdout.count("in the object store") == 2
        p = subprocess.run([WICK, "store", "check", "--store", str(d / "store")], capture_output=True, text=True,
                           env={**os.environ, **minio.env(password="wrong-secret")})
        assert p.returncode != 0 and "SignatureDoesNotMatch" in p.stdout + p.stderr, p.stdout + p.stderr

        s.options = (*s.options, "--set=retention.keep=2d")
        s.start()
        wait_for(lambda: not minio.objects(), 180, "retention deletes the objects")
        assert metric(s, "wick_store_cold_segments") == 0
        assert metric(s, "wick_store_damaged") == 0
    finally:
        s.stop()
        assert "pa55word" not in log_of(s)


@slow
def test_round_trips_of_a_cold_day(tmp_path, minio):
    """A proxy counts what arrives at the object store: the flame graph of one service over a cold day, of two tenants, needs at most three round
    trips, and has the total of what was sent. A wrong credential file is refused; when the file is right again, so is the answer, without a restart."""
    d, secret = tmp_path / "wick", tmp_path / "credentials"
    d.mkdir(mode=0o755)
    tokens = tokens_of(d)
    env = minio.env()

    def write(password):
        (tmp_path / "new").write_text(f"[default]\naws_access_key_id = {env['AWS_ACCESS_KEY_ID']}\naws_secret_access_key = {password}\n")
        (tmp_path / "new").chmod(0o644)
        (tmp_path / "new").rename(secret)

    write(env["AWS_SECRET_ACCESS_KEY"])
    midnight = time.time_ns() // DAY * DAY - 3 * DAY
    with minio_peer.Counted(minio.url) as proxy:
        s = Server(d, "--no-agent", f"--set=store.cold={minio.place(more=f'&credentials={secret}', url=proxy.url)}", "--set", 'user=""')
        s.root = token_of(s, "admin")

        def flame(t, service):
            return s.get(f"/api/v1/flame?query=cpu{{service.name=%22{service}%22}}&from={midnight}&to={midnight + DAY}", token=t)

        try:
            sent = {}
            for i in range(96):
                for t, token in some(enumerate(tokens)):
                    for service in ("cart", "shop"):
                        samples = [(f"main;{service};f{(i * 7 + j) % 50}", 1 + (i + j + t) % 9, False) for j in range(20)]
                        assert s.send(request(samples, service=service, start=midnight + i * 900 * 10**9), token)[0] == 200
                        sent[token, service] = sent.get((token, service), 0) + sum(x[1] for x in samples)
            s.stop()
            s.start()
            wait_for(lambda: metric(s, "wick_store_cold_segments") == 2 and not list((d / "store").glob("*/seg/*.seg")), 180, "both days are moved")
            proxy.delay = 0.2
            for token, service in some(sent):
                s.stop()
                s.start()
                before = len(proxy.requests)
                status, body = flame(token, service)
                assert status == 200 and json.loads(body)["nodes"][0][3] == sent[token, service]
                assert 1 <= proxy.rounds(before) <= 3, proxy.requests[before:]
                assert {r[0] for r in proxy.requests[before:]} == {"GET"}
                before = len(proxy.requests)
                assert flame(token, service)[0] == 200 and len(proxy.requests) == before, "from the cache"
            proxy.delay = 0
            write("wrong-secret")
            s.stop()
            s.start()
            status, body = flame(tokens[0], "shop")
            assert status >= 500 and b"SignatureDoesNotMatch" in body, (status, body)
            write(env["AWS_SECRET_ACCESS_KEY"])
            wait_for(lambda: flame(tokens[0], "shop")[0] == 200, 60, "the credentials are read again")
            assert json.loads(flame(tokens[0], "shop")[1])["nodes"][0][3] == sent[tokens[0], "shop"]
        finally:
            s.stop()
            assert "secret" not in log_of(s).replace("credentials=", "")
