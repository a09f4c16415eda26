# SPDX-License-Identifier: Apache-2.0
"""The host agent on real programs: every stack of a known chain must be that chain, whatever the binary is like."""
import collections
import http.server
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

import pytest
from agent_tools import GO_CHAIN, WICK, agent_to_file, build, complete_lines, count, folded, is_sampling, needs_bpf, record, resources
from wick_tools import cpu_seconds, measured, some, wait_for

RATE = 999
NO_FP = ["-O2", "-fomit-frame-pointer"]
KINDS = {
    "no_fp": NO_FP,
    "debug": [*NO_FP, "-g"],
    "with_fp": ["-O2", "-fno-omit-frame-pointer"],
    "static": [*NO_FP, "-static"],
    "static_pie": [*NO_FP, "-static-pie"],
    "no_pie": [*NO_FP, "-no-pie", "-fno-pie"],
    "debug_frame": [*NO_FP, "-g", "-fno-asynchronous-unwind-tables", "-fno-unwind-tables"],
}


@pytest.fixture(autouse=True)
def bpf():
    needs_bpf()


def judge(rows, depth, rate=RATE):
    """Samples in leaf() that are the whole chain, and those that are not; user frames only, from the root."""
    good = bad = 0
    for stack, value in rows:
        n = round(value * rate / 1e9)
        if "leaf" not in stack:
            continue
        user = stack[:stack.index("leaf") + 1]
        recs = user.count("rec")
        chain = ["main", "worker"] + ["rec"] * (depth + 1) + ["leaf"]
        if user[-len(chain):] == chain and recs == depth + 1 and user[0] in ("_start", "_dl_start_user"):
            good += n
        else:
            bad += n
            print(user)
    return good, bad


@pytest.mark.parametrize("kind", KINDS)
def test_exact_stacks(tmp_path, kind):
    exe = build(tmp_path, "chain.c", "chain", *KINDS[kind])
    rows, _ = record(tmp_path, "--", exe, 30, 0.7, rate=RATE)
    good, bad = judge(rows, 30)
    assert bad == 0 and good > 100, (good, bad)


def stacks_by_address(path, exe):
    """Stacks of an OTLP JSON file from the root, with their CPU time: names, and addresses of frames of exe without one."""
    request = json.loads(path.read_text())
    d = request["dictionary"]
    strings = d["stringTable"]

    def frame(location):
        for n in location.get("lines", []):
            if name := strings[d["functionTable"][n["functionIndex"]].get("nameStrindex", 0)]:
                return name
        mapping = d["mappingTable"][location.get("mappingIndex", 0)]
        return int(location.get("address", 0)) if strings[mapping.get("filenameStrindex", 0)] == str(exe) else "other"

    for p in [p for r in request["resourceProfiles"] for s in r["scopeProfiles"] for p in s["profiles"]]:
        if strings[p["sampleType"]["typeStrindex"]] == "cpu":
            for x in p.get("samples", []):
                stack = d["stackTable"][x["stackIndex"]]["locationIndices"]
                yield [frame(d["locationTable"][i]) for i in reversed(stack)], sum(map(int, x["values"]))


def judge_stripped(tmp_path, depth, seconds, rate):
    """Whole chains and others, by the addresses that are there instead of names."""
    exe = build(tmp_path, "chain.c", "chain", *NO_FP)
    symbols = {}
    for line in subprocess.run(["nm", "-S", exe], capture_output=True, text=True, check=True).stdout.splitlines():
        f = line.split()
        if len(f) == 4:
            symbols[f[3]] = (int(f[0], 16), int(f[1], 16))
    subprocess.run(["strip", exe], check=True)
    out = tmp_path / "recorded.json"
    subprocess.run([WICK, "record", "-q", "-F", str(rate), "-o", out, "--", exe, str(depth), str(seconds)], check=True, timeout=900)
    good = bad = 0
    for stack, value in some(stacks_by_address(out, exe)):
        assert not {"leaf", "rec", "worker", "main"} & {f for f in stack if isinstance(f, str)}
        at = [next((s for s, (a, n) in symbols.items() if not isinstance(f, str) and a <= f < a + n), f) for f in stack]
        if "leaf" not in at:
            continue
        user = at[:at.index("leaf") + 1]
        if user[-depth - 4:] == ["main", "worker"] + ["rec"] * (depth + 1) + ["leaf"]:
            good += round(value * rate / 1e9)
        else:
            bad += round(value * rate / 1e9)
    return good, bad


def test_stripped(tmp_path):
    """Without a symbol there is no name, and never a wrong one; the frames are all there."""
    good, bad = judge_stripped(tmp_path, 20, 0.7, RATE)
    assert good and not bad


def test_recursion_of_600(tmp_path):
    """Whole stacks and no others of a process that was read before it is sampled: none has to be copied. Stacks from before
    that are copied, as far as a copy goes, and are marked: of a command, the first ones."""
    exe = build(tmp_path, "chain.c", "chain", *NO_FP)
    rows, _ = record(tmp_path, "--", exe, 600, 0.5, rate=RATE)
    good, bad = judge([r for r in rows if r[0][0] != "[truncated]"], 600)
    assert good and bad == 0
    p = subprocess.Popen([exe, "600", "60"], stdout=subprocess.DEVNULL)
    try:
        rows, _ = record(tmp_path, "-p", p.pid, "-d", "1s", "--stats", tmp_path / "stats.json", rate=RATE)
    finally:
        p.kill()
        p.wait()
    good, bad = judge(rows, 600)
    assert good > 50 and bad == 0
    assert json.loads((tmp_path / "stats.json").read_text())["stack_copies"] == 0


def test_too_deep_is_said(tmp_path):
    exe = build(tmp_path, "chain.c", "chain", *NO_FP)
    rows, _ = record(tmp_path, "--", exe, 1500, 0.5, rate=RATE)
    early = [n for s, n in rows if s == ["[truncated]", "leaf"]]  # sampled before the program's tables were read
    deep = [s for s, _ in rows if "leaf" in s and s != ["[truncated]", "leaf"]]
    assert sum(early) < 0.2 * sum(n for _, n in rows), rows
    assert deep and all(s[0] == "[truncated]" and s.count("rec") == 1022 for s in deep)
    less = [s for s, _ in rows if "leaf" not in s and "rec" in s]  # on its way down or up
    assert all(s[0] == "_start" and s.count("rec") < 1023 or s[0] == "[truncated]" and s.count("rec") >= 1022 for s in less)  # may be none


def test_copied_stacks_are_the_same(tmp_path):
    exe = build(tmp_path, "chain.c", "chain", *NO_FP)
    rows, _ = record(tmp_path, "--unwind", "copy", "--", exe, 30, 0.5, rate=199)
    good, bad = judge(rows, 30, 199)
    assert good > 20 and bad == 0


@pytest.mark.parametrize("who,frame", [("root", 8), ("nobody", 8), ("root", 1500), ("nobody", 1500)])
def test_without_bpf(tmp_path, who, frame):
    """perf_event_open alone: the same stacks, for one's own processes; also of 45 KB, of which the kernel copies a part."""
    if frame > 500 and resource.getrlimit(resource.RLIMIT_MEMLOCK)[0] < os.cpu_count() * 3 << 20:
        pytest.skip("perf's buffers are small: RLIMIT_MEMLOCK")
    exe = build(tmp_path, "chain.c", "chain", *NO_FP, f"-DFRAME={frame + 30}")
    out = tmp_path / "o" / "x.folded"
    out.parent.mkdir()
    command = [WICK, "record", "-q", "--via", "perf", "-F", "499", "-o", str(out), "--", str(exe), "30", "1"]
    if who == "nobody":
        if os.getuid() or not shutil.which("setpriv") or int(open("/proc/sys/kernel/perf_event_paranoid").read()) > 2:
            pytest.skip("needs root to become nobody, and perf_event_paranoid of at most 2")
        place = Path(tempfile.mkdtemp(dir="/var/tmp"))
        try:
            shutil.copy(WICK, place / "wick")
            shutil.copy(exe, place / "chain")
            place.chmod(0o777)
            out = place / "x.folded"
            command = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "--inh-caps=-all", place / "wick", "record",
                       "-F", "499", "-o", out, "--", place / "chain", "30", "1"]
            p = subprocess.run(command, capture_output=True, text=True, timeout=60)
            assert p.returncode == 0 and "perf_event_open" in p.stderr, p.stderr
            rows = folded(out)
        finally:
            shutil.rmtree(place)
    else:
        p = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert p.returncode == 0, p.stderr
        rows = folded(out)
    good, bad = judge(rows, 30, 499)
    assert good > 50 and bad == 0


SHORT_THREADS = """
#include <pthread.h>
#include <time.h>
static double used(clockid_t c) { struct timespec t; clock_gettime(c, &t); return t.tv_sec + t.tv_nsec / 1e9; }
static void *burn(void *x) { while (used(CLOCK_THREAD_CPUTIME_ID) < 0.003); return x; }
int main(void) { pthread_t t; while (used(CLOCK_PROCESS_CPUTIME_ID) < 0.6) { pthread_create(&t, 0, burn, 0); pthread_join(t, 0); } }
"""


def test_why_there_are_no_samples():
    for how, why in ((("-t", "offcpu", "--threshold", "10s"), "the sampled processes did not wait"), (("-e", "page-faults/1000000"), "the sampled processes caused no such event")):
        p = subprocess.run([WICK, "record", *how, "--", "true"], capture_output=True, text=True, timeout=60)
        assert p.returncode == 1 and f"no samples: {why}" in p.stderr, p.stderr


def test_what_is_not_sampled_without_bpf_is_told(tmp_path):
    """Each thread has a timer of its own there, which threads of 3 ms do not live to see."""
    source = tmp_path / "short.c"
    source.write_text(SHORT_THREADS)
    subprocess.run(["gcc", "-O1", "-pthread", "-o", tmp_path / "short", source], check=True)
    p = subprocess.run([WICK, "record", "--via", "perf", "-o", tmp_path / "x.folded", "--", tmp_path / "short"], capture_output=True, text=True,
                       timeout=60)
    told = re.search(r"wick: (\d+) % of (\d\.\d+) CPU-s were sampled", p.stderr)
    assert told and int(told[1]) < 30 and 0.5 < float(told[2]) < 1.5 and "used no CPU time" not in p.stderr, p.stderr


PYTHON = """
import threading, time
def leaf(n): return sum(i * i for i in range(n))
def mid(n): return leaf(n) + 1
def work():
    end = time.thread_time() + 1
    while time.thread_time() < end: mid(100000)
t = threading.Thread(target=work)
t.start()
work()
t.join()
"""


def test_python_without_bpf(tmp_path):
    """Python frames of one's own processes, read from their memory: of both threads, as an ordinary user."""
    if os.getuid() or not shutil.which("setpriv") or int(open("/proc/sys/kernel/perf_event_paranoid").read()) > 2:
        pytest.skip("needs root to become nobody, and perf_event_paranoid of at most 2")
    place = Path(tempfile.mkdtemp(dir="/var/tmp"))
    try:
        shutil.copy(WICK, place / "wick")
        (place / "p.py").write_text(PYTHON)
        place.chmod(0o777)
        p = subprocess.run(["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "--inh-caps=-all", place / "wick", "record",
                            "-F", "499", "-o", place / "x.folded", "--", "/usr/bin/python3", place / "p.py"], capture_output=True, text=True,
                           timeout=120)
        assert p.returncode == 0 and "perf_event_open" in p.stderr, p.stderr
        rows = folded(place / "x.folded")
    finally:
        shutil.rmtree(place)
    for root in ("Thread.run", "<module>"):
        own = [s for s, _ in rows if root in s and "work" in s[s.index(root):]]
        assert any(s[s.index("work"):s.index("work") + 3] == ["work", "mid", "leaf"] for s in own), (root, rows[:5])
    total = sum(v for _, v in rows)
    assert sum(v for s, v in rows if "leaf" in s) > total / 2, p.stderr


def test_cpu_time_is_right(tmp_path):
    exe = build(tmp_path, "chain.c", "chain", *NO_FP)

    def ratio(k):
        rows, p = record(tmp_path, "--", exe, 10, 1.5 * k)
        return sum(v for _, v in rows) / 1e9 / float(p.stdout)

    measured(ratio, 0.1)


def test_rust(tmp_path):
    exe = build(tmp_path, "chain.rs", "chain_rs", "-O", compiler="rustc")
    rows, _ = record(tmp_path, "--", exe, rate=RATE)
    hot = [s for s, _ in rows if s[-1].endswith("leaf")]
    assert hot
    for s in hot:
        assert s[0] == "_start" and sum(f.endswith("::rec") for f in s) >= 20, s


def test_short_lived_processes(tmp_path):
    """40 processes of 55 ms: nine of ten of their samples have whole stacks."""
    exe = build(tmp_path, "chain.c", "chain", *NO_FP)
    script = tmp_path / "many.sh"
    script.write_text(f"for i in $(seq 40); do {exe} 30 0.055; done\n")

    def share(k):
        rows, p = record(tmp_path, "--", "sh", script, rate=99)
        ticks = sum(float(x) for x in p.stdout.split()) * 99
        whole = [(s, v) for s, v in rows if "main" in s and s[0] == "_start" and "sh" not in s]
        noise = 1.5 * ticks ** 0.5  # of how many ticks fall into that time on a busy machine
        return min(1, (count(whole, 99) + noise) / ticks)

    measured(share, 0.1)


def test_fork_without_exec_and_dlopen(tmp_path):
    lib = build(tmp_path, "plugin.c", "plugin.so", *NO_FP, "-shared", "-fPIC")
    exe = build(tmp_path, "forks.c", "forks", *NO_FP)
    rows, _ = record(tmp_path, "--", exe, lib, rate=RATE)
    child = [s for s, _ in rows if "in_child" in s]
    plugin = [s for s, _ in rows if "plugin_work" in s]
    assert child and all(s[0] == "_start" and s[s.index("in_child") - 1] == "main" for s in child)
    assert plugin and all(s[0] == "_start" and s[s.index("plugin_work") - 1] == "main" for s in plugin)


def test_deleted_binary_and_running_process(tmp_path):
    exe = build(tmp_path, "chain.c", "chain", *NO_FP)
    p = subprocess.Popen([exe, "12", "30"], stdout=subprocess.DEVNULL)
    try:
        while not os.readlink(f"/proc/{p.pid}/exe").endswith("chain"):
            time.sleep(0.01)
        os.unlink(exe)
        shutil.copy("/bin/true", exe)  # another file of that name
        rows, _ = record(tmp_path, "-p", p.pid, "-d", "1s", rate=RATE)
    finally:
        p.kill()
        p.wait()
    good, bad = judge(rows, 12)
    assert good > 30 and bad == 0


def test_filters(tmp_path):
    a, b = build(tmp_path, "chain.c", "wanted", *NO_FP), build(tmp_path, "chain.c", "other", *NO_FP)
    running = [subprocess.Popen([x, "5", "30"], stdout=subprocess.DEVNULL) for x in (a, b)]
    out = tmp_path / "o.json"
    try:
        for rule, who in ((["--include", "exe=wanted"], {"wanted"}), (["--include", "name~^(wanted|other)$", "--exclude", "name=other"],
                                                                        {"wanted"})):
            subprocess.run([WICK, "record", "-a", "-q", "-d", "1s", *rule, "-o", out], check=True)
            names = set()
            for line in out.read_text().splitlines():
                for r in json.loads(line)["resourceProfiles"]:
                    names |= {x["value"]["stringValue"] for x in r["resource"]["attributes"] if x["key"] == "process.executable.name"}
            assert names == who
    finally:
        for p in running:
            p.kill()
            p.wait()


@pytest.mark.parametrize("all_processes", [False, True])
def test_rules_judge_a_program_after_exec(tmp_path, all_processes):
    """A shell that is left out becomes a program that is not: its pid is the same."""
    exe = build(tmp_path, "chain.c", "after_exec", *NO_FP)
    spin = ["sh", "-c", f"i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; exec {exe} 5 {30 if all_processes else 1}"]
    if not all_processes:
        rows, _ = record(tmp_path, "--exclude", "name=sh", "--", *spin)
        assert any("leaf" in s for s, _ in rows)
        return
    with agent_to_file(tmp_path, "-F", 199, "--interval", "500ms", "--exclude", "name=sh") as (out, agent):
        wait_for(lambda: is_sampling(agent.pid))
        p = subprocess.Popen(spin, stdout=subprocess.DEVNULL)
        try:
            wait_for(lambda: '"after_exec"' in out.read_text() if out.exists() else False)
        finally:
            p.kill()
            p.wait()


def test_an_agent_that_gets_no_turn_loses_nothing(tmp_path):
    """It is stopped for seconds while every sample wants its stack copied: copies end when the buffer is half full, samples go on."""
    exe = build(tmp_path, "chain.c", "goes_on", *NO_FP)
    p = subprocess.Popen([exe, "5", "60"], stdout=subprocess.DEVNULL)
    stats = tmp_path / "stats.json"
    try:
        r = subprocess.Popen([WICK, "record", "-q", "--unwind", "copy", "-F", "499", "-d", "120s", "--stats", stats, "-o", tmp_path / "x.folded",
                              "-p", str(p.pid)])
        wait_for(lambda: is_sampling(r.pid))
        cpu = cpu_seconds(p.pid)
        wait_for(lambda: cpu_seconds(p.pid) - cpu > 0.5)  # the recording begins a moment after its clocks
        cpu = cpu_seconds(p.pid)
        os.kill(r.pid, signal.SIGSTOP)
        wait_for(lambda: cpu_seconds(p.pid) - cpu > 2)  # 1000 copies of 8 KiB are more than the buffer's 4 MiB
        os.kill(r.pid, signal.SIGCONT)
        os.kill(r.pid, signal.SIGINT)  # not after a fixed time: on a busy machine the program has less of it
        assert r.wait(60) == 0
    finally:
        p.kill()
        p.wait()
    n = json.loads(stats.read_text())
    assert n["lost"] == 0 and n["samples"] > 800, n


def stacks_by_program(request):
    """{program: [(functions, root first, value)]} of an OTLP request, as JSON."""
    d = request["dictionary"]
    text, found = d["stringTable"], collections.defaultdict(list)

    def functions(stack):
        places = [d["locationTable"][i] for i in d["stackTable"][stack].get("locationIndices", [])]
        return [text[d["functionTable"][line.get("functionIndex", 0)].get("nameStrindex", 0)] for at in reversed(places)
                for line in reversed(at.get("lines", []))]
    for r in request["resourceProfiles"]:
        attrs = {a["key"]: a["value"].get("stringValue", "") for a in r["resource"]["attributes"]}
        for p in (p for s in r["scopeProfiles"] for p in s["profiles"]):
            if text[p["sampleType"]["typeStrindex"]] == "cpu":
                found[attrs.get("process.executable.name", "")] += [(functions(s["stackIndex"]), sum(map(int, s["values"]))) for s in p["samples"]]
    return found


# That have unwind tables: JIT code and hand-written assembly have none, and may run at the same time.
WITH_TABLES = ("crowd", "sh", "dash", "bash", "cc1", "cc1plus", "as", "ld", "ninja", "wick", "python3.11")


@pytest.mark.slow
def test_whole_stacks_while_the_machine_is_busy(tmp_path):
    """Of all processes, on a machine with more busy processes than CPUs, which are soon gone: as if the agent got no turn, it is stopped
    for two seconds. Stacks are whole, and nothing after the duration is counted."""
    exe = build(tmp_path, "chain.c", "crowd", *NO_FP)
    end = time.monotonic() + 60
    running = threading.Event()

    def spawn():
        while not running.is_set() and time.monotonic() < end:
            subprocess.run([exe, "9", "0.1"], stdout=subprocess.DEVNULL)
    crowd = [threading.Thread(target=spawn) for _ in range(4 * os.cpu_count())]
    stats = tmp_path / "stats.json"
    for t in crowd:
        t.start()
    try:
        r = subprocess.Popen([WICK, "record", "-q", "-a", "-d", "5s", "--stats", stats, "-o", tmp_path / "x.json"])
        wait_for(lambda: is_sampling(r.pid))
        os.kill(r.pid, signal.SIGSTOP)
        time.sleep(2)
        os.kill(r.pid, signal.SIGCONT)
        assert r.wait(120) == 0
    finally:
        running.set()
        for t in crowd:
            t.join()
    n = json.loads(stats.read_text())
    assert n["elapsed_ns"] == 5_000_000_000 and n["samples"] < 5.5 * 99 * os.cpu_count(), n
    programs = stacks_by_program(json.loads((tmp_path / "x.json").read_text()))
    rows = [row for name in WITH_TABLES for row in programs[name]]
    whole = sum(v for s, v in rows if "[truncated]" not in s)
    assert whole > 0.9 * sum(v for _, v in rows), {k: (len(v), sum("[truncated]" in s for s, _ in v)) for k, v in programs.items()}
    good, bad = judge(programs["crowd"], 9, 99)
    assert good > 100 and bad <= 0.05 * good, (good, bad)


def test_top(tmp_path):
    exe = build(tmp_path, "chain.c", "top_chain", *NO_FP)
    p = subprocess.Popen([exe, "5", "30"], stdout=subprocess.DEVNULL)
    try:
        began, cpu = time.monotonic(), cpu_seconds(p.pid)
        out = subprocess.run([WICK, "top", "-n", "1", "-d", "1s", "--json", "-p", str(p.pid)], capture_output=True, text=True, check=True)
        share = (cpu_seconds(p.pid) - cpu) / (time.monotonic() - began)  # of a core, as much as a busy machine gave it
        text = subprocess.run([WICK, "top", "-n", "1", "-d", "1s", "-p", str(p.pid)], capture_output=True, text=True, check=True).stdout
    finally:
        p.kill()
        p.wait()
    first = json.loads(out.stdout)["functions"][0]
    assert first["function"] == "leaf" and first["service"] == "top_chain"
    assert share / 3 < first["self"] <= 1.2, share
    assert "FUNCTION" in text and "leaf" in text


def test_usage(tmp_path):
    for args in ([], ["-a", "-p", "1"], ["-a", "--type", "heap"], ["-a", "--via", "x"], ["-a", "-o", "x.what"],
                 ["-a", "--include", "color=red"]):
        p = subprocess.run([WICK, "record", *args], capture_output=True, text=True, cwd=tmp_path)
        assert p.returncode in (1, 2) and p.stderr.startswith("wick record: ") and p.stderr.count("\n") == 1, (args, p.stderr)
    p = subprocess.run([WICK, "record", "-o", "x.folded", "--", "/nonexistent/x"], capture_output=True, text=True, cwd=tmp_path)
    assert p.returncode == 1 and p.stderr == "wick record: cannot run '/nonexistent/x': No such file or directory\n", p.stderr


@pytest.mark.parametrize("via", ["bpf", "old-bpf", "perf"])
def test_a_command_is_recorded_from_its_exec(tmp_path, via):
    """wick's own child looks for the command in thousands of directories before it becomes the command: that is not in the recording."""
    build(tmp_path, "brief_life.c", "brief_life")
    path = ":".join(["/0"] * 40000 + [str(tmp_path)])
    p = subprocess.run([WICK, "record", "-q", "-F", "1999", "--via", via, "-o", "x.json", "--", "brief_life", "40"], cwd=tmp_path, capture_output=True,
                       text=True, env={**os.environ, "PATH": path})
    assert p.returncode == 0, p.stderr
    assert {r["service.name"] for r in resources(tmp_path / "x.json")} - {"kernel"} == {"brief_life"}


def signals_of(*command):
    out = subprocess.run([*command, "grep", "^Sig[BI]", "/proc/self/status"], capture_output=True, text=True).stdout
    assert len(out.splitlines()) == 2, out  # a recording may find nothing to record
    return out


def test_a_command_has_the_signals_that_it_has_without(tmp_path):
    """Blocked and ignored ones: a pipe that nobody reads ends it, for example."""
    want = signals_of()
    assert signals_of(WICK, "record", "-q", "-o", tmp_path / "x.folded", "--") == want
    assert signals_of(WICK, "run", "-t", "heap", "-o", tmp_path / "x.pb.gz", "--") == want


def test_exit_status_and_interrupt(tmp_path):
    out = tmp_path / "x.folded"
    p = subprocess.run([WICK, "record", "-q", "-o", out, "--", "sh", "-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; exit 7"])
    assert p.returncode == 7 and out.exists()
    burner = subprocess.Popen([build(tmp_path, "chain.c", "chain", *NO_FP), "3", "60"], stdout=subprocess.DEVNULL)
    p = subprocess.Popen([WICK, "record", "-a", "-q", "-o", tmp_path / "y.folded"])
    try:
        while not is_sampling(p.pid) and p.poll() is None:
            time.sleep(0.05)
        time.sleep(1)
        p.send_signal(signal.SIGINT)
        assert p.wait(60) == 0 and (tmp_path / "y.folded").exists()
    finally:
        burner.kill()
        burner.wait()


def test_serve_with_its_agent(tmp_path):
    """wick serve samples this machine by a child; it ends with the server."""
    exe = build(tmp_path, "chain.c", "served_chain", *NO_FP)
    env = {k: v for k, v in os.environ.items() if k != "WICK_NO_AGENT"}
    p = subprocess.Popen([WICK, "serve", "--store", "memory", "--http", "127.0.0.1:0", "--otlp-grpc", "off", "--otlp-http", "off"],
                         stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=env)
    burner = subprocess.Popen([exe, "5", "60"], stdout=subprocess.DEVNULL)
    try:
        url = p.stdout.readline().split()[-1]
        def services():
            with urllib.request.urlopen(url + "/api/v1/services") as r:
                return [s["name"] for s in json.load(r)]

        wait_for(lambda: "served_chain" in services())
        for question in ("top?", "flame?", "series?", "coverage?", "callers?function=leaf&"):  # the rate in force is in each
            with urllib.request.urlopen(url + f"/api/v1/{question}query=cpu%7Bservice.name%3D%22served_chain%22%7D") as r:
                rate = json.load(r)["rate"]
            assert all(1 <= hz <= 99 for hz in some(rate if isinstance(rate, list) else [rate])), (question, rate)
        text = subprocess.run([WICK, "query", "top", "--server", url], capture_output=True, text=True, timeout=60).stdout
        assert re.search(r"^sampled at \d+( to \d+)? Hz(, on average \d+)?$", text, re.M), text
        children = subprocess.run(["pgrep", "-P", str(p.pid)], capture_output=True, text=True).stdout.split()
        assert children
    finally:
        burner.kill()
        p.terminate()
        p.wait(30)
        burner.wait()
    wait_for(lambda: not any(os.path.exists(f"/proc/{c}") for c in children), why="the agent ends with its server")


@pytest.mark.slow
def test_the_rate_in_force_is_told(tmp_path):
    """A budget that cannot be kept at 99 Hz lowers the rate: the log, every answer and `wick query` say which rates were in force."""
    exe = build(tmp_path, "chain.c", "lowered_chain", *NO_FP)
    env = {k: v for k, v in os.environ.items() if k != "WICK_NO_AGENT"}
    with open(tmp_path / "log", "w") as log:
        p = subprocess.Popen([WICK, "serve", "--store", "memory", "--http", "127.0.0.1:0", "--otlp-grpc", "off", "--otlp-http", "off",
                              "--set", "agent.rate=99", "--set", "agent.budget=0.02"],
                             stdout=subprocess.PIPE, stderr=log, text=True, env=env)
    burner = subprocess.Popen([exe, "5", "200"], stdout=subprocess.DEVNULL)
    try:
        url = p.stdout.readline().split()[-1]

        def rates_logged():
            return [int(x) for x in re.findall(r"sampling at (\d+) Hz", (tmp_path / "log").read_text())]

        def answer(question):
            with urllib.request.urlopen(url + f"/api/v1/{question}query=cpu%7Bservice.name%3D%22lowered_chain%22%7D") as r:
                rate = json.load(r).get("rate")
            return rate if isinstance(rate, list) else [rate, rate]

        wait_for(lambda: rates_logged() and rates_logged()[-1] < 99, 90, "a lower rate in the log")
        assert rates_logged()[0] == 99
        wait_for(lambda: answer("top?")[0] and answer("top?")[0] < 99, 60, "a lower rate in the answers")
        for question in ("top?", "flame?", "series?", "coverage?", "callers?function=leaf&", "lines?function=leaf&"):
            low, high = answer(question)
            assert min(rates_logged()) <= low < 99 and low <= high <= 99, (question, low, high, rates_logged())
        text = subprocess.run([WICK, "query", "top", "cpu{service.name=\"lowered_chain\"}", "--server", url], capture_output=True,
                              text=True, timeout=60).stdout
        low = int(re.search(r"^sampled at (\d+)(?: to \d+)? Hz(?:, on average \d+)?$", text, re.M)[1])
        assert min(rates_logged()) <= low < 99, (text, rates_logged())
    finally:
        burner.kill()
        p.terminate()
        p.wait(30)
        burner.wait()


def test_agent_exports(tmp_path):
    """To a collector, with what every batch says of the agent; also when the collector comes late."""
    exe = build(tmp_path, "chain.c", "exported_chain", *NO_FP)
    burner = subprocess.Popen([exe, "5", "60"], stdout=subprocess.DEVNULL)
    try:
        with agent_to_file(tmp_path, "-F", 99, "--interval", "500ms", "--include", "exe=exported_chain", late=2) as (out, _):
            wait_for(lambda: len(complete_lines(out)) >= 2)
    finally:
        burner.kill()
        burner.wait()
    line = json.loads(out.read_text().splitlines()[0])
    (resource,) = line["resourceProfiles"]
    attrs = {a["key"]: a["value"] for a in resource["resource"]["attributes"]}
    assert attrs["service.name"]["stringValue"] == "exported_chain" and len(attrs["service.version"]["stringValue"]) == 40
    scope = {a["key"] for a in resource["scopeProfiles"][0]["scope"]["attributes"]}
    assert scope >= {"wick.rate", "wick.lost", "wick.cpu_ns", "wick.governor", "wick.via"}
    profile = resource["scopeProfiles"][0]["profiles"][0]
    strings = line["dictionary"]["stringTable"]
    assert strings[profile["sampleType"]["typeStrindex"]] == "cpu" and int(profile["period"]) == 10101010
    assert all(s["timestampsUnixNano"] for s in some(profile["samples"]))
    keys = {strings[a["keyStrindex"]] for a in line["dictionary"]["attributeTable"] if "keyStrindex" in a}
    assert keys >= {"thread.name", "thread.id", "cpu.logical_number", "profile.frame.type", "process.executable.build_id.gnu"}


def test_agent_asks_kubernetes(tmp_path):
    """Names of the pod that a process says it is in, and the name that the pod's annotation gives the service. A pod that asks for it
    is scraped."""
    scraped = []

    class Target(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            scraped.append(self.path)
            self.send_response(404)
            self.end_headers()

        def log_message(self, *_):
            pass

    target = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Target)
    threading.Thread(target=target.serve_forever, daemon=True).start()
    pods = {"items": [{"metadata": {"name": "cart-1", "namespace": "shop", "uid": "uid-1",
                                    "annotations": {"wick.dev/service": "the-cart", "wick.dev/scrape": "true", "wick.dev/port": str(target.server_port)},
                                    "ownerReferences": [{"kind": "StatefulSet", "name": "cart", "controller": True}]},
                       "status": {"phase": "Running", "podIP": "127.0.0.1"}}]}

    class Api(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200 if self.path.startswith("/api/v1/pods") and not self.headers["authorization"] else 400)
            self.end_headers()
            self.wfile.write(json.dumps(pods).encode())

        def log_message(self, *_):
            pass

    api = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Api)
    threading.Thread(target=api.serve_forever, daemon=True).start()
    exe = build(tmp_path, "chain.c", "pod_chain", *NO_FP)
    burner = subprocess.Popen([exe, "5", "60"], stdout=subprocess.DEVNULL, env={"OTEL_RESOURCE_ATTRIBUTES": "k8s.pod.uid=uid-1"})
    seen = {}
    try:
        with agent_to_file(tmp_path, "-F", 99, "--interval", "500ms", "--include", "exe=pod_chain",
                           "--k8s-api", f"http://127.0.0.1:{api.server_port}") as (out, _):
            def attributes():
                for line in complete_lines(out)[-1:]:
                    seen.update({a["key"]: a["value"].get("stringValue")
                                 for a in json.loads(line)["resourceProfiles"][0]["resource"]["attributes"]})
                return "k8s.pod.name" in seen

            wait_for(attributes, why=lambda: seen)
            wait_for(lambda: any(p.startswith("/debug/pprof/heap") for p in scraped), why=lambda: scraped)
    finally:
        burner.kill()
        burner.wait()
        for s in (api, target):
            s.shutdown()
            s.server_close()
    assert (seen["k8s.pod.name"], seen["k8s.namespace.name"], seen["k8s.statefulset.name"]) == ("cart-1", "shop", "cart")
    assert seen["service.name"] == "the-cart"


def test_off_cpu_sum(tmp_path):
    """The waits of a program sum up to what it says itself, from the first on with the stack they began in."""
    exe = build(tmp_path, "waits.c", "waits", *NO_FP)

    def ratio(k):
        rows, p = record(tmp_path, "-t", "offcpu", "--stats", tmp_path / "stats", "--", exe, 400)
        told = min(400, json.loads((tmp_path / "stats").read_text())["samples"])  # fewer where the budget is spent: an estimate
        waits = [(s, v) for s, v in rows if "nap" in s]
        assert waits and all(s[0] == "_start" and s[s.index("nap") - 2:s.index("nap")] == ["down", "outer"] for s, _ in waits)
        assert sum(v for _, v in waits) > 0.9 * sum(v for _, v in rows)
        off = sum(v for _, v in waits) / 1e9 / float(p.stdout) - 1
        return 1 + off / (1 + 80 * (1 / told - 1 / 400) ** 0.5)

    measured(ratio, 0.05)


def test_off_cpu_deep(tmp_path):
    """Stacks that do not fit beside the task are told ahead, whole."""
    exe = build(tmp_path, "waits.c", "waits", *NO_FP)

    def ratio(k):
        rows, p = record(tmp_path, "-t", "offcpu", "--", exe, 60, 10000, 700)
        waits = [(s, v) for s, v in rows if "nap" in s]
        assert waits and all(s[0] == "_start" and s.count("down") == 701 for s, _ in waits)
        return sum(v for _, v in waits) / 1e9 / float(p.stdout)

    measured(ratio, 0.1)


def test_off_cpu_long(tmp_path):
    """A wait that began before the agent did, and goes on: nobody looked at it, and it is told with its stack all the same."""
    exe = build(tmp_path, "waits.c", "waits", *NO_FP)
    p = subprocess.Popen([exe, "1", "60000000", "3"], stdout=subprocess.DEVNULL)
    try:
        while Path(f"/proc/{p.pid}/wchan").read_text() in ("", "0") and "sleep" not in Path(f"/proc/{p.pid}/stack").read_text():
            time.sleep(0.05)
        began = time.monotonic_ns()
        rows, _ = record(tmp_path, "-t", "offcpu", "-p", p.pid, "-d", "4s")
        took = time.monotonic_ns() - began
    finally:
        p.kill()
        p.wait()
    assert len(rows) == 1, rows
    stack, value = rows[0]
    assert stack[0] == "_start" and stack.count("down") == 4 and stack[stack.index("nap") - 1] == "outer" and "hrtimer_nanosleep" in stack
    assert 3.5e9 < value <= took, (value, took)


def test_off_cpu_long_counts_once(tmp_path):
    exe = build(tmp_path, "waits.c", "waits", *NO_FP)

    def ratio(k):
        rows, p = record(tmp_path, "-t", "offcpu", "--", exe, 2, 2300000)
        return sum(v for s, v in rows if "nap" in s) / 1e9 / float(p.stdout)

    measured(ratio, 0.05)


SWITCHES = """#include <unistd.h>
int main(void) { int a[2], b[2]; char c = 0; if (pipe(a) || pipe(b)) return 1;
if (fork() == 0) { close(a[1]); close(b[0]); while (read(a[0], &c, 1) == 1 && write(b[1], &c, 1) == 1); return 0; }
close(a[0]); close(b[1]);
for (;;) if (write(a[1], &c, 1) != 1 || read(b[0], &c, 1) != 1) return 1; }
"""


def test_off_cpu_within_budget(tmp_path):
    """As many switches a second as the machine can make: fewer waits are looked at, until the budget is kept."""
    (tmp_path / "switches.c").write_text(SWITCHES)
    subprocess.run(["gcc", "-O2", "-o", tmp_path / "switches", tmp_path / "switches.c"], check=True)
    stats, running = tmp_path / "stats.json", []
    try:
        running.append(subprocess.Popen([tmp_path / "switches"]))
        running.append(subprocess.Popen([WICK, "agent", "--export", "http://127.0.0.1:1", "-t", "offcpu", "--budget", "1", "--interval", "1s",
                                         "--stats", stats], stderr=subprocess.DEVNULL))
        seen = []

        def kept():
            """Of the last three intervals, once it has settled."""
            text = stats.read_text() if stats.exists() else ""
            if text.endswith("}\n") and (not seen or json.loads(text)["elapsed_ns"] != seen[-1]["elapsed_ns"]):
                seen.append(json.loads(text))
            if len(seen) < 4 or seen[-1]["elapsed_ns"] < 4e9:
                return False
            d = {k: seen[-1][k] - seen[-3][k] for k in ("elapsed_ns", "switch_ns", "switches", "switch_samples")}
            return d["switch_ns"] / d["elapsed_ns"] / os.cpu_count() < 0.01 and 0 < d["switch_samples"] < d["switches"] / 4

        wait_for(kept, why=lambda: seen[-3:])
    finally:
        for p in running:
            p.terminate()
            p.wait(60)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["no_fp", "debug", "with_fp", "debug_frame"])
def test_none_wrong_in_ten_thousand(tmp_path, kind):
    exe = build(tmp_path, "chain.c", "chain", *KINDS[kind])
    rows, _ = record(tmp_path, "--", exe, 40, 5, rate=4000)
    good, bad = judge(rows, 40, 4000)
    assert good + bad > 10000 and bad == 0


@pytest.mark.slow
def test_none_wrong_in_ten_thousand_stripped(tmp_path):
    good, bad = judge_stripped(tmp_path, 40, 5, 4000)
    assert good > 10000 and bad == 0


@pytest.mark.slow
@pytest.mark.parametrize("language", ["rust", "go"])
def test_none_wrong_in_ten_thousand_of(tmp_path, language):
    """Every stack in leaf() is the same from its root on, and that one is the chain."""
    if language == "rust":
        command = [build(tmp_path, "chain.rs", "chain_rs", "-O", compiler="rustc"), 8]
        leaf, rec = "::leaf", "::rec"
    else:
        if not shutil.which("go"):
            pytest.skip("no go")
        (tmp_path / "p.go").write_text(GO_CHAIN.replace("SECONDS", "4"))
        subprocess.run(["go", "build", "-o", "p", "p.go"], cwd=tmp_path, check=True, timeout=240)
        command, leaf, rec = [tmp_path / "p"], "main.leaf", "main.rec"
    chains = {}
    while sum(chains.values()) < 10000:
        rows, _ = record(tmp_path, "--", *command, rate=4000)
        for stack, value in rows:
            at = next((i for i, f in enumerate(stack) if f.endswith(leaf)), None)
            if at is not None:
                chain = tuple(stack[:at + 1])
                chains[chain] = chains.get(chain, 0) + round(value * 4000 / 1e9)
    assert len(chains) == 1, sorted((n, c) for c, n in chains.items())
    (chain,) = chains
    assert chain[0] in ("_start", "runtime.goexit.abi0", "runtime.goexit") and sum(f.endswith(rec) for f in chain) >= 30, chain


@pytest.mark.slow
def test_same_as_perf(tmp_path):
    """perf with DWARF stacks, beside: the same functions take the same part."""
    if not shutil.which("perf"):
        pytest.skip("no perf")
    exe = build(tmp_path, "chain.c", "chain", *NO_FP, "-g")
    data = tmp_path / "perf.data"
    subprocess.run(["perf", "record", "-q", "-e", "cpu-clock", "-F", "499", "--call-graph", "dwarf", "-o", data, exe, "30", "2"],
                   check=True, stdout=subprocess.DEVNULL)
    text = subprocess.run(["perf", "script", "-i", data], capture_output=True, text=True).stdout
    blocks = [b for b in text.split("\n\n") if re.search(r"\bleaf\b", b)]
    perf_whole = sum(b.count(" rec ") + b.count(" rec+") == 31 for b in blocks) / len(blocks)
    rows, _ = record(tmp_path, "--", exe, 30, 2, rate=499)
    good, bad = judge(rows, 30, 499)
    assert bad == 0 and good / (good + bad) >= perf_whole
