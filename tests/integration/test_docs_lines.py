# SPDX-License-Identifier: Apache-2.0
"""The command lines of README.md and docs/: each one runs here, on a server that has sampled this host (stripped programs, ones that
live for milliseconds, a JIT compiler without names), or stands in NOT_RUN with the reason. Whatever it says, the command and the
options that a line names exist."""
import functools
import json
import os
import re
import shutil
import subprocess
import time

import pytest
from agent_tools import may_sample
from ui_data import Request
from wick_tools import ROOT, WICK, Server, some, wait_for

pytestmark = pytest.mark.skipif(os.geteuid() != 0 or not may_sample(), reason="the agent may not sample here")

COMMAND = re.compile(r"(OTEL_\w+=|wick |go (tool|mod) |curl |python -m wick|pip )")


def lines_of(path):
    """Command lines of a page: what is fenced as sh or as nothing and begins with a command, and what is between backticks."""
    fence, prose, continued = None, [], ""
    for line in path.read_text().splitlines():
        if m := re.match(r"\s*```(\w*)", line):
            fence = None if fence is not None else m.group(1)
        elif fence is None:
            prose.append(line)
        elif fence in ("", "sh"):
            line = continued + line.strip().removeprefix("$ ")
            continued = line[:-1] if line.endswith("\\") else ""
            command = re.sub(r"\s+#.*", "", line)
            if not continued and (COMMAND.match(command) or fence == "sh"):
                yield command
    for text in re.findall(r"`([^`]+)`", " ".join(x.strip() for x in prose)):
        if COMMAND.match(text) and not re.fullmatch(r"(wick|go tool) [a-z]+|python -m wick run", text):  # only the name of a command
            yield text


PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
LINES = sorted({(command, page.name) for page in PAGES for command in lines_of(page)})

CHECKOUT = r"json_encode"
HOST = r"(brief|stripped|node|python)"
# line: what its standard output must match (or a file that it writes: ">FILE").
RUN = {
    "README.md": {
        "wick run -t cpu,heap --export http://localhost:4317 -- ./my-service": r"^$",
        "wick query top 'cpu{service.name=\"my-service\"}' --from now-5m": r"\bspin\b",
        "go tool pprof 'http://localhost:4040/api/v1/profile?query=cpu'": r"(?s)Showing nodes accounting for.*flat%",
        "python -m wick run app.py": r"^$",
    },
    "agent.md": {
        "wick record -- ./server": r"^$",
        "wick record -p 1234 -d 10s --top": r"\bspin\b",
        "wick record -a -d 30s --html host.html": ">host.html",
        "wick record -t cpu,offcpu -o x.pb.gz -p 12": ">x.pb.gz",
        "wick record -t cpu,offcpu -o x.html -p 12": ">x.html",
        "wick record -t offcpu -p 1234": r"offcpu|off_cpu|nanosleep|^$",
        "go tool pprof 'http://localhost:4040/pid/1234/debug/pprof/profile?seconds=30'": r"(?s)Showing nodes accounting for.*spin",
    },
    "answers.md": {"wick query --print-reference": r"(?s)## top.*`rows`"},
    "alerts.md": {
        "wick alerts list": r"checkout drifts",
        'curl -X POST http://127.0.0.1:4040/api/v1/alerts/try -H \'content-type: application/json\' -d \'{"name": "JSON", "type": "threshold", "selector": "cpu{service.name=\\"checkout\\"}", "function": "json.*", "over": "20%"}\'':
            r'^\{"rules":\[',
        "wick alerts test --rule 'checkout drifts'": r".",
        "wick alerts check wick.yaml": r"1 alert rules, .*: valid",
    },
    "collector.md": {
        "wick collector validate --config otel-collector-config.yaml": r"",
        "wick collector components --markdown": r"(?s)otlp.*sending_queue",
    },
    "configuration.md": {"wick serve --print-reference": r"retention"},
    "convert.md": {
        "wick convert cpu.pb.gz cpu.otlp.pb": ">cpu.otlp.pb",
        "wick convert --base monday.pb.gz today.pb.gz diff.html": ">diff.html",
    },
    "drift.md": {
        "wick query drift 'cpu{service.name=\"checkout\"}' --from now-10m --to now --baseline-from now-24h35m --baseline-to now-23h35m": CHECKOUT,
        "wick query verdict checkout": CHECKOUT,
        "wick query explain 'cpu{service.name=\"checkout\"}'": r"CPU time",
        "wick query verdicts cpu --from now-1d": r"deploys",
        "wick query findings 'cpu{service.name=\"checkout\"}'": r"JSON.* of cpu",
        "wick query trends 'alloc{service.name=\"checkout\"}' --from now-7d --step 1h --group-by service.version": r".",
        "wick diff old.pb.gz new.pb.gz --fail-if 'total(\"main\\.parse\") > +2pt' --markdown": r"main",
        "wick diff old-1.pb.gz,old-2.pb.gz,old-3.pb.gz new-1.pb.gz,new-2.pb.gz,new-3.pb.gz --fail-if 'self(\"^memcpy$\") > +1pt'": r"passed: self",
    },
    "dump.md": {"wick dump PID": r"\bspin\b"},
    "query.md": {
        "wick query --help": r"flame",
        "wick query top --help": r"--sort",
        "wick query types": r"(?s)\bcpu\b.*\bheap\b",
        "wick query flame cpu": CHECKOUT,
        "wick query top cpu --by function": CHECKOUT,
        "wick query callers cpu --function json_encode": r"handle",
        "wick query lines cpu --function json_encode": r"encode\.c",
        "wick query series cpu --group-by service.version --step 1m": r".",
        "wick query top 'cpu{service.version=\"2\"}' --base-query 'cpu{service.version=\"1\"}' --sort delta": CHECKOUT,
        "wick query top cpu --base-from now-25h --base-to now-24h --sort delta": CHECKOUT,
        "wick query leaks heap": r".",
        "wick query profiles cpu --sort value": r".",
        "wick query span_names --service checkout": r"POST /pay",
        "wick query span --service checkout --span-name 'POST /pay' --slowest 5": CHECKOUT,
        "wick query spans 'cpu{service.name=\"checkout\"}'": r"[0-9a-f]{16}",
        "go tool pprof 'http://localhost:4040/api/v1/profile?query=cpu'": r"(?s)Showing nodes accounting for.*flat%",
        "wick pprof 'wick://localhost:4040/SERVICE?type=cpu'": CHECKOUT,
        "wick query coverage": r".",
    },
    "sdk.md": {
        "wick run -- ./server": r"",
        "wick run -t cpu,heap,lock -o s.pb.gz -- ./server": ">s.pb.gz",
        "wick run -t cpu,heap --export http://localhost:4317 -- ./server": r"^$",
    },
    "serve.md": {
        "wick serve --check --config wick.yaml": r"",
        "wick pprof 'wick://HOST:4040/SERVICE?type=cpu&from=now-1h'": CHECKOUT,
    },
    "traces.md": {
        "wick query span_heatmap --service checkout --span-name 'POST /pay'": r"\d",
        "wick query span --service checkout --span-name 'POST /pay'": CHECKOUT,
        "wick query spans --service checkout --sort duration": r"POST /pay",
    },
    "kubernetes.md": {
        "wick token create --scope admin --file tokens": r"\bwick_\w+",
        "wick token create --scope write --file tokens": r"\bwick_\w+",
    },
    "scale.md": {
        "wick doctor --plan hosts=500,cores=16,busy=30,rate=19,keep=30d,detail=7d": r"500 hosts .* 45600 samples per second",
    },
    "backup.md": {
        "wick store backup /backup/wick --keep 14": r"^$",
        "wick store backups /backup/wick": r"(?s)PROFILES.*20\d{6}T",
        "wick store restore /backup/wick /var/lib/wick/store": r"^$",
        "wick store check /var/lib/wick/store": r"\b0 problems found",
    },
    "first-service.md": {
        "printf 'main;work;sort 17\\nmain;work;hash 5\\n' | curl --data-binary @- 'http://localhost:4040/ingest?name=batch&format=folded&units=samples&sampleRate=100'":
            r"^$",
        "curl --data-binary @cpu.pb.gz 'http://localhost:4040/ingest?name=batch&format=pprof'": r"^$",
        "wick query top 'cpu{service.name=\"checkout\"}' --from now-5m": CHECKOUT,
    },
    "grafana.md": {
        "curl -H 'Content-Type: application/json' -d '{}' http://localhost:4040/querier.v1.QuerierService/ProfileTypes": r"process_cpu:cpu:nanoseconds",
    },
    "migrate.md": {
        "wick collector validate --config otel-collector-config.yaml": r"",
        "wick diff pyroscope.pb.gz from-wick.pb.gz": r"no function's share changed",
    },
    "stability.md": {"wick --version": r"^wick \d+\.\d+\.\d+$"},
    "symbols.md": {
        "gcc -g -O2 -o server server.c": ">server",
        "wick symbols upload server": r"",
        "strip server": ">server",
        "wick symbols list": r'"quality":"(lines|names)"',
    },
    "troubleshooting.md": {
        "wick doctor": r"(?i)verdict", "wick doctor --json": r"^[\[{]", "curl http://localhost:4040/readyz": r"ok|ready",
    },
    "ui.md": {
        "curl -d '{\"text\":\"cache warmed\",\"service\":\"shop\"}' http://127.0.0.1:4040/api/v1/notes": r'"id":"\w+"',
    },
}

STAYS = "runs until it is stopped; test_serve.py, test_agent.py, test_collector.py and test_top.py run it"
STOPPED = "for a store whose server is stopped; test_store.py and test_damage_reported.py run it"
SNAPSHOT = "for an operator's directory; test_snapshot.py runs it"
BACKUP = "for an operator's machine; test_backup.py runs the like"
SERVICE = "test_first_service.py runs it"
TOKENS = "from then on the server asks for tokens; test_token_env.py and test_serve_ops.py run it"
CLUSTER = "names machines of a cluster; test_clickhouse.py runs it"
ELSEWHERE = "names another machine"
PARTIAL = "stands for a part of a line that is run, or for its form"
PYTHON = "installs a package or needs a program; test_python.py runs the like"
INSTALLS = "installs on this machine; test_release.py and test_packages.py install into bare systems"
KUBERNETES = "needs a cluster and a registry; test_helm.py renders and checks what is applied"
IMAGE = "needs podman; test_image.py runs the image with crun"
NOT_RUN = {
    **dict.fromkeys(("cd wick-VERSION-linux-x86_64", "sha256sum --check --ignore-missing SHA256SUMS", "tar xzf wick-VERSION-linux-x86_64.tar.gz",
                     "sudo ./install.sh", "sudo apt install ./wick_VERSION_amd64.deb", "sudo apt purge wick", "sudo systemctl enable --now wick",
                     "sudo dnf install ./wick-VERSION-1.x86_64.rpm", "wick uninstall --purge"), INSTALLS),
    "GOPROXY=file://$PWD/dist/goproxy,$(go env GOPROXY) GONOSUMDB=wick.dev go get wick.dev/go@vVERSION": "needs a registry; test_go_module.py does it",
    "make dist": "builds a release; test_release.py does", "make release": "builds a release; test_release.py and the others beside it do",
    "pip install --no-index --find-links dist wick-profiler": "installs wheels; test_wheels.py does",
    "podman load -i wick-VERSION-amd64.oci.tar": IMAGE,
    "podman run -d --name wick --read-only --cap-drop=all -v wick-data:/var/lib/wick -p 127.0.0.1:4040:4040 -p 127.0.0.1:4317:4317 wick:VERSION": IMAGE,
    "wick pprof -sample_index=peak_space": PARTIAL,
    "wick token create --scope read --note prometheus": TOKENS, "wick token list": TOKENS,
    **dict.fromkeys((line for line, page in LINES if page == "kubernetes.md" and line.split()[0] in ("helm", "kubectl", "skopeo")), KUBERNETES),
    "make run": "builds, and runs until it is stopped; test_demo.py runs the demo",
    "make test": "is what runs this test",
    "make && sudo make install": "installs on this machine; test_manual.py installs into a directory",
    "wick serve &": STAYS, "wick serve": STAYS, "wick top": STAYS,
    "pip install ./python": PYTHON,
    "wick record -e cycles,cache-misses -- ./x": "virtual machines count no cycles; test_record_events.py runs it",
    "wick record -e cycles,cache-misses": PARTIAL,
    "wick agent --export http://collector:4317": STAYS,
    "go tool pprof 'http://x:TOKEN@wick.example.com:4040/pid/1234/debug/pprof/profile?seconds=30'": ELSEWHERE,
    "wick agent --export URL --include 'cgroup~kubepods' --exclude name=sshd --include 'exe=postgres/4'": STAYS,
    "wick agent --config wick.yaml": STAYS, "wick serve --config wick.yaml": STAYS, "wick agent -t cpu,offcpu": STAYS,
    "wick run --export": PARTIAL, "wick record --via perf": PARTIAL, "wick record -- CMD": PARTIAL, "wick symbols upload": PARTIAL,
    "wick alerts test --send": "posts to receivers; test_alerts.py runs it",
    "wick collector --config otel-collector-config.yaml": STAYS,
    "wick collector print-config --config …": PARTIAL, "wick collector components [TYPE]": PARTIAL,
    "wick serve --check": PARTIAL, "wick agent --config": PARTIAL, "wick convert [options] IN OUT": PARTIAL,
    "perf script | wick convert - cpu.pb.gz": "needs perf and a recording; test_convert.py reads perf script",
    "wick convert --type alloc_space heap.pb.gz - --to folded | flamegraph.pl >heap.svg": "needs flamegraph.pl",
    "wick diff 'wick://wick.example.com/checkout?service.version=1.2&from=now-1d' new.pb.gz --fail-if 'total > +5%'": ELSEWHERE,
    "wick query leaks": PARTIAL,
    "go mod edit -require wick.dev/go@v0.0.0 -replace wick.dev/go=../wick/go && go mod tidy": "test_go.py builds a program this way",
    "wick serve --scrape http://localhost:8080": STAYS, "go tool pprof -tagfocus": PARTIAL,
    "go tool pprof http://localhost:8080/debug/pprof/profile?seconds=30": "a Go program of its own; test_go.py runs it",
    "wick pprof -top file -cum": PARTIAL,
    "wick pprof -http=: cpu.pb.gz": "opens a browser; test_pprof_http.py runs it",
    "wick pprof -http=localhost:8081 -diff_base=before.pb.gz after.pb.gz": "opens a browser; test_pprof_http.py runs it",
    "wick pprof -http=[host]:[port] [binary] profile...": PARTIAL, "go tool pprof -http": PARTIAL, "wick pprof -http": PARTIAL,
    "python -m wick run app.py": PYTHON, "python -m wick run app.py arguments": PYTHON,
    "python -m wick run -t cpu,heap --export http://localhost:4317 -m package.module": PYTHON,
    "python -m wick run gunicorn -w 4 app:app": PYTHON,
    "go tool pprof http://localhost:6060/debug/pprof/profile?seconds=30": "a program of its own; test_sdk_serve.py runs it",
    "wick record -p PID": PARTIAL, "wick run -- python app.py": PYTHON,
    "wick query span --trace-id … --span-id …": PARTIAL, "wick query trace --trace-id …": PARTIAL,
    "wick serve --store clickhouse://wick@ch1:8123,ch2:8123/wick": CLUSTER,
    "wick serve --store clickhouse://wick@ch1:8123,ch2:8123/wick --role ingest": CLUSTER,
    "wick serve --store clickhouse://wick@ch1:8123,ch2:8123/wick --role query": CLUSTER,
    "wick store migrate --store LOCATION": CLUSTER, "wick store migrate": CLUSTER,
    "wick store copy": STOPPED, "wick store copy DIR LOCATION": STOPPED, "wick store check": STOPPED, "wick store snapshot": STOPPED,
    "wick store check --rebuild": STOPPED, "wick store confirm damage": STOPPED, "wick store confirm clock": STOPPED,
    "wick store delete": STOPPED, "wick store export": STOPPED,
    "wick run --pprof localhost:6060 -- ./server": "listens on a fixed port; test_sdk_serve.py runs it",
    "wick agent --export": PARTIAL, "wick agent --jcmd": PARTIAL, "wick record --jcmd": PARTIAL, "wick symbolize --objdump": PARTIAL,
    "wick symbolize --tables": PARTIAL, "wick token create": PARTIAL,
    "wick token create --scope write --tenant shop": TOKENS, "wick token create --scope read --tenant shop": TOKENS,
    "wick token create --scope read --note prometheus > /etc/prometheus/wick.token": TOKENS,
    "curl -X POST 'http://HOST:4040/api/v1/store/confirm?what=clock'": "the clock is right; test_times.py runs it",
    "wick store snapshot /copy/2026-11-19": SNAPSHOT, "curl -X POST http://HOST:4040/api/v1/snapshot": SNAPSHOT,
    **dict.fromkeys(("mv /var/lib/wick/store /var/lib/wick/store.old", "systemctl start wick", "systemctl stop wick", "wick serve --no-agent --store /tmp/friday",
                     "wick store restore /backup/wick /tmp/friday --at 2026-11-20T18:00:00Z", "wick store import old.pb.gz",
                     "printf '0 2 * * * root wick store backup /backup/wick --keep 14\\n' > /etc/cron.d/wick-backup"), BACKUP),
    **dict.fromkeys((line for line, page in LINES if page == "first-service.md" and "examples/" in line or "./checkout" in line), SERVICE),
    "pip install wick-profiler": "installs from a registry; test_wheels.py installs the wheels",
    "wick demo --with go,python,node,java,ruby,php": "runs until it is stopped; test_demo.py runs it",
    'OTEL_EXPORTER_OTLP_HEADERS="Authorization=Bearer TOKEN"': PARTIAL, "OTEL_EXPORTER_OTLP_CERTIFICATE=ca.pem": PARTIAL,
    "wick token revoke ID": TOKENS, "wick agent --export http://HOST:4317": PARTIAL, "wick doctor --plan": PARTIAL, "wick store backup": PARTIAL,
    "wick record --debuginfod URL": PARTIAL, "wick serve --scrape": PARTIAL,
    "wick query flame 'cpu{service.name=\"x\"}'": "names a service that is not here",
    "go tool pprof 'http://HOST:4040/api/v1/profile?query=…'": PARTIAL,
    "wick symbols upload FILE…": PARTIAL, "wick agent --upload-symbols": PARTIAL,
    "OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:4318 opentelemetry-instrument python app.py": PYTHON,
    "OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:4317 OTEL_EXPORTER_OTLP_PROTOCOL=grpc …": PARTIAL,
    "curl --data-binary @app.jfr 'http://127.0.0.1:4040/api/v1/upload?name=app.jfr'": "needs a recording of a JDK; test_ui_api.py uploads files",
}
del RUN["README.md"]["python -m wick run app.py"]
RUNNING = [(page, line) for page, table in RUN.items() for line in table]

SPIN = """
#include <time.h>
__attribute__((noinline)) void spin(double s) {
    struct timespec a, b; volatile long x = 0;
    clock_gettime(CLOCK_MONOTONIC, &a);
    do { for (int i = 0; i < 100000; i++) x += i; clock_gettime(CLOCK_MONOTONIC, &b); }
    while (b.tv_sec - a.tv_sec + (b.tv_nsec - a.tv_nsec) / 1e9 < s);
}
int main(void) { spin(SECONDS); return 0; }
"""
SECOND = 1_000_000_000
MINUTE = 60 * SECOND


def checkout(now):
    """Two versions of a service; json_encode costs more in the second one. Yesterday is as the first."""
    def samples(share):
        frames = [("main", "main.c", 3), ("handle", "main.c", 30)]
        json_encode, query = (*frames, ("json_encode", "encode.c", 12)), (*frames, ("query", "query.c", 7))
        return [(json_encode, int(share * 60 * SECOND)), (query, int((1 - share) * 60 * SECOND))]

    for version, share, start, end in (("1", 0.1, 25 * 60, 23 * 60 + 30), ("1", 0.1, 55, 20), ("2", 0.3, 20, 0)):
        for host in ("web-1", "web-2", "web-3"):
            r = Request("checkout", version, host)
            for i in range(start, end, -1):
                at = now - i * MINUTE
                r.profile("cpu", "nanoseconds", at, samples(share + 0.01 * (i % 3)), MINUTE)
                r.profile("alloc_space", "bytes", at, [(s, v // 1000 * (70 - min(i, 60))) for s, v in samples(share)], MINUTE)
                r.profile("inuse_space", "bytes", at, [(s, v // 1000 * (70 - min(i, 60))) for s, v in samples(share)], MINUTE)
            yield r.done()


def traces(now):
    """Spans of POST /pay; the slowest has samples of version 2."""
    spans = []
    for i in range(60):
        start = now - 5 * MINUTE + i * SECOND
        spans.append({"traceId": f"{i + 1:032x}", "spanId": f"{i + 1:016x}", "name": "POST /pay", "kind": 2, "startTimeUnixNano": str(start),
                      "endTimeUnixNano": str(start + (1 + 50 * (i == 59)) * 10_000_000)})
    resource = {"attributes": [{"key": "service.name", "value": {"stringValue": "checkout"}}]}
    r = Request("checkout", "2", "web-1")
    r.profile("cpu", "nanoseconds", now - 4 * MINUTE, [((("main", "main.c", 3), ("json_encode", "encode.c", 12)), 20_000_000),
                                                         ((("main", "main.c", 3), ("query", "query.c", 7)), 10_000_000)])
    for i, s in enumerate(r.scope.profiles[-1].samples):
        n = 60 if i == 0 else 5
        r.d.link_table.add(trace_id=n.to_bytes(16, "big"), span_id=n.to_bytes(8, "big"))
        s.link_index = len(r.d.link_table) - 1
    return json.dumps({"resourceSpans": [{"resource": resource, "scopeSpans": [{"spans": spans}]}]}).encode(), r.done()


def build(place, name, seconds, *options):
    source = place / f"{name}.c"
    source.write_text(SPIN.replace("SECONDS", str(seconds)))
    subprocess.run(["gcc", "-g", "-O1", *options, "-o", place / name, source], check=True)
    return str(place / name)


def files(place):
    """What the lines name."""
    for name in ("my-service", "server", "x"):
        build(place, name, 2)
    for name in ("cpu", "old", "new", "before", "after", "monday", "today", "pyroscope", "from-wick", *(f"{x}-{i}" for x in ("old", "new") for i in (1, 2, 3))):
        subprocess.run([WICK, "convert", "--from", "folded", "-", place / f"{name}.pb.gz"], input="main;main.parse 70\nmain;memcpy 30\n", text=True, check=True)
    (place / "wick.yaml").write_text(
        "alerts:\n  rules:\n    - {name: checkout drifts, type: drift, selector: 'cpu{service.name=\"checkout\"}', for: 10m}\n")
    text = (ROOT / "docs/collector.md").read_text()
    (place / "otel-collector-config.yaml").write_text(re.search(r"```yaml\n(receivers:\n.*?)```", text, re.S).group(1))


class Host:
    """A server that samples this host, and a program that is always busy."""

    def __init__(self, place):
        place.chmod(0o755)
        self.work = place / "work"
        self.work.mkdir()
        files(self.work)
        self.processes = []
        self.server = Server(place, "--config", str(self.work / "wick.yaml"))
        now = time.time_ns()
        for r in some(checkout(now)):
            assert self.server.send(r)[0] == 200
        spans, linked = traces(now)
        assert self.server.send(linked)[0] == 200
        assert self.server.get("/v1/traces", data=spans, headers={"Content-Type": "application/json"}, base=self.server.http)[0] == 200
        self.busy = self.run(build(place, "busy", 600))
        self.waiting = self.run("python3", "-c", "import time\nwhile True: time.sleep(0.01)")
        self.messy(place)
        wait_for(lambda: {"busy", "stripped", "brief"} <= set(self.server.json("/api/v1/labels/service.name/values")), 60)

    def messy(self, place):
        stripped, brief = build(place, "stripped", 600, "-s", "-static", "-fno-asynchronous-unwind-tables"), build(place, "brief", 0.02, "-s")
        self.run(stripped)
        self.run("sh", "-c", f"while :; do {brief}; done")
        if shutil.which("node"):
            self.run("node", "-e", "function f(n) { return n < 2 ? n : f(n - 1) + f(n - 2); } for (;;) f(20)")

    def run(self, *command):
        p = subprocess.Popen(command, cwd=self.work, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        self.processes.append(p)
        return p

    def stop(self):
        for p in self.processes:
            os.killpg(p.pid, 9)
            p.wait()
        self.server.stop()

    def command(self, line):
        """The line as a reader of this server would type it, and shorter."""
        address, store = self.server.url.removeprefix("http://"), f" --store {self.server.dir}/store" if "backup /backup" in line else ""
        for old, new in (("-t offcpu -p 1234", f"-t offcpu -d 1s -p {self.waiting.pid}"), ("localhost:4040", address), ("127.0.0.1:4040", address), ("HOST:4040", address), ("localhost:4317", self.server.grpc),
                         ("1234", str(self.busy.pid)), ("-p 12", f"-p {self.busy.pid} -d 1s"),
                         ("dump PID", f"dump {self.busy.pid}"), ("SERVICE?", "checkout?"), ("-d 10s", "-d 1s"), ("-d 30s", "-d 1s"), ("/var/lib/wick/store", f"{self.work}/restored"),
                         ("seconds=30", "seconds=1")):
            line = line.replace(old, new)
        return line.replace("/backup/wick", f"{self.work}/backup{store}")


@pytest.fixture(scope="module")
def host(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("WICK_NO_AGENT", raising=False)
        h = Host(tmp_path_factory.mktemp("docs"))
    yield h
    h.stop()


@pytest.mark.parametrize("page, line", RUNNING, ids=[f"{p}: {x}" for p, x in RUNNING])
def test_line(host, page, line):
    if line.startswith("go ") and not shutil.which("go"):
        pytest.skip("no go")
    tools = host.work / "bin"
    tools.mkdir(exist_ok=True)
    if not (tools / "wick").exists():
        (tools / "wick").symlink_to(WICK)
    expected = RUN[page][line]
    p = subprocess.run(["bash", "-c", host.command(line)], input="top\n", capture_output=True, text=True, timeout=180, cwd=host.work,
                       env={**os.environ, "PATH": f"{tools}:{os.environ['PATH']}", "WICK_SERVER": host.server.url, "PPROF_TMPDIR": str(host.work)})
    assert p.returncode == 0, p.stdout + p.stderr
    if expected.startswith(">"):
        assert (host.work / expected[1:]).stat().st_size > 100
    else:
        assert re.search(expected, p.stdout), p.stdout + p.stderr


def test_every_line_is_known():
    """A line that is neither run nor has a reason, and an entry for a line that is gone."""
    run = {(x, page) for page, x in RUNNING}
    assert not [(x, page) for x, page in LINES if (x, page) not in run and x not in NOT_RUN and not any(x == y for y, _ in run)]
    written = {x for x, _ in LINES}
    assert not [x for x, page in run if (x, page) not in LINES]
    assert not set(NOT_RUN) - written


@functools.cache
def help_of(*words):
    return subprocess.run([WICK, *words, "--help"], capture_output=True, text=True).stdout


def test_options_exist():
    """Commands and options of every line, also of those that are not run."""
    for line, page in LINES:
        for part in re.split(r"\s*\|\s*|\s*&&\s*", line):
            words = re.sub(r"'[^']*'", "X", part).split(" -- ")[0].split()
            if words[:1] != ["wick"] or words[1] in ("pprof",) or words[1].startswith("-"):
                continue
            text = help_of(words[1])
            assert text, f"{page}: {line}"
            for option in re.findall(r"(?<=\s)--[a-z][\w-]+", " " + " ".join(words[2:])):  # may be none
                assert option in ("--help",) or option in text, f"{page}: {line}: {option}"
