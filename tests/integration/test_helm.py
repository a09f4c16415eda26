# SPDX-License-Identifier: Apache-2.0
"""packaging/helm/wick: linted and rendered by Helm's own library, decoded strictly by that of Kubernetes, and what it writes for wick
to read is read by wick."""
import functools
import os
import re
import shutil
import subprocess

import pytest

from wick_tools import ROOT, WICK, need, some

yaml = pytest.importorskip("yaml")
CHART = ROOT / "packaging/helm/wick"
SHARED = ["server.clickhouse.location=clickhouse://wick@ch:8123/wick", "server.clickhouse.passwordSecret.name=ch"]
EVERYTHING = [*SHARED, "collector.enabled=true", "monitoring.serviceMonitor=true", "monitoring.prometheusRule=true", "monitoring.tokenSecret.name=m",
              "grafana.dashboards=true", "grafana.dataSource=true", "server.ingress.enabled=true", "server.tlsSecret=tls", "server.tokensSecret=tokens",
              "agent.tokenSecret.name=token", "agent.sysAdmin=true", "namespaceLabels=true", "server.config.retention.keep=14d"]


@functools.cache
def renderer():
    need("go")
    out = ROOT / "build/render"
    env = {**os.environ, "GOFLAGS": "-mod=mod -buildvcs=false"}
    p = subprocess.run(["go", "build", "-p", "2", "-o", out, "."], cwd=ROOT / "packaging/helm/render", env=env, capture_output=True, text=True)
    if p.returncode and re.search(r"requires go|dial tcp|no such host|toolchain not available", p.stderr):
        pytest.skip(f"Helm's library cannot be built here: {p.stderr[-200:]}")
    assert p.returncode == 0, p.stderr
    return out


def render(*sets, code=0, options=()):
    p = subprocess.run([renderer(), *options, *(w for s in sets for w in ("-set", s)), CHART], capture_output=True, text=True)
    assert p.returncode == code, p.stderr
    return [d for d in yaml.safe_load_all(p.stdout) if d] if code == 0 else p.stderr


def of(objects, kind, name=""):
    return [o for o in objects if o["kind"] == kind and name in o["metadata"]["name"]]


def pods(objects):
    return {o["metadata"]["name"]: o["spec"]["template"]["spec"] for o in objects if o["kind"] in ("StatefulSet", "Deployment", "DaemonSet")}


def test_defaults():
    objects = render()
    specs = pods(objects)
    assert set(specs) == {"wick", "wick-agent"} and len(of(objects, "NetworkPolicy")) == 2
    agent, server = specs["wick-agent"], specs["wick"]
    assert agent["hostPID"] and "hostPID" not in server and not agent.get("hostNetwork")
    documented = (ROOT / "docs/kubernetes.md").read_text()
    for c in some(agent["containers"][0]["securityContext"]["capabilities"]["add"]):
        assert re.search(rf"\b{c}\b", documented) and c != "SYS_ADMIN"
    everywhere = ("ClusterRole", "ClusterRoleBinding", "Namespace")
    assert all(o["metadata"].get("namespace") == "wick" for o in some(objects) if o["kind"] not in everywhere)
    (claim,) = of(objects, "StatefulSet")[0]["spec"]["volumeClaimTemplates"]
    assert claim["spec"]["resources"]["requests"] == {"storage": "20Gi"}


def test_servers_are_restricted():
    """What Pod Security Standards call restricted, for every pod but the agent's, which is not privileged either."""
    for name, spec in some(pods(render(*EVERYTHING)).items()):
        (container,) = spec["containers"]
        security = container["securityContext"]
        assert security["readOnlyRootFilesystem"] and not security["allowPrivilegeEscalation"] and "privileged" not in security
        assert security["capabilities"]["drop"] == ["ALL"]
        if not name.endswith("-agent"):
            assert spec["securityContext"]["runAsNonRoot"] and spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
            assert "add" not in security["capabilities"]


def check(tmp_path, text, *command):
    path = tmp_path / "config.yaml"
    path.write_text(text)
    p = subprocess.run([WICK, *command, "--config", str(path)], capture_output=True, text=True)
    assert p.returncode == 0, p.stderr + text


@pytest.mark.parametrize("sets", [[], EVERYTHING])
def test_wick_reads_what_is_written(tmp_path, sets):
    objects = render(*sets)
    (server,) = [o for o in of(objects, "ConfigMap") if o["metadata"]["name"] == "wick"]
    text = server["data"]["wick.yaml"].replace("/etc/wick/", f"{tmp_path}/")
    if sets:
        (tmp_path / "tls").mkdir()
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=wick", "-days", "2", "-keyout", tmp_path / "tls/tls.key",
                        "-out", tmp_path / "tls/tls.crt"], check=True, capture_output=True)
    check(tmp_path, text, "serve", "--check")
    config = yaml.safe_load(text)
    assert "wick.wick.svc" in config["listen"]["hosts"] and config["listen"].get("insecure", False) == (not sets)
    (agent,) = [o for o in of(objects, "ConfigMap") if o["metadata"]["name"] == "wick-agent"]
    check(tmp_path, agent["data"]["wick.yaml"], "serve", "--check")  # the section agent is a part of it
    export = yaml.safe_load(agent["data"]["wick.yaml"])["agent"]["export"]
    assert export == ("https://wick-ingest.wick.svc:4317" if sets else "http://wick.wick.svc:4317")
    collectors = [o["data"]["collector.yaml"] for o in of(objects, "ConfigMap", "collector")]
    assert len(collectors) == (1 if sets else 0)
    for c in collectors:
        p = tmp_path / "collector.yaml"
        p.write_text(c)
        done = subprocess.run([WICK, "collector", "validate", "--config", str(p)], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr


def test_probes_and_ports_meet():
    """A port that a probe, a Service or a policy names is one of the container's."""
    objects = render(*EVERYTHING)
    labels = lambda o: o["spec"]["template"]["metadata"]["labels"].items()  # noqa: E731
    workloads = [o for o in objects if o["kind"] in ("StatefulSet", "Deployment", "DaemonSet")]
    for s in some(of(objects, "Service")):
        (selected,) = [w for w in workloads if s["spec"]["selector"].items() <= labels(w)]
        ports = {p["name"] for p in selected["spec"]["template"]["spec"]["containers"][0]["ports"]}
        assert {p["targetPort"] for p in s["spec"]["ports"]} <= ports
    for kind in ("NetworkPolicy", "PodDisruptionBudget"):
        for o in some(of(objects, kind)):
            selector = o["spec"].get("podSelector", o["spec"].get("selector"))["matchLabels"]
            assert len([w for w in workloads if selector.items() <= labels(w)]) == 1, o
    assert len(of(objects, "PodDisruptionBudget")) == 2 and not of(objects, "StatefulSet")


def test_monitoring_is_what_the_files_say():
    objects = render(*EVERYTHING)
    (rule,) = of(objects, "PrometheusRule")
    assert rule["spec"] == yaml.safe_load((ROOT / "packaging/monitoring/wick.rules.yaml").read_text())
    (board,) = of(objects, "ConfigMap", "dashboard")
    assert board["data"]["wick.json"].strip() == (ROOT / "packaging/monitoring/dashboard.json").read_text().strip()
    (monitor,) = of(objects, "ServiceMonitor")
    services = [s for s in of(objects, "Service") if monitor["spec"]["selector"]["matchLabels"].items() <= s["metadata"]["labels"].items()]
    assert {s["metadata"]["name"] for s in services} >= {"wick", "wick-ingest"}


@pytest.mark.parametrize("wrong, why", [
    ("server.replicaz=2", "replicaz"), ("server.anonymous=admin", "anonymous"), ("server.persistence.size=many", "size"),
    ("server.clickhouse.location=http://x", "location"), ("agent.export=ftp://x", "export"), ("server.enabled=false", "agent.export is needed")])
def test_wrong_values_are_refused(wrong, why):
    assert why in render(wrong, code=1)


def test_an_unknown_field_is_found(tmp_path):
    """That decoding is strict: the same chart with a field that Kubernetes does not know."""
    shutil.copytree(CHART, tmp_path / "wick")
    path = tmp_path / "wick/templates/server.yaml"
    path.write_text(path.read_text().replace("serviceName: ", "serviceNames: "))
    p = subprocess.run([renderer(), tmp_path / "wick"], capture_output=True, text=True)
    assert p.returncode == 1 and "serviceNames" in p.stderr


def test_version():
    """That of the product."""
    version = re.search(r"version: '([^']+)'", (ROOT / "meson.build").read_text())[1]
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["version"] == chart["appVersion"] == version
