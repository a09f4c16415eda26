# SPDX-License-Identifier: Apache-2.0
"""The container image, run by crun as its configuration says: with a read-only root file system, as a user without rights. The server
keeps its data in a volume; the agent, with the capabilities that docs/install.md names and no others, samples the host."""
import functools
import hashlib
import io
import json
import os
import re
import shutil
import socket
import subprocess
import tarfile
import time
import urllib.request
from pathlib import Path

import pytest
from release_tools import ROOT, need_root

pytestmark = pytest.mark.slow
CAPABILITIES = ["BPF", "PERFMON", "SYS_PTRACE", "DAC_READ_SEARCH", "CHECKPOINT_RESTORE", "SYSLOG"]


@functools.cache
def image():
    p = subprocess.run([ROOT / "packaging/image"], cwd=ROOT, capture_output=True, text=True)
    assert p.returncode == 0, p.stderr[-3000:]
    return Path(p.stdout.strip())


def parts():
    """(configuration, the content of the layer), every blob verified against its name."""
    with tarfile.open(image()) as tar:
        blobs = {m.name.split("/")[-1]: tar.extractfile(m).read() for m in tar if m.isfile() and m.name.startswith("blobs/")}
        index = json.loads(tar.extractfile("index.json").read())
    for name, data in blobs.items():
        assert hashlib.sha256(data).hexdigest() == name
    of = lambda d: blobs[d["digest"].removeprefix("sha256:")]  # noqa: E731
    (manifest,) = index["manifests"]
    manifest = json.loads(of(manifest))
    config, (layer,) = json.loads(of(manifest["config"])), manifest["layers"]
    content = subprocess.run(["gzip", "-dc"], input=of(layer), capture_output=True, check=True).stdout
    assert config["rootfs"]["diff_ids"] == ["sha256:" + hashlib.sha256(content).hexdigest()]
    return config, content


def test_content():
    """Nothing that a shell or another program could be started from; no file that belongs to the user of the server."""
    config, content = parts()
    assert config["config"]["User"] == "65532:65532" and image().stat().st_size < 14 << 20
    with tarfile.open(fileobj=io.BytesIO(content)) as tar:
        members = {m.name: m for m in tar}
    programs = {n for n, m in members.items() if m.isfile() and m.mode & 0o111}
    assert {p for p in programs if not re.search(r"\.so(\.\d+)*$", p)} == {"usr/bin/wick"}
    assert {n for n, m in members.items() if m.uid} == {"var/lib/wick"} and not [n for n, m in members.items() if m.mode & 0o6000]
    if shutil.which("podman"):
        p = subprocess.run(["podman", "--root", "/tmp/wick-image-test", "--runroot", "/tmp/wick-image-test.run", "--storage-driver=vfs", "load", "-i", image()],
                           capture_output=True, text=True)
        shutil.rmtree("/tmp/wick-image-test", ignore_errors=True)
        shutil.rmtree("/tmp/wick-image-test.run", ignore_errors=True)
        assert p.returncode == 0 and "wick" in p.stdout, p.stderr


# crun refuses a machine with both versions of cgroups; it needs none of them here.
CRUN = ["unshare", "--mount", "sh", "-c", 'mount -t cgroup2 none /sys/fs/cgroup; exec crun --cgroup-manager=disabled "$@"', "sh"]


class Container:
    """crun with a bundle of the image's configuration; in the host's network."""

    def __init__(self, place, name, *words, user=None, capabilities=(), host_pids=False, volume=None, env=()):
        config, content = parts()
        bundle = place / name
        (bundle / "rootfs").mkdir(parents=True)
        subprocess.run(["tar", "x", "--same-owner", "-C", bundle / "rootfs"], input=content, check=True)
        uid, gid = map(int, (user or config["config"]["User"]).split(":"))
        named = [f"CAP_{c}" for c in capabilities]
        mounts = [{"destination": "/proc", "type": "proc", "source": "proc"}, {"destination": "/dev", "type": "tmpfs", "source": "tmpfs"},
                  {"destination": "/tmp", "type": "tmpfs", "source": "tmpfs"},
                  {"destination": "/sys", "type": "none", "source": "/sys", "options": ["rbind", "ro", "nosuid", "nodev", "noexec"]}]
        if host_pids:
            mounts[0] = {"destination": "/proc", "type": "none", "source": "/proc", "options": ["rbind"]}
        if volume:
            mounts.append({"destination": "/var/lib/wick", "type": "none", "source": str(volume), "options": ["rbind", "rw"]})
        spaces = ["mount", "ipc", "uts", *([] if host_pids else ["pid"])]
        (bundle / "config.json").write_text(json.dumps({
            "ociVersion": "1.0.0", "hostname": "test", "mounts": mounts, "root": {"path": "rootfs", "readonly": True},
            "process": {"user": {"uid": uid, "gid": gid}, "args": [*config["config"]["Entrypoint"], *(words or config["config"]["Cmd"])], "cwd": "/",
                        "env": [*config["config"]["Env"], *env], "noNewPrivileges": True,
                        "capabilities": {k: named for k in ("bounding", "effective", "permitted")}},
            "linux": {"namespaces": [{"type": t} for t in spaces]}}))
        self.log = open(place / f"{name}.log", "w+")
        self.id = f"wick-test-{os.getpid()}-{name}"
        self.crun = [*CRUN, f"--root={place}/run"]
        self.p = subprocess.Popen([*self.crun, "run", "--bundle", bundle, self.id], stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)

    def text(self):
        return Path(self.log.name).read_text()

    def until(self, what, seconds=120):
        end = time.monotonic() + seconds
        while not (value := what()):
            assert time.monotonic() < end and self.p.poll() is None, self.text()
            time.sleep(0.5)
        return value

    def stop(self):
        subprocess.run([*self.crun, "kill", self.id, "TERM"], capture_output=True)
        try:
            return self.p.wait(60)
        finally:
            subprocess.run([*self.crun, "delete", "--force", self.id], capture_output=True)
            self.log.close()


SERVE = ("serve", "--no-agent", "--insecure", "--set", "auth.anonymous=use", "--set", "listen.hosts=[wick]", "--http", "0.0.0.0:0", "--otlp-grpc", "0.0.0.0:0", "--otlp-http", "0.0.0.0:0")


def other_address():
    """Of this machine, and not of loopback: what comes through a published port is not local to the server either."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.connect(("192.0.2.1", 9))
        return s.getsockname()[0]


def start_server(place, name, volume):
    """The image's own command, on ports that are free."""
    config, _ = parts()
    assert [re.sub(r":\d+$", ":0", w) for w in config["config"]["Cmd"]] == list(SERVE)
    c = Container(place, name, *SERVE, volume=volume)
    c.until(lambda: "is ready" in c.text())
    c.url = f"http://{other_address()}:" + re.search(r"is ready: http://\S+:(\d+)", c.text())[1]
    c.grpc = re.search(r"OTLP/gRPC: listening on \S+:(\d+)", c.text())[1]
    return c


def test_compose():
    """Has the capabilities that the documents name, and those that test_server_and_agent() shows to be enough."""
    text = (ROOT / "packaging/compose.yaml").read_text()
    assert re.search(r"cap_add: \[(.*)\]", text)[1].split(", ") == CAPABILITIES and "privileged: " not in text
    documented = (ROOT / "docs/install.md").read_text()
    assert all(re.search(rf"\b{c}\b", documented) for c in CAPABILITIES)
    assert set(re.findall(r"image: (\S+)", text)) == {"wick:" + image().name.split("-")[1]}


def test_server_and_agent(tmp_path):
    need_root("crun")
    tmp_path.chmod(0o755)
    volume = tmp_path / "volume"
    volume.mkdir()
    os.chown(volume, 65532, 65532)
    server = start_server(tmp_path, "server", volume)
    agent = None
    try:
        assert urllib.request.urlopen(server.url + "/readyz", timeout=30).status == 200
        agent = Container(tmp_path, "agent", "agent", "--export", f"http://{other_address()}:{server.grpc}", "--interval", "2s", user="0:0", host_pids=True,
                          capabilities=CAPABILITIES, env=["XDG_DATA_HOME=/tmp"])
        agent.until(lambda: "sampling at" in agent.text())
        name = f"busy{os.getpid()}"
        shutil.copy(shutil.which("bash"), tmp_path / name)
        busy = subprocess.Popen([tmp_path / name, "-c", "while :; do :; done"])
        try:
            wick = ROOT / "build-release/stage/usr/local/bin/wick"
            ask = lambda url: subprocess.run([wick, "query", "services", "--server", url], capture_output=True, text=True).stdout  # noqa: E731
            agent.until(lambda: name in ask(server.url))
        finally:
            busy.kill()
            busy.wait()
        agent.stop()
        agent = None
        assert server.stop() == 0
        server = start_server(tmp_path, "again", volume)  # a new container with the old volume
        assert name in ask(server.url)
        assert list((tmp_path / "again/rootfs/var/lib/wick").iterdir()) == []
    finally:
        for c in (agent, server):
            if c:
                c.stop()
