# SPDX-License-Identifier: Apache-2.0
"""What the tests of releases share: the archive, built once from this tree, and bare roots of other systems to use it in."""
import functools
import os
import platform
import re
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROOTS = Path(os.environ.get("WICK_ROOTS", ROOT / ".cache/roots"))
ARCH = platform.machine()
LIBC = ROOT / f".cache/libc-bullseye-{ARCH}/link"
# Is given ROOT COMMAND...: mounts what a running system has, in a mount namespace that ends with the command.
ENTER = """
R=$1; shift
mount -t proc proc "$R/proc" && mount --rbind /sys "$R/sys" && mount --rbind /dev "$R/dev" && mount -t tmpfs tmpfs "$R/run" || exit 99
exec chroot "$R" env -i HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$@"
"""


def need_root(*tools):
    if os.geteuid() != 0:
        pytest.skip("needs root")
    for tool in tools:
        if not shutil.which(tool):
            pytest.skip(f"no {tool}")


@functools.cache
def archive():
    """The archive of a release of this tree."""
    p = subprocess.run([ROOT / "packaging/release"], cwd=ROOT, capture_output=True, text=True)
    assert p.returncode == 0, p.stderr[-3000:]
    return Path(re.match(r"(\S+\.tar\.gz):", p.stdout.splitlines()[-1])[1])


def unpack(to):
    """The folder with the archive's content, below to."""
    with tarfile.open(archive()) as tar:
        tar.extractall(to)
    return Path(to) / archive().name.removesuffix(".tar.gz")


class Bare:
    """A root of `debian:bullseye` with nothing but what debootstrap calls minimal; tests work in /work, made anew."""

    def __init__(self, system):
        self.path = ROOTS / system.replace(":", "-")
        p = subprocess.run([ROOT / "tools/fresh", "--bare", system, self.path], capture_output=True, text=True)
        if p.returncode == 3:
            pytest.skip(f"{system} cannot be fetched here")
        assert p.returncode == 0, p.stderr[-2000:]
        self.work = self.path / "work"
        shutil.rmtree(self.work, ignore_errors=True)
        self.work.mkdir()

    def command(self, *words):
        return ["unshare", "--mount", "sh", "-c", ENTER, "sh", str(self.path), *map(str, words)]

    def run(self, *words, code=0, **more):
        p = subprocess.run(self.command(*words), capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL, **more)
        assert code is None or p.returncode == code, f"{words}: {p.returncode}\n{p.stdout}\n{p.stderr}"
        return p.stdout

    def start(self, *words, **more):
        return subprocess.Popen(self.command(*words), text=True, stdin=subprocess.DEVNULL, **more)
