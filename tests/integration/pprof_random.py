# SPDX-License-Identifier: Apache-2.0
"""Random profiles of profile.proto, made from a seed: labels with units, inlined lines, columns, gaps in ids, odd names."""
import gzip
import random

from protobuf_lite import message, number, packed


class Strings:
    def __init__(self):
        self.ids, self.list = {"": 0}, [""]

    def __call__(self, s):
        if s not in self.ids:
            self.ids[s] = len(self.list)
            self.list.append(s)
        return self.ids[s]


NAMES = ["main.main", "runtime.mallocgc", "net/http.(*conn).serve", "example.com/a/v2/b.(*T[...]).Do", "std::vector<int>::push_back",
         "(anonymous namespace)::run", "java.util.HashMap.put", "Foo::bar(int, char const*)", "operator new(unsigned long)",
         "_ZN3foo3barEv", "_ZNSt6vectorIiSaIiEE9push_backERKi", "__GI___libc_malloc", "[vdso]", "name with spaces", "ünï.cødé",
         "a.very/long/path.to/package.Function.func1.2", "f(g(h))", "x.<init>", "quote\"d\\name"]
TYPES = {"cpu": [("samples", "count"), ("cpu", "nanoseconds")], "heap": [("alloc_objects", "count"), ("alloc_space", "bytes"),
         ("inuse_objects", "count"), ("inuse_space", "bytes")], "contention": [("contentions", "count"), ("delay", "microseconds")],
         "odd": [("events", "widgets")]}


def profile(seed, kind="cpu", n_functions=40, n_locations=90, n_samples=200):
    r = random.Random(seed)
    s = Strings()
    out = bytearray()
    types = TYPES[kind]
    for t, u in types:
        out += message(1, number(1, s(t)) + number(2, s(u)))
    n_mappings = r.randint(1, 3)
    step = r.choice([1, 1, 7])
    functions = [NAMES[i] if i < len(NAMES) and r.random() < .8 else f"pkg{i % 7}.Func{i}" for i in range(n_functions)]
    body = bytearray()
    for i in range(n_samples):
        depth = min(n_locations, int(r.expovariate(1 / 8)) + 1)
        locations = [(r.randrange(n_locations) + 1) * step for _ in range(depth)]
        values = [r.choice([0, 1, 1, 2, 5, 100, 12345]) * (10000000 if u == "nanoseconds" else 512 if u == "bytes" else 1) for _, u in types]
        labels = b""
        if r.random() < .4:
            labels += message(3, number(1, s("route")) + number(2, s(r.choice(["/a", "/b", "/c d"]))))
        if r.random() < .2:
            labels += message(3, number(1, s("user")) + number(2, s(f"u{r.randrange(9)}")))
        if r.random() < .4:
            labels += message(3, number(1, s("bytes")) + number(3, r.choice([16, 512, 4096, 1 << 20, 3000])) + number(4, s("bytes")))
        if r.random() < .2:
            labels += message(3, number(1, s("wait")) + number(3, r.choice([5, 250, 90000])) + number(4, s("milliseconds")))
        body += message(2, packed(1, locations) + packed(2, values) + labels)
    out += body
    for i in range(n_mappings):
        out += message(3, number(1, i + 1) + number(2, 0x400000 + (i << 24)) + number(3, 0x500000 + (i << 24)) +
                       number(5, s(["/usr/bin/prog-ram", "/lib/libc.so.6", "[kernel.kallsyms]_stext"][i])) + number(6, s("abc123" if i == 0 else "")) +
                       number(7, 1) + number(8, 1) + number(9, 1) + number(10, 1))
    for i in range(n_locations):
        lines = b""
        for _ in range(r.choice([0, 1, 1, 1, 2, 3])):
            lines += message(4, number(1, r.randrange(n_functions) + 1) + number(2, r.randrange(1, 60)) + number(3, r.choice([0, 0, 4, 17])))
        out += message(4, number(1, (i + 1) * step) + number(2, r.randrange(n_mappings + 1)) + number(3, 0x400000 + i * 16) + lines)
    for i, name in enumerate(functions):
        system = name if r.random() < .7 else f"sys_{i}"
        out += message(5, number(1, i + 1) + number(2, s(name)) + number(3, s(system)) +
                       number(4, s(f"/src/{'./' if i % 5 == 0 else ''}dir{i % 4}/file{i % 9}.go")) + number(5, i))
    drop, comment, doc = s("pkg1\\..*"), s("a comment"), s("https://example.com/doc")
    period = (s(types[-1][0]), s(types[-1][1]))
    for text in s.list:
        out += message(6, text.encode())
    if seed % 3 == 0:
        out += number(7, drop)
    out += number(9, 1700000000000000000 + seed) + number(10, r.choice([0, 10_000_000_000, 1_234_567_890]))
    out += message(11, number(1, period[0]) + number(2, period[1])) + number(12, 10000000)
    if seed % 2 == 0:
        out += packed(13, [comment])
    if seed % 4 == 1:
        out += number(14, s.ids[types[0][0]])
    if seed % 5 == 0:
        out += number(15, doc)
    return gzip.compress(bytes(out))
