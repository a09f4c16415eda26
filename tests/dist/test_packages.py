# SPDX-License-Identifier: Apache-2.0
"""The packages for Debian and Ubuntu: lintian has nothing to say, they install, upgrade and leave nothing behind on bare systems, and
under a real systemd the services run, sample, reload and are watched."""
import functools
import os
import platform
import re
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from release_tools import ROOT, Bare, need_root

pytestmark = pytest.mark.slow
NAMES = ("wick", "libwick1", "libwick-dev")  # python3-wick needs python3, which bare systems do not have
PYTHON = "python3-wick"


@functools.cache
def packages():
    """The files, by package."""
    p = subprocess.run([ROOT / "packaging/deb/build"], cwd=ROOT, capture_output=True, text=True)
    assert p.returncode == 0, p.stderr[-3000:]
    return {Path(line).name.split("_")[0]: Path(line) for line in p.stdout.splitlines()}


def test_lintian():
    if not shutil.which("lintian"):
        pytest.skip("no lintian")
    p = subprocess.run(["lintian", "--allow-root", "--fail-on", "error,warning", *packages().values()], capture_output=True, text=True)
    assert p.returncode == 0 and not p.stdout, p.stdout + p.stderr
    for package in (*NAMES, PYTHON):  # each override has its reason before it
        path = ROOT / f"packaging/deb/{package}.overrides"
        lines = path.read_text().splitlines() if path.exists() else []
        for before, line in zip([""] + lines, lines):
            assert line.startswith("#") or before.startswith("#"), line


def test_python_package(tmp_path):
    """For the system's Python, and for each other version that was here when it was built."""
    subprocess.run(["dpkg-deb", "-x", packages()[PYTHON], tmp_path / "root"], check=True)
    modules = tmp_path / "root/usr/lib/python3/dist-packages"
    assert list(modules.glob("wick/_wick.cpython-*.so")) and (modules / "opentelemetry/profiling/__init__.py").exists()
    assert not (modules / "opentelemetry/__init__.py").exists()
    (tmp_path / "p.py").write_text("import sys, time, wick\n\ndef spin_here(end):\n    while time.process_time() < end:\n        pass\n\n"
                                   "with wick.ContinuousProfiler(file=sys.argv[1], profile_types=['cpu']):\n    spin_here(time.process_time() + 2)\n")
    subprocess.run(["/usr/bin/python3", tmp_path / "p.py", tmp_path / "out.pb.gz"], check=True, env={"PYTHONPATH": str(modules), "HOME": str(tmp_path)}, cwd=tmp_path)
    top = subprocess.run([ROOT / "build/src/cli/wick", "pprof", "-top", tmp_path / "out.pb.gz"], capture_output=True, text=True, check=True).stdout
    assert re.search(r" (9\d|100)(\.\d+)?% +.*spin_here", top), top
    fields = subprocess.run(["dpkg-deb", "-f", packages()[PYTHON], "Depends"], capture_output=True, text=True, check=True).stdout
    assert "python3 (>= 3.9)" in fields and "libc6" in fields


def files_of(root):
    """What is in the system's folders, but for what dpkg and the tools of users keep of the past."""
    kept = re.compile(r"^(var/lib/dpkg/|var/log/|var/cache/|work/|etc/(passwd|group|shadow|gshadow|subuid|subgid|ld\.so\.cache)|run/|proc/|sys/|dev/|root/)")
    out = set()
    for folder in ("etc", "usr", "var", "opt", "lib", "home"):
        for place, folders, files in os.walk(root / folder):
            out |= {p for n in folders + files if not kept.match(p := str((Path(place) / n).relative_to(root)))}
    return out


def older(file, to):
    """The package as an earlier version would be."""
    shutil.rmtree(to, ignore_errors=True)
    subprocess.run(["dpkg-deb", "-R", file, to], check=True)
    control = to / "DEBIAN/control"
    control.write_text(re.sub(r"^Version: .*", "Version: 0.0.1", control.read_text(), flags=re.M).replace("(= ", "(>= 0.0.1) | x (= "))
    config = to / "etc/wick/wick.yaml"
    if config.exists():
        config.write_text("# as it was shipped in 0.0.1\n")
    subprocess.run(["dpkg-deb", "--root-owner-group", "--build", to, to.with_suffix(".deb")], check=True, capture_output=True)
    return to.with_suffix(".deb").name


@pytest.mark.parametrize("system", ["debian:bullseye", "debian:trixie", "ubuntu:noble"])
def test_install_upgrade_purge(system):
    need_root("debootstrap", "unshare")
    bare = Bare(system)
    before = files_of(bare.path)
    earlier = [older(packages()[n], bare.work / n) for n in NAMES]
    for n in NAMES:
        shutil.copy(packages()[n], bare.work)
    bare.run("dpkg", "-i", *[f"/work/{f}" for f in earlier])
    assert "wick" in bare.run("id", "-un", "wick") and "wick-agent" in bare.run("id", "-un", "wick-agent")
    data = bare.path / "var/lib/wick"
    assert data.stat().st_mode & 0o777 == 0o700 and bare.run("stat", "-c", "%U", "/var/lib/wick").strip() == "wick"
    for unit in ("wick", "wick-agent"):
        assert (bare.path / f"etc/systemd/system/multi-user.target.wants/{unit}.service").is_symlink()
    (data / "kept").write_text("data")
    config = bare.path / "etc/wick/wick.yaml"
    config.write_text("# mine\nretention: {keep: 3d}\n")
    bare.run("dpkg", "--force-confdef", "--force-confold", "-i", *[f"/work/{packages()[n].name}" for n in NAMES])
    assert config.read_text().startswith("# mine") and (data / "kept").read_text() == "data"
    assert bare.run("wick", "serve", "--check", "--config", "/etc/wick/wick.yaml") is not None
    assert bare.run("wick", "--version").split()[1] in packages()["wick"].name
    assert "libwick.so.1" in bare.run("ldconfig", "-p")
    bare.run("dpkg", "-P", *NAMES)
    assert files_of(bare.path) - before == set()
    for user in ("wick", "wick-agent"):
        bare.run("id", user, code=1)


# --- a running system ---
BOOT = ROOT / ".cache/roots/booted"


class Machine:
    """A bare Debian 12 that systemd has booted in a container, without a network."""

    def __init__(self, place):
        need_root("debootstrap", "systemd-nspawn", "nsenter")
        if not (place / ".done").exists():
            shutil.rmtree(place, ignore_errors=True)
            p = subprocess.run(["debootstrap", "--variant=minbase", "--include=systemd,systemd-sysv,dbus", "bookworm", place, "http://deb.debian.org/debian"],
                               capture_output=True, text=True)
            if p.returncode:
                pytest.skip("Debian 12 cannot be fetched here: " + p.stdout[-200:])
            (place / ".done").touch()
        (place / "work").mkdir(exist_ok=True)
        self.path = place
        self.p = subprocess.Popen(["systemd-nspawn", "--quiet", "-D", place, "--register=no", "--keep-unit", "--capability=all", "--private-network",
                                   "--volatile=overlay", "--bind", f"{place}/work:/work", "--system-call-filter=bpf perf_event_open @privileged", "-b"], stdin=subprocess.DEVNULL,
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.leader = self.until(lambda: self.find(), "systemd")
        self.until(lambda: self.run("systemctl", "is-system-running", code=None).strip() in ("running", "degraded"), "booted")

    def find(self):
        assert self.p.poll() is None, "systemd-nspawn ended"
        children = Path(f"/proc/{self.p.pid}/task/{self.p.pid}/children").read_text().split()
        return next((c for c in children if Path(f"/proc/{c}/comm").read_text().strip() == "systemd"), None)

    def until(self, what, why, seconds=120):
        end = time.monotonic() + seconds
        while not (value := what()):
            assert time.monotonic() < end, f"not within {seconds} s: {why}"
            time.sleep(0.5)
        return value

    def run(self, *words, code=0):
        p = subprocess.run(["nsenter", "-t", str(self.leader), "-a", *words], capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL)
        assert code is None or p.returncode == code, f"{words}: {p.returncode}\n{p.stdout}\n{p.stderr}"
        return p.stdout

    def show(self, unit, what):
        return self.run("systemctl", "show", "-p", what, "--value", unit).strip()


@pytest.fixture
def machine():
    m = Machine(Path(os.environ.get("WICK_ROOTS", BOOT.parent)) / BOOT.name)
    yield m
    m.p.terminate()
    m.p.wait(60)


def test_services(machine):
    """Installation starts both; the server has what the agent sampled; a reload is awaited; one that hangs or dies comes back."""
    if platform.machine() != "x86_64":
        pytest.skip("only on x86_64")
    shutil.copy(packages()["wick"], machine.path / "work")
    machine.run("dpkg", "-i", f"/work/{packages()['wick'].name}")
    for unit in ("wick", "wick-agent"):
        machine.until(lambda unit=unit: machine.run("systemctl", "is-active", unit, code=None).strip() == "active", unit)
        assert machine.show(unit, "WatchdogUSec") == "1min"
    assert machine.show("wick", "StatusText") == "http://127.0.0.1:4040"
    machine.run("sh", "-c", "(timeout 120 sh -c 'while :; do :; done' &) </dev/null >/dev/null 2>&1")
    machine.until(lambda: re.search(r"\bcpu\b", machine.run("wick", "query", "services", code=None)), "services in the server")
    log = machine.run("journalctl", "-b", "-u", "wick", "-u", "wick-agent", "--no-pager")
    assert "level=error" not in log and "no CAP_SYSLOG" not in log, log
    machine.run("systemctl", "reload", "wick")
    assert "reloaded" in machine.run("journalctl", "-b", "-u", "wick", "--no-pager")
    first = machine.show("wick", "MainPID")
    machine.run("systemctl", "kill", "-s", "KILL", "wick")
    machine.until(lambda: machine.show("wick", "MainPID") not in ("0", first) and machine.show("wick", "ActiveState") == "active", "started again")
    machine.run("mkdir", "-p", "/run/systemd/system/wick.service.d")
    machine.run("sh", "-c", "printf '[Service]\\nWatchdogSec=3\\n' >/run/systemd/system/wick.service.d/short.conf; systemctl daemon-reload; systemctl restart wick")
    hanging = machine.show("wick", "MainPID")
    machine.run("systemctl", "kill", "-s", "STOP", "wick")
    machine.until(lambda: machine.show("wick", "MainPID") not in ("0", hanging) and machine.show("wick", "ActiveState") == "active", "started again by the watchdog")
    machine.run("dpkg", "-P", "wick")
    machine.run("id", "wick", code=1)
    assert machine.run("systemctl", "list-units", "--all", "wick*", "--no-legend", "--plain").strip() in ("", "wick.slice")
