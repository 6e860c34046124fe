"""What a watch tells about a run while it lasts: the seam behind which a run folder is written, or nothing."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import final

from trueloop.event import Event
from trueloop.hook import Row
from trueloop.results.check import Verdict
from trueloop.track.step_program_file import KINDS, StepProgramFile
from trueloop.track.thin_metrics import ThinMetrics

__all__ = ["ChildRecord", "RunRecord"]


class RunRecord(ABC):
    """Must not raise: the run continues without it."""

    folder: Path
    shown: str = ""  # The folder as the user knows it

    @abstractmethod
    def add_rows(self, rows: list[Row]) -> None:
        """Rows of metrics, about once a second."""

    @abstractmethod
    def hear(self, event: Event) -> None:
        """Every event."""

    @abstractmethod
    def found_something(self, verdict: Callable[[], Verdict]) -> None:
        """There is a new finding; `verdict` gives what is known so far."""

    @abstractmethod
    def conclude(self, verdict: Verdict, exit_code: int) -> None:
        """The run has ended. May be called more than once: only the first counts."""


@final
class ChildRecord(RunRecord):
    """In a process that the script has started: rows and program go into the folder of the run. Of several ranks the
    first writes; of other processes the first that has a row."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._metrics = ThinMetrics(folder)
        self._program = StepProgramFile(folder)
        self.rank = 0

    def add_rows(self, rows: list[Row]) -> None:
        if self.rank == 0:
            self._metrics.add(rows)

    def hear(self, event: Event) -> None:
        if type(event) in KINDS:
            self._program.hear(event)

    def found_something(self, verdict: Callable[[], Verdict]) -> None:
        """The process that merges the verdicts writes them."""

    def conclude(self, verdict: Verdict, exit_code: int) -> None:
        self._metrics.close()
        if self.rank == 0 and not self._metrics.elsewhere and not self._metrics.failure:
            try:
                self._program.write()
            except OSError:
                return  # the process that owns the folder reports a disk that is full
