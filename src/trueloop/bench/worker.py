"""A process that holds one form and is timed in turns:

    python -m trueloop.bench.worker

It reads lines of JSON from stdin: first {"form": FormSpec}, then {"batch", "seconds"} for each turn. It answers each
with one line on stdout: {"runtime", "bytes", "opened"} or {"seconds": [...]}, or {"failed": "why"}. It ends with its
stdin.
"""

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, TextIO

from trueloop.bench.form import WARM, FormSpec, OpenForm, open_form, time_calls
from trueloop.errors import TrueloopError

__all__ = ["answers"]


def answers(lines: Iterator[str], open_form: Callable[[FormSpec], OpenForm] = open_form) -> Iterator[dict[str, Any]]:
    """One answer per line."""
    begun = time.perf_counter()
    form: OpenForm | None = None
    calls: dict[int, Callable[[], object]] = {}
    for line in lines:
        order = json.loads(line)
        try:
            if form is None:
                form = open_form(FormSpec(**order["form"]))
                form.call(1)()
                yield {"runtime": form.runtime, "bytes": form.bytes, "opened": time.perf_counter() - begun}
                continue
            batch = order["batch"]
            if batch not in calls:
                calls[batch] = form.call(batch)
                for _ in range(WARM):
                    calls[batch]()
            yield {"seconds": time_calls(calls[batch], order["seconds"])}
        except Exception as error:  # noqa: BLE001 - any error of a runtime is the answer
            own = isinstance(error, TrueloopError)
            yield {"failed": str(error) if own else f"{type(error).__name__}: {str(error).strip()[:600]}"}


def _limit_cores(threads: int) -> None:
    """For runtimes that count the cores themselves."""
    if threads and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])


def _serve(out: TextIO) -> None:
    _limit_cores(int(os.environ.get("OMP_NUM_THREADS") or 0))
    for answer in answers(sys.stdin):
        print(json.dumps(answer), file=out, flush=True)


if __name__ == "__main__":
    # stdout is for answers only: what a runtime or a recipe prints goes to stderr.
    answering = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    _serve(answering)
