# SPDX-License-Identifier: Apache-2.0
"""wick pprof against the Go toolchain's pprof, side by side, on profiles made now: random ones and a Go program's own."""
import concurrent.futures
import os
import shutil
import subprocess

import pytest

from pprof_random import profile
from wick_tools import WICK, some


FORMATS = ["-top", "-tree", "-dot", "-traces", "-raw", "-tags", "-comments", "-callgrind", "-peek=.", "-peek=malloc|serve"]
OPTIONS = [
    "", "-cum", "-lines", "-addresses", "-filefunctions", "-noinlines", "-addresses -noinlines", "-lines -showcolumns",
    "-nodecount=7", "-nodecount=30 -cum", "-nodefraction=0.05 -edgefraction=0.02", "-trim=false", "-focus=main|serve",
    "-ignore=malloc", "-hide=^pkg2", "-show=pkg|main", "-show_from=serve", "-prune_from=pkg3", "-focus=pkg -relative_percentages",
    "-tagfocus=route", "-tagfocus=route=/a,/b", "-tagignore=user=u1", "-tagfocus=bytes=1kb:", "-tagfocus=:600b", "-tagshow=route",
    "-taghide=user|bytes", "-tagroot=route,user", "-tagleaf=bytes", "-tagroot=wait -unit=s", "-unit=ms", "-unit=kb", "-unit=auto",
    "-sample_index=0", "-sample_index=0 -mean", "-mean", "-divide_by=3", "-drop_negative", "-compact_labels", "-trim_path=/src",
    "-source_path=/x/dir1", "-symbolize=none", "-symbolize=demangle=full", "-symbolize=demangle=templates",
    "-symbolize=demangle=none", "-add_comment=hi -nodecount=3",
]
# What pprof itself leaves to chance: ties in -peek and -tree of rows that print alike.


@pytest.fixture(scope="module")
def profiles(tmp_path_factory):
    place = tmp_path_factory.mktemp("profiles")
    found = []
    for seed, kind in enumerate(["cpu", "heap", "contention", "odd", "cpu", "heap"]):
        path = place / f"{kind}{seed}.pb.gz"
        path.write_bytes(profile(seed, kind))
        found.append(path)
    return found


def run(command, env):
    p = subprocess.run(command, capture_output=True, env={**os.environ, **env}, timeout=120)
    return p.returncode, p.stdout


def compare(go_pprof, cases, tmp_path):
    env = {"TZ": "UTC", "HOME": "/nonexistent", "PPROF_BINARY_PATH": "/nonexistent", "PPROF_TMPDIR": str(tmp_path)}

    def one(case):
        got, want = run([WICK, "pprof", *case], env), run([*go_pprof, *case], env)
        if got == want:
            return None
        # Once more: does the oracle agree with itself?
        again = run([*go_pprof, *case], env)
        return None if again != want else f"{' '.join(case)}: {first_difference(got, want)}"

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 2) as pool:
        return [x for x in pool.map(one, cases) if x]


def first_difference(got, want):
    if got[0] != want[0]:
        return f"exit status {got[0]}, not {want[0]}"
    for a, b in zip(got[1].splitlines(), want[1].splitlines()):
        if a != b:
            return f"{a!r}, not {b!r}"
    return f"{len(got[1].splitlines())} lines, not {len(want[1].splitlines())}"


def test_random(go_pprof, profiles, tmp_path):
    """Every option, with formats and profiles in turn; -top with all."""
    cases = []
    for i, options in enumerate(OPTIONS):
        cases.append(["-top", *options.split(), str(profiles[i % len(profiles)])])
        for k in range(3):
            cases.append([FORMATS[(i * 3 + k) % len(FORMATS)], *options.split(), str(profiles[(i + k) % len(profiles)])])
    wrong = compare(go_pprof, cases, tmp_path)
    assert not wrong, f"{len(wrong)} of {len(cases)}:\n" + "\n".join(wrong[:10])


def test_several_sources(go_pprof, profiles, tmp_path):
    same = [(profiles[0], profiles[4]), (profiles[1], profiles[5])]
    cases = []
    for a, b in same:
        for fmt in ["-top", "-raw", "-traces", "-tags", "-dot"]:
            cases += [[fmt, str(a), str(b)], [fmt, f"-diff_base={a}", str(b)], [fmt, f"-base={a}", "-normalize", str(b)]]
    wrong = compare(go_pprof, cases, tmp_path)
    assert not wrong, "\n".join(wrong[:10])


def test_unmergeable(go_pprof, profiles, tmp_path):
    assert not compare(go_pprof, [["-top", str(profiles[0]), str(profiles[1])]], tmp_path)


PROGRAM = """
package main
import ("context"; "fmt"; "os"; "runtime"; "runtime/pprof"; "sort"; "strings"; "sync"; "time")
type shape interface { area() float64 }
type square struct{ s float64 }
func (q square) area() float64 { return q.s * q.s }
func inner(n int) []string { var out []string; for i := 0; i < n; i++ { out = append(out, fmt.Sprintf("%d-%s", i, strings.Repeat("x", i%50))) }; return out }
func work(n int) int { l := inner(n); sort.Strings(l); m := map[string]int{}; for i, s := range l { m[s] = i }; return len(m) }
func recurse(d int) int { if d == 0 { return work(200) }; return recurse(d-1) + 1 }
func save(name, kind string) { f, _ := os.Create(name); pprof.Lookup(kind).WriteTo(f, 0); f.Close() }
func main() {
	runtime.MemProfileRate = 512; runtime.SetBlockProfileRate(1); runtime.SetMutexProfileFraction(1)
	f, _ := os.Create("cpu.pb.gz"); pprof.StartCPUProfile(f)
	var wg sync.WaitGroup; var mu sync.Mutex; var sum float64
	for g := 0; g < 3; g++ { wg.Add(1); go func(g int) { defer wg.Done()
		pprof.Do(context.Background(), pprof.Labels("worker", fmt.Sprint(g)), func(context.Context) {
			for t := time.Now(); time.Since(t) < 700*time.Millisecond; { mu.Lock(); sum += square{float64(recurse(g))}.area(); mu.Unlock() } }) }(g) }
	wg.Wait(); pprof.StopCPUProfile(); f.Close(); runtime.GC()
	for _, k := range []string{"heap", "allocs", "block", "mutex", "goroutine", "threadcreate"} { save(k+".pb.gz", k) }
	h, _ := os.Create("heap.txt"); pprof.Lookup("heap").WriteTo(h, 1); h.Close()
}
"""


@pytest.fixture(scope="module")
def go_profiles(tmp_path_factory):
    if not shutil.which("go"):
        pytest.skip("no go")
    place = tmp_path_factory.mktemp("program")
    (place / "main.go").write_text(PROGRAM)
    p = subprocess.run(["go", "run", "main.go"], cwd=place, capture_output=True, text=True)
    if p.returncode:
        pytest.skip("the sample program does not run: " + p.stderr[-200:])
    return sorted(place.glob("*.pb.gz"))


def test_go_program(go_pprof, go_profiles, tmp_path):
    cases = []
    for p in go_profiles:
        for fmt in ["-top", "-tree", "-dot", "-traces", "-raw", "-tags", "-callgrind", "-peek=work|inner|main"]:
            cases.append([fmt, str(p)])
        cases += [["-top", "-cum", "-lines", str(p)], ["-dot", "-lines", "-nodecount=20", str(p)], ["-tree", "-focus=work", str(p)]]
    wrong = compare(go_pprof, cases, tmp_path)
    assert not wrong, f"{len(wrong)} of {len(cases)}:\n" + "\n".join(wrong[:10])


def test_proto_survives(go_pprof, go_profiles, tmp_path):
    """What wick writes, Go's pprof reads as if it were the original."""
    for p in some(go_profiles):
        out = tmp_path / p.name
        subprocess.run([WICK, "pprof", "-proto", "-symbolize=none", f"-output={out}", str(p)], check=True, capture_output=True)
        a, b = (run([*go_pprof, "-raw", "-symbolize=none", str(x)], {"TZ": "UTC"}) for x in (p, out))
        assert a == b, p.name


@pytest.mark.parametrize("commands", ["top 5\ntop5 -cum\ntree 3\nquit\n", "focus=work\ntop\nfocus=\ntop 3\n", "samples\ntop 2\nmean_cpu\ntop 2\n",
                                      "sample_index=0\nlines=true\ntop 4\nfunctions=1\ntop 4\n", ":\no\nhelp top\nhelp focus\nhelp nope\nfoo\nfocus\n",
                                      "top >{out}\ntags worker\npeek work\n"])
def test_shell(go_pprof, go_profiles, tmp_path, commands):
    cpu = next(p for p in go_profiles if p.name == "cpu.pb.gz")
    found = []
    for command in ([WICK, "pprof"], go_pprof):
        text = commands.format(out=tmp_path / "report.txt")
        p = subprocess.run([*command, str(cpu)], input=text.encode(), capture_output=True, timeout=60,
                           env={**os.environ, "TZ": "UTC", "TERM": "dumb"})
        # The Go toolchain's shell prints its prompt into a pipe too; google/pprof's and wick's do not.
        found.append((p.returncode, p.stdout.replace(b"(pprof) ", b""), p.stderr))
    assert found[0] == found[1]
