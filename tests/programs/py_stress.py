# SPDX-License-Identifier: Apache-2.0
"""py_stress.py SECONDS [nofork]: everything that changes what the profiler reads, at once, at 1000 samples a second: generators, exceptions,
deep recursion, short threads, code that is compiled and dropped, garbage collection, asyncio, spans, subprocesses, faulthandler,
start and stop. Prints "fine". nofork: without children that are forked while other threads run, which hang in the allocator of
gcc 12's ASan: it does not release its locks in them."""
import asyncio
import contextvars
import faulthandler
import gc
import json
import os
import random
import subprocess
import sys
import threading
import time

import wick

try:
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    trace.set_tracer_provider(TracerProvider())
    span = trace.get_tracer("stress").start_as_current_span
except ImportError:
    import contextlib
    span = contextlib.nullcontext

faulthandler.enable()
sys.setrecursionlimit(5000)
END = time.monotonic() + float(sys.argv[1])
variables = [contextvars.ContextVar(f"v{i}") for i in range(200)]


def running():
    return time.monotonic() < END


def numbers(n):
    for i in range(n):
        try:
            yield i
        except GeneratorExit:
            return


def generators():
    total = sum(x for x in numbers(500))
    half = numbers(100)
    for _, x in zip(range(50), half):
        total += x
    half.close()
    return total


def delegate(n):
    if n:
        yield from delegate(n - 1)
    yield n


def exceptions(n=40):
    if n == 0:
        raise ValueError("the end")
    try:
        exceptions(n - 1)
    except ValueError as e:
        if n % 7 == 0:
            raise KeyError(n) from e
        raise
    finally:
        len(str(n))


def recursion(n):
    return 0 if n == 0 else 1 + recursion(n - 1)


def endless():
    return endless()


def dropped_code(k):
    scope = {}
    exec(compile(f"def f{k % 50}(x):\n" + "    x += 1\n" * (k % 30 + 1) + f"    return [x for x in range({k % 20})]\n", f"<made {k % 100}>", "exec"), scope)
    scope[f"f{k % 50}"](k)


class Cycle:
    def __init__(self):
        self.me = self
        self.data = bytearray(random.randrange(2000))

    def __del__(self):
        generators()


def work(k):
    choice = random.randrange(9)
    if choice == 0:
        generators()
    elif choice == 1:
        list(delegate(60))
    elif choice == 2:
        try:
            exceptions()
        except (KeyError, ValueError):
            pass
    elif choice == 3:
        recursion(random.randrange(900))
    elif choice == 4:
        dropped_code(k)
    elif choice == 5:
        [Cycle() for _ in range(20)]
        if k % 10 == 0:
            gc.collect()
    elif choice == 6:
        for v in variables:
            v.set(k)
    elif choice == 7:
        json.dumps({str(i): [i] * 5 for i in range(100)})
    else:
        sorted(range(500), key=lambda x: -x)


def thread():
    for k in range(random.randrange(1, 30)):
        with span("thread"):
            work(k)


def threads():
    while running():
        batch = [threading.Thread(target=thread) for _ in range(6)]
        for t in batch:
            t.start()
        for t in batch:
            t.join()


async def task(k):
    with span(f"task {k}"):
        for i in range(10):
            work(i)
            await asyncio.sleep(0)


async def tasks():
    while running():
        await asyncio.gather(*[task(k) for k in range(8)])


def forked():
    pid = os.fork()
    if pid == 0:
        signal_end = time.monotonic() + 0.05
        while time.monotonic() < signal_end:
            generators()
        os._exit(0)
    os.waitpid(pid, 0)


def children():
    while running():
        if "nofork" not in sys.argv:
            forked()
        subprocess.run([sys.executable, "-S", "-c", "pass"], check=True)


def profiler():
    kinds = [("cpu",), ("cpu", "wall"), ("cpu", "wall", "alloc", "heap", "lock"), ("heap", "lock")]
    k = 0
    while running():
        p = wick.ContinuousProfiler(exporter=wick.OTLPProfileExporter(endpoint="none"), sample_rate=1000, cpu_budget=1, profile_types=kinds[k % len(kinds)],
                                    alloc_interval=10000, lock_interval=1e-5, native=("extensions", "all", "off")[k % 3])
        p.start()
        until = time.monotonic() + random.random() * 2
        while running() and time.monotonic() < until:
            time.sleep(0.05)
        p.snapshot("cpu" if k % 4 < 3 else "heap")
        p.stop()
        k += 1
    return k


def main():
    helpers = [threading.Thread(target=f) for f in (threads, lambda: asyncio.run(tasks()), children)]
    for t in helpers:
        t.start()
    rounds = threading.Thread(target=profiler)
    rounds.start()
    k = 0
    while running():
        work(k)
        if k % 500 == 0 and sys.version_info < (3, 12):  # later versions count C calls apart
            try:
                endless()
            except RecursionError:
                pass
        k += 1
    for t in [*helpers, rounds]:
        t.join()
    print("fine")


if __name__ == "__main__":
    main()
