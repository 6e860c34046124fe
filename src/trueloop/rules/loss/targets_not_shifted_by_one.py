"""LOS128 targets-not-shifted-by-one: a causal model is trained to predict its own input, or the one after the next.

What it sees
------------
The inputs are token ids, and the targets of the cross entropy are the same ids at the same position, or those two
positions later; those two positions later may also be the index of a `gather` of log-probabilities. A copy of the model
ran again with all inputs after the middle of the sequence replaced, and its outputs before the middle did not change:
each output sees only the past and its own position.

Why it hurts
------------
With the inputs as targets the model learns to copy: the loss falls to nearly zero, and the model cannot predict the
next token. Targets that are shifted twice, by the data and again by the model or the loss, train it to skip a token.

Evidence
--------
The shift, the sequence length, and how much the earlier outputs changed.

Use instead
-----------
    inputs, targets = ids[:, :-1], ids[:, 1:]
    x, y = data[i : i + context], data[i + 1 : i + 1 + context]

When it is fine
---------------
Not reported: models whose outputs see the full sequence of that input (autoencoders, masked language models, taggers),
and inputs that are noise, masked or different from the targets in any position.
"""

from typing import Final

from trueloop.event import CausalityTested, RunEnded
from trueloop.rules.rule import Findings, Rule, Severity, facts

__all__ = ["TargetsNotShiftedByOne"]

CHANGE: Final = 1e-4  # Relative change of earlier outputs: rounding only
REPEAT: Final = 1e-6


class TargetsNotShiftedByOne(Rule, code="LOS128", severity=Severity.ERROR):
    not_applicable = "no model was trained to predict its own input, or one of a later position"

    def __init__(self) -> None:
        self._tests: dict[int, list[CausalityTested]] = {}

    def on_causality_tested(self, event: CausalityTested) -> None:
        self._tests.setdefault(event.model, []).append(event)

    def on_run_ended(self, _: RunEnded) -> Findings:
        for tests in self._tests.values():
            event = tests[0]
            causal = all(test.change <= CHANGE and test.repeat <= REPEAT for test in tests)
            if event.shift == 1 or not causal or (event.shift == 0 and len(tests) < 2):
                continue
            what = "its own inputs at the same positions" if event.shift == 0 else "the inputs two positions later"
            yield self.finding(
                event,
                f"The targets of {event.name} are {what}, and each output sees only the past: it learns to "
                + ("copy, not to predict the next token." if event.shift == 0 else "skip the next token."),
                fix="Shift the targets by one: `x, y = ids[:, :-1], ids[:, 1:]`, and only in one place.",
                evidence=facts(event, "model=name shift length change repeat"),
            )
