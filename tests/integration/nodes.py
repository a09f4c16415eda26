# SPDX-License-Identifier: Apache-2.0
"""The Nodes that tests can run: those of tools/deps, one of each supported line, else the machine's."""
import os
import shutil
from pathlib import Path

PLACE = Path(__file__).resolve().parents[2] / ".cache/node"


def found():
    """{"20.20.2": "/…/node", …}, oldest first."""
    result = {p.parent.parent.name: str(p) for p in PLACE.glob("*/bin/node") if os.access(p, os.X_OK)}
    if not result and shutil.which("node"):
        result["system"] = shutil.which("node")
    return dict(sorted(result.items()))
