"""A process that holds one form and waits for its turns:

    python -m trueloop.bench.worker

Lines of JSON come in on stdin: first the form (`Asked`) and the number of threads, then {"batch", "seconds"} for each
turn. For each comes one line back on stdout: {"runtime", "bytes", "opened"} or {"seconds": [...]}; {"failed": "why"} if
it cannot. It ends with its stdin.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, TextIO

from trueloop.bench.form import WARM, Asked, Opened, opened, timed
from trueloop.errors import TrueloopError

__all__ = ["answers"]


def answers(lines: Iterator[str], open_form: Callable[[Asked], Opened] = opened) -> Iterator[dict[str, Any]]:
    """What is answered to each line."""
    begun = time.perf_counter()
    form: Opened | None = None
    calls: dict[int, Callable[[], object]] = {}
    for line in lines:
        told = json.loads(line)
        try:
            if form is None:
                form = open_form(Asked(**told["form"]))
                form.call(1)()
                yield {"runtime": form.runtime, "bytes": form.bytes, "opened": time.perf_counter() - begun}
                continue
            batch = told["batch"]
            if batch not in calls:
                calls[batch] = form.call(batch)
                for _ in range(WARM):
                    calls[batch]()
            yield {"seconds": timed(calls[batch], told["seconds"])}
        except Exception as error:  # noqa: BLE001 - whatever a runtime raises is the answer
            yield {
                "failed": str(error)
                if isinstance(error, TrueloopError)
                else f"{type(error).__name__}: {str(error).strip()[:600]}"
            }


def _limited(threads: int) -> None:
    """To so many cores: runtimes that count cores for themselves count these."""
    if threads and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])


def _serve(out: TextIO) -> None:
    _limited(int(os.environ.get("OMP_NUM_THREADS") or 0))
    for answer in answers(sys.stdin):
        print(json.dumps(answer), file=out, flush=True)


if __name__ == "__main__":
    # Only answers go to stdout: what a runtime or a recipe prints goes to stderr.
    answering = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    _serve(answering)
