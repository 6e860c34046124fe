"""latency-percentiles: How long do 1, 8 and 32 callers at once wait, in the middle and at the end of the queue?

A mean hides the worst tenth, and callers notice that one. p50 is the middle, p95 what one caller in 20 waits longer
than, p99 one in 100. Requests that arrive within a few milliseconds are computed as one batch. How long they wait
depends on the machine, and here callers and server share its processors.
"""

import asyncio
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from trueloop.export.catalogue import runner_of
from trueloop.labs.lab import Lab, NotHere, Page
from trueloop.labs.trained_here import export_here, trained_on_images
from trueloop.results.artifact import Artifact
from trueloop.results.document import Code

__all__ = ["LAB"]

CLIENTS, REQUESTS = (1, 8, 32), 600


@contextmanager
def served(artifact: Artifact) -> Iterator[str]:
    """`trueloop serve` in a process of its own; the address."""
    words = [sys.executable, "-m", "trueloop", "serve", str(artifact.folder), "--port", "0"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    server = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environment)
    try:
        assert server.stdout is not None
        found = next(filter(None, (re.search(r"http://[\d.]+:\d+", line) for line in server.stdout)), None)
        if found is None:
            raise RuntimeError("the server ended before it listened")
        yield found[0]
    finally:
        server.terminate()
        server.communicate()


async def loads(url: str, artifact: Artifact) -> dict[int, Any]:
    """Number of callers -> what they waited, and whether every answer was right."""
    from trueloop.serve.client import Address
    from trueloop.serve.load_test import questions_of, run_load, wait_ready

    address, questions = Address.of(url), questions_of(artifact, runner_of(artifact))
    await wait_ready(address, lambda: True)
    return {count: await run_load(address, questions, clients=count, requests=REQUESTS) for count in CLIENTS}


def measure() -> dict[str, Any]:
    if find_spec("uvicorn") is None:
        raise NotHere("This lab needs the package uvicorn, which is not installed: pip install 'trueloop[serve]'.")
    with tempfile.TemporaryDirectory() as folder:
        artifact = export_here(trained_on_images(), "onnx", Path(folder))
        with served(artifact) as url:
            outcomes = asyncio.run(loads(url, artifact))
    return {str(clients): outcome.plain() for clients, outcome in outcomes.items()}


def answer(page: Page, measured: dict[str, Any]) -> None:
    loads = [measured[str(clients)] for clients in CLIENTS]
    rows = [
        (str(clients), *(load[name] * 1e3 for name in ("p50", "p95", "p99")), load["throughput"])
        for clients, load in zip(CLIENTS, loads, strict=True)
    ]
    page.table(f"{REQUESTS} requests each", ("callers", "p50 ms", "p95 ms", "p99 ms", "answers a second"), rows)
    page.says("Every request was answered, and every answer is right.", not any(load["failures"] for load in loads))
    ordered = all(load["p50"] <= load["p95"] <= load["p99"] for load in loads)
    page.says("p99 is never below p95, nor p95 below p50.", ordered)
    page.says("A caller alone waits 5 ms at least: so long the server waits for others.", loads[0]["p50"] > 0.005)
    page.says("32 callers do not wait 32 times as long.", loads[2]["p50"] < 32 * loads[0]["p50"])
    gain = loads[2]["throughput"] / loads[0]["throughput"]
    page.says(f"Together they get {gain:.1f} times as many answers a second: they share batches.", gain > 1)
    page.show(Code("trueloop serve runs/NAME/export/onnx --batch 32 --wait 5ms --latency 50ms", title="With a limit"))


LAB = Lab(code=(served, loads), measure=measure, answer=answer, needs="package onnxruntime", seconds=60)
