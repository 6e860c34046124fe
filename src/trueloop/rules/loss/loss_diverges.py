"""LOS109 loss-diverges: the loss rises far above its initial value and stays there or becomes NaN or Inf.

What it sees
------------
The losses that `backward()` is called on, by line; where one step calls it on several lines (a reconstruction, then a
penalty), their sum. At the end of the run the median of the last losses is far above the
median of the first ones and none of them has come back down; or the loss became NaN or Inf after it had climbed that
far.

Why it hurts
------------
The weights are worse than at initialization: updates overshoot, mostly because the learning rate is too high for this
model, and every further step makes it worse.

Evidence
--------
The first and the last losses, their ratio, the step, the learning rate, and whether the loss is a sum over the batch.

Use instead
-----------
A learning rate ten times lower, warm-up, or gradient clipping:

    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)

When it is fine
---------------
Not reported: a spike that comes down again; losses that can be negative; adversarial training with two optimizers;
losses over sequences that get longer (a curriculum); bootstrapped values (reinforcement learning), where a forward
without gradients computes targets that grow as the model improves.
"""

import math
from collections import deque
from math import prod
from statistics import median
from typing import Final

from trueloop.event import Backward, Forward, LossComputed, NotFinite, Place, RunEnded, Stepped
from trueloop.rules.rule import Finding, Findings, Rule, Severity
from trueloop.rules.summed_loss import SummedLoss

__all__ = ["LossDiverges"]

FIRST: Final = 5  # Initial losses: one odd batch does not move their median
LAST: Final = 8  # Final losses: enough to distinguish a level from a spike
FAR: Final = 10.0  # Required ratio to the initial loss: warm-up, dropout and varying batches change it 2 or 3 times
NEAR: Final = 3.0  # None of the final losses may be below this ratio to the initial loss
TINY: Final = 1e-3
"""A loss that starts below this starts at its minimum (a copy of a teacher): then it must also end above 1."""


class _Course:
    """The losses of one line."""

    def __init__(self) -> None:
        self.first: list[float] = []
        self.last: deque[float] = deque(maxlen=LAST)
        self.count = 0
        self.lowest_after_first = math.inf
        self.event: Backward | None = None
        self.more = 1.0  # The factor by which the loss may grow because there is more to predict

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
        """The final losses are far above the initial ones and did not come back."""
        if len(self.last) < LAST:
            return False
        start = median(self.first)
        slowly = self.is_far(median(self.last), start) and min(self.last) > NEAR * self.more * start
        at_once = self.is_far(self.lowest_after_first, self.first[0])  # since the first update
        return slowly or at_once

    def has_climbed(self) -> bool:
        """The latest finite losses rose far above the first one."""
        losses = [*self.first, *self.last]
        return len(losses) >= 3 and self.is_far(losses[-1], losses[0]) and losses[-1] > losses[-2]


class LossDiverges(Rule, code="LOS109", severity=Severity.ERROR):
    not_applicable = "no backward was seen"
    explained_by = (
        "gradients-never-cleared",
        "shapes-broadcast-in-loss",
        "logits-passed-as-probabilities",
        "wrong-target-format",
    )

    def __init__(self) -> None:
        self._courses: dict[Place | None, _Course] = {}
        self._sums: dict[frozenset[Place | None], _Course] = {}  # Of lines that call backward in one step
        self._present: dict[Place | None, Backward] = {}  # The latest backward of each line since the last step
        self._over: set[Place | None] = set()  # Lines whose loss was negative, NaN or Inf: no longer tracked
        self._rates: dict[int, tuple[float, ...]] = {}  # Learning rates by optimizer at the last step
        self._terms: dict[Place | None, tuple[int, int]] = {}  # Prediction elements by loss line: first and latest
        self._steps = 0
        self._bootstrapped = 0
        self._forward_without_graph = False
        self._summed = SummedLoss()
        self._not_finite: NotFinite | None = None

    def on_loss_computed(self, event: LossComputed) -> None:
        self._summed.hear_loss(event)
        if event.grad:
            terms = prod(event.input_shape)
            self._terms[event.place] = (self._terms.get(event.place, (terms, terms))[0], terms)

    def on_forward(self, event: Forward) -> None:
        self._forward_without_graph |= event.fate == "graphless"

    def on_stepped(self, event: Stepped) -> None:
        self._steps += 1
        self._summed.hear_step(event)
        self._bootstrapped += self._forward_without_graph
        self._forward_without_graph = False
        self._rates[event.optimizer] = event.learning_rates
        if len(self._present) > 1:
            course = self._sums.setdefault(frozenset(self._present), _Course())
            losses = {place: backward.loss for place, backward in self._present.items()}
            *_, latest = self._present.values()
            course.add(sum(loss for loss in losses.values() if loss is not None), latest)
        self._present = {}

    def on_backward(self, event: Backward) -> Findings:
        self._summed.hear_backward(event)
        if event.loss is None or event.place in self._over:
            return
        course = self._courses.setdefault(event.place, _Course())
        if math.isfinite(event.loss) and event.loss >= 0:
            course.add(event.loss, event)
            self._present[event.place] = event
            return
        self._over.add(event.place)
        course.more = self._more()
        if event.loss < 0 and math.isfinite(event.loss):
            return
        if course.has_climbed() and not self._excused():
            yield self._report(event, course, f"is {event.loss} at step {event.step + 1}")

    def on_not_finite(self, event: NotFinite) -> None:
        self._not_finite = event if event.what == "loss" else None

    def on_run_ended(self, event: RunEnded) -> Findings:
        bad = self._not_finite
        for place, course in self._courses.items():
            course.more = self._more()
            if bad is not None and len(self._courses) == 1 and place not in self._over and course.event is not None:
                self._over.add(place)  # the script ended itself before a backward of this loss
                if course.has_climbed() and not self._excused():
                    yield self._report(course.event, course, f"is {bad.value} at step {bad.step + 1}")
        parts = frozenset[Place | None]().union(*self._sums)
        alone = [(frozenset({place}), course) for place, course in self._courses.items() if place not in parts]
        for places, course in (*alone, *self._sums.items()):
            course.more = self._more()
            if places.isdisjoint(self._over) and course.event and course.has_left() and not self._excused():
                end = f"is still {median(course.last):.4g} at step {course.event.step + 1}"
                yield self._report(course.event, course, end)

    def why_not_checked(self) -> str:
        longest = max((course.count for course in self._courses.values()), default=0)
        return "" if longest >= FIRST + LAST or self._over else f"fewer than {FIRST + LAST} losses were seen"

    def _more(self) -> float:
        """Longer sequences (a curriculum) have more terms, and errors that add up along them: their growth squared."""
        return max([1.0, *((late / max(early, 1)) ** 2 for early, late in self._terms.values())])

    def _excused(self) -> bool:
        """Two players, or targets that the model computes itself in most steps."""
        return len(self._rates) > 1 or self._bootstrapped * 2 > max(self._steps, 1)

    def _report(self, event: Backward, course: _Course, end: str) -> Finding:
        rates = [rate for rates in self._rates.values() for rate in rates]
        first = self._summed.fix(max(rates, default=None))
        otherwise = "Otherwise divide" if first else "Divide"
        rate = f" (learning rate {max(rates):g})" if rates else ""
        highest = max([*course.first, *course.last])
        return self.finding(
            event,
            f"The loss rose from {course.first[0]:.4g} to {highest:.4g} and {end}{rate}.{self._summed.message()}",
            fix=f"{first}{otherwise} the learning rate by 10, add warm-up, or clip gradients with `clip_grad_norm_`.",
            evidence={
                "first_losses": [float(f"{loss:.6g}") for loss in course.first],
                "last_losses": [float(f"{loss:.6g}") for loss in course.last],
                "ratio": float(f"{highest / max(course.first[0], 1e-12):.4g}"),
                "step": event.step,
                "learning_rates": rates,
                "loss_is_a_sum": self._summed.is_cause,
            },
        )
