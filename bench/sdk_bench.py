# SPDX-License-Identifier: Apache-2.0
"""The measurements of bench_sdk.sh. Both sides of each ratio run interleaved, in one run. PAIRS (default 60) sets how many."""
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / os.environ.get("BUILD", "build")
PAIRS = int(os.environ.get("PAIRS", "60"))
PRELOAD = BUILD / "src/sdk/libwick-preload.so"
LIB = BUILD / "src/sdk"
tmp = Path(tempfile.mkdtemp())
rows = []


def cc(source, *flags):
    exe = tmp / Path(source).stem
    r = subprocess.run(["cc", "-O2", "-g", "-o", exe, ROOT / source, "-lpthread", *flags], capture_output=True, text=True)
    return exe if r.returncode == 0 else None


def run(cmd, types=None, preload=None, **env):
    e = {**os.environ, **env}
    if types:
        e.update(LD_PRELOAD=str(PRELOAD), WICK_TYPES=types, WICK_ROOT="0", WICK_EXPORT="none")
    elif preload:
        e["LD_PRELOAD"] = preload
    return subprocess.run([str(c) for c in cmd], env=e, capture_output=True, text=True, check=True).stdout


def interleaved(n, sides):
    """{name: [values]} with the order of the sides shuffled in each round."""
    out = {k: [] for k in sides}
    for _ in range(n):
        for k in random.sample(list(sides), len(sides)):
            out[k].append(sides[k]())
    return out


def ratio(base, other):
    """Median of paired ratios and the upper end of its 95 % bootstrap interval."""
    r = [b / a for a, b in zip(base, other)]
    boot = sorted(statistics.median(random.choices(r, k=len(r))) for _ in range(2000))
    return statistics.median(r), boot[int(0.975 * len(boot))]


def row(what, bar, got, peer="–"):
    rows.append((what, bar, got, peer))
    print(f"| {what} | {bar} | {got} | {peer} |", flush=True)


def pprof_total(path, index, unit):
    out = subprocess.run(["go", "tool", "pprof", "-top", f"-sample_index={index}", f"-unit={unit}", path], capture_output=True,
                         text=True).stdout
    m = re.search(r"of ([\d.]+)\w* total", out)
    return float(m.group(1)) if m else 0.0


def wick_run(types, out, *cmd, rate=100, extra=()):
    p = subprocess.run([BUILD / "src/cli/wick", "run", "-t", types, "-F", str(rate), *extra, "-o", out, "--", *map(str, cmd)],
                       capture_output=True, text=True)
    return p.stdout


def vmhwm(cmd, types=None):
    e = dict(os.environ)
    if types:
        e.update(LD_PRELOAD=str(PRELOAD), WICK_TYPES=types, WICK_ROOT="0", WICK_EXPORT="none")
    p = subprocess.Popen([str(c) for c in cmd], env=e, stdout=subprocess.DEVNULL)
    most = 0
    while p.poll() is None:  # not ru_maxrss: that begins with this process's own
        m = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{p.pid}/status").read_text() if Path(f"/proc/{p.pid}").exists() else "")
        most = max(most, int(m.group(1)) if m else 0)
        time.sleep(0.01)
    return most


def handler():
    exe = cc("bench/sdk_handler.c", f"-I{ROOT}/include", f"-L{LIB}", "-lwick", f"-Wl,-rpath,{LIB}", "-lunwind")
    if not exe:
        return row("handler, 36 frames", "≤ 2500 ns in all", "libunwind-dev is not installed")
    got = [list(map(float, run([exe]).split())) for _ in range(5)]
    signal, ours, cached, stepped, send, frames = (statistics.median(g[i] for g in got) for i in range(6))
    row(f"handler, {frames:.0f} frames: signal delivered and returned + walk and record", "≤ 2500 ns in all",
        f"{signal:.0f} + {ours:.0f} = {signal + ours:.0f} ns",
        f"libunwind: cached {cached:.0f} ns, stepping {stepped:.0f} ns, each + signal; not in it: the call that sends, {send:.0f} ns")


def slowdown(split):
    def wall(types=None, preload=None, **env):
        def f():
            start = time.perf_counter()
            run([fixed, 150], types, preload, **env)
            return time.perf_counter() - start
        return f

    fixed = cc("bench/sdk_fixed.c")
    sides = {"base": wall(), "wick": wall("cpu")}
    if Path("/usr/lib/x86_64-linux-gnu/libprofiler.so.0").exists():
        sides["gperftools"] = wall(preload="libprofiler.so.0", CPUPROFILE=str(tmp / "gp"))
    t = interleaved(PAIRS, sides)
    med, hi = ratio(t["base"], t["wick"])
    peer = "–"
    if "gperftools" in t:
        pm, ph = ratio(t["base"], t["gperftools"])
        peer = f"gperftools {pm:.4f} (to {ph:.4f})"
    row(f"paired slowdown at 100 Hz, {PAIRS} pairs: median (95 % to)", "≤ 1.01 upper end", f"{med:.4f} (to {hi:.4f})", peer)


def direct_cost():
    exe = cc("bench/sdk_direct.c", f"-I{ROOT}/include", f"-L{LIB}", "-lwick", f"-Wl,-rpath,{LIB}")
    share = statistics.median(float(run([exe]).split()[0]) for _ in range(3))
    row("direct cost at 100 Hz: (signals + handlers + background) / CPU", "≤ 0.1 %", f"{100 * share:.3f} %")


def clocks():
    """The clock that samples a thread, alone: an empty handler at 1000 Hz."""
    exe = cc("bench/sdk_clock.c")
    sides = {k: (lambda k=k: run([exe, k, 1000]).split()) for k in ("none", "timer", "perf")}
    try:
        t = interleaved(max(PAIRS // 6, 3), sides)
    except subprocess.CalledProcessError:
        return row("clock at 1000 Hz", "–", "perf_event_open is not allowed here")
    seconds = {k: [float(f[0]) for f in v] for k, v in t.items()}
    timer, perf = (statistics.median(b / a for a, b in zip(seconds["none"], seconds[k])) for k in ("timer", "perf"))
    row("clock at 1000 Hz, empty handler: slowdown, signals", "–", f"timer {timer:.4f}×, {t['timer'][-1][1]} signals for {t['timer'][-1][2]} periods",
        f"perf_event cpu-clock {perf:.4f}×, {t['perf'][-1][1]} signals")


def totals(split, short, mix):
    cpu = float(wick_run("cpu", tmp / "a.pb.gz", split, 2, 2, rate=1000).split()[1])
    got = pprof_total(tmp / "a.pb.gz", "cpu", "ms") / 1000
    row("total at 1000 Hz on this tick", "± 3 %", f"{100 * got / cpu:.1f} % of {cpu:.2f} s")
    cpu = float(wick_run("cpu", tmp / "b.pb.gz", short, 5000, 1).split()[1])
    got = pprof_total(tmp / "b.pb.gz", "cpu", "ms") / 1000
    row("total over 5,000 threads of 1 ms", "± 5 %", f"{100 * got / cpu:.1f} % of {cpu:.2f} s")
    f = list(map(float, wick_run("heap", tmp / "c.pb.gz", mix, 10000000, 200000).split()))
    parts = [f"{name} {100 * pprof_total(tmp / 'c.pb.gz', index, unit) / want:.1f} %" for name, index, unit, want in
             (("alloc bytes", "alloc_space", "B", f[1]), ("in-use bytes", "inuse_space", "B", f[3]))]
    row("10⁷ mixed allocations against exact counts", "within 3 %", ", ".join(parts))


def locks():
    exe = cc("tests/programs/lock_wait.c")
    want = float(wick_run("lock", tmp / "l.pb.gz", exe))
    row("lock waits against truth", "within 5 %", f"{100 * pprof_total(tmp / 'l.pb.gz', 'delay', 'ms') / 1000 / want:.1f} %")


def malloc():
    exe = cc("bench/sdk_malloc.c")
    jemalloc = "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2"
    for kind, n, bar in (("tight", 5000000, "≤ +3.5 ns"), ("mixed", 1000000, "≤ 1.10×"), ("live", 1000000, "≤ 1.12×")):
        def side(types=None, preload=None, **env):
            return lambda: float(run([exe, kind, n], types, preload, **env))
        sides = {"base": side(), "wick": side("heap")}
        if Path(jemalloc).exists() and kind != "live":
            sides["je"] = side(preload=jemalloc)
            sides["jeprof"] = side(preload=jemalloc, MALLOC_CONF="prof:true,lg_prof_sample:19")
        t = interleaved(max(PAIRS // 4, 5), sides)
        base, wick = statistics.median(t["base"]), statistics.median(t["wick"])
        peer = "–"
        if "je" in t:
            je, jp = statistics.median(t["je"]), statistics.median(t["jeprof"])
            peer = f"inside jemalloc {je:.1f} → {jp:.1f} ns"
        med, _ = ratio(t["base"], t["wick"])
        got = f"{base:.1f} → {wick:.1f} ns (+{min(t['wick']) - min(t['base']):.1f} min)" if kind == "tight" else f"{med:.3f}× ({base:.0f} → {wick:.0f} ns)"
        row(f"malloc/free with in-use, {kind}", bar, got, peer)


def memory(split, mix):
    base, cpu = (statistics.median(vmhwm([split, 1, 2], t) for _ in range(3)) for t in (None, "cpu"))
    row("added RSS: CPU", "≤ 3 MB", f"{(cpu - base) / 1024:.1f} MB")
    base, heap = (statistics.median(vmhwm([mix, 1000000, 20000], t) for _ in range(3)) for t in (None, "cpu,heap"))
    row("added RSS: with heap", "≤ 6 MB", f"{(heap - base) / 1024:.1f} MB")


def main():
    split, short, mix = (cc(f"tests/programs/{n}.c") for n in ("cpu_split", "short_threads", "alloc_mix"))
    print("| what | bar | libwick | peer |\n|---|---|---|---|")
    chosen = sys.argv[1:]
    for f, args in ((handler, ()), (direct_cost, ()), (slowdown, (split,)), (clocks, ()), (totals, (split, short, mix)), (locks, ()),
                    (malloc, ()), (memory, (split, mix))):
        if not chosen or f.__name__ in chosen:
            f(*args)


main()
