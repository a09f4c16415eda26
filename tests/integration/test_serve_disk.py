# SPDX-License-Identifier: Apache-2.0
"""wick serve on a file system that has no room, no inodes, or whose directory goes away: real tmpfs mounts, two tenants."""
import shutil
import subprocess
import time

import pytest
from wick_tools import SHOP, Server, log_of, request, tokens_of, wait_for


@pytest.fixture
def small(tmp_path):
    """Mounts a tmpfs with the given options where a server's files go."""
    mounted = []

    def mount(options):
        d = tmp_path / "small"
        d.mkdir()
        p = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "wick-test", str(d)], capture_output=True, text=True)
        if p.returncode:
            pytest.skip("cannot mount a tmpfs here: " + p.stderr.strip())
        mounted.append(d)
        return d

    yield mount
    for d in mounted:
        subprocess.run(["umount", "-l", str(d)])


def send(s, token):
    return s.send(request(SHOP, start=time.time_ns()), token)


def total(s, token):
    return s.json("/api/v1/top?query=cpu", token=token)["total"]


def fill(path):
    with open(path, "wb", buffering=0) as f:
        try:
            while True:
                f.write(b"x" * 65536)
        except OSError:
            pass
        try:
            while True:
                f.write(b"x")
        except OSError:
            pass


def check_full(s, tokens, words):
    """Nothing is accepted, everything is answered, and /readyz says why."""
    status, body = s.get("/readyz")
    assert status == 503 and words in body.decode(), (status, body)
    for t in tokens:
        status, body = send(s, t)
        assert status in (429, 503), (status, body)
        assert total(s, t) == 42
    assert words in s.json("/api/v1/status", token=tokens[0])["problem"]


def check_works(s, tokens):
    wait_for(lambda: s.get("/readyz")[0] == 200)
    for t in tokens:
        wait_for(lambda: send(s, t)[0] == 200)  # noqa: B023
        assert total(s, t) == 84


def test_full_at_start(small):
    d = small("size=300m")
    tokens = tokens_of(d)
    s = Server(d)
    try:
        for t in tokens:
            assert send(s, t)[0] == 200
        assert s.stop()[0] == 0
        assert (d / "store/RESERVE").stat().st_size > 1 << 20
        fill(d / "filler")
        s.start()
        check_full(s, tokens, "full")
        s.p.kill()
        s.p.wait()
        (d / "store/RESERVE").unlink()
        fill(d / "filler2")
        s.start()  # without a byte and without a reserve
        check_full(s, tokens, "full")
        (d / "filler").unlink()
        (d / "filler2").unlink()
        check_works(s, tokens)
        assert "damage" not in log_of(s)
    finally:
        s.stop()


def test_no_inodes(small):
    d = small("size=300m,nr_inodes=200")
    tokens = tokens_of(d)
    s = Server(d)
    try:
        for t in tokens:
            assert send(s, t)[0] == 200
        assert s.stop()[0] == 0
        (d / "many").mkdir()
        made = []
        try:
            for i in range(1000):
                made.append(d / "many" / str(i))
                made[-1].touch()
        except OSError:
            made.pop()
        s.start()
        check_full(s, tokens, "inodes")
        for f in made:
            f.unlink()
        check_works(s, tokens)
        assert "damage" not in log_of(s)
    finally:
        s.stop()


@pytest.mark.parametrize("how", ["deleted", "replaced"])
def test_directory_goes(tmp_path, how):
    tokens = tokens_of(tmp_path)
    s = Server(tmp_path)
    try:
        for t in tokens:
            assert send(s, t)[0] == 200
        if how == "deleted":
            shutil.rmtree(tmp_path / "store")
        else:
            (tmp_path / "store").rename(tmp_path / "away")
            shutil.copytree(tmp_path / "away", tmp_path / "store")
        status, body = s.get("/readyz")
        assert status == 503 and how in body.decode()
        for t in tokens:
            status, body = send(s, t)
            assert status in (429, 503), (status, body)
            assert how.encode() in body
    finally:
        s.p.kill()
        s.p.wait()
