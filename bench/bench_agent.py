# SPDX-License-Identifier: Apache-2.0
"""See bench_agent.sh; [--quick] [bpf|steady|short|memory|offcpu|slowdown ...]. Both sides of a comparison run in turns, in this run; needs the right to load BPF programs."""
import http.server
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WICK = os.environ.get("WICK", str(ROOT / "build/src/cli/wick"))
CPUS = os.cpu_count()
QUICK = "--quick" in sys.argv
work = Path(tempfile.mkdtemp(prefix="bench_agent."))


def build(name, *flags):
    exe = work / name
    subprocess.run(["gcc", "-O2", "-fomit-frame-pointer", *flags, "-o", exe, ROOT / "tests/programs" / (name + ".c")], check=True)
    return exe


def row(what, value, bar):
    print(f"| {what} | {value} | {bar} |", flush=True)


def record(*args):
    stats = work / "s.json"
    p = subprocess.run([WICK, "record", "-q", "--stats", stats, "-o", work / "o.folded", *map(str, args)], capture_output=True, text=True)
    if p.returncode:
        sys.exit("bench_agent: " + p.stderr)
    return json.loads(stats.read_text()), p.stdout


def bpf_time(chain):
    per = {}
    for depth in (24, 524):
        s, _ = record("-F", 999, "--", chain, depth, 2 if QUICK else 6)
        per[depth] = (s["bpf_ns"] / s["bpf_runs"], s["bpf_frames"] / s["bpf_runs"])
    (ns, frames), (deep_ns, deep_frames) = per[24], per[524]
    each = (deep_ns - ns) / (deep_frames - frames)
    row(f"BPF time a sample, {frames:.0f} frames", f"{ns / 1000:.1f} µs", "≤ 9 µs at 30")
    row("BPF time for each further frame", f"{each / 1000:.3f} µs", "≤ 0.15 µs")


class Sink(http.server.BaseHTTPRequestHandler):
    size = 0

    def do_POST(self):
        n = int(self.headers["Content-Length"])
        self.rfile.read(n)
        Sink.size += n
        self.send_response(200)
        self.send_header("Content-Type", "application/x-protobuf")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


def serve():
    s = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Sink)
    threading.Thread(target=s.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{s.server_port}/v1development/profiles"


class Agent:
    def __init__(self, url, rate=99, *more):
        self.stats = work / "agent.json"
        self.stats.unlink(missing_ok=True)
        self.p = subprocess.Popen([WICK, "agent", "--export", url, "-F", str(rate), *(() if "--budget" in more else ("--budget", "0")),
                                   "--stats", self.stats, *more], stderr=subprocess.DEVNULL)
        self.peak = 0

    def read(self):
        for line in Path(f"/proc/{self.p.pid}/status").read_text().splitlines():
            if line.startswith("RssAnon"):
                self.peak = max(self.peak, int(line.split()[1]) * 1024)
        while True:
            try:
                return json.loads(self.stats.read_text())
            except ValueError:  # it is being written
                time.sleep(0.05)

    def settle(self, seconds):
        end = time.time() + seconds
        while time.time() < end:
            time.sleep(0.2)
            if self.stats.exists():
                self.read()
        return self.read()

    def stop(self):
        self.p.terminate()
        self.p.wait()


def steady_cost(chain, url):
    """Two programs fill the machine; the agent has settled."""
    burners = [subprocess.Popen([chain, str(30), "1000"], stdout=subprocess.DEVNULL) for _ in range(CPUS)]
    agent = Agent(url)
    try:
        first = agent.settle(21)
        before = Sink.size
        last = agent.settle(10 if QUICK else 20)
    finally:
        for b in burners:
            b.kill()
        agent.stop()
    d = {k: last[k] - first[k] for k in last}
    cost = (d["bpf_ns"] + d["own_cpu_ns"]) / d["elapsed_ns"] / CPUS
    row("direct cost at 99 Hz, steady, of the machine's CPU", f"{100 * cost:.2f} %", "≤ 0.5 %")
    row("… of it in BPF", f"{100 * d['bpf_ns'] / d['elapsed_ns'] / CPUS:.2f} %", "")
    row("bytes an event, steady, gzip", f"{(Sink.size - before) / max(d['samples'], 1):.1f}", "≤ 20")
    row("lost of " + str(d["samples"]) + " samples", d["lost"], "0")
    start = (first["bpf_ns"] + first["own_cpu_ns"]) / 1e9
    rest = cost * CPUS * 600
    row("first 10 minutes, from its start and the steady cost", f"{100 * (start + rest) / 600 / CPUS:.2f} %", "≤ 1 %")


SPAWN = """
import os, subprocess, sys, time
rate, seconds, exe = float(sys.argv[1]), float(sys.argv[2]), sys.argv[3]
begin, n, running = time.monotonic(), 0, []
while time.monotonic() < begin + seconds:
    running = [p for p in running if p.poll() is None]
    if n < (time.monotonic() - begin) * rate and len(running) < 64:
        running.append(subprocess.Popen([exe, "8", "0.02"], stdout=subprocess.DEVNULL))
        n += 1
    else:
        time.sleep(0.002)
for p in running:
    p.wait()
print(n)
"""


def short_cost(chain, url, rate, budget, *more):
    """Short processes of 20 ms of CPU time each: what the agent costs, over a minute, from its start on and later."""
    worst, seconds = 0, 60 if not QUICK else 15
    agent = Agent(url, 99, "--budget", str(budget), *more)
    load = subprocess.Popen([sys.executable, "-c", SPAWN, str(rate), str(2 * seconds + 5), chain], stdout=subprocess.PIPE, text=True)
    costs, lowest = [(0, 0)], 99
    try:
        begin = time.time()
        while time.time() < begin + 2 * seconds:
            time.sleep(1)
            if agent.stats.exists() and agent.stats.stat().st_size:
                s = agent.read()
                costs.append((s["elapsed_ns"], s["bpf_ns"] + s["own_cpu_ns"]))
                lowest = min(lowest, s.get("rate", 99))
    finally:
        agent.stop()
        load.wait()
    for at, spent in costs:
        before = max((c for c in costs if c[0] <= at - seconds * 1e9), default=costs[0])
        worst = max(worst, (spent - before[1]) / (seconds * 1e9) / CPUS)
    middle = min(costs, key=lambda c: abs(c[0] - seconds * 1e9))
    later = (costs[-1][1] - middle[1]) / (costs[-1][0] - middle[0]) / CPUS
    return worst, later, lowest


def short(chain, url):
    _, without, _ = short_cost(chain, url, 0, 0)
    _, later, _ = short_cost(chain, url, 20, 0)
    row("beside 20 short processes a second at 99 Hz, of the machine's CPU", f"{100 * later:.2f} %", "≤ 0.35 %")
    row("… without them, on the machine as it is", f"{100 * without:.2f} %", "")
    row("… each of them", f"{1000 * (later - without) * CPUS / 20:.2f} ms", "")
    _, often, _ = short_cost(chain, url, 20, 0, "--interval", "1s")
    row("… exporting every second instead of every 10", f"{100 * often:.2f} %", "")
    worst, later, lowest = short_cost(chain, url, 200, 1, "--interval", "1s")
    row("beside 200 a second with --budget 1: the worst minute, the first one included", f"{100 * worst:.2f} %", "≤ 1 %")
    row("… the lowest rate", f"{lowest} Hz", "≥ 10 Hz")


BURN_JAVA = "public class Burn { public static void main(String[] a) { double x = 0; while (true) x += Math.sin(x + 1); } }"


def memory(url):
    """With node, libLLVM and libjvm at work."""
    (work / "Burn.java").write_text(BURN_JAVA)
    programs = [["node", "-e", "let x=0;while(1)x+=Math.sqrt(x+1)%3"], ["java", str(work / "Burn.java")],
                ["sh", "-c", "while true; do clang -O2 -x c++ -c -o /dev/null - <<E\n#include <map>\n#include <string>\n"
                 "std::map<std::string,int> m; int main(){return m[\"x\"];}\nE\ndone"]]
    running = [subprocess.Popen(p, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
               for p in programs if shutil.which(p[0])]
    agent = Agent(url)
    before = Sink.size
    try:
        s = agent.settle(20 if QUICK else 30)
    finally:
        for p in running:
            os.killpg(p.pid, 9)
        agent.stop()
    row("RssAnon, peak, with node, libLLVM and libjvm", f"{agent.peak / 2**20:.1f} MB", "≤ 30 MB")
    row("kernel maps then", f"{s['map_bytes'] / 2**20:.1f} MB", "≤ 20 MB")
    row("bytes an event, mixed with names, gzip", f"{(Sink.size - before) / max(s['samples'], 1):.1f}", "≤ 100")


def fixed_time(fixed):
    """How long it took, the mean over CPUs."""
    begin = time.time()
    running, total = [subprocess.Popen([fixed], stdout=subprocess.DEVNULL) for _ in range(CPUS)], 0
    left = {p.pid for p in running}
    while left:
        info = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
        total += time.time() - begin
        next(p for p in running if p.pid == info.si_pid).wait()
        left.remove(info.si_pid)
    return total / CPUS


FIXED = """#include <stdint.h>
volatile uint64_t s;
__attribute__((noinline)) uint64_t f(int d) { uint64_t r = d ? f(d - 1) : 0; if (!d) for (int i = 0; i < 200000; i++) r = r * 31 + i; s += r; return r; }
int main(void) { for (int i = 0; i < 4000; i++) f(30); }
"""


def slowdown(url):
    """A fixed amount of work on every CPU, in blocks without and with the agent."""
    (work / "fixed.c").write_text(FIXED)
    fixed = work / "fixed"
    subprocess.run(["gcc", "-O2", "-o", fixed, work / "fixed.c"], check=True)
    ratios = []
    for _ in range(3 if QUICK else 20):
        off = [fixed_time(fixed) for _ in range(2)]
        agent = Agent(url)
        time.sleep(2)  # started: what that costs is told above
        on = [fixed_time(fixed) for _ in range(3)]
        agent.stop()
        off.append(fixed_time(fixed))
        ratios.append(sum(on) / sum(off))
    boot = sorted(statistics.median(random.choices(ratios, k=len(ratios))) for _ in range(2000))
    row(f"slowdown of a full machine at 99 Hz, median of {len(ratios)} pairs (95 %)",
        f"{100 * (statistics.median(ratios) - 1):+.2f} % [{100 * (boot[50] - 1):+.2f}, {100 * (boot[1949] - 1):+.2f}]", "upper ≤ +1.5 %")


SWITCH = """#include <unistd.h>
int main(void) { int a[2], b[2]; char c = 0; if (pipe(a) || pipe(b)) return 1;
if (fork() == 0) { close(a[1]); close(b[0]); while (read(a[0], &c, 1) == 1 && write(b[1], &c, 1) == 1); return 0; }
close(a[0]); close(b[1]);
for (int i = 0; i < 400000; i++) { if (write(a[1], &c, 1) != 1 || read(b[0], &c, 1) != 1) return 1; } return 0; }
"""


def off_cpu(waits):
    s, out = record("-t", "offcpu", "--", waits, 300 if QUICK else 1500)
    total = sum(int(x.rsplit(" ", 1)[1]) for x in (work / "o.folded").read_text().splitlines()) / 1e9
    row("off-CPU: waits summed, of what the program measured", f"{100 * total / float(out):.1f} %", "within 5 %")
    (work / "switch.c").write_text(SWITCH)
    subprocess.run(["gcc", "-O2", "-o", work / "switch", work / "switch.c"], check=True)
    sysctl = Path("/proc/sys/kernel/bpf_stats_enabled")
    try:
        sysctl.write_text("1\n")
    except OSError:
        row("off-CPU: an unsampled switch", "not measured: bpf_stats_enabled cannot be set", "≤ 100 ns")
        return
    p = subprocess.Popen([WICK, "record", "-q", "-t", "offcpu", "--threshold", "10ms", "--stats", work / "w.json", "-o", work / "w.folded",
                          "--", work / "switch"], stderr=subprocess.DEVNULL)
    seen = {}
    while p.poll() is None:
        time.sleep(0.2)
        for x in json.loads(subprocess.run(["bpftool", "-j", "prog", "show"], capture_output=True, text=True).stdout or "[]"):
            if x.get("name") == "on_switch":
                seen = x
    sysctl.write_text("0\n")
    s = json.loads((work / "w.json").read_text())
    unsampled = seen["run_cnt"] - s["switch_samples"]
    row("off-CPU: a switch of which nothing is kept", f"{max(seen['run_time_ns'] - s['switch_ns'], 0) / max(unsampled, 1):.0f} ns", "≤ 100 ns")
    row("off-CPU: switches a second then", f"{s['switches'] / s['elapsed_ns'] * 1e9:,.0f}", "")
    off_cpu_total()


def off_cpu_total():
    """The agent with its budget of 1 %, beside 100,000 switches a second."""
    (work / "paced.c").write_text(SWITCH.replace("for (int i = 0; i < 400000; i++) {", "for (;;) { for (volatile int k = 0; k < PACE; k++);"))
    rate, pace = 0, 0
    for _ in range(8):  # how much work between two switches makes 100,000 a second
        subprocess.run(["gcc", "-O2", f"-DPACE={pace}", "-o", work / "paced", work / "paced.c"], check=True)
        p = subprocess.Popen([work / "paced"])
        time.sleep(0.2)
        before, begin = switches(), time.time()
        time.sleep(0.5)
        rate = (switches() - before) / (time.time() - begin)
        p.kill()
        p.wait()
        if abs(rate / 100000 - 1) < 0.05:
            break
        pace = max(0, int(pace + (1e5 / 1e5 - 1e5 / max(rate, 1)) * 10000))
    p = subprocess.Popen([work / "paced"])
    stats = work / "waits.json"
    agent = subprocess.Popen([WICK, "agent", "--export", "http://127.0.0.1:1", "-t", "offcpu", "--interval", "2s", "--stats", stats],
                             stderr=subprocess.DEVNULL)
    time.sleep(9)
    first = json.loads(stats.read_text())
    time.sleep(6)
    last = json.loads(stats.read_text())
    agent.terminate()
    p.kill()
    d = {k: last[k] - first[k] for k in first}
    row(f"off-CPU: all of the agent at {d['switches'] / d['elapsed_ns'] * 1e9:,.0f} switches a second, of the machine's CPU",
        f"{100 * (d['bpf_ns'] + d['own_cpu_ns']) / d['elapsed_ns'] / CPUS:.2f} %", "within its budget of 1 %")
    row("… one wait in so many looked at", f"{d['switches'] / max(d['switch_samples'], 1):.0f}", "")


def switches():
    return int(next(x for x in Path("/proc/stat").read_text().splitlines() if x.startswith("ctxt")).split()[1])


def main():
    chain, waits = build("chain"), build("waits")
    probe = subprocess.run([WICK, "record", "-a", "-q", "-d", "0.2s", "-o", work / "p.folded"], capture_output=True, text=True)
    if probe.returncode and "no sample" not in probe.stderr:
        print("skipped: " + probe.stderr.strip())
        return
    print("| host agent | measured | bar |\n|---|---|---|")
    url = serve()
    parts = {"bpf": lambda: bpf_time(chain), "steady": lambda: steady_cost(chain, url), "short": lambda: short(chain, url), "memory": lambda: memory(url),
             "offcpu": lambda: off_cpu(waits), "slowdown": lambda: slowdown(url)}
    chosen = [a for a in sys.argv[1:] if a in parts]
    for name in chosen or parts:
        parts[name]()


try:
    main()
finally:
    shutil.rmtree(work, ignore_errors=True)
