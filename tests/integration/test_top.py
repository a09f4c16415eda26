# SPDX-License-Identifier: Apache-2.0
"""wick top as a person sees it: in a terminal of 80 columns, by its keys, and as text and JSON."""
import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time

import pytest
from agent_tools import WICK, build, needs_bpf
from wick_tools import some


NO_FP = ["-O2", "-fomit-frame-pointer"]


@pytest.fixture(autouse=True)
def bpf():
    needs_bpf()


@pytest.fixture
def busy(tmp_path):
    """Two processes of one program."""
    exe = build(tmp_path, "chain.c", "top_chain", *NO_FP)
    two = [subprocess.Popen([exe, "5", "120"], stdout=subprocess.DEVNULL) for _ in range(2)]
    yield two
    for p in two:
        p.kill()
        p.wait()


class Terminal:
    """A terminal with just what wick top writes: home, clear to the end of line or screen, the second screen."""

    def __init__(self, *words, columns=80, rows=24):
        self.columns, self.rows = columns, rows
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execv(WICK, [str(WICK), "top", *map(str, words)])
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.raw = ""
        self.code = None

    def read(self, seconds):
        end = time.time() + seconds
        while (left := end - time.time()) > 0:
            if select.select([self.fd], [], [], left)[0]:
                try:
                    self.raw += os.read(self.fd, 65536).decode()
                except OSError:
                    return

    def screen(self):
        """The lines of the last whole picture."""
        pictures = self.raw.split("\x1b[H")
        whole = [p for p in pictures[1:] if "\x1b[J" in p]
        return whole[-1].split("\x1b[J")[0].replace("\x1b[K", "").split("\r\n") if whole else []

    def until(self, what, seconds=60):
        end = time.time() + seconds
        while not what(self.screen()):
            assert time.time() < end, "\n".join(self.screen()) or self.raw
            self.read(0.2)
        return self.screen()

    def press(self, keys):
        os.write(self.fd, keys.encode())

    def end(self):
        end = time.time() + 30
        while time.time() < end:
            self.read(0.1)
            time.sleep(0.01)
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                return os.waitstatus_to_exitcode(status)
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        raise AssertionError("wick top did not end")


def pids_of(lines, function):
    return [re.match(r" *(\S+)", line)[1] for line in lines if re.search(rf" {function} ", line)]


def test_keys(busy):
    t = Terminal("-d", "500ms", "-p", busy[0].pid, "-p", busy[1].pid)
    lines = t.until(lambda s: pids_of(s, "leaf") == ["(2)"])
    assert re.match(r" +PID +SELF% +TOTAL%  FUNCTION +SERVICE$", lines[2]), lines[2]
    assert all(len(line) <= 80 for line in lines) and len(lines) <= 24
    t.press("f")
    lines = t.until(lambda s: any("HOTTEST" in line for line in s) and len(pids_of(s, "leaf")) == 2)
    assert sorted(pids_of(lines, "leaf")) == sorted(str(p.pid) for p in busy)
    t.press("f")
    t.press("t")
    t.until(lambda s: any("THREAD" in line for line in s) and any(re.search(r" leaf +top_chain +top_chain$", line) for line in s))
    t.press("t")
    t.press("/main\r")
    lines = t.until(lambda s: "Filter: /main/." in s[1] and pids_of(s, "main"))
    assert not pids_of(lines, "leaf")
    t.press("/\x7f\x7f\x7f\x7f(\r")
    t.until(lambda s: "(" in s[1] and "missing" in s[1])
    t.press("/\x7f\x7f\x7f\x7f\r")
    t.until(lambda s: pids_of(s, "leaf"))
    t.press("s")
    t.until(lambda s: pids_of(s, "main") and float(s[3].split()[2]) >= float(s[4].split()[2]))  # by TOTAL%
    time.sleep(7)  # the symbolizer process ends when it is idle; wick top does not
    seen = t.screen()[0]
    t.until(lambda s: s[0] != seen)
    t.press("p")
    t.until(lambda s: "Paused." in s[1])
    t.press("h")
    t.until(lambda s: any("q  quit" in line for line in s))
    t.press("x")
    t.until(lambda s: "Paused." in s[1] and pids_of(s, "leaf"))
    t.press("q")
    assert t.end() == 0
    assert t.raw.startswith("\x1b[?1049h") and t.raw.rstrip().endswith("\x1b[?1049l")  # the terminal is as it was


def test_kernel_is_hidden(tmp_path):
    p = subprocess.Popen(["dd", "if=/dev/zero", "of=/dev/null", "bs=1M"], stderr=subprocess.DEVNULL)
    t = Terminal("-d", "500ms", "-p", p.pid)
    try:
        t.until(lambda s: any(re.search(r"vfs_read|ksys_read|do_syscall_64", line) for line in s))
        t.press("k")
        t.until(lambda s: "Kernel functions are hidden." in s[1] and not any("do_syscall_64" in line for line in s[3:]))
        t.press("\x03")
        assert t.end() == 0
    finally:
        p.kill()
        p.wait()


def test_text_and_json(busy):
    pids = [x for p in busy for x in ("-p", str(p.pid))]
    out = subprocess.run([WICK, "top", "-n", "1", "-d", "1s", "--json", "--processes", *pids], capture_output=True, text=True, check=True)
    rows = json.loads(out.stdout)["processes"]
    assert {r["pid"] for r in rows} == {p.pid for p in busy} and all(r["function"] == "leaf" for r in some(rows))
    out = subprocess.run([WICK, "top", "-n", "1", "-d", "1s", "--filter", "main", *pids], capture_output=True, text=True, check=True)
    assert "\x1b" not in out.stdout and pids_of(out.stdout.splitlines(), "main") and not pids_of(out.stdout.splitlines(), "leaf")
    bad = subprocess.run([WICK, "top", "--filter", "("], capture_output=True, text=True)
    assert bad.returncode == 2 and "(" in bad.stderr


def test_inlined_functions(tmp_path):
    """Names as record has them: calls that the compiler inlined are rows of their own."""
    source = tmp_path / "inlined.c"
    source.write_text("static inline __attribute__((always_inline)) void inner_work(volatile long *x) { for (int i = 0; i < 1000; i++) *x += i; }\n"
                      "int main(void) { volatile long x = 0; for (;;) inner_work(&x); }\n")
    subprocess.run(["gcc", "-O1", "-g", "-o", tmp_path / "inlined", source], check=True)
    p = subprocess.Popen([tmp_path / "inlined"])
    t = Terminal("-d", "500ms", "-p", p.pid)
    try:
        lines = t.until(lambda s: any(" inner_work " in line for line in s))
        assert pids_of(lines, "inner_work") == [str(p.pid)]
        t.press("q")
        assert t.end() == 0
        once = subprocess.run([WICK, "top", "-n", "1", "-d", "500ms", "-p", str(p.pid)], capture_output=True, text=True, check=True)
        assert pids_of(once.stdout.splitlines(), "inner_work") == [str(p.pid)], once.stdout
    finally:
        p.kill()
        p.wait()
