#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Drift of real programs (docs/drift.md): services of five processes (drift_load.c) whose functions have known shares, sampled by the
host's agent and sent to a server with the default store. In phases of one length; from a phase to the next, one function of half of the
services grows from 10 to 12 percent, or shrinks back. Each phase is compared with the one before.

    bench/bench_drift_real.py [PHASES [SECONDS]]

Time is compressed: five busy cores are sampled 57,000 times in ten minutes at 19 Hz. Here the processes share the CPUs of this machine,
which are sampled at RATE; SECONDS is what four services need on two CPUs for as many samples each. The costs of functions change every
second instead of every ten."""
import json
import os
import re
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
SERVICES, INSTANCES, RATE, SAMPLES = 4, 5, 1999, 57000
PHASES = int(sys.argv[1]) if len(sys.argv) > 1 else 6
SECONDS = float(sys.argv[2]) if len(sys.argv) > 2 else SAMPLES * SERVICES / RATE / os.cpu_count()
CHANGE_S = 3  # between two phases: profiles of both are left out


def is_changed(service, phase):
    """True when the service changes at the beginning of this phase."""
    return phase > 0 and (phase + service) % 2 == 0


def start_server(dir):
    log = open(f"{dir}/log", "w+")
    server = subprocess.Popen([WICK, "serve", "--store", f"{dir}/store", "--http", "127.0.0.1:0", "--otlp-http", "127.0.0.1:0", "--otlp-grpc", "off"],
                              stdout=log, stderr=log, env={**os.environ, "WICK_NO_AGENT": "1"})
    end = time.time() + 30
    while time.time() < end:
        text = Path(f"{dir}/log").read_text()
        page, otlp = re.search(r"http://(127.0.0.1:\d+)/?\s", text), re.search(r"OTLP/HTTP: listening on (127.0.0.1:\d+)", text)
        if page and otlp:
            return server, f"http://{page[1]}", f"http://{otlp[1]}"
        time.sleep(0.1)
    sys.exit("bench_drift_real: the server did not start:\n" + text)


def start_services(load):
    programs = []
    for s in range(SERVICES):
        for i in range(INSTANCES):
            env = {**os.environ, "OTEL_SERVICE_NAME": f"s{s}", "OTEL_RESOURCE_ATTRIBUTES": f"service.version=1,service.instance.id=s{s}-{i}"}
            programs.append((s, subprocess.Popen([load, str(1000 * s + i)], env=env)))
    return programs


def run_phases(programs):
    """The times of each phase."""
    times, worse = [], [False] * SERVICES
    for phase in range(PHASES):
        for s in range(SERVICES):
            if is_changed(s, phase):
                worse[s] = not worse[s]
                for p in (p for owner, p in programs if owner == s):
                    p.send_signal(signal.SIGUSR1 if worse[s] else signal.SIGUSR2)
        time.sleep(CHANGE_S)
        start = time.time_ns()
        time.sleep(SECONDS)
        times.append((start, time.time_ns(), list(worse)))
        print(f"phase {phase + 1} of {PHASES}", file=sys.stderr)
    time.sleep(CHANGE_S)
    return times


def ask(url, service, before, now):
    query = {"baseline_from": before[0], "baseline_to": before[1], "from": now[0], "to": now[1], "query": f'cpu{{service.name="{service}"}}'}
    with urllib.request.urlopen(f"{url}/api/v1/drift?{urllib.parse.urlencode(query)}", timeout=60) as r:
        return json.load(r)


def report(url, times):
    print("| phase | service | f0 | found | measured | minimum detectable points | windows | other functions reported |\n|---|---|---|---|---|---|---|---|")
    changes = found = controls = wrong = others = 0
    for phase in range(1, PHASES):
        for s in range(SERVICES):
            answer = ask(url, f"s{s}", times[phase - 1], times[phase])
            rows = {r["function"]: r for r in answer["drift"]}
            more = sum(r["significant"] for f, r in rows.items() if f != "f0")
            hit = rows["f0"]["significant"]
            changed = is_changed(s, phase)
            changes, found = changes + changed, found + (changed and hit)
            controls, wrong, others = controls + (not changed), wrong + (not changed and hit), others + more
            truth = ("10 to 12 %" if times[phase][2][s] else "12 to 10 %") if changed else "unchanged"
            print(f"| {phase + 1} | s{s} | {truth} | {'yes' if hit else 'no'} | {100 * rows['f0']['before']:.1f} to {100 * rows['f0']['now']:.1f} % | "
                  f"{answer['minimum_detectable_points']:.2f} | {answer['windows']} | {more} |")
    print(f"\n{found} of {changes} changes found; f0 reported in {wrong} of {controls} comparisons without a change, other functions {others} times")


def main():
    with tempfile.TemporaryDirectory() as dir:
        load = f"{dir}/drift_load"
        subprocess.run(["cc", "-O2", "-g", "-o", load, str(ROOT / "bench/drift_load.c"), "-lm"], check=True)
        server, url, otlp = start_server(dir)
        agent = subprocess.Popen([WICK, "agent", "--export", otlp, "-F", str(RATE), "--budget", "0", "--interval", "1s", "--include", "exe=drift_load"],
                                 stderr=subprocess.DEVNULL)
        programs = start_services(load)
        try:
            time.sleep(10)
            report(url, run_phases(programs))
        finally:
            for p in [p for _, p in programs] + [agent, server]:
                p.terminate()
            for p in [p for _, p in programs] + [agent, server]:
                p.wait()


main()
