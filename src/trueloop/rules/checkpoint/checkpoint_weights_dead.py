"""CKP107 checkpoint-weights-dead: the loaded weights are constant, zero, NaN or Inf.

What it sees
------------
The weight matrices that a `load_state_dict` brings to a model. Some have NaN or Inf, or three of four have one value in
all their elements.

Why it hurts
------------
Equal weights compute equal features, and get equal gradients: the layer stays at one feature. Zeros let nothing
through. NaN makes every output NaN. A file that was cut, written before the weights were there, or converted wrongly
looks like any other.

Evidence
--------
How many matrices were loaded, and how many of them are constant or not finite.

Use instead
-----------
    state = torch.load(path)
    assert all(value.isfinite().all() for value in state.values() if value.is_floating_point())

When it is fine
---------------
Not reported: fewer than two matrices, some constant ones among others (layers that start at zero, as adapters do), and
vectors (biases, gains).
"""

from typing import Final

from trueloop.event import StateMatched
from trueloop.rules.rule import Findings, Rule, Severity, plural

__all__ = ["CheckpointWeightsDead"]

MOST: Final = 0.75
MATRICES: Final = 2


class CheckpointWeightsDead(Rule, code="CKP107", severity=Severity.ERROR):
    not_applicable = "no state was loaded into a model"

    def on_state_matched(self, event: StateMatched) -> Findings:
        if not event.from_file or event.matrices < MATRICES:
            return
        if not event.nonfinite and event.constant < MOST * event.matrices:
            return
        what = f"{event.nonfinite} contain NaN or Inf" if event.nonfinite else f"{event.constant} are constant"
        yield self.finding(
            event,
            f"Of {plural(event.matrices, 'weight')} loaded into {event.model}, {what}.",
            fix="Write the file again from the trained model, and check its values before you train from it.",
            evidence={"matrices": event.matrices, "constant": event.constant, "nonfinite": event.nonfinite},
        )
