"""OPT121 validation-data-trained-on: the optimizer also steps on the batches of the validation loader.

What it sees
------------
Two loaders in turns, pass after pass. One is called val, valid, test, dev or eval where it is created or looped over.
After its batches the same optimizer steps as after those of the other one.

Why it hurts
------------
The model is trained on the data that should show how it does on new data. The validation loss falls, overfitting stays
unseen, and early stopping and the choice of a model follow numbers that mean nothing.

Evidence
--------
The loader, its passes and batches, and the batches after which the optimizer stepped.

Use instead
-----------
    if phase == "train":
        loss.backward()
        optimizer.step()

When it is fine
---------------
Not reported: a step of another optimizer (temperature scaling, architecture search), one last fit on all the data after
the training, and batches of both loaders drawn in turns within one pass (bilevel optimization).
"""

from typing import Final

from trueloop.event import LoaderTrained, RunEnded
from trueloop.rules.rule import Findings, Rule, Severity
from trueloop.usercode.names import says_held_out

__all__ = ["ValidationDataTrainedOn"]

TRAINED: Final = 0.9  # Share of the batches after which an optimizer stepped
STRETCH: Final = 2.0  # Batches in a row


class ValidationDataTrainedOn(Rule, code="OPT121", severity=Severity.WARNING):
    not_applicable = "no pass over a loader was seen"

    def __init__(self) -> None:
        self._loaders: list[LoaderTrained] = []

    def on_loader_trained(self, event: LoaderTrained) -> None:
        self._loaders.append(event)

    def on_run_ended(self, _: RunEnded) -> Findings:
        named = [loader for loader in self._loaders if says_held_out(loader.names)]
        others = [loader for loader in self._loaders if loader not in named]
        for loader in named:
            trained = {number: count for number, count in loader.stepped if count >= TRAINED * loader.batches}
            partner = next((other for other in others if _in_turns(loader, other, trained)), None)
            if partner is None or loader.passes < 2 or loader.batches < STRETCH * loader.stretches:
                continue
            yield self.finding(
                loader,
                f"The optimizer stepped after {max(trained.values())} of {loader.batches} batches of the validation "
                f"loader, in {loader.passes} passes, as it does on the training loader.",
                fix="Call `backward()` and `step()` on training batches only; validate under `torch.no_grad()`.",
                evidence={"passes": loader.passes, "batches": loader.batches, "stepped": max(trained.values()),
                          "built": loader.built, "training_loader": partner.built},
            )  # fmt: skip


def _in_turns(loader: LoaderTrained, other: LoaderTrained, trained: dict[int, int]) -> bool:
    same = any(number in trained and count >= TRAINED * other.batches for number, count in other.stepped)
    return same and other.passes >= 2 and other.first_pass < loader.last_pass and loader.first_pass < other.last_pass
