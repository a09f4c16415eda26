# SPDX-License-Identifier: Apache-2.0
"""What the integration tests share: where things are, waiting, `wick serve` as a fixture, requests to send to it, and programs
to sample. A test module never imports another test module: what two of them need is here, or in agent_tools.py (the host
agent), sdk_tools.py (libwick), collector_peer.py (the pipeline) or go_tools.py (Go's pprof)."""
import functools
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / os.environ.get("BUILD", "build")
WICK = os.environ.get("WICK", str(BUILD / "src/cli/wick"))
WICK_ASAN = os.environ.get("WICK_ASAN", str(ROOT / "build-asan/src/cli/wick"))
SHARED = Path(os.environ.get("WICK_SHARED", ROOT.parent / "shared"))
PROGRAMS = ROOT / "tests/programs"
TRACE, SPAN = bytes(range(1, 17)), bytes(range(1, 9))


def need(*tools):
    for tool in tools:
        if not shutil.which(tool):
            pytest.skip(f"no {tool}")


def some(values):
    """The values as a list, of which there is at least one: a loop over none of them asserts nothing."""
    values = list(values)
    assert values, "nothing to look at"
    return values


def wait_for(what, seconds=60.0, why="", step=0.05):
    """Polls until what() is true and returns its value. The deadline is generous: a busy machine is slow, not broken. why says
    what is awaited: a text, or a function that makes one of the state at the deadline."""
    end = time.monotonic() + seconds
    while not (value := what()):
        assert time.monotonic() < end, f"not within {seconds} s: {why() if callable(why) else why or what.__name__}"
        time.sleep(step)
    return value


def measured(measure, limit, tries=3):
    """Asserts that |measure(k) - 1| < limit for k = 1, 2 or 3. For ratios that are 1 on average and are disturbed by whatever else
    the machine does: a ratio that is wrong is wrong every time. k is there to take more samples in a later try. What measure()
    asserts itself must hold in every try."""
    seen = []
    while len(seen) < tries:
        seen.append(measure(len(seen) + 1))
        if abs(seen[-1] - 1) < limit:
            return
    raise AssertionError(f"{seen} are not 1 within {limit}")


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def family(pid):
    """The process and all below it."""
    found = [pid]
    for p in found:
        for task in Path(f"/proc/{p}/task").glob("*/children"):
            try:
                found += [int(x) for x in task.read_text().split()]
            except OSError:
                pass
    return found


def descendants(pid):
    return family(pid)[1:]


def cpu_seconds(pid):
    """CPU time of a process so far; 0 when it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return 0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


# --- wick serve ---

@functools.cache
def profiles_service():
    """The messages of the profiles service; tests that need them are skipped without opentelemetry-proto."""
    name = "opentelemetry.proto.collector.profiles.v1development.profiles_service_pb2"
    return pytest.importorskip(name)


def request(samples, service="shop", start=None):
    """One CPU profile; samples is a list of (folded stack, value, linked)."""
    r = profiles_service().ExportProfilesServiceRequest()
    d, strings = r.dictionary, {"": 0}

    def string(s):
        return strings.setdefault(s, len(strings))

    d.mapping_table.add(), d.location_table.add(), d.function_table.add(), d.attribute_table.add(), d.stack_table.add()
    d.link_table.add()
    d.link_table.add(trace_id=TRACE, span_id=SPAN)
    rp = r.resource_profiles.add()
    rp.resource.attributes.add(key="service.name").value.string_value = service
    p = rp.scope_profiles.add().profiles.add()
    p.sample_type.type_strindex, p.sample_type.unit_strindex = string("cpu"), string("nanoseconds")
    p.time_unix_nano = start or time.time_ns() - 5_000_000_000
    p.duration_nano = 1_000_000_000
    functions = {}
    for stack, value, linked in samples:
        s = d.stack_table.add()
        for name in reversed(stack.split(";")):
            if name not in functions:
                d.function_table.add(name_strindex=string(name))
                d.location_table.add().lines.add(function_index=len(d.function_table) - 1, line=7)
                functions[name] = len(d.location_table) - 1
            s.location_indices.append(functions[name])
        p.samples.add(stack_index=len(d.stack_table) - 1, values=[value], link_index=1 if linked else 0)
    d.string_table.extend(strings)
    return r


SHOP = [("main;checkout;encode", 30, True), ("main;checkout;sort", 10, False), ("main;idle", 2, False)]


class Server:
    def __init__(self, directory, *options, wick=WICK, before=(), **env):
        self.dir, self.options, self.wick, self.before = directory, options, wick, before
        self.env = {**os.environ, "XDG_DATA_HOME": str(directory), "HOME": str(directory), **env}
        self.start()

    def start(self):
        self.log = open(self.dir / "log", "a+")
        self.p = subprocess.Popen(
            [*self.before, self.wick, "serve", "--store", str(self.dir / "store"), "--http", "127.0.0.1:0", "--otlp-grpc", "127.0.0.1:0",
             "--otlp-http", "127.0.0.1:0", "--set", f"auth.tokens={self.dir}/tokens", *self.options],
            stdout=subprocess.PIPE, stderr=self.log, text=True, env=self.env)
        line = self.p.stdout.readline()
        assert "is ready" in line, (self.dir / "log").read_text()
        self.url = line.split()[-1]
        text = (self.dir / "log").read_text()
        self.grpc = re.findall(r"OTLP/gRPC: listening on (127[^\s\"]+)", text)[-1]
        self.http = "http://" + re.findall(r"OTLP/HTTP: listening on ((?:127|0)\.[^\s\"]+)", text)[-1]

    def get(self, path, token=None, data=None, headers=None, method=None, base=None):
        h = dict(headers or {})
        if token:
            h["Authorization"] = "Bearer " + token
        q = urllib.request.Request((base or self.url) + path, data=data, headers=h, method=method)
        try:
            with urllib.request.urlopen(q, timeout=30) as r:
                return r.status, r.read()
        except urllib.error.HTTPError as e:
            return e.code, e.read()

    def json(self, path, **kw):
        status, body = self.get(path, **kw)
        assert status == 200, body
        return json.loads(body)

    def send(self, r, token=None):
        return self.get("/v1development/profiles", token, r.SerializeToString(), {"Content-Type": "application/x-protobuf"},
                        base=self.http)

    def stop(self, sig=signal.SIGTERM):
        self.p.send_signal(sig)
        start = time.time()
        code = self.p.wait(timeout=60)
        self.log.close()
        self.p.stdout.close()
        return code, time.time() - start


@pytest.fixture
def server(tmp_path):
    s = Server(tmp_path)
    yield s
    if s.p.poll() is None:
        s.stop()


def log_of(s):
    return (s.dir / "log").read_text()


def token_of(server, scope, tenant=""):
    p = subprocess.run([WICK, "token", "create", "--file", str(server.dir / "tokens"), "--scope", scope, *(["--tenant", tenant] if tenant else [])],
                       capture_output=True, text=True, check=True)
    return re.search(r"wick_\w+", p.stdout).group()


def tokens_of(directory, tenants=("one", "two")):
    """Tokens of two tenants."""
    return [subprocess.run([WICK, "token", "create", "--scope", "admin", "--tenant", t, "--file", f"{directory}/tokens"],
                           capture_output=True, text=True, check=True).stdout.split()[-1] for t in tenants]


def go_tool(*args, **kw):
    return subprocess.run(["go", *args], capture_output=True, text=True, timeout=120, **kw)


# --- a binary whose addresses are named at query time ---

SOURCE = """
static inline __attribute__((always_inline)) int inlined_leaf(int x) { volatile int y = x * 31; return y + 7; }
__attribute__((noinline)) int hot_function(int x) { return inlined_leaf(x) ^ 5; }
__attribute__((noinline)) int other_function(int x) { return hot_function(x) + 1; }
int main(int argc, char **argv) { (void) argv; return other_function(argc) & 1; }
"""


class Binary:
    def __init__(self, directory, name="program", extra=""):
        source, self.path = directory / f"{name}.c", directory / name
        source.write_text(SOURCE + extra)
        subprocess.run(["gcc", "-g", "-O1", "-Wl,--build-id", "-o", str(self.path), str(source)], check=True)
        notes = subprocess.run(["readelf", "-n", str(self.path)], capture_output=True, text=True, check=True).stdout
        self.build_id = re.search(r"Build ID: ([0-9a-f]+)", notes).group(1)

    def address(self, function):
        out = subprocess.run(["nm", str(self.path)], capture_output=True, text=True, check=True).stdout
        return int(re.search(rf"^([0-9a-f]+) [tT] {function}$", out, re.M).group(1), 16)

    def frames(self, address):
        out = subprocess.run(["addr2line", "-f", "-i", "-e", str(self.path), hex(address)], capture_output=True, text=True,
                             check=True).stdout.splitlines()
        return out[::2]

    def inlined_address(self):
        start = self.address("hot_function")
        return next(a for a in range(start, start + 64) if "inlined_leaf" in self.frames(a))


def native(build_id, samples, service="native"):
    """samples: (addresses leaf first, value); locations have no lines."""
    r = request([], service=service)
    d = r.dictionary
    strings = list(d.string_table)

    def string(s):
        strings.append(s)
        return len(strings) - 1

    d.attribute_table.add(key_strindex=string("process.executable.build_id.gnu")).value.string_value = build_id
    d.mapping_table.add(filename_strindex=string("/opt/app/program"), attribute_indices=[1])
    p = r.resource_profiles[0].scope_profiles[0].profiles[0]
    for addresses, value in samples:
        s = d.stack_table.add()
        for a in addresses:
            d.location_table.add(mapping_index=1, address=a)
            s.location_indices.append(len(d.location_table) - 1)
        p.samples.add(stack_index=len(d.stack_table) - 1, values=[value])
    del d.string_table[:]
    d.string_table.extend(strings)
    return r


# --- programs and files ---

def compile_program(directory, kind):
    """Builds one of tests/programs; the names say how."""
    exe = directory / kind
    commands = {
        "gcc": ["g++", "-O2", "-g", "-o", exe, PROGRAMS / "shop.cc"],
        "gcc-nopie": ["g++", "-O2", "-g", "-no-pie", "-o", exe, PROGRAMS / "shop.cc"],
        "gcc-dwarf4": ["g++", "-O1", "-gdwarf-4", "-o", exe, PROGRAMS / "shop.cc"],
        "gcc-nodebug": ["g++", "-O2", "-o", exe, PROGRAMS / "shop.cc"],
        "gcc-gz": ["g++", "-O2", "-g", "-gz", "-o", exe, PROGRAMS / "shop.cc"],
        "clang": ["clang++", "-O2", "-g", "-o", exe, PROGRAMS / "shop.cc"],
        "clang-split": ["clang++", "-O2", "-g", "-gsplit-dwarf", "-o", exe, PROGRAMS / "shop.cc"],
        "rust": ["rustc", "-O", "-g", "-o", exe, PROGRAMS / "shop.rs"],
        "go": ["go", "build", "-o", exe, PROGRAMS / "shop.go"],
        "go-pie-debug": ["go", "build", "-buildmode=pie", "-o", exe, PROGRAMS / "shop.go"],
        "go-pie": ["go", "build", "-buildmode=pie", "-ldflags=-s -w", "-o", exe, PROGRAMS / "shop.go"],
        "go-stripped": ["go", "build", "-ldflags=-s -w", "-o", exe, PROGRAMS / "shop.go"],
    }
    need(str(commands[kind][0]))
    if kind == "rust" and subprocess.run(["rustc", "--version"], capture_output=True).returncode:
        pytest.skip("rustc does not run")
    subprocess.run([str(x) for x in commands[kind]], check=True, cwd=directory, capture_output=True)
    return exe


NASTY = ["</script><script>alert(1)</script>", "operator<<", "a&amp;b", "std::vector<int>::at", "quote\"'\\", "ünï\u2028cødé"]


def convert(tmp_path, text, base=None, name="in.folded"):
    source = tmp_path / name
    source.write_text(text)
    args = [WICK, "convert", "--from", "folded"]
    if base:
        (tmp_path / "base.folded").write_text(base)
        args += ["--base", str(tmp_path / "base.folded")]
    out = tmp_path / (name + ".html")
    subprocess.run([*args, str(source), str(out)], check=True, capture_output=True)
    return out


# --- wick pprof -http, and Go's ---

class Served:
    def __init__(self, command, place):
        self.err = open(place / "err", "w+")
        env = {**os.environ, "TZ": "UTC", "HOME": str(place), "PPROF_BINARY_PATH": "/nonexistent", "PPROF_TMPDIR": str(place)}
        self.p = subprocess.Popen([*command], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=env)
        self.first = ""
        while "Serving web UI" not in self.first:
            self.first = self.p.stderr.readline()
            assert self.first, "no server"
        self.host, self.token = re.search(r"http://([^/\s]+)(?:/\?token=(\w+))?", self.first).groups()

    def get(self, path, **headers):
        if self.token:
            headers.setdefault("Authorization", "Bearer " + self.token)
        c = http.client.HTTPConnection(self.host, timeout=60)
        c.request("GET", path, headers=headers)
        r = c.getresponse()
        body = r.read()
        c.close()
        return r.status, {k.lower(): v for k, v in r.getheaders()}, body

    def json(self, path):
        status, _, body = self.get("/ui/api/v1/" + path)
        assert status == 200, body
        return json.loads(body)

    def stop(self):
        self.p.send_signal(signal.SIGTERM)
        try:
            return self.p.wait(timeout=20)
        finally:
            self.p.stderr.close()
            self.err.close()
