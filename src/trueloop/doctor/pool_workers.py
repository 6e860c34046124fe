"""Workers of process pools (`multiprocessing.Pool`, `ProcessPoolExecutor`, joblib): which processes they are, and when
a task of theirs has ended.

A pool may kill its workers at any time after it has the results. So a report is written before the result of the task
that trained is handed over, not at the end of the process.
"""

from collections.abc import Callable
from typing import Any, Final, final

__all__ = ["is_pool_worker", "report_before_results"]

LOOPS: Final = (
    ("multiprocessing.pool", "worker"),
    ("torch.multiprocessing.pool", "clean_worker"),
    ("concurrent.futures.process", "_process_worker"),
    ("joblib.externals.loky.process_executor", "_process_worker"),
    ("loky.process_executor", "_process_worker"),
)
"""The functions that fetch tasks and put results, each with the queue of the results as its second argument."""
RESULTS: Final = 1


def is_pool_worker(process: Any) -> bool:
    target = getattr(process, "_target", None)
    known = (getattr(target, "__module__", ""), getattr(target, "__qualname__", "")) in LOOPS
    return known and len(getattr(process, "_args", ())) > RESULTS


def report_before_results(process: Any, report: Callable[[], None]) -> None:
    """Call `report` before each result of this worker. In the process of the worker."""
    given = list(process._args)
    given[RESULTS] = _Results(given[RESULTS], report)
    process._args = tuple(given)


@final
class _Results:
    """The queue of the results; everything but `put` is the queue's own."""

    def __init__(self, queue: Any, report: Callable[[], None]) -> None:
        self._queue, self._report = queue, report

    def put(self, *args: Any, **kwargs: Any) -> None:
        self._report()
        self._queue.put(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._queue, name)
