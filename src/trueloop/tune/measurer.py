"""The seam between searching and measuring, and its fake: a search can be tried on imagined machines, in no time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import final

from trueloop.results.tune import Agreement, Changes, Pace, words_of
from trueloop.tune.process import TrialFailed

__all__ = ["Imagined", "Imagining", "Measured", "Measurer"]


@dataclass(frozen=True, slots=True)
class Measured:
    """A trial's pace; and how many times as fast as the one that it was timed in turns with."""

    pace: Pace
    faster: float = 1.0
    sure: bool = True
    """Did nearly all turns say the same? A gain that half of the turns deny is none."""


class Measurer(ABC):
    """Measures variants of one recipe. Raises TrialFailed where a trial came to nothing."""

    @abstractmethod
    def pace(self, changes: Changes, against: Changes | None) -> Measured:
        """Timed in turns with another variant; alone, if there is none."""

    @abstractmethod
    def agreement(self, changes: Changes) -> Agreement:
        """Held against the reference."""

    @abstractmethod
    def left(self) -> float:
        """Seconds until the budget is spent."""

    @abstractmethod
    def keep(self, changes: Changes) -> None:
        """This one is the best so far: the others need not be remembered."""

    @abstractmethod
    def close(self) -> None:
        """Nothing more is measured."""


@dataclass(frozen=True, slots=True)
class Imagining:
    """What a fake says of one variant."""

    step_seconds: float = 1e-3
    peak_bytes: int = 10**8
    failures: tuple[str, ...] = ()
    """Of its proof."""
    fails: str = ""
    """Of its trial."""
    sure: bool = True


@final
class Imagined(Measurer):
    """A machine that exists only as a function of the changes."""

    def __init__(
        self, world: Callable[[Changes], Imagining], seconds: float = 300.0, trial: float = 1.0, batch: int = 64
    ) -> None:
        self.world, self.seconds, self.trial, self.batch = world, seconds, trial, batch
        self.asked: list[str] = []
        """The variants that were measured, in words."""
        self.proved: list[str] = []

    def pace(self, changes: Changes, against: Changes | None) -> Measured:
        self.asked.append(words_of(changes))
        self.seconds -= self.trial
        if self.seconds < 0:
            raise TrialFailed("not done", out_of_time=True)
        here = self.world(changes)
        if here.fails:
            raise TrialFailed(here.fails)
        batch = self._batch(changes)
        made = Pace(batch / here.step_seconds, here.step_seconds, here.peak_bytes, 1.0, 5, 0.01)
        if against is None:
            return Measured(made)
        rate = self._batch(against) / self.world(against).step_seconds
        return Measured(made, made.samples_per_second / rate, here.sure)

    def agreement(self, changes: Changes) -> Agreement:
        self.proved.append(words_of(changes))
        failures = self.world(changes).failures
        return Agreement(
            50, 0.5 if failures else 0.001, 0.02, 0.99, 0.9, "weight", 1.0, "accuracy", (0.9,), (0.9,), 0.01, failures
        )

    def left(self) -> float:
        return self.seconds

    def keep(self, changes: Changes) -> None:
        """Nothing is remembered here."""

    def close(self) -> None:
        """Nothing is open here."""

    def _batch(self, changes: Changes) -> int:
        return int(changes.get("batch", self.batch))
