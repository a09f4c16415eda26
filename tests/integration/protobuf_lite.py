# SPDX-License-Identifier: Apache-2.0
"""Protobuf's wire format, as far as tests write profiles by hand: zeros and empty lists are left out, as proto3 does."""


def varint(v):
    v &= (1 << 64) - 1
    out = bytearray()
    while v > 127:
        out.append(v & 127 | 128)
        v >>= 7
    out.append(v)
    return bytes(out)


def number(field, v):
    return varint(field << 3) + varint(v) if v else b""


def message(field, body):
    return varint(field << 3 | 2) + varint(len(body)) + body


def packed(field, values):
    return message(field, b"".join(map(varint, values))) if values else b""
