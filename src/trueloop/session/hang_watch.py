"""Hang detection for `trueloop train` on several ranks: prints the cause, writes it into run.json and ends the run.
Imports no torch."""

from __future__ import annotations

import math
import os
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from trueloop.errors import Misuse, NotARun
from trueloop.finding import Finding

if TYPE_CHECKING:
    from trueloop.session.folder import RunFolder

__all__ = ["HANG_AFTER", "VARIABLE", "hang_after", "parse_seconds", "record_hang_in", "watch_for_hangs"]

HANG_AFTER: Final = 300.0
"""Seconds. Equal to the value in `trueloop.doctor.hang`, whose import would load torch; a test compares them."""
VARIABLE: Final = "TRUELOOP_HANG_AFTER"
"""Environment variable with the seconds for `trueloop.train()`, and for commands without --hang-after."""
STOPPED_ITSELF: Final = 5
"""Exit code; see docs/exit-codes.md."""
_UNITS: Final = {"": 1, "s": 1, "m": 60, "min": 60, "h": 3600}


def parse_seconds(text: str, said_by: str) -> float:
    """Seconds from '60', '60s' or '5min'."""
    found = re.fullmatch(r"([0-9.]+)\s*([a-z]*)", text.strip())
    try:
        seconds = float(found[1]) * _UNITS[found[2]] if found else math.nan
    except (ValueError, KeyError):
        seconds = math.nan
    if not 1 <= seconds < math.inf:
        raise Misuse(
            f"{said_by} cannot be {text!r}. Nothing was run: write a number of seconds, 1 or more, as in {said_by} 60."
        )
    return seconds


def hang_after(environment: Mapping[str, str] = os.environ) -> float:
    """Seconds from the environment, or the default."""
    return parse_seconds(environment[VARIABLE], VARIABLE) if environment.get(VARIABLE) else HANG_AFTER


@contextmanager
def watch_for_hangs(seconds: float | None = None) -> Iterator[None]:
    """Ends a run whose ranks hang and prints why. Does nothing with one process or inside another watch."""
    if int(os.environ.get("WORLD_SIZE", "1")) < 2:
        yield
        return
    from trueloop.doctor.hang_watch import watch_for_hangs

    with watch_for_hangs(hang_after() if seconds is None else seconds, _show, STOPPED_ITSELF):
        yield


def record_hang_in(folder: RunFolder, step: Callable[[], int]) -> None:
    """Write status `hung` into run.json if the hang watch ends the run."""
    if "RANK" not in os.environ:
        return
    from trueloop.doctor.hang_watch import set_hang_recorder

    def record(sentence: str) -> None:
        folder.guest = True  # if the training thread wakes up, it must not write run.json again
        try:
            folder.leave_word(
                status="hung",
                step=step(),
                message=f"{sentence} Continue with: trueloop resume {folder.path}",
                ended=time.time(),
            )
        except (OSError, NotARun) as error:  # the folder may be on an unreachable machine
            sys.stderr.write(
                f"note: {folder.path}/run.json could not be written ({error}): it still says that the run is running.\n"
            )

    set_hang_recorder(record)


def _show(finding: Finding) -> None:
    from trueloop.report import Live
    from trueloop.report.from_check import finding_card

    Live(sys.stderr, color=True).show(finding_card(finding))
    sys.stderr.write(
        "The run was stopped: its ranks would have waited forever. `trueloop resume runs/NAME` resumes it.\n"
    )
    sys.stderr.flush()
