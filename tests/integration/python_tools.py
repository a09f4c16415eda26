# SPDX-License-Identifier: Apache-2.0
"""The Python package: built with pip into a virtual environment (for this Python), or with Meson into a folder (for others)."""
import fcntl
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from go_tools import pprof_command
from pythons import found
from sdk_tools import top
from span_tools import spans_of
from wick_tools import BUILD, ROOT, WICK

VENV = ROOT / "build/venv"
PACKAGE = ROOT / "python"


def tools_env():
    """Meson and ninja of the virtual environment: Debian's Meson is too old for meson-python."""
    return {**os.environ, "PATH": f"{VENV / 'bin'}:{os.environ['PATH']}"}


def needs_package():
    for name in ("mesonpy", "opentelemetry.sdk"):
        pytest.importorskip(name)
    if not any(Path(p).joinpath("Python.h").exists() for p in include_of(sys.executable)):
        pytest.skip("no Python.h: install python3-dev")


def include_of(python):
    ask = "import sysconfig;print(sysconfig.get_paths()['include'])"
    return subprocess.run([python, "-c", ask], capture_output=True, text=True, check=True).stdout.split()


def build_wheel(out):
    """`pip install ./python` without the network. The objects are kept in the build folder."""
    kept = BUILD / "python-package"
    with open(BUILD / "python-package.lock", "w") as lock:  # tests may run in several processes
        fcntl.flock(lock, fcntl.LOCK_EX)
        subprocess.run([VENV / "bin/python", "-m", "pip", "wheel", "-q", "--disable-pip-version-check", "--no-build-isolation", "--no-deps",
                        f"--config-settings=build-dir={kept}", "-w", str(out), str(PACKAGE)], check=True, env=tools_env(), timeout=900)
    return next(Path(out).glob("*.whl"))


def make_environment(out):
    """A virtual environment with the wheel, beside the real opentelemetry-api and -sdk. Returns its Python."""
    subprocess.run([VENV / "bin/python", "-m", "venv", "--without-pip", out / "venv"], check=True)
    site = next((out / "venv/lib").glob("python3*/site-packages"))
    with zipfile.ZipFile(build_wheel(out)) as z:
        z.extractall(site)
    (site / "zz_libraries.pth").write_text(str(next((VENV / "lib").glob("python3*/site-packages"))) + "\n")
    return out / "venv/bin/python"


@pytest.fixture(scope="session")
def python(tmp_path_factory):
    """A Python that has the package."""
    needs_package()
    return make_environment(tmp_path_factory.mktemp("python"))


def run_python(python, script, *args, env=None, timeout=300):
    """Runs a script (a path, or text) and returns what it prints, decoded as JSON if it is."""
    command = [str(python), *(["-c", script] if isinstance(script, str) else [str(script)]), *map(str, args)]
    p = subprocess.run(command, capture_output=True, text=True, timeout=timeout, env={**os.environ, **(env or {})})
    assert p.returncode == 0, (p.returncode, p.stdout + p.stderr)
    try:
        return json.loads(p.stdout)
    except ValueError:
        return p.stdout


def build_for(python, out, *options):
    """The package for another CPython, built with Meson into out; the environment to use it with."""
    out = Path(out)
    (out / "native.ini").write_text(f"[binaries]\npython = '{python}'\n")
    subprocess.run(["meson", "setup", out / "build", PACKAGE, "--native-file", out / "native.ini", "--prefix", "/usr", *options],
                   check=True, env=tools_env(), stdout=subprocess.DEVNULL)
    subprocess.run(["meson", "install", "-C", out / "build", "--destdir", out / "dest"], check=True, env=tools_env(), stdout=subprocess.DEVNULL)
    site = next(p for p in (out / "dest").rglob("wick") if (p / "__init__.py").exists()).parent
    return {"PYTHONPATH": str(site)}


def others():
    """Other CPythons of this machine with headers."""
    return {v: p for v, p in found().items() if any(Path(i, "Python.h").exists() for i in include_of(p))}


# A program that works in known places under known spans, in threads and in tasks. It prints the truth: CPU time by span.
SPANS = """
import asyncio, json, sys, threading, time
import wick
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
trace.set_tracer_provider(TracerProvider())
tracer = trace.get_tracer("truth")
truth = {}
def burn(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        sum(i * i for i in range(300))
def threaded(k):
    for _ in range(4):
        with tracer.start_as_current_span("t") as span:
            truth[f"{span.get_span_context().span_id:016x}"] = f"thread{k}"
            globals()[f"thread{k}"]()
async def tasked(k):
    with tracer.start_as_current_span("a") as span:
        truth[f"{span.get_span_context().span_id:016x}"] = f"task{k}"
        for _ in range(8):
            globals()[f"task{k}"]()
            await asyncio.sleep(0)
for kind, n in (("thread", 4), ("task", 4)):
    for k in range(n):
        exec(f"def {kind}{k}(): burn({0.06 if kind == 'thread' else 0.03})")
async def tasks():
    await asyncio.gather(*[tasked(k) for k in range(4)])
profiler = wick.ContinuousProfiler(exporter=wick.OTLPProfileExporter(endpoint="none"), sample_rate=250, cpu_budget=1, file=sys.argv[1])
with profiler:
    threads = [threading.Thread(target=threaded, args=(k,)) for k in range(4)]
    for t in threads: t.start()
    for t in threads: t.join()
    asyncio.run(tasks())
print(json.dumps(truth))
"""


LOCKS = """
import multiprocessing, queue, sys, threading, time
import wick
p = wick.ContinuousProfiler(exporter=wick.OTLPProfileExporter(endpoint="none"), profile_types=["lock"], file=sys.argv[1], lock_interval=1e-5)
simple, full, event, condition = queue.SimpleQueue(), queue.Queue(), threading.Event(), threading.Condition()
semaphore, lock, between = threading.Semaphore(1), threading.Lock(), multiprocessing.Lock()
def idle_simple_queue(): simple.get()
def idle_queue(): full.get()
def idle_event(): event.wait()
def idle_condition():
    with condition: condition.wait()
def waits_semaphore():
    with semaphore: pass
def waits_lock():
    with lock: pass
def waits_between():
    with between: pass
def waits_condition():
    with condition: pass
with p:
    semaphore.acquire(); lock.acquire(); between.acquire()
    threads = [threading.Thread(target=f) for f in (idle_simple_queue, idle_queue, idle_event, idle_condition, waits_semaphore, waits_lock, waits_between)]
    for t in threads: t.start()
    time.sleep(0.2)
    condition.acquire()
    threads.append(threading.Thread(target=waits_condition))
    threads[-1].start()
    time.sleep(1)
    condition.notify_all(); condition.release()
    semaphore.release(); lock.release(); between.release()
    simple.put(1); full.put(1); event.set()
    for t in threads: t.join()
"""


def check_locks(path):
    rows, _ = top(path, "delay")
    for f in ("waits_semaphore", "waits_lock", "waits_between", "waits_condition"):
        assert 0.8e9 < rows[f][1] < 3e9, (f, rows)
    assert sum(v[1] for f, v in rows.items() if f.startswith("idle_")) < 0.1e9, rows


def samples(path):
    """[(value, [functions, leaf first], {label: value})], by pprof's own listing."""
    out = subprocess.run([*pprof_command(), "-traces", "-unit=ns", str(path)], capture_output=True, text=True, check=True).stdout
    result = []
    for block in out.split("-----------+-------------------------------------------------------")[1:]:
        labels, stack, value = {}, [], 0
        for line in block.splitlines():
            if ":" in line and not stack and line.split(":")[0].strip() in ("span_id", "trace_id", "asyncio.task.name"):
                key, _, text = line.strip().partition(":")
                labels[key] = text.strip()
            elif line.strip():
                words = line.split()
                if not stack:
                    value, words = float(words[0].rstrip("ns")), words[1:]
                stack.append(" ".join(words))
        if stack:
            result.append((value, stack, labels))
    return result


def check_spans(path, truth):
    """Every sample below a function that only runs in known spans has one of them. Returns how many there were."""
    right, wrong = 0, []
    for value, stack, labels in samples(path):
        place = next((f for f in stack if f.startswith(("thread", "task")) and f[-1].isdigit()), None)
        if place is None:
            continue
        if truth.get(labels.get("span_id")) == place:
            right += value
        else:
            wrong.append((value, stack, labels))
    assert right > 0 and sum(w[0] for w in wrong) <= 0.01 * right, wrong
    return right


# Tasks that await, in spans and by two kinds of functions. It prints the truth: how long they did.
AWAITS = """
import asyncio, json, os, sys, time
import wick
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
trace.set_tracer_provider(TracerProvider())
tracer = trace.get_tracer("truth")
truth = {"downstream": 0, "short": 0}
async def downstream(seconds):
    begun = time.monotonic()
    await asyncio.sleep(seconds)
    truth["downstream"] += time.monotonic() - begun
async def short():
    begun = time.monotonic()
    await asyncio.sleep(0.02)
    truth["short"] += time.monotonic() - begun
async def handler(k):
    with tracer.start_as_current_span("request") as span:
        await downstream(3)
        for _ in range(200):
            await short()
async def serve(n):
    await asyncio.gather(*[asyncio.create_task(handler(k), name=f"request-{k}") for k in range(n)])
types = ["wall"] if sys.argv[3] == "wall" else ["cpu"]
p = wick.ContinuousProfiler(exporter=wick.OTLPProfileExporter(endpoint="none"), profile_types=types, file=sys.argv[1])
with p:
    begun, cpu = time.monotonic(), time.process_time()
    asyncio.run(serve(int(sys.argv[2])))
    stats = p.stats()
    used = (stats["background_ns"] + stats["handler_ns"]) / 1e9
print(json.dumps({**truth, "used": used, "lasted": time.monotonic() - begun, "lost": stats["lost"], "cpu": time.process_time() - cpu}))
"""


def check_awaits(path, truth, tasks):
    found = samples(path)
    for f in ("downstream", "short"):
        here = [(value, stack, labels) for value, stack, labels in found if f in stack and "[await]" in stack]
        assert here and all(stack[-3:] == [f, "handler", "[await]"] or stack[-4:] == ["sleep", f, "handler", "[await]"] for _, stack, _ in here), here[:3]
        assert all("span_id" in labels for _, _, labels in here), here[:3]
        seen = sum(value for value, _, _ in here) / 1e9
        assert 0.85 < seen / truth[f] < 1.15, (f, seen, truth)
    names = {labels.get("asyncio.task.name") for _, stack, labels in found if "[await]" in stack and "handler" in stack}
    assert names <= {f"request-{k}" for k in range(tasks)} and len(names) >= min(tasks, 8), names


def check_published(python, out, env=None):
    """The host agent, from outside, sees the span of every sample: in threads, and at each step of a task."""
    names = [f"{kind}{k}" for kind in ("thread", "task") for k in range(4)]
    p = subprocess.run([str(WICK), "record", "-q", "-F", "499", "-o", str(out / "seen.json"), "--", str(python), "-c", SPANS, str(out / "own.pb.gz")],
                       capture_output=True, text=True, timeout=300, env={**os.environ, **(env or {})})
    assert p.returncode == 0, p.stderr
    truth, right, wrong = json.loads(p.stdout), {}, []
    for where, span, value in spans_of(out / "seen.json", names):
        if truth.get(span) == where:
            right[where] = right.get(where, 0) + value
        else:
            wrong.append((where, span, value))
    assert set(right) == set(names) and sum(w[2] for w in wrong) <= 0.01 * sum(right.values()), (right, wrong)
    return sum(right.values()), sum(w[2] for w in wrong)


def exported(sink):
    """{function: {pids}}, and the resource attributes that were seen."""
    functions, resource = {}, {}
    for r in sink.requests:
        d = r.dictionary
        for rp in r.resource_profiles:
            mine = {a.key: a.value.string_value or a.value.int_value for a in rp.resource.attributes}
            resource.update(mine)
            for sp in rp.scope_profiles:
                for p in sp.profiles:
                    for s in p.samples:
                        for l in d.stack_table[s.stack_index].location_indices:
                            for line in d.location_table[l].lines:
                                name = d.string_table[d.function_table[line.function_index].name_strindex]
                                functions.setdefault(name, set()).add(mine.get("process.pid"))
    return functions, resource
