# SPDX-License-Identifier: Apache-2.0
"""The agent on other kernels, booted under qemu (kernel_boot.py): each once, with all checks that are asked for. The programs for
kernels without bpf_loop give the same answers on this one. `make test-kernels` runs all of it and writes the table of docs/agent.md."""
import concurrent.futures
import json
import os
import re
import shutil

import pytest
from agent_tools import build, folded, labels_of, needs_bpf, record
from kernel_boot import NAMES, boot, image, shown, why_not
from kernel_files import NATIVE, NO_FP, PYTHON_DEEP, PYTHONS, UNITS, Arch
from kernel_table import Table
from span_tools import judge_spans
from wick_tools import some

FRAMES = ["main", "worker"] + ["rec"] * 31 + ["leaf"]
WITHOUT_LOOP = ("5.10", "5.15")  # before 5.17 there is no bpf_loop
LIMIT = 1000000                  # instructions that the verifier processes before it refuses a program
QUICK = (("6.1", "load"), ("6.1", "frames"), ("6.1", "paranoid"), ("5.10", "load"), ("5.10", "frames"))  # of `make test`


def whole(rows, chain=FRAMES):
    """Nanoseconds in leaf() below the whole chain, and others."""
    good = sum(v for s, v in rows if "leaf" in s and s[0] == "_start" and s[:s.index("leaf") + 1][-len(chain):] == chain)
    return good, sum(v for s, v in rows if "leaf" in s) - good


def is_cut_at_1022(rows):
    """The deep recursion is cut after 1,023 frames, and says so."""
    deep = [s for s, _ in rows if "leaf" in s]
    return deep and all(s[0] == "[truncated]" and s.count("rec") == 1022 for s in deep)


def test_old_programs_say_the_same(tmp_path):
    """The verifier of this kernel takes them; stacks are the same, to 1,023 frames."""
    needs_bpf()
    exe = build(tmp_path, "chain.c", "chain", *NO_FP)
    for how in ("bpf", "old-bpf"):
        rows, p = record(tmp_path, "--via", how, "--", exe, 30, 0.7)
        good, bad = whole(rows)
        assert not bad and good > 0.3e9, (how, good, bad, p.stderr)
    rows, _ = record(tmp_path, "--via", "old-bpf", "--", exe, 1500, 0.4)
    assert is_cut_at_1022(rows)


def python_share(rows):
    """The part of the time in f() that has all 21 of them below the module."""
    hot = [(s, v) for s, v in rows if any(x.startswith("f.<locals>") or x == "f" for x in s)]
    return sum(v for s, v in hot if s.count("f") == 21 and "<module>" in s) / max(sum(v for _, v in hot), 1)


def test_old_programs_and_python(tmp_path):
    needs_bpf()
    script = tmp_path / "deep.py"
    script.write_text(PYTHON_DEEP)
    for how in ("bpf", "old-bpf"):
        rows, _ = record(tmp_path, "--via", how, "--", shutil.which("python3"), script, 1.5)
        assert python_share(rows) > 0.6, how  # the first samples come before the process has been read


# --- other kernels ---
CHECKS = {}  # name: (what the machine runs, what is asserted of its output, what it is in the table)


class Booted:
    """What a machine printed."""

    def __init__(self, arch, kernel, text, tmp_path):
        self.arch, self.kernel, self.text, self.place = arch, kernel, text, tmp_path
        self.has_loop = kernel not in WITHOUT_LOOP
        self.via = "bpf" if self.has_loop else "old-bpf"

    def shown(self, name):
        return shown(self.text, name)

    def rows(self, name):
        got = self.shown(name)
        assert got, f"nothing recorded for {name}: {self.shown(name + '.err')} {self.text[-3000:]}"
        (self.place / "rows").write_text(got)
        return folded(self.place / "rows")

    def status(self, name):
        return int(re.search(rf"^@STATUS {name} (\d+)$", self.text, re.M)[1])


def check(title, script):
    def keep(judge):
        CHECKS[judge.__name__] = (script, judge, title)
        return judge
    return keep


def recording(name, options, command, kind="folded"):
    """A script that records a command, as NAME."""
    return (f"wick record -F 199 {options} -o /tmp/{name}.{kind} -- {command} >/tmp/{name}.err 2>&1; echo @STATUS {name} $?\n"
            f"show {name} /tmp/{name}.{kind}; show {name}.err /tmp/{name}.err\n")


WAY = "$way"  # --via bpf, or old-bpf where there is no bpf_loop: the machine's script sets it


@check("programs load", """case $(uname -r) in 5.*) programs="old* on_fork" ;; *) programs= ;; esac
set -f; verify /agent.bpf.o $programs >/tmp/load; set +f; show load /tmp/load
""")
def load(m):
    """Each program is verified, with at most half of the instructions that the kernel allows."""
    got = m.shown("load")
    counts = {name: int(n) for name, n in re.findall(r"^ok (\S+) (\d+)$", got, re.M)}
    expected = ["old_tick", "old_tick_part", "on_fork"] + (["on_tick", "on_switch", "on_task"] if m.has_loop else [])
    print(m.kernel, counts)
    assert "bad " not in got and all(e in counts for e in expected), got
    assert max(counts.values()) <= LIMIT / 2, counts


@check("with each clang from 13", """case $(uname -r) in 5.*) programs="old* on_fork" ;; *) programs="-old*" ;; esac
for o in /clangs/*; do echo "clang $o"; set -f; verify $o $programs; set +f; done >/tmp/clangs; show clangs /tmp/clangs
""")
def clangs(m):
    """Whatever clang compiles the programs: a compiler may store a number on the stack where the verifier loses its bound."""
    got = m.shown("clangs")
    by = {int(part.split("/", 2)[2].split(".")[0]): dict(re.findall(r"^ok (\S+) (\d+)$", part, re.M)) for part in got.split("clang ")[1:]}
    for version, counts in sorted(by.items()):
        print(f"{m.arch} {m.kernel} clang {version}:", *(f"{p} {n}" for p, n in counts.items()))
    assert "bad " not in got and len(by) >= 4 and len({len(counts) for counts in by.values()}) == 1, got
    assert max(int(n) for counts in by.values() for n in counts.values()) <= LIMIT / 2, by


@check("stacks without frame pointers, 1,023 frames", recording("frames", WAY, "chain 30 1") + recording("deep", WAY, "chain 1500 0.5"))
def frames(m):
    good, bad = whole(m.rows("frames"))
    assert good > 0.5e9 and not bad, (good, bad, m.shown("frames.err"))
    assert f"via {m.via}, " in m.shown("frames.err")
    assert is_cut_at_1022(m.rows("deep"))


@check("programs for old kernels", recording("old", "--via old-bpf", "chain 30 1"))
def old_programs(m):
    good, bad = whole(m.rows("old"))
    assert good > 0.5e9 and not bad, (good, bad)


@check("without BPF", recording("perf", "--via perf", "chain 5 1"))
def perf(m):
    """Only when it is asked for: the stacks that perf copies are walked with the same rules."""
    good, bad = whole(m.rows("perf"), ["main", "worker"] + ["rec"] * 6 + ["leaf"])
    assert good > 0.5e9 and not bad and "via perf, " in m.shown("perf.err"), (good, bad, m.shown("perf.err"))


@check("off-CPU", recording("waits", "--via bpf -t offcpu", "sleeper"))
def off_cpu(m):
    if not m.has_loop:
        assert m.status("waits") == 1 and "off-CPU profiles require Linux 5.17 or later" in m.shown("waits.err")
        return
    rows = m.rows("waits")
    total = {f: sum(v for s, v in rows if f in s) for f in ("nap", "long_sleep")}
    assert 0.5e9 < total["nap"] < 5e9 and total["long_sleep"] > 1.9e9 and not any("[truncated]" in s for s, _ in rows), (total, rows)
    assert all(s[-1] in ("__schedule", "schedule") for s, _ in some(rows) if "nap" in s), (total, rows)


@check("C++ exceptions", recording("cpp", WAY, "exceptions 1.5"))
def exceptions(m):
    rows = m.rows("cpp")
    total = sum(v for _, v in rows)
    thrown = [(s, v) for s, v in rows if any("Unwind_RaiseException" in f for f in s)]
    assert sum(v for s, v in rows if s[0] != "[truncated]") > 0.95 * total and sum(v for _, v in thrown) > 0.05 * total, rows


@check("Go with labels", recording("go", WAY, "golabels 2", "json") + recording("gostacks", WAY, "golabels 1"))
def go(m):
    (m.place / "go.json").write_text(m.shown("go"))
    found = [(attrs.get("tenant"), value) for _, attrs, _, value in labels_of(m.place / "go.json", {"main.labelled"})]
    total = sum(v for _, v in found)
    assert sum(v for tenant, v in found if tenant == "acme") > 0.5 * total > 0, found  # the first samples come before it has been read
    hot = [(s, v) for s, v in m.rows("gostacks") if "main.leaf" in s]
    good = sum(v for s, v in hot if s[0] == "runtime.goexit" and s.count("main.rec") == 31)
    assert good > 0.95 * sum(v for _, v in hot) > 0, hot


@check("spans", "".join(f"""{name} & work=$!
wick record -F 199 $way -p $work -d 2s -o /tmp/{name}.json >/tmp/{name}.err 2>&1; kill $work; show {name} /tmp/{name}.json; show {name}.err /tmp/{name}.err
""" for name in ("spans", "spans_of_library")))
def spans(m):
    """A process that is named by its pid is read before its first sample, however long that takes."""
    for name in ("spans", "spans_of_library"):
        (m.place / f"{name}.json").write_text(m.shown(name))
        judge_spans(m.place / f"{name}.json")


@check("CPython 3.11 and 3.13", "export PYTHONHASHSEED=0\n" + "".join(recording("py" + v, WAY, f"chroot /python{v} /usr/bin/python{v} -S /deep.py 1.5") for v in PYTHONS))
def python(m):
    for v in PYTHONS:
        assert python_share(m.rows("py" + v)) > 0.5, (v, m.shown(f"py{v}.err"))


@check("what a signal interrupts", recording("signal", WAY, "interrupted 1"))
def signals(m):
    rows = m.rows("signal")
    burning = [(s, v) for s, v in rows if "burn" in s and "exit" not in s]  # the timer still runs when the program ends
    good = sum(v for s, v in burning if re.search("(^|;)main;outer;caller;leafy;[^;]*;handler;burn(;|$)", ";".join(s)))
    assert good > 0.95 * sum(v for _, v in burning) > 0, rows


@check("dump", """chain 30 60 >/dev/null & work=$!; sleep 2; wick dump $work >/tmp/dump 2>&1; kill $work; show dump /tmp/dump
interrupted 60 & work=$!; sleep 2; for i in $(seq 40); do wick dump $work >>/tmp/dumps 2>&1; grep -q handler /tmp/dumps && break; usleep 7000; done; kill $work; show dumps /tmp/dumps
""")
def dump(m):
    names = re.findall(r"^ +#\d+ +(\S+)", m.shown("dump"), re.M)
    assert names[-1] == "_start" and names[names.index("leaf"):names.index("leaf") + 34] == ["leaf"] + ["rec"] * 31 + ["worker", "main"], names
    inside = [x for x in m.shown("dumps").split("\n\n") if "handler" in x]
    assert inside and all(re.search(r"burn .*\n.*handler .*\n.*\n.*leafy .*\n.*caller .*\n.*outer ", x) for x in inside), m.shown("dumps")


@check("run", """wick run -o /tmp/run.pb.gz -- chain 30 1 >/tmp/run.err 2>&1; wick convert /tmp/run.pb.gz /tmp/run.folded 2>>/tmp/run.err
show run /tmp/run.folded; show run.err /tmp/run.err
""")
def run(m):
    good, bad = whole(m.rows("run"))
    assert good > 0.5e9 and not bad, (good, bad, m.shown("run.err"))


@check("unit tests of what differs between processors", """for t in /units/*; do echo "unit ${t##*/}"; $t; echo "exit $?"; done >/tmp/units 2>&1; show units /tmp/units
""")
def units(m):
    parts = m.shown("units").split("unit test_")[1:]
    wrong = [p for p in parts if "\nnot ok" in p or not re.search(r"^1\.\.\d+$", p, re.M) or not p.endswith("exit 0\n")]
    assert len(parts) == len(UNITS) and not wrong, wrong


@check("upgrade of a running program", """cp /bin/chain /tmp/service; /tmp/service 30 60 >/dev/null & work=$!; sleep 1; rm /tmp/service; cp /bin/sleeper /tmp/service
wick record -F 199 $way -p $work -d 2s -o /tmp/upgrade.folded >/tmp/upgrade.err 2>&1; kill $work
show upgrade /tmp/upgrade.folded; show upgrade.err /tmp/upgrade.err
""")
def upgrade(m):
    good, bad = whole(m.rows("upgrade"))
    assert good > 0.5e9 and not bad, (good, bad)


# The documented capabilities, and no others: as in a container.
# Before 5.11 the memory of BPF counts as locked: these kernels also need CAP_SYS_RESOURCE.
CAPABILITIES = "sys_resource bpf perfmon sys_admin sys_ptrace dac_read_search syslog checkpoint_restore"
AGENT = """echo %(n)d >/proc/sys/kernel/perf_event_paranoid
chain 30 60 >/dev/null & work=$!
%(as)s wick agent --export http://127.0.0.1:9 --stats /tmp/agent.stats --interval 1s --duration 2s >/tmp/agent.err 2>&1; echo @STATUS %(name)s $?
%(as)s wick doctor --json >/tmp/doctor
kill $work; show %(name)s /tmp/agent.stats; show %(name)s.err /tmp/agent.err; show %(name)s.doctor /tmp/doctor; rm -f /tmp/agent.stats
"""


def judge_agent(m, name):
    """The agent samples, and wick doctor says how."""
    assert m.status(name) == 0, (name, m.shown(name + ".err"))
    counts = json.loads(m.shown(name))
    assert counts["samples"] > 10 and counts["via"] == m.via, (name, counts, m.shown(name + ".err"))
    said = {c["check"]: c for c in json.loads(m.shown(name + ".doctor"))}["host agent"]
    assert said["state"].startswith("samples via " + m.via) and said["verdict"] == ("ok" if m.has_loop else "note"), (name, said)


@check("perf_event_paranoid 2, 3, 4", "echo 2 >/proc/sys/kernel/unprivileged_bpf_disabled\n" +
       "".join(AGENT % {"n": n, "as": "", "name": f"agent{n}"} for n in (2, 3, 4)) + "echo 2 >/proc/sys/kernel/perf_event_paranoid\n")
def paranoid(m):
    """The agent samples whatever kernel.perf_event_paranoid is: 3 is Debian's default, 4 Ubuntu's."""
    for n in (2, 3, 4):
        judge_agent(m, f"agent{n}")


@check("documented capabilities only", AGENT % {
    "n": 3, "name": "contained", "as": "/usr/bin/setpriv --inh-caps=-all --bounding-set=-all," + ",".join("+" + c for c in CAPABILITIES.split())} +
    "echo 2 >/proc/sys/kernel/perf_event_paranoid\n")
def container(m):
    judge_agent(m, "contained")


NO_TYPES = "the kernel has no type information"


@check("says what it lacks: no BTF", "mount -t tmpfs none /sys/kernel/btf\n" + recording("asked", WAY, "chain 30 0.3") + recording("any", "", "chain 30 0.5") +
       "wick doctor --json >/tmp/doctor; umount /sys/kernel/btf; show nobtf.doctor /tmp/doctor\n")
def no_btf(m):
    """What was asked for is an error; else the fallback is said, and by wick doctor that there is no agent."""
    assert m.status("asked") == 1 and NO_TYPES in m.shown("asked.err"), m.shown("asked.err")
    good, bad = whole(m.rows("any"))
    assert good > 0.1e9 and not bad and "sampled via perf: " + NO_TYPES in m.shown("any.err"), (good, bad, m.shown("any.err"))
    said = {c["check"]: c for c in json.loads(m.shown("nobtf.doctor"))}
    assert said["host agent"]["verdict"] == "bad" and NO_TYPES in said["host agent"]["state"], said["host agent"]


@check("serve with its agent", """echo 3 >/proc/sys/kernel/perf_event_paranoid
chain 30 300 >/dev/null & work=$!
wick serve --store /tmp/store >/tmp/serve.err 2>&1 & serve=$!
sleep 20; kill $work $serve; wait $serve; wick query flame 'cpu{service.name="chain"}' --store /tmp/store >/tmp/served 2>&1; echo 2 >/proc/sys/kernel/perf_event_paranoid
show served /tmp/served; show serve.err /tmp/serve.err
""")
def served(m):
    """`wick serve` as root, with the default budget: its agent has given up its rights."""
    got = m.shown("served")
    assert got and all(re.search(rf"%  +{f}$", got, re.M) for f in ("main", "worker", "rec", "leaf")), (got, m.shown("serve.err"))


@check("lockdown=integrity", "echo integrity >/sys/kernel/security/lockdown 2>/tmp/lockdown; cat /sys/kernel/security/lockdown >>/tmp/lockdown\n"
       "show lockdown /tmp/lockdown\n" + recording("locked", WAY, "chain 30 0.5") + AGENT % {"n": 3, "as": "", "name": "lockedagent"})
def lockdown(m):
    """The last one: it cannot be undone."""
    if "[integrity]" not in m.shown("lockdown"):
        pytest.skip(f"kernel {m.kernel} for {m.arch} has no lockdown: {m.shown('lockdown')}")
    good, bad = whole(m.rows("locked"))
    assert good > 0.1e9 and not bad, (good, bad)
    judge_agent(m, "lockedagent")


@pytest.fixture(scope="session")
def booted(request, table, tmp_path_factory):
    """A function that boots a kernel, with all checks of it that are collected, and returns the output. At its first call all kernels
    begin, as many at a time as there are cores."""
    place = tmp_path_factory.mktemp("kernels")
    wanted, files, running = {}, {}, {}
    for item in request.session.items:
        if item.name.startswith("test_kernel["):
            p = item.callspec.params
            wanted.setdefault((p["arch"], p["kernel"]), []).append(p["what"])
    pool = concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1)

    def begin(arch, kernel):
        script = "case $(uname -r) in 5.*) via=old-bpf ;; *) via=bpf ;; esac; way=\"--via $via\"\n"
        script += "".join(f"echo @CHECK {c}; echo @AT {c} $(cut -d' ' -f1 /proc/uptime)\n{CHECKS[c][0]}" for c in wanted[arch, kernel])
        script += "echo @AT end $(cut -d' ' -f1 /proc/uptime)\n"
        initrd = image(place / f"{arch}-{kernel}", files[arch], script)
        try:
            text = boot(kernel, initrd, arch)
            (place / f"{arch}-{kernel}.log").write_text(text)
            return text
        finally:
            initrd.unlink()

    def begin_all():
        for arch in {a for a, _ in wanted}:
            if not Arch(arch).why_not():
                (place / f"files-{arch}").mkdir()
                files[arch] = Arch(arch).everything(place / f"files-{arch}", {c for (a, _), v in wanted.items() if a == arch for c in v})
        for arch, kernel in wanted:
            if arch in files and not why_not(kernel, arch):
                running[arch, kernel] = pool.submit(begin, arch, kernel)

    def run(arch, kernel):
        if not files:
            begin_all()
        reason = Arch(arch).why_not() or why_not(kernel, arch)
        if reason:
            table.miss(reason)
            pytest.skip(reason)
        return running[arch, kernel].result()

    yield run
    pool.shutdown()


@pytest.fixture(scope="session")
def table(request):
    """The results, for docs/agent.md: written if all checks of all kernels were in this run (make test-kernels)."""
    t = Table([(name, title) for name, (_, _, title) in CHECKS.items()])
    yield t
    chosen = sum(item.name.startswith("test_kernel[") for item in request.session.items)
    if os.environ.get("WICK_KERNEL_TABLE") and chosen == len(list(cases())):
        t.write(os.environ["WICK_KERNEL_TABLE"])


def cases():
    for arch, kernels in NAMES.items():
        for kernel in kernels:
            for what in CHECKS:
                slow = arch != NATIVE or (kernel, what) not in QUICK
                yield pytest.param(arch, kernel, what, id=f"{arch}-{kernel}-{what}", marks=[pytest.mark.slow] if slow else [])


@pytest.mark.parametrize("arch, kernel, what", list(cases()))
def test_kernel(booted, table, arch, kernel, what, tmp_path):
    text = booted(arch, kernel)
    table.release(arch, kernel, text)
    assert f"@CHECK {what}\n" in text and "@DONE" in text, f"the machine did not come to its end:\n{text[-3000:]}"
    try:
        CHECKS[what][1](Booted(arch, kernel, text, tmp_path))
    except pytest.skip.Exception:
        raise
    except BaseException:
        table.add(arch, kernel, what, False)
        raise
    table.add(arch, kernel, what, True)


@pytest.mark.slow
def test_waits_without_memory(tmp_path):
    """A kernel that has no memory for a wait: it is counted as lost."""
    if Arch("amd64").why_not() or why_not("newest", "amd64"):
        pytest.skip(Arch("amd64").why_not() or why_not("newest", "amd64"))
    initrd = image(tmp_path / "initrd", Arch("amd64").everything(tmp_path, set()), CHECKS["off_cpu"][0])
    m = Booted("amd64", "newest", boot("newest", initrd, "amd64", append=""), tmp_path)
    said = m.shown("waits.err")
    assert m.status("waits") == 1 and re.search(r" 0 samples via bpf(?: \(limited\))?, [1-9]\d* lost", said) and "no samples: all were lost" in said, said


SOAK = """wick serve --store /tmp/store --set agent.budget=0 >/tmp/serve.err 2>&1 & serve=$!
sleep 5; i=0; up() { cut -d. -f1 /proc/uptime; }; end=$(($(up) + %d)); next=0
while [ $(up) -lt $end ]; do
    i=$((i + 1)); cp /bin/chain /tmp/service$((i %% 7)); /tmp/service$((i %% 7)) 10 0.2 >>/tmp/used; chain 30 0.2 >>/tmp/used; usleep 200000
    if [ $(up) -ge $next ]; then
        next=$(($(up) + 10)); for p in $(pidof wick); do echo "@USE $(up) $p $(ls /proc/$p/fd | wc -l) $(grep VmRSS /proc/$p/status | tr -dc 0-9)"; done
    fi
done
sleep 12; kill $serve; wait $serve; wick query top cpu --store /tmp/store --json >/tmp/top
show top /tmp/top; show used /tmp/used; show serve.err /tmp/serve.err
"""


@pytest.mark.slow
@pytest.mark.parametrize("kernel", ["6.1", "6.12"])
def test_soak(kernel, tmp_path):
    """Agent and server with churn for WICK_SOAK seconds: all CPU time arrives, and descriptors and memory are flat."""
    if Arch(NATIVE).why_not() or why_not(kernel):
        pytest.skip(Arch(NATIVE).why_not() or why_not(kernel))
    seconds = int(os.environ.get("WICK_SOAK", "60"))
    initrd = image(tmp_path / "initrd", Arch(NATIVE).everything(tmp_path, set()), SOAK % seconds)
    m = Booted(NATIVE, kernel, boot(kernel, initrd, megabytes=2048, timeout=seconds * 4 + 1200), tmp_path)
    processes = {}
    for t, p, fds, rss in re.findall(r"^@USE (\d+) (\d+) (\d+) (\d+)$", m.text, re.M):
        processes.setdefault(int(p), []).append((int(fds), int(rss)))
    for p, v in some(processes.items()):
        first, last = v[len(v) // 3], v[-1]
        print(kernel, p, "descriptors, KiB:", *v)
        assert last[0] <= first[0] + 3 and last[1] <= first[1] * 1.25 + 8192, (p, v)
    assert m.shown("used"), f"the machine did not come to its end:\n{m.text[-3000:]}"
    used = sum(map(float, m.shown("used").split()))
    leaf = sum(row["self"] for row in json.loads(m.shown("top"))["rows"] if row["name"] == "leaf") / 1e9
    assert 0.9 * used < leaf < 1.1 * used, (used, leaf, m.shown("serve.err"))
