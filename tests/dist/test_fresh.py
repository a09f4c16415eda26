# SPDX-License-Identifier: Apache-2.0
"""README's two commands on bare roots of the systems that it names: each has nothing but what debootstrap calls minimal, and everything
else comes from the system's packages. A system that is too old is refused in one line, before anything is installed."""
import shutil
import subprocess

import pytest
from release_tools import ROOT, ROOTS, need_root

pytestmark = pytest.mark.slow


def fresh(system, *command, hours=4):
    need_root("debootstrap")
    place = ROOTS / ("fresh-" + system.replace(":", "-"))
    place.parent.mkdir(parents=True, exist_ok=True)
    p = subprocess.run([ROOT / "tools/fresh", system, place, *command], capture_output=True, text=True, timeout=hours * 3600)
    if p.returncode == 3:
        shutil.rmtree(place, ignore_errors=True)
        pytest.skip(f"{system} cannot be fetched here")
    return p


@pytest.mark.parametrize("system", ["debian:bookworm", "debian:trixie", "ubuntu:noble"])
def test_both_commands(system):
    p = fresh(system, "sh", "-c", "make && make test")
    last = p.stdout.strip().splitlines()[-1]
    assert p.returncode == 0 and " passed, 0 failed" in last, p.stdout[-5000:] + p.stderr[-2000:]


def test_too_old():
    p = fresh("ubuntu:jammy", "make")
    said = [line for line in p.stderr.splitlines() if line.startswith(("tools/deps", "make"))]
    assert p.returncode != 0 and "Ubuntu 22.04" in said[0] and "is too old" in said[0] and "Build on" in said[0], p.stdout + p.stderr
    assert "installing" not in p.stdout
