"""The OTLP codecs against protobuf's own library (otlp_oracle.py), and on what real senders sent: tests/data/otlp (recorded by
tools/golden), and more in ../shared where that is."""
import json
import os
import random
import struct
import subprocess
from pathlib import Path

import pytest
from otlp_oracle import LISTS, encode_lists, flatten, from_json, pb, random_request, to_json
from wick_tools import ROOT, some

FIXTURES = [p for p in (ROOT / "tests/data/otlp", Path(os.environ.get("WICK_SHARED", ROOT.parent / "shared")) / "fixtures/otlp") if p.is_dir()]
TOOL = Path(os.environ.get("WICK_ASAN", ROOT / "build-asan/src/cli/wick")).parents[2] / "tests/unit/otlp_tool"


def run(tmp_path, source, target, data):
    (tmp_path / "in").write_bytes(data)
    p = subprocess.run([TOOL, source, target, tmp_path / "in", tmp_path / "out"], capture_output=True, text=True)
    assert p.returncode in (0, 1), p.stderr
    return (tmp_path / "out").read_bytes() if p.returncode == 0 else p.stderr


def convert(tmp_path, source, target, data):
    out = run(tmp_path, source, target, data)
    assert isinstance(out, bytes), out
    return out


def refused(tmp_path, data, source="pb"):
    out = run(tmp_path, source, "pb", data)
    assert isinstance(out, str), "it was taken"
    return out


def parse(data):
    return pb.ProfilesData.FromString(data)


def same(got, want):
    assert flatten(got) == flatten(want)


# --- requests at random, by the oracle ---

@pytest.mark.parametrize("seed", range(40))
def test_random_protobuf(tmp_path, seed):
    m = random_request(random.Random(seed), 1 + seed)
    out = convert(tmp_path, "pb", "pb", m.SerializeToString())
    same(parse(out), m)
    assert len(parse(out).SerializeToString()) == len(out), "longer than protoc's code writes it"
    refs = parse(convert(tmp_path, "pb", "refs", m.SerializeToString()))
    same(refs, m)
    assert not any(kv.key for rp in refs.resource_profiles for kv in rp.resource.attributes)


@pytest.mark.parametrize("form", ["unpacked", "mixed"])
@pytest.mark.parametrize("which", LISTS + ("all of them",))
def test_lists_unpacked(tmp_path, which, form):
    """Protobuf readers accept repeated numbers packed and unpacked; async-profiler writes them unpacked."""
    m = random_request(random.Random(len(which)), 12)
    data = encode_lists(m, LISTS if which == "all of them" else [which], form)
    assert parse(data) == m and data != m.SerializeToString(), "the test's encoder is wrong"
    same(parse(convert(tmp_path, "pb", "pb", data)), m)


def test_async_profiler(tmp_path):
    """A file that async-profiler 4.5 wrote: event=itimer,threads,otlp."""
    data = (Path(__file__).parents[1] / "data/async-profiler-4.5.otlp").read_bytes()
    m = parse(convert(tmp_path, "pb", "pb", data))
    same(m, parse(data))
    assert sum(s.values[0] for s in m.resource_profiles[0].scope_profiles[0].profiles[0].samples) == 129


@pytest.mark.parametrize("seed", range(40))
def test_random_json(tmp_path, seed):
    m = random_request(random.Random(1000 + seed), 1 + seed)
    text = json.dumps(to_json(m), ensure_ascii=seed % 2 == 0, indent=seed % 3 or None)
    same(parse(convert(tmp_path, "json", "pb", text.encode())), m)
    out = convert(tmp_path, "pb", "json", m.SerializeToString())
    assert b"\n" not in out
    same(from_json(json.loads(out)), m)


def test_json_forms(tmp_path):
    text = """ {"unknown": {"a": [1, {"b": null}]}, "dictionary": {"stringTable": ["", "cpu", "ns"], "more": 1,
      "stackTable": [{}, {"locationIndices": [1]}], "locationTable": [{}, {"address": 4096}], "attributeTable": null,
      "linkTable": [{}, {"traceId": "0102030405060708090A0B0C0D0E0F10", "spanId": "AQIDBAUGBwg="}]},
      "resourceProfiles": [{"resource": null, "scopeProfiles": [{"scope": {}, "profiles": [{
        "sampleType": {"typeStrindex": 1, "unitStrindex": "2"}, "profileId": "AQIDBAUGBwgJCgsMDQ4PEA==",
        "period": 5, "timeUnixNano": 1.7e18, "sample_type": {"typeStrindex": 99},
        "samples": [{"stackIndex": 1, "values": [1, "2"], "timestampsUnixNano": ["3", 4], "linkIndex": 1}]}]}]}]}"""
    m = parse(convert(tmp_path, "json", "pb", text.encode()))
    p = m.resource_profiles[0].scope_profiles[0].profiles[0]
    assert p.profile_id == bytes(range(1, 17)) and p.period == 5 and p.time_unix_nano == 1700000000000000000
    assert list(p.samples[0].values) == [1, 2] and list(p.samples[0].timestamps_unix_nano) == [3, 4]
    assert m.dictionary.link_table[1].trace_id == bytes(range(1, 17))
    assert m.dictionary.link_table[1].span_id == bytes(range(1, 9))
    assert p.sample_type.type_strindex == 1, "only lowerCamelCase counts"


def profile_json(profile, rest):
    return '{"resourceProfiles": [{"scopeProfiles": [{"profiles": [{' + profile + '}]}]}]' + rest + '}'


@pytest.mark.parametrize("text, words", [
    ("", "unexpected end of JSON"),
    ("[]", "expected an object"),
    ('{"dictionary": {"stringTable": [1]}}', "dictionary.stringTable[0]"),
    ('{"dictionary": {"stackTable": [{"locationIndices": [0, 7]}]}}',
     "byte 55, dictionary.stackTable[0].locationIndices[1]: 7 is outside locationTable, which has 1 entries"),
    ('{"dictionary": {"locationTable": [{}, {"lines": [{"functionIndex": -1}]}]}}', "lines[0].functionIndex: -1 is"),
    ('{"resourceProfiles": [{"scopeProfiles": [{"profiles": [{"samples": [{}, {"stackIndex": 9}]}]}]}]}',
     "resourceProfiles[0].scopeProfiles[0].profiles[0].samples[1].stackIndex: 9 is"),
    ('{"dictionary": {"linkTable": [{"traceId": "zz"}]}}', "traceId: it is neither hex nor base64"),
    ('{"resourceProfiles": [] } x', "unexpected text after the end"),
    (profile_json('"startTimeUnixNano": "1", "profile": {"sample": []}', ""), "1.3, v1experimental (generation G0)"),
    (profile_json('"stringTable": []', ""), "1.4 or 1.5 (generation G1)"),
    (profile_json('"sample": [{"locationsStartIndex": 1}], "timeNanos": "5"', ""), "1.4 or 1.5 (generation G1)"),
    (profile_json('"sample": [{"locationsLength": 2, "value": ["1"]}]', ', "stringTable": [""]'), "1.6 (between"),
    (profile_json('"sample": [{"locationsLength": 2, "value": ["1"]}]', ', "dictionary": {}'), "1.7 (generation G2)"),
    (profile_json('"timeNanos": "5"', ', "dictionary": {"locationTable": [{"mappingIndex": 7}]}'), "1.7 (generation G2)"),
    (profile_json('"sample": []', ', "dictionary": {"attributeUnits": []}'), "1.7 (generation G2)"),
    (profile_json('"sample": [{"stackIndex": 1, "values": ["1"]}]', ', "dictionary": {}'), "1.8 (generation G3)"),
    (profile_json('"sample": [], "timeUnixNano": "5"', ', "dictionary": {}'), "1.8 (generation G3)"),
    (profile_json('"commentStrindices": []', ', "dictionary": {"stackTable": []}'), "1.8 (generation G3)"),
])
def test_json_refused(tmp_path, text, words):
    assert words in refused(tmp_path, text.encode(), "json")


# --- generations, by hand: field numbers are in codec/otlp_generation.c ---

def varint(v):
    out = b""
    while v >= 0x80:
        out, v = out + bytes([v & 0x7f | 0x80]), v >> 7
    return out + bytes([v])


def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    if isinstance(value, float):  # stands for fixed64
        return varint(number << 3 | 1) + struct.pack("<Q", int(value))
    value = value if isinstance(value, bytes) else b"".join(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def request(profile, dictionary=True, links=0):
    tables = field(2, [field(5, b""), field(5, b"cpu"), field(7, b""), field(7, [field(1, b"\0")]), field(6, b""),
                       field(6, [field(1, 1)])] + [field(4, [field(2, bytes([i] * 8))]) for i in range(links)])
    return field(1, field(2, field(2, profile))) + (tables if dictionary else b"")


TYPE, TIME, TIMES2 = field(1, [field(1, 1)]), field(3, 1767225600e9), field(5, struct.pack("<2Q", 10, 20))
OLD = {
    "G0": (request([field(1, b"i" * 16), field(2, 1.0), field(3, 2.0), field(8, b"")], False), "1.3", "G0"),
    "G1": (request([TYPE, field(2, [field(2, 3), field(3, b"\3")]), field(3, b"\x08\x01"), field(10, b""),
                    field(10, b"cpu")], False), "1.4 or 1.5", "G1"),
    "G1 without mappings": (request([TYPE, field(2, [field(2, 3), field(3, b"\3")]), field(10, b""), field(10, b"cpu"),
                                     field(11, 5), field(13, b"")], False), "1.4 or 1.5", "G1"),
    "G1, empty samples": (request([TYPE, field(2, b""), field(4, [field(2, 5)]), field(10, b""), field(11, 5)], False),
                          "1.4 or 1.5", "G1"),
    "1.6": (request([TYPE, field(2, [field(2, 3), field(3, b"\3")]), field(4, 9)]) + field(6, b"cpu"), "1.6", "G2"),
    "G2": (request([TYPE, field(2, [field(2, 3), field(3, b"\3"), field(4, b"\1")]), field(3, b"\1\2"), field(4, 9),
                    field(6, b"")]), "1.7", "G2"),
    "G2 without locations": (request([TYPE, field(4, 9), field(6, [field(1, 1)]), field(7, 10)]), "1.7", "G2"),
    "G3": (request([TYPE, field(2, [field(1, 1), field(2, b"\1"), field(3, b"\1")]), TIME, field(8, b"i" * 16)]),
           "1.8", "G3"),
    "G4": (request([TYPE, field(2, [field(1, 1), field(2, b"\1"), field(3, b"\1")]), TIME, field(7, b"i" * 16)]),
           "1.9", "G4"),
    "G4 with a link": (request([TYPE, field(2, [field(1, 1), field(2, b"\1"), field(4, 1)]), TIME, field(7, b"i" * 16)],
                               links=2), "1.9", "G4"),
    "G4 with a link and times": (request([TYPE, field(2, [field(1, 1), field(2, b"\0\1"), field(4, 0), TIMES2]), TIME,
                                          field(7, b"i" * 16)]), "1.9", "G4"),
    "G3 or G4": (request([TYPE, field(2, [field(1, 1), field(2, b"\1"), field(3, b"\1")]), TIME]), "1.8 or 1.9", "G3 or G4"),
    "G4, the silent one: values and times": (
        request([TYPE, field(2, [field(1, 1), field(2, b"\1\1"), TIMES2]), TIME, field(7, b"i" * 16)]), "1.9", "G4"),
    "G4, the silent one: values alone": (
        request([TYPE, field(2, [field(1, 1), field(2, b"\0")]), TIME, field(7, b"i" * 16)]), "1.9", "G4"),
    "G4, the silent one: a value that is no attribute": (
        request([TYPE, field(2, [field(1, 1), field(2, b"\x64"), field(5, struct.pack("<Q", 10))]), TIME,
                 field(7, b"i" * 16)]), "1.9", "G4"),
}


@pytest.mark.parametrize("name", OLD)
def test_old_generations(tmp_path, name):
    data, version, generation = OLD[name]
    words = refused(tmp_path, data)
    assert f"opentelemetry-proto {version}" in words and f"{generation})" in words
    assert "wick reads 1.10 and later" in words


# What looks like an older generation and is not: field 4 of a sample as an unpacked value.
CURRENT = {
    "230 with one link is not a link": request([TYPE, field(2, [field(1, 1), field(2, b"\1"), field(4, 230)]), TIME], links=1),
    "two numbers are not a link": request([TYPE, field(2, [field(1, 1), field(2, b"\1"), field(4, 1), field(4, 0)]), TIME],
                                          links=2),
    "without attributes and times it is a value": request([TYPE, field(2, [field(1, 1), field(4, 1)]), TIME], links=2),
    "one link, which is none": request([TYPE, field(2, [field(1, 1), field(2, 1), field(4, 1)]), TIME], links=1),
    "links are in use": request([TYPE, field(2, [field(1, 1), field(2, 1), field(4, 1)]),
                                 field(2, [field(1, 1), field(2, 1), field(3, 1), field(4, 1)]), TIME], links=2),
}


@pytest.mark.parametrize("name", CURRENT)
def test_current_generation(tmp_path, name):
    same(parse(convert(tmp_path, "pb", "pb", CURRENT[name])), parse(CURRENT[name]))


def test_json_of_1_9(tmp_path):
    """1.9 and 1.10 differ in field numbers, not in names: what is accepted says the same."""
    text = profile_json('"samples": [{"stackIndex": 1, "values": ["7"], "attributeIndices": [1], "linkIndex": 1}]',
                        ', "dictionary": {"stringTable": ["", "k"], "stackTable": [{}, {"locationIndices": [0]}], '
                        '"attributeTable": [{}, {"keyStrindex": 1}], "linkTable": [{}, {"spanId": "0102030405060708"}]}')
    sample = parse(convert(tmp_path, "json", "pb", text.encode())).resource_profiles[0].scope_profiles[0].profiles[0].samples[0]
    assert (list(sample.values), list(sample.attribute_indices), sample.link_index) == ([7], [1], 1)


# --- order of fields, files ---

def test_dictionary_first(tmp_path):
    m = random_request(random.Random(7))
    body, tables = pb.ProfilesData(), pb.ProfilesData()
    body.resource_profiles.extend(m.resource_profiles)
    tables.dictionary.CopyFrom(m.dictionary)
    same(parse(convert(tmp_path, "pb", "pb", tables.SerializeToString() + body.SerializeToString())), m)
    text = json.dumps(dict(reversed(to_json(m).items())))
    same(parse(convert(tmp_path, "json", "pb", text.encode())), m)


def test_file_forms(tmp_path):
    ms = [random_request(random.Random(i)) for i in range(3)]
    want = sorted(repr(p) for m in ms for r in flatten(m) for s in r[3] for p in s[4])
    parts = [m.SerializeToString() for m in ms]
    lines = "\n".join(json.dumps(to_json(m)) for m in ms) + "\n"
    for data in (b"".join(struct.pack(">I", len(x)) + x for x in parts), lines.encode()):
        got = flatten(parse(convert(tmp_path, "file", "pb", data)))
        assert sorted(repr(p) for r in got for s in r[3] for p in s[4]) == want
    same(parse(convert(tmp_path, "file", "pb", parts[0])), ms[0])
    framed = convert(tmp_path, "pb", "framed", parts[0])
    assert struct.unpack(">I", framed[:4])[0] == len(framed) - 4
    same(parse(framed[4:]), ms[0])
    words = refused(tmp_path, (lines.splitlines()[0] + "\n{\"dictionary\": 5}\n").encode(), "file")
    assert words.startswith("request 2:")


# --- what real senders sent ---

def fixtures(pattern, generations=False):
    found = [p for place in FIXTURES for p in place.rglob(pattern) if ("generations" in p.parts) == generations]
    return pytest.mark.parametrize("path", sorted(found), ids=lambda p: p.name)


@fixtures("*.pb")
def test_fixture(tmp_path, path):
    data = path.read_bytes()
    want = parse(data)
    same(parse(convert(tmp_path, "pb", "pb", data)), want)
    same(from_json(json.loads(convert(tmp_path, "pb", "json", data))), want)
    memory = convert(tmp_path, "pb", "dump", data).split()
    if len(data) > 100_000:
        assert int(memory[1]) <= 3 * len(data), "memory, the request included"
    factor = 4 if "data" in path.parts else 3  # random samples share less than those of real programs
    assert int(memory[1]) - int(memory[3]) <= factor * len(data) + 8192, "a few kilobytes may be denser"
    twin = path.with_suffix(".json")
    if twin.exists():
        same(parse(convert(tmp_path, "json", "pb", twin.read_bytes())), want)
    if path.parent.name == "from-pprof":
        lines = convert(tmp_path, "pb", "dump", data).decode().splitlines()[1:]
        assert all(" group 1 " in l for l in some(lines)), "the types of one pprof belong together"


@fixtures("*.json")
def test_fixture_json(tmp_path, path):
    data = path.read_bytes()
    same(parse(convert(tmp_path, "json", "pb", data)), from_json(json.loads(data)))


def profiles_of(m):
    return sorted(repr(p) for r in flatten(m) for s in r[3] for p in s[4])


@fixtures("*.jsonl")
def test_fixture_json_lines(tmp_path, path):
    want = [from_json(json.loads(line)) for line in path.read_text().splitlines()]
    got = parse(convert(tmp_path, "file", "pb", path.read_bytes()))
    assert profiles_of(got) == sorted(x for m in want for x in profiles_of(m))


@fixtures("*framed.bin")
def test_fixture_framed(tmp_path, path):
    framed, want = path.read_bytes(), []
    while framed:
        n = struct.unpack(">I", framed[:4])[0]
        want.append(parse(framed[4:4 + n]))
        framed = framed[4 + n:]
    got = parse(convert(tmp_path, "file", "pb", path.read_bytes()))
    assert profiles_of(got) == sorted(x for m in want for x in profiles_of(m))


GENERATION_OF = {"tiny-v1.3.2": "G0", "tiny-v1.5.0": "G1", "tiny-v1.7.0": "G2", "tiny-v1.8.0": "G3", "tiny-v1.9.0": "G4",
                 "tiny-v1.9.0-noattrs": "G4", "tiny-v1.10.0": None, "ebpf-real-2025-11": "G3"}


@fixtures("*.[po][bt]*", generations=True)
def test_fixture_generation(tmp_path, path):
    generation = GENERATION_OF.get(path.stem, path.stem)
    if generation:
        assert f"generation {generation})" in refused(tmp_path, path.read_bytes())
    else:
        convert(tmp_path, "pb", "pb", path.read_bytes())
