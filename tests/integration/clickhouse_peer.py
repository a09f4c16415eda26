#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Starts real ClickHouse servers on loopback: one node, or a cluster of 2 shards with 2 replicas each and ZooKeeper.

    clickhouse_peer.py DIR              one node; prints the location of its store and runs until it is killed
    clickhouse_peer.py DIR --cluster    the cluster

The servers are Debian's clickhouse-server (18.16), the only one that the package archives have. ZooKeeper comes from Maven.
"""
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

SERVER = shutil.which("clickhouse-server")
ZOOKEEPER = "org.apache.zookeeper:zookeeper:3.8.4"


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def wait_for(what, deadline=60):
    end = time.monotonic() + deadline
    while True:
        try:
            value = what()
            if value:
                return value
        except (OSError, urllib.error.URLError):
            pass
        if time.monotonic() > end:
            raise TimeoutError(str(what))
        time.sleep(0.05)


USERS = """<yandex><profiles><default><max_memory_usage>4000000000</max_memory_usage></default></profiles>
<users><default><password></password><networks><ip>127.0.0.1</ip></networks><profile>default</profile>
<quota>default</quota></default>
<ingest><password>s3cret &amp; long</password><networks><ip>127.0.0.1</ip></networks><profile>default</profile>
<quota>default</quota></ingest></users><quotas><default/></quotas></yandex>
"""


class Node:
    def __init__(self, path, more=""):
        self.path = path
        self.http, self.tcp, self.inter = free_port(), free_port(), free_port()
        self.more = more
        self.process = None

    @property
    def address(self):
        return f"127.0.0.1:{self.http}"

    def configure(self, more=""):
        os.makedirs(f"{self.path}/data", exist_ok=True)
        os.makedirs(f"{self.path}/tmp", exist_ok=True)
        with open(f"{self.path}/users.xml", "w") as f:
            f.write(USERS)
        with open(f"{self.path}/config.xml", "w") as f:
            f.write(f"""<yandex><logger><level>warning</level><log>{self.path}/log</log>
<errorlog>{self.path}/errors</errorlog><size>10M</size><count>2</count></logger>
<http_port>{self.http}</http_port><tcp_port>{self.tcp}</tcp_port>
<interserver_http_port>{self.inter}</interserver_http_port><interserver_http_host>127.0.0.1</interserver_http_host>
<listen_host>127.0.0.1</listen_host><path>{self.path}/data/</path><tmp_path>{self.path}/tmp/</tmp_path>
<users_config>{self.path}/users.xml</users_config><default_profile>default</default_profile>
<default_database>default</default_database><mark_cache_size>67108864</mark_cache_size>
<uncompressed_cache_size>8388608</uncompressed_cache_size><max_concurrent_queries>100</max_concurrent_queries>
<compression><case><method>zstd</method></case></compression>
{more}</yandex>
""")

    def start(self):
        self.process = subprocess.Popen([SERVER, f"--config-file={self.path}/config.xml"], cwd=self.path,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_for(lambda: self.process.poll() is not None or self.ask("SELECT 1") == "1")
        if self.process.poll() is not None:
            raise RuntimeError(open(f"{self.path}/errors").read()[-2000:])
        return self

    def ask(self, sql, timeout=60):
        request = urllib.request.Request(f"http://{self.address}/", data=sql.encode())
        with urllib.request.urlopen(request, timeout=timeout) as f:
            return f.read().decode().rstrip("\n")

    def stop(self, how=signal.SIGTERM):
        if self.process and self.process.poll() is None:
            self.process.send_signal(how)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


class Single:
    """One node. url: the location of its store, in a database of its own."""

    def __init__(self, path):
        self.node = Node(str(path))
        self.node.configure()
        self.node.start()

    def url(self, database="wick", more=""):
        return f"clickhouse://default@{self.node.address}/{database}{more}"

    def stop(self):
        self.node.stop()


def zookeeper_jars(cache):
    """Downloads ZooKeeper and what it needs, once."""
    jars = os.path.join(cache, "zookeeper")
    if not os.path.isdir(jars) or not os.listdir(jars):
        os.makedirs(jars, exist_ok=True)
        with open(os.path.join(jars, "pom.xml"), "w") as f:
            f.write("""<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>t</groupId><artifactId>t</artifactId><version>1</version><dependencies>
<dependency><groupId>org.apache.zookeeper</groupId><artifactId>zookeeper</artifactId><version>3.8.4</version></dependency>
<dependency><groupId>io.dropwizard.metrics</groupId><artifactId>metrics-core</artifactId><version>4.1.12.1</version></dependency>
<dependency><groupId>org.xerial.snappy</groupId><artifactId>snappy-java</artifactId><version>1.1.10.5</version></dependency>
</dependencies></project>""")
        subprocess.run(["mvn", "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={jars}"], cwd=jars,
                       check=True, timeout=300)
    return jars


def zookeeper_serves(port):
    """It listens before it serves: only then it answers."""
    with socket.create_connection(("127.0.0.1", port), 1) as s:
        s.sendall(b"srvr")
        return b"Mode:" in s.recv(4096)


class Cluster:
    """2 shards x 2 replicas; nodes[0] and nodes[1] are the replicas of the first shard."""

    def __init__(self, path, cache=None):
        path = str(path)
        os.makedirs(f"{path}/zk", exist_ok=True)
        jars = zookeeper_jars(cache or os.path.expanduser("~/.cache/wick"))
        port = free_port()
        with open(f"{path}/zoo.cfg", "w") as f:
            f.write(f"tickTime=500\ndataDir={path}/zk\nclientPort={port}\nclientPortAddress=127.0.0.1\n"
                    "admin.enableServer=false\nmaxClientCnxns=0\n")
        self.zookeeper = subprocess.Popen(
            ["java", "-Xmx256m", "-cp", f"{jars}/*", "org.apache.zookeeper.server.quorum.QuorumPeerMain",
             f"{path}/zoo.cfg"], stdout=open(f"{path}/zk.log", "w"), stderr=subprocess.STDOUT)
        wait_for(lambda: zookeeper_serves(port))  # an 18.16 that starts earlier crashes
        self.nodes = [Node(f"{path}/n{i}") for i in range(4)]
        shards = "".join(
            "<shard><internal_replication>true</internal_replication>" + "".join(
                f"<replica><host>127.0.0.1</host><port>{n.tcp}</port></replica>" for n in self.nodes[2 * s:2 * s + 2])
            + "</shard>" for s in range(2))
        for i, n in enumerate(self.nodes):
            n.configure(f"""<remote_servers><wick>{shards}</wick></remote_servers>
<zookeeper><node><host>127.0.0.1</host><port>{port}</port></node><session_timeout_ms>5000</session_timeout_ms></zookeeper>
<macros><shard>{i // 2 + 1}</shard><replica>r{i % 2 + 1}</replica></macros>
<distributed_ddl><path>/clickhouse/task_queue/ddl</path></distributed_ddl>""")
        for n in self.nodes:
            n.start()

    def url(self, database="wick", more=""):
        hosts = ",".join(n.address for n in self.nodes)
        return f"clickhouse://default@{hosts}/{database}?cluster=wick{more}"

    def stop(self):
        for n in self.nodes:
            n.stop(signal.SIGKILL)
        self.zookeeper.kill()
        self.zookeeper.wait()


def main():
    peer = (Cluster if "--cluster" in sys.argv else Single)(os.path.abspath(sys.argv[1]))
    print(peer.url(), flush=True)
    try:
        signal.pause()
    finally:
        peer.stop()


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    main()
