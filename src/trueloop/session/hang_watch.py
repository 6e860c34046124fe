"""Hang detection for `trueloop train` on several ranks: prints the cause, records it, and ends the run. No torch."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from trueloop.errors import NotARun
from trueloop.finding import Finding
from trueloop.results.check import ExitCode
from trueloop.session.hang_timeout import hang_after

if TYPE_CHECKING:
    from trueloop.session.folder import RunFolder

__all__ = ["end_run_on_hang", "record_hang_in"]


@contextmanager
def end_run_on_hang(seconds: float | None = None) -> Iterator[None]:
    """Ends a run whose ranks hang and prints why. Does nothing with one process or inside another watch."""
    if int(os.environ.get("WORLD_SIZE", "1")) < 2:
        yield
        return
    from trueloop.doctor.hang_watch import watch_for_hangs

    with watch_for_hangs(hang_after() if seconds is None else seconds, _show, ExitCode.STOPPED):
        yield


def record_hang_in(folder: RunFolder, step: Callable[[], int]) -> None:
    """Write status `hung` into run.json if the hang watch ends the run."""
    if "RANK" not in os.environ:
        return
    from trueloop.doctor.hang_watch import set_hang_recorder

    def record(sentence: str) -> None:
        folder.guest = True  # if the training thread wakes up, it must not write run.json again
        try:
            message = f"{sentence} Continue with: trueloop resume {folder.path}"
            folder.leave_word(status="hung", step=step(), message=message, ended=time.time())
        except (OSError, NotARun) as error:  # the folder may be on an unreachable machine
            sys.stderr.write(f"note: {folder.path}/run.json could not be written ({error}): it still says 'running'.\n")

    set_hang_recorder(record)


def _show(finding: Finding) -> None:
    from trueloop.report import Live
    from trueloop.report.from_check import finding_card

    Live(sys.stderr, color=True).show(finding_card(finding))
    sys.stderr.write("The run was stopped: its ranks would have waited forever. Go on: `trueloop resume runs/NAME`.\n")
    sys.stderr.flush()
