"""LOS109 loss-diverges: the loss has risen far above where it began, and stays there or becomes infinite.

What it sees
------------
The losses that backward is called on, line by line. At the end of the run the median of the last ones is far above the
median of the first ones and none of them has come back; or the loss ceased to be a number after it had climbed that
far.

Why it hurts
------------
The weights are worse than the random ones the run began with: updates overshoot, mostly because the learning rate is
too high for this model, and every further step makes it worse.

Evidence
--------
The first and the last losses, their ratio, the step, and the learning rate.

Use instead
-----------
A learning rate ten times lower, warm-up, or clipped gradients:

    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)

When it is fine
---------------
A spike that comes down again; losses that may be negative; adversarial training, where two optimizers pull in opposite
directions; losses over sequences that grow (a curriculum); values learnt by bootstrapping (reinforcement learning),
where targets are computed by a forward without gradients in each step and grow as the model improves.
"""

from __future__ import annotations

import math
from collections import deque
from math import prod
from statistics import median
from typing import Final, final

from trueloop.event import Backward, Forward, LossComputed, Place, RunEnded, Stepped
from trueloop.finding import Finding, Severity
from trueloop.rules.rule import Findings, Rule

__all__ = ["LossDiverges"]

FIRST: Final = 5
"""Losses that are the beginning: their median is not moved by one odd batch."""
LAST: Final = 8
"""Losses that are the end: enough to tell a level from a spike."""
FAR: Final = 10.0
"""How many times its beginning the loss must be: warm-up, dropout and unlike batches move it by a factor of two or
three."""
NEAR: Final = 3.0
"""None of the last losses may have come back to so many times the beginning."""
TINY: Final = 1e-3
"""A loss that begins below this began at its best (a copy of a teacher, a fitted model): then it must also end above
one."""


class _Course:
    """The losses of one line."""

    def __init__(self) -> None:
        self.first: list[float] = []
        self.last: deque[float] = deque(maxlen=LAST)
        self.count = 0
        self.lowest_after_first = math.inf
        self.event: Backward | None = None
        self.more = 1.0
        """By what factor the loss may have grown because there is more to predict."""

    def add(self, loss: float, event: Backward) -> None:
        self.count += 1
        if self.first:
            self.lowest_after_first = min(self.lowest_after_first, loss)
        if len(self.first) < FIRST:
            self.first.append(loss)
        else:
            self.last.append(loss)
        self.event = event

    def is_far(self, loss: float, start: float) -> bool:
        return loss >= FAR * self.more * start and (start >= TINY or loss >= 1)

    def has_left(self) -> bool:
        """The end lies far above the beginning, and did not come back."""
        if len(self.last) < LAST:
            return False
        start = median(self.first)
        slowly = self.is_far(median(self.last), start) and min(self.last) > NEAR * self.more * start
        at_once = self.is_far(self.lowest_after_first, self.first[0])  # the first update threw the weights far off
        return slowly or at_once

    def has_climbed(self) -> bool:
        """The latest numbers rose far above the first one: what comes after them is no accident."""
        losses = [*self.first, *self.last]
        return len(losses) >= 3 and self.is_far(losses[-1], losses[0]) and losses[-1] > losses[-2]


@final
class LossDiverges(Rule):
    code = "LOS109"
    name = "loss-diverges"
    severity = Severity.ERROR
    not_applicable = "no backward was seen"
    explained_by = (
        "gradients-never-cleared",
        "shapes-broadcast-in-loss",
        "logits-passed-as-probabilities",
        "wrong-target-format",
    )

    def __init__(self) -> None:
        self._courses: dict[Place | None, _Course] = {}
        self._over: set[Place | None] = set()
        """Lines whose loss has been negative, or no number: not followed any more."""
        self._rates: dict[int, tuple[float, ...]] = {}
        """Learning rates by optimizer, as of the last step."""
        self._terms: dict[Place | None, tuple[int, int]] = {}
        """Elements of the predictions at each loss function's line, at first and of late."""
        self._steps = 0
        self._bootstrapped = 0
        self._forward_without_graph = False

    def on_loss_computed(self, event: LossComputed) -> None:
        if event.grad:
            terms = prod(event.input_shape)
            self._terms[event.place] = (self._terms.get(event.place, (terms, terms))[0], terms)

    def on_forward(self, event: Forward) -> None:
        self._forward_without_graph |= event.fate == "graphless"

    def on_stepped(self, event: Stepped) -> None:
        self._steps += 1
        self._bootstrapped += self._forward_without_graph
        self._forward_without_graph = False
        self._rates[event.optimizer] = event.learning_rates

    def on_backward(self, event: Backward) -> Findings:
        if event.loss is None or event.place in self._over:
            return
        course = self._courses.setdefault(event.place, _Course())
        if math.isfinite(event.loss) and event.loss >= 0:
            course.add(event.loss, event)
            return
        self._over.add(event.place)
        course.more = self._more()
        if event.loss < 0 and math.isfinite(event.loss):
            return
        if course.has_climbed() and not self._excused():
            yield self._say(event, course, f"is {event.loss} at step {event.step + 1}")

    def on_run_ended(self, event: RunEnded) -> Findings:
        for place, course in self._courses.items():
            course.more = self._more()
            if place not in self._over and course.event is not None and course.has_left() and not self._excused():
                yield self._say(
                    course.event, course, f"stays at {median(course.last):.4g} up to step {course.event.step + 1}"
                )

    def why_not_checked(self) -> str:
        longest = max((course.count for course in self._courses.values()), default=0)
        return "" if longest >= FIRST + LAST or self._over else f"fewer than {FIRST + LAST} losses were seen"

    def _more(self) -> float:
        """Sequences that grow (a curriculum) have more terms to sum, and errors that add up along them: the square of
        their growth."""
        return max([1.0, *((late / max(early, 1)) ** 2 for early, late in self._terms.values())])

    def _excused(self) -> bool:
        """Two players, or targets that the model makes itself in most steps."""
        return len(self._rates) > 1 or self._bootstrapped * 2 > max(self._steps, 1)

    def _say(self, event: Backward, course: _Course, end: str) -> Finding:
        rates = [rate for rates in self._rates.values() for rate in rates]
        rate = f" with a learning rate of {max(rates):g}" if rates else ""
        highest = max([*course.first, *course.last])
        return self.finding(
            event,
            f"The loss began at {course.first[0]:.4g}, climbed to {highest:.4g} and {end}{rate}.",
            fix="Lower the learning rate (ten times, to begin with), warm it up, or clip the gradients.",
            evidence={
                "first_losses": [float(f"{loss:.6g}") for loss in course.first],
                "last_losses": [float(f"{loss:.6g}") for loss in course.last],
                "ratio": float(f"{highest / max(course.first[0], 1e-12):.4g}"),
                "step": event.step,
                "learning_rates": rates,
            },
        )
