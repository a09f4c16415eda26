# SPDX-License-Identifier: Apache-2.0
"""wick serve as people run it: reload, TLS, sockets, users, a full disk, pipelines; wick doctor; installing and leaving."""
import http.client
import json
import os
import pwd
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from wick_tools import ROOT, SHOP, WICK, Server, free_port, log_of, request, some, wait_for


def test_reload(tmp_path):
    config = tmp_path / "wick.yaml"
    config.write_text("limits: {samples_per_second: 1}\nlog: {format: json}\n")
    s = Server(tmp_path, "--config", str(config))
    try:
        def flood():
            return [s.send(request(SHOP, start=time.time_ns() - i * 10**6))[0] for i in range(8)]

        assert 429 in flood()
        lines = [json.loads(x) for x in log_of(s).splitlines()]
        assert any(x["level"] == "warn" and "over its limit" in x["msg"] for x in lines)
        assert sum("over its limit" in x["msg"] for x in lines) == 1  # held back after the first
        (tmp_path / "main.c").write_text("int main;\n")
        assert s.get("/api/v1/source?file=/src/main.c")[0] == 404
        config.write_text(f"limits: {{samples_per_second: 0, query_workers: 3}}\nretention: {{keep: 5d}}\nlog: {{format: logfmt}}\n"
                          f"source: [{{prefix: /src/, dir: {tmp_path}}}]\nui: {{price_per_core_hour: 0.5}}\nlisten: {{hosts: [a.example]}}\n")
        s.p.send_signal(signal.SIGHUP)
        wait_for(lambda: "reloaded" in log_of(s))
        assert "restart is required for listen.hosts, limits.query_workers\"" in log_of(s)
        assert "reloaded: retention.keep, limits.samples_per_second, source, ui.price_per_core_hour, log.format; " in log_of(s)
        assert set(flood()) == {200}
        assert s.json("/api/v1/source?file=/src/main.c")["text"] == "int main;\n"
        assert s.json("/api/v1/status")["pricePerCoreHour"] == 0.5
        config.write_text("limits: {samples_per_secnd: 0}\n")
        s.p.send_signal(signal.SIGHUP)
        wait_for(lambda: "keeping the previous configuration" in log_of(s))
        assert "wick.yaml:1" in log_of(s) and set(flood()) == {200}
    finally:
        assert s.stop()[0] == 0


def test_reload_of_retention(tmp_path):
    """A shorter time to keep drops what is older, without a restart."""
    config = tmp_path / "wick.yaml"
    config.write_text("retention: {keep: 30d}\n")
    s = Server(tmp_path, "--config", str(config))
    try:
        q = "/api/v1/top?query=cpu&from=now-7d"
        s.send(request(SHOP, start=time.time_ns() - 3 * 86400 * 10**9))
        s.send(request(SHOP))
        assert s.stop()[0] == 0  # into segments: they are what goes
        s.start()
        assert s.json(q)["total"] == 84
        config.write_text("retention: {keep: 2d}\n")
        s.p.send_signal(signal.SIGHUP)
        wait_for(lambda: "reloaded: retention.keep;" in log_of(s))
        wait_for(lambda: s.json(q)["total"] == 42, 150)  # looked at once a minute
    finally:
        assert s.stop()[0] == 0


def test_check(tmp_path):
    config = tmp_path / "wick.yaml"
    config.write_text("listen:\n  http: 127.0.0.1:4040\nservice:\n  pipelines:\n    profiles:\n      receivers: [nosuch]\n      exporters: [sink]\n")
    p = subprocess.run([WICK, "serve", "--check", "--config", str(config)], capture_output=True, text=True)
    assert p.returncode == 1 and "nosuch" in p.stderr
    config.write_text("retention: {keep: 5d}\n")
    assert subprocess.run([WICK, "serve", "--check", "--config", str(config)]).returncode == 0
    config.write_text("retention: {keep: soon}\n")
    p = subprocess.run([WICK, "serve", "--check", "--config", str(config)], capture_output=True, text=True)
    assert p.returncode == 1 and "wick.yaml:1" in p.stderr and len(p.stderr.splitlines()) == 1


def test_pipelines_inside(tmp_path):
    port = free_port()
    config = tmp_path / "wick.yaml"
    config.write_text(f"""
receivers:
  otlp/extra:
    protocols: {{http: {{endpoint: "127.0.0.1:{port}"}}}}
processors:
  resource: {{attributes: [{{key: service.namespace, value: added, action: upsert}}]}}
exporters:
  sink: {{}}
service:
  pipelines:
    profiles: {{receivers: [otlp/extra], processors: [resource], exporters: [sink]}}
""")
    s = Server(tmp_path, "--config", str(config))
    try:
        status, body = s.get("/v1development/profiles", None, request(SHOP).SerializeToString(), {"Content-Type": "application/x-protobuf"},
                             base=f"http://127.0.0.1:{port}")
        assert status == 200, body
        assert s.json("/api/v1/top?query=cpu{service.namespace=%22added%22}")["total"] == 42
        assert "otelcol_receiver_accepted" in s.get("/metrics")[1].decode()
    finally:
        assert s.stop()[0] == 0


@pytest.fixture
def certificate(tmp_path):
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-keyout",
                    str(key), "-out", str(cert), "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"],
                   check=True, capture_output=True)
    return cert, key


def test_tls_beyond_loopback_needs_a_token(tmp_path, certificate):
    cert, key = certificate
    options = ["--set", f"listen.tls.cert_file={cert}", "--set", f"listen.tls.key_file={key}"]
    p = subprocess.run([WICK, "serve", "--store", "memory", "--http", "0.0.0.0:0", "--otlp-grpc", "off", "--otlp-http", "off", "--set",
                        f"auth.tokens={tmp_path}/none", *options], capture_output=True, text=True, timeout=20)
    assert p.returncode == 1 and "wick token create" in p.stderr
    s = Server(tmp_path, *options)
    try:
        assert s.url.startswith("https://")
        context = ssl.create_default_context(cafile=str(cert))
        c = http.client.HTTPSConnection("localhost", int(s.url.rsplit(":", 1)[1]), context=context, timeout=10)
        c.request("GET", "/api/v1/status")
        assert c.getresponse().status == 200
    finally:
        s.stop()


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=10)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(self.path)


def test_unix_socket(tmp_path):
    path = str(tmp_path / "wick.sock")
    tmp_path.chmod(0o1777)  # whom the server is then must be able to make it
    p = subprocess.Popen([WICK, "serve", "--store", "memory", "--http", "unix:" + path, "--otlp-grpc", "off", "--otlp-http", "off"],
                         stdout=subprocess.PIPE, text=True)
    try:
        assert "is ready" in p.stdout.readline()
        c = UnixConnection(path)
        c.request("GET", "/api/v1/status")
        assert c.getresponse().status == 200
    finally:
        p.terminate()
        assert p.wait(60) == 0
    assert not os.path.exists(path)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_becomes_another_user(tmp_path):
    os.chmod(tmp_path, 0o711)
    for parent in tmp_path.parents:
        if parent.stat().st_uid == 0 and parent != Path("/") and str(parent) != "/tmp" and not parent.stat().st_mode & 1:
            os.chmod(parent, parent.stat().st_mode | 0o011)
    s = Server(tmp_path, "--set", "user=nobody")
    try:
        status = Path(f"/proc/{s.p.pid}/status").read_text()
        uid = pwd.getpwnam("nobody").pw_uid
        assert f"Uid:\t{uid}\t{uid}\t{uid}\t{uid}" in status and "NoNewPrivs:\t1" in status and "CapEff:\t0000000000000000" in status
        assert s.send(request(SHOP))[0] == 200
        assert s.json("/api/v1/top?query=cpu")["total"] == 42
    finally:
        assert s.stop()[0] == 0
    p = subprocess.run([WICK, "serve", "--store", str(tmp_path / "x"), "--set", "user=no-such-user"], capture_output=True, text=True)
    assert p.returncode == 1 and "no user 'no-such-user'" in p.stderr
    (tmp_path / "roots").mkdir()
    (tmp_path / "roots/file").touch()
    p = subprocess.run([WICK, "serve", "--store", str(tmp_path / "roots"), "--set", "user=nobody", "--set", f"auth.tokens={tmp_path}/t"],
                       capture_output=True, text=True)
    assert p.returncode == 1 and "chown -R nobody" in p.stderr


@pytest.fixture
def as_nobody(monkeypatch):
    """Runs wick as a user without any right, in a folder of his own."""
    if os.geteuid() != 0:
        pytest.skip("needs root")
    monkeypatch.delenv("WICK_NO_AGENT", raising=False)
    home = Path(tempfile.mkdtemp(prefix="wick-nobody-"))
    (home / "bin").mkdir()
    shutil.copy(WICK, home / "bin")
    nobody = pwd.getpwnam("nobody")
    os.chown(home, nobody.pw_uid, nobody.pw_gid)

    def start(*words):
        p = subprocess.Popen([str(home / "bin/wick"), *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=home,
                             user=nobody.pw_uid, group=nobody.pw_gid, extra_groups=[],
                             env={**os.environ, "HOME": str(home), "XDG_DATA_HOME": str(home)})
        p.home = home
        return p

    yield start
    shutil.rmtree(home)


def test_no_flag_and_no_file(as_nobody):
    """The well-known ports (the next one for the API, off for OTLP where another has them), a store in the user's folder."""
    p = as_nobody("serve")
    ready = p.stdout.readline()
    store = Path(p.home) / "wick/store"
    p.terminate()
    log = p.communicate(timeout=30)[1]
    assert p.returncode == 0 and ready.startswith("wick serve is ready: http://127.0.0.1:40"), ready + log
    for name, port in (("OTLP/gRPC", 4317), ("OTLP/HTTP", 4318)):
        assert f"{name}: listening on 127.0.0.1:{port}" in log or (f"{name} is off" in log and str(port) in log), log
    assert f"store: {store}; retention: 30 days (detail: 7 days), 10240 MiB" in log and (store / "FORMAT").exists()


def test_missing_rights_are_one_line(as_nobody):
    """What is off without rights says so once, with what to do; the rest works."""
    s = as_nobody("serve", "--store", "memory", "--http", "127.0.0.1:0", "--otlp-grpc", "off", "--otlp-http", "off")
    url = s.stdout.readline().split()[-1]

    def agent():
        return json.loads(urllib.request.urlopen(url + "/api/v1/status", timeout=10).read())["agent"]

    wait_for(lambda: agent()["state"] == "failed")
    told = agent()  # the agent's own words, and the command that helps
    assert "CAP_BPF and CAP_PERFMON" in told["reason"] and "run it as root" in told["reason"] and told["fix"] == "sudo wick serve", told
    with pytest.raises(urllib.error.HTTPError) as e:
        urllib.request.urlopen(f"{url}/pid/{os.getpid()}/debug/pprof/profile?seconds=1", timeout=10)
    assert e.value.code == 503 and b"as root" in e.value.read()
    s.terminate()
    about = [line for line in s.communicate(timeout=20)[1].splitlines() if "agent" in line or "CAP_" in line]
    assert len(about) == 1 and "the host agent is off" in about[0] and "run it as root" in about[0], about
    for words, fix in [(["record", "-a", "-d", "1s"], "wick record -- CMD"), (["top"], "wick doctor"), (["dump", "1"], "CAP_SYS_PTRACE"),
                       (["agent", "--export", "http://127.0.0.1:1"], "run it as root")]:
        p = as_nobody(*words)
        err = p.communicate(timeout=30)[1].strip().splitlines()
        assert p.returncode == 1 and len(err) == 1 and fix in err[0], (words, err)


def test_no_right_to_the_store(tmp_path):
    target = "/proc/wick-store"  # nobody can make a folder there
    p = subprocess.run([WICK, "serve", "--store", target, "--http", "127.0.0.1:0"], capture_output=True, text=True, timeout=20)
    assert p.returncode == 1 and target in p.stderr and len(p.stderr.strip().splitlines()) == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_full_disk(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=160m", "tmpfs", str(disk)], capture_output=True).returncode:
        pytest.skip("cannot mount a small disk here")
    try:
        s = Server(tmp_path, "--store", str(disk / "store"))
        try:
            assert s.send(request(SHOP))[0] == 200
            with open(disk / "filler", "wb") as f:
                try:
                    while True:
                        f.write(bytes(1 << 16))
                        f.flush()
                except OSError:
                    pass
            os.truncate(disk / "filler", max(0, os.path.getsize(disk / "filler") - (1 << 20)))
            status = 200
            deadline = time.time() + 60
            while status == 200:
                status, body = s.send(request(SHOP, start=time.time_ns() - 10**9))
                assert time.time() < deadline
            assert status in (429, 503) and (b"disk" in body or b"space" in body), (status, body)
            assert s.json("/api/v1/top?query=cpu")["total"] >= 42  # questions are still answered
            os.unlink(disk / "filler")
            wait_for(lambda: s.send(request(SHOP, start=time.time_ns() - 2 * 10**9))[0] == 200)
        finally:
            s.stop()
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


def test_doctor(tmp_path):
    env = {**os.environ, "HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path)}
    checks = json.loads(subprocess.run([WICK, "doctor", "--json"], capture_output=True, text=True, env=env).stdout)
    assert {"kernel", "capabilities", "UI port", "disk", "store", "users", "confinement"} <= {c["check"] for c in checks}
    assert all(c["verdict"] in ("ok", "note", "bad") and c["state"] for c in some(checks))
    assert all(c["fix"] for c in some(checks) if c["verdict"] == "bad")
    text = subprocess.run([WICK, "doctor"], capture_output=True, text=True, env=env).stdout
    *lines, empty, verdict = text.splitlines()
    assert len(lines) == len(checks) and not empty and verdict.startswith("Verdict: "), text


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_doctor_of_a_user_without_rights():
    """What it calls ok works: the same things are tried."""
    p = subprocess.run([WICK, "doctor", "--json"], capture_output=True, text=True, user=65534, group=65534, extra_groups=[])
    said = {c["check"]: c["verdict"] for c in json.loads(p.stdout)}
    tried = "grep -qm1 '^0*[1-9a-f]' /proc/kallsyms && echo ok || echo note; head -c1 /proc/1/maps >/dev/null 2>&1 && echo ok || echo note"
    works = subprocess.run(["/bin/sh", "-c", tried], capture_output=True, text=True, user=65534, group=65534, extra_groups=[], cwd="/")
    assert [said["kernel symbols"], said["ptrace"]] == works.stdout.split(), (p.stdout, works.stdout)
    assert said["perf events"] == "note"


def test_doctor_names_who_has_a_port():
    with socket.socket() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            s.bind(("127.0.0.1", 4318))
        except OSError:
            pytest.skip("4318 is taken")
        s.listen()
        text = subprocess.run([WICK, "doctor"], capture_output=True, text=True).stdout
        assert f"4318 (OTLP/HTTP) is in use by process {os.getpid()}" in text


@pytest.mark.skipif(not shutil.which("meson"), reason="needs meson")
def test_install_and_uninstall(tmp_path):
    build = Path(WICK).resolve().parents[2]
    if not (build / "build.ninja").exists():
        pytest.skip("not a build folder")
    subprocess.run(["meson", "install", "-C", str(build), "--no-rebuild", "--destdir", str(tmp_path), "--quiet"], check=True, capture_output=True)
    found = list(tmp_path.rglob("bin/wick"))
    assert len(found) == 1
    prefix = found[0].parent.parent
    unit = (prefix / "lib/systemd/system/wick.service").read_text()
    assert "NoNewPrivileges=true" in unit and "@" not in unit.replace("SystemCallFilter=@", "").replace("~@", "")
    if shutil.which("systemd-analyze"):
        assert subprocess.run(["systemd-analyze", "verify", str(prefix / "lib/systemd/system/wick.service")], capture_output=True).returncode in (0, 1)
    wick = str(found[0])
    assert subprocess.run([wick, "serve", "--check", "--config", str(next(prefix.rglob("etc/wick/wick.yaml"), ROOT / "packaging/wick.yaml"))]).returncode == 0
    home = tmp_path / "home"
    env = {**os.environ, "HOME": str(home), "XDG_DATA_HOME": str(home)}
    dry = subprocess.run([wick, "uninstall", "--dry-run"], capture_output=True, text=True, check=True, env=env)
    assert wick in dry.stdout and found[0].exists()
    if os.geteuid() != 0:
        (home / "wick/store").mkdir(parents=True)
        (home / "wick/store/x").touch()
        purge = ["--purge"]
    else:
        purge = [] if Path("/var/lib/wick").exists() else ["--purge"]  # root's data are the machine's
    subprocess.run([wick, "uninstall", *purge], check=True, capture_output=True, env=env)
    left = [p for p in tmp_path.rglob("*") if not p.is_dir()]
    assert left == ([] if purge else [prefix / "etc/wick/wick.yaml"]), left
    assert not (home / "wick").exists()
