"""CKP107 checkpoint-weights-dead: the loaded weights are constant, zero, practically zero, NaN or Inf.

What it sees
------------
The weight matrices that a `load_state_dict` brings to a model. Some have NaN or Inf, or three of four have one value in
all their elements. Or all layers are linear layers and convolutions without a norm, the weights of each of them are
at most 7 % of the size that PyTorch draws, by about one factor, and nothing in the run trains them.

Why it hurts
------------
Equal weights compute equal features, and get equal gradients: the layer stays at one feature. Zeros let nothing
through, and nearly zero is not more: four layers at 5 % leave a 100,000th of the signal (a moving average that began at
zero and was saved before it arrived). NaN makes every output NaN. A file that was cut, written before the weights were
there, or converted wrongly looks like any other.

Evidence
--------
How many matrices were loaded, and how many of them are constant or not finite; or the size of the weights as a share of
drawn ones.

Use instead
-----------
    state = torch.load(path)
    assert all(value.isfinite().all() for value in state.values() if value.is_floating_point())

When it is fine
---------------
Not reported: fewer than two matrices, some constant ones among others (layers that start at zero, as adapters do), and
vectors (biases, gains). Of small weights: models with norms, which take the size out, other layers with weights
(embeddings, recurrent ones), one layer that is small, weights at zero (pruned), layers that were all drawn with one
small deviation, and weights that are trained afterwards.
"""

import os
from typing import Final

from trueloop.event import ShrunkenLoaded, StateMatched
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

    def on_shrunken_loaded(self, event: ShrunkenLoaded) -> Findings:
        file = f"`{os.path.basename(event.file)}`" if event.file else "this file"
        what = f"`{event.key}` in {file}" if event.key else file
        yield self.finding(
            event,
            f"The weights of all {event.layers} layers that {event.model} loads from {what} are at most "
            f"{event.share:.1%} of the size that PyTorch draws, and nothing trains them: the outputs hardly depend on "
            "the inputs.",
            fix="Write the file again from the trained model. If it is a moving average that began at zero, divide it "
            "by `1 - decay ** steps`, or begin it with the weights.",
            evidence={"file": os.path.basename(event.file), "key": event.key, "layers": event.layers,
                      "share": round(event.share, 4)},
        )  # fmt: skip
