#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A current ClickHouse for tests: libchdb (the engine as a library, from npm, kept in ~/.cache/wick) with a small HTTP server in
front that answers as ClickHouse's HTTP interface does. It has the SQL, the formats, the tables and the codecs of that version; it
has no replication, no users, and executes one statement at a time.

    chdb_peer.py DIR                    prints the location of its store and runs until it is killed

CHDB in the environment names a libchdb.so that is there already.
"""
import ctypes
import http.server
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import urllib.parse
from pathlib import Path

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from clickhouse_peer import Node, wait_for  # noqa: E402

PACKAGE = "@chdb/lib-linux-x64-gnu@26.5.3"


def library():
    """The path of libchdb.so; None if it cannot be had here."""
    if os.environ.get("CHDB"):
        return os.environ["CHDB"]
    folder = Path("~/.cache/wick/chdb").expanduser()
    path = folder / "package" / "libchdb.so"
    if path.exists():
        return str(path)
    if not shutil.which("npm"):
        return None
    folder.mkdir(parents=True, exist_ok=True)
    made = subprocess.run(["npm", "pack", PACKAGE], cwd=folder, capture_output=True, text=True)
    if made.returncode:
        return None
    for file in folder.glob("*.tgz"):
        subprocess.run(["tar", "xzf", file.name], cwd=folder, check=True)
        file.unlink()
    return str(path) if path.exists() else None


class Engine:
    def __init__(self, path):
        lib = self.lib = ctypes.CDLL(library())
        lib.chdb_connect.restype = ctypes.POINTER(ctypes.c_void_p)
        lib.chdb_connect.argtypes = [ctypes.c_int, ctypes.POINTER(ctypes.c_char_p)]
        lib.chdb_query_n.restype = ctypes.c_void_p
        lib.chdb_query_n.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t]
        lib.chdb_result_buffer.restype = ctypes.c_void_p
        lib.chdb_result_length.restype = ctypes.c_size_t
        lib.chdb_result_error.restype = ctypes.c_char_p
        for f in (lib.chdb_result_buffer, lib.chdb_result_length, lib.chdb_result_error, lib.chdb_destroy_query_result):
            f.argtypes = [ctypes.c_void_p]
        lib.chdb_destroy_query_result.restype = None
        words = [b"clickhouse", b"--path=" + os.fsencode(path)]
        self.connection = lib.chdb_connect(len(words), (ctypes.c_char_p * len(words))(*words))
        if not self.connection:
            raise RuntimeError("libchdb cannot be used")
        self.lock = threading.Lock()
        self.database = "default"
        # what wick sends in the URL of each request
        self.one(b"SET max_query_size = 268435456, max_ast_elements = 10000000, max_expanded_ast_elements = 10000000")

    def one(self, sql):
        result = self.lib.chdb_query_n(self.connection[0], sql, len(sql), b"TabSeparated", 12)
        try:
            error = self.lib.chdb_result_error(result)
            if error:
                return 500, error
            n = self.lib.chdb_result_length(result)
            return 200, ctypes.string_at(self.lib.chdb_result_buffer(result), n) if n else b""
        finally:
            self.lib.chdb_destroy_query_result(result)

    def ask(self, sql, database, data):
        with self.lock:
            if database and database != self.database:
                status, answer = self.one(b"USE `" + database.encode() + b"`")
                if status != 200:
                    return status, answer
                self.database = database
            if not data:
                return self.one(sql)
            insert, _, form = sql.rpartition(b" FORMAT ")
            with tempfile.NamedTemporaryFile(dir="/dev/shm") as f:
                f.write(data)
                f.flush()
                return self.one(insert + b" SELECT * FROM file('" + f.name.encode() + b"', '" + form.strip() + b"')")


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    engine = None

    def log_message(self, *_):
        pass

    def do_POST(self):  # noqa: N802
        body = self.rfile.read(int(self.headers.get("content-length", "0")))
        words = urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query, encoding="latin-1")
        sql, data = (words["query"][0].encode("latin-1"), body) if "query" in words else (body, None)
        status, answer = self.engine.ask(sql, words.get("database", [None])[0], data)
        self.send_response(status)
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)


class ChdbNode(Node):
    def start(self):
        os.makedirs(self.path, exist_ok=True)
        with open(f"{self.path}/errors", "a") as errors:
            self.process = subprocess.Popen([sys.executable, __file__, "--serve", str(self.http), f"{self.path}/data"],
                                            stdout=subprocess.DEVNULL, stderr=errors)
        wait_for(lambda: self.process.poll() is not None or self.ask("SELECT 1") == "1", 120)
        if self.process.poll() is not None:
            raise RuntimeError(open(f"{self.path}/errors").read()[-2000:])
        return self


class Chdb:
    """As clickhouse_peer.Single."""

    def __init__(self, path):
        self.node = ChdbNode(str(path)).start()

    def url(self, database="wick", more=""):
        return f"clickhouse://default@{self.node.address}/{database}{more}"

    def stop(self):
        self.node.stop()


def main():
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    if sys.argv[1] == "--serve":
        Handler.engine = Engine(sys.argv[3])
        http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[2])), Handler).serve_forever()
    peer = Chdb(os.path.abspath(sys.argv[1]))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    print(peer.url(), flush=True)
    try:
        signal.pause()
    finally:
        peer.stop()


if __name__ == "__main__":
    main()
