# SPDX-License-Identifier: Apache-2.0
"""Every command that talks to a server uses WICK_TOKEN, over gRPC and HTTP, and says so where the token is missing or wrong."""
import os
import re
import subprocess

import pytest
from wick_tools import WICK, Server, wait_for


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    d = tmp_path_factory.mktemp("token")
    made = subprocess.run([WICK, "token", "create", "--file", d / "tokens", "--scope", "admin"], capture_output=True, text=True, check=True)
    s = Server(d, "--set", f"auth.tokens={d / 'tokens'}", WICK_NO_AGENT="1")
    s.token = made.stdout.split()[0]
    yield s
    s.stop()


def run(*words, token=None, **extra):
    env = {k: v for k, v in os.environ.items() if k != "WICK_TOKEN"}
    env.update(extra)
    if token:
        env["WICK_TOKEN"] = token
    return subprocess.run([WICK, *map(str, words)], env=env, capture_output=True, text=True, timeout=60)


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    d = tmp_path_factory.mktemp("busy")
    (d / "busy.c").write_text("#include <time.h>\nint main(void) { while (clock() < CLOCKS_PER_SEC); }")
    subprocess.run(["gcc", "-O1", "-Wl,--build-id", "-o", d / "busy", d / "busy.c"], check=True)
    return d / "busy"


@pytest.mark.parametrize("protocol", ["grpc", "http"])
def test_run(server, program, protocol):
    url = "http://" + server.grpc if protocol == "grpc" else server.http
    more = {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc" if protocol == "grpc" else "http/protobuf", "OTEL_SERVICE_NAME": "by_" + protocol}
    p = run("run", "--export", url, "--", program, **more)
    assert p.returncode == 0 and "token is missing or wrong" in p.stderr, p.stderr
    p = run("run", "--export", url, "--", program, token=server.token, **more)
    assert p.returncode == 0 and "token" not in p.stderr, p.stderr
    wait_for(lambda: f"by_{protocol}" in run("query", "services", "--server", server.url, token=server.token).stdout)


def test_commands(server, program, tmp_path):
    url = server.url
    for words in (["query", "services", "--server", url], ["symbols", "upload", "--server", url, program],
                  ["pprof", "-top", f"wick://{url.split('//')[1]}/by_grpc?type=cpu"]):
        refused = run(*words)
        assert refused.returncode != 0 and re.search("token|401", refused.stderr), (words, refused.stderr)
        p = run(*words, token=server.token)
        assert p.returncode in (0, 4) and not re.search(r"\b401\b", p.stderr), (words, p.stderr)


def test_the_token_file_of_a_configuration(tmp_path):
    """wick token --config: the file that a server with this configuration reads, which its log names."""
    config = tmp_path / "wick.yaml"
    config.write_text(f"auth: {{tokens: {tmp_path}/elsewhere}}\n")
    made = run("token", "create", "--scope", "admin", "--config", config, XDG_DATA_HOME=str(tmp_path), HOME=str(tmp_path))
    assert made.returncode == 0 and (tmp_path / "elsewhere").exists() and not (tmp_path / "wick/tokens").exists(), made.stderr
    listed = run("token", "list", "-c", config, "--json", XDG_DATA_HOME=str(tmp_path), HOME=str(tmp_path))
    assert '"scope":"admin"' in listed.stdout
    p = run("token", "list", "--config", config, "--file", "x")
    assert p.returncode != 0 and "exclude each other" in p.stderr
    p = run("token", "list", "--config", tmp_path / "none")
    assert p.returncode != 0 and "none" in p.stderr


def test_the_log_names_the_token_file(server):
    assert f"tokens: {server.dir}/tokens" in (server.dir / "log").read_text()
