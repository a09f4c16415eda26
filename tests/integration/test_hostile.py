# SPDX-License-Identifier: Apache-2.0
"""64 MiB of messages with nothing in them cost what they weigh, whatever table they would fill."""
import subprocess
import sys

import pytest

from protobuf_lite import message, varint
from wick_tools import WICK

SIZE, MEMORY = 64 << 20, 256 << 20


def fill(entry, wrapped=64):
    return entry * ((SIZE - wrapped) // len(entry))


def inside(*fields):
    """Wraps bytes into messages, outermost first."""
    def wrap(payload):
        for f in reversed(fields):
            payload = message(f, payload)
        return payload
    return wrap


PPROF = b"\x0a\x00\x32\x00"  # a sample type, the empty string
CASES = {
    "otlp resources": lambda: fill(b"\x0a\x00"),
    "otlp scopes": lambda: inside(1)(fill(b"\x12\x00")),
    "otlp profiles": lambda: inside(1, 2)(fill(b"\x12\x00")),
    "otlp samples": lambda: inside(1, 2, 2)(fill(b"\x12\x00")),
    "otlp resource attributes": lambda: inside(1, 1)(fill(b"\x0a\x00")),
    "otlp lines": lambda: inside(2, 2)(fill(b"\x1a\x00")),
    "otlp json samples": lambda: b'{"resourceProfiles":[{"scopeProfiles":[{"profiles":[{"samples":[' + fill(b"{},", 128)[:-1] + b"]}]}]}]}",
    "otlp json profiles": lambda: b'{"resourceProfiles":[{"scopeProfiles":[{"profiles":[' + fill(b"{},", 128)[:-1] + b"]}]}]}",
    "pprof strings": lambda: fill(b"\x32\x00"),
    "pprof samples": lambda: PPROF + fill(b"\x12\x00"),
    "pprof labels": lambda: PPROF + inside(2)(b"\x10\x00" + fill(b"\x1a\x00")),
    "pprof locations": lambda: PPROF + fill(b"\x22\x00"),
    "pprof functions": lambda: PPROF + fill(b"\x2a\x00"),
    "pprof mappings": lambda: PPROF + fill(b"\x1a\x00"),
    "pprof comments": lambda: PPROF + inside(13)(fill(b"\x00")),
    **{f"otlp dictionary {i}": lambda i=i: inside(2)(fill(bytes([i << 3 | 2, 0]))) for i in range(1, 8)},
}


# A process begins with the memory of the one that forked it in its ru_maxrss: a small one has to.
MEASURE = """
import resource, subprocess, sys
p = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
sys.stderr.buffer.write(p.stderr)
print(p.returncode, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024)
"""


def peak(path, *args):
    """(exit status, words, bytes of memory at most) of wick convert."""
    p = subprocess.run([sys.executable, "-c", MEASURE, WICK, "convert", str(path), *args], capture_output=True, text=True)
    status, memory = map(int, p.stdout.split())
    return status, p.stderr, memory


@pytest.mark.parametrize("case", CASES)
def test_empty_messages(tmp_path, case):
    path = tmp_path / "hostile"
    data = CASES[case]()
    assert SIZE - 300 <= len(data) <= SIZE
    path.write_bytes(data)
    code, words, memory = peak(path, str(tmp_path / "out.folded"))
    assert code == 1 and words.startswith("wick convert: ") and len(words.splitlines()) == 1, words
    assert memory < MEMORY, f"{memory >> 20} MiB: {words}"
    path.unlink()


@pytest.mark.parametrize("case, data", [
    ("numbers", lambda: inside(1, 2, 2, 2, 4)(fill(b"\x00"))),
    ("nearly empty stacks", lambda: inside(2)(fill(b"\x3a\x02\x08\x00"))),
    ("nearly empty samples", lambda: PPROF + fill(b"\x12\x02\x10\x00")),
    ("functions", lambda: PPROF + b"".join(message(5, b"\x08" + varint(i)) for i in range(1, 1 << 20))),
])
def test_small_messages(tmp_path, case, data):
    """What is there to be kept may take eight times its size, ten with pprof; never gigabytes."""
    path = tmp_path / "hostile"
    path.write_bytes(data())
    code, words, memory = peak(path, str(tmp_path / "out.folded"))
    assert code in (0, 1), words
    assert memory < 768 << 20, f"{memory >> 20} MiB"
    path.unlink()
