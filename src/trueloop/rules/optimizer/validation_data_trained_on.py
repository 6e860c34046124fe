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

import ast
import re
from collections.abc import Iterator
from typing import Final

from trueloop.event import LoaderTrained, Place, RunEnded
from trueloop.rules.rule import Findings, Rule, Severity
from trueloop.usercode.source import called_name, source_of

__all__ = ["ValidationDataTrainedOn"]

NAMES: Final = frozenset({"val", "valid", "validation", "test", "dev", "eval", "holdout", "validate"})
TRAINED: Final = 0.9  # Share of the batches after which an optimizer stepped
STRETCH: Final = 2.0  # Batches in a row


class ValidationDataTrainedOn(Rule, code="OPT121", severity=Severity.WARNING):
    not_applicable = "no pass over a loader was seen"

    def __init__(self) -> None:
        self._loaders: list[LoaderTrained] = []

    def on_loader_trained(self, event: LoaderTrained) -> None:
        self._loaders.append(event)

    def on_run_ended(self, _: RunEnded) -> Findings:
        named = [loader for loader in self._loaders if _says_validation(loader)]
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


def _says_validation(loader: LoaderTrained) -> bool:
    words = {word for name in _names(loader) for word in re.findall(r"[a-z]+", name.lower())}
    return bool(words & NAMES) and not words & {"train", "training", "trn"}


def _names(loader: LoaderTrained) -> Iterator[str]:
    """What the loader is called where it is created, or looped over."""
    yield from _at_creation(loader.built)
    if loader.place is not None:
        source = source_of(loader.place.path)
        loop = source.statement(loader.place.line)
        if isinstance(loop, ast.For):
            yield from (node.id for node in ast.walk(loop.iter) if isinstance(node, ast.Name))
            yield from (node.attr for node in ast.walk(loop.iter) if isinstance(node, ast.Attribute))


def _at_creation(place: Place | None) -> Iterator[str]:
    if place is None:
        return
    source = source_of(place.path)
    for node in ast.walk(source.tree):
        if not isinstance(node, ast.Call) or not node.lineno <= place.line <= (node.end_lineno or node.lineno):
            continue
        if not called_name(node).endswith("Loader"):
            continue
        parent = next(source.parents(node), None)
        if isinstance(parent, ast.Dict):
            keys = [key for key, value in zip(parent.keys, parent.values, strict=True) if value is node]
            yield from (str(key.value) for key in keys if isinstance(key, ast.Constant))
        elif isinstance(parent, ast.Assign):
            yield from (source.text(target) for target in parent.targets)
        elif isinstance(parent, ast.keyword) and parent.arg:
            yield parent.arg
