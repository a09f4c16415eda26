# SPDX-License-Identifier: Apache-2.0
"""Heap profiles of libwick against exact counts, with glibc's allocator and others; the probes that it fires."""
import os
import re
import shutil
import subprocess

import pytest
from sdk_tools import LIBWICK, needs_go, per_function, top, wick_run

pytestmark = needs_go


def test_heap_totals(program, tmp_path):
    out = tmp_path / "o.pb.gz"
    p = wick_run("-t", "heap", "--alloc-interval", 65536, "-o", out, "--", program("alloc_mix"), 2000000, 20000)
    objects, size, live_objects, live_bytes, small, large = map(int, p.stdout.split()[:6])
    for index, want, limit in (("alloc_space", size, 0.03), ("alloc_objects", objects, 0.03), ("inuse_space", live_bytes, 0.12)):
        _, total = top(out, index)
        assert abs(total / want - 1) < limit, (index, total, want)
    rows, _ = top(out, "alloc_space")
    assert abs(rows["small_alloc"][1] / small - 1) < 0.05
    assert abs(rows["large_alloc"][1] / large - 1) < 0.05


ALLOCATORS = {"glibc": "", "jemalloc": "libjemalloc.so.2", "tcmalloc": "libtcmalloc.so.4"}


@pytest.mark.parametrize("allocator", ALLOCATORS)
@pytest.mark.parametrize("kind", ["malloc", "new"])
def test_heap_per_stack(program, tmp_path, allocator, kind):
    """48 stacks of their own sizes, all four numbers: within 3 standard errors of the truth, as often as chance allows."""
    if ALLOCATORS[allocator] and not shutil.which("ldconfig", path="/sbin:/usr/sbin"):
        pytest.skip("no ldconfig")
    if ALLOCATORS[allocator] and ALLOCATORS[allocator] not in subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True).stdout:
        pytest.skip(f"{allocator} is not installed")
    out, interval = tmp_path / "o.pb.gz", 65536
    p = wick_run("-t", "heap", "--alloc-interval", interval, "-o", out, "--", program("alloc_sites"), interval, 1000000, kind,
                 env={"LD_PRELOAD": ALLOCATORS[allocator]} if ALLOCATORS[allocator] else None)
    truth = {f[0]: list(map(float, f[1:])) for f in (line.split() for line in p.stdout.splitlines())}
    far, compared = [], 0
    for column, index in enumerate(("alloc_objects", "alloc_space", "inuse_objects", "inuse_space")):
        got = per_function(out, index)
        z = [(got.get(site, 0) - t[column]) / t[4 + column] ** 0.5 for site, t in truth.items()
             if t[column] ** 2 > 25 * t[4 + column]]  # of 25 samples or more: fewer are not normally distributed
        far += [(index, round(x, 2)) for x in z if abs(x) > 3]
        compared += len(z)
        assert max(map(abs, z)) < 6, (index, z)
        assert abs(sum(z)) / len(z) ** 0.5 < 5, (index, z)  # no bias
        whole, want = sum(got.values()), sum(t[column] for t in truth.values())
        assert abs(whole - want) < 5 * sum(t[4 + column] for t in truth.values()) ** 0.5, (index, whole, want)
    assert compared > 100
    assert len(far) <= 6, far  # one in 370 is expected, and objects and bytes of a stack go together


@pytest.mark.parametrize("how", ["return", "exit", "handler"])
def test_what_was_in_use_at_the_end_of_main_and_at_the_peak(program, tmp_path, how):
    """Destructors of globals free it before the file is written."""
    out = tmp_path / "o.pb.gz"
    p = wick_run("-t", "heap", "--alloc-interval", "64k", "-o", out, "--", program("heap_ends"), how)
    assert "peak_space" in p.stderr, p.stderr
    rows, total = top(out, "inuse_space")
    assert 30e6 < rows["held"][1] < 50e6 and "passing" not in rows and total < 60e6, (rows, total)
    rows, total = top(out, "peak_space")
    assert 30e6 < rows["held"][1] < 50e6 and 100e6 < rows["passing"][1] < 140e6, rows


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="calls are changed on x86-64 only")
@pytest.mark.parametrize("flags", [(), ("-DMIMALLOC",), ("-no-pie",)])
def test_an_allocator_inside_of_the_program(program, tmp_path, flags):
    """Nothing leads to it by an offset table: the calls themselves are changed."""
    out = tmp_path / "o.pb.gz"
    p = wick_run("-t", "heap", "-o", out, "--alloc-interval", "64k", "--", program("prefixed_alloc", *flags))
    assert "not seen" not in p.stderr, p.stderr
    rows, total = top(out, "inuse_space")
    assert all(15e6 < rows[f][1] < 25e6 for f in ("direct", "pointed")) and "passing" not in rows and total < 45e6, rows
    rows, _ = top(out, "alloc_space")
    assert 65e6 < rows["passing"][1] < 95e6, rows


@pytest.mark.parametrize("mb", [0, 400])
def test_memory_that_no_hook_sees(program, tmp_path, mb):
    """It has a frame of its own and a line on standard error; at least what is beyond all that was ever allocated."""
    out = tmp_path / "o.pb.gz"
    p = wick_run("-t", "heap", "-o", out, "--", program("own_memory"), mb)
    rows, _ = top(out, "inuse_space")
    assert 7e6 < rows["main"][1] < 9e6, rows
    if mb:
        assert 0.4e6 * mb < rows["[unseen]"][1] < 1.05e6 * mb and re.search(r"wick: .*\d+ MiB are not from malloc", p.stderr), (rows, p.stderr)
    else:
        assert "[unseen]" not in rows and "not from malloc" not in p.stderr, (rows, p.stderr)


@pytest.mark.skipif(not shutil.which("strip"), reason="needs binutils")
def test_an_allocator_inside_of_a_stripped_program(program, tmp_path):
    exe, out = tmp_path / "stripped", tmp_path / "o.pb.gz"
    shutil.copy(program("prefixed_alloc", "-DTOUCHED"), exe)
    subprocess.run(["strip", exe], check=True)
    p = wick_run("-t", "heap", "-o", out, "--", exe)
    rows, _ = top(out, "inuse_space")
    assert rows["[unseen]"][1] > 15e6 and "not from malloc" in p.stderr, (rows, p.stderr)


def test_failed_realloc_keeps_its_block(program, tmp_path):
    out = tmp_path / "o.pb.gz"
    wick_run("-t", "heap", "--alloc-interval", 4096, "-o", out, "--", program("realloc_fail"))
    assert top(out, "inuse_space")[0]["keep"][1] == 64 << 20


def test_probes_are_in_the_notes():
    for lib in ("libwick.so", "libwick-preload.so"):
        notes = subprocess.run(["readelf", "-n", LIBWICK / lib], capture_output=True, text=True).stdout
        found = set(re.findall(r"Provider: (\w+)\n\s+Name: (\w+)", notes))
        assert found == {(p, n) for p in ("otel_memory", "ddheap") for n in ("alloc", "free")}, found
        assert re.search(r"Name: alloc\n.*\n\s+Arguments: 8@\S+ 8@\S+ 8@\S+\n", notes)


@pytest.mark.skipif(not shutil.which("gdb"), reason="gdb is the reader")
def test_probes_tell_a_reader_all(program, tmp_path):
    """gdb attaches to the probes as an outside profiler would: every sampled block, its end, its return."""
    script = tmp_path / "script"
    script.write_text("set breakpoint pending on\nset pagination off\nbreak main\nrun\n"
                      "break -probe-stap otel_memory:alloc\ncommands\nsilent\n"
                      'printf "alloc %lu %lu %lu\\n", $_probe_arg0, $_probe_arg1, $_probe_arg2\ncontinue\nend\n'
                      'break -probe-stap otel_memory:free\ncommands\nsilent\nprintf "free %lu\\n", $_probe_arg0\ncontinue\nend\n'
                      "continue\n")
    exe = program("realloc_fail")
    out = subprocess.run(["gdb", "-nx", "-batch", "-x", script, "--args", "env", f"LD_PRELOAD={LIBWICK}/libwick-preload.so",
                          "WICK_TYPES=heap", "WICK_ALLOC_INTERVAL=4096", "WICK_EXPORT=none", exe], capture_output=True, text=True,
                         timeout=120, env={**os.environ, "DEBUGINFOD_URLS": ""}).stdout
    allocs = [tuple(map(int, m)) for m in re.findall(r"^alloc (\d+) (\d+) (\d+)$", out, re.M)]
    frees = [int(m) for m in re.findall(r"^free (\d+)$", out, re.M)]
    big = [a for a in allocs if a[1] == 1 << 20]
    assert len(big) == 128 and all(a[2] == 1 << 20 for a in big), out[-2000:]  # made, and put back after a refused realloc
    assert {a[0] for a in big} <= set(frees) and len({a[0] for a in big}) == 64


def test_own_thread_is_in_no_profile(program, tmp_path):
    """Every allocation is sampled, and the background thread looks up names and fails to connect all the time."""
    out = tmp_path / "o.pb.gz"
    wick_run("-t", "heap,lock", "--alloc-interval", 1, "--export", "http://no-such-host.invalid:4317", "-o", out, "--",
             "sh", "-c", "sleep 1; echo done", env={"WICK_EXPORT_INTERVAL_MS": "100"})
    rows, total = top(out, "alloc_objects")
    assert total > 10 and not {"getaddrinfo", "__getaddrinfo", "gaih_inet", "start_thread"} & rows.keys(), rows


def test_a_real_time_thread_does_not_wait_for_the_tables(program, tmp_path):
    """It outranks the holder of the lock on its processor: yielding for the lock kept the holder from running."""
    longest = []
    while len(longest) < 3 and min(longest, default=100) >= 100:  # a virtual processor may itself be suspended for that long
        p = wick_run("-t", "heap", "--alloc-interval", "64", "-o", tmp_path / "o.pb.gz", "--", program("fifo"))
        if p.stdout == "skip\n":
            pytest.skip("no right to use SCHED_FIFO")
        longest.append(float(p.stdout))
    assert min(longest) < 100, longest
