#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Asks one URL several times over one connection: prints the median in milliseconds and the bytes of an answer."""
import http.client
import sys
import time
import urllib.parse

url, n, method, body = sys.argv[1], int(sys.argv[2]), *(sys.argv[3:5] if len(sys.argv) > 4 else ("GET", None))
u = urllib.parse.urlsplit(url)
c = http.client.HTTPConnection(u.hostname, u.port, timeout=60)
times = []
for _ in range(n):
    start = time.perf_counter()
    c.request(method, u.path + ("?" + u.query if u.query else ""), body, {"Content-Type": "application/json"} if body else {})
    r = c.getresponse()
    data = r.read()
    times.append(time.perf_counter() - start)
    if r.status != 200:
        sys.exit(f"{url}: {r.status} {data[:200]}")
print(f"{sorted(times)[n // 2] * 1000:.2f} {len(data)}")
