#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How long a drift query takes: 24 hours against the 24 hours before, of a service with five instances that sends a profile a minute each (200
stacks, 800 functions), through the HTTP API. Fails above 200 ms of CPU time of the server.

    bench/drift_query_bench.py [HOURS]"""
import json
import re
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from pathlib import Path

from alerts_bench import ROOT, make, metrics, post

HOURS = int(sys.argv[1]) if len(sys.argv) > 1 else 48
INSTANCES, TIMES, LIMIT_MS = 5, 9, 200
HOUR = 3600 * 10**9


def ask(url, selector, now, hours):
    q = urllib.parse.urlencode({"query": selector, "from": now - hours * HOUR, "to": now, "baseline_from": now - 2 * hours * HOUR,
                                "baseline_to": now - hours * HOUR})
    begin = time.monotonic()
    answer = json.load(urllib.request.urlopen(f"{url}/api/v1/drift?{q}", timeout=60))
    return (time.monotonic() - begin) * 1000, answer


def main():
    worst = 0
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o755)
        log = open(f"{place}/log", "w+")
        server = subprocess.Popen([ROOT / "build/src/cli/wick", "serve", "--no-agent", "--store", f"{place}/store", "--http", "127.0.0.1:0",
                                   "--otlp-grpc", "off", "--otlp-http", "127.0.0.1:0", "--set", f"auth.tokens={place}/tokens"],
                                  stdout=subprocess.PIPE, stderr=log, text=True)
        try:
            line = server.stdout.readline()
            assert "ready" in line, Path(log.name).read_text()
            url = line.split()[-1]
            otlp = "http://" + re.findall(r"OTLP/HTTP: listening on ([^\s\"]+)", Path(log.name).read_text())[-1]
            now = time.time_ns() - 60 * 10**9
            for hour in range(HOURS, 0, -1):
                for i in range(INSTANCES):
                    post(otlp, make(1, i, [now - (hour * 60 - m) * 60 * 10**9 for m in range(60)]))
            print("| drift of one service, 5 instances | median, ms | CPU of the server, ms | windows | functions |\n|---|---|---|---|---|")
            for hours in (1, 24):
                cpu = metrics(url)["process_cpu_seconds_total"]
                times = []
                for k in range(TIMES):  # another range each time: nothing is answered from a cache of results
                    took, answer = ask(url, 'cpu{service.name="service-1"}', now - k * 10**9, min(hours, HOURS // 2))
                    times.append(took)
                cpu = (metrics(url)["process_cpu_seconds_total"] - cpu) / TIMES * 1000
                worst = max(worst, cpu)
                print(f"| {hours} h against {hours} h | {sorted(times)[TIMES // 2]:.0f} | {cpu:.0f} | {answer['windows']} | {len(answer['drift'])} |", flush=True)
                assert answer["instances"] == INSTANCES
        finally:
            server.terminate()
            server.wait()
    return worst > LIMIT_MS


if __name__ == "__main__":
    sys.exit(main())
