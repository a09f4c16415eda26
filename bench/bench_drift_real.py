#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Drift of real programs (docs/drift.md): services of five processes (drift_load.c) whose functions have known shares, sampled from
inside by libwick. In half of the services one function then grows from 10 to 12 percent.

    bench/bench_drift_real.py [SERVICES [BASE_SECONDS NOW_SECONDS [DUTY [RATE]]]]

What counts is the number of samples: a process that uses DUTY of a core is sampled at RATE per second of CPU time, so that
5 * DUTY * RATE * NOW_SECONDS samples stand for those of five busy cores at 19 Hz in ten minutes (57,000). Windows are a tenth of NOW."""
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WICK = os.environ.get("WICK", str(ROOT / "build/src/cli/wick"))
INSTANCES = 5


def main():
    numbers = [float(x) for x in sys.argv[1:]] + [None] * 5
    services, base, now = int(numbers[0] or 8), numbers[1] or 300, numbers[2] or 150
    duty, rate = numbers[3] or 0.05, int(numbers[4] or 500)
    processes = []
    with tempfile.TemporaryDirectory() as dir:
        load = f"{dir}/drift_load"
        subprocess.run(["cc", "-O2", "-g", "-fno-omit-frame-pointer", "-o", load, str(ROOT / "bench/drift_load.c"), "-lm"], check=True)
        env = {**os.environ, "WICK_EXPORT_INTERVAL_MS": "5000", "WICK_NO_AGENT": "1"}
        log = open(f"{dir}/log", "w+")
        port = 20000 + os.getpid() % 20000
        server = subprocess.Popen([WICK, "serve", "--set", "store.engine=memory", "--set", f"listen.http=127.0.0.1:{port}",
                                   "--set", f"listen.otlp_http=127.0.0.1:{port + 1}", "--set", "listen.otlp_grpc=off"],
                                  stderr=log, stdout=log, env=env)
        url = f"http://127.0.0.1:{port}"
        try:
            time.sleep(2)
            for s in range(services):
                for i in range(INSTANCES):
                    attributes = f"service.version=1,service.instance.id=s{s}-{i}"
                    processes.append((s, subprocess.Popen(
                        [WICK, "run", "-F", str(rate), "--service", f"s{s}", "--export", f"http://127.0.0.1:{port + 1}", "--", load,
                         str(duty), str(1000 * s + i)], env={**env, "OTEL_RESOURCE_ATTRIBUTES": attributes}, stdout=log, stderr=log)))
            time.sleep(15)
            t0 = time.time_ns()
            time.sleep(base)
            t1 = time.time_ns()
            for s, p in processes:
                if s % 2 == 0:
                    p.send_signal(signal.SIGUSR1)
            time.sleep(5)  # an export that has both is left out
            t2 = time.time_ns()
            time.sleep(now + 6)
            report(url, services, (t0, t1, t2, t2 + int(now * 1e9)))
        finally:
            for _, p in processes:
                p.kill()
            server.terminate()
            server.wait()


def ask(url, service, times):
    query = dict(zip(("baseline_from", "baseline_to", "from", "to"), times), query=f'cpu{{service.name="{service}"}}')
    with urllib.request.urlopen(f"{url}/api/v1/drift?{urllib.parse.urlencode(query)}", timeout=60) as r:
        return json.load(r)


def report(url, services, times):
    t0, t1, t2, t3 = times
    middle = t1 - (t3 - t2)
    print("| service | change of f0 | found | measured | minimum detectable points | other functions reported | before the change |")
    print("|---|---|---|---|---|---|---|")
    found = wrong = controls = 0
    for s in range(services):
        answer = ask(url, f"s{s}", (t0, t1, t2, t3))
        rows = {r["function"]: r for r in answer["drift"]}
        others = [f for f, r in rows.items() if r["significant"] and f != "f0"]
        quiet = [r["function"] for r in ask(url, f"s{s}", (t0, middle, middle, t1))["drift"] if r["significant"]]
        hit = rows["f0"]["significant"]
        changed = s % 2 == 0
        found += changed and hit
        wrong += (not changed and bool(others or hit)) + bool(quiet)
        controls += (not changed) + 1
        print(f"| {s} | {'10 to 12 %' if changed else 'none'} | {'yes' if hit else 'no'} | {100 * rows['f0']['before']:.1f} to "
              f"{100 * rows['f0']['now']:.1f} % | {answer['minimum_detectable_points']:.2f} | {len(others)} | {len(quiet)} |")
    print(f"\n{found} of {(services + 1) // 2} changes found; {wrong} of {controls} comparisons without a change reported one")


main()
