# SPDX-License-Identifier: Apache-2.0
"""Memory has a bound: requests of very many distinct stacks, by two tenants, to a server in a control group; it survives,
answers, refuses what is too much with 503, and its metric agrees with what the kernel says."""
import os
import re
import time
from pathlib import Path

import pytest
from wick_tools import SHOP, WICK, Server, profiles_service, request, some, tokens_of, wait_for


class Body:
    """A request of n distinct stacks over a few hundred functions; variants differ in every name and in their time."""

    def __init__(self, n):
        r = profiles_service().ExportProfilesServiceRequest()
        d = r.dictionary
        functions = 1000
        d.mapping_table.add(), d.location_table.add(), d.function_table.add(), d.attribute_table.add(), d.stack_table.add()
        d.link_table.add()
        d.string_table.extend(["", "cpu", "nanoseconds"] + [f"r00_{i:05d}" for i in range(functions)])
        for i in range(functions):
            d.function_table.add(name_strindex=3 + i)
            d.location_table.add().lines.add(function_index=i + 1, line=1)
        rp = r.resource_profiles.add()
        rp.resource.attributes.add(key="service.name").value.string_value = "many"
        p = rp.scope_profiles.add().profiles.add()
        p.sample_type.type_strindex, p.sample_type.unit_strindex = 1, 2
        self.time = time.time_ns()
        p.time_unix_nano, p.duration_nano = self.time, 10**9
        for i in range(n):
            d.stack_table.add(location_indices=[1 + i % functions, 1 + i // functions % functions, 1 + i // functions**2])
            p.samples.add(stack_index=i + 1, values=[1])
        self.bytes = r.SerializeToString()

    def variant(self, k):
        now = (time.time_ns() - 60 * 10**9 + k).to_bytes(8, "little")
        return self.bytes.replace(b"r00_", b"r%02d_" % k).replace(self.time.to_bytes(8, "little"), now)


class Group:
    """A control group (version 1 or 2) with a limit of memory."""

    def __init__(self, limit):
        v1 = Path("/sys/fs/cgroup/memory")
        self.v1 = (v1 / "memory.limit_in_bytes").exists()
        self.path = (v1 if self.v1 else Path("/sys/fs/cgroup")) / f"wick-test-{os.getpid()}"
        try:
            self.path.mkdir()
            (self.path / ("memory.limit_in_bytes" if self.v1 else "memory.max")).write_text(str(limit))
        except OSError as e:
            pytest.skip(f"no control group of memory here: {e}")

    def command(self, directory):
        """A wick that joins the group first."""
        script = Path(directory) / "wick-in-group"
        script.write_text(f"#!/bin/sh\necho $$ > {self.path}/cgroup.procs\nexec {Path(WICK).resolve()} \"$@\"\n")
        script.chmod(0o755)
        return str(script)

    def close(self):
        for _ in range(50):
            try:
                self.path.rmdir()
                return
            except OSError:
                time.sleep(0.1)


def metric(s, name, token):
    return float(re.search(rf"^{name} (\S+)$", s.get("/metrics", token)[1].decode(), re.M).group(1))


def counted_as_anonymous(s, host):
    """Within 10 %: the two are read one after the other. What was moved to files is the kernel's cache."""
    counted = metric(s, "wick_memory_bytes", host)
    anonymous = int(re.search(r"RssAnon:\s+(\d+) kB", Path(f"/proc/{s.p.pid}/status").read_text()).group(1)) << 10
    return abs(counted - anonymous) < 0.1 * anonymous


def push_many(directory, limit, n, requests):
    group = Group(limit)
    tokens, host = tokens_of(directory), tokens_of(directory, [""])[0]
    s = Server(directory, wick=group.command(directory))
    body, accepted, refused = Body(n), [0, 0], 0
    try:
        for t in some(tokens):
            assert s.send(request(SHOP), t)[0] == 200
        for k in range(requests):
            status, answer = s.get("/v1development/profiles", tokens[k % 2], body.variant(k),
                                   {"Content-Type": "application/x-protobuf"}, base=s.http)
            assert status in (200, 429, 503), answer
            accepted[k % 2] += status == 200
            refused += status != 200
            assert s.p.poll() is None
            if k % 8 == 3:  # flame graphs and tables while it comes in
                for t in some(tokens):
                    status, answer = s.get("/api/v1/flame?query=cpu", t)
                    assert status in (200, 429), answer
        assert all(accepted), "nothing was accepted"
        for t, count in some(zip(tokens, accepted)):
            for path in ("flame", "top", "callers"):
                status, answer = s.get(f"/api/v1/{path}?query=cpu&function=main&from=now-1h", t)
                assert status == 200, (path, answer)
            assert s.json("/api/v1/top?query=cpu&from=now-1h", token=t)["total"] == 42 + count * n
            assert s.send(request(SHOP, start=time.time_ns()), t)[0] == 200  # small senders are not shut out
        resident, counted = metric(s, "process_resident_memory_bytes", host), metric(s, "wick_memory_bytes", host)
        store = metric(s, "wick_store_memory_bytes", host)
        print(f"{sum(accepted)} accepted, {refused} refused; resident {resident / 2**20:.0f} MiB, counted {counted / 2**20:.0f} MiB, "
              f"of the store {store / 2**20:.0f} MiB")
        assert resident < limit * 0.8
        assert store < counted
        wait_for(lambda: counted_as_anonymous(s, host), 60, "two readings in which memory is what the kernel says")
        assert s.stop()[0] == 0
    finally:
        if s.p.poll() is None:
            s.p.kill()
            s.p.wait()
        group.close()


def test_many_stacks(tmp_path):
    push_many(tmp_path, 384 << 20, 150_000, 12)


@pytest.mark.slow
def test_a_million_stacks_40_times(tmp_path):
    push_many(tmp_path, 1 << 30, 1_000_000, 40)
