"""A real object store for tests: MinIO, built from its Go module once and kept in ~/.cache/wick. MINIO in the environment names
a program that is there already.

    minio_peer.py DIR       prints the location of a bucket and runs until it is killed
"""
import datetime
import hashlib
import hmac
import http.client
import http.server
import os
import shutil
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

VERSION = "v0.0.0-20260212201848-7aac2a2c5b7c"
USER, PASSWORD = "wickadmin", "wick-secret-key"


def program():
    """The path of minio; None if it cannot be built here."""
    if os.environ.get("MINIO"):
        return os.environ["MINIO"]
    path = Path("~/.cache/wick/minio").expanduser()
    if path.exists():
        return str(path)
    if not shutil.which("go"):
        return None
    path.parent.mkdir(parents=True, exist_ok=True)
    env = {**os.environ, "GOBIN": str(path.parent), "CGO_ENABLED": "0"}
    made = subprocess.run(["go", "install", "-trimpath", "-ldflags", "-s -w", f"github.com/minio/minio@{VERSION}"], env=env,
                          cwd=path.parent, capture_output=True, text=True)
    if made.returncode:
        # the module replaces some of its dependencies, which `go install` refuses: build it in a copy of its source
        info = subprocess.run(["go", "mod", "download", "-json", f"github.com/minio/minio@{VERSION}"], cwd=path.parent,
                              capture_output=True, text=True)
        if info.returncode:
            return None
        import json
        source = path.parent / "minio-source"
        shutil.rmtree(source, ignore_errors=True)
        shutil.copytree(json.loads(info.stdout)["Dir"], source)
        subprocess.run(["chmod", "-R", "u+w", str(source)], check=True)
        made = subprocess.run(["go", "build", "-buildvcs=false", "-trimpath", "-ldflags", "-s -w", "-o", str(path), "."],
                              env=env, cwd=source, capture_output=True, text=True)
        shutil.rmtree(source, ignore_errors=True)
    return str(path) if not made.returncode and path.exists() else None


class Minio:
    def __init__(self, directory, port):
        self.directory, self.port = str(directory), port
        self.url = f"http://127.0.0.1:{port}"
        self.process = None
        self.start()
        end = time.monotonic() + 120
        while True:  # it answers 503 for a while
            try:
                self.call("PUT", "/wick")
                break
            except urllib.error.HTTPError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.2)

    def start(self):
        self.process = subprocess.Popen(
            [program(), "server", "--quiet", "--address", f"127.0.0.1:{self.port}", "--console-address", "127.0.0.1:0",
             self.directory],
            env={**os.environ, "MINIO_ROOT_USER": USER, "MINIO_ROOT_PASSWORD": PASSWORD, "MINIO_BROWSER": "off",
                 "MINIO_UPDATE": "off"},
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        end = time.monotonic() + 120
        while time.monotonic() < end:
            try:
                urllib.request.urlopen(self.url + "/minio/health/live", timeout=5)
                return
            except (OSError, urllib.error.URLError):
                assert self.process.poll() is None, "minio ended"
                time.sleep(0.2)
        raise AssertionError("minio does not start")

    def place(self, prefix="p", more="", url=None):
        return f"s3://wick/{prefix}?endpoint={url or self.url}&timeout=20{more}"

    @staticmethod
    def env(user=USER, password=PASSWORD):
        return {"AWS_ACCESS_KEY_ID": user, "AWS_SECRET_ACCESS_KEY": password}

    def call(self, method, path, body=b"", query=""):
        """A request with a signature of its own: Python's, not wick's."""
        now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%dT%H%M%SZ")
        digest = hashlib.sha256(body).hexdigest()
        headers = {"host": f"127.0.0.1:{self.port}", "x-amz-content-sha256": digest, "x-amz-date": now}
        names = ";".join(sorted(headers))
        text = "\n".join([method, path, query, *(f"{k}:{headers[k]}" for k in sorted(headers)), "", names, digest])
        scope = f"{now[:8]}/us-east-1/s3/aws4_request"
        to_sign = "\n".join(["AWS4-HMAC-SHA256", now, scope, hashlib.sha256(text.encode()).hexdigest()])
        key = ("AWS4" + PASSWORD).encode()
        for part in (now[:8], "us-east-1", "s3", "aws4_request"):
            key = hmac.new(key, part.encode(), hashlib.sha256).digest()
        signature = hmac.new(key, to_sign.encode(), hashlib.sha256).hexdigest()
        headers["authorization"] = f"AWS4-HMAC-SHA256 Credential={USER}/{scope},SignedHeaders={names},Signature={signature}"
        request = urllib.request.Request(self.url + path + (f"?{query}" if query else ""), data=body or None,
                                         headers=headers, method=method)
        return urllib.request.urlopen(request, timeout=30).read()

    def objects(self):
        import re
        text = self.call("GET", "/wick", query="list-type=2&prefix=").decode()
        return re.findall(r"<Key>([^<]*)</Key>", text)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()


class Counted:
    """A proxy in front of it that counts what arrives: requests is a list of [method, bytes of the answer, begin, end]. It keeps each answer
    for `delay` seconds, so that requests that are sent at once overlap however busy the machine is."""

    def __init__(self, url, delay=0.0):
        proxy, self.requests, self.delay = self, [], delay
        host, port = url.split("//")[1].split(":")

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def serve(self):
                entry = [self.command, 0, time.monotonic(), None]
                proxy.requests.append(entry)
                body = self.rfile.read(int(self.headers.get("content-length", "0")))
                there = http.client.HTTPConnection(host, int(port), timeout=60)
                there.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
                for k, v in self.headers.items():
                    there.putheader(k, v)
                there.endheaders(body)
                answer = there.getresponse()
                data = answer.read()
                there.close()
                time.sleep(proxy.delay)
                entry[1], entry[3] = len(data), time.monotonic()
                self.send_response_only(answer.status)
                for k, v in answer.getheaders():
                    if k.lower() not in ("connection", "transfer-encoding") and (k.lower() != "content-length" or self.command == "HEAD"):
                        self.send_header(k, v)
                if self.command != "HEAD":
                    self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_PUT = do_HEAD = do_DELETE = do_POST = serve  # noqa: N815

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def rounds(self, since=0):
        """How many of the requests were waited for one after the other: the most that do not overlap."""
        n, free = 0, 0.0
        for begin, end in sorted(((r[2], r[3]) for r in self.requests[since:] if r[3]), key=lambda x: x[1]):
            if begin >= free:
                n, free = n + 1, end
        return n

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


if __name__ == "__main__":
    from wick_tools import free_port
    with Minio(sys.argv[1], free_port()) as m:
        print(m.place(), flush=True)
        m.process.wait()
