# SPDX-License-Identifier: Apache-2.0
"""The Python package (python/): the documented program, what is sampled, and what it is linked to."""
import json
import os
import subprocess
import sys

import pytest
from collector_peer import Sink
from go_tools import needs_go, pprof_command
from agent_tools import may_sample
from python_tools import AWAITS, LOCKS, SPANS, check_awaits, check_locks, check_published, check_spans, exported, python, run_python, samples  # noqa: F401
from sdk_tools import top, traces
from wick_tools import PROGRAMS, WICK, measured, server, wait_for  # noqa: F401

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
    assert p.returncode in (0, 4), p.stderr  # 4: there is none yet
    return json.loads(p.stdout)


def test_nothing_runs_unasked(python):
    """A program that does not import the package has nothing of it: no line of a .pth file runs at its start."""
    said = subprocess.run([python, "-c", "import os, site, sys; import wick; place = os.path.dirname(os.path.dirname(wick.__file__)); "
                           "print(*[f for f in os.listdir(place) if f.endswith('.pth')])"], capture_output=True, text=True, timeout=60)
    assert said.returncode == 0 and "wick" not in said.stdout, said


def test_the_documented_program_runs_as_written(server, python, tmp_path):
    """Only the collector's address is changed: the test has its own."""
    check_documented(server, python, tmp_path, server.grpc)


@pytest.mark.slow
def test_the_documented_program_through_the_collector(server, python, tmp_path):
    """The same by way of the real OpenTelemetry Collector."""
    from collector_peer import Peer, build_peer
    with Peer(build_peer(tmp_path), tmp_path, {"otlp": {"endpoint": server.grpc, "tls": {"insecure": True}}}) as peer:
        check_documented(server, python, tmp_path, peer.grpc)


def check_documented(server, python, tmp_path, endpoint):
    """The span of the request names the function that it spends its time in."""
    text = (PROGRAMS / "documented.py").read_text()
    assert "http://otel-collector:4317" in text
    program = tmp_path / "my_service.py"
    program.write_text(BEFORE + text.replace("otel-collector:4317", endpoint) + AFTER)
    got = run_python(python, program)
    assert got["error"] is None and got["name"] == ["handle_request"], got
    selector = 'cpu{service.name="my_service"}'
    wait_for(lambda: query(server, "top", selector, "--trace-id", got["spans"][0][0], "--span-id", got["spans"][0][1])["rows"])
    rows = {r["name"]: r for r in query(server, "top", 'cpu{service.name="my_service"}', "--trace-id", got["spans"][0][0], "--span-id", got["spans"][0][1])["rows"]}
    total = max(r["total"] for r in rows.values())
    assert total > 0.2e9, rows  # of 1 s; a machine that is busy loses some
    assert rows["expensive_computation"]["total"] > 0.95 * total and rows["handle_request"]["total"] > 0.95 * total, rows
    types = {t for s in query(server, "services") if s["name"] == "my_service" for t in s["types"]}
    assert {"cpu", "wall", "alloc"} <= types, types


# --- what is in the samples ---
@needs_go
def test_samples_have_the_span_that_was_current(python, tmp_path):
    truth = run_python(python, SPANS, tmp_path / "o.pb.gz")
    check_spans(tmp_path / "o.pb.gz", truth)
    seen = {labels["asyncio.task.name"] for _, stack, labels in samples(tmp_path / "o.pb.gz") if "asyncio.task.name" in labels}
    assert seen, "no task has a name"


def test_the_span_is_published(python, tmp_path):
    """For readers outside the process, which do not know the interpreter."""
    if not may_sample():
        pytest.skip("BPF programs may not be loaded here")
    check_published(python, tmp_path)


NO_TURN = """
import os, sys, threading, time
import wick
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
p = wick.ContinuousProfiler(exporter=wick.OTLPProfileExporter(endpoint="none"), sample_rate=500, cpu_budget=1, file=sys.argv[1]).start()
def deep(n):
    if n:
        return deep(n - 1)
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    end = time.thread_time() + 0.9
    while time.thread_time() < end:
        sum(range(100))
t = threading.Thread(target=deep, args=(60,))
t.start()
t.join()
p.stop()
print(time.process_time())
"""


def test_a_thread_that_ends_with_a_full_buffer(python, tmp_path):
    """wick's own thread gets no turn: it shares a CPU with the busy one, which has real-time priority for a second."""
    if os.geteuid() != 0:
        pytest.skip("real-time priority needs root")
    cpu = float(run_python(python, NO_TURN, tmp_path / "o.pb.gz"))
    total = sum(value for value, stack, _ in samples(tmp_path / "o.pb.gz")) / 1e9
    assert 0.9 * 0.9 < total < 1.03 * cpu, (total, cpu)


WORK = """
import hashlib, json, sys, time, threading, zlib
import wick
def seventy(): return burn(70)
def twenty(): return burn(20)
def ten(): return burn(10)
def burn(n):
    total = 0
    for i in range(n * 300):
        total += i * i
    return total
def compress(data):
    return zlib.compress(data, 9)
def waits():
    time.sleep(0.3)
def phase(seconds, *functions):
    # Until there are enough samples, and none was lost: on a busy machine the thread that takes them may not run for long.
    for _ in range(20):
        before, end = p.stats(), time.process_time() + seconds
        while time.process_time() < end:
            for f in functions:
                f()
        p.force_flush()
        after = p.stats()
        if after["samples"]["cpu"] >= before["samples"]["cpu"] + 100 * seconds and after["lost"] == before["lost"]:
            return
def keeps():
    return [bytes(400) for _ in range(5000)]
def drops():
    for _ in range(20000):
        bytes(400)
def holder():
    for _ in range(20):
        with lock:
            time.sleep(0.01)
data = bytes(i * i % 251 for i in range(200000))
lock = threading.Lock()
p = wick.ContinuousProfiler(exporter=wick.OTLPProfileExporter(endpoint="none"), sample_rate=250, cpu_budget=1, file=sys.argv[1],
                            profile_types=["cpu", "wall", "alloc", "heap", "lock"], alloc_interval=20000, lock_interval=1e-4)
with p:
    phase(0.8, seventy, twenty, ten)
    phase(0.2, lambda: compress(data))
    for _ in range(4):
        waits()
    kept = keeps()
    drops()
    threads = [threading.Thread(target=holder) for _ in range(3)]
    for t in threads: t.start()
    for t in threads: t.join()
    stats = p.stats()
print(json.dumps(stats))
"""


@needs_go
def test_all_types(python, tmp_path):
    out = tmp_path / "o.pb.gz"
    stats = run_python(python, WORK, out)
    assert stats["truncated"] == 0, stats
    rows, total = top(out)
    assert rows["seventy"][1] > max(rows["twenty"][1], rows["ten"][1]) > 0, rows
    assert rows["<module>"][1] > 0.9 * total, rows
    stacks = traces(out)
    assert any("compress" in s and s.index("compress") > 0 and any("deflate" in f for f in s[:s.index("compress")]) for s in stacks), stacks
    assert not any("EvalFrame" in f for s in stacks if "seventy" in s for f in s), stacks
    rows, _ = top(tmp_path / "o.wall.pb.gz", "wall")
    assert rows["waits"][1] > 0.1e9, rows  # of 1.2 s
    # 433 bytes each, Poisson: 20,000 and 100 samples
    rows, _ = top(tmp_path / "o.heap.pb.gz", "alloc_space")
    assert abs(rows["drops"][1] / (20000 * 433) - 1) < 0.3, rows
    rows, _ = top(tmp_path / "o.heap.pb.gz", "inuse_space")
    assert "drops" not in rows and abs(sum(v[0] for f, v in rows.items() if f.startswith("keeps")) / (5000 * 433) - 1) < 0.6, rows
    rows, _ = top(tmp_path / "o.lock.pb.gz", "delay")
    assert rows["holder"][1] > 0.1e9, rows
    lines = subprocess.run([*pprof_command(), "-top", "-lines", "-nodefraction=0", str(out)], capture_output=True, text=True).stdout
    assert any(f"burn <string>:{n}" in lines for n in (9, 10)), lines


IDLE = """
import json, sys, threading, time
import wick
event = threading.Event()
def idles(): event.wait()
threads = [threading.Thread(target=idles, daemon=True) for _ in range(int(sys.argv[2]))]
for t in threads: t.start()
p = wick.ContinuousProfiler(exporter=wick.OTLPProfileExporter(endpoint="none"), profile_types=["cpu", "wall", "alloc"], sample_rate=100, file=sys.argv[1])
rates = []
with p:
    begun = time.monotonic()
    while time.monotonic() < begun + 6:
        end = time.thread_time() + 0.03
        while time.thread_time() < end: sum(range(100))
        time.sleep(0.07)
        rates.append(p.stats()["rate"])
    lasted, stats = time.monotonic() - begun, p.stats()
event.set()
print(json.dumps({"rates": rates, "lasted": lasted, "cpu": time.process_time(), "used": (stats["background_ns"] + stats["handler_ns"]) / 1e9}))
"""


CONTENDED = """
import sys, threading, time
import wick
p = wick.ContinuousProfiler(exporter=wick.OTLPProfileExporter(endpoint="none"), profile_types=["lock"], file=sys.argv[1], lock_interval=1e-5)
lock, released, waited, least, end = threading.Lock(), 0, 0, 0, time.monotonic() + float(sys.argv[2])
def guarded():
    global released, waited, least
    if not lock.acquire(blocking=False):
        begin = time.monotonic_ns()
        lock.acquire()
        waited += time.monotonic_ns() - begin
        least += max(released - begin, 0)
    time.sleep(0.001)
    released = time.monotonic_ns()
    lock.release()
def work():
    while time.monotonic() < end:
        sum(i * i for i in range(20000))
        guarded()
with p:
    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads: t.start()
    for t in threads: t.join()
print(least, waited)
"""


def test_waits_for_a_lock_while_others_compute(python, tmp_path):
    """The interpreter's own lock is busy, too: a wait begins where the lock was found taken, and may be over before its thread has given
    up the interpreter. From when the lock was found taken to when it was released, or until the thread went on."""
    def ratio(k):
        out = subprocess.run([python, "-c", CONTENDED, tmp_path / "o.pb.gz", str(2 * k)], capture_output=True, text=True, check=True, timeout=120)
        least, most = map(int, out.stdout.split())
        seen = top(tmp_path / "o.pb.gz", "delay")[0]["guarded"][1]
        return 1 if least <= seen <= most else seen / least if seen < least else seen / most

    measured(ratio, 0.05)


@needs_go
@pytest.mark.parametrize("n", [12, 1000])
def test_threads_that_sleep_do_not_cost_the_rate(python, tmp_path, n):
    """Of CPU samples: looking at waiting threads has a lever of its own, and its sum stays right."""
    got = run_python(python, IDLE, tmp_path / "o.pb.gz", n)
    assert min(got["rates"]) >= 50, got
    assert got["used"] < 0.1 * got["lasted"], got
    rows, _ = top(tmp_path / "o.wall.pb.gz", "wall")
    assert 0.7 < rows["idles"][1] / 1e9 / (n * got["lasted"]) < 1.1, (rows["idles"], got)


@needs_go
def test_lock_is_waiting_for_locks(python, tmp_path):
    """Semaphores too; not an idle queue, whatever it is written in, nor an event, nor a condition."""
    run_python(python, LOCKS, tmp_path / "o.pb.gz")
    check_locks(tmp_path / "o.pb.gz")


REQUESTS = """
import json, sys, threading, time
import wick
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
trace.set_tracer_provider(TracerProvider())
tracer = trace.get_tracer("truth")
truth = {"short_lived": 0, "long_lived": 0}
def short_lived(): time.sleep(0.02)
def long_lived(): time.sleep(0.02)
def request(work):
    with tracer.start_as_current_span("request"):
        begun = time.monotonic()
        work()
        truth[work.__name__] += time.monotonic() - begun
def each_in_a_thread(until):
    while time.monotonic() < until:
        t = threading.Thread(target=request, args=(short_lived,))
        t.start(); t.join()
def all_in_one(until):
    while time.monotonic() < until:
        request(long_lived)
p = wick.ContinuousProfiler(exporter=wick.OTLPProfileExporter(endpoint="none"), profile_types=["wall"], cpu_budget=1, file=sys.argv[1])
with p:
    for loop in (each_in_a_thread, all_in_one):
        until = time.monotonic() + 4
        threads = [threading.Thread(target=loop, args=(until,)) for _ in range(6)]
        for t in threads: t.start()
        for t in threads: t.join()
print(json.dumps(truth))
"""


def test_spans_in_a_thread_for_each_request_have_their_time(python, tmp_path):
    truth = run_python(python, REQUESTS, tmp_path / "o.pb.gz")
    for f in ("short_lived", "long_lived"):
        seen = sum(value for value, stack, labels in samples(tmp_path / "o.pb.gz") if f in stack and "span_id" in labels) / 1e9
        assert 0.85 < seen / truth[f] < 1.15, (f, seen, truth)


@pytest.mark.parametrize("tasks", [1, 8, 200])
def test_awaits_are_wall_clock_time_of_tasks(python, tmp_path, tasks):
    """Also where there are more tasks than are looked at. The truth is measured by the program around its awaits."""
    truth = run_python(python, AWAITS, tmp_path / "o.pb.gz", tasks, "wall")
    check_awaits(tmp_path / "o.pb.gz", truth, tasks)
    assert not truth["lost"], truth


MANY_TASKS = """
import asyncio, json, os, sys, time
import wick
def awaiting(): return [t for t in os.listdir("/proc/self/task") if open(f"/proc/self/task/{t}/comm").read() == "wick-await\\n"]
async def parked(depth=40):
    if depth:
        await parked(depth - 1)
    else:
        await asyncio.sleep(float(sys.argv[3]))
async def serve(n): await asyncio.gather(*[parked() for _ in range(n)])
def run(): asyncio.run(serve(int(sys.argv[2])))
p = wick.ContinuousProfiler(exporter=wick.OTLPProfileExporter(endpoint="none"), profile_types=sys.argv[4].split(","), file=sys.argv[1])
seen = {"before": len(awaiting())}
with p:
    time.sleep(0.3)
    begun = time.monotonic()
    run()
    seen["during"], seen["lasted"] = len(awaiting()), time.monotonic() - begun
    if os.fork() == 0:
        time.sleep(0.3)
        os._exit(len(awaiting()))
    seen["child"] = os.waitstatus_to_exitcode(os.wait()[1])
    stats = p.stats()
    seen["used"], seen["lost"], seen["rate"] = (stats["background_ns"] + stats["handler_ns"]) / 1e9, stats["lost"], stats["rate"]
until = time.monotonic() + 15
while awaiting() and time.monotonic() < until: time.sleep(0.1)
seen["after"] = len(awaiting())
print(json.dumps(seen))
"""


def test_looking_at_many_tasks_is_within_the_budget(python, tmp_path):
    """Its lever is the time between two looks: the rate of CPU samples stays, and so does the sum."""
    got = run_python(python, MANY_TASKS, tmp_path / "o.pb.gz", 10000, 12, "cpu,wall")
    assert (got["before"], got["during"], got["child"], got["after"]) == (0, 1, 1, 0), got
    assert got["used"] < 0.02 * got["lasted"] and got["rate"] == 100 and not got["lost"], got
    seen = sum(value for value, stack, _ in samples(tmp_path / "o.wall.pb.gz") if "parked" in stack and "[await]" in stack) / 1e9
    assert 0.8 < seen / (10000 * 12) < 1.1, (seen, got)


def test_nothing_looks_at_tasks_without_wall_clock_time(python, tmp_path):
    got = run_python(python, MANY_TASKS, tmp_path / "o.pb.gz", 10, 0.5, "cpu")
    assert (got["before"], got["during"], got["child"], got["after"]) == (0, 0, 0, 0), got


FORK = """
import multiprocessing, os, sys, time
import wick
def burn(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        sum(range(1000))
def in_worker(k):
    burn(0.3)
def in_child():
    burn(0.3)
if __name__ == "__main__":
    wick.start(endpoint=sys.argv[1], export_interval=60, service_name="forks", tags={"team": "a b"})
    workers = [multiprocessing.get_context("fork").Process(target=in_worker, args=(k,)) for k in range(2)]
    for w in workers: w.start()
    for w in workers: w.join()
    if os.fork() == 0:
        in_child()
        sys.exit(0)
    os.wait()
    burn(0.2)
    print([w.exitcode for w in workers])
"""


def test_profiling_continues_in_forked_children(python, tmp_path):
    program = tmp_path / "forks.py"
    program.write_text(FORK)
    with Sink() as sink:
        assert run_python(python, program, f"http://127.0.0.1:{sink.port}") == [0, 0]
        functions, resource = exported(sink)
    assert resource["service.name"] == "forks" and resource["team"] == "a b", resource
    assert len(functions["in_worker"]) == 2 and len(functions["in_child"]) == 1, functions
    assert not functions["in_worker"] & functions["in_child"]


def test_python_m_wick_run(python, tmp_path):
    script = tmp_path / "job.py"
    script.write_text("import sys, time\ndef busy():\n    e = time.process_time() + 0.3\n    while time.process_time() < e: pass\n"
                      "busy()\nprint(sys.argv[1:], __name__)\nsys.exit(3)\n")

    def run(*args, **env):
        return subprocess.run([str(python), "-m", "wick", "run", *map(str, args)], capture_output=True, text=True, timeout=120,
                              cwd=tmp_path, env={**os.environ, **env})

    with Sink() as sink:
        p = run(script, "a", "b", WICK_EXPORT=f"http://127.0.0.1:{sink.port}", WICK_RATE="250")
        assert p.returncode == 3 and p.stdout == "['a', 'b'] __main__\n", p.stdout + p.stderr
        functions, resource = exported(sink)
    assert "busy" in functions and resource["service.name"] == "job", (functions, resource)
    p = run("-o", tmp_path / "o.pb.gz", "-m", "job", "x")
    assert p.returncode == 3 and p.stdout == "['x'] __main__\n" and (tmp_path / "o.pb.gz").stat().st_size > 0, p.stderr
    for wrong in (["-t", "cpu"], ["--no-such", "x"], ["no_such_file.py"], ["-t", "colour", script], [sys.executable]):
        p = run(*wrong)
        assert p.returncode == 2 and p.stderr.startswith("python -m wick: "), (wrong, p.stderr)
    p = run("--pprof", "256.0.0.1:1", "--export", "none", script)
    assert p.returncode == 3 and "profiling is off" in p.stderr, p.stderr


@needs_go
def test_serve_pprof(python):
    program = "import wick, time\nprint(wick.serve_pprof(0), flush=True)\ndef hot():\n    return sum(i * i for i in range(1000))\nkept = []\n" \
              "while True:\n    hot()\n    if len(kept) < 3000: kept.append(bytearray(2000))\n"
    with subprocess.Popen([str(python), "-c", program], stdout=subprocess.PIPE, text=True) as p:
        try:
            url = f"http://127.0.0.1:{int(p.stdout.readline())}/debug/pprof"
            for path, name in (("profile?seconds=1", "hot"), ("heap", "<module>")):
                out = subprocess.run([*pprof_command(), "-top", "-nodefraction=0", f"{url}/{path}"], capture_output=True, text=True)
                assert out.returncode == 0 and name in out.stdout, out.stdout + out.stderr
        finally:
            p.kill()


API = """
import sys, json
import wick
from opentelemetry.profiling import ContinuousProfiler, OTLPProfileExporter
import opentelemetry.profiling as shim
assert ContinuousProfiler is wick.ContinuousProfiler and shim.__file__.endswith("opentelemetry/profiling/__init__.py")
def refused(f, what):
    try:
        f()
    except (ValueError, RuntimeError) as e:
        assert what in str(e), e
    else:
        raise AssertionError(f"not refused: {what}")
none = OTLPProfileExporter(endpoint="none", headers={"a": "b c"}, compression="gzip", timeout=3)
refused(lambda: ContinuousProfiler(profile_types=["cpu", "colour"]), "colour")
refused(lambda: ContinuousProfiler(profile_types=[]), "empty")
refused(lambda: ContinuousProfiler(sample_rate=0), "sample_rate")
refused(lambda: ContinuousProfiler(max_stack_depth=5000), "max_stack_depth")
refused(lambda: OTLPProfileExporter(compression="lzma"), "lzma")
refused(lambda: OTLPProfileExporter(timeout=0), "timeout")
refused(lambda: ContinuousProfiler(exporter=OTLPProfileExporter(endpoint="ftp://x")).start(), "ftp")
with ContinuousProfiler(exporter=none, sample_rate=50, max_stack_depth=30, max_samples_per_export=100, export_interval=5) as p:
    assert p.start() is p and p.running
    refused(lambda: ContinuousProfiler(exporter=none).start(), "already running")
    assert p.stats()["rate"] == 50
    p.pause(); p.resume()
    wick.label("tenant", "a"); wick.label("tenant", None)
    assert p.snapshot("cpu")[:2] == bytes([31, 139])
assert not p.running
refused(lambda: p.stats(), "no provider")
p.start(); assert p.stop() is None and p.stop() is None
unreachable = ContinuousProfiler(exporter=OTLPProfileExporter(endpoint="http://127.0.0.1:1", timeout=1)).start()
import time
end = time.process_time() + 0.2
while time.process_time() < end:
    pass
refused(lambda: unreachable.force_flush(), "127.0.0.1")
print("fine")
"""


def test_the_api(python):
    assert run_python(python, API) == "fine\n"


def test_upstream_comes_first(python, tmp_path):
    """Should OpenTelemetry ship the module, its own is used."""
    (tmp_path / "opentelemetry/profiling").mkdir(parents=True)
    (tmp_path / "opentelemetry/profiling/__init__.py").write_text("upstream = True\n")
    assert run_python(python, "import opentelemetry.profiling as p; print(p.upstream)", env={"PYTHONPATH": str(tmp_path)}) == "True\n"


def test_stress(python):
    """WICK_PYTHON_STRESS=1800 is the long form."""
    seconds = float(os.environ.get("WICK_PYTHON_STRESS", 6))
    assert run_python(python, PROGRAMS / "py_stress.py", seconds, timeout=seconds + 300) == "fine\n"
