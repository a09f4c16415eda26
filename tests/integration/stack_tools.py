# SPDX-License-Identifier: Apache-2.0
"""What the tests of whole stacks share: a server whose agent samples the host and which scrapes, a stack under load, and the checks
of what was counted against /proc, the program's own account, and other profilers."""
import http.client
import json
import os
import signal
import subprocess
import threading
import time
import urllib.parse
from pathlib import Path

import pytest
from agent_tools import is_sampling
from go_tools import pprof_command
from wick_tools import ROOT, WICK, Server, cpu_seconds, descendants, family, profiles_service, some, wait_for

STACKS = ROOT / "tests/stacks"
SECONDS = int(os.environ.get("WICK_STACK_SECONDS", "70"))
PACE = float(os.environ.get("WICK_STACK_PACE", "0.03"))
PARTS = ("price", "tax", "render")
LEAST_HZ, CPU_BAR, SHARE_BAR, WAIT_BAR = 19, 0.02, 0.03, 0.05


class Load:
    """Four connections that ask for an order about every 40 ms, and the sum of the answers."""

    def __init__(self, port, path="/order"):
        self.port, self.path, self.sum, self.pids, self.n, self.lock = port, path, {}, set(), 0, threading.Lock()
        self.ended = threading.Event()
        self.threads = [threading.Thread(target=self.ask) for _ in range(4)]
        for t in self.threads:
            t.start()

    def ask(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        while not self.ended.is_set():
            try:
                connection.request("GET", self.path)
                answer = json.loads(connection.getresponse().read())
            except (OSError, http.client.HTTPException):  # a server may close a connection that it kept
                connection.close()
                continue
            with self.lock:
                self.pids.add(answer.pop("pid"))
                self.n += 1
                for k, v in answer.items():
                    self.sum[k] = self.sum.get(k, 0) + v
            self.ended.wait(PACE)
        connection.close()

    def stop(self):
        self.ended.set()
        for t in self.threads:
            t.join()


class Meter(threading.Thread):
    """Once a second: CPU seconds of the agent, and of the profiler's threads in the stack."""

    def __init__(self, server, root):
        super().__init__(daemon=True)
        self.server, self.root, self.ended = server, root, threading.Event()
        self.agent, self.inside = [], {}
        self.start()

    def run(self):
        while not self.ended.wait(1):
            self.agent.append(sum(cpu_seconds(p) for p in descendants(self.server)))
            for pid in family(self.root):
                for task in Path(f"/proc/{pid}/task").glob("*"):
                    try:
                        if task.joinpath("comm").read_text().startswith("wick"):
                            self.inside[task] = cpu_of(task)
                    except OSError:
                        pass

    def worst_minute(self):
        """The largest share of the machine that the agent had over 60 s, or over all of it if it is shorter."""
        n = min(60, len(self.agent) - 1)
        return max(b - a for a, b in zip(self.agent, some(self.agent[n:]))) / n / os.cpu_count()


def cpu_of(task):
    fields = task.joinpath("stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Seen:
    """What was seen of a stack that has ended. truth: its own account (ns); cpu: what the kernel counted for it, children included."""

    def __init__(self, service, server, truth, pids, cpu, others, meter, requests):
        self.service, self.server, self.truth, self.pids, self.cpu = service, server, truth, pids, cpu
        self.others, self.meter, self.requests = others, meter, requests
        self.cpu_bar, self.share_bar = CPU_BAR, SHARE_BAR

    def ask(self, what, kind="cpu", **more):
        selector = "%s{service.name=\"%s\"}" % (kind, self.service)
        return self.server.json(f"/api/v1/{what}?" + urllib.parse.urlencode({"query": selector, "from": "now-30m", **more}))

    def top(self, kind="cpu"):
        answer = self.ask("top", kind, limit=2000)
        rows = {}
        for r in answer["rows"]:
            name = last_part(r["name"])
            rows[name] = max(rows.get(name, 0), r["total"])
        return answer["total"], rows


def last_part(name):
    """price of main.price, axum_stack::price and price(long)."""
    return name.split("(")[0].split("::")[-1].split(".")[-1]


def shares(values):
    total = sum(values.get(p, 0) for p in PARTS)
    return {p: values.get(p, 0) / total for p in PARTS} if total else {}


# --- other profilers, while the load lasts ---

def by_py_spy(pid, seconds, place):
    out = place / "py-spy.txt"
    command = ["record", "-p", str(pid), "--subprocesses", "--gil", "-r", "100", "-d", str(seconds), "-f", "raw", "-o", out]
    subprocess.run([ROOT / "build/venv/bin/py-spy", *command], check=True, capture_output=True, timeout=seconds + 120)
    found = {}
    for line in out.read_text().splitlines():
        stack, n = line.rsplit(" ", 1)
        for p in PARTS:
            if f"{p} (" in stack:
                found[p] = found.get(p, 0) + int(n)
    return found


def by_go_pprof(port, seconds, place):
    url = f"http://127.0.0.1:{port}/debug/pprof/profile?seconds={seconds}"
    text = subprocess.run([*pprof_command(), "-top", "-nodecount=2000", "-nodefraction=0", "-unit=ms", url], check=True, text=True,
                          capture_output=True, timeout=seconds + 120, env={**os.environ, "PPROF_TMPDIR": str(place)}).stdout
    found = {}
    for line in text.splitlines():
        words = line.split()
        if len(words) >= 6 and words[0].endswith("ms") and last_part(words[5]) in PARTS:
            found[last_part(words[5])] = float(words[3].removesuffix("ms"))
    return found


def by_perf(pid, seconds, place):
    out = place / "perf.data"
    subprocess.run(["perf", "record", "-q", "-e", "cpu-clock", "-F", "199", "-p", str(pid), "-o", out, "--", "sleep", str(seconds)],
                   check=True, capture_output=True, timeout=seconds + 120)
    text = subprocess.run(["perf", "script", "-i", out, "-F", "ip,sym"], capture_output=True, text=True, timeout=120).stdout
    names = [last_part(line.split(None, 1)[1]) for line in text.splitlines() if len(line.split()) > 1]
    return {p: names.count(p) for p in PARTS}


# --- running ---

def serve(tmp_path, monkeypatch, *options):
    monkeypatch.delenv("WICK_NO_AGENT", raising=False)
    server = Server(tmp_path, *options)
    wait_for(lambda: any(is_sampling(p) for p in descendants(server.p.pid)), why="the agent samples")
    return server


def run_stack(tmp_path, server, service, command, port=0, other=None, seconds=SECONDS, **env):
    """Runs a stack for so long, with load if it listens at a port, and with another profiler beside it in the middle."""
    environ = {**os.environ, "OTEL_SERVICE_NAME": service, "STACK_GRPC": f"http://{server.grpc}", "STACK_HTTP": server.http, **env}
    with open(tmp_path / "out", "w+") as out, open(tmp_path / "err", "w+") as err:
        p = subprocess.Popen([str(x) for x in command], stdout=out, stderr=err, env=environ, cwd=STACKS)
        meter = Meter(server.p.pid, p.pid)
        try:
            if port:
                wait_for(lambda: answers(port) or p.poll() is not None, 120, "it listens")
                assert p.poll() is None, (tmp_path / "err").read_text()
                load = Load(port)
            began = time.monotonic()
            time.sleep(seconds / 4)
            others = other(p.pid, max(seconds / 3, 5)) if other else {}
            if port:
                time.sleep(max(began + seconds - time.monotonic(), 0))
                load.stop()
                truth, pids, requests = load.sum, load.pids, load.n
                time.sleep(1)
                p.send_signal(signal.SIGTERM)
            _, status, usage = os.wait4(p.pid, 0)
            p.returncode = os.waitstatus_to_exitcode(status)
        finally:
            meter.ended.set()
            if p.returncode is None:
                p.kill()
                p.wait()
        out.seek(0)
        if not port:
            assert p.returncode == 0, (tmp_path / "err").read_text()
            truth, requests = json.loads(out.read().splitlines()[-1]), 0
            pids = {truth.pop("pid")}
    seen = Seen(service, server, truth, pids, usage.ru_utime + usage.ru_stime, others, meter, requests)
    settle(seen)
    return seen


def answers(port):
    try:
        http.client.HTTPConnection("127.0.0.1", port, timeout=5).connect()
        return True
    except OSError:
        return False


def settle(seen):
    """Until nothing arrives any more: the agent's batches come every 5 s."""
    last, since = None, time.monotonic()
    while time.monotonic() - since < 12:
        now = [seen.ask("top", kind)["total"] for kind in ("cpu", "wall", "lock")]
        if now != last:
            last, since = now, time.monotonic()
        time.sleep(1)


# --- checks: each returns a line about what is wrong, or None ---

def cpu_is_that_of_the_kernel(seen):
    total = seen.top()[0] / 1e9
    if abs(total - seen.cpu) > seen.cpu_bar * seen.cpu + 0.1 * len(seen.pids):  # the agent, until the program sends: a few periods of each
        return f"CPU: {total:.2f} s, the kernel counted {seen.cpu:.2f} s ({total / seen.cpu - 1:+.1%})"


def shares_are_those_of(who, values, samples=None):
    """Within 3 points beyond what is chance: twice the deviation of a share of 60 %, of 100 samples a second, and of theirs."""
    def check(seen):
        mine, theirs = shares(seen.top()[1]), shares(values(seen))
        worst = max((abs(mine.get(p, 0) - theirs.get(p, 0)) for p in PARTS), default=1)
        chance = 2 * (0.24 / (100 * seen.cpu) + (0.24 / max(samples(seen), 1) if samples else 0)) ** 0.5
        if not mine or not theirs or worst > seen.share_bar + chance:
            return f"shares: {who}: {theirs}, here: {mine}"
    return check


def waits_are_right(kind, function, key):
    """In the row of a function: between how long the program had to wait and when it went on. In between it waited for a CPU or the
    interpreter, which a profiler counts or not; on an idle machine that is nothing."""
    def check(seen):
        mine, most = seen.top(kind)[1].get(function, 0) / 1e9, seen.truth[key] / 1e9
        least = seen.truth.get(key + "_least", seen.truth[key]) / 1e9
        if most > 1 and not least * (1 - WAIT_BAR) <= mine <= most * (1 + WAIT_BAR):
            return f"{kind} of {function}: {mine:.2f} s, the program waited {least:.2f} to {most:.2f} s"
    return check


def one_name(seen):
    names = set()
    for kind in ("cpu", "cpu_also"):
        for pid in some(seen.pids):
            selector = "%s{process.pid=\"%d\"}" % (kind, pid)
            q = urllib.parse.urlencode({"query": selector, "from": "now-30m", "group_by": "service.name"})
            names |= {s["labels"].get("service.name", "") for s in seen.server.json("/api/v1/series?" + q)["series"]}
    if names != {seen.service}:
        return f"names: {names}"


def agent_keeps_its_budget(seen):
    worst = seen.meter.worst_minute()
    if worst > 0.01 + 0.001:
        return f"the agent and the server's helpers used {worst:.2%} of the machine in a minute"


def inside_keeps_its_budget(seen):
    used = sum(seen.meter.inside.values())
    if used > 0.01 * seen.cpu + 0.3:
        return f"wick's threads in the stack used {used:.2f} s beside {seen.cpu:.2f} s"


def spans_have_their_time(seen):
    """Of the requests' CPU time, what the program did in spans is in samples with a span, and none is longer than it can be."""
    answer = seen.ask("spans", limit=100)
    own = sum(seen.truth[p] for p in PARTS)
    if not 0.95 * own <= answer["linked"] <= 1.02 * seen.cpu * 1e9:
        return f"spans: {answer['linked'] / 1e9:.2f} s of {own / 1e9:.2f} s of work, {seen.cpu:.2f} s in all"


def span_names(seen):
    answer = seen.server.json(f"/api/v1/span_names?service={seen.service}&from=now-30m")
    names = {x["name"]: x["count"] for x in answer["spans"]}
    if abs(names.get("order", 0) - seen.requests) > max(0.01 * seen.requests, 8):
        return f"span names: {names}, {seen.requests} requests"


def sampled_often_enough(seen, directory):
    """Counts what is in the store, after the server has stopped: times of samples, or their value in periods where there are none."""
    out = directory / "all.otlp"
    selector = "cpu{service.name=\"%s\"}" % seen.service
    subprocess.run([WICK, "store", "export", selector, "--from", "now-30m", "--store", directory / "store", "--format", "otlp", "-o", out],
                   check=True, capture_output=True, timeout=120)
    n, data = 0, out.read_bytes()
    while data:  # messages, each after its length
        size = int.from_bytes(data[:4], "big")
        request, data = profiles_service().ExportProfilesServiceRequest.FromString(data[4:4 + size]), data[4 + size:]
        for p in (p for r in request.resource_profiles for s in r.scope_profiles for p in s.profiles):
            n += sum(len(x.timestamps_unix_nano) or sum(x.values) / max(p.period, 1) for x in p.samples)
    print(f"{seen.service}: {n / seen.cpu:.1f} samples per second of CPU time")
    if n / seen.cpu < LEAST_HZ * 0.97:
        return f"{n / seen.cpu:.1f} samples per second of CPU time"


COMMON = [cpu_is_that_of_the_kernel, one_name, agent_keeps_its_budget, inside_keeps_its_budget,
          shares_are_those_of("its own account", lambda s: s.truth)]


def numbers(seen):
    """What was measured, for whoever reads the output of a run."""
    rows = {kind: {f: round(seen.top(kind)[1].get(f, 0) / 1e9, 2) for f in ("guarded", "pause", "nap")} for kind in ("lock", "wall")}
    return (f"{seen.service}: CPU {seen.top()[0] / 1e9:.2f} s of {seen.cpu:.2f} s; shares {shares(seen.top()[1])}, own account {shares(seen.truth)}, other "
            f"profiler {shares(seen.others)}; waits {rows} of {({k: round(v / 1e9, 2) for k, v in seen.truth.items() if k not in PARTS})}; agent's worst "
            f"minute {seen.meter.worst_minute():.2%}; inside {sum(seen.meter.inside.values()):.2f} s; {seen.requests} requests; load {os.getloadavg()[0]:.1f}")


def judge(seen, directory, *checks, known=()):
    """All that is wrong, in one message. known: how lines begin about what does not hold yet: the test is then expected to fail."""
    print(numbers(seen))
    wrong = [text for text in [check(seen) for check in (*COMMON, *checks)] if text]
    seen.server.stop()
    wrong += [text for text in [sampled_often_enough(seen, directory)] if text]
    assert not [text for text in wrong if not text.startswith(tuple(known))], "\n".join(wrong)
    if wrong:
        pytest.xfail("\n".join(wrong))
