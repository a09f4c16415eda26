# SPDX-License-Identifier: Apache-2.0
"""A server with two tenants, of which one is greedy."""
import gzip
import re
import socket
import time
from pathlib import Path

from wick_tools import Server, request, token_of, wait_for


class Shared(Server):
    """A server with the tenants greedy and honest, and an operator of the default tenant."""

    def __init__(self, directory, *options, **kw):
        super().__init__(directory, *options, **kw)
        self.operator = token_of(self, "admin")
        self.greedy, self.honest = (token_of(self, "admin", t) for t in ("greedy", "honest"))
        wait_for(lambda: self.get("/api/v1/status", self.honest)[0] == 200 and self.get("/api/v1/status")[0] == 401)
        self.port = int(self.url.rsplit(":", 1)[1])

    def resident(self, which="VmRSS"):
        return int(re.search(which + r":\s+(\d+) kB", Path(f"/proc/{self.p.pid}/status").read_text()).group(1)) << 10

    def metric(self, name):
        status, body = self.get("/metrics", self.operator)
        assert status == 200, body
        return float(re.search(rf"^{re.escape(name)} (\S+)$", body.decode(), re.M).group(1))

    def unread(self, path, token, n):
        """n connections that ask and read only as much as the kernel takes for them."""
        found = []
        for _ in range(n):
            s = socket.socket()
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            s.connect(("127.0.0.1", self.port))
            s.sendall(f"GET {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\n\r\n".encode())
            found.append(s)
        return found


class Names:
    """Requests in which every name is unique: n functions of 64 bytes, as many stacks. gzip makes them a twentieth."""

    def __init__(self, n):
        self.n, self.k = n, 0
        r = request([(f"main;{'x' * 40}_KKKKKKKK_{i:08d}", 1, False) for i in range(n)], service="unique")
        p = r.resource_profiles[0].scope_profiles[0].profiles[0]
        self.time = p.time_unix_nano
        self.bytes = r.SerializeToString()

    def next(self):
        self.k += 1
        now = (time.time_ns() - 10**9).to_bytes(8, "little")
        return gzip.compress(self.bytes.replace(b"_KKKKKKKK_", b"_%08d_" % self.k).replace(self.time.to_bytes(8, "little"), now), 1)


def push(s, token, body):
    return s.get("/v1development/profiles", token, body, {"Content-Type": "application/x-protobuf", "Content-Encoding": "gzip"}, base=s.http)


def total(s, token, service):
    return s.json(f"/api/v1/top?query=cpu%7Bservice.name=%22{service}%22%7D&limit=1", token=token).get("total", 0)
