# SPDX-License-Identifier: Apache-2.0
"""Where --export sends: ports 4317 and 4318 and a path say how; at any other port the peer is asked, HTTP first, and what was chosen is
printed. Peers: wick serve's API port, which takes both, a gRPC server, and an HTTP server that knows only its own path."""
import re

import pytest
from collector_peer import Collector, Sink, export, pipeline
from go_tools import Answering, serving
from sdk_tools import wick_run
from wick_tools import SHOP, free_port, request, wait_for


class Http(Answering):
    """Takes OTLP at its one path; everything else is 404."""
    path_it_has, got = "/v1development/profiles", []

    def do_POST(self):
        self.got.append((self.path, self.rfile.read(int(self.headers["Content-Length"]))))
        self.answer(200 if self.path == self.path_it_has else 404, headers={"Content-Type": "application/x-protobuf"})


@pytest.fixture
def burn(program):
    return [program("cpu_split"), 0.5, 1]


def test_run_chooses_http(server, burn):
    p = wick_run("--service", "asked", "--export", server.url.rstrip("/"), "--", *burn)
    assert re.search(r"127\.0\.0\.1:\d+ accepts OTLP over HTTP", p.stderr)
    assert server.json("/api/v1/top?query=cpu%7Bservice.name%3D%22asked%22%7D")["total"] > 0


def test_run_chooses_grpc(burn):
    with Sink() as sink:
        p = wick_run("--export", f"http://127.0.0.1:{sink.port}", "--", *burn)
        assert sink.samples() and re.search(r"127\.0\.0\.1:\d+ accepts OTLP over gRPC", p.stderr)


def test_run_with_a_full_path(burn):
    Http.got.clear()
    with serving(Http) as peer:
        p = wick_run("--export", peer.url + "/v1development/profiles", "--", *burn)
    assert {path for path, _ in Http.got} == {"/v1development/profiles"} and "OTLP over" not in p.stderr


def test_run_says_why_neither_works(burn):
    class Other(Http):
        path_it_has = "/nothing"

    with serving(Other) as peer:
        p = wick_run("--export", peer.url, "--", *burn, check=False)
    assert "over HTTP:" in p.stderr and "404" in p.stderr and "over gRPC:" in p.stderr


def auto(port, **more):
    return pipeline({"otlp": {"endpoint": f"http://127.0.0.1:{port}", "protocol": "auto", "tls": {"insecure": True},
                              "retry_on_failure": {"initial_interval": "100ms", "max_interval": "300ms"}, **more}})


def test_collector_asks(tmp_path):
    with Sink() as sink, Collector(tmp_path, auto(sink.port)) as c:
        export(c.grpc, request(SHOP))
        wait_for(lambda: sink.samples() == len(SHOP))
        export(c.grpc, request(SHOP))
        wait_for(lambda: sink.samples() == 2 * len(SHOP))
        assert len(re.findall("accepts OTLP over gRPC", c.log())) == 1
    Http.got.clear()
    with serving(Http) as peer, Collector(tmp_path, auto(peer.address.split(":")[1])) as c:
        export(c.grpc, request(SHOP))
        wait_for(lambda: len(Http.got) >= 2)  # the question and the profiles
        assert len(re.findall("accepts OTLP over HTTP", c.log())) == 1


def test_collector_waits_for_the_peer(tmp_path):
    """Nothing is chosen while nothing responds."""
    port = free_port()
    with Collector(tmp_path, auto(port)) as c:
        export(c.grpc, request(SHOP))
        wait_for(lambda: "refused" in c.log().lower())
        assert "OTLP over" not in c.log()
        with Sink(port=port) as sink:
            wait_for(lambda: sink.samples() == len(SHOP))
