"""What an OTLP profiles request says, by protobuf's own library, free of tables and indices.

flatten() resolves every reference, so two requests that say the same thing compare equal whatever their dictionaries
look like. random_request() makes requests with something in every field.
"""
import base64
import struct

from google.protobuf import json_format
from google.protobuf.internal import encoder
from opentelemetry.proto.common.v1 import common_pb2
from opentelemetry.proto.profiles.v1development import profiles_pb2 as pb

HEX_FIELDS = {"traceId", "spanId", "profileId"}


class Dictionary:
    """Lenient as wick is: see codec/otlp.h, "Tables without a zero value"."""

    def __init__(self, d):
        self.d = d
        self.strings = list(d.string_table) or [""]

    def required(self, i):
        return self.strings[i]

    def optional(self, i):
        return self.strings[i] if i else ""

    def entry(self, table, i, empty):
        return table[i] if i < len(table) or i else empty

    def value(self, v):
        kind = v.WhichOneof("value")
        if kind is None:
            return None
        if kind == "string_value_strindex":
            return ("string_value", self.strings[v.string_value_strindex])
        if kind == "array_value":
            return (kind, [self.value(x) for x in v.array_value.values])
        if kind == "kvlist_value":
            return (kind, self.kvs(v.kvlist_value.values))
        if kind == "double_value":
            return (kind, repr(v.double_value))
        return (kind, getattr(v, kind))

    def kvs(self, items):
        return [(self.optional(kv.key_strindex) or kv.key, self.value(kv.value)) for kv in items]

    def attrs(self, indices):
        out = []
        for i in indices:
            a = self.d.attribute_table[i] if i < len(self.d.attribute_table) else pb.KeyValueAndUnit()
            zero = a == pb.KeyValueAndUnit() or a == pb.KeyValueAndUnit(value=common_pb2.AnyValue())
            out.append(("" if zero and i == 0 else self.required(a.key_strindex), self.value(a.value),
                        self.optional(a.unit_strindex)))
        return out

    def value_type(self, t):
        if not t.ByteSize():
            return ("", "")
        return (self.required(t.type_strindex), self.optional(t.unit_strindex))

    def mapping(self, i):
        m = self.d.mapping_table[i] if i < len(self.d.mapping_table) else pb.Mapping()
        return (m.memory_start, m.memory_limit, m.file_offset, self.optional(m.filename_strindex),
                self.attrs(m.attribute_indices))

    def function(self, i):
        f = self.d.function_table[i] if i < len(self.d.function_table) else pb.Function()
        name = "" if i == 0 and f == pb.Function() else self.required(f.name_strindex)
        return (name, self.optional(f.system_name_strindex), self.optional(f.filename_strindex), f.start_line)

    def location(self, i):
        l = self.d.location_table[i] if i < len(self.d.location_table) else pb.Location()
        if i == 0 and l == pb.Location():
            return None
        return (self.mapping(l.mapping_index), l.address,
                [(self.function(x.function_index), x.line, x.column) for x in l.lines], self.attrs(l.attribute_indices))

    def stack(self, i):
        s = self.d.stack_table[i] if i < len(self.d.stack_table) else pb.Stack()
        return [self.location(x) for x in s.location_indices]

    def link(self, i):
        l = self.d.link_table[i] if i and i < len(self.d.link_table) else pb.Link()
        return (l.trace_id.strip(b"\0") and l.trace_id, l.span_id.strip(b"\0") and l.span_id)


def flatten(request):
    d = Dictionary(request.dictionary)
    out = []
    for rp in request.resource_profiles:
        scopes = []
        for sp in rp.scope_profiles:
            profiles = []
            for p in sp.profiles:
                samples = [(d.stack(s.stack_index), d.attrs(s.attribute_indices), d.link(s.link_index), list(s.values),
                            list(s.timestamps_unix_nano)) for s in p.samples]
                profiles.append((d.value_type(p.sample_type), samples, p.time_unix_nano, p.duration_nano,
                                 d.value_type(p.period_type), p.period, p.profile_id.strip(b"\0") and p.profile_id,
                                 p.dropped_attributes_count, p.original_payload_format, p.original_payload,
                                 d.attrs(p.attribute_indices)))
            s = sp.scope
            scopes.append((s.name, s.version, d.kvs(s.attributes), s.dropped_attributes_count, profiles, sp.schema_url))
        r = rp.resource
        refs = [(x.schema_url, x.type, list(x.id_keys), list(x.description_keys)) for x in r.entity_refs]
        out.append((d.kvs(r.attributes), r.dropped_attributes_count, refs, scopes, rp.schema_url))
    return out


# --- protobuf with lists written as other encoders may write them ---

def _tag(number, wire_type):
    return encoder._VarintBytes(number << 3 | wire_type)


def _element(field, v):
    if field.type == field.TYPE_FIXED64:
        return struct.pack("<Q", v)
    return encoder._VarintBytes(v % 2**64)


LISTS = ("ProfilesDictionary.stack_table.location_indices", "ProfilesDictionary.mapping_table.attribute_indices",
         "ProfilesDictionary.location_table.attribute_indices", "Profile.attribute_indices",
         "Sample.attribute_indices", "Sample.values", "Sample.timestamps_unix_nano")


def is_list(field):
    return field.is_repeated if hasattr(field, "is_repeated") else field.label == field.LABEL_REPEATED


def list_name(field):
    parent = field.containing_type.name
    table = {"Stack": "stack_table", "Mapping": "mapping_table", "Location": "location_table"}.get(parent)
    return f"ProfilesDictionary.{table}.{field.name}" if table else f"{parent}.{field.name}"


def encode_lists(message, names, form):
    """Serializes like protobuf's library, but with the lists in names 'unpacked', or 'mixed': a part of each form."""
    out = b""
    for field, v in message.ListFields():
        if field.type == field.TYPE_MESSAGE:
            for m in v if is_list(field) else [v]:
                body = encode_lists(m, names, form)
                out += _tag(field.number, 2) + encoder._VarintBytes(len(body)) + body
        elif is_list(field) and field.type != field.TYPE_STRING and list_name(field) in names:
            v = list(v)
            packed = v[1:-1] if form == "mixed" else []
            rest = [v[:1], v[1:][-1:]] if form == "mixed" else [v]
            body = b"".join(_element(field, x) for x in packed)
            single = [b"".join(_tag(field.number, 1 if field.type == field.TYPE_FIXED64 else 0) + _element(field, x)
                               for x in part) for part in rest]
            out += single[0] + (_tag(field.number, 2) + encoder._VarintBytes(len(body)) + body if packed else b"")
            out += b"".join(single[1:])
        else:
            one = type(message)()
            if is_list(field):
                getattr(one, field.name).extend(v)
            else:
                setattr(one, field.name, v)
            out += one.SerializeToString()
    return out


# --- JSON: OTLP writes ids as hex where protobuf's mapping has base64 ---

def _walk(x, change):
    if isinstance(x, dict):
        return {k: change(v) if k in HEX_FIELDS else _walk(v, change) for k, v in x.items()}
    return [_walk(v, change) for v in x] if isinstance(x, list) else x


def to_json(request):
    return _walk(json_format.MessageToDict(request), lambda v: base64.b64decode(v).hex())


def from_json(data):
    data = _walk(data, lambda v: base64.b64encode(bytes.fromhex(v)).decode())
    return json_format.ParseDict(data, pb.ProfilesData(), ignore_unknown_fields=True)


# --- requests at random ---

def _value(rnd, v, strings, depth=0):
    kind = rnd.choice(["str", "bool", "int", "double", "bytes", "ref", "array", "kvlist", "none"])
    if kind == "str":
        v.string_value = rnd.choice(["", "x", "ünï", "line\nbreak \"quoted\" \\ <tag>", "a" * 200])
    elif kind == "bool":
        v.bool_value = rnd.random() < 0.5
    elif kind == "int":
        v.int_value = rnd.choice([0, -1, 7, 2**63 - 1, -2**63])
    elif kind == "double":
        v.double_value = rnd.choice([0.0, 1.5, -1e300, 0.1, float("inf"), 5e-324])
    elif kind == "bytes":
        v.bytes_value = rnd.randbytes(rnd.randrange(5))
    elif kind == "ref":
        v.string_value_strindex = rnd.randrange(strings)
    elif kind == "array" and depth < 3:
        v.array_value.SetInParent()
        for _ in range(rnd.randrange(3)):
            _value(rnd, v.array_value.values.add(), strings, depth + 1)
    elif kind == "kvlist" and depth < 3:
        v.kvlist_value.SetInParent()
        for _ in range(rnd.randrange(3)):
            _kv(rnd, v.kvlist_value.values.add(), strings, depth + 1)


def _kv(rnd, kv, strings, depth=0):
    if rnd.random() < 0.5:
        kv.key = rnd.choice(["service.name", "k", "host.name"])
    else:
        kv.key_strindex = rnd.randrange(1, strings)
    _value(rnd, kv.value, strings, depth)


def _pick(rnd, n, most):
    return [rnd.randrange(n) for _ in range(rnd.randrange(most + 1))]


def _dictionary(rnd, d, size):
    d.string_table.extend([""] + ["".join(rnd.choice("abcdefgh :<>é\"\\\t") for _ in range(rnd.randrange(1, 150 if i % 9 == 0 else 12)))
                                  for i in range(size)])
    n = len(d.string_table)
    for t in (d.mapping_table, d.location_table, d.function_table, d.link_table, d.attribute_table, d.stack_table):
        t.add()
    for _ in range(size):
        a = d.attribute_table.add(key_strindex=rnd.randrange(1, n), unit_strindex=rnd.choice([0, rnd.randrange(n)]))
        _value(rnd, a.value, n)
    na = len(d.attribute_table)
    for _ in range(rnd.randrange(size)):
        d.mapping_table.add(memory_start=rnd.randrange(2**64), memory_limit=rnd.randrange(2**48),
                            file_offset=rnd.randrange(2**20), filename_strindex=rnd.randrange(1, n),
                            attribute_indices=_pick(rnd, na, 3))
        d.function_table.add(name_strindex=rnd.randrange(1, n), system_name_strindex=rnd.randrange(n),
                             filename_strindex=rnd.randrange(n), start_line=rnd.choice([0, 5, -1, 2**40]))
    for _ in range(size):
        l = d.location_table.add(mapping_index=rnd.randrange(len(d.mapping_table)), address=1 + rnd.randrange(2**64 - 1),
                                 attribute_indices=_pick(rnd, na, 2))
        for _ in range(rnd.randrange(4)):
            l.lines.add(function_index=rnd.randrange(len(d.function_table)), line=rnd.randrange(-5, 9999),
                        column=rnd.randrange(3))
        d.stack_table.add(location_indices=_pick(rnd, len(d.location_table), 40) or [0])
        d.link_table.add(trace_id=rnd.randbytes(16), span_id=rnd.randbytes(8))


def _profile(rnd, p, d):
    n, na = len(d.string_table), len(d.attribute_table)
    p.sample_type.type_strindex, p.sample_type.unit_strindex = rnd.randrange(1, n), rnd.randrange(n)
    p.time_unix_nano, p.duration_nano, p.period = rnd.randrange(2**63), rnd.randrange(2**40), rnd.randrange(-5, 2**40)
    if rnd.random() < 0.5:
        p.period_type.type_strindex = rnd.randrange(1, n)
    if rnd.random() < 0.5:
        p.profile_id = rnd.randbytes(16)
        p.original_payload_format, p.original_payload = "pprof", rnd.randbytes(30)
    p.dropped_attributes_count = rnd.randrange(3)
    p.attribute_indices.extend(_pick(rnd, na, 3))
    for _ in range(rnd.randrange(30)):
        k = rnd.randrange(1, 4)
        values = [rnd.choice([0, 1, -1, 10**9, 2**63 - 1]) for _ in range(k)]
        times = [rnd.randrange(2**64) for _ in range(k)]
        how = rnd.randrange(3)
        p.samples.add(stack_index=rnd.randrange(len(d.stack_table)), attribute_indices=_pick(rnd, na, 4),
                      link_index=rnd.choice([0, rnd.randrange(len(d.link_table))]), values=values if how else [],
                      timestamps_unix_nano=times if how != 1 else [])
    # A value or a link somewhere proves the generation (without one, 1.9 and 1.10 cannot always be told apart).
    p.samples.add(stack_index=1, values=[3])


def random_request(rnd, size=12):
    m = pb.ProfilesData()
    _dictionary(rnd, m.dictionary, size)
    n = len(m.dictionary.string_table)
    for _ in range(1 + rnd.randrange(3)):
        rp = m.resource_profiles.add(schema_url=rnd.choice(["", "https://example.com/1"]))
        for _ in range(rnd.randrange(5)):
            _kv(rnd, rp.resource.attributes.add(), n)
        rp.resource.dropped_attributes_count = rnd.randrange(2)
        if rnd.random() < 0.3:
            rp.resource.entity_refs.add(schema_url="u", type="host", id_keys=["host.id", "b"], description_keys=["d"])
            rp.resource.entity_refs.add(type="service")
        for _ in range(1 + rnd.randrange(2)):
            sp = rp.scope_profiles.add(schema_url=rnd.choice(["", "s"]))
            sp.scope.name, sp.scope.version = rnd.choice(["", "scope"]), rnd.choice(["", "1.0"])
            for _ in range(rnd.randrange(3)):
                _kv(rnd, sp.scope.attributes.add(), n)
            for _ in range(1 + rnd.randrange(3)):
                _profile(rnd, sp.profiles.add(), m.dictionary)
    return m
