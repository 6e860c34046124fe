"""How long the model takes for a batch, learned from every one that it computes: what a limit on latency is judged
by."""

from __future__ import annotations

from typing import Final, final

__all__ = ["Pace"]

WEIGHT: Final = 0.2
"""Of the newest batch: a single slow one is soon forgotten, a machine that has become slower is soon known."""
CAUTION: Final = 3.0
"""Deviations above the mean, on a machine that has other things to do as well: of times like a bell curve, 99 in 100
are shorter."""
FORGOTTEN: Final = 0.99
"""By which what is known of larger batches shrinks with each smaller one: if they were slow once, they are tried
again."""


@final
class Pace:
    """Batches are told apart by how many numbers they hold, to a power of two: long texts and many pictures both take
    longer."""

    def __init__(self) -> None:
        self.known: dict[int, tuple[float, float]] = {}
        """The power of two -> mean and mean deviation, in seconds."""

    def learn(self, numbers: int, seconds: float) -> None:
        power = numbers.bit_length()
        mean, deviation = self.known.get(power, (seconds, 0.0))
        deviation += (abs(seconds - mean) - deviation) * WEIGHT
        self.known[power] = mean + (seconds - mean) * WEIGHT, deviation
        for larger, (mean, deviation) in self.known.items():
            if larger > power:
                self.known[larger] = mean * FORGOTTEN, deviation * FORGOTTEN

    def seconds(self, numbers: int) -> float:
        """For a batch of so many, with caution; 0: nothing is known. What was never seen lies between its neighbours,
        as its size does."""
        power = numbers.bit_length()
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
