# SPDX-License-Identifier: Apache-2.0
"""The Go module from a tag: `go get` from a proxy of files, a program that is built with it and sends, and the same bytes for the same commit."""
import hashlib
import json
import os
import shutil
import subprocess
import sys

import pytest
from release_tools import ROOT

sys.path.insert(0, str(ROOT / "tests/integration"))
from wick_tools import Server, wait_for  # noqa: E402

pytestmark = pytest.mark.slow
PROGRAM = """package main

import (
	"context"
	"os"
	"time"

	"wick.dev/go/otlpprofilegrpc"
	"wick.dev/go/profiling"
)

var sum int

//go:noinline
func spinHere(end time.Time) {
	for time.Now().Before(end) {
		for i := 0; i < 100000; i++ {
			sum += i * i
		}
	}
}

func main() {
	exporter, err := otlpprofilegrpc.New(context.Background(), otlpprofilegrpc.WithEndpoint(os.Args[1]), otlpprofilegrpc.WithInsecure())
	if err != nil {
		panic(err)
	}
	provider := profiling.NewProvider(profiling.WithExporter(exporter), profiling.WithServiceName("from-a-tag"))
	spinHere(time.Now().Add(2 * time.Second))
	if err := provider.Shutdown(context.Background()); err != nil {
		panic(err)
	}
}
"""


def test_go_get_from_a_tag(tmp_path):
    if not shutil.which("go"):
        pytest.skip("no go")
    number = subprocess.run([ROOT / "packaging/version"], capture_output=True, text=True, check=True).stdout.strip()
    clone, proxies = tmp_path / "clone", [tmp_path / "one", tmp_path / "two"]
    subprocess.run(["git", "clone", "-q", "--shared", ROOT, clone], check=True)
    subprocess.run(["git", "tag", f"v{number}"], cwd=clone, check=True)
    subprocess.run(["git", "tag", "v99.0.0"], cwd=clone, check=True)
    for to in proxies:
        subprocess.run([ROOT / "packaging/gomodule", "--root", clone, "--tag", f"v{number}", "--out", to], check=True)
    assert len({hashlib.sha256((p / f"wick.dev/go/@v/v{number}.zip").read_bytes()).hexdigest() for p in proxies}) == 1
    p = subprocess.run([ROOT / "packaging/gomodule", "--root", clone, "--tag", "v99.0.0", "--out", tmp_path / "x"], capture_output=True, text=True)
    assert p.returncode and f"at a commit of version {number}" in p.stderr
    registry = subprocess.run(["go", "env", "GOPROXY"], capture_output=True, text=True, check=True).stdout.strip()
    work = tmp_path / "program"
    work.mkdir()
    (work / "main.go").write_text(PROGRAM)
    env = {**os.environ, "GOPROXY": f"file://{proxies[0]},{registry}", "GONOSUMDB": "wick.dev", "GOFLAGS": "-mod=mod -modcacherw", "GOMODCACHE": str(tmp_path / "modules"),
           "CGO_ENABLED": "0"}

    def go(*words):
        p = subprocess.run(["go", *words], cwd=work, env=env, capture_output=True, text=True)
        assert p.returncode == 0, p.stdout + p.stderr
        return p.stdout

    go("mod", "init", "example.com/program")
    go("get", f"wick.dev/go@v{number}")
    go("mod", "tidy")
    assert json.loads(go("list", "-m", "-json", "wick.dev/go"))["Version"] == f"v{number}"
    go("build", "-o", "program", ".")
    s = Server(tmp_path, WICK_NO_AGENT="1")
    try:
        subprocess.run([work / "program", s.grpc], check=True, timeout=120)
        top = wait_for(lambda: s.json("/api/v1/top?query=cpu%7Bservice.name%3D%22from-a-tag%22%7D&from=now-1h&to=now%2B1h&sort=total").get("rows"))
        assert any("spinHere" in r["name"] for r in top), top
    finally:
        s.stop()
