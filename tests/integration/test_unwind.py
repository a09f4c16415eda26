# SPDX-License-Identifier: Apache-2.0
"""Unwind tables against `readelf --debug-dump=frames-interp`: every row of every function of real binaries."""
import bisect
import glob
import os
import re
import shutil
import subprocess

import pytest
from wick_tools import ROOT

DUMP = ROOT / os.environ.get("BUILD", "build") / "tests/unit/unwind_dump"
REGS = {"rax": 0, "rdx": 1, "rcx": 2, "rbx": 3, "rsi": 4, "rdi": 5, **{f"r{i}": i for i in range(8, 16)}}

pytestmark = pytest.mark.skipif(not shutil.which("readelf") or os.uname().machine != "x86_64", reason="needs readelf on x86-64")


def table(path):
    out = subprocess.run([DUMP, path], capture_output=True, text=True, check=True).stdout.splitlines()
    stats = dict(zip(("pages", "rows", "rules", "bytes", "unknown"), map(int, out[0].split())))
    pcs, rules = [], []
    for line in out[1:]:
        pc, rule = line.split(" ", 1)
        pcs.append(int(pc, 16))
        rules.append(rule)
    return stats, pcs, rules


def want_cfa(text):
    m = re.fullmatch(r"(\w+)([+-]\d+)", text)
    if not m:
        return None
    reg, off = m.group(1), m.group(2)
    if reg == "rsp":
        return "sp" + off
    if reg == "rbp":
        return "fp" + off
    return f"reg{REGS[reg]}{off}" if reg in REGS else None


def oracle(path):
    """Yields (start, end, signal, rows) per FDE; a row is (pc, {column: text})."""
    p = subprocess.Popen(["readelf", "--debug-dump=frames-interp", path], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                         text=True)
    signal_cies, fde, columns, rows = set(), None, None, []
    for line in p.stdout:
        m = re.match(r'([0-9a-f]{8}) [0-9a-f]+ [0-9a-f]+ (CIE|FDE) ?(.*)', line)
        if m:
            if fde:
                yield (*fde, rows)
            fde, columns, rows = None, None, []
            if m.group(2) == "CIE":
                (signal_cies.add if "S" in m.group(3).split('"')[1] else signal_cies.discard)(m.group(1))
            else:
                r = re.search(r"cie=([0-9a-f]+) pc=([0-9a-f]+)\.\.([0-9a-f]+)", line)
                fde = (int(r.group(2), 16), int(r.group(3), 16), r.group(1) in signal_cies)
        elif line.startswith("   LOC"):
            columns = line.split()[1:]
        elif fde and columns and re.match(r"[0-9a-f]{16} ", line):
            f = re.sub(r"r\d+ \(\w+\)", "other", line).split()
            rows.append((int(f[0], 16), dict(zip(columns, f[1:]))))
    if fde:
        yield (*fde, rows)


def saved(text, ours):
    """Does what readelf says of a register match our token?"""
    if text is None or text in ("u", "s"):
        return ours == "u"
    if text.startswith("c"):
        return ours == text
    return text == "exp" and ours.startswith("e")


def compare(path):
    stats, pcs, rules = table(path)
    checked = unknown = 0
    wrong = []
    seen_to = 0
    for start, end, signal, rows in sorted(oracle(path)):
        if start < seen_to or not start:  # overlapping or discarded: the first one counts
            continue
        seen_to = end
        for i, (pc, cols) in enumerate(rows):
            stop = min(rows[i + 1][0] if i + 1 < len(rows) else end, end)
            if stop <= pc:
                continue
            for at in {pc, stop - 1}:
                checked += 1
                k = bisect.bisect_right(pcs, at) - 1
                rule = rules[k] if k >= 0 else "none+0 fp=u bx=u"
                cfa, fp, bx = rule.split()
                if signal:
                    good = cfa == "signal+0"
                elif cols.get("ra") == "u":
                    good = cfa == "end+0"
                elif cfa == "none+0":
                    unknown += 1
                    continue
                else:
                    want = want_cfa(cols["CFA"])
                    good = (cfa == want if want else cfa.startswith(("plt", "deref"))) and \
                        saved(cols.get("rbp"), fp[3:]) and saved(cols.get("rbx"), bx[3:])
                if not good:
                    wrong.append((hex(at), rule, cols))
    return stats, checked, unknown, wrong


def check(path, max_unknown):
    stats, checked, unknown, wrong = compare(path)
    print(path, stats, "bytes/row", stats["bytes"] / max(stats["rows"], 1), "checked", checked, "unknown", unknown)
    assert not wrong, wrong[:10]
    assert checked > 100
    assert unknown <= max_unknown * checked
    if stats["rows"] > 10000:
        assert stats["bytes"] <= 5 * stats["rows"]


def libc():
    return glob.glob("/lib/*-linux-gnu/libc.so.6")[0]


@pytest.mark.parametrize("name", ["libc", "redis-server", "nginx", "sqlite3"])
def test_rows_equal_readelf(name):
    path = libc() if name == "libc" else shutil.which(name, path=os.environ["PATH"] + ":/usr/sbin")
    if not path:
        pytest.skip(f"{name} is not installed")
    check(path, 0.001)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["python3", "node", "libLLVM", "libcrypto", "libstdc++"])
def test_rows_equal_readelf_large(name):
    found = glob.glob(f"/usr/lib/*-linux-gnu/{name}*.so*") if name.startswith("lib") else [shutil.which(name, path="/usr/bin")]
    if not found or not found[0]:
        pytest.skip(f"{name} is not installed")
    check(os.path.realpath(found[0]), 0.02 if name in ("libcrypto", "node") else 0.001)


def test_debug_frame_only(tmp_path):
    """-fno-asynchronous-unwind-tables leaves .debug_frame; leaf functions there have an empty program."""
    src = tmp_path / "a.c"
    src.write_text("int leaf(int x){return x*3;}\nint mid(int x){volatile int a[100];a[x]=leaf(x);return a[x];}\n"
                   "int main(void){return mid(3);}\n")
    exe = tmp_path / "a"
    subprocess.run(["cc", "-O2", "-g", "-fno-asynchronous-unwind-tables", "-fno-unwind-tables", "-o", exe, src], check=True)
    stats, pcs, rules = table(exe)
    nm = {l.split()[2]: int(l.split()[0], 16) for l in subprocess.run(["nm", exe], capture_output=True, text=True).stdout.splitlines()
          if len(l.split()) == 3}
    for name in ("leaf", "mid", "main"):
        k = bisect.bisect_right(pcs, nm[name]) - 1
        assert rules[k].startswith("sp+8"), (name, rules[k])


ARM_CC = "aarch64-linux-gnu-gcc"


def compare_arm64(path):
    """The same for arm64: CFA, x29 and the return address. An FDE without instructions is as its CIE says: nothing was saved."""
    _, pcs, rules = table(path)
    checked, ends, wrong = 0, [], []
    for start, end, signal, rows in sorted(oracle(path)):
        rows = rows or [(start, {"CFA": "sp+0"})]
        never_saved = all(cols.get("ra", "u") == "u" for _, cols in rows)
        for i, (pc, cols) in enumerate(rows):
            stop = min(rows[i + 1][0] if i + 1 < len(rows) else end, end)
            for at in {pc, stop - 4} if stop > pc else ():
                checked += 1
                rule = rules[bisect.bisect_right(pcs, at) - 1]
                if signal:
                    good = rule.startswith("signal+0")
                elif rule.startswith("end+0"):  # to readelf a return address that is nowhere is as one that was not saved
                    good = never_saved
                    ends.append(at)
                else:
                    cfa = re.sub(r"^x(\d+)", r"reg\1", cols["CFA"].replace("x29", "fp"))
                    fp, ra = (cols.get(x, "u").replace("s", "u") for x in ("x29", "ra"))
                    good = rule == f"{cfa} fp={fp} ra={ra}"
                if not good:
                    wrong.append((hex(at), rule, cols))
    return checked, ends, wrong


@pytest.mark.skipif(not shutil.which(ARM_CC), reason=f"{ARM_CC} is not installed")
@pytest.mark.parametrize("flags", [["-O2"], ["-O2", "-fomit-frame-pointer"], ["-O0"], ["-O2", "-mbranch-protection=standard"],
                                   ["-O2", "-g", "-fno-asynchronous-unwind-tables", "-fno-unwind-tables"]])
def test_arm64_rows_equal_readelf(tmp_path, flags):
    exe = tmp_path / "chain"
    subprocess.run([ARM_CC, *flags, "-o", exe, ROOT / "tests/programs/chain.c"], check=True)
    checked, ends, wrong = compare_arm64(exe)
    start = next(int(x.split()[0], 16) for x in subprocess.run(["nm", exe], capture_output=True, text=True).stdout.splitlines()
                 if x.endswith(" _start"))
    assert not wrong and checked >= 20 and ends and all(start <= at < start + 64 for at in ends), (checked, ends, wrong)


@pytest.mark.skipif(not glob.glob("/usr/aarch64-linux-gnu/lib/libc.so.6"), reason="no arm64 libc")
def test_arm64_libc_rows_equal_readelf():
    checked, ends, wrong = compare_arm64("/usr/aarch64-linux-gnu/lib/libc.so.6")
    unknown = [w for w in wrong if w[1].startswith("none")]  # one function that keeps its return address in x15
    assert len(unknown) <= 4 and len(wrong) == len(unknown) and checked > 20000 and len(ends) < 40, (checked, len(ends), wrong[:10])
