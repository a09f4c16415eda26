# SPDX-License-Identifier: Apache-2.0
"""Where a server of a test stores its data, by engine."""
import contextlib

import clickhouse_peer
import pytest


@contextlib.contextmanager
def place_of(engine, directory):
    """The options of a server that stores with the engine."""
    if engine != "clickhouse":
        yield ["--set", f"store.engine={engine}"]
        return
    if not clickhouse_peer.SERVER:
        pytest.skip("no clickhouse-server")
    (directory / "clickhouse").mkdir()
    peer = clickhouse_peer.Single(directory / "clickhouse")
    try:
        yield ["--store", peer.url("wick")]
    finally:
        peer.stop()
