# SPDX-License-Identifier: Apache-2.0
"""The packages for Fedora, RHEL and SUSE: what they contain and need, and that rpm installs, upgrades and erases them. The system that
they are installed into is Debian's, without its knowledge: rpm brings its own database, and runs the scripts in it."""
import functools
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from release_tools import ROOT, Bare, need_root

pytestmark = pytest.mark.slow


@functools.cache
def packages():
    if not shutil.which("rpmbuild"):
        pytest.skip("no rpmbuild")
    p = subprocess.run([ROOT / "packaging/rpm/build"], cwd=ROOT, capture_output=True, text=True)
    assert p.returncode == 0, p.stderr[-3000:]
    return {re.match(r"(.*)-[\d.]+-\d+\.", Path(line).name)[1]: Path(line) for line in p.stdout.splitlines()}


def query(what, package):
    return subprocess.run(["rpm", "-qp", *what, packages()[package]], capture_output=True, text=True, check=True).stdout.splitlines()


def test_contents():
    """The same as in the packages for Debian, in the places of RPM's systems; nothing but libc is needed."""
    assert set(packages()) == {"wick", "wick-libs", "wick-devel"}
    files = {name: set(query(["-l"], name)) for name in packages()}
    assert {"/usr/bin/wick", "/usr/lib/wick/libwick-preload.so", "/usr/lib/systemd/system/wick.service", "/usr/share/man/man1/wick.1",
            "/usr/lib/sysusers.d/wick.conf", "/usr/share/wick/monitoring/wick.rules.yaml", "/etc/wick/wick.yaml"} <= files["wick"]
    assert {"/usr/lib64/libwick.so.1", "/usr/lib64/libwick.so.1.0.0"} <= files["wick-libs"]
    assert {"/usr/include/wick.h", "/usr/lib64/libwick.so", "/usr/lib64/pkgconfig/wick.pc"} <= files["wick-devel"]
    needed = {re.match(r"[\w./+-]+", line)[0] for name in packages() for line in query(["-R"], name)}
    assert not {n for n in needed if re.search(r"\.so", n)} - {"libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1", "libwick.so.1",
                                                               "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}
    assert query(["-c"], "wick") == ["/etc/wick/wick.yaml"]


def test_install_upgrade_erase():
    need_root("debootstrap", "unshare", "rpm")
    bare = Bare("debian:bullseye")
    shutil.rmtree(bare.path / "rpmdb", ignore_errors=True)
    shutil.rmtree(bare.path / "etc/wick", ignore_errors=True)

    def rpm(*words):
        # The dependencies are met by files of Debian, which rpm's database does not have.
        p = subprocess.run(["rpm", f"--root={bare.path}", "--dbpath=/rpmdb", "--nodeps", *words], capture_output=True, text=True)
        assert p.returncode == 0, p.stdout + p.stderr
        return p.stdout

    try:
        rpm("-i", *packages().values())
        number = query(["--qf", "%{VERSION}"], "wick")[0]
        assert number in bare.run("wick", "--version") and bare.run("id", "-un", "wick-agent").strip() == "wick-agent"
        assert bare.run("stat", "-c", "%U %a", "/var/lib/wick").strip() == "wick 700"
        assert "verdict" in bare.run("wick", "doctor", code=None).lower()
        unit = (bare.path / "usr/lib/systemd/system/wick.service").read_text()
        assert "ExecStart=/usr/bin/wick serve" in unit and "/usr/local" not in unit
        config, data = bare.path / "etc/wick/wick.yaml", bare.path / "var/lib/wick/kept"
        config.write_text("# mine\n")
        data.write_text("data")
        rpm("-U", "--force", *packages().values())
        assert config.read_text() == "# mine\n" and data.read_text() == "data"
        rpm("-V", "wick-libs", "wick-devel")
        rpm("-e", "wick-devel", "wick-libs", "wick")
        assert data.read_text() == "data" and not (bare.path / "usr/bin/wick").exists() and not (bare.path / "usr/share/doc/wick").exists()
        assert (bare.path / "etc/wick/wick.yaml.rpmsave").read_text() == "# mine\n"
    finally:
        subprocess.run(["rpm", f"--root={bare.path}", "--dbpath=/rpmdb", "--nodeps", "-e", "wick", "wick-libs", "wick-devel"], capture_output=True)
        for left in ("rpmdb", "etc/wick", "var/lib/wick"):
            shutil.rmtree(bare.path / left, ignore_errors=True)
        bare.run("sh", "-c", "userdel wick; userdel wick-agent; true")
