# SPDX-License-Identifier: Apache-2.0
"""The agent by wick.yaml: which processes, what they are called, how often; and the first minute of a new install."""
import json
import os
import subprocess

import pytest
from agent_tools import WICK, agent_to_file, build, complete_lines, needs_bpf
from wick_tools import Server, descendants, wait_for


@pytest.fixture(autouse=True)
def bpf():
    needs_bpf()


def services(lines):
    """{service.name: {period}} and the sum of values of each."""
    periods, sums = {}, {}
    for request in map(json.loads, lines):
        for r in request["resourceProfiles"]:
            name = next(a["value"]["stringValue"] for a in r["resource"]["attributes"] if a["key"] == "service.name")
            for p in r["scopeProfiles"][0]["profiles"]:
                periods.setdefault(name, set()).add(int(p["period"]))
                sums[name] = sums.get(name, 0) + sum(int(v) for s in p["samples"] for v in s.get("values", []))
    return periods, sums


class Burning:
    def __init__(self, *exes):
        self.running = [subprocess.Popen([exe, "5", "120"], stdout=subprocess.DEVNULL) for exe in exes]

    def __enter__(self):
        return self.running

    def __exit__(self, *_):
        for p in self.running:
            p.kill()
            p.wait()


def test_agent_by_file(tmp_path):
    """Names, users, one in N, left out; a service is called as the rules say; options of the command line win."""
    shop, other, rare = (build(tmp_path, "chain.c", n, "-O2") for n in ("shop-front-2", "left_out", "rare_one"))
    config = tmp_path / "wick.yaml"
    config.write_text(r"""
agent:
  rate: 49
  lines: false
  exclude: ['name=left_out']
  include: ['name~shop-.*', 'exe=rare_one/4', 'user=nobody', 'cgroup~no-such-group']
  rename: ['shop-(\w+)-\d+=\1.shop']
retention: {keep: 7d}
""")
    options = ["--config", config, "--rate", 97, "--budget", 0, "--interval", "1s"]
    with Burning(shop, other, rare), agent_to_file(tmp_path, *options) as (out, _):
        wait_for(lambda: len(complete_lines(out)) >= 7)
        periods, sums = services(complete_lines(out)[3:])  # the first samples come before the rules have been asked
    assert set(periods) == {"front.shop", "rare_one"}, periods
    assert periods["front.shop"] == {10**9 // 97}
    assert 0.2 * sums["front.shop"] < sums["rare_one"] < 5 * sums["front.shop"]  # one in four counts four times


def test_wrong_rules(tmp_path):
    config = tmp_path / "wick.yaml"
    for text, words in (("include: ['colour=red']", "colour"), ("rename: ['nothing']", "renaming rule"),
                        ("rename: ['(=x']", "("), ("rat: 3", "rate")):
        config.write_text(f"agent: {{{text}}}\n")
        for command in (["serve", "--check"], ["agent", "--export", "http://localhost:1"]):
            p = subprocess.run([WICK, *command, "--config", config], capture_output=True, text=True, timeout=30)
            assert p.returncode and words in p.stderr, (command, p.stderr)


def test_beginning(tmp_path):
    """More at first, then the usual rate; each in profiles of its own period."""
    exe = build(tmp_path, "chain.c", "chain", "-O2")
    args = ["--include", "exe=chain", "-F", 49, "--begin-rate", 199, "--begin", "3s", "--interval", "500ms", "--budget", 0]
    with Burning(exe), agent_to_file(tmp_path, *args) as (out, _):
        wait_for(lambda: 10**9 // 49 in services(complete_lines(out))[0].get("chain", ()))
        periods, _ = services(complete_lines(out))
        first, _ = services(complete_lines(out)[:1])
    assert first["chain"] == {10**9 // 199} and periods["chain"] == {10**9 // 199, 10**9 // 49}


def test_server(tmp_path, monkeypatch):
    """The server's agent does what its section says, and samples more in the first minute of a store that is new."""
    config = tmp_path / "wick.yaml"
    config.write_text("agent: {rename: ['served_(.*)=\\1'], exclude: ['name=left_out'], export: 'http://elsewhere:4317'}\n")
    served, left_out = build(tmp_path, "chain.c", "served_thing", "-O2"), build(tmp_path, "chain.c", "left_out", "-O2")
    monkeypatch.delenv("WICK_NO_AGENT", raising=False)
    log = tmp_path / "log"
    s = Server(tmp_path, "--config", str(config))
    try:
        with Burning(left_out), Burning(served):
            wait_for(lambda: "sampling at 99 Hz, sending every 5 s to the server" in log.read_text(), why="the agent's first line")
            wait_for(lambda: "thing" in [x["name"] for x in s.json("/api/v1/services")])
            assert "left_out" not in [x["name"] for x in s.json("/api/v1/services")]
    finally:
        s.stop()
    s = Server(tmp_path, "--config", str(config))
    try:
        wait_for(lambda: "sampling at 19 Hz, sending every 5 s to the server" in log.read_text(), why="the agent's first line")
    finally:
        s.stop()
    s = Server(tmp_path, "--set", "agent.enabled=false")
    try:
        wait_for(lambda: s.json("/api/v1/status")["agent"]["state"] == "off")
        assert not descendants(s.p.pid)
    finally:
        s.stop()


def test_new_install_of_a_service(tmp_path):
    """systemd says where things are kept."""
    for hz in (99, 19):
        p = subprocess.run([WICK, "agent", "--export", "http://127.0.0.1:9", "-d", "0.2s"], capture_output=True, text=True,
                           env={**os.environ, "STATE_DIRECTORY": str(tmp_path)}, timeout=30)
        assert f"at {hz} Hz" in p.stderr, p.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="needs a file system of its own")
def test_new_install(tmp_path):
    """wick agent leaves a mark where wick keeps things; only without one it begins with more."""
    run = f"{WICK} agent --export http://127.0.0.1:9 -d 0.2s 2>&1 | grep 'sending every'; "
    p = subprocess.run(["unshare", "-m", "sh", "-c", f"mount -t tmpfs none /var/lib || exit 77; {run}{run}ls /var/lib/wick; rm -r "
                        f"/var/lib/wick; {run.replace('-d', '-F 7 -d')}ls /var/lib"], capture_output=True, text=True, timeout=60)
    if p.returncode == 77 or "unshare:" in p.stderr:
        pytest.skip("no file system of its own: " + p.stderr)
    lines = p.stdout.splitlines()
    assert "at 99 Hz" in lines[0] and "at 19 Hz" in lines[1] and lines[2] == "agent-was-here" and "at 7 Hz" in lines[3], p.stdout
    assert len(lines) == 4
