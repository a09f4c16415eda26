# SPDX-License-Identifier: Apache-2.0
"""The files that are installed are hardened: looked at with readelf and objdump, not believed from the build's options."""
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

WICK = Path(os.environ.get("WICK", "build/src/cli/wick")).resolve()
BUILD = WICK.parents[2]
FILES = {"wick": WICK, "libwick.so": BUILD / "src/sdk/libwick.so", "libwick-preload.so": BUILD / "src/sdk/libwick-preload.so"}
pytestmark = pytest.mark.skipif(not shutil.which("readelf"), reason="no readelf")


def readelf(path, *options):
    return subprocess.run(["readelf", "-W", *options, path], capture_output=True, text=True, check=True,
                          env={**os.environ, "LC_ALL": "C"}).stdout


@pytest.fixture(params=FILES)
def path(request):
    return FILES[request.param]


def test_position_independent(path):
    assert re.search(r"Type:\s+DYN", readelf(path, "-h"))


def test_relocations_are_read_only_and_bound_at_start(path):
    segments = readelf(path, "-l")
    assert "GNU_RELRO" in segments
    assert re.search(r"GNU_STACK\s.*\sRW\s", segments), "the stack is executable"
    assert not re.search(r"LOAD\s.*\sRWE\s", segments), "memory is writable and executable"
    assert re.search(r"BIND_NOW|FLAGS_1.*NOW", readelf(path, "-d"))


def test_stack_protector(path):
    assert "__stack_chk_fail" in readelf(path, "--dyn-syms")


def test_fortified(path):
    """libc's checked functions are called: only -D_FORTIFY_SOURCE with optimization does that."""
    assert re.search(r"__(v?snprintf|memcpy|read|v?sprintf|memmove|fprintf)_chk", readelf(path, "--dyn-syms"))


def test_indirect_branch_targets(path):
    """Functions begin with endbr64. The note that turns the check on needs every object of the C library to have it, too."""
    if "X86-64" not in readelf(path, "-h"):
        pytest.skip("not x86-64")
    if not shutil.which("objdump"):
        pytest.skip("no objdump")
    names = {"wick": "main"}
    text = subprocess.run(["objdump", "-d", "--no-show-raw-insn", f"--disassemble={names.get(path.name, 'wick_start')}", path],
                          capture_output=True, text=True, check=True).stdout
    body = re.search(r"<[\w@.]+>:\n(.*\n)", text)
    assert body and "endbr64" in body.group(1), text[:500]
    notes = readelf(path, "-n")
    start = subprocess.run(["cc", "-print-file-name=crt1.o"], capture_output=True, text=True).stdout.strip()
    if path == WICK and start and "IBT" in readelf(start, "-n"):
        assert "IBT" in notes and "SHSTK" in notes
