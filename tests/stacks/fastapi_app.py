# SPDX-License-Identifier: Apache-2.0
"""FastAPI under uvicorn, one process: an endpoint in the pool of threads, and /debug/pprof/ to be scraped."""
import os

import wick
import work
from fastapi import FastAPI

app = FastAPI()
profiler = work.start()
wick.serve_pprof(int(os.environ["STACK_PPROF"]))


@app.get("/order")
def order():
    return work.order()
