# SPDX-License-Identifier: Apache-2.0
"""Builds that make test does not make compile without a warning: with clang, and without optimisation."""
import os
import re
import subprocess

import pytest

from wick_tools import ROOT, need


@pytest.mark.slow
@pytest.mark.parametrize("compiler,options", [("clang", []), ("gcc", ["-Dbuildtype=debug"])], ids=("clang", "debug"))
def test_compiles_without_warnings(tmp_path, compiler, options):
    need(compiler)
    env = {**os.environ, "CC": compiler, "CXX": {"clang": "clang++", "gcc": "g++"}[compiler]}
    subprocess.run(["meson", "setup", tmp_path, *options], cwd=ROOT, env=env, check=True, capture_output=True)
    p = subprocess.run(["ninja", "-C", tmp_path, "all", "tests"], env=env, capture_output=True, text=True, timeout=3600)
    warnings = re.findall(r"^.*\b(?:warning|error): .*$", p.stdout, re.M)
    assert p.returncode == 0 and not warnings, warnings[:20] or p.stdout[-2000:]
