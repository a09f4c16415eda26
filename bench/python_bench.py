# SPDX-License-Identifier: Apache-2.0
"""bench_python.sh [ROUNDS]: the Python package beside py-spy, austin, pyroscope-io, ddtrace and memray, as far as they are
installed (tools/deps all). In each round every tool runs once, in random order; a ratio is that of the same round to the program
without a profiler. CPU is the process's own: what py-spy and austin use in another process is not in it."""
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests/integration"))
from python_tools import make_environment  # noqa: E402

ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 12
VENV_BIN = ROOT / "build/venv/bin"

WORK = """
import sys, time, threading
def burn(n):
    total = 0
    for i in range(n * 100):
        total += i * i
    return total
def seventy(): return burn(70)
def twenty(): return burn(20)
def ten(): return burn(10)
def cpu():
    for _ in range(220):
        seventy(); twenty(); ten()
def alloc():
    kept = []
    for i in range(60):
        kept.append([bytearray(50 + (i * 7 + k) % 900) for k in range(4000)])
        if len(kept) > 10: kept.pop(0)
def lock():
    held = threading.Lock()
    def work():
        for _ in range(40000):
            with held: pass
    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads: t.start()
    for t in threads: t.join()
start, wall = time.process_time(), time.perf_counter()
globals()[sys.argv[1]]()
print("RESULT", time.process_time() - start, time.perf_counter() - wall, flush=True)
"""

STARTS = {
    "none": "",
    "wick": "import wick; p = wick.start(endpoint='http://127.0.0.1:9', profile_types=[{types!r}])\n",
    "pyroscope-io": "import pyroscope; pyroscope.configure(application_name='x', server_address='http://127.0.0.1:9')\n",
    "ddtrace": "import os; os.environ.update(DD_PROFILING_{flag}_ENABLED='1', DD_TRACE_ENABLED='false'{off}); import ddtrace.profiling.auto\n",
}
COMMANDS = {
    "py-spy": ["py-spy", "record", "-r", "100", "-f", "raw", "-o", "{out}", "--"],
    "austin": ["austin", "-i", "10ms", "-o", "{out}"],
    "memray": ["{python}", "-m", "memray", "run", "-q", "-f", "-o", "{out}"],
}
WHICH = {"cpu": ["wick", "pyroscope-io", "ddtrace", "py-spy", "austin"], "alloc": ["wick", "ddtrace", "memray"], "lock": ["wick", "ddtrace"]}
MODULES = {"pyroscope-io": "pyroscope", "ddtrace": "ddtrace", "memray": "memray"}


def available(tool, python):
    if tool in ("none", "wick"):
        return True
    if tool in MODULES:
        return subprocess.run([python, "-c", f"import {MODULES[tool]}"], capture_output=True).returncode == 0
    return (VENV_BIN / tool).exists() or shutil.which(tool) is not None


def once(tool, what, python, tmp):
    flags = {"cpu": "STACK", "alloc": "MEMORY", "lock": "LOCK"}
    off = "".join(f", DD_PROFILING_{f}_ENABLED='0'" for f in flags.values() if f != flags[what])
    text = STARTS.get(tool, "").format(types="heap" if what == "alloc" else what, flag=flags[what], off=off)
    program = tmp / f"{tool}-{what}.py"
    program.write_text(text + WORK)
    command = [c.format(out=tmp / f"out-{tool}-{random.random()}", python=python) for c in COMMANDS.get(tool, [])]
    if command and not command[0].startswith("/"):
        command[0] = str(VENV_BIN / command[0]) if (VENV_BIN / command[0]).exists() else command[0]
    if tool != "memray":
        command.append(str(python))
    p = subprocess.run([*command, str(program), what], capture_output=True, text=True, timeout=300)
    line = next((l for l in p.stdout.splitlines() if l.startswith("RESULT")), None)
    return [float(x) for x in line.split()[1:]] if line else None


def bounds(ratios):
    """Median, quartiles, and an upper 95 % bound of the median by resampling."""
    q = statistics.quantiles(ratios, n=4) if len(ratios) > 1 else [ratios[0]] * 3
    medians = sorted(statistics.median(random.choices(ratios, k=len(ratios))) for _ in range(2000))
    return statistics.median(ratios), q[0], q[2], medians[int(0.95 * len(medians))]


def compare(what, python, tmp):
    tools = [t for t in ["none", *WHICH[what]] if available(t, python)]
    ratios = {t: [] for t in tools}
    for _ in range(ROUNDS):
        random.shuffle(tools)
        got = {t: once(t, what, python, tmp) for t in tools}
        base = got["none"]
        for t in tools:
            if base and got[t]:
                ratios[t].append((got[t][0] / base[0], got[t][1] / base[1]))
    print(f"\n{what}: ratio to the program without a profiler, {ROUNDS} rounds\n")
    print("| tool | CPU: median [quartiles] | upper 95 % of the median | wall: median |\n|---|---|---|---|")
    for t in ["wick", *[x for x in WHICH[what] if x != "wick"]]:
        if not ratios.get(t):
            print(f"| {t} | not available | | |")
            continue
        m, lo, hi, upper = bounds([r[0] for r in ratios[t]])
        print(f"| {t} | {m:.3f} [{lo:.3f}..{hi:.3f}] | {upper:.3f} | {statistics.median(r[1] for r in ratios[t]):.3f} |")


DIRECT = """
import json, sys, time
def rss(): return int(open("/proc/self/statm").read().split()[1]) * 4096
import atexit, os, threading, urllib.parse
before, start = rss(), time.process_time()
import wick
imported = time.process_time() - start
p = wick.ContinuousProfiler(exporter=wick.OTLPProfileExporter(endpoint="none"), file=sys.argv[1]).start()
def burn(n):
    total = 0
    for i in range(n * 100):
        total += i * i
    return total
def seventy(): return burn(70)
def twenty(): return burn(20)
def ten(): return burn(10)
end = time.process_time() + 20
while time.process_time() < end:
    seventy(); twenty(); ten()
s, after = p.stats(), rss()
p.stop()
print(json.dumps({"import_ms": imported * 1e3, "rss_mb": (after - before) / 1e6, "cost": (s["handler_ns"] + s["background_ns"]) / 20e9,
                  "handler_us": s["handler_ns"] / 1e3 / max(1, s["samples"]["cpu"]), "samples": s["samples"]["cpu"]}))
"""


def direct(python, tmp):
    """With -S, so that no other package is imported: memory is the package's own."""
    out = tmp / "direct.pb.gz"
    site = next(Path(python).parent.parent.glob("lib/python3*/site-packages"))
    p = subprocess.run([str(python), "-S", "-c", DIRECT, str(out)], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(site)}, check=True)
    r = json.loads(p.stdout)
    print(f"- cost of 100 samples a second: {100 * r['cost']:.3f} % of the program's CPU time ({r['handler_us']:.1f} µs a sample; limit 0.5 %)")
    print(f"- import: {r['import_ms']:.1f} ms of CPU time (limit 50 ms)")
    print(f"- memory: {r['rss_mb']:.1f} MB resident (limit 6 MB)")
    top = subprocess.run([str(ROOT / "build/src/cli/wick"), "pprof", "-top", "-unit=ms", str(out)], capture_output=True, text=True, check=True).stdout
    share = {l.split()[-1]: float(l.split()[3].rstrip("ms")) for l in top.splitlines() if l.split() and l.split()[-1] in ("seventy", "twenty", "ten")}
    total, n = sum(share.values()), r["samples"]
    for name, truth in (("seventy", 0.7), ("twenty", 0.2), ("ten", 0.1)):
        error = (truth * (1 - truth) / n) ** 0.5
        print(f"- {name}: {100 * share[name] / total:.1f} % ({(share[name] / total - truth) / error:+.1f} standard errors; limit 2)")


def main():
    with tempfile.TemporaryDirectory() as d:
        tmp = Path(d)
        python = make_environment(tmp)
        print(subprocess.run([str(python), "-VV"], capture_output=True, text=True).stdout)
        direct(python, tmp)
        for what in ("cpu", "alloc", "lock"):
            compare(what, python, tmp)


if __name__ == "__main__":
    main()
