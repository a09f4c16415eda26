"""Lines and inlined calls equal llvm-symbolizer's on programs compiled here; a stripped Go binary equals go's own tool."""
import collections
import json
import re
import subprocess

import pytest
from wick_tools import ROOT, compile_program, need, some

HELPER = ROOT / "build/tests/unit/symbolize_addresses"


def addresses_of(exe, most):
    text = subprocess.run(["objdump", "-d", "--no-show-raw-insn", str(exe)], capture_output=True, text=True).stdout
    found = re.findall(r"^ +([0-9a-f]+):", text, re.M)
    return found[::max(1, len(found) // most)]


def ours(exe, addresses):
    out = subprocess.run([str(HELPER), str(exe)], input="\n".join(addresses) + "\n", capture_output=True, text=True)
    assert out.returncode == 0, out.stderr
    frames = collections.defaultdict(list)
    for line in out.stdout.splitlines():
        at, rest = line.split("|", 1)
        name, *numbers = rest.rsplit("|", 4)
        frames[at].append((name, *numbers))
    return frames


def llvm(exe, addresses):
    out = subprocess.run(["llvm-symbolizer", "--inlining", "-demangle=false", "--output-style=JSON"],
                         input="".join(f"CODE {exe} 0x{a}\n" for a in addresses), capture_output=True, text=True).stdout
    frames = {}
    for line in out.splitlines():
        answer = json.loads(line)
        frames[answer["Address"][2:]] = [(s["FunctionName"], s["FileName"], str(s["Line"]), str(s["Column"]),
                                          str(s["StartLine"])) for s in answer["Symbol"]]
    return frames


@pytest.mark.parametrize("kind", ["gcc", "gcc-nopie", "gcc-dwarf4", "gcc-nodebug", "gcc-gz", "clang", "rust", "go"])
def test_frames_equal_llvm(tmp_path, kind):
    need("llvm-symbolizer", "objdump")
    exe = compile_program(tmp_path, kind)
    addresses = addresses_of(exe, 6000)
    want, got = llvm(exe, addresses), ours(exe, addresses)
    assert len(want) > 500
    different = [(a, w, got[a]) for a, w in want.items() if got[a] != w and w != [("", "", "0", "0", "0")]]
    assert not different, (len(different), different[:2])
    if kind != "gcc-nodebug":
        assert max(len(f) for f in got.values()) > 2


def test_separate_debug_file(tmp_path):
    need("g++", "objcopy", "strip", "objdump")
    exe = compile_program(tmp_path, "gcc")
    addresses = addresses_of(exe, 500)
    whole = {a: f for a, f in ours(exe, addresses).items() if f[0][2] != "0"}
    subprocess.run(["objcopy", "--only-keep-debug", "gcc", "lines.of-gcc"], cwd=tmp_path, check=True)
    subprocess.run(["strip", "-g", "gcc"], cwd=tmp_path, check=True)
    assert all(f[0][2] == "0" for f in some(ours(exe, addresses).values()))
    subprocess.run(["objcopy", "--add-gnu-debuglink=lines.of-gcc", "gcc"], cwd=tmp_path, check=True)
    got = ours(exe, addresses)
    assert len(whole) > 100 and all(got[a] == f for a, f in whole.items())


def test_gnu_debugdata(tmp_path):
    """The names of a stripped binary that carries MiniDebugInfo, made as Fedora makes it, are those of the whole one."""
    need("g++", "objcopy", "strip", "objdump", "nm", "xz")
    exe = compile_program(tmp_path, "gcc-nodebug")
    addresses = addresses_of(exe, 2000)
    whole = ours(exe, addresses)
    run = lambda *command: subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True).stdout
    exported = set(run("nm", "-D", "--defined-only", "--format=posix", exe.name).split()[::4])
    functions = {line.split()[0] for line in run("nm", "--format=posix", "--defined-only", exe.name).splitlines()
                 if line.split()[1] in "tTwW"}
    (tmp_path / "keep").write_text("\n".join(sorted(functions - exported)))
    run("objcopy", "--only-keep-debug", exe.name, "mini")
    run("objcopy", "-S", "--remove-section=.comment", "--keep-symbols=keep", "mini")
    run("strip", "--strip-all", exe.name)
    assert ours(exe, addresses) != whole
    run("xz", "mini")
    run("objcopy", "--add-section", ".gnu_debugdata=mini.xz", exe.name)
    got = ours(exe, addresses)
    names = lambda frames: {a: f[-1][0] for a, f in frames.items()}
    assert len(names(whole)) > 500
    assert names(got) == names(whole)


def test_split_dwarf(tmp_path):
    """.dwo files: elfutils finds them; names and lines are those of the same program with everything inside."""
    need("objdump", "llvm-symbolizer")
    exe = compile_program(tmp_path, "clang-split")
    addresses = addresses_of(exe, 500)
    got = ours(exe, addresses)
    assert max(len(f) for f in got.values()) > 2
    assert any("checkout" in f[0] for frames in got.values() for f in frames)


def go_addr2line(exe, addresses):
    """{address: (function, file, line of the innermost call)} by Go's own reading of its table."""
    out = subprocess.run(["go", "tool", "addr2line", str(exe)], input="".join(f"0x{a}\n" for a in addresses),
                         capture_output=True, text=True).stdout.splitlines()
    return {a: (out[2 * i], *out[2 * i + 1].rsplit(":", 1)) for i, a in enumerate(addresses) if out[2 * i] != "?"}


@pytest.mark.parametrize("kind", ["go-stripped", "go-pie"])
def test_stripped_go(tmp_path, kind):
    """Function and line as go tool addr2line has them, inlined calls as debug information of the same program has them."""
    need("objdump", "go")
    whole, stripped = compile_program(tmp_path, "go" if kind == "go-stripped" else "go-pie-debug"), compile_program(tmp_path, kind)
    addresses = addresses_of(whole, 3000)
    want, got, debug = go_addr2line(whole, addresses), ours(stripped, addresses), ours(whole, addresses)
    assert len(want) > 1000
    for a, (name, file, line) in want.items():
        assert got[a] and got[a][-1][0] == name, a
        assert got[a][0][1:3] == (file, line if int(line) > 0 else "0"), a
    inlined = [a for a in addresses if a in want and len(debug[a]) > 1]
    assert len(inlined) > 100
    different = [(a, got[a], debug[a]) for a in inlined if [f[:3] for f in got[a]] != [f[:3] for f in debug[a]]]
    assert len(different) <= len(inlined) // 50, (len(different), different[:3])


def test_symbol_table_equals_nm(tmp_path):
    """Without debug information every function's address has nm's name."""
    need("nm")
    exe = compile_program(tmp_path, "gcc-nodebug")
    symbols = collections.defaultdict(set)
    for line in subprocess.run(["nm", str(exe)], capture_output=True, text=True).stdout.splitlines():
        parts = line.split()
        if len(parts) == 3 and parts[1] in "tT":
            symbols[parts[0].lstrip("0")].add(parts[2])
    got = ours(exe, sorted(symbols))
    for address, names in some(symbols.items()):
        assert got[address][0][0] in names


def test_no_binary(tmp_path):
    out = subprocess.run([str(HELPER), str(tmp_path / "nothing")], input="1000\n", capture_output=True, text=True)
    assert out.returncode == 1 and "No such file" in out.stderr
    (tmp_path / "text").write_text("hello, this is no program")
    out = subprocess.run([str(HELPER), str(tmp_path / "text")], input="1000\n", capture_output=True, text=True)
    assert out.returncode == 1 and "not an ELF file" in out.stderr
