# SPDX-License-Identifier: Apache-2.0
"""Profiles for the web UI's tests: several services over two hours, versions that differ, names that bite, deep recursion,
frames without names."""
import time

from opentelemetry.proto.collector.profiles.v1development import profiles_service_pb2 as service_pb2

HOSTILE = ["</script><script>window.hacked=1</script>", "<img src=x onerror=window.hacked=1>", "\" onmouseover=\"window.hacked=1",
           "{{constructor.constructor('window.hacked=1')()}}", "javascript:window.hacked=1", "a\u202eb\u0007c", "x" * 3000, "${window.hacked=1}"]
HOSTILE_SERVICE = "<img src=x onerror=window.hacked=1>"
DEPTH = 300
MINUTES = 120
SOURCE = "package cart\n\n" + "".join(f"// line {i}\n" for i in range(3, 40)) + "func encode() { for {} }\n" + "// end\n" * 20


class Request:
    """One OTLP request; profiles are added by folded stacks."""

    def __init__(self, service, version="", host="", scope="test"):
        self.r = service_pb2.ExportProfilesServiceRequest()
        d = self.d = self.r.dictionary
        for table in (d.mapping_table, d.location_table, d.function_table, d.attribute_table, d.stack_table, d.link_table):
            table.add()
        self.strings, self.locations, self.stacks, self.maps, self.kinds = {"": 0}, {}, {}, {}, {}
        rp = self.r.resource_profiles.add()
        for key, value in (("service.name", service), ("service.version", version), ("host.name", host)):
            if value:
                rp.resource.attributes.add(key=key).value.string_value = value
        self.scope = rp.scope_profiles.add()
        self.scope.scope.name = scope

    def string(self, s):
        return self.strings.setdefault(s, len(self.strings))

    def mapping(self, name, build_id):
        if name not in self.maps:
            a = self.d.attribute_table.add(key_strindex=self.string("process.executable.build_id.gnu"))
            a.value.string_value = build_id
            self.d.mapping_table.add(memory_start=0x400000, memory_limit=0x900000, filename_strindex=self.string(name),
                                     attribute_indices=[len(self.d.attribute_table) - 1])
            self.maps[name] = len(self.d.mapping_table) - 1
        return self.maps[name]

    def kind(self, kind):
        if kind not in self.kinds:
            self.d.attribute_table.add(key_strindex=self.string("profile.frame.type")).value.string_value = kind
            self.kinds[kind] = len(self.d.attribute_table) - 1
        return self.kinds[kind]

    def location(self, frame):
        """A frame is "name", ("name", "file", line), that with a kind and the line where it starts, or an address in /usr/lib/libcrypt.so without a name."""
        if frame not in self.locations:
            if isinstance(frame, int):
                self.d.location_table.add(mapping_index=self.mapping("/usr/lib/libcrypt.so", "deadbeef01"), address=0x400000 + frame)
            else:
                name, file, line, kind, start = (*frame, *("", 0)[len(frame) - 3:]) if isinstance(frame, tuple) else (frame, "", 0, "", 0)
                self.d.function_table.add(name_strindex=self.string(name), filename_strindex=self.string(file), start_line=start)
                self.d.location_table.add(attribute_indices=[self.kind(kind)] if kind else []).lines.add(
                    function_index=len(self.d.function_table) - 1, line=line)
            self.locations[frame] = len(self.d.location_table) - 1
        return self.locations[frame]

    def stack(self, frames):
        if frames not in self.stacks:
            self.d.stack_table.add(location_indices=[self.location(f) for f in reversed(frames)])
            self.stacks[frames] = len(self.d.stack_table) - 1
        return self.stacks[frames]

    def profile(self, kind, unit, start, samples, duration=10_000_000_000):
        p = self.scope.profiles.add(time_unix_nano=start, duration_nano=duration)
        p.sample_type.type_strindex, p.sample_type.unit_strindex = self.string(kind), self.string(unit)
        if kind == "cpu":  # 100 Hz: a sample is 10 ms
            p.period_type.type_strindex, p.period_type.unit_strindex, p.period = self.string("cpu"), self.string("nanoseconds"), 10_000_000
        for frames, value in samples:
            p.samples.add(stack_index=self.stack(tuple(frames)), values=[value])

    def done(self):
        self.d.string_table.extend(self.strings)
        return self.r


def shop(i, new):
    """CPU of the shop; in the new version encode costs three times as much."""
    main, serve = ("main.main", "/build/shop/main.go", 10), ("net/http.(*conn).serve", "/go/src/net/http/server.go", 1900)
    cart = ("example.com/shop/cart.(*Cart).Checkout", "/build/shop/cart.go", 30)
    encode = ("example.com/shop/cart.encode", "/build/shop/cart.go", 40)
    ms = 1_000_000
    return [((main, serve, cart, encode), (900 if new else 300) * ms + i * ms), ((main, serve, cart, ("runtime.mallocgc", "/go/src/runtime/malloc.go", 900)), 250 * ms),
            ((main, serve, ("example.com/shop/search.Find", "/build/shop/search.go", 12), ("sort.Slice", "/go/src/sort/slice.go", 30)), 400 * ms),
            ((main, ("runtime.gcBgMarkWorker", "/go/src/runtime/mgc.go", 1300)), 150 * ms), ((main, serve, cart, encode, 0x1234), 80 * ms)]


def prices(sold, other, same):
    """100 Hz: ten profiles of ten seconds, so that a hundred seconds are covered; arguments are samples in all."""
    ms = 10_000_000
    return [(("_start", "main", "price_tax"), sold * ms // 10), (("_start", "main", "render"), other * ms // 10), (("_start", "main", "same"), same * ms // 10)]


def requests_of_prices(now):
    """Before 60 minutes ago and after: price_tax's rate rises, its share falls; `same` changes within the noise."""
    r = Request("prices", "1", "web-9")
    for start, stacks in ((70, prices(1000, 1000, 400)), (30, prices(1500, 6000, 410))):
        for i in range(10):
            r.profile("cpu", "nanoseconds", now - start * 60_000_000_000 + i * 10_000_000_000, stacks)
    return r.done()


def requests(now=None):
    now = now or time.time_ns()
    out = []
    for version, hosts in (("1.4.0", ["web-1", "web-2"]), ("1.5.0", ["web-1"])):
        for host in hosts:
            r = Request("checkout", version, host, "wick")
            for i in range(MINUTES, 0, -4):
                if (version == "1.5.0") != (i <= 40):
                    continue
                at = now - i * 60_000_000_000
                stacks = shop(i % 7, version == "1.5.0")
                r.profile("cpu", "nanoseconds", at, stacks)
                r.profile("alloc_space", "bytes", at, [(s, v // 1000) for s, v in stacks])
                r.profile("inuse_space", "bytes", at, [(s, v // 100 + (MINUTES - i) * 100000) for s, v in stacks[:3]])
                r.profile("delay", "nanoseconds", at, [(s, v // 10) for s, v in stacks[1:3]])
                r.profile("off_cpu", "nanoseconds", at, [(s, v * 3) for s, v in stacks[:2]])
            out.append(r.done())
    r = Request("search", "7", "web-2")
    walk = ("walk", "/srv/search/tree.py", 77, "cpython")
    read = [("do_syscall_64", "", 0, "kernel"), ("vfs_read", "", 0, "kernel")]
    for i in range(MINUTES, 0, -10):
        at = now - i * 60_000_000_000
        r.profile("cpu", "nanoseconds", at, [(("main", *[walk] * DEPTH, "leaf"), 500_000_000), (("main", *[walk] * 3, "index"), 200_000_000),
                                             (("main", *[walk] * 3, *read), 300_000_000),
                                             (("main", "[vdso]", 0x4321), 90_000_000)])
    out.append(r.done())
    r = Request(HOSTILE_SERVICE, "<b>1</b>", "\"><script>window.hacked=1</script>")
    for i in range(30, 0, -10):
        r.profile("cpu", "nanoseconds", now - i * 60_000_000_000,
                  [(("main", h, (h + "!", h, 5)), 100_000_000 * (k + 1)) for k, h in enumerate(HOSTILE)])
    out.append(r.done())
    out.append(requests_of_prices(now))
    return out
