"""The processor k8s_attributes of wick collector, against an API server of our own."""
import http.server
import json
import random
import threading

import pytest
from collector_peer import ROOT, Collector, Sink, attributes_of, export, invalid, pipeline, run, to_sink, wait_for
from otlp_oracle import random_request

POD = {
    "metadata": {
        "name": "cart-5d4f8-x2x9", "namespace": "shop", "uid": "uid-cart",
        "labels": {"pod-template-hash": "5d4f8", "team": "checkout"},
        "annotations": {"resource.opentelemetry.io/service.version": "1.4", "note": "hello"},
        "ownerReferences": [{"kind": "Other", "name": "x"}, {"kind": "ReplicaSet", "name": "cart-5d4f8", "controller": True}]},
    "spec": {"nodeName": "n1"},
    "status": {
        "phase": "Running", "podIP": "127.0.0.1", "startTime": "2026-01-02T03:04:05Z",
        "initContainerStatuses": [{"name": "setup", "image": "busybox", "containerID": "containerd://" + "0" * 64}],
        "containerStatuses": [
            {"name": "main", "image": "reg:5000/shop/cart:1.4@sha256:aa", "containerID": "containerd://" + "a" * 64},
            {"name": "proxy", "image": "envoy:2", "containerID": "containerd://" + "b" * 64}]}}
DEFAULTS = {"k8s.namespace.name": "shop", "k8s.pod.name": "cart-5d4f8-x2x9", "k8s.pod.uid": "uid-cart",
            "k8s.pod.start_time": "2026-01-02T03:04:05Z", "k8s.deployment.name": "cart", "k8s.node.name": "n1"}


def pod(name, uid, kind=None, owner=None, labels=None, **status):
    owners = [{"kind": kind, "name": owner, "controller": True}] if kind else []
    return {"metadata": {"name": name, "namespace": "shop", "uid": uid, "labels": labels or {}, "ownerReferences": owners},
            "spec": {}, "status": {"phase": "Running", **status}}


class Api:
    """GET /api/v1/pods with a token; `pods` may change."""

    def __init__(self, tmp_path, *pods):
        self.pods, self.asked, self.status = list(pods), [], 200
        self.token = tmp_path / "token"
        self.token.write_text("t0ken\n")
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                outer.asked.append(self.path)
                self.send_response(outer.status if self.headers["authorization"] == "Bearer t0ken" else 403)
                self.end_headers()
                self.wfile.write(json.dumps({"kind": "PodList", "metadata": None, "items": outer.pods}).encode())

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()

    def config(self, **more):
        return {"k8s_attributes": {"api_server": f"http://127.0.0.1:{self.server.server_port}", "token_file": str(self.token),
                                   "wait_for_metadata": True, "refresh_interval": "1h", "min_refresh_interval": "10ms", **more}}


def send(c, sink, **attrs):
    """What arrives of a resource with these attributes."""
    m = random_request(random.Random(1), 2)
    del m.resource_profiles[1:]
    del m.resource_profiles[0].resource.attributes[:]
    for k, v in attrs.items():
        m.resource_profiles[0].resource.attributes.add(key=k).value.string_value = v
    n = len(sink.requests)
    export(c.grpc, m)
    wait_for(lambda: len(sink.requests) > n)
    return attributes_of(sink.requests[n])[0]


def test_names_by_uid_and_container(tmp_path):
    with Api(tmp_path, POD) as api, Sink() as sink, Collector(tmp_path, pipeline(to_sink(sink), processors=api.config())) as c:
        assert send(c, sink, **{"k8s.pod.uid": "uid-cart"}) == DEFAULTS
        assert send(c, sink, **{"container.id": "b" * 64}) == {"container.id": "b" * 64, **DEFAULTS}
        assert send(c, sink, **{"container.id": "f" * 64, "k8s.pod.uid": "uid-cart"}) == {"container.id": "f" * 64, **DEFAULTS}
        kept = {"k8s.pod.uid": "uid-cart", "k8s.pod.name": "mine", "service.name": "s"}
        assert send(c, sink, **kept) == {**DEFAULTS, **kept}, "what is there stays"
        assert send(c, sink, **{"service.name": "s"}) == {"service.name": "s"}
        assert api.asked[0] == "/api/v1/pods?resourceVersion=0"


def test_what_to_extract(tmp_path):
    extract = {"metadata": ["k8s.container.name", "container.id", "container.image.name", "container.image.tag", "k8s.pod.ip",
                            "k8s.replicaset.name", "k8s.statefulset.name", "k8s.daemonset.name", "k8s.job.name",
                            "k8s.cronjob.name", "k8s.deployment.name"],
               "labels": [{"tag_name": "team", "key": "team", "from": "pod"}, {"key": "nothing"}],
               "annotations": [{"key": "note"}], "otel_annotations": True}
    pods = [POD, pod("db-0", "uid-db", "StatefulSet", "db"), pod("log-1", "uid-log", "DaemonSet", "log"),
            pod("backup-1-x", "uid-job", "Job", "backup-29000000"), pod("bare-1", "uid-bare", "ReplicaSet", "bare-x"),
            pod("one", "uid-one", containerStatuses=[{"name": "only", "image": "img", "containerID": "cri-o://" + "c" * 64}])]
    whole = {"k8s.pod.ip": "127.0.0.1", "k8s.replicaset.name": "cart-5d4f8", "k8s.deployment.name": "cart", "team": "checkout",
             "k8s.pod.annotations.note": "hello", "service.version": "1.4"}
    uid = "k8s.pod.uid"
    with Api(tmp_path, *pods) as api, Sink() as sink:
        processors = api.config(extract=extract, filter={"node": "n1", "namespace": "shop"})
        with Collector(tmp_path, pipeline(to_sink(sink), processors=processors)) as c:
            assert api.asked[0] == "/api/v1/namespaces/shop/pods?resourceVersion=0&fieldSelector=spec.nodeName%3Dn1"
            assert send(c, sink, **{uid: "uid-cart"}) == {uid: "uid-cart", **whole}, "which container is not known"
            assert send(c, sink, **{"container.id": "a" * 64}) == {
                **whole, "container.id": "a" * 64, "k8s.container.name": "main", "container.image.name": "reg:5000/shop/cart",
                "container.image.tag": "1.4"}
            assert send(c, sink, **{"container.id": "0" * 64})["k8s.container.name"] == "setup"
            assert send(c, sink, **{uid: "uid-db"}) == {uid: "uid-db", "k8s.statefulset.name": "db"}
            assert send(c, sink, **{uid: "uid-log"}) == {uid: "uid-log", "k8s.daemonset.name": "log"}
            assert send(c, sink, **{uid: "uid-job"}) == {uid: "uid-job", "k8s.job.name": "backup-29000000", "k8s.cronjob.name": "backup"}
            assert send(c, sink, **{uid: "uid-bare"}) == {uid: "uid-bare", "k8s.replicaset.name": "bare-x"}, "nobody's ReplicaSet"
            assert send(c, sink, **{uid: "uid-one"}) == {
                uid: "uid-one", "container.id": "c" * 64, "k8s.container.name": "only", "container.image.name": "img"}


def test_association(tmp_path):
    by = [{"sources": [{"from": "resource_attribute", "name": "k8s.pod.ip"}]}, {"sources": [{"from": "connection"}]}]
    host = pod("host", "uid-host", podIP="10.0.0.9")
    host["spec"]["hostNetwork"] = True
    with Api(tmp_path, POD, pod("two", "uid-2", podIP="10.0.0.2"), pod("gone", "uid-3", podIP="10.0.0.3", phase="Succeeded"),
             host) as api, Sink() as sink:
        processors = {"k8sattributes": {**api.config(pod_association=by)["k8s_attributes"], "extract": {"metadata": "k8s.pod.name"}}}
        with Collector(tmp_path, pipeline(to_sink(sink), processors=processors)) as c:
            assert send(c, sink)["k8s.pod.name"] == "cart-5d4f8-x2x9"
            assert send(c, sink, **{"k8s.pod.ip": "10.0.0.2"})["k8s.pod.name"] == "two"
            for ip in ("10.0.0.77", "10.0.0.3", "10.0.0.9"):
                assert send(c, sink, **{"k8s.pod.ip": ip}) == {"k8s.pod.ip": ip}, "an agent's data is not the agent's pod's"


def test_unknown_pod_is_asked_for_once(tmp_path):
    uid = "k8s.pod.uid"
    with Api(tmp_path, POD) as api, Sink() as sink, Collector(tmp_path, pipeline(to_sink(sink), processors=api.config())) as c:
        api.pods = [pod("new", "uid-new")]
        assert len(api.asked) == 1
        wait_for(lambda: send(c, sink, **{uid: "uid-new"}).get("k8s.pod.name") == "new")
        assert send(c, sink, **{uid: "uid-cart"}) == DEFAULTS, "the last profiles of a pod that is gone"
        send(c, sink, **{uid: "uid-none"})
        wait_for(lambda: len(api.asked) == 3)
        for _ in range(20):
            assert send(c, sink, **{uid: "uid-none"}) == {uid: "uid-none"}
        assert len(api.asked) == 3, "once for each"


def test_refreshes(tmp_path):
    with Api(tmp_path, POD) as api, Sink() as sink:
        with Collector(tmp_path, pipeline(to_sink(sink), processors=api.config(refresh_interval="20ms"))):
            wait_for(lambda: len(api.asked) > 4)


@pytest.mark.parametrize("how", ["away", "error", "garbage"])
def test_server_down(tmp_path, how):
    with Api(tmp_path, POD) as api, Sink() as sink:
        processors = api.config(wait_for_metadata=False, refresh_interval="20ms")
        api.status = 500
        if how == "garbage":
            api.status, api.pods = 200, [{"metadata": {"labels": {"x": 1}}, "status": []}, 7]
        if how == "away":
            processors["k8s_attributes"]["api_server"] = "http://127.0.0.1:1"
        with Collector(tmp_path, pipeline(to_sink(sink), processors=processors)) as c:
            assert send(c, sink, **{"k8s.pod.uid": "uid-cart"}) == {"k8s.pod.uid": "uid-cart"}
            wait_for(lambda: "passed on without pod attributes" in c.log())
            if how != "away":
                n = len(api.asked)
                wait_for(lambda: len(api.asked) > n + 4)
                assert c.log().count("passed on without pod attributes") == 1
                api.pods, api.status = [POD], 200
                wait_for(lambda: send(c, sink, **{"k8s.pod.uid": "uid-cart"}) == DEFAULTS)


def test_many_pods(tmp_path):
    pods = [pod(f"p{i}", f"uid-{i}") for i in range(5000)]
    with Api(tmp_path, *pods) as api, Sink() as sink, Collector(tmp_path, pipeline(to_sink(sink), processors=api.config())) as c:
        for i in (0, 4999):
            assert send(c, sink, **{"k8s.pod.uid": f"uid-{i}"})["k8s.pod.name"] == f"p{i}"


@pytest.mark.parametrize("options, words", [
    ("passthrough: true", "'passthrough: true' is not supported"),
    ("auth_type: kubeConfig", "kubeConfig"),
    ("extract: {metadata: [k8s.cluster.uid]}", "pod metadata 'k8s.cluster.uid' is not supported"),
    ("extract: {labels: [{key: a, from: namespace}]}", "namespace"),
    ("extract: {labels: [{key_regex: a}]}", "key_regex"),
    ("exclude: {pods: [{name: a}]}", "exclude"),
    ("filter: {labels: [{key: a}]}", "labels"),
    ("api_server: nowhere", "not a URL"),
    ("refresh_interval: 0s", "greater than zero"),
    ("pod_association: [{sources: [{from: resource_attribute, name: host.name}]}]", "'host.name'"),
    ("pod_association: [{sources: [{from: connection}, {from: connection}]}]", "one source"),
])
def test_refused(tmp_path, options, words):
    text = f"receivers: {{otlp: {{protocols: {{grpc: }}}}}}\nexporters: {{nop: }}\nprocessors:\n  k8s_attributes: {{{options}}}\n" \
           "service: {pipelines: {profiles: {receivers: [otlp], processors: [k8s_attributes], exporters: [nop]}}}\n"
    assert words in invalid(tmp_path, text)


def test_the_page_is_valid(tmp_path):
    page = (ROOT / "docs/collector.md").read_text().split("## Names of Kubernetes pods")[1]
    text = page.split("```yaml\n")[1].split("```")[0]
    (tmp_path / "c.yaml").write_text(text + "receivers: {otlp: {protocols: {grpc: }}}\nexporters: {nop: }\nservice: {pipelines: "
                                     "{profiles: {receivers: [otlp], processors: [k8s_attributes], exporters: [nop]}}}\n")
    p = run("validate", "--config", tmp_path / "c.yaml")
    assert p.returncode == 0, p.stderr


def test_outside_of_a_cluster(tmp_path):
    (tmp_path / "c.yaml").write_text("receivers: {nop: }\nprocessors: {k8s_attributes: }\nexporters: {nop: }\nservice: {telemetry: "
                                     "{metrics: {level: none}}, pipelines: {profiles: {receivers: [nop], processors: [k8s_attributes], "
                                     "exporters: [nop]}}}\n")
    p = run("--config", tmp_path / "c.yaml", env={"PATH": "/usr/bin"})
    assert p.returncode == 1 and "'api_server' is not set" in p.stderr and "Sanitizer" not in p.stderr
