# SPDX-License-Identifier: Apache-2.0
"""Java programs that really send: Pyroscope's Java agent in both of its formats, and async-profiler's OTLP. The agent's jar and
async-profiler come from Maven Central, into ~/.cache/wick. The truth is the CPU time that the program measures for itself."""
import os
import re
import shutil
import subprocess
import urllib.parse
import zipfile
from pathlib import Path

import pytest

from wick_tools import wait_for

service_pb2 = pytest.importorskip("opentelemetry.proto.collector.profiles.v1development.profiles_service_pb2")
pytestmark = pytest.mark.slow
AGENT, ASYNC_PROFILER = "io.pyroscope:agent:2.9.2", "tools.profiler:async-profiler:4.5"

PROGRAM = """
import java.lang.management.ManagementFactory;
public class Spin {
    static volatile long sum;
    static void burn(long until) { while (System.nanoTime() < until) for (int i = 0; i < 100000; i++) sum += i * 31L % 7; }
    public static void main(String[] args) throws Exception {
        long before = ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime();
        burn(System.nanoTime() + Long.parseLong(args[0]) * 1000000000L);
        System.out.println("cpu " + (ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime() - before));
        Thread.sleep(Long.parseLong(args[1]) * 1000);
    }
}
"""


def jar(artifact):
    group, name, version = artifact.split(":")
    path = Path("~/.cache/wick/java").expanduser() / f"{name}-{version}.jar"
    if not path.exists():
        if not shutil.which("mvn"):
            pytest.skip("no Maven")
        path.parent.mkdir(parents=True, exist_ok=True)
        p = subprocess.run(["mvn", "-q", "-B", "dependency:copy", f"-Dartifact={artifact}", f"-DoutputDirectory={path.parent}"], cwd=path.parent,
                           capture_output=True, text=True, timeout=600)
        if p.returncode:
            pytest.skip(f"{artifact} is not to be had: {p.stdout[-300:]}")
    return path


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    if not shutil.which("java"):
        pytest.skip("no Java")
    path = tmp_path_factory.mktemp("java") / "Spin.java"
    path.write_text(PROGRAM)
    return path


def run(program, options, burn, wait, **env):
    """The CPU time of burn() in nanoseconds, as the JVM knows it."""
    p = subprocess.run(["java", "-Xmx256m", *options, str(program), str(burn), str(wait)], cwd=program.parent, capture_output=True, text=True, timeout=180,
                       env={**os.environ, **env})
    assert p.returncode == 0, p.stderr
    return int(re.search(r"cpu (\d+)", p.stdout)[1]), p.stdout + p.stderr


def rows(server, query):
    answer = server.json("/api/v1/top?" + urllib.parse.urlencode({"query": query, "limit": 500}))
    return {r["name"]: r["total"] for r in answer["rows"]}


def burned(server, query):
    return sum(v for k, v in rows(server, query).items() if re.fullmatch(r"Spin[./]burn.*", k))


@pytest.mark.parametrize("form, query", [("jfr", 'cpu{service.name="rides"}'), ("otlp", "itimer")])
def test_pyroscope_agent(server, program, form, query):
    """The agent uploads every five seconds here. As OTLP it sends neither the name of the application nor its labels, and
    the type is async-profiler's, `itimer`."""
    cpu, said = run(program, [f"-javaagent:{jar(AGENT)}"], 8, 8, PYROSCOPE_APPLICATION_NAME="rides", PYROSCOPE_SERVER_ADDRESS=server.url,
                    PYROSCOPE_FORMAT=form, PYROSCOPE_UPLOAD_INTERVAL="5s", PYROSCOPE_LABELS="region=eu", PYROSCOPE_PROFILER_EVENT="itimer")
    wait_for(lambda: burned(server, query) > cpu / 2, 60, why=lambda: f"{burned(server, query)} of {cpu} ns; {said[-2000:]}", step=0.5)
    assert burned(server, query) < 1.5 * cpu  # a timer of the process: threads share its ticks
    if form == "jfr":
        assert server.json("/api/v1/labels/region/values?query=" + urllib.parse.quote(query)) == ["eu"]


def test_async_profiler(server, program):
    """A file that async-profiler 4.5 writes now, posted as it is. Its sum is that of protobuf's own library."""
    library, file = program.parent / "libasyncProfiler.so", program.parent / "spin.otlp"
    with zipfile.ZipFile(jar(ASYNC_PROFILER)) as z:
        library.write_bytes(z.read(next(n for n in z.namelist() if "linux-x64" in n and n.endswith(".so"))))
    cpu, _ = run(program, [f"-agentpath:{library}=start,event=itimer,interval=5ms,otlp,file={file}"], 3, 0)
    data = file.read_bytes()
    doc = service_pb2.ExportProfilesServiceRequest.FromString(data)
    d, want = doc.dictionary, {}
    for sample in doc.resource_profiles[0].scope_profiles[0].profiles[0].samples:
        leaf = d.location_table[d.stack_table[sample.stack_index].location_indices[0]]
        name = d.string_table[d.function_table[leaf.lines[0].function_index].name_strindex]
        want[name] = want.get(name, 0) + sample.values[0]
    status, body = server.get("/v1development/profiles", data=data, headers={"Content-Type": "application/x-protobuf"})
    assert status == 200, body
    answer = server.json("/api/v1/top?query=itimer&limit=5000")
    assert {r["name"]: r["self"] for r in answer["rows"] if r["self"]} == want
    assert sum(want.values()) * 5e6 > cpu / 2
