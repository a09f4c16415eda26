# SPDX-License-Identifier: Apache-2.0
"""Limits that a client can reach do no harm: one less, the limit, one more, each with a restart; and files of state that cannot be read
are set aside: the server starts, names them, and the rest works."""
import json
import re
from pathlib import Path

import pytest

from wick_tools import SHOP as STACKS, Binary, Server, log_of, profiles_service, request, some, token_of, tokens_of, wait_for

CPU = "process_cpu:cpu:nanoseconds:cpu:nanoseconds"
TYPE = f'{{__profile_type__="{CPU}"}}'
TEMPORARY = ".tmp0123456789abcdef"  # of a file that is about to be renamed
JSON = {"Content-Type": "application/json"}


def rpc(server, method, token=None, **fields):
    status, body = server.get("/settings.v1." + method, token=token, data=json.dumps(fields).encode(), headers=JSON)
    return status, json.loads(body or b"{}")


def upsert(server, token=None, n=1, **fields):
    return rpc(server, "RecordingRulesService/UpsertRecordingRule", token,
               **{"metricName": "m", "matchers": [TYPE] + [f'{{a{i}="b"}}' for i in range(n - 1)], **fields})


def rules(server, token=None):
    status, answer = rpc(server, "RecordingRulesService/ListRecordingRules", token)
    assert status == 200, answer
    return answer["rules"]


def add(server, kind, i, token=None):
    fields = {"notes": {"text": f"note {i}", "service": "shop"}, "views": {"text": f"view {i}", "url": "explore?query=cpu"}}[kind]
    status, body = server.get(f"/api/v1/{kind}", token, json.dumps(fields).encode(), JSON)
    return status, json.loads(body)


def again(server):
    server.stop()
    server.start()


@pytest.mark.parametrize("n", (15, 16, 17))
def test_matchers_of_a_rule(tmp_path, n):
    server = Server(tmp_path)
    try:
        status, answer = upsert(server, n=n, id="a")
        assert status == (200 if n <= 16 else 400), answer
        assert upsert(server, id="b")[0] == 200
        again(server)
        assert [len(r["matchers"]) for r in rules(server)] == ([n, 1] if n <= 16 else [1])
        assert server.json("/api/v1/status")["setAside"] == []
        if n <= 16:
            assert rpc(server, "RecordingRulesService/DeleteRecordingRule", id="a")[0] == 200
    finally:
        server.stop()


def test_number_and_size_of_rules(tmp_path):
    one, two = tokens_of(tmp_path)
    server = Server(tmp_path)
    try:
        name = "f" * (4096 - len(TYPE))
        for extra, status in (("", 200), ("f", 400)):
            got, answer = upsert(server, one, id="x" + "x" * len(extra), stacktraceFilter={"functionName": {"functionName": name + extra}})
            assert got == status and (status == 200 or "at most 4096 bytes" in answer["message"]), answer
        for i in range(98):
            assert upsert(server, one, id="a" * (i + 2))[0] == 200
        for want in (200, 429):  # the 100th and the 101st
            assert upsert(server, one)[0] == want
        assert upsert(server, two)[0] == 200
        again(server)
        assert len(rules(server, one)) == 100 and len(rules(server, two)) == 1
        assert upsert(server, one)[0] == 429 and upsert(server, two)[0] == 200
        assert rpc(server, "RecordingRulesService/DeleteRecordingRule", one, id="aa")[0] == 200
        assert upsert(server, one)[0] == 200
    finally:
        server.stop()


@pytest.mark.parametrize("kind", ("notes", "views"))
def test_number_of_marks(tmp_path, kind):
    server = Server(tmp_path)
    admin = token_of(server, "admin")
    try:
        for i in range(499):
            assert add(server, kind, i, admin)[0] == 200
        for want, kept in ((200, 500), (413, 500)):
            status, answer = add(server, kind, "last", admin)
            assert status == want, answer
            assert len(server.json(f"/api/v1/{kind}", token=admin)[kind]) == kept
        again(server)
        marks = server.json(f"/api/v1/{kind}", token=admin)[kind]
        assert len(marks) == 500 and add(server, kind, "more", admin)[0] == 413
        assert server.get(f"/api/v1/{kind}/{marks[0]['id']}", admin, method="DELETE")[0] == 200
        assert add(server, kind, "again", admin)[0] == 200 and len(server.json(f"/api/v1/{kind}", token=admin)[kind]) == 500
    finally:
        server.stop()


def setting(server, name, value="v", method="Set", token=None):
    return rpc(server, "SettingsService/" + method, token, **({"setting": {"name": name, "value": value}} if method == "Set" else {"name": name}))


def test_number_of_settings(tmp_path):
    server = Server(tmp_path)
    try:
        for i in range(199):
            assert setting(server, f"s{i}")[0] == 200
        assert setting(server, "last")[0] == 200
        status, answer = setting(server, "more")
        assert status == 429 or status == 400, answer
        again(server)
        assert len(rpc(server, "SettingsService/Get")[1]["settings"]) == 200
        assert setting(server, "more")[0] == status and setting(server, "s0", "changed")[0] == 200
        assert setting(server, "s1", method="Delete")[0] == 200 and setting(server, "more")[0] == 200
    finally:
        server.stop()


def test_size_of_settings(tmp_path):
    """Values that take six times their size in the file: what was accepted can be read, and deleted."""
    server = Server(tmp_path)
    try:
        big, taken = "\x01" * 65536, 0
        while (status := setting(server, f"s{taken}", big)[0]) == 200:
            taken += 1
        assert status == 429 and 10 < taken < 200
        again(server)
        for _ in range(2):
            status, answer = rpc(server, "SettingsService/Get")
            assert status == 200 and len(answer["settings"]) == taken
        assert setting(server, "s0", method="Delete")[0] == 200 and setting(server, "s0", big)[0] == 200
    finally:
        server.stop()


def files_of(server, name):
    return [p for p in (server.dir / "store").rglob(name + "*") if p.is_file()]


def spoil(path, how):
    if how == "text":
        path.write_text('{"what":[')
    elif how == "many":
        name = path.name.partition(".")[0].replace("recording-", "")
        path.write_text(json.dumps({"tenant": "one", name: [{}] * 501}))
    elif how == "big":
        with path.open("r+b") as f:
            f.truncate(65 << 20)
    else:
        path.unlink()
        path.mkdir()


@pytest.mark.parametrize("how", ("text", "many", "big", "folder"))
def test_files_of_a_tenant(tmp_path, how):
    """Each file of one tenant is spoiled; the other tenant has all of its own, and the first one can begin anew."""
    one, two = tokens_of(tmp_path)
    server = Server(tmp_path)
    admin = token_of(server, "admin")
    try:
        for token in (one, two):
            assert upsert(server, token, id="a")[0] == 200 and setting(server, "s", token=token)[0] == 200
            assert add(server, "notes", 1, token)[0] == 200 and add(server, "views", 1, token)[0] == 200
        server.stop()
        folder = next(p.parent for p in files_of(server, "recording-rules.json") if json.loads(p.read_text())["tenant"] == "one")
        for name in ("recording-rules", "settings", "notes", "views"):
            spoil(folder / f"{name}.json", how)
        server.start()
        for token, n in ((one, 0), (two, 1)):
            assert len(rules(server, token)) == n
            assert len(rpc(server, "SettingsService/Get", token)[1].get("settings", [])) == n
            assert [len(server.json(f"/api/v1/{kind}", token=token)[kind]) for kind in ("notes", "views")] == [n, n]
        aside = server.json("/api/v1/status", token=admin)["setAside"]
        assert sorted(Path(a["file"]).name.partition(".")[0] for a in aside) == ["notes", "recording-rules", "settings", "views"], aside
        for a in some(aside):
            assert a["reason"] and Path(a["file"]).exists() and Path(a["file"]).parent == folder, a
        text = log_of(server)
        assert all(f"{folder}/{name}.json" in text for name in ("recording-rules", "settings", "notes", "views")), text
        assert server.json("/api/v1/status", token=two)["setAside"] == []
        assert "wick_files_set_aside_total 4" in server.get("/metrics", token=admin)[1].decode()
        assert upsert(server, one, id="b")[0] == 200 and setting(server, "s", token=one)[0] == 200 and add(server, "notes", 2, one)[0] == 200
        again(server)
        assert [r["id"] for r in rules(server, one)] == ["b"] and len(server.json("/api/v1/notes", token=one)["notes"]) == 1
        assert server.json("/api/v1/status", token=admin)["setAside"] == []
    finally:
        server.stop()


def test_what_a_kill_leaves(tmp_path):
    """New versions of files that were never renamed, and an uploaded file that the index did not list yet: they are removed, count for
    nothing, and are no damage."""
    token = tokens_of(tmp_path)[0]
    server = Server(tmp_path)
    admin, binary = token_of(server, "admin"), Binary(tmp_path)
    assert upsert(server, token, id="a")[0] == 200 and server.send(request(STACKS), token)[0] == 200
    assert server.get("/api/v1/symbols/" + binary.build_id, token, binary.path.read_bytes(), method="PUT")[0] == 200
    server.stop()
    store = tmp_path / "store"
    [rules_file] = files_of(server, "recording-rules.json")
    [kept] = [f for f in (store / "binaries").iterdir() if re.fullmatch("[0-9a-f]{32}", f.name)]
    left = [rules_file.with_name("recording-rules.json" + TEMPORARY), store / ("FORMAT" + TEMPORARY), store / ("alerts.json" + TEMPORARY),
            store / "1" / ("NAME" + TEMPORARY), store / "binaries" / ("index" + TEMPORARY), store / "binaries" / ("0" * 32)]
    for path in left:
        path.write_text('{"what":[')
    server.start()
    try:
        assert [r["id"] for r in rules(server, token)] == ["a"] and upsert(server, token, id="b")[0] == 200
        assert kept.exists() and [p for p in left if p.exists()] == []
        status = server.json("/api/v1/status", token=admin)
        assert status["setAside"] == [] and "damage" not in log_of(server)
    finally:
        server.stop()


def test_rules_that_cannot_be_compiled(tmp_path):
    """One tenant's rule, valid when it was accepted, no longer is: only that tenant's rules are set aside."""
    one, two = tokens_of(tmp_path)
    server = Server(tmp_path)
    try:
        assert upsert(server, one, id="a")[0] == 200 and upsert(server, two, id="a")[0] == 200
        server.stop()
        path = next(p for p in files_of(server, "recording-rules.json") if json.loads(p.read_text())["tenant"] == "one")
        path.write_text(path.read_text().replace('"metric":"m"', '"metric":""'))
        server.start()
        assert rules(server, one) == [] and len(rules(server, two)) == 1
        aside = server.json("/api/v1/status", token=one)["setAside"]
        assert len(aside) == 1 and "recording-rules.json.unreadable-" in aside[0]["file"] and "name" in aside[0]["reason"], aside
    finally:
        server.stop()


def test_many_large_rules(tmp_path):
    """67 rules of 800 KB, written by an earlier version: neither the start nor another tenant's rules end by them."""
    one, two = tokens_of(tmp_path)
    server = Server(tmp_path)
    admin = token_of(server, "admin")
    try:
        assert upsert(server, one, id="a")[0] == 200 and upsert(server, two, id="a")[0] == 200
        server.stop()
        path = next(p for p in files_of(server, "recording-rules.json") if json.loads(p.read_text())["tenant"] == "one")
        kept = json.loads(path.read_text())
        kept["rules"] = [{**kept["rules"][0], "id": "a" * (i + 1), "function": "f" * 800_000} for i in range(67)]
        path.write_text(json.dumps(kept))
        server.start()
        assert rules(server, one) == [] and len(rules(server, two)) == 1
        assert "more than 8 MiB" in server.json("/api/v1/status", token=admin)["setAside"][0]["reason"]
    finally:
        server.stop()


def test_files_of_the_server(tmp_path):
    """The states of alerts and the index of symbol files."""
    server = Server(tmp_path)
    server.stop()
    store = tmp_path / "store"
    (store / "alerts.json").write_text("{")
    (store / "binaries").mkdir(exist_ok=True)
    (store / "binaries" / "index").write_text("nonsense\n")
    server.start()
    try:
        aside = server.json("/api/v1/status")["setAside"]
        assert {Path(a["file"]).name.partition(".")[0] for a in aside} == {"alerts", "index"}, aside
        assert "line 1 is not one of an index" in str(aside)
    finally:
        server.stop()
    for path in ("alerts.json", "binaries/index"):
        (store / path).unlink(missing_ok=True)
        (store / path).mkdir()
    server.start()
    try:
        assert {Path(a["file"]).name.partition(".")[0] for a in server.json("/api/v1/status")["setAside"]} == {"alerts", "index"}
    finally:
        server.stop()


def test_token_file(tmp_path):
    """A token file that cannot be read opens nothing: the server runs, refuses everyone, says so, and goes on when it is mended."""
    profiles_service()
    token = tokens_of(tmp_path, ("",))[0] if False else None
    server = Server(tmp_path)
    token = token_of(server, "admin")
    wait_for(lambda: server.get("/api/v1/status")[0] == 401, 30)
    server.stop()
    tokens = tmp_path / "tokens"
    good = tokens.read_text()
    tokens.write_text(good + "nonsense\n")
    server.start()
    try:
        assert "all requests are refused" in log_of(server) and ":3: not a token line" in log_of(server)
        assert server.get("/api/v1/status")[0] == 401
        status, body = server.get("/api/v1/status", token=token)
        assert status == 503 and b"cannot read its tokens" in body
        assert server.send(request(STACKS))[0] == 401 and server.send(request(STACKS), token)[0] == 503
        assert server.get("/readyz")[0] == 503 and server.get("/healthz")[0] == 200
        tokens.write_text(good)
        wait_for(lambda: server.get("/api/v1/status", token=token)[0] == 200, 30)
        assert server.get("/readyz")[0] == 200 and server.get("/api/v1/status")[0] == 401
    finally:
        server.stop()


def test_lengths(tmp_path):
    """Texts, names and values at one less than their limit, at it and one above; what was accepted is there after a restart."""
    server = Server(tmp_path)

    def mark(kind, **fields):
        return server.get(f"/api/v1/{kind}", None, json.dumps(fields).encode(), JSON)[0]

    try:
        for extra, ok in ((-1, True), (0, True), (1, False)):
            assert mark("notes", text="n" * (2000 + extra)) == (200 if ok else 400)
            assert mark("notes", text="s", service="s" * (2000 + extra)) == (200 if ok else 400)
            assert mark("views", text="v", url="explore?" + "u" * (8000 - 8 + extra)) == (200 if ok else 400)
            assert setting(server, f"s{extra}", "v" * (65536 + extra))[0] == (200 if ok else 400)
            assert setting(server, "n" * (65536 + extra))[0] == (200 if ok else 400)
            assert upsert(server, id="i" * (100 + extra))[0] == (200 if ok else 400)
            assert upsert(server, id=f"m{'x' * (extra + 1)}", metricName="m" * (200 + extra))[0] == (200 if ok else 400)
        for _ in range(2):
            assert sorted(len(m["text"]) for m in server.json("/api/v1/notes")["notes"]) == [1, 1, 1999, 2000]
            assert sorted(len(m["url"]) for m in server.json("/api/v1/views")["views"]) == [7999, 8000]
            assert len(rpc(server, "SettingsService/Get")[1]["settings"]) == 4
            assert sorted(len(r["id"]) for r in rules(server)) == [1, 2, 99, 100]
            again(server)
        assert server.json("/api/v1/status")["setAside"] == []
    finally:
        server.stop()


def test_number_of_uploads_that_are_not_complete(tmp_path):
    """Sixteen of a tenant at a time; another tenant has its own, and a restart forgets those that were never completed."""
    one, two = tokens_of(tmp_path)
    server = Server(tmp_path)

    def begin(token, k):
        return server.get(f"/api/v1/symbols/{k:040x}?offset=0&size=1000", token, b"x" * 10, method="PUT")[0]

    try:
        for _ in range(2):
            assert [begin(one, k) for k in range(17)] == [200] * 16 + [429], "of one tenant"
            assert begin(two, 1) == 200
            again(server)
            assert list((tmp_path / "store/binaries").glob("*.part")) == []
    finally:
        server.stop()
