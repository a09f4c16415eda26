# SPDX-License-Identifier: Apache-2.0
"""Requests that nobody should send to wick serve: raw bytes for each of its ports, and messages for gRPC."""
import gzip
import struct
import zlib
from wick_tools import SHOP, request


PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


def frame(kind, flags, stream, payload):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def post(path, body, *headers, method="POST"):
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost", f"Content-Length: {len(body)}", *headers]
    return ("\r\n".join(lines) + "\r\n\r\n").encode() + body


def get(path, *headers):
    return ("\r\n".join([f"GET {path} HTTP/1.1", "Host: localhost", *headers]) + "\r\n\r\n").encode()


def mutated(rng, data):
    data = bytearray(data)
    for _ in range(rng.randrange(1, 6)):
        data[rng.randrange(len(data))] = rng.randrange(256)
    return bytes(data)


def broken_http(rng, noise):
    return [
        noise, b"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n", b"GET /" + b"a" * 70000 + b" HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"x: y\r\n" * 20000 + b"\r\n",
        b"POST /ingest HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n",
        b"POST /ingest HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST /v1development/profiles HTTP/1.1\r\nHost: localhost\r\nContent-Length: 60000000\r\n\r\n" + noise,
        b"GET /api/v1/top HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + b"x" * 5000 + b"\r\n\r\n",
        b"GET /%00%ff/..%2f..%2fetc/passwd HTTP/1.1\r\nHost: localhost\r\n\r\n", b"GET /api/v1/top?query=cpu HTTP/1.1\r\nHos",
    ]


def broken_http2(rng, noise):
    return [
        PREFACE + noise, PREFACE + frame(4, 0, 0, b"") + frame(1, 4, 1, noise[:200]),
        PREFACE + b"".join(frame(4, 0, 0, struct.pack(">HI", 3, i)) for i in range(3000)),
        PREFACE + frame(4, 0, 0, b"") + b"".join(frame(6, 0, 0, bytes(8)) for _ in range(3000)),
        PREFACE + frame(4, 0, 0, b"") + b"".join(frame(1, 5, 2 * i + 1, b"\x82\x84\x86") + frame(3, 0, 2 * i + 1, bytes(4)) for i in range(500)),
        PREFACE + frame(4, 0, 0, b"") + frame(1, 0, 1, b"\x83\x84") + b"".join(frame(9, 0, 1, b"\x00\x01a\x01b" * 200) for _ in range(200)),
        PREFACE + frame(0, 0, 77, noise), PREFACE + frame(8, 0, 0, b"\x7f\xff\xff\xff") * 3,
    ]


def broken_bodies(rng, noise):
    good = request(SHOP).SerializeToString()
    bomb = gzip.compress(bytes(80 << 20), 1) if rng.random() < 0.02 else gzip.compress(bytes(1 << 20))
    deep, proto, json = b"[" * 5000, "Content-Type: application/proto", "Content-Type: application/json"
    otlp, packed = "Content-Type: application/x-protobuf", "Content-Encoding: gzip"
    return [
        post("/ingest?name=x&format=pprof", noise), post("/ingest?name=x&format=pprof", zlib.compress(noise)),
        post("/ingest?name=x&format=folded&from=99999999999999999999&until=-1", noise), post("/ingest?name={{{&format=tree", noise),
        post("/push.v1.PusherService/Push", noise, proto), post("/push.v1.PusherService/Push", deep, json),
        post("/querier.v1.QuerierService/Diff", deep, json), post("/querier.v1.QuerierService/SelectSeries", noise, proto),
        post("/querier.v1.QuerierService/" + "x" * 500, b"{}", json),
        post("/mcp", deep), post("/mcp", noise), post("/api/v1/login", noise), post("/api/v1/delete?query={", b""),
        post("/v1development/profiles", mutated(rng, good), otlp), post("/v1development/profiles", gzip.compress(good)[:-9], otlp, packed),
        post("/v1development/profiles", bomb, otlp, packed), post("/v1development/profiles", deep, json),
        post("/v1development/profiles", mutated(rng, good), otlp, "Content-Encoding: br"),
        post("/v1development/profiles", good[: rng.randrange(len(good))], otlp),
    ]


def broken_symbols(rng, noise, binary):
    put = "/api/v1/symbols/" + "ab" * 20
    out = [post(put, b"\x7fELF\2\1\1\0", method="PUT"), post(put + "?offset=-5&size=99999999999999", noise, method="PUT"),
           post("/api/v1/symbols/..%2f..%2fx", noise, method="PUT")]
    if binary:
        out.append(post("/api/v1/symbols/" + binary.build_id, mutated(rng, binary.path.read_bytes()), method="PUT"))
    return out


def broken_questions():
    return [
        get("/api/v1/flame?query=cpu{a=~%22((((a*)*)*)*%22}&from=0&step=-1&max_nodes=99999999999"),
        get("/api/v1/top?query=cpu{" + "a=%22b%22," * 2000 + "}"), get("/api/v1/top?focus=" + "(a|b)*" * 500),
        get("/api/v1/series?query=cpu&from=0&to=now&step=1ns"), get("/api/v1/flame?query=cpu&zoom=" + ";" * 5000),
        get("/api/v1/profile?query=cpu&format=exe"), get("/api/v1/source?file=../../../../etc/shadow"),
        get("/pyroscope/render?query=%00&from=now-999999999y"), get("/pid/1/debug/pprof/profile?seconds=0"),
        get("/api/v1/labels/%ff%fe/values"), get("/api/v1/spans?query=cpu&trace_id=zz"),
    ]


def poison(rng, binary=None):
    """Bytes to send to any of the ports."""
    noise = rng.randbytes(rng.randrange(1, 4096))
    kinds = [lambda: broken_http(rng, noise), lambda: broken_http2(rng, noise), lambda: broken_bodies(rng, noise),
             lambda: broken_symbols(rng, noise, binary), broken_questions]
    return rng.choice(rng.choice(kinds)())


def poison_message(rng):
    """Bytes to send as the message of a gRPC call."""
    good = request(SHOP).SerializeToString()
    return rng.choice([rng.randbytes(rng.randrange(1, 4096)), mutated(rng, good), good[: rng.randrange(len(good))], b"\x0a" * 3000,
                       b"\xff" * 11, good * 3])
