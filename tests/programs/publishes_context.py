# SPDX-License-Identifier: Apache-2.0
"""Burns CPU and publishes a process context (OTEP 4719) with wick.profile.types from one CPU second to another:
   publishes_context.py TYPES FROM TO END. Prints user+sys at each of these moments."""
import ctypes
import mmap
import os
import struct
import sys
import time

types, begin, end, last = sys.argv[1], *map(float, sys.argv[2:5])


def field(number, data):
    n, size = len(data), b""
    while n > 127:
        size, n = size + bytes([n & 127 | 128]), n >> 7
    return bytes([number << 3 | 2]) + size + bytes([n]) + data


def payload(value):
    kv = field(1, b"wick.profile.types") + field(2, field(1, value.encode()))
    return field(1, b"") + field(2, kv)


class Context:
    def __init__(self):
        fd = os.memfd_create("OTEL_CTX")
        os.ftruncate(fd, 4096)
        self.map = mmap.mmap(fd, 4096, flags=mmap.MAP_PRIVATE)
        os.close(fd)
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self.map))

    def publish(self, value):
        data = payload(value)
        self.map[16:24] = bytes(8)
        self.map[32:32 + len(data)] = data
        self.map[0:16] = b"OTEL_CTX" + struct.pack("<II", 2, len(data))
        self.map[24:32] = struct.pack("<Q", self.address + 32)
        self.map[16:24] = struct.pack("<Q", time.clock_gettime_ns(time.CLOCK_BOOTTIME))


def burn(until):
    while time.process_time() < until:
        sum(range(1000))
    print(time.process_time(), flush=True)


burn(begin)
context = Context()
context.publish(types)
burn(end)
context.publish("")
burn(last)
time.sleep(60)
