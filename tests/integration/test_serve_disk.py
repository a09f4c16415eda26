# SPDX-License-Identifier: Apache-2.0
"""wick serve on a file system that has no room, no inodes, or whose directory goes away: real tmpfs mounts, two tenants."""
import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from wick_tools import SHOP, Server, log_of, need, request, some, tokens_of, wait_for


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
    for t in some(tokens):
        status, body = send(s, t)
        assert status in (429, 503), (status, body)
        assert total(s, t) == 42
    assert words in s.json("/api/v1/status", token=tokens[0])["problem"]


def check_works(s, tokens):
    wait_for(lambda: s.get("/readyz")[0] == 200)
    for t in some(tokens):
        wait_for(lambda: send(s, t)[0] == 200)  # noqa: B023
        assert total(s, t) == 84


def test_full_at_start(small):
    d = small("size=300m")
    tokens = tokens_of(d)
    s = Server(d)
    try:
        for t in some(tokens):
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
        for t in some(tokens):
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
        for t in some(tokens):
            assert send(s, t)[0] == 200
        if how == "deleted":
            shutil.rmtree(tmp_path / "store")
        else:
            (tmp_path / "store").rename(tmp_path / "away")
            shutil.copytree(tmp_path / "away", tmp_path / "store")
        status, body = s.get("/readyz")
        assert status == 503 and how in body.decode()
        for t in some(tokens):
            status, body = send(s, t)
            assert status in (429, 503), (status, body)
            assert how.encode() in body
    finally:
        s.p.kill()
        s.p.wait()


@pytest.mark.parametrize("how", ["file", "folder", "moved", "replaced"])
@pytest.mark.parametrize("idle", [False, True])
def test_log_goes(tmp_path, how, idle):
    """The log is removed while the server runs. What was acknowledged, before and after, survives a kill; the log names it."""
    tokens, acked = tokens_of(tmp_path), {}
    s = Server(tmp_path)
    log = tmp_path / "store" / "log"
    try:
        for t in tokens * 3:
            assert send(s, t)[0] == 200
            acked[t] = acked.get(t, 0) + 42
        if how == "file":
            for f in log.iterdir():
                f.unlink()
        elif how == "folder":
            shutil.rmtree(log)
        else:
            log.rename(tmp_path / "away")
            if how == "replaced":
                owner = log.parent.stat()
                shutil.copytree(tmp_path / "away", log)
                for f in (log, *log.iterdir()):
                    os.chown(f, owner.st_uid, owner.st_gid)
        if idle:
            wait_for(lambda: "was removed while in use" in log_of(s), 30)
        refused = 0
        for _ in range(20):
            for t in some(tokens):
                status, body = send(s, t)
                assert status == 200 or (status in (429, 503) and b"the store's log was removed" in body), (status, body)
                refused += status != 200
                acked[t] += 42 * (status == 200)
        assert refused <= 1 - idle and all(total(s, t) == acked[t] for t in some(tokens))
        assert "was removed while in use: another one was begun" in log_of(s)
        wait_for(lambda: list((tmp_path / "store").glob("*/seg/*.seg")), 30)
        s.p.kill()
        s.p.wait()
        s.start()
        assert {t: total(s, t) for t in tokens} == acked
        assert s.get("/readyz")[0] == 200 and s.json("/api/v1/status", token=tokens[0])["damaged"] == 0
    finally:
        s.stop()


def test_log_cannot_be_replaced(tmp_path):
    """The log is gone and no other can be made: nothing is acknowledged, and the server says why."""
    tokens = tokens_of(tmp_path)
    s = Server(tmp_path)
    try:
        for t in some(tokens):
            assert send(s, t)[0] == 200
        shutil.rmtree(tmp_path / "store" / "log")
        (tmp_path / "store" / "log").write_text("")  # no folder can have this name
        wait_for(lambda: s.get("/readyz")[0] == 503, 30)
        assert b"the store's log was removed" in s.get("/readyz")[1]
        for t in some(tokens):
            status, body = send(s, t)
            assert status in (429, 503) and b"the store's log was removed" in body
            assert total(s, t) == 42
        assert "log was removed" in s.json("/api/v1/status", token=tokens[0])["problem"]
    finally:
        s.p.kill()
        s.p.wait()


@pytest.fixture
def own_disk(tmp_path):
    """A file system of its own, and what makes it read-only as the kernel does after an error."""
    need("mkfs.ext4", "mount")
    image, place = tmp_path / "image", tmp_path / "disk"
    place.mkdir()
    with image.open("wb") as f:
        f.truncate(300 << 20)
    subprocess.run(["mkfs.ext4", "-q", image], check=True)
    p = subprocess.run(["mount", "-o", "loop,errors=remount-ro", image, place], capture_output=True, text=True)
    if p.returncode:
        pytest.skip(p.stderr)
    place.chmod(0o777)
    device = next(line.split()[0] for line in Path("/proc/mounts").read_text().splitlines() if line.split()[1] == str(place))
    yield place, lambda: Path(f"/sys/fs/ext4/{Path(device).name}/trigger_fs_error").write_text("1")
    subprocess.run(["umount", place], check=True)


def test_read_only_file_system(own_disk):
    """A disk that becomes read-only: questions are answered, while it happens and after a restart; senders are to try again."""
    place, fail = own_disk
    s = Server(place, WICK_NO_AGENT="1")
    try:
        assert s.send(request(SHOP))[0] == 200
        fail()
        for restarted in (False, True):
            if restarted:
                s.stop()
                s.dir, s.options = place.parent, ("--store", str(place / "store"))  # its log is elsewhere
                s.start()
            assert s.send(request(SHOP, service="other"))[0] == 503
            assert s.json("/api/v1/top?query=cpu&from=now-1h")["total"] == 42
            assert s.get("/api/v1/flame?query=cpu")[0] == s.get("/api/v1/services")[0] == s.get("/")[0] == s.get("/healthz")[0] == 200
            assert s.get("/readyz")[0] == 503 and not s.json("/api/v1/status")["storing"]
    finally:
        s.stop()
