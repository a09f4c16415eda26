# SPDX-License-Identifier: Apache-2.0
"""A server that two tenants send to as fast as they are answered, for tests of copies of its store."""
import os
import subprocess
import threading
import time

import pytest
from wick_tools import WICK, Server, request, tokens_of

trace_pb = pytest.importorskip("opentelemetry.proto.collector.trace.v1.trace_service_pb2")


class Sender(threading.Thread):
    """Profiles and spans of one tenant, as fast as they are answered; every profile has a function of its own."""

    def __init__(self, s, token):
        super().__init__()
        self.s, self.token, self.acked, self.spans, self.ending, self.wrong = s, token, 0, 0, False, None

    def run(self):
        while not self.ending and not self.wrong:
            status, body = self.s.send(request([(f"main;f{self.acked}", 7, False)]), self.token)
            if status != 200:
                self.wrong = body
            self.acked += 1
            status, body = self.s.get("/v1/traces", self.token, self.trace(), {"Content-Type": "application/x-protobuf"}, base=self.s.http)
            if status != 200:
                self.wrong = body
            self.spans += 1

    def trace(self):
        r = trace_pb.ExportTraceServiceRequest()
        rs = r.resource_spans.add()
        rs.resource.attributes.add(key="service.name").value.string_value = "shop"
        now = time.time_ns()
        rs.scope_spans.add().spans.add(trace_id=os.urandom(16), span_id=os.urandom(8), name="op", kind=2, start_time_unix_nano=now - 10**6,
                                       end_time_unix_nano=now)
        return r.SerializeToString()


def wick(*args, **env):
    return subprocess.run([WICK, *map(str, args)], capture_output=True, text=True, timeout=120, env={**os.environ, **env})


@pytest.fixture
def loaded(tmp_path):
    """The server, an admin's token, and the senders."""
    tokens = tokens_of(tmp_path)
    admin = subprocess.run([WICK, "token", "create", "--scope", "admin", "--file", f"{tmp_path}/tokens"], capture_output=True, text=True,
                           check=True).stdout.split()[-1]
    s = Server(tmp_path, "--set", "store.memory=1MiB")
    senders = [Sender(s, t) for t in tokens]
    for x in senders:
        x.start()
    yield s, admin, senders
    for x in senders:
        x.ending = True
    for x in senders:
        x.join()
    s.stop()


def opened(directory, snapshot, tokens_from):
    """A server of its own on the copy."""
    directory.mkdir()
    (directory / "tokens").write_bytes((tokens_from / "tokens").read_bytes())
    snapshot.rename(directory / "store")
    return Server(directory, WICK_NO_AGENT="1")


def counts(senders):
    return [(x.acked, x.spans) for x in senders]
