# SPDX-License-Identifier: Apache-2.0
"""What a request of the Python stacks does, and its own account of it: CPU time by function, waits for a lock, and sleep, in ns."""
import json
import os
import random
import threading
import time
import urllib.request

from opentelemetry import trace
from opentelemetry.profiling import ContinuousProfiler, OTLPProfileExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

lock = threading.Lock()
tracer = trace.get_tracer("stack")


def price(n):
    x = 0
    for i in range(n):
        x += i * i
    return x


def tax(n):
    return [str(i) for i in range(n)]


def render(n):
    return sum(map(len, ["line"] * n))


def cpu(function, n):
    begin = time.thread_time_ns()
    function(n)
    return time.thread_time_ns() - begin


released = 0


def guarded():
    """How long it took to get the lock from when it was found taken, and until when it was held by another; then this thread waits for
    the interpreter. Without contention there is no wait, though a thread may wait for the interpreter before it tries."""
    global released
    account = {"waited": 0, "waited_least": 0}
    if not lock.acquire(blocking=False):
        begin = time.monotonic_ns()
        lock.acquire()
        account = {"waited": time.monotonic_ns() - begin, "waited_least": max(released - begin, 0)}
    time.sleep(0.002)
    released = time.monotonic_ns()
    lock.release()
    return account


def pause():
    begin = time.monotonic_ns()
    time.sleep(0.005)
    return {"slept": time.monotonic_ns() - begin, "slept_least": 5_000_000}


def order():
    size = random.uniform(1, 3)  # no clock is in step with it
    with tracer.start_as_current_span("order"):
        account = {"price": cpu(price, int(30000 * size)), "tax": cpu(tax, int(6000 * size)), "render": cpu(render, int(15000 * size))}
        return {**account, **guarded(), **pause(), "pid": os.getpid()}


class Spans(SpanExporter):
    """OTLP/HTTP in JSON, without a package."""

    def export(self, spans):
        service = {"attributes": [{"key": "service.name", "value": {"stringValue": os.environ["OTEL_SERVICE_NAME"]}}]}
        found = [{"traceId": f"{s.context.trace_id:032x}", "spanId": f"{s.context.span_id:016x}", "name": s.name,
                  "startTimeUnixNano": str(s.start_time), "endTimeUnixNano": str(s.end_time)} for s in spans]
        body = json.dumps({"resourceSpans": [{"resource": service, "scopeSpans": [{"spans": found}]}]}).encode()
        to = urllib.request.Request(os.environ["STACK_HTTP"] + "/v1/traces", body, {"content-type": "application/json"})
        with urllib.request.urlopen(to, timeout=10):
            return SpanExportResult.SUCCESS


def start():
    """As docs/python.md has it, in each worker."""
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(Spans(), schedule_delay_millis=1000))
    trace.set_tracer_provider(provider)
    exporter = OTLPProfileExporter(endpoint=os.environ["STACK_GRPC"], insecure=True)
    profiler = ContinuousProfiler(exporter=exporter, sample_rate=100, profile_types=["cpu", "wall", "alloc", "lock"])
    profiler.start()
    return profiler
