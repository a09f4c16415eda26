# SPDX-License-Identifier: Apache-2.0
"""Pyroscope itself, and its profilecli: as tools/peers builds them, or what $PYROSCOPE and $PROFILECLI name."""
import os
import subprocess
import urllib.error
import urllib.request

from wick_tools import ROOT, free_port, wait_for


def built(variable, name):
    path = ROOT / ".cache/peers" / name
    return os.environ.get(variable) or (str(path) if path.exists() else None)


PYROSCOPE, PROFILECLI = built("PYROSCOPE", "pyroscope"), built("PROFILECLI", "profilecli")


class Pyroscope:
    """The single binary on loopback, with nothing but what is sent to it."""

    def __init__(self, directory):
        self.dir, port, grpc, raft = directory, free_port(), free_port(), free_port()
        self.url = f"http://127.0.0.1:{port}"
        local = [f"-{x}=127.0.0.1" for x in (
            "server.http-listen-address", "server.grpc-listen-address", "memberlist.bind-addr", "memberlist.advertise-addr", "distributor.ring.instance-addr",
            "overrides-exporter.ring.instance-addr", "query-frontend.instance-addr", "query-scheduler.ring.instance-addr",
            "segment-writer.lifecycler.addr")]
        local += [f"-metastore.address=127.0.0.1:{grpc}", f"-query-backend.address=127.0.0.1:{grpc}", *[f"-metastore.raft.{x}=127.0.0.1:{raft}" for x in (
            "bind-address", "advertise-address")]]
        self.log = open(directory / "pyroscope.log", "w")
        self.p = subprocess.Popen([PYROSCOPE, "-target=all", f"-server.http-listen-port={port}", f"-server.grpc-listen-port={grpc}",
                                   f"-memberlist.bind-port={free_port()}", *local, "-usage-stats.enabled=false", "-self-profiling.disable-push=true",
                                   "-architecture.storage=v2", "-tenant-settings.recording-rules.enabled=true"],
                                  cwd=directory, stdout=self.log, stderr=self.log)

        def ready():
            assert self.p.poll() is None, (directory / "pyroscope.log").read_text()[-3000:]
            try:
                return urllib.request.urlopen(self.url + "/ready", timeout=5).status == 200
            except OSError:
                return False
        wait_for(ready, 180)

    def get(self, path, token=None, data=None, headers=None):
        try:
            with urllib.request.urlopen(urllib.request.Request(self.url + path, data=data, headers=headers or {}), timeout=60) as r:
                return r.status, r.read()
        except urllib.error.HTTPError as e:
            return e.code, e.read()

    def stop(self):
        self.p.kill()
        self.p.wait()
        self.log.close()
