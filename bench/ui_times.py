#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""ui_times.py OTLP_URL API_URL [FILE]: sends samples with times as the agent does (99 Hz, a profile every 5 s, thread and CPU of each
sample): an hour of a service that keeps CORES CPUs busy, and a minute of one with 32 busy threads that also wait. Then asks for
the heat map and the flame chart, and prints rows of a markdown table. FILE gets the path of the page that shows the minute."""
import os
import random
import sys
import time
import urllib.parse
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests/integration"))
from ui_data import Request  # noqa: E402

CORES, STACKS, EVERY, S = int(os.environ.get("CORES", 2)), 2000, 5, 10**9
PERIOD = S // 99
rnd = random.Random(3)
stacks = [tuple(f"{'main' if d == 0 else f'pkg{rnd.randint(0, 9)}.fn{rnd.randint(0, 6 + 3 * d)}'}" for d in range(rnd.randint(8, 30))) for _ in range(STACKS)]
end = (int(time.time()) - 60) * S


def send(r):
    q = urllib.request.Request(sys.argv[1] + "/v1development/profiles", r.done().SerializeToString(), {"Content-Type": "application/x-protobuf"})
    urllib.request.urlopen(q, timeout=60).read()


def fill(r, start, threads, waits):
    """Five seconds of a service. Returns the number of samples."""
    n = 0
    for kind in ("cpu", "off_cpu") if waits else ("cpu",):
        r.profile(kind, "nanoseconds", start, [], EVERY * S)
        p = r.scope.profiles[-1]
        for t in range(threads):
            key = (t, kind)
            if key not in r.kinds:
                for k, v in (("thread.name", f"worker-{t}"), ("thread.id", 1000 + t), ("cpu.logical_number", t % 8)):
                    a = r.d.attribute_table.add(key_strindex=r.string(k))
                    if isinstance(v, str):
                        a.value.string_value = v
                    else:
                        a.value.int_value = v
                r.kinds[key] = [len(r.d.attribute_table) - 3 + i for i in range(3)]
            for i in range(EVERY * 99 if kind == "cpu" else EVERY * 10):
                at = start + (i + 1) * PERIOD if kind == "cpu" else start + i * S // 10
                at -= at % 10**6  # the agent's times have milliseconds
                p.samples.add(stack_index=r.stack(stacks[int(STACKS * rnd.random() ** 3)]), values=[PERIOD if kind == "cpu" else 20 * 10**6],
                              timestamps_unix_nano=[at], attribute_indices=r.kinds[key])
                n += 1
    return n


def ask(name, query, start, stop, **more):
    url = f"{sys.argv[2]}/api/v1/{name}?" + urllib.parse.urlencode({"query": query, "from": start, "to": stop, **more})
    times = []
    for _ in range(15):
        begin = time.perf_counter()
        body = urllib.request.urlopen(url, timeout=60).read()
        times.append((time.perf_counter() - begin) * 1000)
    return sorted(times), len(body)


def row(what, name, query, start, stop, bar, **more):
    times, size = ask(name, query, start, stop, **more)
    print(f"| {what} | p50 {times[7]:.0f} ms | p95 {times[14]:.0f} ms, {size / 1e3:.0f} kB | ≤ {bar} ms |", flush=True)


hour = minute = 0
for first in range(0, 3600, 60):
    r = Request("busy", "1.0", scope="wick")
    for s in range(first, first + 60, EVERY):
        hour += fill(r, end - 3600 * S + s * S, CORES, False)
    send(r)
for s in range(0, 60, EVERY):
    r = Request("threads", "1.0", scope="wick")
    minute += fill(r, end - 60 * S + s * S, 32, True)
    send(r)
print(f"{hour} samples of an hour, {minute} of a minute", file=sys.stderr)
row(f"heat map of an hour, {hour} samples", "heatmap", 'cpu{service.name="busy"}', end - 3600 * S, end, 100)
row(f"flame chart of a minute, 32 threads, {minute} samples", "chart", 'cpu{service.name="threads"}', end - 60 * S, end, 200)
row("flame graph of a second", "flame", 'cpu{service.name="busy"}', end - 600 * S, end - 599 * S, 200, times="sample")
row("flame chart of an hour", "chart", 'cpu{service.name="busy"}', end - 3600 * S, end, 600)
if len(sys.argv) > 3:
    Path(sys.argv[3]).write_text("explore?" + urllib.parse.urlencode({"view": "chart", "query": 'cpu{service.name="threads"}', "from": end // S - 60, "to": end // S}))
