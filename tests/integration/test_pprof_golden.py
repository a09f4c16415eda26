# SPDX-License-Identifier: Apache-2.0
"""wick pprof against the recorded output of google/pprof: every golden case, byte for byte, stderr and exit status too.

tests/data/pprof-golden.tar.xz is what tools/golden records. More recordings are used where they are found (WICK_SHARED, or
../shared).
"""
import concurrent.futures
import os
import subprocess
import tarfile
from pathlib import Path

import pytest
from wick_tools import ROOT, WICK

SHARED = Path(os.environ.get("WICK_SHARED", ROOT.parent / "shared"))
ARCHIVES = [p for p in (ROOT / "tests/data/pprof-golden.tar.xz", SHARED / "pprof-golden.tar.gz") if p.exists()]


def unpack(archive, place):
    with tarfile.open(archive) as tar:
        tar.extractall(place)
    return place / "pprof-golden" if (place / "pprof-golden").exists() else place


@pytest.fixture(scope="module", params=ARCHIVES, ids=lambda p: p.parent.name)
def golden(request, tmp_path_factory):
    return unpack(request.param, tmp_path_factory.mktemp("golden"))


def environment(tmp):
    return {"PATH": os.environ["PATH"], "TZ": "UTC", "HOME": "/nonexistent", "PPROF_BINARY_PATH": "/nonexistent",
            "LANG": "C.UTF-8", "PPROF_TMPDIR": str(tmp)}


def on_one_line(expected):
    """pprof writes the line end of the name "x\\ny" in syn.names as it is, which forges a row; wick writes it as text."""
    expected = expected.replace(b'label="x\\ly\\n', b'label="x y\\n')
    return expected.replace(b"x\ny", b"x\\x0ay").replace(b"x\\ly", b"x\\\\x0ay")


def run(golden, tmp, args, stdin=None):
    return subprocess.run([WICK, "pprof", *args], cwd=golden, env=environment(tmp), input=stdin or b"",
                          capture_output=True, timeout=60)


def run_case(golden, tmp, case):
    ident, fmt, arg, opts, files, status, kind = case
    options = [] if opts == "-" else opts.split()
    if fmt == "shell":
        p = run(golden, tmp, [*options, *files.split()], (arg.replace(";", "\n") + "\nquit\n").encode())
    elif fmt.endswith("+raw"):
        out = tmp / (ident.replace("/", "_") + ".pb.gz")
        p = run(golden, tmp, [f"-{fmt[:-4]}", *options, f"-output={out}", *files.split()])
        if p.returncode == 0:
            p = run(golden, tmp, ["-raw", "-symbolize=none", str(out)])
    else:
        p = run(golden, tmp, [f"-{fmt}" if arg == "-" else f"-{fmt}={arg}", *options, *files.split()])
    if p.returncode != int(status):
        return f"{ident}: exit status {p.returncode}, not {status}: {p.stderr[-200:]!r}"
    expected = golden / "expected" / ident
    if kind == "sha":
        import hashlib
        if hashlib.sha256(p.stdout).hexdigest() != Path(f"{expected}.sha256").read_text().split()[0]:
            return f"{ident}: stdout differs"
    elif p.stdout != on_one_line(Path(f"{expected}.out").read_bytes()):
        return f"{ident}: stdout differs"
    errors = Path(f"{expected}.err")
    if not fmt.endswith("+raw") and errors.exists() and p.stderr != errors.read_bytes():
        return f"{ident}: stderr differs: {p.stderr[-200:]!r}"
    return None


def test_golden(golden, tmp_path):
    todo = [line.split("\t") for line in (golden / "cases.tsv").read_text().splitlines()]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 2) as pool:
        wrong = [w for w in pool.map(lambda c: run_case(golden, tmp_path, c), todo) if w]
    assert len(todo) > 250
    assert not wrong, f"{len(wrong)} of {len(todo)} differ:\n" + "\n".join(wrong[:20])


def test_upstream(golden, tmp_path):
    """What google/pprof's own tests expect; only the larger recordings have it."""
    cases = golden / "upstream.tsv"
    wrong = []
    for line in cases.read_text().splitlines() if cases.exists() else ():
        name, options, profile = line.split("\t")
        p = run(golden, tmp_path, [*options.split(), profile])
        if p.stdout != (golden / "upstream" / name).read_bytes():
            wrong.append(name)
    assert not wrong
