# SPDX-License-Identifier: Apache-2.0
"""Alerts end to end: rules in wick.yaml, profiles that are pushed, a webhook receiver that is a real HTTP server, and what becomes of
it all after a reload, a restart and a receiver that does not answer."""
import http.server
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import threading
import time
import urllib.parse
from pathlib import Path

import pytest

from wick_tools import SHOP, WICK, Server, free_port, log_of, need, request, token_of, wait_for

RULE = """
    - name: encode is hot
      type: threshold
      selector: cpu{service.name="shop"}
      function: en.*de
      over: 50%
      window: 1h
      for: 0s
      keep: 0s
      labels: {severity: page}
"""


class Receiver:
    """A webhook receiver that keeps what it gets. status is what it answers."""

    def __init__(self, port=0, status=200):
        self.got, self.status, outer = [], status, self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                outer.got.append((self.path, {k.lower(): v for k, v in self.headers.items()}, json.loads(body)))
                self.send_response(outer.status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.port = self.server.server_port
        self.url = f"http://127.0.0.1:{self.port}/hook?key=abc"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    def alerts(self, status="firing"):
        return [a for _, _, m in list(self.got) for a in (m["alerts"] if isinstance(m, dict) else m) if a.get("status", status) == status]


@pytest.fixture
def receiver():
    r = Receiver()
    yield r
    r.close()


def config(tmp_path, text, interval="1s"):
    path = tmp_path / "wick.yaml"
    path.write_text(text.replace("INTERVAL", interval))
    return path


def serve(tmp_path, text, *options):
    s = Server(tmp_path, "--config", str(config(tmp_path, text)), "--no-agent", *options)
    return s


def reload(s, text):
    n = len(re.findall("reload", log_of(s)))
    config(s.dir, text)
    s.p.send_signal(signal.SIGHUP)
    wait_for(lambda: len(re.findall("reloaded|keeping the previous configuration", log_of(s)[:])) and len(re.findall("reload", log_of(s))) > n)


def firing(s, **kw):
    return [a for a in s.json("/api/v1/alerts", **kw)["alerts"] if a["state"] == "firing"]


def cli(s, *args, token=None):
    return subprocess.run([WICK, "alerts", *args, "--server", s.url, *(["--token", token] if token else [])], capture_output=True, text=True)


def test_fires_and_resolves(tmp_path, receiver):
    """A pushed profile is over a limit: the webhook is told with the numbers of the profile and a link to the comparison; more
    profiles bring it below, and it is told that it is over. List, test, metrics and MCP say the same."""
    s = serve(tmp_path, f"alerts:\n  interval: INTERVAL\n  webhooks: ['{receiver.url}']\n  headers: {{authorization: 'Bearer ${{file:{tmp_path}/secret}}'}}\n"
              f"  rules:{RULE}ui: {{url: 'https://wick.example.com/'}}\n"
              "recording: [{name: costs, selector: 'cpu{service.name=\"shop\"}', function: encode|sort, window: 1h}]\n"
              if (tmp_path / "secret").write_text("s3cret\n") else "")
    try:
        assert s.send(request(SHOP, start=time.time_ns() - 20 * 10**9))[0] == 200  # encode 30 of 42
        wait_for(lambda: receiver.got)
        path, headers, m = receiver.got[0]
        assert path == "/hook?key=abc" and headers["authorization"] == "Bearer s3cret" and headers["content-type"] == "application/json"
        assert m["version"] == "4" and m["status"] == "firing" and m["externalURL"] == "https://wick.example.com"
        a = m["alerts"][0]
        assert a["labels"] == {"alertname": "encode is hot", "service": "shop", "function": "encode", "type": "threshold", "severity": "page"}
        assert "encode uses 71.4 %" in a["annotations"]["summary"] and "limit 50%" in a["annotations"]["summary"]
        url = urllib.parse.urlsplit(a["generatorURL"])
        q = dict(urllib.parse.parse_qsl(url.query))
        assert url.netloc == "wick.example.com" and url.path == "/compare" and q["query"] == 'cpu{service.name="shop"}'
        assert int(q["to"]) - int(q["from"]) == 3600 and int(q["from"]) - int(q["base_from"]) == 86400 and q["focus"] == "^\\Qencode\\E$"

        one, = firing(s)
        assert one["rule"] == "encode is hot" and abs(one["value"] - 30 / 42) < 1e-9 and one["limit"] == 0.5 and one["unit"] == "share"
        rule, = s.json("/api/v1/alerts")["rules"]
        assert rule["state"] == "firing" and rule["error"] == "" and rule["evaluated"]
        p = cli(s, "list")
        assert p.returncode == 0 and "firing" in p.stdout and "encode uses 71.4 %" in p.stdout
        p = cli(s, "test", "--rule", "encode is hot")
        assert p.returncode == 0 and "encode uses 71.4 %" in p.stdout and "https://wick.example.com/compare?" in p.stdout
        assert "no rule named 'nosuch'" in cli(s, "test", "--rule", "nosuch").stderr
        before = len(receiver.got)
        p = cli(s, "test", "--send")
        assert p.returncode == 0 and f"sent a test message to 127.0.0.1:{receiver.port}" in p.stdout
        assert "test message" in receiver.got[before][2]["alerts"][0]["annotations"]["summary"]

        text = s.get("/metrics")[1].decode()
        assert 'wick_function_share{rule="costs",service="shop",function="encode",type="cpu"} 0.714285714' in text
        assert re.search(r'wick_function_cores\{rule="costs",service="shop",function="sort",type="cpu"\} 1e-08', text)
        assert 'wick_alerts{state="firing"} 1' in text and "wick_alert_rules 1" in text
        rpc = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "alerts", "arguments": {}}}
        told = json.loads(s.get("/mcp", data=json.dumps(rpc).encode())[1])["result"]["content"][0]["text"]
        assert json.loads(told)["alerts"][0]["function"] == "encode"

        assert s.send(request([("main;other", 1000, False)]))[0] == 200
        wait_for(lambda: receiver.alerts("resolved"))
        over = receiver.alerts("resolved")[0]
        assert over["labels"] == a["labels"] and over["fingerprint"] == a["fingerprint"] and over["endsAt"] > over["startsAt"]
        assert not firing(s)
        assert len(receiver.alerts("firing")) == 2  # the alert, and the test message
    finally:
        assert s.stop()[0] == 0


def test_dead_webhooks_delay_nothing(tmp_path, receiver):
    """One receiver refuses connections, one accepts and never answers, one answers 500: evaluation goes on, and the one that works
    is told at once. The dead one is told when it is back."""
    silent = socket.create_server(("127.0.0.1", 0))
    broken, dead = Receiver(status=500), free_port()
    urls = [f"http://127.0.0.1:{dead}/", f"http://127.0.0.1:{silent.getsockname()[1]}/", broken.url, receiver.url]
    s = serve(tmp_path, f"alerts:\n  interval: INTERVAL\n  webhooks: {json.dumps(urls)}\n  rules:{RULE}")
    try:
        s.send(request(SHOP))
        wait_for(receiver.alerts)
        first = s.json("/api/v1/alerts")["rules"][0]["evaluated"]
        wait_for(lambda: s.json("/api/v1/alerts")["rules"][0]["evaluated"] > first)
        targets = wait_for(lambda: (t := s.json("/api/v1/alerts")["targets"]) and t[0]["error"] and t[2]["error"] and t)
        assert [t["waiting"] for t in targets] == [1, 1, 1, 0] and "500" in targets[2]["error"]
        assert "127.0.0.1" in targets[0]["host"] and "key=abc" not in json.dumps(targets)  # the URL may hold a secret
        assert firing(s)[0]["delivery_error"]
        late = Receiver(port=dead)
        wait_for(late.alerts)
        late.close()
        start = time.monotonic()
        assert s.stop()[0] == 0 and time.monotonic() - start < 20  # the silent one does not hold it up
    finally:
        if s.p.poll() is None:
            s.stop()
        broken.close()
        silent.close()


def test_bad_rules_leave_the_old_ones_in_force(tmp_path, receiver):
    head = f"alerts:\n  interval: INTERVAL\n  webhooks: ['{receiver.url}']\n  rules:"
    s = serve(tmp_path, head + RULE)
    try:
        s.send(request(SHOP))
        wait_for(receiver.alerts)
        reload(s, head + RULE.replace("function:", "funktion:"))
        assert "wick.yaml:8:7: unknown key 'funktion'; did you mean 'function'?" in log_of(s)
        assert "keeping the previous configuration" in log_of(s)
        first = s.json("/api/v1/alerts")["rules"][0]["evaluated"]
        wait_for(lambda: s.json("/api/v1/alerts")["rules"][0]["evaluated"] > first)
        assert firing(s)
        reload(s, head + RULE.replace("encode is hot", "another"))
        wait_for(lambda: [a["rule"] for a in firing(s)] == ["another"])
        wait_for(lambda: receiver.alerts("resolved"))  # the rule of the old name is gone, and so is its alert
        assert {a["labels"]["alertname"] for a in receiver.alerts("resolved")} == {"encode is hot"}
        assert "reloaded: alerts.rules;" in log_of(s)
    finally:
        assert s.stop()[0] == 0


def test_states_survive_a_restart(tmp_path, receiver):
    """A firing alert is not told again after a restart, a pending one goes on waiting, and one that is over while the server is down
    is told to be over."""
    slow = RULE.replace("encode is hot", "slow").replace("for: 0s", "for: 1h")
    s = serve(tmp_path, f"alerts:\n  interval: INTERVAL\n  webhooks: ['{receiver.url}']\n  rules:{RULE}{slow}")
    try:
        s.send(request(SHOP))
        wait_for(receiver.alerts)
        wait_for(lambda: len(s.json("/api/v1/alerts")["alerts"]) == 2)
        before = {a["rule"]: a for a in s.json("/api/v1/alerts")["alerts"]}
        assert s.stop()[0] == 0
        kept = json.loads((tmp_path / "store/alerts.json").read_text())["alerts"]
        assert {(a["rule"], a["stage"]) for a in kept} == {("encode is hot", "firing"), ("slow", "pending")}
        assert receiver.url not in json.dumps(kept) and os.stat(tmp_path / "store/alerts.json").st_mode & 0o777 == 0o600
        s.start()
        wait_for(lambda: all(r["evaluated"] for r in s.json("/api/v1/alerts")["rules"]))
        after = {a["rule"]: a for a in s.json("/api/v1/alerts")["alerts"]}
        assert {(k, v["state"], v["since"], v["active"]) for k, v in after.items()} == {(k, v["state"], v["since"], v["active"]) for k, v in before.items()}
        assert len(receiver.got) == 1
        s.send(request([("main;other", 1000, False)]))
        wait_for(lambda: receiver.alerts("resolved"))
        assert len(receiver.alerts("firing")) == 1
    finally:
        assert s.stop()[0] == 0


def test_tenants(tmp_path, receiver):
    """A rule sees the profiles of its tenant, and a tenant sees its rules and alerts."""
    other = Receiver()
    mine = RULE.replace("encode is hot", "of one") + "      tenant: one\n"
    theirs = RULE.replace("encode is hot", "of two") + f"      tenant: two\n      webhooks: ['{other.url}']\n"
    s = serve(tmp_path, f"alerts:\n  interval: INTERVAL\n  webhooks: ['{receiver.url}']\n  rules:{mine}{theirs}")
    try:
        admin = token_of(s, "admin")
        one, two, reader = token_of(s, "admin", "one"), token_of(s, "admin", "two"), token_of(s, "read")
        s.send(request(SHOP), two)
        wait_for(other.alerts)
        assert other.alerts()[0]["labels"]["tenant"] == "two" and not receiver.got
        assert [a["rule"] for a in firing(s, token=two)] == ["of two"]
        mine = s.json("/api/v1/alerts", token=one)
        assert [r["name"] for r in mine["rules"]] == ["of one"] and not mine["alerts"] and "targets" not in mine
        assert s.json("/api/v1/alerts", token=admin)["rules"] == []
        assert s.get("/api/v1/alerts/test?send=true", token=one, method="POST")[0] == 403
        assert s.get("/api/v1/alerts/test?rule=of+two", token=one, method="POST")[0] == 404
        assert s.get("/api/v1/alerts/test", token=reader, method="POST")[0] == 403
        s.send(request(SHOP), one)
        wait_for(receiver.alerts)
        assert receiver.alerts()[0]["labels"]["tenant"] == "one" and len(other.alerts()) == 1
    finally:
        assert s.stop()[0] == 0
        other.close()


def test_alertmanager(tmp_path):
    """An Alertmanager is told in its v2 form, and again while the alert fires."""
    am = Receiver()
    s = serve(tmp_path, f"alerts:\n  interval: INTERVAL\n  alertmanagers: ['http://127.0.0.1:{am.port}/prefix/']\n  rules:{RULE}")
    try:
        s.send(request(SHOP))
        wait_for(am.alerts)
        path, _, alerts = am.got[0]
        assert path == "/prefix/api/v2/alerts" and alerts[0]["labels"]["alertname"] == "encode is hot"
        assert alerts[0]["endsAt"] > alerts[0]["startsAt"] and "/compare?" in alerts[0]["generatorURL"]
        s.send(request([("main;other", 1000, False)]))
        now = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime())
        wait_for(lambda: am.got[-1][2] and am.got[-1][2][0]["endsAt"][:19] <= max(now, time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime())))
        wait_for(lambda: s.json("/api/v1/alerts")["targets"][0]["waiting"] == 0)
    finally:
        assert s.stop()[0] == 0
        am.close()


def test_lost_and_spike(tmp_path, receiver):
    """A service that was heard from in the baseline and no longer sends; and one that allocates many times what it usually does."""
    rules = """
    - {name: silent, type: lost, window: 5m, baseline: 6h}
    - {name: burst, type: spike, selector: 'cpu{service.name="bursty"}', window: 5m, baseline: 1h, for: 0s}
"""
    s = serve(tmp_path, f"alerts:\n  interval: INTERVAL\n  webhooks: ['{receiver.url}']\n  rules:{rules}")
    try:
        now = time.time_ns()
        s.send(request(SHOP, service="gone", start=now - 600 * 10**9))
        for i in range(55):  # a profile that covers its minute, and a value that wobbles a little
            r = request([("main;work", 10 + i % 3, False)], service="bursty", start=now - (i + 3) * 60 * 10**9)
            r.resource_profiles[0].scope_profiles[0].profiles[0].duration_nano = 60 * 10**9
            s.send(r)
        r = request([("main;work", 600, False)], service="bursty", start=time.time_ns() - 40 * 10**9)
        r.resource_profiles[0].scope_profiles[0].profiles[0].duration_nano = 38 * 10**9
        s.send(r)
        s.send(request(SHOP, service="here"))
        found = wait_for(lambda: len({a["labels"]["alertname"] for a in receiver.alerts()}) == 2 and receiver.alerts())
        assert {(a["labels"]["alertname"], a["labels"]["service"]) for a in found} == {("silent", "gone"), ("burst", "bursty")}
        assert any("times the usual" in a["annotations"]["summary"] for a in found)
    finally:
        assert s.stop()[0] == 0


BAD = [
    ("  rules: [{name: a, type: treshold}]", ":2:27: 'type' must be one of drift, verdict, threshold, spike, lost, not 'treshold'"),
    ("  rules: [{name: a}]", ":2:11: 'type' is required"),
    ("  rules:\n    - {type: lost, name: a}\n    - {type: lost, name: a}", ":4:26: another rule is already named 'a'"),
    ("  rules:\n    - name: a\n      type: threshold\n      function: a(\n      over: 5%", ":5:17: 'function': "),
    ("  rules:\n    - name: a\n      type: threshold\n      function: a\n      over: fast", ":6:13: 'over': 'fast' is not a limit for cpu, such as 20% or 1.5 cores"),
    ("  rules:\n    - name: a\n      type: threshold\n      over: 5%", ":5:13: 'over' is a share"),
    ("  rules:\n    - name: a\n      type: drift\n      over: 5%", ":5:13: 'over' does not apply to rules of type drift"),
    ("  rules:\n    - name: a\n      type: drift\n      selector: cpu{", ":5:17: 'selector': "),
    ("  rules:\n    - name: a\n      type: spike\n      selector: heap", ":5:17: 'selector' names what a program holds"),
    ("  rules:\n    - name: a\n      type: verdict\n      each_service: false", ":3:7: 'selector' must name one service"),
    ("  rules:\n    - name: a\n      type: lost\n      windw: 5m", ":5:7: unknown key 'windw'; did you mean 'window'?"),
    ("  rules:\n    - name: a\n      type: lost\n      labels: {a-b: c}", ":5:15: 'labels': 'a-b' is not a label name"),
    ("  webhooks: [ftp://x/]", ":2:14: "),
    ("  headers: {'a b': c}", ":2:12: 'headers': 'a b' is not a valid header"),
    ("  interval: 10ms", ":2:13: 'interval' must be between 1s and 1d"),
]


@pytest.mark.parametrize("text, message", BAD)
def test_check_names_the_place(tmp_path, text, message):
    path = tmp_path / "a.yaml"
    path.write_text("alerts:\n" + text + "\n")
    p = subprocess.run([WICK, "alerts", "check", str(path)], capture_output=True, text=True)
    assert p.returncode == 1 and f"{path}{message}" in p.stderr and len(p.stderr.splitlines()) == 1, p.stderr


def test_check_and_the_rule_of_a_function(tmp_path, server):
    """What the server offers as a rule for a function is a rule that is correct and matches the function."""
    path = tmp_path / "a.yaml"
    server.send(request([("main;Foo$$Lambda$14.run(int, \"x\")", 10, False)], service="we\"ird"))
    q = urllib.parse.urlencode({"query": 'cpu{service.name="we\\"ird"}', "function": 'Foo$$Lambda$14.run(int, "x")'})
    yaml = server.json("/api/v1/alerts/rule?" + q)["yaml"]
    path.write_text(yaml)
    p = subprocess.run([WICK, "alerts", "check", str(path)], capture_output=True, text=True)
    assert p.returncode == 0 and p.stdout == "1 alert rules, 0 recording rules, 0 receivers: valid\n", p.stderr
    server.stop()
    server.options = ("--config", str(path))
    server.start()
    found = server.json("/api/v1/alerts/test", method="POST")["rules"][0]
    assert found["alerts"][0]["function"] == 'Foo$$Lambda$14.run(int, "x")' and found["alerts"][0]["value"] == 1
    for kind in ("drift", "verdict", "spike", "lost", "threshold"):
        path.write_text(server.json(f"/api/v1/alerts/rule?type={kind}")["yaml"])
        assert subprocess.run([WICK, "alerts", "check", str(path)], capture_output=True).returncode == 0, path.read_text()
    assert server.get("/api/v1/alerts/rule?type=x")[0] == 400


def minute(service, version, host, share, start):
    """A profile of one minute in which parse has this share beside work that stays the same, with a little noise that depends on the
    time."""
    parse = int(8 * 10**9 * share / (1 - share) * (1 + 0.02 * ((start // 60_000_000_000 + len(host)) % 5 - 2)))
    r = request([("main;parse", parse, False), *((f"main;work{i}", 10**9, False) for i in range(8))], service=service, start=start)
    for k, v in (("service.version", version), ("host.name", host)):
        r.resource_profiles[0].resource.attributes.add(key=k).value.string_value = v
    r.resource_profiles[0].scope_profiles[0].profiles[0].duration_nano = 60 * 10**9
    return r


def test_drift_and_verdict(tmp_path, receiver):
    """A version that makes a function dearer: both rules tell, with what `wick query` answers; the service that stays as it is and the
    one without a new version raise nothing."""
    rules = """
    - {name: drifts, type: drift, selector: cpu, each_service: true, baseline: 1h, min_points: 2, for: 0s}
    - {name: deploys, type: verdict}
"""
    s = serve(tmp_path, f"alerts:\n  interval: INTERVAL\n  webhooks: ['{receiver.url}']\n  rules:{rules}")
    try:
        now = time.time_ns()
        for m in range(70, 0, -1):
            for host in ("a", "bb", "ccc"):
                start = now - m * 60 * 10**9
                s.send(minute("bad", "2" if m <= 11 else "1", host, 0.35 if m <= 11 else 0.2, start))
                s.send(minute("good", "2" if m <= 11 else "1", host, 0.2, start))
        found = wait_for(lambda: len({a["labels"]["alertname"] for a in receiver.alerts()}) == 2 and receiver.alerts())
        assert {(a["labels"]["alertname"], a["labels"]["service"]) for a in found} == {("drifts", "bad"), ("deploys", "bad")}
        drift = next(a for a in found if a["labels"]["alertname"] == "drifts")
        assert drift["labels"]["function"] == "parse" and abs(float(drift["annotations"]["value"]) - 15) < 3
        verdict = next(a for a in found if a["labels"]["alertname"] == "deploys")
        assert verdict["labels"]["version"] == "2" and "worse" in verdict["annotations"]["summary"]
        q = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(verdict["generatorURL"]).query))
        assert 'service.version="2"' in q["query"] and 'service.version="1"' in q["base_query"] and int(q["base_to"]) > int(q["base_from"])
        said = s.json("/api/v1/verdict?service=bad")["sentence"]  # the first message may have been sent before all profiles had arrived
        wait_for(lambda: any(a["summary"] == said for a in firing(s)))
        wait_for(lambda: all(r["evaluated"] and not r["error"] for r in s.json("/api/v1/alerts")["rules"]))
        assert {a["service"] for a in s.json("/api/v1/alerts")["alerts"]} == {"bad"}
    finally:
        assert s.stop()[0] == 0


def alertmanager():
    """The real one: from the PATH, or built from Go's registry (minutes, once)."""
    found = shutil.which("alertmanager")
    if found:
        return found
    need("go")
    place = Path(os.environ["XDG_CACHE_HOME"]) / "wick-tests/alertmanager-0.27.0"
    if not (place / "alertmanager").exists():
        p = subprocess.run(["go", "install", "github.com/prometheus/alertmanager/cmd/alertmanager@v0.27.0"], capture_output=True, text=True,
                           env={**os.environ, "GOBIN": str(place)}, timeout=1800)
        if p.returncode:
            pytest.skip(f"cannot build alertmanager: {p.stderr[-300:]}")
    return str(place / "alertmanager")


def form(x):
    """The keys and types of a message."""
    if isinstance(x, dict):
        return {k: form(v) for k, v in x.items()}
    return [form(v) for v in x] if isinstance(x, list) else type(x)


@pytest.mark.slow
def test_real_alertmanager(tmp_path, receiver):
    """The alert arrives at Alertmanager, which passes it on to its own webhook with the labels and the link of wick, in a message that
    has the form of those that wick's webhooks get; and it is over there when it is over here."""
    port, direct = free_port(), Receiver()
    (tmp_path / "am.yml").write_text("route: {receiver: hook, group_wait: 0s, group_interval: 1s, group_by: [alertname]}\n"
                                     f"receivers: [{{name: hook, webhook_configs: [{{url: '{receiver.url}', send_resolved: true}}]}}]\n")
    log = open(tmp_path / "am.log", "w")
    am = subprocess.Popen([alertmanager(), f"--config.file={tmp_path}/am.yml", f"--storage.path={tmp_path}/am", "--cluster.listen-address=",
                           f"--web.listen-address=127.0.0.1:{port}"], stdout=log, stderr=log)
    s = serve(tmp_path, f"alerts:\n  interval: INTERVAL\n  webhooks: ['{direct.url}']\n  alertmanagers: ['http://127.0.0.1:{port}']\n"
              f"  rules:{RULE}ui: {{url: 'https://wick.example.com'}}\n")
    try:
        s.send(request(SHOP))
        got = wait_for(receiver.alerts)[0]
        assert got["labels"] == {"alertname": "encode is hot", "service": "shop", "function": "encode", "type": "threshold", "severity": "page"}
        assert got["generatorURL"].startswith("https://wick.example.com/compare?") and "71.4 %" in got["annotations"]["summary"]
        there = json.loads(s.get("/api/v2/alerts", base=f"http://127.0.0.1:{port}")[1])
        assert [a["labels"]["alertname"] for a in there] == ["encode is hot"] and there[0]["status"]["state"] == "active"
        wait_for(lambda: direct.got)
        theirs, ours = receiver.got[0][2], direct.got[0][2]
        for m in (theirs, ours):
            m["commonLabels"], m["commonAnnotations"] = {}, {}  # what all alerts have in common
        assert form(ours) == form(theirs)
        s.send(request([("main;other", 1000, False)]))
        over = wait_for(lambda: receiver.alerts("resolved"), 120)[0]
        assert over["labels"] == got["labels"] and over["fingerprint"] == got["fingerprint"]
        assert not [t["error"] for t in s.json("/api/v1/alerts")["targets"] if t["error"]]
    finally:
        am.terminate()
        am.wait()
        direct.close()
        assert s.stop()[0] == 0


ADDED = {"name": "encode is hot", "type": "threshold", "selector": 'cpu{service.name="shop"}', "function": "en.*de", "over": "50%", "window": "1h", "for": "0s", "keep": "0s",
         "labels": {"severity": "page"}}


def call(s, method, path, body=None, token=None):
    status, text = s.get("/api/v1/alerts/" + path, token=token, method=method, data=json.dumps(body).encode() if body is not None else b"", headers={"Content-Type": "application/json"})
    return status, json.loads(text)


def test_rules_that_are_added(tmp_path, receiver):
    """A rule is tried, added, changed and deleted while the server runs, by those who may; it is its tenant's, evaluated as those of
    wick.yaml are, and is there after a restart and beside a changed configuration."""
    text = f"alerts:\n  interval: INTERVAL\n  webhooks: ['{receiver.url}']\n  rules: []\n"
    s = serve(tmp_path, text)
    try:
        one, two, reader, writer = token_of(s, "admin", "one"), token_of(s, "admin", "two"), token_of(s, "read", "one"), token_of(s, "write", "one")
        for t in (one, two, reader):
            wait_for(lambda t=t: s.get("/api/v1/alerts", token=t)[0] == 200)
        assert s.send(request(SHOP), one)[0] == 200
        status, tried = call(s, "POST", "try", ADDED, reader)
        assert status == 200 and "encode uses 71.4 %" in tried["rules"][0]["alerts"][0]["summary"]
        assert call(s, "POST", "try", {**ADDED, "over": "80%"}, reader)[1]["rules"][0]["alerts"] == []
        assert call(s, "POST", "try", ADDED, two)[1]["rules"][0]["alerts"] == []  # there are no such profiles of the other tenant
        for t in (reader, writer, None):
            assert call(s, "POST", "rules", ADDED, t)[0] in (401, 403)
        assert s.json("/api/v1/alerts", token=one)["rules"] == [] and call(s, "GET", "rules", token=one)[1] == {"rules": []}

        status, added = call(s, "POST", "rules", ADDED, one)
        assert status == 200, added
        wait_for(receiver.alerts)
        assert receiver.alerts()[0]["labels"] == {"alertname": "encode is hot", "service": "shop", "function": "encode", "type": "threshold", "severity": "page", "tenant": "one"}
        assert call(s, "GET", "rules", token=reader)[1]["rules"] == [{**ADDED, "id": added["id"]}]
        assert call(s, "GET", "rules", token=two)[1]["rules"] == [] and s.json("/api/v1/alerts", token=two)["rules"] == []
        assert [r["id"] for r in s.json("/api/v1/alerts", token=one)["rules"]] == [added["id"]]
        assert "encode uses 71.4 %" in cli(s, "test", "--rule", "encode is hot", token=one).stdout
        # of the same name for another tenant
        assert call(s, "POST", "rules", ADDED, two)[0] == 200
        status, answer = call(s, "POST", "rules", ADDED, one)
        assert status == 409 and answer["error"]["message"] == "another rule is already named 'encode is hot'"
        path = f"rules/{added['id']}"
        assert call(s, "PUT", path, {**ADDED, "over": "90%"}, two)[0] == 404 and call(s, "DELETE", path, token=two)[0] == 404
        assert call(s, "PUT", path, {**ADDED, "over": "90%"}, reader)[0] == 403 and call(s, "DELETE", path, token=writer)[0] == 403
        status, answer = call(s, "PUT", path, {**ADDED, "over": "a lot"}, one)
        assert status == 400 and "'a lot' is not a limit for cpu" in answer["error"]["message"]
        assert call(s, "GET", "rules", token=one)[1]["rules"][0]["over"] == "50%" and firing(s, token=one)

        s.stop(signal.SIGKILL)
        s.start()
        assert call(s, "GET", "rules", token=one)[1]["rules"] == [{**ADDED, "id": added["id"]}]
        assert [r["name"] for r in s.json("/api/v1/alerts", token=one)["rules"]] == ["encode is hot"]
        wait_for(lambda: firing(s, token=one))
        # a rule of wick.yaml takes its name: that one counts, the other one says so and is kept
        reload(s, text.replace("rules: []", f"rules:{RULE}      tenant: one\n"))
        rules = s.json("/api/v1/alerts", token=one)["rules"]
        assert sorted((r["id"], r["error"]) for r in rules) == [("", ""), (added["id"], "another rule is already named 'encode is hot'")]
        reload(s, text)
        rule, = s.json("/api/v1/alerts", token=one)["rules"]
        assert rule["id"] == added["id"] and not rule["error"]

        assert call(s, "PUT", path, {**ADDED, "over": "90%"}, one) == (200, {"id": added["id"]})
        wait_for(lambda: not firing(s, token=one))
        assert call(s, "DELETE", path, token=one)[0] == 200 and call(s, "DELETE", path, token=one)[0] == 404
        assert s.json("/api/v1/alerts", token=one)["rules"] == []
        assert [r["name"] for r in s.json("/api/v1/alerts", token=two)["rules"]] == ["encode is hot"]
    finally:
        assert s.stop()[0] == 0


def test_added_rules_are_bounded_and_checked(tmp_path):
    s = serve(tmp_path, "alerts: {interval: INTERVAL}\n")
    try:
        for change, status, words in (({"name": ""}, 400, "name"), ({"name": "x" * 201}, 400, "name"), ({"type": "guess"}, 400, "'type'"), ({"function": "("}, 400, "'function'"),
                                      ({"selector": "cpu{"}, 400, "'selector'"), ({"over": ""}, 400, "'over' is required"), ({"factor": 2}, 400, "'factor' does not apply"),
                                      ({"for": "soon"}, 400, "'for'"), ({"window": "1s"}, 400, "'window' must be between"), ({"labels": {"a-b": "x"}}, 400, "not a label name"),
                                      ({"webhooks": ["http://127.0.0.1:1/"]}, 400, "webhooks"), ({"tenant": "other"}, 400, "tenant"), ({"name": "a\0b"}, 400, "name"), ({"name": "a\nlevel=error"}, 400, "control characters"),
                                      ({"over": "${file:/etc/hostname}"}, 400, "${file:/etc/hostname}"), ({"function": "x" * 2000, "selector": "cpu{a=\"" + "y" * 1990 + "\"}"}, 400, "4096")):
            for way in ("try", "rules"):
                if way == "try" and words == "4096":
                    continue
                got, answer = call(s, "POST", way, {**ADDED, **change})
                assert got == status and words in answer["error"]["message"], (way, change, got, answer)
        assert call(s, "GET", "rules")[1] == {"rules": []}
        ids = []
        for i in range(100):
            status, answer = call(s, "POST", "rules", {**ADDED, "name": f"rule {i}", "function": "f" * 1500, "window": f"{i + 10}m"})
            assert status == 200, answer
            ids.append(answer["id"])
            if i == 98:
                assert len(s.json("/api/v1/alerts")["rules"]) == 99
        status, answer = call(s, "POST", "rules", {**ADDED, "name": "one more"})
        assert status == 413 and "limit (100) exceeded for this tenant" in answer["error"]["message"]
        assert call(s, "PUT", f"rules/{ids[7]}", {**ADDED, "name": "changed"})[0] == 200  # a change needs no room
        s.stop()
        s.start()
        assert sorted(r["id"] for r in call(s, "GET", "rules")[1]["rules"]) == sorted(ids) and len(s.json("/api/v1/alerts")["rules"]) == 100
        assert call(s, "POST", "rules", {**ADDED, "name": "one more"})[0] == 413
        assert call(s, "DELETE", f"rules/{ids[0]}")[0] == 200 and call(s, "POST", "rules", {**ADDED, "name": "one more"})[0] == 200
        # a file that cannot be read is set aside, and does not keep the server from starting
        s.stop()
        path, = (s.dir / "store/files").glob("*/alert-rules.json")
        path.write_text("{")
        s.start()
        assert call(s, "GET", "rules")[1] == {"rules": []} and call(s, "POST", "rules", ADDED)[0] == 200
    finally:
        s.stop()
