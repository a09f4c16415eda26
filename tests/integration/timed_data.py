# SPDX-License-Identifier: Apache-2.0
"""Profiles whose samples have times and threads, as OTLP. Every second of a minute, each worker runs render for 200 ms from the
start of the second, parse from 500 ms to 700 ms, and waits in poll for the rest; in the second SPIKE, worker 1 runs spike all
the time. The truth is in `running` and `waiting`: (thread, function, from, to) in nanoseconds."""
import json
import time

from ui_data import Request
from wick_tools import some

MS, S = 1_000_000, 1_000_000_000
PERIOD = 10 * MS
SECONDS, SPIKE, THREADS = 60, 30, 4
TRACE, SPAN = "0102030405060708090a0b0c0d0e0f10", "1112131415161718"


class Timed:
    def __init__(self, service="ticker", start=None, threads=THREADS, seconds=SECONDS):
        self.service, self.threads, self.seconds = service, threads, seconds
        self.start = start or (int(time.time()) - seconds - 30) * S
        self.running, self.waiting = [], []
        for t in range(threads):
            for s in range(seconds):
                at = self.start + s * S
                if t == 1 and s == SPIKE:
                    self.running.append((t, "spike", at, at + S))
                    continue
                self.running += [(t, "render", at, at + 200 * MS), (t, "parse", at + 500 * MS, at + 700 * MS)]
                self.waiting += [(t, "poll", at + 200 * MS, at + 500 * MS), (t, "poll", at + 700 * MS, at + S)]

    def samples(self):
        """(thread, function, time, value) of each CPU sample: it is taken at the end of its period."""
        for t, name, a, b in self.running:
            for at in range(a + PERIOD, b + 1, PERIOD):
                yield t, name, at - 1, PERIOD

    def requests(self):
        """A request for each ten seconds, CPU time and waiting."""
        for first in range(0, self.seconds, 10):
            a, b = self.start + first * S, self.start + (first + 10) * S
            r = Request(self.service, version="1.0")
            r.scope.scope.name = "wick"
            cpu = [(t, name, at, v) for t, name, at, v in self.samples() if a <= at < b]
            wait = [(t, name, at, end - at) for t, name, at, end in self.waiting if a <= at < b]
            for kind, rows in (("cpu", cpu), ("off_cpu", wait)):
                self.profile(r, kind, a, rows)
            yield r.done()

    def profile(self, r, kind, start, rows):
        r.profile(kind, "nanoseconds", start, [])
        p, attrs, link = r.scope.profiles[-1], {}, 0
        for t, name, at, value in rows:
            if t not in attrs:
                r.d.attribute_table.add(key_strindex=r.string("thread.name")).value.string_value = f"worker-{t}"
                r.d.attribute_table.add(key_strindex=r.string("thread.id")).value.int_value = 100 + t
                attrs[t] = [len(r.d.attribute_table) - 2, len(r.d.attribute_table) - 1]
            if name == "spike" and not link:
                r.d.link_table.add(trace_id=bytes.fromhex(TRACE), span_id=bytes.fromhex(SPAN))
                link = len(r.d.link_table) - 1
            p.samples.add(stack_index=r.stack(("main", "work", name)), values=[value], timestamps_unix_nano=[at],
                          attribute_indices=attrs[t], link_index=link if name == "spike" else 0)

    def traces(self):
        """The span of the spike, as OTLP/JSON."""
        at = self.start + SPIKE * S
        span = {"traceId": TRACE, "spanId": SPAN, "name": "GET /spike", "kind": 2, "startTimeUnixNano": str(at),
                "endTimeUnixNano": str(at + S)}
        resource = {"attributes": [{"key": "service.name", "value": {"stringValue": self.service}}]}
        return json.dumps({"resourceSpans": [{"resource": resource, "scopeSpans": [{"spans": [span]}]}]}).encode()

    def send(self, server):
        for r in some(self.requests()):
            status, body = server.send(r)
            assert status == 200, body
        status, body = server.get("/v1/traces", data=self.traces(), headers={"Content-Type": "application/json"}, base=server.http)
        assert status == 200, body

    def taken(self, a, b):
        """CPU time by function of the samples taken in [a, b)."""
        sums = {}
        for _, name, at, v in self.samples():
            if a <= at < b:
                sums[name] = sums.get(name, 0) + v
        return sums
