"""The constant answer: what a model that looks at nothing would score. Best on the training labels, scored on the
validation labels.

multiclass, language    the shares of the classes: the commonest one is the answer, their entropy the loss
binary, multilabel      the shares of yes; for f1 always yes, if that is better
regression              the mean; the median for mae
own loss                none is known
"""

from collections.abc import Iterable
from typing import Any, Final

import torch
from torch import Tensor

from trueloop.data.source import Source, samples_in
from trueloop.data.tensors import Tensors
from trueloop.engine.collapse import ConstantAnswer
from trueloop.engine.parts import Parts
from trueloop.engine.task import Binary, Language, Multiclass, Multilabel, Regression, Task
from trueloop.measure.randomness import fence

__all__ = ["constant_answer"]

READ_AT_MOST: Final = 2048  # samples that are read for labels that are not in memory: shares to one or two in a hundred
Classes = tuple[str, ...]
AT_ONCE: Final = 256  # Samples of one fetch


def constant_answer(parts: Parts, *, may_read: bool) -> ConstantAnswer | None:
    """By the loop's own metric. `may_read`: read samples whose labels are not in memory; None: unknown."""
    valid = parts.splits.valid
    if valid is None or not (may_read or (isinstance(parts.splits.train, Tensors) and isinstance(valid, Tensors))):
        return None
    if samples_in(parts.splits.train) is None or samples_in(valid) is None:
        return None  # reading a stream would move it
    train, asked, classes = _targets(parts.splits.train), _targets(valid), parts.splits.facts.classes
    return _answer(parts.task, parts.metric, train, asked, classes)


def _targets(source: Source) -> list[Any]:
    """All that are in memory, or those of samples spread evenly."""
    if isinstance(source, Tensors):
        return [source.targets]
    count = min(len(source), READ_AT_MOST)
    numbers = torch.arange(count) * len(source) // count
    with fence(0):  # what a dataset draws is not the training's
        return [source.fetch(some).targets for some in torch.split(numbers, AT_ONCE)]


def _answer(task: Task, metric: str, train: list[Any], valid: list[Any], classes: Classes) -> ConstantAnswer | None:
    if not all(isinstance(each, Tensor) for each in (*train, *valid)):
        return None
    match task:
        case Multiclass():
            return _of_classes(task, metric, train, valid, classes)
        case Language():
            return _of_classes(task.inner, metric, train, valid, classes)
        case Binary():
            return _of_yes_and_no(metric, _flat(train)[:, None], _flat(valid)[:, None])
        case Multilabel():
            return _of_yes_and_no(metric, torch.cat(train).flatten(1), torch.cat(valid).flatten(1))
        case Regression():
            return _of_quantities(task, metric, torch.cat(train), torch.cat(valid))
        case _:
            return None


def _flat(targets: Iterable[Tensor]) -> Tensor:
    return torch.cat([each.flatten() for each in targets])


def _of_classes(
    task: Multiclass, metric: str, train: list[Any], valid: list[Any], classes: Classes
) -> ConstantAnswer | None:
    seen, asked = _flat(train), _flat(valid)
    seen, asked = seen[seen != task.ignore].long(), asked[asked != task.ignore].long()
    if not len(seen) or not len(asked):
        return None
    size = max(len(classes), int(seen.max()) + 1, int(asked.max()) + 1)
    counts, there = torch.bincount(seen, minlength=size).double(), torch.bincount(asked, minlength=size).double()
    commonest = int(counts.argmax())
    if metric == "accuracy":
        name = f"{classes[commonest]!r}" if commonest < len(classes) else f"{commonest}"
        return ConstantAnswer(f"always {name}", float(there[commonest] / there.sum()))
    if metric != "loss":
        return None
    # One more of each: a class that the training data lack is rare, not impossible.
    share = (counts + 1) / (counts + 1).sum()
    smooth = task.label_smoothing
    told = ((1 - smooth) * share + smooth / size).log()
    loss = -((1 - smooth) * (there * told).sum() / there.sum() + smooth * told.mean())
    return ConstantAnswer("the shares of the classes in the training data", float(loss))


def _of_yes_and_no(metric: str, train: Tensor, valid: Tensor) -> ConstantAnswer | None:
    """[N, labels]; each label has a constant of its own."""
    seen, asked = train.double() > 0.5, valid.double() > 0.5
    share = (seen.sum(0) + 1) / (len(seen) + 2)
    if metric == "loss":
        there = asked.double()
        loss = -(there * share.log() + (1 - there) * (1 - share).log()).mean()
        return ConstantAnswer("the share of yes in the training data", float(loss))
    commoner = (share > 0.5).expand_as(asked)
    if metric == "accuracy":
        return ConstantAnswer(_answer_text(commoner), float((commoner == asked).double().mean()))
    if metric == "f1":
        always = torch.ones_like(asked)
        best = max((commoner[:1].expand_as(seen), always[:1].expand_as(seen)), key=lambda said: _f1(said, seen))
        return ConstantAnswer(_answer_text(best), _f1(best[:1].expand_as(asked), asked))
    return None


def _answer_text(answers: Tensor) -> str:
    if bool(answers.all()):
        return "always yes"
    return "each label's commoner answer" if bool(answers.any()) else "always no"


def _f1(said: Tensor, are: Tensor) -> float:
    yes = int(said.sum()) + int(are.sum())
    return 2 * int((said & are).sum()) / yes if yes else 0.0


def _of_quantities(task: Regression, metric: str, train: Tensor, valid: Tensor) -> ConstantAnswer | None:
    """One constant for each quantity."""
    seen, asked = train.double(), valid.double()
    middle = seen.median(0).values if metric == "mae" else seen.mean(0)
    said = middle.expand_as(asked)
    sums = {"loss": task.loss_sum(said, asked), **task.measures(said, asked)}
    values = task.metrics({"count": task.count(asked), **{name: float(total) for name, total in sums.items()}})
    if metric not in values:
        return None
    return ConstantAnswer(f"the {'median' if metric == 'mae' else 'mean'} of the training data", values[metric])
