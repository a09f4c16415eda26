# SPDX-License-Identifier: Apache-2.0
"""bench_python.sh [ROUNDS]: the Python package beside py-spy, austin, pyroscope-io, ddtrace and memray, as far as they are
installed (tools/deps all). All programs run at once, but only one at a time is not stopped: in each round every one has a turn, in
random order, and a ratio is that of the same round to the program without a profiler. So both sides of it are a second apart, and a
machine that is slower now and then is so for both. CPU is the process's own: what py-spy and austin use in another process is not in it."""
import json
import mmap
import os
import random
import shutil
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests/integration"))
from python_tools import make_environment  # noqa: E402

ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 30
TURN_S = 0.15
VENV_BIN = ROOT / "build/venv/bin"

WORK = """
import mmap, os, signal, struct, sys, time, threading
def burn(n):
    total = 0
    for i in range(n * 100):
        total += i * i
    return total
def seventy(): return burn(70)
def twenty(): return burn(20)
def ten(): return burn(10)
def cpu():
    seventy(); twenty(); ten()
kept = []
def alloc():
    kept.append([bytearray(50 + (len(kept) * 7 + k) % 900) for k in range(4000)])
    if len(kept) > 10: kept.pop(0)
held = threading.Lock()
def work():
    for _ in range(10000):
        with held: pass
def lock():
    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads: t.start()
    for t in threads: t.join()
unit, shown, n = globals()[sys.argv[1]], mmap.mmap(os.open(sys.argv[2], os.O_RDWR), 24), 0
while True:
    unit()
    n += 1
    struct.pack_into("ddd", shown, 0, n, time.process_time(), os.getpid())
"""

STARTS = {
    "none": "",
    "wick": "import wick; p = wick.start(endpoint='http://127.0.0.1:9', profile_types=[{types!r}])\n",
    "wick with heap": "import wick; p = wick.start(endpoint='http://127.0.0.1:9', profile_types=['alloc', 'heap'])\n",
    "pyroscope-io": "import pyroscope; pyroscope.configure(application_name='x', server_address='http://127.0.0.1:9')\n",
    "ddtrace": "import os; os.environ.update(DD_PROFILING_{flag}_ENABLED='1', DD_TRACE_ENABLED='false'{off}); import ddtrace.profiling.auto\n",
}
COMMANDS = {
    "py-spy": ["py-spy", "record", "-r", "100", "-f", "raw", "-o", "{out}", "--"],
    "austin": ["austin", "-i", "10ms", "-o", "{out}"],
    "memray": ["{python}", "-m", "memray", "run", "-q", "-f", "-o", "{out}"],
}
WHICH = {"cpu": ["wick", "pyroscope-io", "ddtrace", "py-spy", "austin"], "alloc": ["wick", "wick with heap", "ddtrace", "memray"], "lock": ["wick", "ddtrace"]}
MODULES = {"pyroscope-io": "pyroscope", "ddtrace": "ddtrace", "memray": "memray"}


def available(tool, python):
    if tool in STARTS and tool not in MODULES:
        return True
    if tool in MODULES:
        return subprocess.run([python, "-c", f"import {MODULES[tool]}"], capture_output=True).returncode == 0
    return (VENV_BIN / tool).exists() or shutil.which(tool) is not None


class Program:
    """The program under one tool, stopped. It counts its units of work and its CPU time in a file that both sides map."""

    def __init__(self, tool, what, python, tmp):
        flags = {"cpu": "STACK", "alloc": "MEMORY", "lock": "LOCK"}
        off = "".join(f", DD_PROFILING_{f}_ENABLED='0'" for f in flags.values() if f != flags[what])
        text = STARTS.get(tool, "").format(types=what, flag=flags[what], off=off)
        name = f"{tool}-{what}".replace(" ", "-")
        (tmp / f"{name}.py").write_text(text + WORK)
        (tmp / f"{name}.map").write_bytes(bytes(24))
        self.shown = mmap.mmap(os.open(tmp / f"{name}.map", os.O_RDWR), 24)
        command = [c.format(out=tmp / f"{name}.out", python=python) for c in COMMANDS.get(tool, [])]
        if command and not command[0].startswith("/"):
            command[0] = str(VENV_BIN / command[0]) if (VENV_BIN / command[0]).exists() else command[0]
        if tool != "memray":
            command.append(str(python))
        self.p = subprocess.Popen([*command, str(tmp / f"{name}.py"), what, str(tmp / f"{name}.map")], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                  start_new_session=True)
        end = time.time() + 30
        while self.read()[0] < 20 and self.p.poll() is None and time.time() < end:
            time.sleep(0.05)
        self.pid = int(self.read()[2])
        if self.pid:
            os.kill(self.pid, signal.SIGSTOP)

    def read(self):
        return struct.unpack_from("ddd", self.shown)

    def turn(self):
        """CPU and wall time for each unit of work, of one turn."""
        units, cpu, _ = self.read()
        start = time.perf_counter()
        os.kill(self.pid, signal.SIGCONT)
        time.sleep(TURN_S)
        os.kill(self.pid, signal.SIGSTOP)
        wall = time.perf_counter() - start
        more, later, _ = self.read()
        return ((later - cpu) / (more - units), wall / (more - units)) if more > units else None

    def end(self):
        for pid in (self.pid, self.p.pid):
            if pid:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:  # the tool ended with its program
                    pass
        self.p.wait()


def bounds(ratios):
    """Median, quartiles, and an upper 95 % bound of the median by resampling."""
    q = statistics.quantiles(ratios, n=4) if len(ratios) > 1 else [ratios[0]] * 3
    medians = sorted(statistics.median(random.choices(ratios, k=len(ratios))) for _ in range(2000))
    return statistics.median(ratios), q[0], q[2], medians[int(0.95 * len(medians))]


def compare(what, python, tmp, only=None, rounds=ROUNDS):
    tools = [t for t in ["none", *(only or WHICH[what])] if available(t, python)]
    programs = {t: Program(t, what, python, tmp) for t in tools}
    tools = [t for t in tools if programs[t].pid]
    ratios = {t: [] for t in tools}
    for _ in range(rounds):
        random.shuffle(tools)
        got = {t: programs[t].turn() for t in tools}
        base = got["none"]
        for t in tools:
            if base and got[t]:
                ratios[t].append((got[t][0] / base[0], got[t][1] / base[1]))
    for p in programs.values():
        p.end()
    print(f"\n{what}: ratio to the program without a profiler, {rounds} rounds\n")
    print("| tool | CPU: median [quartiles] | upper 95 % of the median | wall: median |\n|---|---|---|---|")
    for t in only or WHICH[what]:
        if not ratios.get(t):
            print(f"| {t} | not available | | |")
            continue
        m, lo, hi, upper = bounds([r[0] for r in ratios[t]])
        print(f"| {t} | {m:.3f} [{lo:.3f}..{hi:.3f}] | {upper:.3f} | {statistics.median(r[1] for r in ratios[t]):.3f} |")


DIRECT = """
import json, sys, time
def rss(): return int(open("/proc/self/statm").read().split()[1]) * 4096
import atexit, os, random, threading, urllib.parse
before, start = rss(), time.process_time()
import wick
imported = time.process_time() - start
p = wick.ContinuousProfiler(exporter=wick.OTLPProfileExporter(endpoint="none"), file=sys.argv[1]).start()
def burn(n):
    total = 0
    for i in range(n * 100):
        total += i * i
    return total
def seventy(n): return burn(70 * n)
def twenty(n): return burn(20 * n)
def ten(n): return burn(10 * n)
functions = [seventy, twenty, ten]
end, spent = time.process_time() + 20, {}
while time.process_time() < end:
    random.shuffle(functions)  # a loop with one period would meet the ticks that CPU timers fire at, again and again at the same place
    n = random.randint(1, 9)
    for f in functions:
        begin = time.thread_time_ns()
        f(n)
        spent[f.__name__] = spent.get(f.__name__, 0) + time.thread_time_ns() - begin
s, after = p.stats(), rss()
p.stop()
print(json.dumps({"import_ms": imported * 1e3, "rss_mb": (after - before) / 1e6, "cost": (s["handler_ns"] + s["background_ns"]) / 20e9,
                  "handler_us": s["handler_ns"] / 1e3 / max(1, s["samples"]["cpu"]), "samples": s["samples"]["cpu"], "spent": spent}))
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
    for name in ("seventy", "twenty", "ten"):
        truth = r["spent"][name] / sum(r["spent"].values())  # 70, 20 and 10 % of the rounds; larger sums take longer to add
        error = (truth * (1 - truth) / n) ** 0.5
        print(f"- {name}: {100 * share[name] / total:.1f} %, by the clock {100 * truth:.1f} % ({(share[name] / total - truth) / error:+.1f} standard errors; limit 2)")


def main():
    with tempfile.TemporaryDirectory() as d:
        tmp = Path(d)
        python = make_environment(tmp)
        print(subprocess.run([str(python), "-VV"], capture_output=True, text=True).stdout)
        direct(python, tmp)
        for what in ("cpu", "alloc", "lock"):
            compare(what, python, tmp)
        compare("cpu", python, tmp, ["wick"], 10 * ROUNDS)  # limit of the upper bound: 1.03


if __name__ == "__main__":
    main()
