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
    return {"PYTHONPATH": f"{site}:{site / 'wick/shim'}"}


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
