# SPDX-License-Identifier: Apache-2.0
"""A service that prices orders; run it with `python -m wick run checkout.py`, or let the host agent sample it. By itself, without a
package, it sends what it sees of its own main thread: folded stacks, as any language can.

    WICK_URL=http://localhost:4040 python3 checkout.py
"""
import collections
import os
import signal
import sys
import threading
import time
import urllib.request

WICK = os.environ.get("WICK_URL", "http://localhost:4040")
HZ = 100
EVERY = float(os.environ.get("WICK_EVERY", "10"))


def price_item(n):
    total = 0
    for i in range(n):
        total = (total * 31 + i) % 1000003
    return total


def encode_order(items):
    return ",".join(str(x) for x in items).encode()


def handle_order(n):
    return encode_order([price_item(2000 + n % 7) for _ in range(20)])


def serve_orders():
    n = 0
    while True:
        handle_order(n)
        n += 1
        time.sleep(0.005)


def stack_of(frame):
    names = []
    while frame:
        names.append(frame.f_code.co_name)
        frame = frame.f_back
    return ";".join(reversed(names))


def profile(stacks):
    """ITIMER_PROF counts the CPU time of the process; the handler runs between two steps of the interpreter."""
    signal.signal(signal.SIGPROF, lambda _, frame: stacks.update([stack_of(frame)]))
    signal.setitimer(signal.ITIMER_PROF, 1 / HZ, 1 / HZ)


def send(stacks):
    start = time.time()
    while True:
        time.sleep(EVERY)
        end = time.time()
        body = "".join(f"{s} {stacks.pop(s)}\n" for s in list(stacks)).encode()
        url = f"{WICK}/ingest?name=checkout-python&format=folded&units=samples&sampleRate={HZ}&from={start:.0f}&until={end:.0f}"
        start = end
        try:
            urllib.request.urlopen(urllib.request.Request(url, body, {"Content-Type": "text/plain"}), timeout=5).close()
        except OSError as e:
            print(f"not sent: {e}", file=sys.stderr)


if __name__ == "__main__":
    if "WICK_URL" in os.environ:
        counted = collections.Counter()
        profile(counted)
        threading.Thread(target=send, args=(counted,), daemon=True).start()
    serve_orders()
