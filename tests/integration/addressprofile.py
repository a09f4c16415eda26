"""Writes pprof profiles that hold nothing but addresses of a binary, as a profiler without symbols would.

The stacks are made up (deterministically) from the instructions of the binary's functions; both tools that are compared
read the same file, so it does not matter that no program ever ran that way.
"""
import gzip
import random
import re
import subprocess

from protobuf_lite import message, number, packed


def functions(exe):
    """{name: [instruction addresses]} of the binary's own code."""
    text = subprocess.run(["objdump", "-d", "--no-show-raw-insn", str(exe)], capture_output=True, text=True).stdout
    found, current = {}, None
    for line in text.splitlines():
        header = re.match(r"^([0-9a-f]+) <(.*)>:$", line)
        if header:
            current = found.setdefault(header.group(2), [])
            continue
        inst = re.match(r"^ +([0-9a-f]+):", line)
        if inst and current is not None:
            current.append(int(inst.group(1), 16))
    return {k: v for k, v in found.items() if len(v) > 3 and "@plt" not in k}


def executable_segment(exe):
    """(is ET_EXEC, vaddr, offset, size) of the first executable PT_LOAD."""
    text = subprocess.run(["readelf", "-hlW", str(exe)], capture_output=True, text=True).stdout
    for line in text.splitlines():
        p = line.split()
        if p and p[0] == "LOAD" and "E" in line[line.rindex("0x") - 6:]:
            return "EXEC (" in text, int(p[2], 16), int(p[1], 16), int(p[5], 16)
    raise AssertionError("no executable segment")


def build_id(exe):
    text = subprocess.run(["readelf", "-nW", str(exe)], capture_output=True, text=True).stdout
    m = re.search(r"Build ID: ([0-9a-f]+)", text)
    return m.group(1) if m else ""


def write(exe, path, only=None, n_samples=150, seed=1, base=0x555555554000, with_id=True):
    """A CPU profile whose addresses are those of functions matching `only`."""
    rnd = random.Random(seed)
    is_exec, vaddr, offset, size = executable_segment(exe)
    page = vaddr & ~0xFFF
    start = page if is_exec else base + page
    limit = (start + (vaddr & 0xFFF) + size + 0xFFF) & ~0xFFF
    shift = start - page
    pool = [v for k, v in sorted(functions(exe).items()) if not only or re.search(only, k)]
    assert pool, only
    strings = ["", "samples", "count", "cpu", "nanoseconds", str(exe), build_id(exe) if with_id else ""]
    locations, samples = {}, []
    for _ in range(n_samples):
        stack = [rnd.choice(rnd.choice(pool)) for _ in range(rnd.randint(1, 6))]
        if rnd.random() < .5:  # some addresses get most of the samples
            stack[0] = pool[len(pool) // 2][min(5, len(pool[len(pool) // 2]) - 1)]
        ids = [locations.setdefault(a + shift, len(locations) + 1) for a in stack]
        count = rnd.randint(1, 9)
        samples.append((ids, [count, count * 10_000_000]))
    out = message(1, number(1, 1) + number(2, 2)) + message(1, number(1, 3) + number(2, 4))
    for ids, values in samples:
        out += message(2, packed(1, ids) + packed(2, values))
    out += message(3, number(1, 1) + number(2, start) + number(3, limit) + number(4, offset & ~0xFFF) + number(5, 5) +
                   number(6, 6 if strings[6] else 0))
    for address, i in locations.items():
        out += message(4, number(1, i) + number(2, 1) + number(3, address))
    for s in strings:
        out += message(6, s.encode())
    out += number(9, 1_700_000_000_000_000_000) + number(10, 10_000_000_000)
    out += message(11, number(1, 3) + number(2, 4)) + number(12, 10_000_000)
    path.write_bytes(gzip.compress(out, mtime=0))
    return path
