# SPDX-License-Identifier: Apache-2.0
"""The agent does not read other users' files itself: a confined process does, and its death costs nobody else anything."""
import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest
from agent_tools import WICK, agent_to_file, build, child_pids, cmdline, complete_lines, needs_bpf

CHAIN = ["leaf"] + ["rec"] * 31 + ["worker", "main"]


@pytest.fixture(autouse=True)
def bpf():
    needs_bpf()


def reader_of(agent):
    return next((c for c in child_pids(agent.pid) if b"--tables" in cmdline(c)), None)


def stacks_by_program(line):
    """{service: [stack, innermost first]} of the CPU samples of one request, from the protocol's tables."""
    data = json.loads(line)
    d = data["dictionary"]
    texts = d["stringTable"]

    def name(location):
        lines = d["locationTable"][location].get("lines") or [{}]
        return texts[d["functionTable"][lines[-1].get("functionIndex", 0)].get("nameStrindex", 0)]

    found = {}
    for resource in data["resourceProfiles"]:
        attrs = {a["key"]: a["value"].get("stringValue") for a in resource["resource"]["attributes"]}
        for scope in resource["scopeProfiles"]:
            for p in scope["profiles"]:
                for s in p.get("samples", p.get("sample", [])):
                    stack = d["stackTable"][s.get("stackIndex", 0)]
                    found.setdefault(attrs["service.name"], []).append([name(i) for i in stack.get("locationIndices", [])])
    return found


def whole(stacks):
    """Stacks with the whole known chain."""
    return sum(1 for s in stacks if "leaf" in s and s[s.index("leaf"):][:len(CHAIN)] == CHAIN)


def wait_for(condition, seconds=60):
    end = time.time() + seconds
    while time.time() < end:
        if (value := condition()):
            return value
        time.sleep(0.1)
    raise AssertionError("it did not happen")


def seen(out, name, after):
    """Whole chains of the program in requests after the first so many."""
    return sum(whole(stacks_by_program(line).get(name, [])) for line in complete_lines(out)[after:])


def mapped_files(pid):
    """Files that a process has mapped, and those of them that are loaded as code, which a parser never does."""
    files, code = set(), set()
    for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
        words = line.split(None, 5)
        if len(words) == 6 and words[5].startswith("/"):
            (code if "x" in words[1] else files).add(words[5])
    return files, code


def test_no_foreign_file_is_mapped(tmp_path):
    exe = build(tmp_path, "chain.c", "mapped_chain", "-O2", "-fomit-frame-pointer")
    burner = subprocess.Popen([exe, "30", "120"], stdout=subprocess.DEVNULL)
    mapped, code = set(), set()
    try:
        with agent_to_file(tmp_path, "-F", 99, "--interval", "300ms", "--include", "exe=mapped_chain") as (out, agent):
            def look():
                for _ in range(20):
                    files, loaded = mapped_files(agent.pid)
                    mapped.update(files)
                    code.update(loaded)
                return seen(out, "mapped_chain", 0)

            wait_for(look)
            status = Path(f"/proc/{reader_of(agent)}/status").read_text()
    finally:
        burner.kill()
        burner.wait()
    assert any("wick-unwind-rows" in m for m in mapped), mapped
    own = ("/memfd:wick-", "/usr/lib/locale/", "/dev/zero", "/etc/ld.so.cache")
    assert not {m for m in mapped - code if not m.startswith(own)}
    assert str(exe) not in code
    assert re.search(r"CapEff:\s*0+\n", status) and re.search(r"CapPrm:\s*0+\n", status)
    assert re.search(r"Seccomp:\s*2", status) and re.search(r"NoNewPrivs:\s*1", status)


@pytest.mark.parametrize("how", [signal.SIGSEGV, signal.SIGKILL])
def test_death_of_the_reader(tmp_path, how):
    """It dies before each of the programs is read: their stacks are whole, and so are those of the programs before."""
    names = ["one_chain", "two_chain", "three_chain"]
    flags = ["-O2", "-fomit-frame-pointer"]
    programs = [build(tmp_path, "chain.c", n, *flags, f"-Wl,--build-id=0x{i + 1:08x}") for i, n in enumerate(names)]
    burners, readers = [], set()
    try:
        with agent_to_file(tmp_path, "-F", 99, "--interval", "300ms",
                           *sum((["--include", f"exe={n}"] for n in names), [])) as (out, agent):
            for i, exe in enumerate(programs):
                reader = wait_for(lambda: reader_of(agent))
                readers.add(reader)
                if i:
                    os.kill(reader, how)
                burners.append(subprocess.Popen([exe, "30", "120"], stdout=subprocess.DEVNULL))
                n = len(complete_lines(out))
                wait_for(lambda: all(seen(out, name, n) > 5 for name in names[:i + 1]))
            assert agent.poll() is None and len(readers) == 2 and reader_of(agent) not in readers
    finally:
        for b in burners:
            b.kill()
            b.wait()


def test_dump_opens_foreign_files_and_others_read_them(tmp_path):
    """`wick dump` passes descriptors on: only processes it has started map or read the target's file."""
    exe = build(tmp_path, "chain.c", "dumped_chain", "-O2", "-g", "-fomit-frame-pointer")
    trace = tmp_path / "trace"
    burner = subprocess.Popen([exe, "30", "120"], stdout=subprocess.DEVNULL)
    try:
        p = subprocess.run(["strace", "-f", "-y", "-s0", "-e", "trace=execve,mmap,read,pread64,readv,preadv,sendmsg", "-o", trace, WICK,
                            "dump", str(burner.pid)], capture_output=True, text=True, timeout=120)
        assert p.returncode == 0, p.stderr
    finally:
        burner.kill()
        burner.wait()
    assert "leaf" in p.stdout and "chain.c:" in p.stdout, p.stdout
    readers, first = {}, None
    for line in trace.read_text().splitlines():
        pid, call = line.split(None, 1)
        first = first or pid
        if call.startswith("execve"):
            readers.setdefault(pid, [])
        if re.match(rf"(mmap|p?readv?(64)?)\(.*<{re.escape(str(exe))}>", call):
            readers[pid].append(call)
    assert not readers.pop(first)
    assert sum(map(bool, readers.values())) >= 1, "no process read the file: the trace shows nothing"
