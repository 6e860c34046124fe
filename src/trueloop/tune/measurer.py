"""The seam between searching and measuring, and its fake, which simulates a machine."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import final

from trueloop.results.tune import Agreement, Changes, Pace, words_of
from trueloop.tune.process import TrialFailed

__all__ = ["FakeMeasurer", "FakeTrial", "Measurement", "Measurer"]


@dataclass(frozen=True, slots=True)
class Measurement:
    pace: Pace
    faster: float = 1.0  # Speed relative to the variant that it was timed in turns with
    sure: bool = True  # Do nearly all turns agree? Otherwise a gain is noise


class Measurer(ABC):
    """Measures variants of one recipe. Raises TrialFailed."""

    @abstractmethod
    def pace(self, changes: Changes, against: Changes | None) -> Measurement:
        """Timed in turns with another variant, or alone."""

    @abstractmethod
    def agreement(self, changes: Changes) -> Agreement:
        """Compared with the reference."""

    @abstractmethod
    def left(self) -> float:
        """Seconds until the time is spent."""

    @abstractmethod
    def keep(self, changes: Changes) -> None:
        """The best variant so far: the others can be ended."""

    @abstractmethod
    def close(self) -> None:
        """Called at the end."""


@dataclass(frozen=True, slots=True)
class FakeTrial:
    """What the fake says of one variant."""

    step_seconds: float = 1e-3
    peak_bytes: int = 10**8
    failures: tuple[str, ...] = ()  # Differences from the reference
    fails: str = ""  # Why the trial fails
    sure: bool = True


@final
class FakeMeasurer(Measurer):
    """A machine that is a function of the changes."""

    def __init__(
        self, world: Callable[[Changes], FakeTrial], seconds: float = 300.0, trial: float = 1.0, batch: int = 64
    ) -> None:
        self.world, self.seconds, self.trial, self.batch = world, seconds, trial, batch
        self.measured: list[str] = []
        self.proved: list[str] = []

    def pace(self, changes: Changes, against: Changes | None) -> Measurement:
        self.measured.append(words_of(changes))
        self.seconds -= self.trial
        if self.seconds < 0:
            raise TrialFailed("not done", out_of_time=True)
        trial = self.world(changes)
        if trial.fails:
            raise TrialFailed(trial.fails)
        made = Pace(self._batch(changes) / trial.step_seconds, trial.step_seconds, trial.peak_bytes, 1.0, 5, 0.01)
        if against is None:
            return Measurement(made)
        rate = self._batch(against) / self.world(against).step_seconds
        return Measurement(made, made.samples_per_second / rate, trial.sure)

    def agreement(self, changes: Changes) -> Agreement:
        self.proved.append(words_of(changes))
        failures = self.world(changes).failures
        distance = 0.5 if failures else 0.001
        return Agreement(50, distance, 0.02, 0.99, 0.9, "weight", 1.0, "accuracy", (0.9,), (0.9,), 0.01, failures)

    def left(self) -> float:
        return self.seconds

    def keep(self, changes: Changes) -> None:
        """Nothing to end."""

    def close(self) -> None:
        """Nothing to end."""

    def _batch(self, changes: Changes) -> int:
        return int(changes.get("batch", self.batch))
