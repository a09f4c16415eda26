# SPDX-License-Identifier: Apache-2.0
"""wick store backup and restore: while two tenants write, to a directory and to an object store, only what is new, back to each point in
time; the restored store gives every answer that the server gave. What is damaged or not ours is refused, and nothing of it is left."""
import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import threading
import time
from pathlib import Path

import minio_peer
import pytest
from copy_tools import counts, loaded, opened, wick  # noqa: F401
from s3_lite import S3Lite
from wick_tools import ROOT, SHOP, WICK, Binary, Server, free_port, request, some, tokens_of, wait_for

VERSION = subprocess.run([WICK, "--version"], capture_output=True, text=True).stdout.split()[-1]
JSON = {"Content-Type": "application/json"}
RANGE = "from=now-1h&to=now%2B1h"


def run(*args, code=0, **env):
    p = wick("store", *args, **env)
    assert p.returncode == code, (args, p.stdout, p.stderr)
    return p.stdout + p.stderr


def backups(place, **env):
    return json.loads(wick("store", "backups", place, "--json", **env).stdout)


def objects_in(place):
    return {p.name: p.stat().st_size for p in (place / "files").iterdir()}


@pytest.fixture
def s3():
    server = S3Lite()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server, f"s3://bucket/wick?endpoint=http://127.0.0.1:{server.server_port}"
    server.shutdown()


def sees(s, token, low, high):
    """What was acknowledged at least and at most, in the answers of a server."""
    total = s.json(f"/api/v1/top?query=cpu&{RANGE}&limit=1", token=token)["total"]
    assert total % 7 == 0 and low[0] <= total // 7 <= high[0] + 1, (total / 7, low, high)
    [row] = s.json(f"/api/v1/span_names?{RANGE}", token=token)["spans"]
    assert low[1] <= int(row["count"]) <= high[1] + 1, (row, low, high)


def answers(s, tokens, begin):
    """Of every question that has one, for both tenants; without what is about the asking."""
    out, query = {}, f"query=cpu&from={begin}&to={begin + 7200}"
    paths = [f"/api/v1/{name}?{query}&limit=5000" for name in ("flame", "top", "series", "profiles", "spans", "labels", "types", "coverage", "profile", "trends")]
    paths += [f"/api/v1/{x}?from={begin}&to={begin + 7200}" for x in ("labels/service.name/values", "span_names", "services", "notes", "views")]
    for token in some(tokens):
        for path in some(paths):
            status, body = s.get(path, token)
            if "/profile?" in path and status == 200:  # the order of samples is that of memory or of segments
                p = subprocess.run([WICK, "convert", "-", "-", "--to", "folded"], input=body, capture_output=True, check=True)
                body = sorted(p.stdout.splitlines())
                assert body
            out[token, path] = status, body
    assert sum(status == 200 for status, _ in out.values()) >= 2 * 12, {k[1]: v[0] for k, v in out.items()}
    return out


def test_under_load(loaded, tmp_path):  # noqa: F811
    """Three backups while two tenants write; each is restored, and has what was acknowledged at its time."""
    s, admin, senders = loaded
    b, place, points = Binary(tmp_path), tmp_path / "kept", []
    tenant = senders[0].token
    assert s.get("/api/v1/symbols/" + b.build_id, tenant, b.path.read_bytes(), method="PUT")[0] == 200
    assert s.get("/api/v1/notes", tenant, json.dumps({"text": "a note", "service": "shop"}).encode(), JSON)[0] == 200
    for i in range(3):
        wait_for(lambda n=i: all(x.acked > 15 * (n + 1) or x.wrong for x in senders))
        before = counts(senders)
        said = run("backup", place, "--store", s.dir / "store", "--server", s.url, WICK_TOKEN=admin)
        points.append((before, counts(senders)))
        assert "were not there yet" in said
    assert not any(x.wrong for x in senders), [x.wrong for x in senders]
    assert list((tmp_path / "store/snapshots").iterdir()) == []
    made = backups(place)
    assert [x["name"] for x in made] == sorted(x["name"] for x in made) and len(made) == 3
    for i, (one, (before, after)) in enumerate(some(zip(made, points))):
        run("restore", place, tmp_path / f"r{i}", "--at", one["time"])
        assert "0 problems" in run("check", tmp_path / f"r{i}")
        copy = opened(tmp_path / f"copy{i}", tmp_path / f"r{i}", tmp_path)
        try:
            for x, low, high in some(zip(senders, before, after)):
                sees(copy, x.token, low, high)
            assert copy.json("/api/v1/notes", token=tenant)["notes"][0]["text"] == "a note"
            assert copy.get(f"/buildid/{b.build_id}/debuginfo", tenant)[1] == b.path.read_bytes()
            assert copy.send(request(SHOP), tenant)[0] == 200
        finally:
            copy.stop()


@pytest.mark.parametrize("stopped", [False, True])
def test_every_answer_is_the_same(stopped, s3, tmp_path):
    """From an object store, of a server that runs and of one that is stopped."""
    objects, place = s3
    tokens = tokens_of(tmp_path)
    made = subprocess.run([WICK, "token", "create", "--scope", "admin", "--file", tmp_path / "tokens"], capture_output=True, text=True, check=True)
    env = {**S3Lite.ENV, "WICK_TOKEN": made.stdout.split()[-1]}
    s = Server(tmp_path, WICK_NO_AGENT="1")
    try:
        begin = int(time.time()) - 3600
        for token, service in zip(tokens * 2, ("shop", "bank", "cart", "mail")):
            assert s.send(request(SHOP, service), token)[0] == 200
        assert s.get("/api/v1/notes", tokens[0], json.dumps({"text": "deployed", "service": "shop"}).encode(), JSON)[0] == 200
        was = answers(s, tokens, begin)
        admin = [] if stopped else ["--server", s.url]
        if stopped:
            s.stop()
        run("backup", place, "--store", tmp_path / "store", *admin, **env)
        assert len([k for k in objects.objects if k.startswith("/bucket/wick/backups/")]) == 1
        assert all(hashlib.sha256(v).hexdigest() == Path(k).name for k, v in some(objects.objects.items()) if "/files/" in k)
        run("restore", place, tmp_path / "restored", **env)
        copy = opened(tmp_path / "copy", tmp_path / "restored", tmp_path)
        try:
            now = answers(copy, tokens, begin)
            assert {k[1]: now[k] for k in was if now[k] != was[k]} == {}
        finally:
            copy.stop()
    finally:
        if s.p.poll() is None:
            s.stop()


@pytest.fixture
def store(tmp_path):
    """A stopped store with some data, and a place with one backup of it."""
    s = Server(tmp_path, WICK_NO_AGENT="1")
    assert s.send(request(SHOP))[0] == 200
    s.stop()
    run("backup", tmp_path / "kept", "--store", tmp_path / "store")
    return tmp_path / "store", tmp_path / "kept"


def test_only_what_is_new(store, tmp_path):
    directory, place = store
    first = objects_in(place)
    said = run("backup", place, "--store", directory)
    added = set(objects_in(place)) - set(first)
    segments = {p.stat().st_size for p in directory.rglob("*.seg")}
    assert segments and not segments & {objects_in(place)[n] for n in added}, "the segment was written again"
    assert f"of which {len(added)} of " in said and len(added) < len(first)
    s = Server(tmp_path, WICK_NO_AGENT="1")
    assert s.send(request([("main;later", 9, False)], "later"))[0] == 200
    s.stop()
    run("backup", place, "--store", directory, "--keep", "2")
    listed = backups(place)
    assert len(listed) == 2 and listed[1]["profiles"] == listed[0]["profiles"] + 1
    needed = {f["sha256"] for p in (place / "backups").iterdir() for f in json.loads(p.read_text())["files"] if f.get("sha256")}
    assert set(objects_in(place)) == needed
    run("restore", place, tmp_path / "a", "--at", listed[0]["time"])
    run("restore", place, tmp_path / "b")
    stats = [json.loads(run("stats", tmp_path / n, "--json")) for n in ("a", "b")]
    assert stats[1]["profiles"] == stats[0]["profiles"] + 1 and stats[0]["services"] == 1 and stats[1]["services"] == 2
    assert "no backup of that time or before" in run("restore", place, tmp_path / "c", "--at", "2020-01-01T00:00:00Z", code=1)


def edit(place, change):
    [path] = (place / "backups").iterdir()
    description = json.loads(path.read_text())
    change(description)
    path.write_text(json.dumps(description))


def put(name, **members):
    """Changes the entry of a file."""
    def change(d):
        next(f for f in d["files"] if f["path"].endswith(name)).update(members)
    return change


@pytest.mark.parametrize("change, words", [
    (put("FORMAT", path="../outside"), "invalid path"), (put("FORMAT", path="/tmp/outside"), "invalid path"), (put("FORMAT", path="a/../../outside"), "invalid path"),
    (put("FORMAT", path="a//b"), "invalid path"), (put("FORMAT", path="a\nb"), "invalid path"), (put("FORMAT", sha256="../../etc/passwd"), "invalid path or checksum"),
    (put("FORMAT", sha256="0" * 64), "cannot read"), (put("FORMAT", size=1 << 60), "size"), (put("FORMAT", size=3), "another checksum"),
    (lambda d: d.update(format=2, wick="9.9.9"), "has format 2 and was made by wick 9.9.9; this is wick 0."),
    (lambda d: d.update(profiles=d["profiles"] + 1), "profiles"), (lambda d: d["files"].extend(f for f in d["files"][:] if f["path"] == "FORMAT"), "exist"),
])
def test_what_is_not_trusted(store, change, words, tmp_path):
    """A description that lies is refused; nothing is written outside, and no store is left."""
    edit(store[1], change)
    assert words in run("restore", store[1], tmp_path / "x/target", code=1)
    assert not (tmp_path / "x/target/FORMAT").exists() or "profiles" in words
    assert not (tmp_path / "x/outside").exists() and not (tmp_path / "outside").exists()


def test_damage(store, tmp_path):
    """A file of the backup that is damaged, short or gone."""
    directory, place = store
    victim = place / "files" / hashlib.sha256(next(directory.rglob("*.seg")).read_bytes()).hexdigest()
    good = victim.read_bytes()
    for bad, words in ((good[:-1] + bytes([good[-1] ^ 1]), "another checksum"), (good[:-1], "cannot read"), (None, "No such file")):
        victim.unlink()
        if bad is not None:
            victim.write_bytes(bad)
        said = run("restore", place, tmp_path / "target", code=1)
        assert victim.name in said and words in said, said
        assert not (tmp_path / "target").exists()
    run("backup", place, "--store", directory)  # the next backup brings back what is gone
    assert victim.read_bytes() == good
    run("restore", place, tmp_path / "target")


def test_wrong_use(store, tmp_path):
    directory, place = store
    assert "not empty" in run("restore", place, directory, code=1)
    assert "there are no backups" in run("restore", tmp_path, tmp_path / "x", code=1)
    assert "No such file" in run("restore", tmp_path / "none", tmp_path / "x", code=1)
    assert "is not a store" in run("backup", tmp_path / "y", "--store", tmp_path / "none", code=1)
    assert "database's own" in run("backup", tmp_path / "y", "--store", "memory:", code=1)
    assert "--keep" in run("backup", place, "--store", directory, "--keep", "0", code=2)
    assert "credentials" in run("backup", "s3://bucket/x", "--store", directory, code=1, AWS_ACCESS_KEY_ID="", HOME=str(tmp_path))
    with open(place / "LOCK") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert "another program is writing" in run("backup", place, "--store", directory, code=1)
    assert backups(tmp_path) == []


def test_owner(store, tmp_path):
    """What root does to the store of a service's user leaves everything that user's; so does a restore into that user's directory."""
    if os.geteuid() != 0:
        pytest.skip("not root")
    directory, place = store
    for p in (directory, *directory.rglob("*")):
        os.chown(p, 65534, 65534)
    run("backup", place, "--store", directory)
    run("confirm", "damage", "--store", directory)
    (tmp_path / "service").mkdir()
    os.chown(tmp_path / "service", 65534, 65534)
    run("restore", place, tmp_path / "service/store")
    for top in (directory, tmp_path / "service/store"):
        assert {p.lstat().st_uid for p in (top, *top.rglob("*"))} == {65534}, top


@pytest.mark.slow
def test_minio(tmp_path):
    """A real object store, with a file of several parts."""
    if not minio_peer.program():
        pytest.skip("minio cannot be built here")
    (tmp_path / "objects").mkdir()
    with minio_peer.Minio(tmp_path / "objects", free_port()) as m:
        s = Server(tmp_path, WICK_NO_AGENT="1")
        try:
            assert s.send(request(SHOP))[0] == 200
            big = os.urandom(40 << 20)
            (tmp_path / "store/files").mkdir(exist_ok=True)
            (tmp_path / "store/files/big").write_bytes(big)
            place = m.place("backup")
            for _ in range(2):
                run("backup", place, "--store", tmp_path / "store", "--server", s.url, "--keep", "1", **m.env())
            run("restore", place, tmp_path / "restored", **m.env())
            assert (tmp_path / "restored/files/big").read_bytes() == big and len(backups(place, **m.env())) == 1
        finally:
            s.stop()


# --- formats of the store ---

def test_upgrade_and_downgrade(tmp_path):
    """A store of each version that was released is opened and written to; one of a later version is refused with both versions named."""
    for fixture in some(sorted((ROOT / "tests/data").glob("store-v*"))):
        shutil.copytree(fixture, tmp_path / fixture.name)
        counted = [json.loads(run("stats", tmp_path / fixture.name, "--json"))["profiles"]]
        for sent in (0, 1):  # the first start writes what is in its log to segments
            s = Server(tmp_path, "--store", str(tmp_path / fixture.name), "--set", "retention.keep=36500d", WICK_NO_AGENT="1")
            try:
                assert not sent or s.send(request(SHOP))[0] == 200
            finally:
                s.stop()
            counted.append(json.loads(run("stats", tmp_path / fixture.name, "--json"))["profiles"])
        assert 0 < counted[0] <= counted[1] == counted[2] - 1, counted
        assert (tmp_path / fixture.name / "FORMAT").read_text() == "wick store 1\nwick " + VERSION + "\n"
    path = tmp_path / fixture.name / "FORMAT"
    kept = {p: p.read_bytes() for p in path.parent.rglob("*") if p.is_file()}
    for text, named in (("wick store 2\nwick 9.9.9\n", "of wick 9.9.9"), ("wick store 2\n", "of a later version")):
        path.write_text(text)
        p = wick("serve", "--no-agent", "--store", path.parent, "--http", "127.0.0.1:0", HOME=str(tmp_path), XDG_DATA_HOME=str(tmp_path))
        for said in (p.stderr, run("stats", path.parent, code=1)):
            assert f"has the format 'wick store 2' {named}; this is wick {VERSION}, which supports 'wick store 1'" in said, said
        assert p.returncode == 1 and path.read_text() == text
    assert {p: p.read_bytes() for p in kept if p != path} == {p: d for p, d in kept.items() if p != path}
