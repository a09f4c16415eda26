# SPDX-License-Identifier: Apache-2.0
"""retention.size and limits.tenant_size: everything in the store's directory counts, as `du` counts it; the tenant that is over loses
its own oldest profiles, and nobody else anything."""
import os
import time

import pytest
from tenant_tools import Names, Shared, push, total
from wick_tools import SHOP, Binary, need, request, wait_for

MIB = 1 << 20


def du(directory):
    """Bytes of a directory, as `du -s` adds them up."""
    sizes = [os.lstat(directory).st_blocks]
    for at, folders, files in os.walk(directory):
        for name in folders + files:
            try:
                sizes.append(os.lstat(f"{at}/{name}").st_blocks)
            except FileNotFoundError:
                pass
    return sum(sizes) * 512


def unnamed(s):
    """Bytes of files in the store that have no name any more: earlier stacks, which the kernel reads when a query needs them."""
    found = {}
    with open(f"/proc/{s.p.pid}/maps") as f:
        for line in f:
            at, _, _, _, inode, *path = line.split()
            if path and path[0].startswith(str(s.dir / "store")) and path[-1] == "(deleted)":
                first, last = (int(x, 16) for x in at.split("-"))
                found[inode] = found.get(inode, 0) + last - first
    return sum(found.values())


def used(s):
    return du(s.dir / "store") + unnamed(s)


def flood(s, token, want, n=20_000):
    """Stores unique names, most of which end up in symbol files, until `want` bytes of them were accepted."""
    names, accepted = Names(n), 0
    while accepted < want:
        status, body = push(s, token, names.next())
        assert status in (200, 503), body
        accepted += n * 64 if status == 200 else 0
        time.sleep(0 if status == 200 else 0.2)
    return accepted


@pytest.fixture
def small(tmp_path):
    s = Shared(tmp_path, "--set", "retention.size=24MiB", "--set", "limits.memory=512MiB")
    yield s
    if s.p.poll() is None:
        s.stop()


def settled(s, limit):
    wait_for(lambda: used(s) <= limit, 30, why=lambda: (used(s) / MIB, s.json("/api/v1/status", token=s.operator)["diskBytes"] / MIB))


@pytest.mark.slow
def test_everything_counts(small, tmp_path):
    """One tenant sends four times the limit in names alone: `du` stays within it, also after a restart, and the other keeps all."""
    need("cc")
    limit, store = 24 * MIB, small.dir / "store"
    assert small.send(request(SHOP), small.honest)[0] == 200
    before = total(small, small.honest, "shop")
    b = Binary(tmp_path, "part", f"char pad[{2 * MIB}] = {{1}};\n")
    assert small.get("/api/v1/symbols/" + b.build_id, small.honest, b.path.read_bytes(), method="PUT")[0] == 200
    flood(small, small.greedy, 4 * limit)
    for again in range(2):
        settled(small, limit)
        assert total(small, small.honest, "shop") == before > 0
        shown = small.json("/api/v1/status", token=small.operator)["diskBytes"]
        assert abs(shown - used(small)) < 0.1 * limit, (shown / MIB, used(small) / MIB)
        own = {t: small.json("/api/v1/status", token=t)["disk"] for t in (small.greedy, small.honest)}
        assert own[small.greedy]["profiles"] > own[small.honest]["profiles"] and own[small.honest]["beside"] >= 2 * MIB
        if not again:
            assert small.metric("wick_store_dropped_bytes_total") > limit
            small.stop()
            assert du(store) <= limit
            small.start()
            small.port = int(small.url.rsplit(":", 1)[1])
    assert total(small, small.greedy, "unique") > 0  # the newest of the greedy one are there


def listed(s, token):
    return {x["buildId"] for x in s.json("/api/v1/binaries", token=token)["files"]}


def test_uploads_have_their_share(small, tmp_path):
    """Uploaded files may have half of the limit: one more is refused, and another tenant's place is made from those of the first."""
    need("cc")
    files = [Binary(tmp_path, f"b{i}", f"char pad[{2.5 * MIB:.0f}] = {{1}}; int n{i};\n") for i in range(6)]

    def put(i, token):
        return small.get("/api/v1/symbols/" + files[i].build_id, token, files[i].path.read_bytes(), method="PUT")

    assert [put(i, small.greedy)[0] for i in range(4)] == [200] * 4
    status, body = put(4, small.greedy)
    assert status >= 400 and b"retention.size" in body and b"12 MiB" in body, (status, body)
    assert put(5, small.honest)[0] == 200
    assert listed(small, small.honest) == {files[5].build_id}
    assert files[0].build_id not in listed(small, small.greedy)
    settled(small, 24 * MIB)


@pytest.mark.slow
def test_a_tenants_own_limit(tmp_path):
    """A tenant over limits.tenant_size loses its own; one with a limit of its own has that; reloading applies at once."""
    config = tmp_path / "wick.yaml"
    text = "limits:\n  memory: 512MiB\n  tenant_size: 16MiB\n  tenants:\n    - {tenant: honest, size: 32MiB}\n"
    config.write_text(text)
    s = Shared(tmp_path, "--config", str(config))
    try:
        assert s.send(request(SHOP), s.honest)[0] == 200
        before = total(s, s.honest, "shop")
        assert [s.json("/api/v1/status", token=t)["disk"]["limit"] for t in (s.greedy, s.honest)] == [16 * MIB, 32 * MIB]
        flood(s, s.greedy, 64 * MIB)

        def within(token, limit):
            d = s.json("/api/v1/status", token=token)["disk"]
            return d["profiles"] + d["beside"] <= limit

        s.stop()  # what is in memory is in segments now
        s.start()
        s.port = int(s.url.rsplit(":", 1)[1])
        wait_for(lambda: within(s.greedy, 16 * MIB), 90)
        [number] = [p.parent for p in (s.dir / "store").glob("*/NAME") if p.read_text().startswith("greedy\n")]
        assert MIB < du(number) <= 16 * MIB
        assert total(s, s.honest, "shop") == before and total(s, s.greedy, "unique") > 0
        config.write_text(text.replace("16MiB", "8MiB"))
        s.p.send_signal(1)
        wait_for(lambda: within(s.greedy, 8 * MIB), 90)
        assert total(s, s.honest, "shop") == before
    finally:
        s.stop()
