# SPDX-License-Identifier: Apache-2.0
"""The messages that Pyroscope's clients and Grafana send and receive, as descriptors for Python's protobuf; pprof files to push."""
import gzip
import time

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

CPU = "process_cpu:cpu:nanoseconds:cpu:nanoseconds"

# name: [(number, field, type, repeated)]; a type in capitals is another message
MESSAGES = {
    "LabelPair": [(1, "name", "string", 0), (2, "value", "string", 0)],
    "Labels": [(1, "labels", "LabelPair", 1)],
    "RawSample": [(1, "raw_profile", "bytes", 0), (2, "ID", "string", 0)],
    "RawProfileSeries": [(1, "labels", "LabelPair", 1), (2, "samples", "RawSample", 1)],
    "PushRequest": [(1, "series", "RawProfileSeries", 1)],
    "ProfileTypesRequest": [(1, "start", "int64", 0), (2, "end", "int64", 0)],
    "ProfileType": [(1, "ID", "string", 0), (2, "name", "string", 0), (4, "sample_type", "string", 0), (5, "sample_unit", "string", 0),
                    (6, "period_type", "string", 0), (7, "period_unit", "string", 0)],
    "ProfileTypesResponse": [(1, "profile_types", "ProfileType", 1)],
    "LabelNamesRequest": [(1, "matchers", "string", 1), (2, "start", "int64", 0), (3, "end", "int64", 0)],
    "LabelValuesRequest": [(1, "name", "string", 0), (2, "matchers", "string", 1), (3, "start", "int64", 0), (4, "end", "int64", 0)],
    "Names": [(1, "names", "string", 1)],
    "SelectRequest": [(1, "profile_typeID", "string", 0), (2, "label_selector", "string", 0), (3, "start", "int64", 0), (4, "end", "int64", 0),
                      (5, "max_nodes", "int64", 0)],
    "SpanRequest": [(1, "profile_typeID", "string", 0), (2, "label_selector", "string", 0), (3, "span_selector", "string", 1),
                    (4, "start", "int64", 0), (5, "end", "int64", 0), (6, "max_nodes", "int64", 0)],
    "Level": [(1, "values", "int64", 1)],
    "FlameGraph": [(1, "names", "string", 1), (2, "levels", "Level", 1), (3, "total", "int64", 0), (4, "max_self", "int64", 0)],
    "Flame": [(1, "flamegraph", "FlameGraph", 0)],
    "SelectSeriesRequest": [(1, "profile_typeID", "string", 0), (2, "label_selector", "string", 0), (3, "start", "int64", 0),
                            (4, "end", "int64", 0), (5, "group_by", "string", 1), (6, "step", "double", 0), (9, "limit", "int64", 0)],
    "Point": [(1, "value", "double", 0), (2, "timestamp", "int64", 0)],
    "Series": [(1, "labels", "LabelPair", 1), (2, "points", "Point", 1)],
    "SelectSeriesResponse": [(1, "series", "Series", 1)],
    "StatsResponse": [(1, "data_ingested", "bool", 0), (2, "oldest_profile_time", "int64", 0), (3, "newest_profile_time", "int64", 0)],
}


def build_messages():
    f = descriptor_pb2.FileDescriptorProto(name="pyro.proto", package="pyro", syntax="proto3")
    T = descriptor_pb2.FieldDescriptorProto
    for name, fields in MESSAGES.items():
        m = f.message_type.add(name=name)
        for number, field, kind, repeated in fields:
            d = m.field.add(name=field, number=number, label=T.LABEL_REPEATED if repeated else T.LABEL_OPTIONAL)
            if kind in MESSAGES:
                d.type, d.type_name = T.TYPE_MESSAGE, ".pyro." + kind
            else:
                d.type = getattr(T, "TYPE_" + kind.upper())
    pool = descriptor_pool.DescriptorPool()
    pool.Add(f)
    return {n: message_factory.GetMessageClass(pool.FindMessageTypeByName("pyro." + n)) for n in MESSAGES}


M = build_messages()


def pprof(samples, unit=("cpu", "nanoseconds")):
    """A pprof file by Python's protobuf, of (folded stack, value)."""
    from google.protobuf.internal.encoder import _VarintBytes as varint

    def field(n, data):
        return varint(n << 3 | 2) + varint(len(data)) + data

    def number(n, v):
        return varint(n << 3) + varint(v)

    strings = ["", *unit]
    out, functions, records = b"", {}, b""

    def string(s):
        if s not in strings:
            strings.append(s)
        return strings.index(s)

    for stack, value in samples:
        ids = []
        for name in reversed(stack.split(";")):
            i = functions.setdefault(name, len(functions) + 1)
            ids.append(i)
        records += field(2, field(1, b"".join(map(varint, ids))) + field(2, varint(value)))
    for name, i in functions.items():
        out += field(5, number(1, i) + number(2, string(name)))
        out += field(4, number(1, i) + field(4, number(1, i) + number(2, 3)))
    out += field(1, number(1, 1) + number(2, 2)) + field(11, number(1, 1) + number(2, 2)) + number(12, 10_000_000)
    out += number(9, time.time_ns() - 2 * 10**9) + number(10, 10**9)
    return gzip.compress(records + out + b"".join(field(6, s.encode()) for s in strings))
