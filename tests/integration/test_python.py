# SPDX-License-Identifier: Apache-2.0
"""The Python package (python/): the documented program, what is sampled, and what it is linked to."""
import json
import subprocess

from python_tools import python, run_python  # noqa: F401
from wick_tools import PROGRAMS, WICK, server  # noqa: F401

# What the documented program leaves to its reader: a tracer provider before it, and the functions that it calls.
BEFORE = """
from opentelemetry import trace as _trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult
class _Keep(SpanExporter):
    def export(self, spans):
        kept.extend(spans)
        return SpanExportResult.SUCCESS
kept = []
_trace.set_tracer_provider(TracerProvider())
_trace.get_tracer_provider().add_span_processor(SimpleSpanProcessor(_Keep()))
"""
AFTER = """
import json, time
def expensive_computation(data):
    total, end = 0, time.process_time() + data
    while time.process_time() < end:
        total += sum(i * i for i in range(1000))
    return total
def format_response(result):
    return str(result)
class Request:
    data = 1.0
handle_request(Request())
error = profiler.stop()
print(json.dumps({"error": error, "spans": [(f"{s.context.trace_id:032x}", f"{s.context.span_id:016x}") for s in kept], "name": [s.name for s in kept]}))
"""


def query(server, *args):
    p = subprocess.run([WICK, "query", *args, "--server", server.url, "--json"], capture_output=True, text=True)
    assert p.returncode == 0, p.stderr
    return json.loads(p.stdout)


def test_the_documented_program_runs_as_written(server, python, tmp_path):
    """Only the collector's address is changed: the test has its own."""
    text = (PROGRAMS / "documented.py").read_text()
    assert "http://otel-collector:4317" in text
    program = tmp_path / "my_service.py"
    program.write_text(BEFORE + text.replace("otel-collector:4317", server.grpc) + AFTER)
    got = run_python(python, program)
    assert got["error"] is None and got["name"] == ["handle_request"], got
    rows = {r["name"]: r for r in query(server, "top", 'cpu{service.name="my_service"}', "--trace-id", got["spans"][0][0], "--span-id", got["spans"][0][1])["rows"]}
    total = max(r["total"] for r in rows.values())
    assert total > 0.2e9, rows  # of 1 s; a machine that is busy loses some
    assert rows["expensive_computation"]["total"] > 0.95 * total and rows["handle_request"]["total"] > 0.95 * total, rows
    types = {t for s in query(server, "services") if s["name"] == "my_service" for t in s["types"]}
    assert {"cpu", "wall", "alloc"} <= types, types
