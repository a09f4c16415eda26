# SPDX-License-Identifier: Apache-2.0
"""`wick run`: which programs it takes, what it says of the others, and which files it writes."""
import grp
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

import pytest
from sdk_tools import LIBWICK, WICK, free_port, needs_go, top, wick_run

pytestmark = needs_go
as_root = pytest.mark.skipif(os.getuid() != 0, reason="root changes users")


def refused(*args):
    p = wick_run(*args, check=False)
    assert p.returncode in (1, 2) and "ran" not in p.stdout
    return p.stderr


def test_options_out_of_range_get_a_sentence():
    assert "--rate 0 is out of range: 1 to 10000" in refused("-F", 0, "--", "echo", "ran")
    assert "--rate 20000 is out of range" in refused("-F", 20000, "--", "echo", "ran")
    assert "--depth 0 is out of range" in refused("--depth", 0, "--", "echo", "ran")
    assert "--alloc-interval 0 is out of range" in refused("--alloc-interval", 0, "--", "echo", "ran")


def test_the_output_is_checked_before_the_program_runs(tmp_path):
    assert "No such file" in refused("-o", tmp_path / "none/o.pb.gz", "--", "echo", "ran")
    assert "is a directory" in refused("-o", tmp_path, "--", "echo", "ran")
    for name in ("o.svg", "o.otlp.pb", "o.otlp.pb.gz", "o.cpuprofile", "o.callgrind", "o.htm", "o.png", "o.pb.zst"):
        assert "writes pprof" in refused("-o", tmp_path / name, "--", "echo", "ran"), name
    assert not list(tmp_path.iterdir())


def test_where_to_is_checked_before_the_program_runs():
    assert "'foo' is not an endpoint such as http://localhost:4317" in refused("--export", "foo", "--", "echo", "ran")
    assert "has no host" in refused("--export", "http://", "--", "echo", "ran")
    assert "has no valid port" in refused("--export", "foo:bar", "--", "echo", "ran")
    assert "the scheme must be http or https" in refused("--export", "ftp://x:1", "--", "echo", "ran")
    assert "is not an address such as localhost:6060" in refused("--pprof", "foo", "--", "echo", "ran")
    for taken in ("none", "localhost:1", "http://localhost"):
        assert wick_run("--export", taken, "--", "echo", "ran").stdout == "ran\n"


@pytest.mark.parametrize("command", ["no-such-command", "./no-such", "/etc/passwd", "/tmp", "script"])
def test_status_of_what_cannot_be_run_is_a_shells(tmp_path, command):
    if command == "script":
        command = str(tmp_path / "script")
        Path(command).write_text("#!/no/such/interpreter\n")
        Path(command).chmod(0o755)
    shell = subprocess.run(["bash", "-c", command], capture_output=True).returncode
    p = wick_run("-o", tmp_path / "o.pb.gz", "--", command, check=False)
    assert p.returncode == shell and shell in (126, 127), p.stderr
    assert command in p.stderr


def test_the_first_type_goes_into_the_file_that_is_named(program, tmp_path):
    out = tmp_path / "o.pb.gz"
    wick_run("-t", "heap,cpu", "-o", out, "--", program("ending"), "return")
    assert sorted(f.name for f in tmp_path.iterdir()) == ["o.cpu.pb.gz", "o.pb.gz"]
    assert top(out, "inuse_space")[1] >= 0
    assert top(tmp_path / "o.cpu.pb.gz", "cpu")[0]["burn"][1] > 0.02e9


PYTHON = """#!/usr/bin/env python3
import time
def leaf(n): return sum(i * i for i in range(n))
def middle(n): return leaf(n)
def work():
    while time.process_time() < 0.6: middle(20000)
work()
"""


@as_root
@pytest.mark.parametrize("user", [0, 65534])
def test_python_functions(user):
    """Of CPU time, also without root: the chain of functions as it was called, of a script and of its interpreter."""
    if user and int(open("/proc/sys/kernel/perf_event_paranoid").read()) > 2:
        pytest.skip("needs perf_event_paranoid of at most 2")
    place = Path(tempfile.mkdtemp(dir="/var/tmp"))
    try:
        shutil.copy(WICK, place / "wick")
        (place / "p.py").write_text(PYTHON)
        (place / "p.py").chmod(0o755)
        place.chmod(0o777)
        for k, command in enumerate([["/usr/bin/python3", place / "p.py"], [place / "p.py"]]):
            out = place / f"o{k}.pb.gz"
            p = subprocess.run(["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", *(["--inh-caps=-all"] if user else []),
                                place / "wick", "run", "-o", out, "--", *command], capture_output=True, text=True, timeout=120,
                               env={"PATH": "/usr/bin:/bin"})
            assert p.returncode == 0 and "not in this profile" not in p.stderr, p.stderr
            text = subprocess.run([WICK, "convert", "--to", "folded", out, "-"], capture_output=True, text=True, timeout=60).stdout
            chain = [s for s in text.splitlines() if ";work;middle;leaf" in s.replace("`", "")]
            assert chain, (text[:2000], p.stderr)
    finally:
        shutil.rmtree(place)


def test_python_functions_are_elsewhere(program, tmp_path):
    """Types other than CPU time are taken inside of the process, where only the interpreter's code is seen."""
    burn = "import time\nwhile time.process_time() < 0.2: sum(range(1000))"
    assert "'python -m wick run' shows them" in wick_run("-t", "cpu,wall", "-o", tmp_path / "o.pb.gz", "--", "python3", "-c", burn).stderr
    assert "Python" not in wick_run("-o", tmp_path / "o.pb.gz", "--", program("ending"), "return").stderr


@needs_go
def test_abort_and_a_crash(tmp_path):
    """A program that aborts writes its profile; of one that crashes, the message names the signal."""
    burn = "import os,time\nwhile time.process_time() < 0.4: pass\n"
    p = wick_run("-t", "cpu,wall", "-o", tmp_path / "o.pb.gz", "--", sys.executable, "-c", burn + "os.abort()", check=False)
    assert p.returncode == 134 and top(tmp_path / "o.pb.gz")[1] > 0.1e9, p.stderr
    p = wick_run("-t", "cpu,wall", "-o", tmp_path / "p.pb.gz", "--", sys.executable, "-c", burn + "os.kill(os.getpid(), 11)", check=False)
    assert p.returncode == 139 and "killed by signal 11 (Segmentation fault)" in p.stderr, p.stderr


@needs_go
@pytest.mark.parametrize("how", ["function", "syscall"])
def test_a_program_that_enters_a_sandbox_sees_one_thread(program, tmp_path, how):
    """The kernel refuses a user namespace to a process with threads; what was sampled before is kept."""
    exe = program("one_thread")
    alone = subprocess.run([exe, how], capture_output=True, text=True).stdout
    assert wick_run("-o", tmp_path / "o.pb.gz", "--", exe, how).stdout == alone
    assert alone.startswith("one ") and top(tmp_path / "o.pb.gz")[0]["main"][1] > 0.1e9


@pytest.mark.slow
@as_root
@pytest.mark.parametrize("sandbox", [False, True])
def test_chromium(tmp_path, sandbox):
    """Its zygotes check that they have one thread; with the sandbox also the kernel does."""
    if not shutil.which("chromium"):
        pytest.skip("no chromium here")
    place = Path(tempfile.mkdtemp(dir="/var/tmp"))
    try:
        for f in (WICK, LIBWICK / "libwick-preload.so"):
            shutil.copy(f, place)
        place.chmod(0o777)
        user = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all"] if sandbox else []
        page = ["chromium", "--headless", "--disable-gpu", *([] if sandbox else ["--no-sandbox"]), "--dump-dom", "data:text/html,<p>hi</p>"]
        env = {"PATH": os.environ["PATH"], "HOME": str(place), "WICK_PRELOAD": str(place / "libwick-preload.so")}
        alone = subprocess.run([*user, *page], capture_output=True, text=True, env=env, timeout=120)
        p = subprocess.run([*user, place / "wick", "run", "-o", place / "o.pb.gz", "--", *page], capture_output=True, text=True, env=env, timeout=120)
        assert (p.returncode, p.stdout) == (alone.returncode, alone.stdout) and (sandbox or "<p>hi</p>" in p.stdout), p.stderr
    finally:
        shutil.rmtree(place, ignore_errors=True)


@needs_go
def test_cpu_of_short_processes_adds_up(program, tmp_path):
    """Of 150 processes of 4 ms each, most of which see no tick of the clock."""
    exe = program("brief_life")
    wick_run("-o", tmp_path / "o.pb.gz", "--", "sh", "-c", f"i=0; while [ $i -lt 150 ]; do {exe} 4; i=$((i+1)); done")
    rows, _ = top(tmp_path / "o.pb.gz")
    assert 0.4e9 < rows["main"][1] < 1.2e9, rows


def test_musl_is_refused(program):
    exe = program("ending", "-Wl,--dynamic-linker=/lib/ld-musl-x86_64.so.1")
    assert "uses musl" in refused("--", exe)


def test_musl_programs_started_by_others_run_as_without(tmp_path):
    """musl's loader takes the library if it finds it, and then does not start the program."""
    if not shutil.which("musl-gcc"):
        pytest.skip("no musl-gcc here")
    (tmp_path / "h.c").write_text('#include <stdio.h>\nint main(void) { puts("musl"); return 3; }\n')
    subprocess.run(["musl-gcc", "-o", tmp_path / "h", tmp_path / "h.c"], check=True)
    p = wick_run("-o", tmp_path / "o.pb.gz", "--", "sh", "-c", f"{tmp_path}/h; echo $?")
    assert p.stdout == "musl\n3\n" and "relocating" not in p.stderr


def test_the_library_is_not_named_by_a_plain_path():
    """What musl's loader passes over; with the GNU C library it leads to the file from anywhere."""
    p = wick_run("--pprof", "127.0.0.1:0", "--", "sh", "-c", "echo $LD_PRELOAD; grep -c libwick-preload /proc/$$/maps")
    path, n = p.stdout.split()
    assert path.startswith("$ORIGIN/../") and int(n) > 0


@as_root
def test_workers_of_another_user_write_their_parts(program, tmp_path):
    tmp_path.chmod(0o700)
    jail = tmp_path / "jail"
    jail.mkdir()
    p = wick_run("-o", tmp_path / "o.pb.gz", "--", program("dropped"), jail)
    assert p.stdout == "0\n" and "cannot" not in p.stderr
    rows, total = top(tmp_path / "o.pb.gz")
    assert rows["worker"][1] > 0.25e9, rows  # named by way of /proc/self/exe: the directory is closed to it
    assert total > 0.55e9  # the other one has no /proc


@as_root
def test_workers_of_nginx_write_their_parts(tmp_path):
    if not shutil.which("nginx"):
        pytest.skip("no nginx here")
    tmp_path.chmod(0o700)
    port = free_port()
    (tmp_path / "n.conf").write_text(f"""
daemon off; user nobody {grp.getgrgid(65534).gr_name}; worker_processes 1; pid {tmp_path}/pid; error_log stderr;
events {{ }}
http {{ access_log off; server {{ listen 127.0.0.1:{port}; return 200 "hello"; }} }}
""")
    p = subprocess.Popen([WICK, "run", "-F", "1000", "-o", tmp_path / "o.pb.gz", "--", "nginx", "-c", tmp_path / "n.conf"],
                         stderr=subprocess.PIPE, text=True)
    deadline = time.time() + 60
    asked = 0
    while asked < 1500:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=5).read()
            asked += 1
        except OSError:
            assert time.time() < deadline
            time.sleep(0.05)
    p.terminate()
    err = p.communicate(timeout=60)[1]
    assert p.returncode == 0 and "all processes" in err, err
    rows, _ = top(tmp_path / "o.pb.gz")
    assert any("ngx_worker_process_cycle" in f or "ngx_epoll_process_events" in f for f in rows) or len(rows) > 3, rows


def test_the_file_has_lines_and_inlined_calls(program, tmp_path):
    wick_run("-o", tmp_path / "o.pb.gz", "--", program("inlined_price"), 1)
    rows, total = top(tmp_path / "o.pb.gz")
    assert rows["price"][0] > 0.9 * total, rows


JIT = """
function hotLeaf(n) { let x = 0; for (let i = 0; i < n; i++) x += i % 7; return x }
let s = 0
while (process.cpuUsage().user < 700000) s += hotLeaf(200000)
"""


@pytest.mark.skipif(not shutil.which("node"), reason="node is not installed")
def test_names_of_compiled_javascript(tmp_path):
    """From the perf map that Node writes; without one, the frames say what to do."""
    (tmp_path / "p.js").write_text(JIT)
    wick_run("-o", tmp_path / "named.pb.gz", "--", "node", "--perf-basic-prof", "--no-logfile-per-isolate", f"--logfile={tmp_path}/v8.log", tmp_path / "p.js")
    rows, total = top(tmp_path / "named.pb.gz")
    assert sum(v[0] for name, v in rows.items() if "hotLeaf" in name) > 0.3 * total, rows
    wick_run("-o", tmp_path / "plain.pb.gz", "--", "node", tmp_path / "p.js")
    rows, total = top(tmp_path / "plain.pb.gz")
    assert rows["[node: run with --perf-basic-prof]"][0] > 0.3 * total, rows
