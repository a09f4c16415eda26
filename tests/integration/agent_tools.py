# SPDX-License-Identifier: Apache-2.0
"""What the tests of the host agent share: whether BPF may be used here, programs, and reading what was recorded."""
import contextlib
import os
import shutil
import socket
import subprocess
import time
from functools import lru_cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
WICK = os.environ.get("WICK", str(ROOT / "build/src/cli/wick"))
PROGRAMS = ROOT / "tests/programs"
GO_LEAF = """var sink int

//go:noinline
func leaf(n int) int {
	x := 0
	for i := 0; i < n; i++ {
		x += i * i
	}
	return x
}
"""

# main.main.func1, main.worker, main.rec 31 times, main.leaf
GO_CHAIN = """
package main

import (
	"fmt"
	"os"
	"syscall"
)

""" + GO_LEAF + """
//go:noinline
func rec(d, n int) int {
	if d == 0 {
		return leaf(n)
	}
	return rec(d-1, n) + 1
}

//go:noinline
func worker(seconds int64) {
	var u syscall.Rusage
	for u.Utime.Sec < seconds {
		syscall.Getrusage(0, &u)
		sink += rec(30, 100000)
	}
}

func main() {
	done := make(chan bool)
	go func() { worker(SECONDS); done <- true }()
	<-done
	fmt.Fprintln(os.Stderr, sink)
}
"""


@lru_cache(None)
def why_not():
    """None when the agent can run here, else why it cannot."""
    p = subprocess.run([WICK, "record", "-a", "-q", "-d", "0.2s", "-o", "-.folded"], capture_output=True, text=True, timeout=60,
                       cwd="/tmp")
    Path("/tmp/-.folded").unlink(missing_ok=True)
    return p.stderr.strip() if "may not be loaded" in p.stderr or "cannot be used" in p.stderr or "no clock" in p.stderr or "cannot be sampled" in p.stderr else None


def needs_bpf():
    if why_not():
        pytest.skip(why_not())


def build(tmp_path, source, name, *flags, compiler="gcc"):
    if not shutil.which(compiler):
        pytest.skip(f"no {compiler}")
    out = tmp_path / name
    subprocess.run([compiler, *flags, "-o", str(out), str(PROGRAMS / source)], check=True)
    return out


def record(tmp_path, *args, rate=999, timeout=120, **more):
    """Runs `wick record` into folded stacks; [(frames from the root, nanoseconds)], the process."""
    out = tmp_path / "recorded.folded"
    out.unlink(missing_ok=True)
    p = subprocess.run([WICK, "record", "-q", "-F", str(rate), "-o", str(out), *map(str, args)], capture_output=True, text=True,
                       timeout=timeout, **more)
    assert p.returncode == 0, p.stderr
    return folded(out), p


def folded(path):
    rows = []
    for line in Path(path).read_text().splitlines():
        stack, value = line.rsplit(" ", 1)
        rows.append((stack.split(";"), int(value)))
    return rows


def count(rows, hz):
    return round(sum(v for _, v in rows) * hz / 1e9)


@contextlib.contextmanager
def agent_to_file(tmp_path, *args, late=0):
    """`wick agent` and a collector behind it, so many seconds late, that writes what arrives, a request a line: (the file, the
    agent)."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    out, config = tmp_path / "out.json", tmp_path / "c.yaml"
    config.write_text(f"""
receivers: {{otlp: {{protocols: {{grpc: {{endpoint: "127.0.0.1:{port}"}}}}}}}}
exporters: {{file: {{path: {out}}}}}
service: {{telemetry: {{metrics: {{level: none}}}}, pipelines: {{profiles: {{receivers: [otlp], exporters: [file]}}}}}}
""")
    agent = subprocess.Popen([WICK, "agent", "--export", f"http://127.0.0.1:{port}", *map(str, args)], stderr=subprocess.DEVNULL)
    time.sleep(late)
    collector = subprocess.Popen([WICK, "collector", "--config", config], stderr=subprocess.DEVNULL)
    try:
        yield out, agent
    finally:
        for p in (agent, collector):
            p.terminate()
            p.wait(20)


def complete_lines(path):
    """Those that are whole: a writer may be at work."""
    text = path.read_text() if path.exists() else ""
    return text[:text.rfind("\n") + 1].splitlines()
