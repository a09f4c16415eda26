# SPDX-License-Identifier: Apache-2.0
"""opentelemetry.profiling, by wick: in the namespace `opentelemetry`, which has modules of many distributions. A module of this
name that is earlier on the path is used instead."""

from wick import ContinuousProfiler, OTLPProfileExporter

__all__ = ["ContinuousProfiler", "OTLPProfileExporter"]
