# SPDX-License-Identifier: Apache-2.0
"""One process that is seen by two sources is counted once: what arrives is compared with user+sys of the process."""
import json
import subprocess
import sys
import time

import pytest

from agent_tools import PROGRAMS, agent_to_file, complete_lines, needs_bpf


@pytest.fixture(autouse=True)
def bpf():
    needs_bpf()


def cpu_of(path, pid):
    """CPU seconds of a process in what a collector wrote."""
    total = 0
    for line in map(json.loads, complete_lines(path)):
        strings = line["dictionary"]["stringTable"]
        for resource in line["resourceProfiles"]:
            attrs = {a["key"]: a["value"] for a in resource["resource"]["attributes"]}
            if int(attrs.get("process.pid", {}).get("intValue", 0)) != pid:
                continue
            for profile in (p for s in resource["scopeProfiles"] for p in s["profiles"]):
                if strings[profile["sampleType"]["typeStrindex"]] == "cpu":
                    total += sum(int(v) for s in profile["samples"] for v in s["values"])
    return total / 1e9


def sampled_while_it_publishes(tmp_path, types, *options):
    """CPU seconds: what the agent sent, then user+sys when the context was published, changed to nothing, and at the end."""
    with agent_to_file(tmp_path, "-F", 199, "--interval", "700ms", "--budget", 0, *options) as (out, _):
        time.sleep(1)
        p = subprocess.Popen([sys.executable, PROGRAMS / "publishes_context.py", types, "1", "3", "4"],
                             stdout=subprocess.PIPE, text=True)
        try:
            times = [float(p.stdout.readline()) for _ in range(3)]
            end, cpu, before = time.time() + 20, 0, -1
            while cpu != before and time.time() < end:
                before = cpu
                time.sleep(1.6)
                cpu = cpu_of(out, p.pid)
        finally:
            p.kill()
            p.wait()
    return cpu, *times


def test_what_a_process_sends_itself_is_left_out(tmp_path):
    """From the moment its context says so until it says otherwise; a second late is a fourth of the whole."""
    cpu, begin, end, last = sampled_while_it_publishes(tmp_path, "heap,cpu")
    assert abs(cpu - (begin + last - end)) < 0.1 * last, (cpu, begin, end, last)


@pytest.mark.parametrize("types,options", [("heap", ()), ("cpu", ("--both",))])
def test_what_it_does_not_send_is_kept(tmp_path, types, options):
    cpu, _, _, last = sampled_while_it_publishes(tmp_path, types, *options)
    assert abs(cpu - last) < 0.1 * last, (cpu, last)
