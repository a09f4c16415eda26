"""Demangling equals that of google/pprof's library, on the names of the libraries that are on this machine.

The library is taken from the Go toolchain's own vendored copy, so no network is needed.
"""
import random
import shutil
import subprocess
from pathlib import Path

import pytest
from wick_tools import ROOT, some

HELPER = ROOT / "build/tests/unit/demangle_names"
MODES = ["simple", "templates", "full", "clones"]


@pytest.fixture(scope="module")
def oracle(tmp_path_factory):
    if not shutil.which("go"):
        pytest.skip("no go")
    goroot = subprocess.run(["go", "env", "GOROOT"], capture_output=True, text=True).stdout.strip()
    library = Path(goroot) / "src/cmd/vendor/github.com/ianlancetaylor/demangle"
    if not library.is_dir():
        pytest.skip("this Go has no vendored demangler")
    work = tmp_path_factory.mktemp("demangle")
    shutil.copytree(library, work / "lib")
    (work / "lib/go.mod").write_text("module github.com/ianlancetaylor/demangle\n")
    shutil.copy(ROOT / "tests/go/demangle/main.go", work)
    (work / "go.mod").write_text("module wick.test/demangle\ngo 1.19\nrequire github.com/ianlancetaylor/demangle v0.0.0\n"
                                 "replace github.com/ianlancetaylor/demangle => ./lib\n")
    r = subprocess.run(["go", "build", "-mod=mod", "-o", "oracle", "."], cwd=work, capture_output=True, text=True)
    if r.returncode:
        pytest.skip("the demangler of this Go does not build: " + r.stderr[-200:])
    return work / "oracle"


def symbols(paths):
    names = set()
    for p in paths:
        for flag in ([], ["-D"]):
            out = subprocess.run(["nm", *flag, str(p)], capture_output=True, text=True, errors="replace").stdout
            names |= {line.split()[-1].split("@")[0] for line in out.splitlines() if line}
    return sorted(n for n in names if n.lstrip("_")[:1] in ("Z", "R", "G") and n.startswith("_"))


def libraries(everything):
    found = [p for pattern in ("libstdc++.so.6", "libre2.so.*", "libLLVM-*.so*", "libclang*.so*", "libicu*.so.*")
             for p in sorted(Path("/usr/lib/x86_64-linux-gnu").glob(pattern))]
    rust = Path.home() / ".rustup/toolchains"
    if everything and rust.is_dir():
        found += sorted(rust.rglob("*.rlib"))[:60]
    elif rust.is_dir():
        found += sorted(rust.rglob("libstd-*.rlib"))[:1]
    return [p for p in found if p.is_file()]


def compare(oracle, names, modes=MODES):
    text = "\n".join(names) + "\n"
    for mode in some(modes):
        want, got = (subprocess.run([str(exe), mode], input=text, capture_output=True, text=True, errors="replace",
                                    timeout=600).stdout.splitlines() for exe in (oracle, HELPER))
        different = [(n, w, g) for n, w, g in zip(names, want, got) if w != g]
        assert len(want) == len(got) == len(names)
        # The bar is 99.9 %; on real names there is no difference at all so far.
        assert len(different) * 1000 <= len(names), (mode, different[:5])
        assert not different[:3] or len(names) > 1000, (mode, different[:5])


def test_real_names(oracle):
    names = symbols(libraries(False))
    assert len(names) > 1000
    compare(oracle, names)


@pytest.mark.slow
def test_all_names(oracle):
    compare(oracle, symbols(libraries(True)))


def test_broken_names(oracle):
    """Names with a few characters changed: errors are found at the same places."""
    rnd = random.Random(5)
    names = [n for n in symbols(libraries(False)) if len(n) < 300]
    letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"
    broken = []
    for _ in range(20000):
        s = list(rnd.choice(names))
        for _ in range(rnd.randint(1, 3)):
            at = rnd.randrange(2, len(s)) if len(s) > 3 else 2
            what = rnd.random()
            if what < .4:
                s[at:at + 1] = rnd.choice(letters)
            elif what < .6:
                s[at:at] = rnd.choice(letters)
            elif what < .8:
                del s[at:at + 1]
            else:
                other = rnd.choice(names)
                start = rnd.randrange(len(other))
                s[at:at] = other[start:start + rnd.randint(1, 20)]
        broken.append("".join(s))
    compare(oracle, broken)
