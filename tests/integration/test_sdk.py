# SPDX-License-Identifier: Apache-2.0
"""libwick inside real programs, by way of `wick run`: totals, stacks, heap, locks, wall, spans, servers, failures."""
import os
import re
import shutil
import signal
import socket
import subprocess
import urllib.request
from pathlib import Path

import pytest
from go_tools import Answering, pprof_command, serving
from sdk_tools import GO, LIBWICK, ROOT, WICK, free_port, needs_go, process_context, top, traces, wick_run
from wick_tools import PROGRAMS, cpu_seconds, descendants, measured, some, wait_for

pytestmark = needs_go


@pytest.mark.parametrize("rate", [100, 1000])
def test_cpu_total_and_stacks(program, tmp_path, rate):
    out = tmp_path / "o.pb.gz"

    def ratio(k):
        p = wick_run("-F", rate, "-o", out, "--", program("cpu_split"), k, 2)
        return top(out)[1] / 1e9 / float(p.stdout.split()[1])

    measured(ratio, 0.03 + 1 / rate)  # +-3 % and the granularity of a sample
    rows, _ = top(out)
    hot = {n: rows.get(n, (0, 0))[0] for n in ("hot_a", "hot_b", "hot_c")}
    assert hot["hot_a"] > hot["hot_b"] > 0, hot
    full = [s for s in traces(out) if s[0].startswith("hot_")]
    assert full
    for s in full:
        assert s[1:16] == ["deep"] * 15 and s[16] == "work" and s[-1] in ("__clone3", "clone3", "clone", "[libc.so.6]"), s


def test_short_threads_count(program, tmp_path):
    out = tmp_path / "o.pb.gz"

    def ratio(k):
        p = wick_run("-o", out, "--", program("short_threads"), 3000 * k, 1)
        rows, total = top(out)
        assert rows["short_thread"][1] / total > 0.9
        return total / 1e9 / float(p.stdout.split()[1])

    measured(ratio, 0.05)


def test_short_threads_count_by_the_api(program, tmp_path):
    exe = program("short_threads", "-DWITH_API", f"-I{ROOT}/include", f"-L{LIBWICK}", "-lwick", f"-Wl,-rpath,{LIBWICK}")

    def ratio(k):
        p = subprocess.run([exe, str(2000 * k), "1"], cwd=tmp_path, capture_output=True, text=True, timeout=60)
        rows, total = top(tmp_path / "cpu.pb.gz")
        assert rows["short_thread"][1] / total > 0.9
        return total / 1e9 / float(p.stdout.split()[1])

    measured(ratio, 0.07)


def test_two_equal_threads_get_equal_shares(program, tmp_path):
    """Per-thread timers: no skew between threads, whatever the tick does (process-wide timers gave up to 80/20)."""
    out = tmp_path / "o.pb.gz"

    def ratio(k):
        """The one that is further from 1."""
        p = wick_run("-F", 1000, "-o", out, "--", program("two_threads"))
        rows, _ = top(out)
        return max((rows[name][1] / 1e9 / float(cpu) for name, cpu in zip(("left", "right"), p.stdout.split())), key=lambda r: abs(r - 1))

    measured(ratio, 0.03)


def test_lock_waits(program, tmp_path):
    out = tmp_path / "o.pb.gz"

    def ratio(k):
        p = wick_run("-t", "lock", "-o", out, "--", program("lock_wait"))
        rows, total = top(out, "delay")
        assert rows["critical"][1] == total
        return total / 1e9 / float(p.stdout)

    measured(ratio, 0.05)


@pytest.mark.skipif(not shutil.which("rustc"), reason="no rustc")
def test_lock_waits_of_rusts_standard_library(tmp_path):
    """They call the kernel themselves. A condition and a parked thread are no lock."""
    exe = tmp_path / "rust_locks"
    subprocess.run(["rustc", "-O", "-g", "-o", exe, PROGRAMS / "rust_locks.rs"], check=True)
    p = wick_run("-t", "lock", "-o", tmp_path / "o.pb.gz", "--", exe)
    rows, total = top(tmp_path / "o.pb.gz", "delay")
    mutex, rwlock = map(int, p.stdout.split())
    here = {f: sum(v[1] for name, v in rows.items() if name.split("::")[-1] == f) for f in ("for_mutex", "for_rwlock", "idle")}
    assert abs(here["for_mutex"] / mutex - 1) < 0.1 and abs(here["for_rwlock"] / rwlock - 1) < 0.1, (here, p.stdout)
    assert not here["idle"] and total < 1.1 * (mutex + rwlock), (here, total)


def test_wall_without_interruptions(program, tmp_path):
    out = tmp_path / "o.pb.gz"

    def ratio(k):
        """Of the function that is furthest from the time it says it slept."""
        p = wick_run("-t", "wall", "-o", out, "--", program("sleeper"))
        interrupted, nap, events, long = p.stdout.split()
        assert interrupted == "0"  # EINTR
        rows, _ = top(out, "wall")
        assert rows["nanosleep"][0] > 2e9 and rows["epoll_wait"][0] > 0.5e9  # leaves have the names of the calls
        ratios = [rows[f][1] / 1e9 / float(s) for f, s in (("nap", nap), ("wait_events", events), ("long_sleep", long))]
        return max(ratios, key=lambda r: abs(r - 1))

    measured(ratio, 0.15)


def test_children_are_merged(program, tmp_path):
    out = tmp_path / "o.pb.gz"
    exe = program("cpu_split")
    p = wick_run("-t", "cpu,heap", "-o", out, "--", "sh", "-c", f"{exe} 0.5 1 & {exe} 0.5 1; wait")
    assert "all processes" in p.stderr
    rows, total = top(out)
    assert rows["deep"][1] > 0.9e9
    assert (tmp_path / "o.heap.pb.gz").exists()
    assert sorted(f.name for f in tmp_path.iterdir()) == ["o.heap.pb.gz", "o.pb.gz"]


def test_killed_program_still_reports(program, tmp_path):
    out = tmp_path / "o.pb.gz"
    p = subprocess.Popen([WICK, "run", "-o", out, "--", program("cpu_split"), "60", "1"], stderr=subprocess.PIPE, text=True)
    wait_for(lambda: sum(map(cpu_seconds, descendants(p.pid))) > 0.5, why="half a second of work")
    p.send_signal(signal.SIGTERM)
    assert p.wait(timeout=60) == 128 + signal.SIGTERM
    rows, total = top(out)
    assert rows["deep"][1] > 0.1e9


def test_pprof_server(program, tmp_path):
    port = free_port()
    p = subprocess.Popen([WICK, "run", "-t", "cpu", "--pprof", f"127.0.0.1:{port}", "--", program("cpu_split"), "20", "1"],
                         stdout=subprocess.DEVNULL)
    try:
        def index():
            try:
                return urllib.request.urlopen(f"http://127.0.0.1:{port}/debug/pprof/", timeout=10).read()
            except OSError:
                return None

        page = wait_for(index)
        assert b"profile" in page
        got = subprocess.run([*pprof_command(), "-top", f"http://127.0.0.1:{port}/debug/pprof/profile?seconds=1"],
                             capture_output=True, text=True, env={**os.environ, "PPROF_TMPDIR": str(tmp_path)})
        assert got.returncode == 0, got.stderr
        assert "deep" in got.stdout and "Type: cpu" in got.stdout
        types = subprocess.run([*pprof_command(), "-raw", f"http://127.0.0.1:{port}/debug/pprof/heap"], capture_output=True,
                               text=True, env={**os.environ, "PPROF_TMPDIR": str(tmp_path)}).stdout
        assert "alloc_objects/count alloc_space/bytes inuse_objects/count inuse_space/bytes" in types
        mutex = subprocess.run([*pprof_command(), "-raw", f"http://127.0.0.1:{port}/debug/pprof/mutex"], capture_output=True,
                               text=True, env={**os.environ, "PPROF_TMPDIR": str(tmp_path)}).stdout
        assert "contentions/count delay/nanoseconds" in mutex
        with pytest.raises(urllib.error.HTTPError) as e:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/debug/pprof/nothing", timeout=30)
        assert e.value.code == 404
        request = urllib.request.Request(f"http://127.0.0.1:{port}/debug/pprof/", headers={"Host": "evil.example"})
        with pytest.raises(urllib.error.HTTPError) as e:
            urllib.request.urlopen(request, timeout=30)
        assert e.value.code == 403
    finally:
        p.kill()
        p.wait()


def test_port_in_use_is_one_line_and_the_program_runs(program):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        s.listen()
        p = wick_run("--pprof", f"127.0.0.1:{s.getsockname()[1]}", "--", program("cpu_split"), 0.1, 1)
    assert "Address already in use" in p.stderr and p.stderr.count("\n") == 1
    assert p.stdout.startswith("cpu ")


def test_wrong_use():
    p = wick_run("-t", "nonsense", "--", "true", check=False)
    assert p.returncode == 2 and "nonsense" in p.stderr
    p = wick_run("--", "/no/such/program", check=False)
    assert p.returncode == 127 and "No such file" in p.stderr
    p = wick_run("--", GO, "version", check=False)
    assert p.returncode == 1 and "Go program" in p.stderr and "wick record" in p.stderr
    p = wick_run(check=False)
    assert p.returncode == 2


def test_static_binary_is_recognised(tmp_path):
    src = tmp_path / "s.c"
    src.write_text("int main(void){return 0;}")
    exe = tmp_path / "s"
    if subprocess.run(["cc", "-static", "-o", exe, src], capture_output=True).returncode:
        pytest.skip("no static libc")
    p = wick_run("--", exe, check=False)
    assert p.returncode == 1 and "statically linked" in p.stderr


def test_exit_status_and_output_pass_through(tmp_path):
    """Shells end by _exit(), which runs no destructors: their profile is there all the same."""
    p = wick_run("-o", tmp_path / "o.pb.gz", "--", "sh", "-c", "echo out; exit 7", check=False)
    assert p.returncode == 7 and p.stdout == "out\n"
    assert (tmp_path / "o.pb.gz").exists() and "wrote" in p.stderr


# --- the API, and what leaves the process ---


@pytest.fixture(scope="session")
def api_use(program):
    return program("api_use", f"-I{ROOT}/include", f"-L{LIBWICK}", "-lwick", f"-Wl,-rpath,{LIBWICK}")


def check_request(request):
    """An ExportProfilesServiceRequest of api_use: names, links, labels, types, sums."""
    d = request.dictionary
    s = d.string_table
    resource = {a.key: a.value.string_value or a.value.int_value for a in request.resource_profiles[0].resource.attributes}
    assert resource["service.name"] == "api-use" and resource["team"] == "a b" and resource["process.pid"] > 0
    profile = request.resource_profiles[0].scope_profiles[0].profiles[0]
    scope = {a.key: a.value.int_value for a in request.resource_profiles[0].scope_profiles[0].scope.attributes}
    assert scope["wick.rate"] == 100
    assert (s[profile.sample_type.type_strindex], s[profile.sample_type.unit_strindex]) == ("cpu", "nanoseconds")
    by = {}
    for sample in some(profile.samples):
        names = [s[d.function_table[d.location_table[l].lines[0].function_index].name_strindex]
                 for l in d.stack_table[sample.stack_index].location_indices if d.location_table[l].lines]
        link = d.link_table[sample.link_index].span_id.hex()[:2] if sample.link_index else ""
        attrs = {s[d.attribute_table[a].key_strindex]: d.attribute_table[a].value.string_value for a in sample.attribute_indices}
        kind = "in_span" if "in_span" in names else "outside" if "outside" in names else "other"
        assert "thread.id" in attrs and len(sample.timestamps_unix_nano) == len(sample.values) > 0, (attrs, sample)
        assert all(-10**9 < at - profile.time_unix_nano < profile.duration_nano + 10**9 for at in sample.timestamps_unix_nano), (profile.time_unix_nano, sample)
        key = (kind, link, attrs.get("route", ""))
        by[key] = by.get(key, 0) + sum(sample.values)
    assert abs(by[("in_span", "b0", "/checkout")] / 0.3e9 - 1) < 0.25, by
    assert abs(by[("in_span", "b1", "/checkout")] / 0.3e9 - 1) < 0.25, by
    assert abs(by[("outside", "", "")] / 0.6e9 - 1) < 0.3, by
    mappings = {s[m.filename_strindex]: [s[d.attribute_table[a].key_strindex] for a in m.attribute_indices] for m in d.mapping_table}
    assert any("api_use" in f and "process.executable.build_id.gnu" in a for f, a in mappings.items()), mappings


def test_export_grpc(api_use):
    from collector_peer import Sink
    with Sink() as sink:
        p = subprocess.run([api_use, f"http://127.0.0.1:{sink.port}"], capture_output=True, text=True, timeout=60)
        assert p.returncode == 0 and "done" in p.stdout and "flush 0" in p.stdout, p.stdout + p.stderr
        assert not re.search("not |sampled while", p.stdout), p.stdout
        check_request(sink.requests[0])
        assert sink.metadata[0]["otlp-profiles-development-version"] == "1"


def test_export_http(api_use):
    import gzip
    from opentelemetry.proto.collector.profiles.v1development import profiles_service_pb2 as svc
    got = []

    class Handler(Answering):
        def do_POST(self):
            got.append((self.path, dict(self.headers), self.rfile.read(int(self.headers["Content-Length"]))))
            self.answer(200)

    with serving(Handler) as server:
        p = subprocess.run([api_use, server.url], capture_output=True, text=True, timeout=60,
                           env={**os.environ, "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
                                "OTEL_EXPORTER_OTLP_HEADERS": "x-key=k%201"})
    assert "flush 0" in p.stdout and "done" in p.stdout, p.stdout + p.stderr
    path, headers, body = got[0]
    assert path == "/v1development/profiles" and headers["x-key"] == "k 1"
    check_request(svc.ExportProfilesServiceRequest.FromString(gzip.decompress(body)))


def test_unreachable_collector_harms_nobody(api_use):
    p = subprocess.run([api_use, f"http://127.0.0.1:{free_port()}"], capture_output=True, text=True, timeout=60)
    assert p.returncode == 0 and "done" in p.stdout
    assert "flush -6 cannot reach 127.0.0.1" in p.stdout and not p.stderr, p.stdout


def test_thread_context_is_published(api_use):
    """OTEP 4719 and 4947: a reader from outside finds the process's context, and the variable in .dynsym."""
    p = subprocess.Popen([api_use, "none", "context"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert p.stdout.readline().strip() == "ready"
        maps = Path(f"/proc/{p.pid}/maps").read_text()
        line = next(l for l in maps.splitlines() if "OTEL_CTX" in l)
        start = int(line.split("-")[0], 16)
        with open(f"/proc/{p.pid}/mem", "rb") as mem:
            mem.seek(start)
            head = mem.read(32)
            assert head[:8] == b"OTEL_CTX" and head[8:12] == b"\2\0\0\0" and head[16:24] != bytes(8)
            size, at = int.from_bytes(head[12:16], "little"), int.from_bytes(head[24:32], "little")
            mem.seek(at)
            payload = mem.read(size)
        assert b"api-use" in payload and b"tlsdesc_v1_dev" in payload and b"route" in payload
        symbols = subprocess.run(["readelf", "-W", "--dyn-syms", LIBWICK / "libwick.so"], capture_output=True, text=True).stdout
        assert re.search(r"TLS\s+GLOBAL\s+DEFAULT\s+\d+ otel_thread_ctx_v1", symbols)
    finally:
        p.communicate("\n", timeout=60)


@pytest.mark.parametrize("args, types", [(["--export", "http://127.0.0.1:1", "-t", "cpu,heap"], b"cpu,alloc,heap"),
                                         (["--export", "http://127.0.0.1:1", "-t", "lock"], b"lock"),
                                         (["--pprof", "127.0.0.1:0"], None)])
def test_the_process_context_names_the_types_that_are_sent(args, types):
    """An agent leaves a process out of its profiles of the types that the process sends itself."""
    p = subprocess.Popen([WICK, "run", *args, "--", "cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        payload = process_context(p.pid)
    finally:
        p.communicate(timeout=60)
    if types:
        assert b"wick.profile.types\x12" + bytes([len(types) + 2]) + b"\x0a" + bytes([len(types)]) + types in payload
    else:
        assert b"wick.profile.types" not in payload


def test_only_the_api_is_exported():
    names = subprocess.run(["nm", "-D", "--defined-only", LIBWICK / "libwick.so"], capture_output=True, text=True).stdout.split()[2::3]
    assert all(n.startswith(("wick_", "otel_thread_ctx_v1", "WICK_")) for n in some(names)), names


def test_heap_and_locks_by_the_api(program, tmp_path):
    exe = program("api_heap", f"-I{ROOT}/include", f"-L{LIBWICK}", "-lwick", f"-Wl,-rpath,{LIBWICK}")

    def ratio(k):
        p = subprocess.run([exe], cwd=tmp_path, capture_output=True, text=True, timeout=60)
        allocated, live, waited = map(float, p.stdout.split())
        assert abs(top(tmp_path / "heap.pb.gz", "alloc_space")[0]["keep"][1] / allocated - 1) < 0.05  # 60000 samples
        assert abs(top(tmp_path / "heap.pb.gz", "inuse_space")[0]["keep"][1] / live - 1) < 0.12  # 3000 samples: 6 standard errors
        return top(tmp_path / "lock.pb.gz", "delay")[1] / 1e9 / waited

    measured(ratio, 0.1)


def limits(program, tmp_path, what):
    exe = program("api_limits", f"-I{ROOT}/include", f"-L{LIBWICK}", "-lwick", f"-Wl,-rpath,{LIBWICK}")
    p = subprocess.run([exe, what], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert p.returncode == 0, p.stdout
    return [float(x) for x in p.stdout.split()]


def test_too_many_stacks_keep_the_total(program, tmp_path):
    """512 stacks where 10 are allowed: the rest is one stack, [truncated], and no time is missing."""
    def ratio(k):
        cpu, _, _, _, _ = limits(program, tmp_path, "samples")
        rows, total = top(tmp_path / "cpu.pb.gz")
        assert rows["[truncated]"][0] > 0.8 * total and len(traces(tmp_path / "cpu.pb.gz")) <= 11
        return total / 1e9 / cpu

    measured(ratio, 0.05)


def test_deep_stacks_are_cut_and_marked(program, tmp_path):
    _, truncated, _, _, _ = limits(program, tmp_path, "depth")
    stacks = [s for s in traces(tmp_path / "cpu.pb.gz") if "deep" in s]
    assert truncated > 0 and stacks and all(len(s) == 51 and s[-1] == "[cut]" for s in stacks), stacks[:1]


def test_the_governor_keeps_to_its_budget(program, tmp_path):
    """Snapshots all the time cost more than 0.1 % of the CPU: the rate goes down, and is told."""
    _, _, _, rate, governor = limits(program, tmp_path, "budget")
    assert rate < 10000 and governor > 0


def test_the_rate_comes_back_when_there_is_room(program, tmp_path):
    _, _, _, rate, governor = limits(program, tmp_path, "room")
    assert rate == 200 and governor > 0


def test_spans_of_another_sdk_are_read(program, tmp_path):
    out = tmp_path / "o.pb.gz"
    wick_run("-F", 500, "-o", out, "--", program("other_sdk", "-rdynamic"))
    raw = subprocess.run([*pprof_command(), "-tags", str(out)], capture_output=True, text=True).stdout
    assert re.search(r"span_id:.*\n.*: " + "cd" * 8, raw) and "ab" * 16 in raw, raw
    rows, total = top(out)
    focus = subprocess.run([*pprof_command(), "-top", "-unit=ns", "-tagfocus=span_id=" + "cd" * 8, str(out)], capture_output=True,
                           text=True).stdout
    assert "inside" in focus and "outside" not in focus, focus


def test_wall_by_the_api_reads_sleeping_stacks(program, tmp_path):
    """Nothing is hooked and nobody is woken: the kernel says where a sleeping thread is, and its memory is there to read."""
    exe = program("api_wall", f"-I{ROOT}/include", f"-L{LIBWICK}", "-lwick", f"-Wl,-rpath,{LIBWICK}")
    p = subprocess.run([exe], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert p.stdout == "0\n", p.stdout
    rows, _ = top(tmp_path / "wall.pb.gz", "wall")
    assert rows["napper"][1] > 1.5e9, rows
    assert rows["main"][1] > 1.5e9, rows


def waits_of(program, tmp_path, seconds):
    """What a program's threads slept in nap(), doze() and in all: by libwick, and by the program's account from how long at least to how
    long at most, in seconds."""
    exe = program("short_waits", f"-I{ROOT}/include", f"-L{LIBWICK}", "-lwick", f"-Wl,-rpath,{LIBWICK}")
    p = subprocess.run([exe, str(seconds)], cwd=tmp_path, capture_output=True, text=True, timeout=10 * seconds + 60)
    own, rows = [int(x) / 1e9 for x in p.stdout.split()], top(tmp_path / "wall.pb.gz", "wall")[0]
    seen = {f: rows[f][1] / 1e9 for f in ("nap", "doze")}
    return {"nap": (seen["nap"], *own[0:2]), "doze": (seen["doze"], *own[2:4]), "all": (sum(seen.values()), own[0] + own[2], own[1] + own[3])}


def off(seen, least, most):
    """1 within the bounds, else the ratio to the next one."""
    return 1 if least <= seen <= most else seen / least if seen < least else seen / most


def test_short_waits_between_work(program, tmp_path):
    """Threads that wait for milliseconds between milliseconds of work: all their waiting is where they waited, though most looks find
    some of them at work."""
    measured(lambda k: off(*waits_of(program, tmp_path, 3 * k)["all"]), 0.05)


@pytest.mark.slow
def test_short_waits_each(program, tmp_path):
    """The shorter of two kinds of waits has its share."""
    seen = waits_of(program, tmp_path, 40)
    assert all(abs(off(*x) - 1) < 0.05 for x in some(seen.values())), seen


def slept(p):
    return [float(x) * 1e9 for x in p.stdout.split()]


def test_spans_in_threads_that_live_20_ms_have_their_time(program, tmp_path):
    """A thread for each request: between two looks at the threads most of them come and go."""
    exe = program("short_spans", "-DWITH_API", f"-I{ROOT}/include", f"-L{LIBWICK}", "-lwick", f"-Wl,-rpath,{LIBWICK}")
    short, long = slept(subprocess.run([exe, "4", "20"], cwd=tmp_path, capture_output=True, text=True, timeout=60))

    def totals(*options):
        text = subprocess.run([*pprof_command(), "-top", "-unit=ns", "-nodefraction=0", *options, str(tmp_path / "wall.pb.gz")], capture_output=True, text=True).stdout
        return {f: float(v) for v, f in re.findall(r"([\d.]+)ns +[\d.]+% +(\w+)\n", text)}

    seen, everything = totals("-tagfocus=span_id"), totals()
    assert all(seen[f] >= 0.95 * everything[f] for f in ("short_lived", "long_lived")), (seen, everything)  # linked in both shapes
    assert 0.85 < seen["short_lived"] / short < 1.15 and 0.85 < seen["long_lived"] / long < 1.15, (seen, short, long)


def test_waits_of_threads_that_live_1_ms_add_up(program, tmp_path):
    """The first wait of a thread is no more likely to be sampled than any other."""
    short, long = slept(wick_run("-t", "wall", "-o", tmp_path / "o.pb.gz", "--", program("short_spans"), "2", "1"))
    rows, _ = top(tmp_path / "o.pb.gz", "wall")
    assert 0.8 < rows["short_lived"][1] / short < 1.25 and 0.8 < rows["long_lived"][1] / long < 1.25, (rows, short, long)


@pytest.mark.parametrize("what", ["fork", "vfork", "exec", "dlopen", "threads", "signals", "fibers", "altstack", "exit-in-thread"])
def test_robust(program, tmp_path, what):
    p = wick_run("-F", 1000, "-t", "cpu,wall,heap,lock", "-o", tmp_path / "o.pb.gz", "--", program("robust", "-ldl"), what)
    assert p.stdout.splitlines()[-1] == "fine", p.stdout + p.stderr
    rows, total = top(tmp_path / "o.pb.gz")
    assert total > 0 or what in ("threads", "exit-in-thread")


@pytest.mark.slow
def test_soak(program):
    """dlopen, fork and thread churn under all types; SOAK_SECONDS=1800 for half an hour."""
    seconds = int(os.environ.get("SOAK_SECONDS", "60"))
    with socket.socket() as nobody:  # a collector that accepts and never answers
        nobody.bind(("127.0.0.1", 0))
        nobody.listen()
        p = wick_run("-F", 1000, "-t", "cpu,wall,heap,lock", "--export", f"http://127.0.0.1:{nobody.getsockname()[1]}", "--",
                     program("robust", "-ldl"), "soak", seconds, timeout=seconds + 120)
    rss, early, late = p.stdout.splitlines()[-2].split()
    assert p.stdout.splitlines()[-1] == "fine"
    assert int(late) - int(early) < 8192, p.stdout  # KiB


def test_objects_that_appear_between_two_looks(program, tmp_path):
    """More than 16 objects loaded while the list is made overflowed it."""
    exe = program("objects_appear", f"-I{ROOT}/include", f"-L{LIBWICK}", "-lwick", f"-Wl,-rpath,{LIBWICK}", "-rdynamic", "-ldl")
    p = subprocess.run([exe], capture_output=True, text=True, timeout=60)
    assert (p.returncode, p.stdout) == (0, "all\n"), p.stderr
