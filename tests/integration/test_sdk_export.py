# SPDX-License-Identifier: Apache-2.0
"""libwick's exporter over TLS, to gRPC and HTTP peers; what it says when the peer is not to be trusted."""
import gzip
import http.server
import os
import re
import ssl
import subprocess
import threading

import pytest
from collector_peer import Sink
from go_tools import Answering
from sdk_tools import PROGRAMS, WICK, free_port, wick_run
from wick_tools import BUILD, some


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """An authority's own certificate for localhost and 127.0.0.1."""
    d = tmp_path_factory.mktemp("tls")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                    "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", d / "key.pem",
                    "-out", d / "cert.pem"], check=True, capture_output=True)
    return d


def functions(request):
    d = request.dictionary
    return {d.string_table[f.name_strindex] for f in d.function_table}


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
def test_grpc_over_tls(program, certificate, host):
    import grpc
    credentials = grpc.ssl_server_credentials([((certificate / "key.pem").read_bytes(), (certificate / "cert.pem").read_bytes())])
    with Sink(credentials=credentials) as sink:
        wick_run("--export", f"https://{host}:{sink.port}", "--", program("cpu_split"), 0.5, 1,
                 env={"OTEL_EXPORTER_OTLP_CERTIFICATE": str(certificate / "cert.pem")})
        assert sink.requests and "hot_a" in functions(sink.requests[-1])


def https_server(certificate, got):
    class Handler(Answering):
        def do_POST(self):
            got.append((self.path, self.rfile.read(int(self.headers["Content-Length"]))))
            self.answer(200)

    server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate / "cert.pem", certificate / "key.pem")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def test_http_over_tls(program, certificate):
    from opentelemetry.proto.collector.profiles.v1development import profiles_service_pb2 as svc
    got = []
    server = https_server(certificate, got)
    wick_run("--export", f"https://localhost:{server.server_port}", "--", program("cpu_split"), 0.5, 1,
             env={"OTEL_EXPORTER_OTLP_CERTIFICATE": str(certificate / "cert.pem"), "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"})
    server.shutdown()
    assert got[-1][0] == "/v1development/profiles"
    assert "hot_a" in functions(svc.ExportProfilesServiceRequest.FromString(gzip.decompress(got[-1][1])))


def test_a_peer_that_is_not_trusted_is_named_and_gets_nothing(program, certificate):
    got = []
    server = https_server(certificate, got)
    p = wick_run("--export", f"https://localhost:{server.server_port}", "--", program("cpu_split"), 0.3, 1,
                 env={"OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"})
    server.shutdown()
    assert p.stdout.startswith("cpu ") and not got
    assert re.fullmatch(r"wick: .*TLS with localhost: self.signed certificate; if its CA is private, name its file in OTEL_EXPORTER_OTLP_CERTIFICATE\n", p.stderr), p.stderr


def test_a_collector_that_is_not_there_is_one_line(program):
    port = free_port()
    p = wick_run("--export", f"http://127.0.0.1:{port}", "--", program("cpu_split"), 0.3, 1)
    assert p.stdout.startswith("cpu ")
    assert p.stderr.count("\n") == 1 and f"cannot reach 127.0.0.1:{port}" in p.stderr, p.stderr


def test_a_wrong_endpoint_is_one_line(program):
    """An option is refused before the program runs; what its environment says does not keep a program from running."""
    p = wick_run("--export", "ftp://somewhere", "--", program("cpu_split"), 0.1, 1, check=False)
    assert p.returncode == 2 and not p.stdout and p.stderr.count("\n") == 1 and "ftp://somewhere" in p.stderr, p.stderr
    p = subprocess.run([program("cpu_split"), "0.1", "1"], capture_output=True, text=True, timeout=60,
                       env={**os.environ, "LD_PRELOAD": str(BUILD / "src/sdk/libwick-preload.so"), "OTEL_EXPORTER_OTLP_ENDPOINT": "ftp://somewhere"})
    assert p.returncode == 0 and p.stdout.startswith("cpu "), p


def leaves(request):
    """{(function, line of the file): value} of the innermost frames."""
    d = request.dictionary
    got = {}
    for p in (p for r in request.resource_profiles for s in r.scope_profiles for p in s.profiles):
        for s in p.samples:
            line = d.location_table[d.stack_table[s.stack_index].location_indices[0]].lines
            if line:
                f = d.function_table[line[0].function_index]
                key = (d.string_table[f.name_strindex], d.string_table[f.filename_strindex].rsplit("/", 1)[-1], line[0].line)
                got[key] = got.get(key, 0) + sum(s.values)
    return got


def test_inlined_calls_and_lines_are_exported(program):
    exe = program("inlined_price")
    line = next(i for i, l in enumerate((PROGRAMS / "inlined_price.cc").read_text().splitlines(), 1) if "// LINE" in l)
    with Sink() as sink:
        wick_run("--export", f"http://127.0.0.1:{sink.port}", "--", exe, 3, env={"WICK_EXPORT_INTERVAL_MS": "1000"})
    got = leaves(sink.requests[0])
    prices = {k: v for k, v in got.items() if k[0] == "price" and k[1] == "inlined_price.cc"}
    assert sum(prices.values()) > 0.9 * sum(got.values()), got
    assert all(abs(k[2] - line) <= 1 for k in some(prices)), prices
    last = leaves(sink.requests[-1])  # what is known already needs nobody to be asked
    assert sum(v for k, v in last.items() if k[0] == "price") > 0.9 * sum(last.values()), last


def test_what_arrives_while_lines_are_looked_up(program, tmp_path, monkeypatch):
    """A symbolizer that takes its time: what runs only while it is waited for has lines, too, and the time is covered without gaps."""
    monkeypatch.chdir(tmp_path)
    slow = tmp_path / "symbolize"
    slow.write_text(f'#!/bin/sh\n>asked\nuntil [ -e late ]; do sleep 0.02; done\nexec {WICK} "$@"\n')
    slow.chmod(0o755)
    with Sink() as sink:
        wick_run("--export", f"http://127.0.0.1:{sink.port}", "--", program("two_phases"),
                 env={"WICK_EXPORT_INTERVAL_MS": "1000", "WICK_SYMBOLIZE": str(slow)})
    first = leaves(sink.requests[0])
    assert {function for function, _, _ in first} >= {"early", "late"}, first
    assert all(file == "two_phases.c" for function, file, _ in some(first) if function in ("early", "late")), first
    sent = [p for r in sink.requests for x in r.resource_profiles for s in x.scope_profiles for p in s.profiles]
    assert len(sent) >= 3
    for p, after in some(zip(sent, sent[1:])):
        gap = after.time_unix_nano - (p.time_unix_nano + p.duration_nano)
        assert gap < 20e6, (p.time_unix_nano, p.duration_nano, after.time_unix_nano)
        # earlier: one of its samples was taken before the end of the profile before it, and read later
        assert gap > -20e6 or after.time_unix_nano == min(t for x in after.samples for t in x.timestamps_unix_nano), gap
