#!/usr/bin/env python3
"""CPU time of a fixed amount of work in Go (go/internal/cmd/overhead): without a profile, with Go's own CPU profile, and with
profiling.NewProvider (CPU and memory, default interval of 10 s) that sends to a real server. Each round runs all three in random
order; the ratios are those of one round. go_bench.py [ROUNDS [WORK]]"""
import random
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ROUNDS, WORK = int(sys.argv[1]) if len(sys.argv) > 1 else 12, int(sys.argv[2]) if len(sys.argv) > 2 else 60000


def interval(ratios):
    """Mean and 95 % interval of the mean, by bootstrap."""
    rng = random.Random(1)
    means = sorted(statistics.fmean(rng.choices(ratios, k=len(ratios))) for _ in range(4000))
    return statistics.median(ratios), means[100], means[3899]


def main():
    with tempfile.TemporaryDirectory() as place:
        program = f"{place}/overhead"
        subprocess.run(["go", "build", "-o", program, "./internal/cmd/overhead"], cwd=ROOT / "go", check=True)
        log = open(f"{place}/log", "w+")
        server = subprocess.Popen([ROOT / "build/src/cli/wick", "serve", "--no-agent", "--store", "memory", "--http", "127.0.0.1:0",
                                   "--otlp-grpc", "127.0.0.1:0", "--otlp-http", "off"], stdout=subprocess.PIPE, stderr=log, text=True)
        try:
            assert "ready" in server.stdout.readline()
            endpoint = re.search(r"OTLP/gRPC: listening on ([^\s\"]+)", Path(log.name).read_text()).group(1)
            seen = {"none": [], "go": [], "wick": []}
            memory, exports = {m: [] for m in seen}, []
            for _ in range(ROUNDS):
                for mode in random.sample(list(seen), 3):
                    p = subprocess.run([program, "-mode", mode, "-endpoint", endpoint, "-rounds", str(WORK), "-interval", "10s"],
                                       capture_output=True, text=True, check=True)
                    cpu, rss, direct, _ = p.stdout.split()
                    seen[mode].append(int(cpu))
                    memory[mode].append(int(rss))
                    if mode == "wick":
                        exports.append(int(direct))
        finally:
            server.terminate()
            server.wait()
    print(f"\nGo module, {ROUNDS} rounds of {statistics.median(seen['none']) / 1e9:.1f} s of CPU time on 2 goroutines\n")
    print("| | CPU time, ratio: median (95 % of the mean) | memory of the Go runtime |\n|---|---|---|")
    for name, a, b in (("Go's CPU profile / none", "go", "none"), ("wick / Go's CPU profile", "wick", "go"), ("wick / none", "wick", "none")):
        ratio = interval([x / y for x, y in zip(seen[a], seen[b])])
        print(f"| {name} | {ratio[0]:.4f} ({ratio[1]:.4f} to {ratio[2]:.4f}) | "
              f"{(statistics.median(memory[a]) - statistics.median(memory[b])) / 1e6:+.1f} MB |")
    cost = statistics.median(exports)
    print(f"\nOne export, counted directly: {cost / 1e6:.2f} ms of CPU time, {cost / 1e10:.3%} of one core at the default interval of 10 s")


main()
