# SPDX-License-Identifier: Apache-2.0
"""Power cuts: wick serve stores on a block device whose writes and flushes are logged (block_log.py), two tenants send, one
of them deletes. For many places of the log the image that a disk may hold after a power cut there is mounted, and a
server is started on it: every profile that was acknowledged before is there, once and with its value, nothing else is,
and no damage is found. The same for two queues of a collector. WICK_POWER_CUTS sets the number of cuts."""
import concurrent.futures
import os
import random
import subprocess
import time

import pytest

from block_log import Cuts, LoggedDevice, run, usable
from collector_peer import Collector, Sink, export, pipeline
from wick_tools import Server, free_port, request, some, tokens_of, wait_for

CUTS = int(os.environ.get("WICK_POWER_CUTS", "300"))
PUSHES = 120  # of each tenant
pytestmark = [pytest.mark.slow, pytest.mark.skipif(not usable(), reason="needs root, /dev/fuse and loop devices")]
OPTIONS = ["--set", "store.memory=256KiB"]


def value_of(tenant, i):
    return 1000 * (tenant + 1) + i


class Story:
    """What was sent, and when (as places of the device's log) it was sent and acknowledged."""

    def __init__(self, device, directory, env):
        self.device, self.dir, self.env = device, directory, env
        self.tokens = tokens_of(directory)
        self.sent = [{}, {}]  # of each tenant: number → (place before it was sent, place after its answer)
        self.deleted = (None, None)  # the first tenant's pushes of service "gone": (place before, place after)
        self.now = time.time_ns()

    def server(self, store, **env):
        return Server(self.dir, "--store", str(store), *OPTIONS, **env)

    def push(self, s, tenant, i):
        """A profile with a function of its own and some hundred others, of one of the last five hours."""
        name = f"push_{tenant}_{i:04d}"
        stacks = [(f"main;work;{name}", value_of(tenant, i), False)]
        stacks += [(f"main;other;{tenant}_{i}_{k};leaf", 1, False) for k in range(200)]
        before = self.device.place()
        status, body = s.send(request(stacks, service="gone" if i % 10 == 3 else "kept", start=self.now - i % 5 * 3600 * 10**9),
                              self.tokens[tenant])
        assert status == 200, body
        self.sent[tenant][i] = before, self.device.place()

    def tell(self):
        s = self.server(self.device.fs / "store", **self.env)
        pool = concurrent.futures.ThreadPoolExecutor(2)
        try:
            for i in range(PUSHES):
                for sent in [pool.submit(self.push, s, tenant, i) for tenant in (0, 1)]:
                    sent.result()
                if i == PUSHES // 4:  # the process is killed: logs are read and written to segments again
                    s.p.kill()
                    s.p.wait()
                    s.start()
                if i == PUSHES // 2:
                    before = self.device.place()
                    status, body = s.get("/api/v1/delete?query=cpu{service.name=%22gone%22}&from=now-1d&to=now", self.tokens[0], b"",
                                         method="POST")
                    assert status == 200, body
                    self.deleted = before, self.device.place()
                if i == PUSHES * 3 // 4:  # an orderly end writes everything to segments
                    s.stop()
                    s.start()
        finally:
            s.p.kill()
            s.p.wait()

    def expected(self, tenant, place):
        """Functions that must be there after a cut at this place, and those that may be."""
        must, may = {}, {}
        for i, (before, after) in self.sent[tenant].items():
            name, gone = f"push_{tenant}_{i:04d}", False
            if tenant == 0 and i % 10 == 3 and i <= PUSHES // 2:
                if place >= self.deleted[1]:
                    continue
                gone = place >= self.deleted[0]
            if place >= after and not gone:
                must[name] = value_of(tenant, i)
            elif place >= before:
                may[name] = value_of(tenant, i)
        return must, may


def check_store(story, store, place, what):
    s = story.server(store)
    try:
        for tenant, token in some(enumerate(story.tokens)):
            top = s.json("/api/v1/top?query=cpu&from=now-1d&limit=100000", token=token)
            found = {r["name"]: r["self"] for r in top["rows"] if r["name"].startswith("push_")}
            must, may = story.expected(tenant, place)
            missing = {n for n, v in must.items() if found.get(n) != v}
            wrong = {n: v for n, v in found.items() if n not in must and may.get(n) != v}
            assert not missing and not wrong, (what, tenant, sorted(missing)[:5], sorted(wrong.items())[:5])
            others = sum(r["self"] for r in top["rows"] if not r["name"].startswith("push_"))
            assert others == 200 * len(found), (what, tenant)
            assert not top.get("notes"), (what, top["notes"])
        status = s.json("/api/v1/status", token=story.tokens[0])
        assert s.send(request([("main", 1, False)], service="after"), story.tokens[0])[0] == 200
        wait_for(lambda: s.get("/readyz")[0] == 200, 60)
        return status
    finally:
        s.p.kill()
        s.p.wait()
        s.log.close()
        s.p.stdout.close()


def places(acked, cuts, n, r):
    """Just after acknowledgements, just before flushes (where most is unflushed), and anywhere in the log."""
    flushes = [after - 1 for after, _, data in cuts.entries(0, len(cuts.log)) if data is None]
    anywhere = [r.randrange(len(cuts.log)) for _ in range(n - n // 3 - n // 4)]
    return sorted(r.choices(acked, k=n // 3) + r.choices(flushes, k=n // 4) + anywhere)


CHOICES = {  # of the versions of a block that was written after the last flush: which one is on the disk
    "nothing unflushed": lambda r: lambda n: 0,
    "all unflushed": lambda r: lambda n: n - 1,
    "half of the unflushed": lambda r: lambda n: r.choice((0, n - 1)),
    "any version": lambda r: lambda n: r.randrange(n),
}


def each_cut(acked, cuts, n, directory, check):
    """Cuts the power n times and calls check(mounted file system, place, description) for each; returns how many blocks
    were unflushed in all."""
    mounted, image, r, dirty = directory / "cut", directory / "cut.img", random.Random(7), 0
    mounted.mkdir()
    for k, place in enumerate(places(acked, cuts, n, r)):
        name = list(CHOICES)[k % len(CHOICES)]
        dirty += cuts.make(place, image, CHOICES[name](r))
        run("mount", "-o", "loop", image, mounted)
        try:
            check(mounted, place, f"cut {k} at {place}, {name}")
        finally:
            subprocess.run(["umount", str(mounted)], check=True)
    print(f"{n} cuts of {len(cuts.log) >> 20} MiB of writes, {dirty} unflushed blocks in all")
    return dirty


def cut_store(directory, n, **env):
    device = LoggedDevice(directory, 256)
    try:
        story = Story(device, directory, env)
        story.tell()
    finally:
        device.close()
    acked = [after for t in story.sent for _, after in t.values()] + [story.deleted[1]]

    def check(mounted, place, what):
        (directory / "log").unlink()
        check_store(story, mounted / "store", place, what)
        assert "damage" not in (directory / "log").read_text(), what
    return each_cut(acked, Cuts(device), n, directory, check)


def test_power_cuts(tmp_path):
    assert cut_store(tmp_path, CUTS) > CUTS // 4  # else the cuts cut nothing


def test_a_server_that_does_not_sync_is_caught(tmp_path):
    """The check is able to fail: the same with a wick whose syncs do nothing."""
    source, library = tmp_path / "nosync.c", tmp_path / "nosync.so"
    source.write_text("int fsync(int f) { return f < 0; }\nint fdatasync(int f) { return f < 0; }\n")
    run("cc", "-shared", "-fPIC", "-o", library, source)
    with pytest.raises(AssertionError, match="push_"):
        cut_store(tmp_path, 20, LD_PRELOAD=str(library))


def queues(directory, ports):
    exporters = {f"otlp/{p}": {"endpoint": f"127.0.0.1:{p}", "tls": {"insecure": True},
                               "retry_on_failure": {"initial_interval": "50ms", "max_interval": "100ms"},
                               "sending_queue": {"storage": "file_storage", "queue_size": 10000}} for p in ports}
    return pipeline(exporters, extensions={"file_storage": {"directory": str(directory / "queue"), "fsync": True}})


def names_in(sink):
    with sink.lock:
        return {a.value.string_value for q in sink.requests for r in q.resource_profiles for a in r.resource.attributes
                if a.key == "service.name"}


def send_to_queues(device, directory, ports):
    """Two exporters, the first of which has a peer for a while: (places of each request, what that peer got)."""
    sent, c = {}, Collector(directory, queues(device.fs, ports))
    try:
        with Sink(port=ports[0]) as early:
            for i in range(2 * PUSHES):
                before = device.place()
                export(c.grpc, request([(f"main;{i}_{k}", 1, False) for k in range(50)], service=f"push_{i}"))
                sent[f"push_{i}"] = before, device.place()
                if i == PUSHES:
                    early.close()
                if i == PUSHES * 3 // 2:
                    c.kill()
                    c = Collector(directory, queues(device.fs, ports))
        return sent, names_in(early)
    finally:
        c.kill()


def test_power_cuts_of_queues(tmp_path):
    ports, device = [free_port(), free_port()], LoggedDevice(tmp_path, 64)
    try:
        sent, early = send_to_queues(device, tmp_path, ports)
    finally:
        device.close()

    def check(mounted, place, what):
        with Sink(port=ports[0]) as one, Sink(port=ports[1]) as two, Collector(tmp_path, queues(mounted, ports)) as c:
            wait_for(lambda: c.metric("otelcol_exporter_queue_size") == 0, 60)
            # A record that was cut off before it was acknowledged may be reported as damage: nothing tells it from a bad one.
            c.stop()  # what was read from the queue has been sent after this
            for got, before in ((names_in(one), early), (names_in(two), set())):
                missing = {n for n, (_, after) in sent.items() if place >= after} - got - before
                unknown = got - {n for n, (first, _) in sent.items() if place >= first}
                assert not missing and not unknown, (what, sorted(missing)[:5], sorted(unknown)[:5])

    n = CUTS // 3
    assert each_cut([after for _, after in sent.values()], Cuts(device), n, tmp_path, check) > n // 4
