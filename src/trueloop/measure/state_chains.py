"""Stored transitions from state to next state: are both one array that the environment changed later?

Then all rows of an episode hold its last state twice, except where the first state was a copy. An environment that
seldom changes its state has such rows, too, but a state that it leaves has been entered before.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

__all__ = ["StateChains"]

MOST: Final = 0.8  # share of the rows whose next state is the state itself
DIFFERENT: Final = 0.75  # share of these rows with a reward that no other row of the same state has
LEFT: Final = 6  # states that were left, never entered, for one that was seen again
KEPT: Final = 20_000  # marks of states


@dataclass(slots=True)
class StateChains:
    """What was seen of the states of recorded steps, each as a number (`measure.series.row_marks`)."""

    _entered: set[float] = field(default_factory=set)  # next states of rows
    _stayed: set[float] = field(default_factory=set)  # states of rows whose next state is the state itself
    _moves: dict[float, float] = field(default_factory=dict)

    def end_where_they_began(
        self, states: Sequence[float], following: Sequence[float], rewards: Sequence[float]
    ) -> bool:
        """Add the rows of a step: do nearly all rows stay, and do the others leave states that no row enters?"""
        if not len(states) == len(following) == len(rewards) or len(self._entered) > KEPT:
            return False
        stays = [(state, reward) for state, after, reward in zip(states, following, rewards, strict=True)
                 if state == after]  # fmt: skip
        self._entered.update(following)
        self._stayed.update(state for state, _ in stays)
        self._moves.update((state, after) for state, after in zip(states, following, strict=True) if state != after)
        if len(stays) < MOST * len(states):
            return False
        often = Counter(state for state, _ in stays)
        repeated = {(state, reward) for state, reward in stays if often[state] > 1}
        count = sum(number for number in often.values() if number > 1)
        if count < (1 - MOST) * len(stays) or len(repeated) < DIFFERENT * count:
            return False  # a state that is left alone gives one reward
        seen = [state for state, after in self._moves.items() if after in self._stayed]
        return len(seen) >= LEFT and self._entered.isdisjoint(self._moves)
