"""Predicts how long a batch takes, learned from every batch that was computed: `--latency` relies on it."""

from typing import Final, final

__all__ = ["BatchTimes"]

WEIGHT: Final = 0.2  # Of the newest batch: follows a machine that becomes slower, forgets a single slow batch
CAUTION: Final = 3.0  # Deviations above the mean: 99 of 100 batches are faster
DECAY: Final = 0.99
"""Applied to the estimates of larger batches with each smaller one, so that a slow size is tried again."""


@final
class BatchTimes:
    """Batches are grouped by the number of values they hold, to a power of two: long texts and many images are
    slower."""

    def __init__(self) -> None:
        self.known: dict[int, tuple[float, float]] = {}
        """Power of two -> mean and mean deviation, in seconds."""

    def learn(self, values: int, seconds: float) -> None:
        power = values.bit_length()
        mean, deviation = self.known.get(power, (seconds, 0.0))
        deviation += (abs(seconds - mean) - deviation) * WEIGHT
        self.known[power] = mean + (seconds - mean) * WEIGHT, deviation
        for larger, (mean, deviation) in self.known.items():
            if larger > power:
                self.known[larger] = mean * DECAY, deviation * DECAY

    def seconds(self, values: int) -> float:
        """A cautious estimate, interpolated between known sizes; 0: nothing is known."""
        power = values.bit_length()
        below = max((other for other in self.known if other <= power), default=None)
        above = min((other for other in self.known if other >= power), default=None)
        if below is None or above is None:
            known = below if above is None else above
            return 0.0 if known is None else self._cautious(known) * max(1.0, 2.0 ** (power - known))
        if below == above:
            return self._cautious(power)
        share = (2.0**power - 2.0**below) / (2.0**above - 2.0**below)
        return self._cautious(below) * (1 - share) + self._cautious(above) * share

    def _cautious(self, power: int) -> float:
        mean, deviation = self.known[power]
        return mean + CAUTION * deviation
