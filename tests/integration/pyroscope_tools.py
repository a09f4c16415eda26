# SPDX-License-Identifier: Apache-2.0
"""Sends to wick serve and asks it as Pyroscope's clients do."""
import gzip
import json
import time

from pyroscope_messages import M


def pprof(types, samples, period=None, start=None):
    """A pprof message; samples is [(stack, values, labels)], types [(type, unit)]. Written by hand, as no package has profile.proto."""
    strings = [""]

    def string(s):
        if s not in strings:
            strings.append(s)
        return strings.index(s)

    def varint(n):
        out = b""
        while n > 127:
            out, n = out + bytes([n & 127 | 128]), n >> 7
        return out + bytes([n])

    def number(field, n):
        return varint(field << 3) + varint(n)

    def message(field, body):
        return varint(field << 3 | 2) + varint(len(body)) + body

    functions, body = {}, b""
    for t, u in types:
        body += message(1, number(1, string(t)) + number(2, string(u)))
    for stack, values, labels in samples:
        sample = b""
        for name in reversed(stack.split(";")):
            sample += number(1, functions.setdefault(name, len(functions) + 1))
        for v in values:
            sample += number(2, v)
        for k, v in labels.items():
            sample += message(3, number(1, string(k)) + number(2, string(v)))
        body += message(2, sample)
    for name, i in functions.items():
        body += message(4, number(1, i) + message(4, number(1, i) + number(2, 1)))
        body += message(5, number(1, i) + number(2, string(name)))
    if period:
        body += message(11, number(1, string(period[0])) + number(2, string(period[1]))) + number(12, period[2])
    body += number(9, start or time.time_ns() - 5_000_000_000) + number(10, 1_000_000_000)
    return body + b"".join(message(6, s.encode()) for s in strings)


def push(server, profile, **labels):
    m = M["PushRequest"]()
    s = m.series.add()
    for k, v in labels.items():
        s.labels.add(name=k, value=v)
    s.samples.add(raw_profile=gzip.compress(profile))
    status, body = server.get("/push.v1.PusherService/Push", data=m.SerializeToString(), headers={"Content-Type": "application/proto"})
    assert status == 200, body


def hour():
    now = int(time.time() * 1000)
    return {"start": str(now - 3600_000), "end": str(now + 1000)}


def querier_raw(server, method, **fields):
    return server.get("/querier.v1.QuerierService/" + method, data=json.dumps({**hour(), **fields}).encode(),
                      headers={"Content-Type": "application/json"})


def querier(server, method, **fields):
    status, body = querier_raw(server, method, **fields)
    assert status == 200, body
    return json.loads(body)
