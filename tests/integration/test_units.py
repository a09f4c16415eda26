# SPDX-License-Identifier: Apache-2.0
"""The systemd units: what systemd itself thinks of their exposure."""
import re
import shutil
import subprocess
from pathlib import Path

import pytest

PACKAGING = Path(__file__).resolve().parent.parent.parent / "packaging"


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="needs systemd-analyze")
@pytest.mark.parametrize("unit", ["wick.service", "wick-agent.service"])
def test_exposure(unit, tmp_path):
    text = (PACKAGING / unit).read_text().replace("@bindir@", "/usr/bin").replace("@sysconfdir@", "/etc")
    (tmp_path / unit).write_text(text)
    p = subprocess.run(["systemd-analyze", "security", "--no-pager", "--offline=true", tmp_path / unit], capture_output=True, text=True)
    if "offline" in p.stderr:
        pytest.skip("this systemd-analyze cannot look at a file: " + p.stderr.strip())
    exposure = float(re.search(r"Overall exposure level for [^:]*: ([0-9.]+)", p.stdout).group(1))
    assert exposure <= 2, p.stdout
    assert "Unknown" not in p.stderr, p.stderr
