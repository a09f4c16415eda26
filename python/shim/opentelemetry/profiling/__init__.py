# SPDX-License-Identifier: Apache-2.0
"""opentelemetry.profiling, by wick. This folder is the last one of the namespace `opentelemetry`: a module of this name that
OpenTelemetry itself installs is found first, and then this one is not used."""
from wick import ContinuousProfiler, OTLPProfileExporter

__all__ = ["ContinuousProfiler", "OTLPProfileExporter"]
