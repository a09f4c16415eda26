# SPDX-License-Identifier: Apache-2.0
"""Where profiles are sent. The sending is done by libwick's own thread; this only holds the settings."""

import os
from urllib.parse import quote

COMPRESSION = {None: 0, "none": 1, "gzip": 2}
PROTOCOL = {None: 0, "grpc": 1, "http": 2, "http/protobuf": 2}


def pairs(mapping):
    """{"a": "b"} or [("a", "b")] as "a=b,...", percent-encoded; text is passed on."""
    if not mapping:
        return None
    if isinstance(mapping, str):
        return mapping
    items = mapping.items() if hasattr(mapping, "items") else mapping
    return ",".join(f"{quote(str(k), safe='')}={quote(str(v), safe='')}" for k, v in items)


def choose(what, value, table):
    value = getattr(value, "value", value)  # an enum, such as grpc.Compression's relatives
    key = value.lower() if isinstance(value, str) else value
    if isinstance(key, int) and what == "compression":  # grpc.Compression: NoCompression, Deflate, Gzip
        key = {0: "none", 2: "gzip"}.get(key, key)
    if key not in table:
        raise ValueError(f"{what} is {value!r}; it can be {', '.join(repr(k) for k in table if k)}")
    return table[key]


class OTLPProfileExporter:
    """Sends profiles by OTLP: gRPC, or HTTP where the port is 4318 or protocol="http" is given.

    endpoint     "http://host:4317", "https://host:4317", "host:4317"; None: OTEL_EXPORTER_OTLP_[PROFILES_]ENDPOINT,
                 else http://localhost:4317
    insecure     no TLS for an endpoint without a scheme
    headers      a dict, a list of pairs, or "key=value,key=value"
    compression  "gzip" (the default) or "none"
    timeout      of one export, in seconds
    certificate_file  PEM file of the certificate authority to trust
    """

    def __init__(
        self,
        endpoint=None,
        insecure=None,
        headers=None,
        compression=None,
        timeout=None,
        certificate_file=None,
        protocol=None,
    ):
        if timeout is not None and not timeout > 0:
            raise ValueError("timeout must be more than 0 seconds")
        self.endpoint = endpoint
        self.insecure = bool(insecure)
        self.headers = headers
        self.compression = compression
        self.timeout = timeout
        self.certificate_file = certificate_file
        self.protocol = protocol
        self.options()  # so that a wrong value is reported here

    def options(self):
        named = any(os.environ.get(f"OTEL_EXPORTER_OTLP_{x}ENDPOINT") for x in ("", "PROFILES_"))
        return {
            "endpoint": self.endpoint or (None if named else "http://localhost:4317"),
            "insecure": int(self.insecure),
            "headers": pairs(self.headers),
            "compression": choose("compression", self.compression, COMPRESSION),
            "timeout_ms": int(self.timeout * 1000) if self.timeout else 0,
            "certificate": self.certificate_file,
            "protocol": choose("protocol", self.protocol, PROTOCOL),
        }

    def shutdown(self, timeout_millis=None):
        """For symmetry with the other exporters of OpenTelemetry: the profiler sends what is left when it stops."""
