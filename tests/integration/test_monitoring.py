# SPDX-License-Identifier: Apache-2.0
"""What packaging/monitoring has for Prometheus and Grafana, used by a Prometheus that scrapes a real server."""
import json
import re
import subprocess
import time
import urllib.parse
import urllib.request

import pytest

from wick_tools import ROOT, SHOP, Server, free_port, need, request, some, wait_for

RULES = ROOT / "packaging/monitoring/wick.rules.yaml"
DASHBOARD = ROOT / "packaging/monitoring/dashboard.json"
# Exist only with a store in ClickHouse, with recording rules, or with an agent.
ELSEWHERE = {"wick_store_spool_age_seconds", "wick_function_cores", "wick_agent_up", "wick_agent_losses_total", "wick_agent_samples_total"}


def dashboard():
    return json.loads(DASHBOARD.read_text())


def queries():
    """(panel, expression), with Grafana's variables as Grafana fills them in."""
    words = {"$__rate_interval": "10s", "$job": "wick", "$instance": ".*"}
    for p in some(dashboard()["panels"]):
        for t in p.get("targets", []):
            yield p["title"], re.sub(r"\$\w+", lambda m: words[m[0]], t["expr"])


def metrics_in(text):
    return set(re.findall(r"\b(?:wick|process)_[a-z_]+", text))


class Prometheus:
    def __init__(self, place, target):
        port = free_port()
        (place / "prometheus.yml").write_text(json.dumps({
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"}, "rule_files": [str(RULES)],
            "scrape_configs": [{"job_name": "wick", "static_configs": [{"targets": [target]}]}]}))
        self.url, self.log = f"http://127.0.0.1:{port}", open(place / "prometheus.log", "w")
        self.p = subprocess.Popen(["prometheus", f"--config.file={place}/prometheus.yml", f"--storage.tsdb.path={place}/data",
                                   f"--web.listen-address=127.0.0.1:{port}"], stdout=self.log, stderr=self.log)

    def get(self, path):
        with urllib.request.urlopen(self.url + path, timeout=10) as r:
            return json.load(r)["data"]

    def ask(self, expr):
        return self.get("/api/v1/query?query=" + urllib.parse.quote(expr))["result"]

    def ready(self):
        try:
            return len(self.ask("count_over_time(wick_store_series[1m]) > 5"))
        except OSError:
            return False

    def rules(self):
        return [r for g in self.get("/api/v1/rules")["groups"] for r in g["rules"]]


def test_rules():
    need("promtool")
    for command in (["check", "rules", "--lint-fatal", RULES], ["test", "rules", ROOT / "tests/data/wick.rules.test.yaml"]):
        p = subprocess.run(["promtool", *command], capture_output=True, text=True)
        assert p.returncode == 0, p.stdout + p.stderr


def test_prometheus_has_an_answer_for_every_panel(tmp_path):
    need("prometheus")
    server = Server(tmp_path)
    prometheus = None
    try:
        assert server.send(request(SHOP))[0] == 200
        exported = metrics_in(server.get("/metrics")[1].decode())
        asked = metrics_in(json.dumps(list(queries()))) | metrics_in("".join(some(re.findall(r"expr:.*(?:\n {10}.*)*", RULES.read_text()))))
        assert {re.sub("_bucket$", "", m) for m in asked} - ELSEWHERE <= exported
        sources = "".join(f.read_text() for f in (ROOT / "src").rglob("*.c"))
        assert all(f'"{m}"' in sources for m in ELSEWHERE)
        prometheus = Prometheus(tmp_path, server.url.removeprefix("http://"))
        wait_for(prometheus.ready, 120)
        assert server.send(request(SHOP, service="other"))[0] == 200
        server.json("/api/v1/services")
        time.sleep(3)
        empty = [(title, q) for title, q in queries() if not prometheus.ask(q)]
        assert not [e for e in empty if not metrics_in(e[1]) <= ELSEWHERE]
        (samples,) = prometheus.ask("wick_ingest_samples_total")
        assert int(samples["value"][1]) == 2 * len(SHOP)
        rules = some(prometheus.rules())
        assert {r["health"] for r in rules} == {"ok"} and not [r["name"] for r in rules if r["alerts"]]
        server.stop()
        wait_for(lambda: [r for r in prometheus.rules() if r["name"] == "WickDown" and r["state"] == "pending"], 30)
    finally:
        if prometheus:
            prometheus.p.terminate()
            prometheus.p.wait(60)
            prometheus.log.close()
        if server.p.poll() is None:
            server.stop()


def test_panels():
    """No two at one place, every query of one data source, which is chosen above the panels."""
    panels = some(dashboard()["panels"])
    places = [(p["gridPos"]["x"], p["gridPos"]["y"]) for p in panels]
    assert len(set(places)) == len(places) and len({p["id"] for p in panels}) == len(panels)
    for p in panels:
        assert p["gridPos"]["x"] + p["gridPos"]["w"] <= 24
        assert p["type"] == "row" or p["datasource"]["uid"] == "${datasource}" and p["targets"]


def test_documented():
    """Every alert has its line in the documents: what it means, and what to do."""
    text = (ROOT / "docs/monitoring.md").read_text()
    assert not [a for a in some(re.findall(r"alert: (\w+)", RULES.read_text())) if f"| `{a}` |" not in text]


if __name__ == "__main__":
    raise SystemExit(pytest.main([__file__]))
