"""At which steps a run writes rows of metrics and of layer statistics.

Pure functions of the step: a resumed run has the rows of an uninterrupted one, and all processes write them together.
Time decides only when the displays are refreshed (`training_log.py`).
"""

from dataclasses import dataclass
from itertools import count
from typing import Final, final

__all__ = ["INTERVAL", "RowSchedule", "line_interval", "metrics_schedule", "row_interval", "statistics_schedule"]

INTERVAL: Final = 50  # steps between two rows of a long run: reading the loss makes the host wait for the device
DENSE: Final = ((100, 1), (1000, 10))  # until this step, a row in so many steps: a short run has a curve too
STATISTICS: Final = 100  # steps between two rows of layer statistics
STATISTICS_REPLAYED: Final = 500  # the same where CUDA graphs are replayed: such a step costs as much as twenty


@final
@dataclass(frozen=True, slots=True)
class RowSchedule:
    """The steps, counted from 1, that are followed by a row."""

    every: int  # 0: never
    dense: tuple[tuple[int, int], ...] = ()  # (last step, interval) of the beginning
    first: bool = False  # Is the first step a row, whatever the interval?
    doubling: bool = False  # Are the steps 1, 2, 4, 8 ... rows, until the first interval ends?

    def is_due(self, step: int) -> bool:
        if not self.every or step < 1:
            return False
        if (self.first and step == 1) or (self.doubling and step < self.every and step & (step - 1) == 0):
            return True
        return step % next((every for last, every in self.dense if step <= last), self.every) == 0

    def next_due(self, step: int) -> int:
        """The first such step from `step` on. Only for schedules that are not empty."""
        return next(each for each in count(max(1, step)) if self.is_due(each))


def row_interval(log_every: int | None) -> int:
    """Steps between two rows of metrics of a long run. `log_every`: of the recipe."""
    return INTERVAL if log_every is None else log_every


def line_interval(log_every: int | None) -> int:
    """Steps between two lines of a plain log: every row that was asked for, else not the dense ones."""
    return INTERVAL if log_every is None else 1


def metrics_schedule(log_every: int | None, *, replays: bool = False) -> RowSchedule:
    """`log_every`: of the recipe; None: dense at first. Where CUDA graphs are replayed a row would cut them short."""
    if log_every is not None:
        return RowSchedule(log_every)
    return RowSchedule(INTERVAL, first=True) if replays else RowSchedule(INTERVAL, DENSE)


def statistics_schedule(statistics_every: int | None, *, replays: bool = False) -> RowSchedule:
    """`statistics_every`: of the recipe; None: after the steps 1, 2, 4, 8 ... and every 100."""
    if statistics_every is not None:
        return RowSchedule(statistics_every, first=True)
    return RowSchedule(STATISTICS_REPLAYED, first=True) if replays else RowSchedule(STATISTICS, doubling=True)
