# SPDX-License-Identifier: Apache-2.0
"""An object store in memory that answers as S3 does: PUT, GET with ranges, HEAD, DELETE and ListObjectsV2. It checks no signatures."""
import http.server
import re
import threading
import urllib.parse
from xml.sax.saxutils import escape


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, body=b"", **headers):
        self.send_response(status)
        for k, v in headers.items():
            self.send_header(k.replace("_", "-"), v)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def serve(self):
        body = self.rfile.read(int(self.headers.get("content-length", "0")))
        url, objects = urllib.parse.urlsplit(self.path), self.server.objects
        words = urllib.parse.parse_qs(url.query)
        name = urllib.parse.unquote(url.path)
        if "list-type" in words:
            prefix = words.get("prefix", [""])[0]
            bucket = name.strip("/")
            found = [(k, v) for k, v in list(objects.items()) if k.startswith(f"/{bucket}/{prefix}")]
            rows = "".join(f"<Contents><Key>{escape(k[len(bucket) + 2:])}</Key><Size>{len(v)}</Size></Contents>" for k, v in found)
            self.answer(200, f"<ListBucketResult><IsTruncated>false</IsTruncated>{rows}</ListBucketResult>".encode(), content_type="application/xml")
        elif self.command == "PUT":
            objects[name] = body
            self.answer(200, etag='"x"')
        elif self.command == "DELETE":
            objects.pop(name, None)
            self.answer(204)
        elif name not in objects:
            self.answer(404, b"<Error><Code>NoSuchKey</Code></Error>")
        else:
            data, m = objects[name], re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("range", ""))
            if not m:
                self.answer(200, data, etag='"x"')
                return
            first, last = int(m[1]), min(int(m[2]) if m[2] else len(data) - 1, len(data) - 1)
            self.answer(206, data[first:last + 1], content_range=f"bytes {first}-{last}/{len(data)}", etag='"x"')

    do_GET = do_PUT = do_HEAD = do_DELETE = serve  # noqa: N815


class S3Lite(http.server.ThreadingHTTPServer):
    daemon_threads = True
    ENV = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret"}

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.objects = {}
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, request, client_address):
        pass  # a client that was killed

    def place(self):
        return f"s3://wick/p?endpoint=http://127.0.0.1:{self.server_address[1]}"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.shutdown()
        self.server_close()
