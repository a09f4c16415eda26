# SPDX-License-Identifier: Apache-2.0
"""Boots a kernel of tools/kernels under qemu with files and a script of the test's, and returns what the script printed. The
machine has no disk: its root is an initramfs."""
import os
import re
import shutil
import stat
import subprocess
from functools import lru_cache
from pathlib import Path

from wick_tools import ROOT

KERNELS = Path(os.environ.get("WICK_KERNELS", ROOT / ".cache/kernels"))
NAMES = {"amd64": ("5.10", "5.15", "6.1", "6.8", "6.12", "newest"),  # of tools/kernels; Ubuntu's archive for arm64 is another one
         "arm64": ("5.10", "5.15", "6.1", "6.8", "6.12", "6.12-16k", "newest")}
ARCH = {"x86_64": "amd64", "aarch64": "arm64"}.get(os.uname().machine)
QEMU = {"amd64": ["qemu-system-x86_64", "-cpu", "qemu64,-cx16"],  # qemu 7.2 crashes kernels in cmpxchg16b at times
        "arm64": ["qemu-system-aarch64", "-machine", "virt", "-cpu", "max,pauth-impdef=on"]}
CONSOLE = {"amd64": "ttyS0 no_timer_check", "arm64": "ttyAMA0"}  # on a busy machine too few ticks come for the check
# Without cmpxchg16b, kernels since 6.18 allocate nothing where they switch between tasks (kmalloc_nolock), but from slabs that they debug.
APPEND = {("newest", "amd64"): "slab_debug=Z"}

HEAD = """#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev; mount -t tmpfs tmp /tmp
mount -t bpf bpf /sys/fs/bpf 2>/dev/null; mount -t tracefs tracefs /sys/kernel/tracing 2>/dev/null; mkdir -p /dev/pts /run /root /var/lib
mount -t securityfs securityfs /sys/kernel/security 2>/dev/null
ip link set lo up
export HOME=/root PATH=/bin:/usr/bin TMPDIR=/tmp
uname -r >/tmp/release; show() { echo "@BEGIN $1"; cat "$2" 2>/dev/null; echo "@END $1"; }
echo; show release /tmp/release
"""
TAIL = "\necho @DONE; sync; echo o >/proc/sysrq-trigger; sleep 60\n"


@lru_cache(None)
def kernel(name, arch=ARCH):
    """The image of a kernel; None with the reason on stderr if it cannot be had."""
    found = KERNELS / f"{arch}-{name}" / "vmlinuz"
    if found.exists():
        return found
    got = subprocess.run([ROOT / "tools/kernels", KERNELS, name], capture_output=True, text=True, env={**os.environ, "WICK_KERNEL_ARCH": arch})
    return found if found.exists() else print(got.stderr[-400:])


def why_not(name, arch=ARCH):
    """None if the kernel can be booted here, else why it cannot."""
    if arch is None or not shutil.which(QEMU[arch][0]):
        return f"kernel {name} for {arch}: no qemu"
    return None if kernel(name, arch) else f"kernel {name} for {arch} cannot be fetched"


def cpio(files):
    """An initramfs: (path, mode, bytes) in the "newc" format, directories first."""
    out = bytearray()
    for i, (name, mode, data) in enumerate([*files, ("TRAILER!!!", 0, b"")]):
        device = stat.S_ISCHR(mode)
        fields = [i + 1, mode, 0, 0, 1, 0, len(data), 0, 0, 5 if device else 0, 1 if device else 0, len(name) + 1, 0]
        out += b"070701" + b"".join(b"%08x" % f for f in fields) + name.encode() + b"\0"
        out += bytes(-len(out) % 4) + data
        out += bytes(-len(out) % 4)
    return bytes(out)


def image(to, files, script):
    """Writes an initramfs with files {path in it: Path or text}, /bin/busybox among them, which runs the script."""
    data = {dst: src.encode() if isinstance(src, str) else Path(src).read_bytes() for dst, src in files.items()}
    data["/init"] = (HEAD + script + TAIL).encode()
    folders = {str(p) for f in data for p in Path(f).parents} | {"/proc", "/sys", "/dev", "/tmp", "/etc"}
    data["/etc/passwd"] = b"root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n"
    data["/etc/group"] = b"root:x:0:\nnogroup:x:65534:\n"
    data["/etc/hosts"] = b"127.0.0.1 localhost\n"
    entries = [(d.lstrip("/"), 0o40755, b"") for d in sorted(folders) if d != "/"]
    entries += [("dev/console", stat.S_IFCHR | 0o600, b"")]
    entries += [(f.lstrip("/"), 0o100755, bytes_) for f, bytes_ in data.items()]
    to.write_bytes(cpio(entries))
    return to


def boot(name, initrd, arch=ARCH, append=None, cpus=1, megabytes=1536, timeout=3600):
    """What the script printed."""
    append = APPEND.get((name, arch), "") if append is None else append
    command = [*QEMU[arch], "-accel", "tcg,thread=multi", "-m", str(megabytes), "-smp", str(cpus), "-nographic", "-no-reboot", "-nodefaults",
               "-serial", "mon:stdio", "-kernel", kernel(name, arch), "-initrd", initrd, "-append",
               f"console={CONSOLE[arch]} quiet panic=-1 rdinit=/init {append}"]
    p = subprocess.run(command, capture_output=True, timeout=timeout, stdin=subprocess.DEVNULL)
    return p.stdout.decode(errors="replace").replace("\r", "")


def shown(text, name):
    """What `show NAME FILE` showed; None if the script did not come so far."""
    found = re.search(rf"^@BEGIN {re.escape(name)}\n(.*?)^@END {re.escape(name)}$", text, re.S | re.M)
    return found and found.group(1)
