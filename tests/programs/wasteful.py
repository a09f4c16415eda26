# SPDX-License-Identifier: Apache-2.0
"""Wastes CPU time in one way for some seconds: wasteful.py regexp|json|gc|none SECONDS. For tests of `wick query findings`."""
import gc
import json
import re
import sys
import time


def work(n):
    return sum(i * i for i in range(n))


def waste_regexp():
    for i in range(20):
        re.purge()
        re.compile(r"^(GET|POST) /[a-z]+/([0-9]+)(\?.*)?$").match(f"GET /items/{i}")
    work(200)


def waste_json():
    for i in range(50):
        json.loads(json.dumps({"id": i, "name": "a name", "items": list(range(50)), "price": 9.99}))
    work(1000)


kept = []


def waste_gc():
    if not kept:
        kept.extend([[] for _ in range(5)] for _ in range(100_000))
    gc.collect()
    work(1000)


DATA = bytes(range(100)) * 1000


def waste_none():
    total = 0
    for byte in DATA:  # integers below 257 exist already: nothing is allocated
        total = (total + byte) & 127


waste, end = globals()["waste_" + sys.argv[1]], time.monotonic() + float(sys.argv[2])
while time.monotonic() < end:
    waste()
