#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""ui_day.py OTLP_URL: sends a day of profiles: SERVICES services, one CPU and one allocation profile a minute each."""
import os
import random
import sys
import time
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests/integration"))
from ui_data import Request  # noqa: E402

SERVICES, STACKS, SAMPLES = int(os.environ.get("SERVICES", 10)), 3000, 120
rnd = random.Random(7)
now = time.time_ns()
sent = 0
for s in range(SERVICES):
    stacks = []
    for i in range(STACKS):
        depth = rnd.randint(5, 35)
        stacks.append(tuple(f"{'main' if d == 0 else 'encode' if d == 7 else f'pkg{rnd.randint(0, 9)}.fn{rnd.randint(0, 6 + 3 * d)}'}" for d in range(depth)))
    for hour in range(24, 0, -1):
        r = Request(f"service-{s}", f"1.{24 - hour}", f"host-{s % 3}")
        for minute in range(60):
            at = now - hour * 3600 * 10**9 + minute * 60 * 10**9
            chosen = rnd.choices(range(STACKS), k=SAMPLES)
            r.profile("cpu", "nanoseconds", at, [(stacks[int(c * rnd.random())], rnd.randint(1, 40) * 10**7) for c in chosen], 60 * 10**9)
            r.profile("alloc_space", "bytes", at, [(stacks[c], rnd.randint(1, 400) * 1024) for c in chosen[:40]], 60 * 10**9)
        body = r.done().SerializeToString()
        q = urllib.request.Request(sys.argv[1] + "/v1development/profiles", body, {"Content-Type": "application/x-protobuf"})
        urllib.request.urlopen(q, timeout=60).read()
        sent += 120
print(f"{sent} profiles of {SERVICES} services", file=sys.stderr)
