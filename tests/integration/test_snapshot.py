# SPDX-License-Identifier: Apache-2.0
"""A copy of the store of a running server, under load: it is a store by itself, has all that was acknowledged before it was asked for
once, and nothing in parts; who writes meanwhile notices nothing."""
import json
import os
import time
from pathlib import Path

from copy_tools import counts, loaded, opened, wick  # noqa: F401
from wick_tools import SHOP, Binary, Server, request, some, tokens_of, wait_for


def test_under_load(loaded, tmp_path):  # noqa: F811
    """By the API and by the command, several times while two tenants write, with files that are uploaded, notes and rules."""
    s, admin, senders = loaded
    b = Binary(tmp_path)
    tenant = senders[0].token
    assert s.get("/api/v1/symbols/" + b.build_id, tenant, b.path.read_bytes(), method="PUT")[0] == 200
    assert s.get("/api/v1/notes", tenant, json.dumps({"text": "a note", "service": "shop"}).encode(), {"Content-Type": "application/json"})[0] == 200
    for i in range(3):
        wait_for(lambda n=i: all(x.acked > 20 * (n + 1) or x.wrong for x in senders))
        before = counts(senders)
        if i == 0:
            status, body = s.get("/api/v1/snapshot", admin, b"", method="POST")
            assert status == 200, body
            made = Path(json.loads(body)["dir"])
            assert made.parent == tmp_path / "store/snapshots" and not list(made.parent.glob("*.part"))
        else:
            made = tmp_path / "backups" / str(i)
            p = wick("store", "snapshot", made, "--store", s.dir / "store", "--server", s.url, WICK_TOKEN=admin)
            assert p.returncode == 0, p.stderr
        after = counts(senders)
        assert not any(x.wrong for x in senders), [x.wrong for x in senders]
        check = wick("store", "check", made)
        assert check.returncode == 0 and "0 problems" in check.stdout, check
        copy = opened(tmp_path / f"copy{i}", made, tmp_path)
        try:
            for x, low, high in some(zip(senders, before, after)):
                total = copy.json("/api/v1/top?query=cpu&from=now-1h&to=now%2B1h&limit=1", token=x.token)["total"]
                assert total % 7 == 0 and low[0] <= total // 7 <= high[0] + 1, (total / 7, low, high)
                [row] = copy.json("/api/v1/span_names?from=now-1h&to=now%2B1h", token=x.token)["spans"]
                assert low[1] <= int(row["count"]) <= high[1] + 1, (row, low, high)
            assert copy.json("/api/v1/notes", token=tenant)["notes"][0]["text"] == "a note"
            assert copy.get(f"/buildid/{b.build_id}/debuginfo", tenant)[1] == b.path.read_bytes()
            assert copy.send(request(SHOP), tenant)[0] == 200  # and it can be written to
        finally:
            copy.stop()
    assert list((tmp_path / "store/snapshots").iterdir()) == []  # all were moved away


def test_only_for_the_operator(tmp_path):
    one, _ = tokens_of(tmp_path)
    s = Server(tmp_path)
    try:
        assert s.get("/api/v1/snapshot", one, b"", method="POST")[0] == 403
        assert s.get("/api/v1/snapshot", None, b"", method="POST")[0] == 401
        assert not (tmp_path / "store/snapshots").exists()
    finally:
        s.stop()


def test_what_goes_wrong(tmp_path):
    """Another store is meant; there is no server; a copy that was not finished is removed by the next start, one that was is kept."""
    s = Server(tmp_path)
    try:
        assert s.send(request(SHOP))[0] == 200
        p = wick("store", "snapshot", tmp_path / "x", "--store", tmp_path, "--server", s.url)
        assert p.returncode == 1 and f"store is '{tmp_path}/store', not '{tmp_path}'" in p.stderr, p.stderr
        p = wick("store", "snapshot", tmp_path / "y", "--store", tmp_path / "store", "--server", "127.0.0.1:1")
        assert p.returncode == 1 and "is in use, and its server makes no snapshot: " in p.stderr, p.stderr
        (tmp_path / "full").mkdir()
        (tmp_path / "full" / "a").touch()
        p = wick("store", "snapshot", tmp_path / "full", "--store", tmp_path / "store", "--server", s.url)
        assert p.returncode == 1 and "not empty" in p.stderr, p.stderr
        kept = list((tmp_path / "store/snapshots").iterdir())
        assert len(kept) == 1
        (tmp_path / "store/snapshots/20200101T000000Z-0000.part/log").mkdir(parents=True)
        s.stop()
        s.start()
        assert list((tmp_path / "store/snapshots").iterdir()) == kept
    finally:
        s.stop()


def test_does_not_count_for_retention(tmp_path):
    """Copies of a store do not make retention.size delete what was copied."""
    s = Server(tmp_path, "--set", "retention.size=64MiB")
    try:
        assert s.send(request(SHOP))[0] == 200
        assert s.get("/api/v1/snapshot", None, b"", method="POST")[0] == 200
        before = s.json("/api/v1/status")["diskBytes"]
        with open(tmp_path / "store/snapshots/big", "wb") as f:
            f.write(os.urandom(80 << 20))
        assert s.send(request(SHOP))[0] == 200
        s.stop()
        s.start()
        time.sleep(2)
        status = s.json("/api/v1/status")
        assert status["diskBytes"] < before + (4 << 20)
        assert s.json("/api/v1/top?query=cpu&from=now-1h")["total"] == 84
    finally:
        s.stop()
