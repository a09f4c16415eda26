"""Symbolised reports, list, weblist, disasm and graphs of `wick pprof` equal pprof's, on binaries compiled here.

C++ and Rust: google/pprof with LLVM's and GNU's tools, which gives inlined calls. Go: `go tool pprof`. A few cases of
each kind run always, all of them (hundreds) with the tests marked slow. Known differences are in docs/pprof-compat.md:
weblist's own style and script, and two bugs of pprof (see `excused`).
"""
import os
import random
import re
import shutil
import subprocess
from pathlib import Path

import pytest

import addressprofile
from go_tools import GO, pprof_command
from wick_tools import ROOT, WICK, compile_program

NATIVE = ["gcc", "gcc-nopie", "gcc-nodebug", "clang", "rust"]
NAMES = {  # expressions for each kind of program
    "rust": ["checkout", "total", "sort", "mix|fold", "merge", "smallsort", "insert", "quicksort"],
    "go": ["main.checkout", "main.*total", "mix", "words", "sort", "strings", "main", "insertionSort"],
    None: ["checkout", "run", "mix", "introsort|heap", "shop", "total", "std::map|_Rb_tree", "c_entry|main"],
}
OPTIONS = {
    "list": ["", "-noinlines", "-sample_index=0", "-focus=checkout", "-unit=us", "-divide_by=2", "-cum", "-functions"],
    "weblist": ["", "-sample_index=0", "-focus=checkout", "-unit=ms", "-divide_by=3"],
    "disasm": ["", "-sample_index=0", "-unit=ms", "-intel_syntax", "-focus=checkout"],
    "top": ["", "-lines", "-addresses", "-files", "-noinlines", "-cum", "-filefunctions", "-symbolize=demangle=full",
            "-symbolize=demangle=templates", "-symbolize=demangle=none", "-symbolize=fastlocal", "-symbolize=none",
            "-symbolize=local", "-symbolize=force", "-focus=checkout", "-hide=std", "-showcolumns -lines",
            "-nodecount=5", "-ignore=sort"],
    "tree": ["", "-lines", "-noinlines", "-focus=checkout", "-nodecount=10", "-cum", "-ignore=sort"],
    "dot": ["", "-lines", "-noinlines", "-focus=checkout", "-nodecount=12", "-filefunctions", "-addresses"],
    "svg": ["-nodecount=8", "-nodecount=6 -focus=checkout", "-nodecount=5 -lines", "-nodecount=7 -noinlines",
            "-nodecount=9 -ignore=sort", "-nodecount=6 -filefunctions", "-nodecount=7 -cum"],
    "traces": ["", "-lines"],
    "raw": [""],
}
LISTED = ("list", "weblist", "disasm")


def cases():
    """(program, profile seed, format, arguments): at least 100 of every format with sources or graphs."""
    for kind in NATIVE + ["go"]:
        for form, options in OPTIONS.items():
            for option in options:
                if form in LISTED:
                    for name in NAMES.get(kind, NAMES[None]):
                        yield kind, 1, form, [f"-{form}={name}", *option.split()]
                else:
                    for seed in (1, 2, 3) if kind != "go" else (1,):
                        yield kind, seed, form, [f"-{form}", *option.split()]
        for name in NAMES.get(kind, NAMES[None]):
            for option in ("", "-lines", "-noinlines"):
                yield kind, 1, "peek", [f"-peek={name}", *option.split()]


ALL = list(cases())
QUICK = [case for form in [*OPTIONS, "peek"] for case in
         random.Random(7).sample([c for c in ALL if c[2] == form and c[0] in ("gcc", "clang", "go")], 5)]


class Bench:
    """Programs, profiles and the two pprofs, made when first needed."""

    def __init__(self, directory):
        self.directory, self.programs, self.profiles, self.google = directory, {}, {}, None

    def oracle(self, kind, arguments=()):
        """google/pprof; for Go programs the toolchain's, but where it reads names again: it has no inlined calls then."""
        google = kind != "go" or any("demangle" in a or "force" in a for a in arguments)
        if not google or not GO:
            return pprof_command()
        if not self.google:
            self.google = self.build_google()
        return [self.google]

    def build_google(self):
        for tool in ("llvm-symbolizer", "objdump", "readelf"):
            if not shutil.which(tool):
                pytest.skip(f"no {tool}")
        goroot = Path(subprocess.run(["go", "env", "GOROOT"], capture_output=True, text=True).stdout.strip())
        vendor, work = goroot / "src/cmd/vendor/github.com", self.directory / "google"
        if not (vendor / "google/pprof/driver").is_dir():
            pytest.skip("this Go has no vendored pprof")
        shutil.copytree(vendor / "google/pprof", work / "pprof")
        shutil.copytree(vendor / "ianlancetaylor/demangle", work / "demangle")
        (work / "demangle/go.mod").write_text("module github.com/ianlancetaylor/demangle\n")
        version = re.search(r"go(\d+\.\d+)", subprocess.run(["go", "version"], capture_output=True, text=True).stdout)
        (work / "pprof/go.mod").write_text(
            f"module github.com/google/pprof\ngo {version.group(1)}\nrequire github.com/ianlancetaylor/demangle v0.0.0\n"
            "replace github.com/ianlancetaylor/demangle => ../demangle\n")
        shutil.copytree(ROOT / "tests/go/googlepprof", work / "pprof/wicktest")
        r = subprocess.run(["go", "build", "-mod=mod", "-o", "../gpprof", "./wicktest"], cwd=work / "pprof",
                           capture_output=True, text=True)
        if r.returncode:
            pytest.skip("google/pprof does not build: " + r.stderr[-300:])
        return str(work / "gpprof")

    def profile(self, kind, seed):
        if kind not in self.programs:
            (self.directory / kind).mkdir()
            self.programs[kind] = compile_program(self.directory / kind, kind)
        if (kind, seed) not in self.profiles:
            path = self.directory / kind / f"{seed}.pb.gz"
            if kind == "go":
                subprocess.run([str(self.programs[kind]), str(path)], check=True, capture_output=True)
            else:
                only = "shop|core.*sort|fold|main" if kind == "rust" else None
                addressprofile.write(self.programs[kind], path, only=only, seed=seed)
            self.profiles[kind, seed] = path
        return self.profiles[kind, seed]


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    return Bench(tmp_path_factory.mktemp("source"))


def run(command, arguments, profile):
    output = Path(str(profile) + ".out")
    output.unlink(missing_ok=True)
    where = [f"-output={output}"] if arguments[0].startswith("-weblist") else []
    env = {**os.environ, "PPROF_TMPDIR": str(profile.parent), "TZ": "UTC"}
    r = subprocess.run([*command, *arguments, *where, str(profile)], capture_output=True, text=True, env=env,
                       cwd=profile.parent, timeout=120)
    text = output.read_text() if where and output.exists() else r.stdout
    return re.sub(r"<(style|script)\b.*?</\1>", "", text, flags=re.S), r.stderr, r.returncode


def garbage_free(text):
    """weblist of Go: without instructions, of which the first of a range may be read from their middle by pprof."""
    return re.sub(r"<span class=asm>.*?</span>\n</span>", "", text, flags=re.S)


def line_words(text):
    """Lines without what depends on their order: the numbers of nodes, the running sum of -top."""
    lines = [re.sub(r"N\d+|node\d+|edge\d+|NN?\d+_\d+", "N", line) for line in text.splitlines()]
    return [re.sub(r"^( *\S+ +\S+%) +\S+%", r"\1", line) for line in lines]


def check(bench, case):
    kind, seed, form, arguments = case
    oracle, profile = bench.oracle(kind, arguments), bench.profile(kind, seed)
    want, want_err, want_code = run(oracle, arguments, profile)
    got, got_err, got_code = run([WICK, "pprof"], arguments, profile)
    if "Failed to compute objdump address" in want_err:
        return  # pprof loses what is within 500 bytes of a mapping's start; wick shows it
    if "-intel_syntax" in arguments and kind == "go":
        return  # go tool pprof cannot; wick asks objdump
    if want_code:
        words = [line for line in want_err.splitlines() if line != f"exit status {want_code}"][-1]
        assert got_code and got_err.splitlines()[-1].removeprefix("pprof: ") == words.removeprefix("pprof: "), arguments
        return
    assert got_code == 0, got_err
    if kind == "go" and form == "weblist" and got != want:
        got, want = garbage_free(got), garbage_free(want)
    wants = {want}
    for _ in range(10):  # pprof walks maps: where entries tie, its order is another each time
        if got in wants:
            return
        wants.add(run(oracle, arguments, profile)[0])
        if len(wants) > 1 and any(sorted(line_words(got)) == sorted(line_words(w)) for w in wants):
            return
    assert got == want, (kind, arguments)


@pytest.mark.parametrize("case", QUICK, ids=lambda c: f"{c[0]}-{c[1]}-{' '.join(c[3])}")
def test_quick(bench, case):
    check(bench, case)


@pytest.mark.slow
@pytest.mark.parametrize("form", [*OPTIONS, "peek"])
def test_all(bench, form):
    mine = [c for c in ALL if c[2] == form]
    failed = []
    if form in ("list", "weblist", "disasm", "svg", "dot", "top", "tree", "peek"):
        assert len(mine) >= 100
    for case in mine:
        try:
            check(bench, case)
        except AssertionError as e:
            failed.append((case, str(e)[:300]))
    assert len(failed) * 100 <= len(mine), failed[:3]
    print(f"{form}: {len(mine) - len(failed)} of {len(mine)} equal")


def test_binary_search_path(bench, tmp_path):
    """PPROF_BINARY_PATH with a folder per build id; a binary that is another one is refused."""
    profile = bench.profile("gcc", 1)
    exe = bench.programs["gcc"]
    there = tmp_path / addressprofile.build_id(exe)
    there.mkdir()
    moved = tmp_path / "moved.pb.gz"
    shutil.copy(exe, there / "program")
    gone = tmp_path / "gone"
    shutil.copy(exe, gone)
    addressprofile.write(gone, moved, seed=1)
    gone.unlink()
    plain = subprocess.run([WICK, "pprof", "-top", str(profile)], capture_output=True, text=True).stdout
    found = subprocess.run([WICK, "pprof", "-top", str(moved)], capture_output=True, text=True,
                           env={**os.environ, "PPROF_BINARY_PATH": str(tmp_path)})
    assert found.stdout.splitlines()[4:] == plain.replace("[gcc]", "[program]").splitlines()[4:]
    lost = subprocess.run([WICK, "pprof", "-top", str(moved)], capture_output=True, text=True,
                          env={**os.environ, "PPROF_BINARY_PATH": str(tmp_path / "nowhere")})
    assert "Local symbolization failed for gone" in lost.stderr
    assert "checkout" not in lost.stdout
    given = subprocess.run([WICK, "pprof", "-top", str(exe), str(moved)], capture_output=True, text=True)
    assert given.stdout.splitlines()[4:] == plain.splitlines()[4:]
