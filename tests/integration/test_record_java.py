# SPDX-License-Identifier: Apache-2.0
"""wick record and Java: whole chains of methods in every tier of HotSpot, from outside, with nothing set in the program."""
import collections
import math
import platform
import re
import shutil
import signal
import subprocess

import pytest

import javas
from agent_tools import is_sampling, may_sample
from wick_tools import WICK, some, wait_for

JAVAS = javas.found()
pytestmark = [pytest.mark.skipif(platform.machine() != "x86_64", reason="x86-64 only"),
              pytest.mark.skipif(not JAVAS or not shutil.which("javac"), reason="no JDK"),
              pytest.mark.skipif(not may_sample(), reason="BPF programs may not be loaded here")]

# Each function's share of the CPU time is measured by the program itself. What it calls in between is not inlined.
SPLIT = """
import java.lang.management.*;

public class Split {
    static final ThreadMXBean CLOCK = ManagementFactory.getThreadMXBean();
    static final long[] spent = new long[3];
    static volatile long sink;
    static long sixty(int n) {
        long x = 0;
        for (int i = 0; i < n; i++) x = (x * 31 + i) ^ (x >>> 3);
        return x;
    }
    static long thirty(int n) { long x = 1; for (int i = 0; i < n; i++) x = (x * 31 + i) ^ (x >>> 3); return x; }
    static long ten(int n) { long x = 2; for (int i = 0; i < n; i++) x = (x * 31 + i) ^ (x >>> 3); return x; }
    static void turn(int k) {
        long a = CLOCK.getCurrentThreadCpuTime();
        sink += sixty(6 * k);
        long b = CLOCK.getCurrentThreadCpuTime();
        sink += thirty(3 * k);
        long c = CLOCK.getCurrentThreadCpuTime();
        sink += ten(k);
        long d = CLOCK.getCurrentThreadCpuTime();
        spent[0] += b - a;
        spent[1] += c - b;
        spent[2] += d - c;
    }
    public static void main(String[] a) throws Exception {
        int k = Integer.parseInt(a[0]);
        for (int i = 0; i < 20; i++) turn(k);
        System.out.println("ready");
        System.in.read();
        java.util.Arrays.fill(spent, 0);
        long end = CLOCK.getCurrentThreadCpuTime() + (long) (Double.parseDouble(a[1]) * 1e9);
        while (CLOCK.getCurrentThreadCpuTime() < end) turn(k);
        System.out.println(spent[0] + " " + spent[1] + " " + spent[2]);
    }
}
"""

TIERS = {"interpreter": (["-Xint"], 3000), "C1": (["-XX:TieredStopAtLevel=1"], 60000),
         "C2": (["-XX:-TieredCompilation"], 60000), "default": ([], 60000)}


def each_java():
    for version in JAVAS:
        yield pytest.param(version, id=version, marks=[] if version == "system" else pytest.mark.slow)


def tiers():
    for version in JAVAS:
        for tier in TIERS:
            quick = version == "system" and tier in ("interpreter", "default")
            yield pytest.param(version, tier, id=f"{version}-{tier}", marks=[] if quick else pytest.mark.slow)


def record_from_ready(tmp_path, command, rate=499, form="folded", options=()):
    """Records a program from when it says that it is ready until it ends; what it prints then."""
    out = tmp_path / f"out.{form}"
    p = subprocess.Popen([str(c) for c in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=tmp_path)
    r = None
    try:
        assert p.stdout.readline() == "ready\n"
        r = subprocess.Popen([WICK, "record", "-F", str(rate), "-d", "120s", "-o", out, *options, "-p", str(p.pid)], stderr=subprocess.PIPE, text=True)
        wait_for(lambda: is_sampling(r.pid) or r.poll() is not None, why="nothing is sampled")
        p.stdin.write("\n")
        p.stdin.flush()
        printed = p.stdout.read()
        assert p.wait(60) == 0
        r.send_signal(signal.SIGINT)
        assert r.wait(60) == 0, r.stderr.read()
    finally:
        for x in (p, r):
            if x and x.poll() is None:
                x.kill()
                x.wait()
    return out, printed


def stacks(path):
    for line in path.read_text().splitlines():
        stack, _, value = line.rpartition(" ")
        yield stack.split(";"), int(value)


@pytest.mark.parametrize("version, tier", list(tiers()))
def test_shares(tmp_path, version, tier):
    """Methods have the share of the time that the program itself measures, in whole stacks, in the order of the calls."""
    javas.compiled(tmp_path, Split=SPLIT)
    flags, k = TIERS[tier]
    out, printed = record_from_ready(tmp_path, [JAVAS[version], *flags, "-cp", tmp_path, "Split", k, 0.9])
    truth = [int(v) for v in printed.split()]
    names, share, whole, named, total = ("main", "turn", "sixty", "thirty", "ten"), collections.Counter(), 0, 0, 0
    for stack, value in some(list(stacks(out))):
        if "JavaMain" not in stack and "[truncated]" not in stack:
            continue  # other threads
        chain = [f.split(".")[1] for f in stack if f.startswith("Split.")]
        total += value
        whole += value * ("[truncated]" not in stack)
        named += value * (bool(chain) and not any("[unknown]" in f or "[java" in f for f in stack))
        assert chain == [*names[:2], *chain[2:3]][:len(chain)], stack
        if len(chain) == 3:
            share[chain[-1]] += value
    busy = sum(share.values())
    assert whole >= 0.98 * total and named >= 0.95 * total, (whole / total, named / total, total)
    assert busy > 0.9 * total and total > 0.5e9, (busy, total)
    for name, want in some(list(zip(names[2:], (t / sum(truth) for t in truth)))):
        assert abs(share[name] / busy - want) < 0.03 + 3 * math.sqrt(want * (1 - want) / (busy / 1e9 * 499)), (name, share, truth)


def test_old_programs(tmp_path):
    """The programs for kernels without bpf_loop have the same chains."""
    javas.compiled(tmp_path, Split=SPLIT)
    out, _ = record_from_ready(tmp_path, [JAVAS["system"], "-cp", tmp_path, "Split", 60000, 0.5], options=("--via", "old-bpf"))
    got = [(s, v) for s, v in stacks(out) if any(f.startswith("Split.") for f in s)]
    whole = sum(v for s, v in some(got) if s[0] != "[truncated]" and [f for f in s if f.startswith("Split.")][:2] == ["Split.main", "Split.turn"])
    assert whole > 0.3e9 and whole > 0.9 * sum(v for _, v in got), whole


@pytest.mark.parametrize("version", list(each_java()))
def test_lines(tmp_path, version):
    """Of the bytecode that ran, and of the calls."""
    javas.compiled(tmp_path, Split=SPLIT)
    out, _ = record_from_ready(tmp_path, [JAVAS[version], "-Xint", "-cp", tmp_path, "Split", 3000, 0.6], form="pb.gz")
    text = subprocess.run([WICK, "pprof", "-top", "-lines", "-nodecount=200", out], capture_output=True, text=True, check=True).stdout
    cum = {(function, int(line)): float(whole) for whole, function, line in
           re.findall(r" ([\d.]+)%  (\S+) \S*Split.java:(\d+)", text)}
    assert cum.get(("Split.sixty", 10), 0) > 40 and cum.get(("Split.turn", 17), 0) > 40, text
    assert cum.get(("Split.turn", 19), 0) > 15 and cum.get(("Split.main", 34), 0) > 80, text


NATIVE = """
public class Native {
    interface Reader { int read(byte[] b) throws Exception; }
    static void inLambda(Reader r, double seconds) throws Exception {
        long end = System.nanoTime() + (long) (seconds * 1e9);
        byte[] b = new byte[1 << 20];
        while (System.nanoTime() < end) for (int i = 0; i < 10; i++) r.read(b);
    }
    public static void main(String[] a) throws Exception {
        java.io.FileInputStream zero = new java.io.FileInputStream("/dev/zero");
        System.out.println("ready");
        System.in.read();
        inLambda(b -> zero.read(b), Double.parseDouble(a[0]));
    }
}
"""


@pytest.mark.parametrize("version", list(each_java()))
def test_native(tmp_path, version):
    """From Java through a lambda and JNI down to the kernel: each in its place."""
    javas.compiled(tmp_path, Native=NATIVE)
    out, _ = record_from_ready(tmp_path, [JAVAS[version], "-cp", tmp_path, "Native", 1])
    got = list(stacks(out))
    order = ["Native.main", "Native.inLambda", "Native.lambda$main$0", "java.io.FileInputStream.read", "java.io.FileInputStream.readBytes"]
    inside = sum(v for s, v in got if "Native.inLambda" in s)
    whole = sum(v for s, v in some(got) if [f for f in s if f in order] == order and s[0] != "[truncated]" and "JavaMain" in s)
    kernel = sum(v for s, v in got if "vfs_read" in s and order[-1] in s and s.index(order[-1]) < s.index("vfs_read"))
    assert inside > 0.05e9 and whole > 0.9 * inside and kernel > 0.2 * inside, (whole, inside, kernel)
