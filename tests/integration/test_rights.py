# SPDX-License-Identifier: Apache-2.0
"""Who wick runs as and whom it trusts: started as root, by sudo, by an ordinary user; asked by each of them and by others."""
import os
import pwd
import re
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path

import pytest
from wick_tools import SHOP, WICK, Server, request, some, token_of, wait_for


pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be several users")
ALICE, BOB = 52001, 52002


def as_user(uid, *command, **kw):
    return subprocess.run(command, user=uid, group=uid, extra_groups=[], capture_output=True, text=True, timeout=60, **kw)


def status_as(uid, url, *options):
    return as_user(uid, "curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "--max-time", "20", *options, url).stdout


def process_status(pid):
    return dict(line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":\t" in line)


def name_of(uid):
    """As messages have it: the user's name, where the system knows one (a machine with wick's package does)."""
    try:
        return pwd.getpwuid(int(uid)).pw_name
    except KeyError:
        return str(uid)


@pytest.fixture
def served(tmp_path):
    s = Server(tmp_path)
    yield s
    s.p.kill()
    s.p.wait()


def test_started_as_root_it_is_nobody(served):
    """The default configuration: an unprivileged uid, no capability anywhere, a filter of system calls."""
    status = process_status(served.p.pid)
    uids = set(status["Uid"].split())
    assert len(uids) == 1 and "0" not in uids
    assert not status["Groups"].strip()
    for kind in ("Inh", "Prm", "Eff", "Bnd", "Amb"):
        assert int(status["Cap" + kind], 16) == 0, kind
    assert status["NoNewPrivs"] == "1" and status["Seccomp"] == "2"
    assert f"running as user {name_of(uids.pop())}" in (served.dir / "log").read_text()


def test_store_is_private(served):
    served.send(request(SHOP))
    for root, dirs, files in some(os.walk(served.dir / "store")):
        for path in [root, *(os.path.join(root, f) for f in dirs + files)]:
            assert os.lstat(path).st_mode & 0o077 == 0, path


def test_other_users_read_nothing(served):
    assert served.send(request(SHOP))[0] == 200
    assert served.get("/api/v1/status")[0] == 200  # root started it
    for path in ("/api/v1/status", "/api/v1/flame?query=cpu", "/api/v1/senders", "/debug/pprof/cmdline", "/pyroscope/labels"):
        assert status_as(ALICE, served.url + path) == "401", path
    assert status_as(ALICE, served.url + "/api/v1/delete?query=cpu", "-X", "POST") == "401"
    assert served.json("/api/v1/top?query=cpu")["total"] == 42


def test_other_users_may_send(served):
    body = served.dir / "body"
    body.write_bytes(request(SHOP, service="alice").SerializeToString())
    body.chmod(0o644)
    sent = as_user(ALICE, "curl", "-s", "-w", "%{http_code}", "-H", "content-type: application/x-protobuf", "--data-binary", "@-",
                   served.http + "/v1development/profiles", stdin=open(body, "rb")).stdout
    assert sent.endswith("200")
    assert served.json("/api/v1/top?query=cpu")["total"] == 42
    assert status_as(ALICE, served.url + "/api/v1/symbols/00112233", "-X", "PUT", "-d", "x") == "401"


def test_a_closed_connection_is_not_roots(served):
    """The kernel reports the sockets of closed connections as root's: a request on one must not be believed."""
    assert served.send(request(SHOP))[0] == 200
    host, port = served.url.split("//")[1].split(":")
    program = ("import socket,sys\n"
               f"s = socket.create_connection(('{host}', {port}))\n"
               "s.sendall(b'POST /api/v1/delete?query=cpu HTTP/1.1\\r\\nHost: localhost\\r\\ncontent-length: 0\\r\\n\\r\\n')\n"
               "s.close()\n")
    for _ in range(30):
        assert as_user(ALICE, "/usr/bin/python3", "-c", program).returncode == 0
    time.sleep(0.3)
    assert served.json("/api/v1/top?query=cpu")["total"] == 42


def test_ipv6(tmp_path):
    if not Path("/proc/net/if_inet6").exists() or "00000000000000000000000000000001" not in Path("/proc/net/if_inet6").read_text():
        pytest.skip("no IPv6 loopback")
    p = subprocess.Popen([WICK, "serve", "--store", "memory", "--http", "[::1]:0", "--otlp-grpc", "off", "--otlp-http", "off"],
                         stdout=subprocess.PIPE, text=True)
    try:
        url = p.stdout.readline().split()[-1]
        assert status_as(0, url + "/api/v1/status") == "200"
        assert status_as(ALICE, url + "/api/v1/status") == "401"
    finally:
        p.kill()
        p.wait()


def test_sudo(tmp_path):
    s = Server(tmp_path, SUDO_UID=str(ALICE))
    try:
        assert status_as(ALICE, s.url + "/api/v1/status") == "200"
        assert status_as(BOB, s.url + "/api/v1/status") == "401"
    finally:
        s.p.kill()
        s.p.wait()


def test_started_by_a_user():
    home = Path(tempfile.mkdtemp(dir="/tmp"))
    shutil.copy(WICK, home / "wick")  # the build may be where only root may look
    os.chown(home, ALICE, ALICE)
    p = subprocess.Popen([home / "wick", "serve", "--http", "127.0.0.1:0", "--otlp-grpc", "off", "--otlp-http", "off"], user=ALICE,
                         group=ALICE, extra_groups=[], env={"HOME": str(home), "WICK_NO_AGENT": "1", "PATH": os.environ["PATH"]},
                         stdout=subprocess.PIPE, text=True)
    try:
        url = p.stdout.readline().split()[-1]
        assert status_as(ALICE, url + "/api/v1/status") == "200"
        assert status_as(0, url + "/api/v1/status") == "200"
        assert status_as(BOB, url + "/api/v1/status") == "401"
        status = process_status(p.pid)
        assert status["NoNewPrivs"] == "1" and status["Seccomp"] == "2" and status["Uid"].split()[0] == str(ALICE)
    finally:
        p.kill()
        p.wait()
        shutil.rmtree(home)


def test_store_of_root_is_handed_over(tmp_path):
    s = Server(tmp_path, "--set", 'user=""')
    s.send(request(SHOP))
    assert process_status(s.p.pid)["Uid"].split()[0] == "0"
    assert "running as root with all privileges" in (tmp_path / "log").read_text()
    s.p.terminate()
    s.p.wait()
    (tmp_path / "outside").write_text("root's")
    (tmp_path / "store" / "link").symlink_to(tmp_path / "outside")
    s = Server(tmp_path)
    try:
        assert s.json("/api/v1/top?query=cpu")["total"] == 42
        uid = int(process_status(s.p.pid)["Uid"].split()[0])
        assert uid and re.search(rf"store': changed the owner of \d+ files and directories to user {name_of(uid)}", (tmp_path / "log").read_text())
        assert (tmp_path / "store" / "catalog.db").stat().st_uid == uid
        assert (tmp_path / "outside").stat().st_uid == 0
    finally:
        s.p.kill()
        s.p.wait()


def test_a_directory_that_is_no_store_is_not_taken(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis").write_text("x")
    p = subprocess.run([WICK, "serve", "--store", tmp_path / "mine", "--http", "127.0.0.1:0"], capture_output=True, text=True, timeout=30)
    assert p.returncode == 1 and "is not a store of wick" in p.stderr
    assert (tmp_path / "mine").stat().st_uid == 0 and (tmp_path / "mine" / "thesis").stat().st_uid == 0


def test_a_link_of_another_user_is_not_followed(tmp_path):
    """The service owns its data directory: a link that it puts there must not lead root elsewhere."""
    victim, data = tmp_path / "victim", tmp_path / "data"
    victim.mkdir()
    data.mkdir()
    os.chown(data, ALICE, ALICE)
    (data / "store").symlink_to(victim)
    os.chown(data / "store", ALICE, ALICE, follow_symlinks=False)
    p = subprocess.run([WICK, "serve", "--store", data / "store", "--http", "127.0.0.1:0"], capture_output=True, text=True, timeout=30)
    assert p.returncode == 1 and "symbolic link of another user" in p.stderr
    assert victim.stat().st_uid == 0 and not list(victim.iterdir())


def test_token_file(tmp_path):
    """Written by root into a directory of the service: not through its links, readable to it, to nobody else."""
    victim = tmp_path / "victim"
    victim.write_text("precious")
    data = tmp_path / "data"
    data.mkdir()
    os.chown(data, ALICE, ALICE)
    (data / "other").symlink_to(victim)
    for i in range(2):
        made = subprocess.run([WICK, "token", "create", "--file", data / "tokens"], capture_output=True, text=True)
        assert made.returncode == 0, made.stderr
        st = os.lstat(data / "tokens")
        assert (st.st_uid, st.st_mode) == (ALICE, 0o100600)
    assert victim.read_text() == "precious"
    assert sorted(p.name for p in data.iterdir()) == ["other", "tokens"]


def test_token_made_while_the_server_runs(served):
    made = subprocess.run([WICK, "token", "create", "--scope", "read", "--file", served.dir / "tokens"], capture_output=True, text=True)
    wait_for(lambda: served.get("/api/v1/status")[0] == 401)
    assert served.get("/api/v1/status", token=made.stdout.strip())[0] == 200


def other_address():
    """Of this machine, and not of loopback: its connections are those of another machine to the server."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.connect(("192.0.2.1", 9))
        return s.getsockname()[0]


@pytest.mark.parametrize("word, asks, sends", [(None, 401, 401), ("send", 401, 200), ("use", 200, 200)])
def test_other_machines_without_tokens(tmp_path, word, asks, sends):
    """auth.anonymous says what they may do, until there is a token."""
    options = ["--insecure", *(["--set", f"auth.anonymous={word}"] if word else [])]
    s = Server(tmp_path, "--http", "0.0.0.0:0", "--otlp-http", "0.0.0.0:0", *options)
    try:
        host = other_address()
        api, otlp = (u.replace("0.0.0.0", host) for u in (s.url, s.http))
        body = request(SHOP).SerializeToString()

        def ask():
            return s.get("/api/v1/services", base=api)[0]

        assert ask() == asks
        assert s.get("/v1development/profiles", data=body, headers={"Content-Type": "application/x-protobuf"}, base=otlp)[0] == sends
        assert s.get("/api/v1/delete?query=cpu&from=0&to=1", data=b"", base=api)[0] in (401, 403)
        assert s.get("/pid/1/debug/pprof/profile?seconds=1", base=api)[0] in (401, 403)
        assert s.get("/api/v1/services")[0] == 200, "the user of the server, on this machine"
        token_of(s, "read")
        wait_for(lambda: ask() == 401, 20)
    finally:
        s.stop()
