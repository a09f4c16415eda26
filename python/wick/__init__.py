# SPDX-License-Identifier: Apache-2.0
"""Continuous profiling of Python programs.

    import wick
    wick.start(service_name="checkout", endpoint="http://localhost:4317")

or, with the names that OpenTelemetry's documents use:

    from opentelemetry.profiling import ContinuousProfiler, OTLPProfileExporter

See docs/python.md.
"""

from .exporter import OTLPProfileExporter
from .profiler import ContinuousProfiler, flush, label, serve_pprof, start, stats, stop
from ._wick import version as __version__  # noqa: F401

__all__ = ["ContinuousProfiler", "OTLPProfileExporter", "flush", "label", "serve_pprof", "start", "stats", "stop"]
