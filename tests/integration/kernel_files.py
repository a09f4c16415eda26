# SPDX-License-Identifier: Apache-2.0
"""What a machine that is booted needs: programs built for its architecture, with their libraries, and Debian's CPythons."""
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from agent_tools import GO_LEAF
from span_tools import MAIN, PUBLISHER
from wick_tools import BUILD, PROGRAMS, ROOT

CACHE = Path(os.environ.get("WICK_CACHE", ROOT / ".cache"))
NATIVE = {"x86_64": "amd64", "aarch64": "arm64"}.get(os.uname().machine)
NO_FP = ["-O2", "-fomit-frame-pointer"]
SIGNED = ("chain", "interrupted")  # on arm64 with signed return addresses (PAC) and landing pads (BTI)

GO_LABELLED = """package main

import (
	"context"
	"os"
	"runtime/pprof"
	"strconv"
	"time"
)

""" + GO_LEAF + """
//go:noinline
func rec(d int) int {
	if d == 0 {
		return leaf(100000)
	}
	return rec(d-1) + 1
}

//go:noinline
func labelled(end time.Time) {
	for time.Now().Before(end) {
		sink += rec(30)
	}
}

func main() {
	seconds, _ := strconv.ParseFloat(os.Args[1], 64)
	end := time.Now().Add(time.Duration(seconds * 1e9))
	done := make(chan bool)
	go pprof.Do(context.Background(), pprof.Labels("tenant", "acme"), func(context.Context) { labelled(end); done <- true })
	<-done
}
"""

PYTHON_DEEP = """import sys, time
def f(n):
    if n: return f(n - 1) + 1
    return sum(i * i for i in range(3000))
end = time.process_time() + float(sys.argv[1])
while time.process_time() < end: f(20)
"""
UNITS = ("test_elf", "test_python", "test_go_lang", "test_drift_stats")  # what differs between processors
MODULES = ("codecs.py", "abc.py", "io.py")  # and encodings: all that python3 -S imports
PYTHONS = ("3.11", "3.13")


class Arch:
    """One architecture: where its wick, compilers and libraries are."""

    def __init__(self, name):
        self.name, native = name, name == NATIVE
        self.sysroot = None if native else CACHE / name / "root"
        self.machine = {"amd64": "x86_64", "arm64": "aarch64"}[name]
        self.build = BUILD if native else ROOT / f"build-{name}"
        prefix = "" if native else f"{self.machine}-linux-gnu-"
        self.tools = {tool: prefix + tool for tool in ("gcc", "g++", "strip")}

    def why_not(self):
        if not (self.build / "src/cli/wick").exists():
            return f"{self.build.name} is not built: make test-kernels does it"
        return None if shutil.which(self.tools["gcc"]) else f"no {self.tools['gcc']}"

    def compile(self, to, source, name, *flags, compiler="gcc"):
        root = [f"--sysroot={self.sysroot}"] if self.sysroot else []
        signed = ["-mbranch-protection=standard"] if self.name == "arm64" and name in SIGNED else []
        subprocess.run([self.tools[compiler], *root, *signed, *flags, "-o", to / name, PROGRAMS / source,
                        *(["-Wl,--no-as-needed", "-lbpf"] if name == "verify" else [])], check=True)
        return to / name

    def stripped(self, exe, to):
        shutil.copy(exe, to)
        subprocess.run([self.tools["strip"], to], check=True)
        return to

    def libraries(self, *exes, root=None):
        """{path in the machine: file} of the shared libraries of programs, and the loader."""
        folders = [f"usr/lib/{self.machine}-linux-gnu", f"lib/{self.machine}-linux-gnu", "lib64", "lib", "usr/lib64", "usr/lib"]
        root, found, todo = Path(root or self.sysroot or "/"), {}, list(exes)
        while todo:
            text = subprocess.run(["readelf", "-Wdl", todo.pop()], capture_output=True, text=True).stdout
            loader = re.findall(r"program interpreter: (.*)\]", text)
            for path in [f"/lib/{self.machine}-linux-gnu/{n}" for n in re.findall(r"NEEDED.*\[(.*)\]", text)] + loader:
                file = next((root / d / Path(path).name for d in folders if (root / d / Path(path).name).exists()), None)
                if path not in found and file:
                    found[path] = file
                    todo.append(file)
        return found

    def go(self, to):
        if not shutil.which("go"):
            pytest.fail("no go")
        (to / "p.go").write_text(GO_LABELLED)
        subprocess.run(["go", "build", "-ldflags=-s -w", "-o", "golabels", "p.go"], cwd=to, check=True, timeout=600,
                       env={**os.environ, "GOARCH": self.name, "CGO_ENABLED": "0", "GOFLAGS": "-mod=mod"})
        return to / "golabels"

    def pythons(self):
        """{path in the machine: file}: each CPython has a root of its own, with its C library."""
        got = subprocess.run([ROOT / "tools/pythons", CACHE / "pythons"], stdout=subprocess.PIPE, text=True,
                             env={**os.environ, "WICK_KERNEL_ARCH": self.name}).stdout
        roots = dict(line.split() for line in got.splitlines())
        files = {}
        for version in PYTHONS:
            root, name = Path(roots[version]), f"python{version}"
            modules = [f for f in (root / f"usr/lib/{name}").glob("*.py") if f.name in MODULES] + \
                list((root / f"usr/lib/{name}/encodings").glob("*.py"))
            inside = {f"/{f.relative_to(root)}": f for f in modules} | {f"/usr/bin/{name}": root / f"usr/bin/{name}", "/deep.py": PYTHON_DEEP}
            files |= {f"/{name}{path}": f for path, f in {**inside, **self.libraries(inside[f"/usr/bin/{name}"], root=root)}.items()}
        return files

    def clangs(self, to):
        """{path in the machine: file}: the programs as each clang of tools/clangs compiles them."""
        define = {"amd64": ["-D__TARGET_ARCH_x86", "-D__x86_64__"], "arm64": ["-D__TARGET_ARCH_arm64", "-D__aarch64__"]}[self.name]
        subprocess.run(["clang", "-target", "bpf", "-E", *define, f"-I{self.sysroot or ''}/usr/include/{self.machine}-linux-gnu", f"-I{ROOT}/src",
                        f"-I{self.build}/src", ROOT / "src/agent/bpf/agent.bpf.c", "-o", to / "agent.i"], check=True)
        files = {}
        for line in subprocess.run([ROOT / "tools/clangs", CACHE / "clang"], stdout=subprocess.PIPE, text=True).stdout.splitlines():
            version, *command = line.split()
            out = to / f"clang-{version}.o"
            subprocess.run([*command, "-target", "bpf", "-O2", "-g", "-Wall", "-Werror", "-x", "cpp-output", "-c", to / "agent.i", "-o", out], check=True)
            files[f"/clangs/{version}.o"] = out
        return files

    def spans(self, to):
        """{path in the machine: file}: a program with a span of its own, and one whose span a library has."""
        (to / "publisher.c").write_text(PUBLISHER)
        (to / "work.c").write_text(MAIN)
        flags = ["-O1", "-fno-optimize-sibling-calls", "-pthread", "-DTURN_MS=100"]
        library = self.compile(to, to / "publisher.c", "libspan.so", *flags, "-shared", "-fPIC", "-Wl,-soname,libspan.so")
        return {f"/lib/{self.machine}-linux-gnu/libspan.so": library,
                "/bin/spans": self.compile(to, to / "work.c", "spans", *flags, to / "publisher.c", "-Wl,--export-dynamic-symbol=otel_thread_ctx_v1"),
                "/bin/spans_of_library": self.compile(to, to / "work.c", "spans_of_library", *flags, "-Wl,--no-as-needed", library)}

    def everything(self, to, checks):
        """The files of a machine with these checks."""
        busybox = Path(self.sysroot or "/") / "usr/bin/busybox"
        files = {"/bin/busybox": busybox if self.sysroot else Path(shutil.which("busybox")),
                 "/bin/wick": self.stripped(self.build / "src/cli/wick", to / "wick"), "/agent.bpf.o": self.build / "src/agent/bpf/agent.bpf.o",
                 "/bin/verify": self.compile(to, "bpf_verify.c", "verify", "-O1"), "/bin/chain": self.compile(to, "chain.c", "chain", *NO_FP),
                 "/bin/sleeper": self.compile(to, "sleeper.c", "sleeper", "-O2"),
                 "/bin/interrupted": self.compile(to, "interrupted.c", "interrupted", *NO_FP),
                 "/bin/exceptions": self.compile(to, "exceptions.cc", "exceptions", *NO_FP, compiler="g++"),
                 "/usr/bin/setpriv": Path(self.sysroot or "/") / "usr/bin/setpriv"}
        if "run" in checks:
            files["/lib/wick/libwick-preload.so"] = self.stripped(self.build / "src/sdk/libwick-preload.so", to / "preload")
        if "spans" in checks:
            files |= self.spans(to)
        if "units" in checks:
            files |= {f"/units/{name}": self.build / "tests/unit" / name for name in UNITS}
        if "go" in checks:
            files["/bin/golabels"] = self.go(to)
        if "clangs" in checks:
            files |= self.clangs(to)
        return {**self.libraries(*files.values()), **files, **(self.pythons() if "python" in checks else {})}
