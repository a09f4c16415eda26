# SPDX-License-Identifier: Apache-2.0
"""The agent on older kernels: the programs for those without bpf_loop give the same answers on this one; 5.10 is booted under
qemu."""
import os
import re
import shutil
import stat
import subprocess
from pathlib import Path

import pytest
from agent_tools import ROOT, WICK, build, folded, needs_bpf, record

NO_FP = ["-O2", "-fomit-frame-pointer"]
FRAMES = ["main", "worker"] + ["rec"] * 31 + ["leaf"]


def whole(rows, chain=FRAMES):
    """Nanoseconds in leaf() below the whole chain, and others."""
    good = sum(v for s, v in rows if "leaf" in s and s[0] == "_start" and s[:s.index("leaf") + 1][-len(chain):] == chain)
    return good, sum(v for s, v in rows if "leaf" in s) - good


def test_old_programs_say_the_same(tmp_path):
    """The verifier of this kernel takes them; stacks are the same, to 1,023 frames."""
    needs_bpf()
    exe = build(tmp_path, "chain.c", "chain", *NO_FP)
    for how in ("bpf", "old-bpf"):
        rows, p = record(tmp_path, "--via", how, "--", exe, 30, 0.7)
        good, bad = whole(rows)
        assert not bad and good > 0.3e9, (how, good, bad, p.stderr)
    rows, _ = record(tmp_path, "--via", "old-bpf", "--", exe, 1500, 0.4)
    deep = [s for s, _ in rows if "leaf" in s]
    assert deep and all(s[0] == "[truncated]" and s.count("rec") == 1022 for s in deep)


def test_old_programs_and_python(tmp_path):
    needs_bpf()
    script = tmp_path / "deep.py"
    script.write_text("def f(n):\n    if n: return f(n - 1) + 1\n    return sum(i * i for i in range(30000))\n"
                      "import time\nwhile time.process_time() < 1.5: f(20)\n")
    chains = {}
    for how in ("bpf", "old-bpf"):
        rows, _ = record(tmp_path, "--via", how, "--", shutil.which("python3"), script)
        hot = [(s, v) for s, v in rows if any(x.startswith("f.<locals>") or x == "f" for x in s)]
        chains[how] = sum(v for s, v in hot if s.count("f") == 21 and "<module>" in s) / max(sum(v for _, v in hot), 1)
    assert chains["old-bpf"] > 0.6 and chains["bpf"] > 0.6, chains  # the first samples come before the process has been read


# --- another kernel ---
def libraries(exe):
    return re.findall(r"(/\S+)", subprocess.run(["ldd", exe], capture_output=True, text=True).stdout)


def cpio(files):
    """An initramfs: (path, mode, bytes) in the "newc" format, directories first."""
    out = bytearray()
    for i, (name, mode, data) in enumerate([*files, ("TRAILER!!!", 0, b"")]):
        fields = [i + 1, mode, 0, 0, 1, 0, len(data), 0, 0, 5 if stat.S_ISCHR(mode) else 0, 1 if stat.S_ISCHR(mode) else 0, len(name) + 1, 0]
        out += b"070701" + b"".join(b"%08x" % f for f in fields) + name.encode() + b"\0"
        out += bytes(-len(out) % 4) + data
        out += bytes(-len(out) % 4)
    return bytes(out)


INIT = """#!/bin/sh
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev; mount -t tmpfs tmp /tmp
for depth in 30 1500; do
    /bin/wick record -q -F 199 -o /tmp/$depth.folded -- /bin/chain $depth 3; echo "STATUS $depth $?"
    echo "BEGIN $depth"; cat /tmp/$depth.folded; echo "END $depth"
done
echo o >/proc/sysrq-trigger
sleep 60
"""


def image(tmp_path):
    chain = build(tmp_path, "chain.c", "chain", *NO_FP)
    wick = tmp_path / "wick"
    shutil.copy(WICK, wick)
    subprocess.run(["strip", wick], check=True)
    tools = {"/bin/wick": wick, "/bin/chain": chain} | {f"/bin/{t}": Path(shutil.which(t)) for t in ("sh", "mount", "cat", "sleep")}
    files = {dst: src.read_bytes() for dst, src in tools.items()}
    for src in [*tools.values()]:
        files |= {lib: Path(lib).read_bytes() for lib in libraries(src)}
    files["/init"] = INIT.encode()
    folders = {str(p) for f in files for p in Path(f).parents} | {"/proc", "/sys", "/dev", "/tmp"}
    entries = [(d.lstrip("/"), 0o40755, b"") for d in sorted(folders) if d != "/"]
    entries += [("dev/console", stat.S_IFCHR | 0o600, b"")]
    entries += [(f.lstrip("/"), 0o100755, data) for f, data in files.items()]
    out = tmp_path / "initrd"
    out.write_bytes(cpio(entries))
    return out


@pytest.mark.slow
def test_kernel_5_10(tmp_path):
    if not shutil.which("qemu-system-x86_64") or not shutil.which("apt-get") or os.uname().machine != "x86_64":
        pytest.skip("needs qemu-system-x86_64 and Debian's packages")
    got = subprocess.run([ROOT / "tools/old-kernel", os.environ.get("WICK_KERNELS", ROOT / "build/kernels")], capture_output=True, text=True)
    kernel = got.stdout.strip()
    if got.returncode or not kernel:
        pytest.skip("no kernel: " + got.stderr[-200:])
    p = subprocess.run(["qemu-system-x86_64", "-m", "1536", "-smp", "1", "-nographic", "-no-reboot", "-kernel", kernel, "-initrd",
                        image(tmp_path), "-append", "console=ttyS0 quiet panic=-1 rdinit=/init"], capture_output=True, timeout=900,
                       stdin=subprocess.DEVNULL)
    text = p.stdout.decode(errors="replace").replace("\r", "")
    print(text[-3000:])
    for depth in (30, 1500):
        assert f"STATUS {depth} 0" in text
        out = tmp_path / f"{depth}.folded"
        out.write_text(re.search(rf"BEGIN {depth}\n(.*)END {depth}", text, re.S).group(1))
        rows = folded(out)
        if depth == 30:
            good, bad = whole(rows)
            assert good > 1e9 and not bad, (good, bad)
        else:
            deep = [s for s, _ in rows if "leaf" in s]
            assert deep and all(s[0] == "[truncated]" and s.count("rec") == 1022 for s in deep)
