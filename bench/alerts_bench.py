#!/usr/bin/env python3
"""CPU time of alert rules: 50 services with two instances and 800 functions each send a profile a minute; 26 hours of them are stored,
and new ones arrive while the rules run. 20 rules for each service (thresholds, drift, spikes) and one rule each for all services
(verdict, lost) are evaluated at the default interval without a budget, and the server's own counter of CPU time is read.
alerts_bench.py [MINUTES [HOURS [SERVICES]]]"""
import functools
import json
import random
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

from opentelemetry.proto.collector.profiles.v1development import profiles_service_pb2 as pb

ROOT = Path(__file__).resolve().parent.parent
ARGS = sys.argv[1:] if __name__ == "__main__" else []
MINUTES, HOURS, SERVICES = (int(x) for x in ARGS + ["5", "26", "50"][len(ARGS):])
STACKS, FUNCTIONS, DEPTH = 200, 800, 12


def dictionary(r, rng):
    """Stacks of named functions: a call tree that all profiles of a service share."""
    d, strings = r.dictionary, [""]
    d.mapping_table.add(), d.location_table.add(), d.function_table.add(), d.attribute_table.add(), d.stack_table.add(), d.link_table.add()
    strings += ["cpu", "nanoseconds"]
    for i in range(FUNCTIONS):
        strings.append(f"pkg{i % 40}.function_{i}")
        d.function_table.add(name_strindex=len(strings) - 1)
        d.location_table.add().lines.add(function_index=i + 1, line=i)
    for _ in range(STACKS):
        d.stack_table.add(location_indices=[rng.randrange(1, FUNCTIONS + 1) for _ in range(DEPTH - 1)] + [1])
    d.string_table.extend(strings)


@functools.cache
def hour(service, instance):
    """An hour of profiles, whose times are set for each use."""
    rng = random.Random(service * 2 + instance)
    r = pb.ExportProfilesServiceRequest()
    dictionary(r, random.Random(service))
    rp = r.resource_profiles.add()
    for k, v in (("service.name", f"service-{service}"), ("service.version", "1"), ("host.name", f"host-{instance}")):
        rp.resource.attributes.add(key=k).value.string_value = v
    scope = rp.scope_profiles.add()
    for _ in range(60):
        p = scope.profiles.add(duration_nano=60 * 10**9)
        p.sample_type.type_strindex, p.sample_type.unit_strindex = 1, 2
        for i in range(STACKS):
            p.samples.add(stack_index=i + 1, values=[rng.randrange(1, 2000) * 10**6 // (i + 1)])
    return r


def make(service, instance, times):
    r = hour(service, instance)
    profiles = r.resource_profiles[0].scope_profiles[0].profiles
    for p, t in zip(profiles, times):
        p.time_unix_nano = t
    if len(times) == len(profiles):
        return r.SerializeToString()
    some = pb.ExportProfilesServiceRequest()
    some.CopyFrom(r)
    del some.resource_profiles[0].scope_profiles[0].profiles[len(times):]
    return some.SerializeToString()


def post(url, body):
    q = urllib.request.Request(url + "/v1development/profiles", body, {"Content-Type": "application/x-protobuf"})
    assert urllib.request.urlopen(q, timeout=60).status == 200


def rules():
    out = [{"name": "verdicts", "type": "verdict"}, {"name": "silence", "type": "lost", "window": "3m"}]
    for s in range(SERVICES):
        selector = f'cpu{{service.name="service-{s}"}}'
        for k in range(14):
            out.append({"name": f"hot {s} {k}", "type": "threshold", "selector": selector, "function": f"pkg{k}\\..*", "over": f"{k + 1}%"})
        for k in range(4):
            out.append({"name": f"drift {s} {k}", "type": "drift", "selector": selector, "baseline": "1d", "function": f"pkg{k}.*"})
        for k in range(2):
            out.append({"name": f"spike {s} {k}", "type": "spike", "selector": selector, "factor": k + 2})
    return out[:1000] if SERVICES == 50 else out


def metrics(url):
    text = urllib.request.urlopen(url + "/metrics", timeout=60).read().decode()
    return {k: float(v) for k, v in re.findall(r"^(\w+) ([\d.e+-]+)$", text, re.M)}


def main():
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o755)
        config = Path(place) / "wick.yaml"
        config.write_text(json.dumps({"alerts": {"budget": 0, "rules": rules()}}))
        log = open(f"{place}/log", "w+")

        def start(*options):
            p = subprocess.Popen([ROOT / "build/src/cli/wick", "serve", "--no-agent", "--store", f"{place}/store", "--http", "127.0.0.1:0",
                                  "--otlp-grpc", "off", "--otlp-http", "127.0.0.1:0", "--set", f"auth.tokens={place}/tokens", *options],
                                 stdout=subprocess.PIPE, stderr=log, text=True)
            line = p.stdout.readline()
            assert "ready" in line, Path(log.name).read_text()
            return p, line.split()[-1], "http://" + re.findall(r"OTLP/HTTP: listening on ([^\s\"]+)", Path(log.name).read_text())[-1]

        server, url, otlp = start()
        now = time.time_ns()
        for hour in range(HOURS, 0, -1):
            for s in range(SERVICES):
                for i in range(2):
                    post(otlp, make(s, i, [now - (hour * 60 - m) * 60 * 10**9 for m in range(60)]))
        server.terminate()
        server.wait()
        server, url, otlp = start("--config", str(config))
        try:
            time.sleep(90)  # the first round fills caches
            before, begin = metrics(url), time.time()
            for _ in range(MINUTES):
                for s in range(SERVICES):
                    for i in range(2):
                        post(otlp, make(s, i, [time.time_ns() - 60 * 10**9]))
                time.sleep(max(0, 60 - (time.time() - begin) % 60))
            after, seconds = metrics(url), time.time() - begin
            whole = after["process_cpu_seconds_total"] - before["process_cpu_seconds_total"]
            used = after["wick_alert_cpu_seconds_total"] - before["wick_alert_cpu_seconds_total"]
            n = after["wick_alert_evaluations_total"] - before["wick_alert_evaluations_total"]
            listed = json.load(urllib.request.urlopen(url + "/api/v1/alerts", timeout=60))
            errors = {r["error"] for r in listed["rules"]} - {""}
            print(f"{len(rules())} rules over {SERVICES} services, {HOURS} h of profiles: {100 * used / seconds:.2f} % of a core, "
                  f"{1000 * used / n:.2f} ms CPU per query, {n / seconds:.2f} queries/s, lag {after['wick_alert_lag_seconds']:.2f} s, "
                  f"the whole server {100 * whole / seconds:.2f} %, {int(after['wick_alert_evaluation_failures_total'])} failed{' ' + str(errors) if errors else ''}")
        finally:
            server.terminate()
            server.wait()


if __name__ == "__main__":
    main()
