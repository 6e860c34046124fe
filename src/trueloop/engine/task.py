"""What is to be learned: the loss that fits, the checks of the targets, the metrics.

A loss is given as a *sum* over targets, and their number apart: only so is an average over several micro-batches,
processes or a small last batch the average of the one big batch. What counts as one target:

    multiclass    a class number; those equal to `Facts.ignore` do not count
    language      a token, likewise
    binary        a sample
    multilabel    a label of a sample: N samples of L labels give N * L
    regression    a number: N samples of D quantities give N * D
    own loss      a sample, or what `loss_count` or the loss itself counts (`own_loss.py`)

So the averages are those of torch's losses with reduction="mean". Metrics come from sums over all samples, not from
averages of batches.
"""

from collections.abc import Mapping
from typing import Any, final

import torch
import torch.nn.functional as F  # noqa: N812 - as everybody writes it
from torch import Tensor, nn

from trueloop.data.source import Batch, Facts, Splits, moved
from trueloop.engine.model_loss import MEASURED, ModelLoss, computes_its_loss, takes_labels
from trueloop.engine.own_loss import OwnLoss
from trueloop.engine.targets import (
    describe_tensor,
    require_class_numbers,
    require_finite,
    require_known_classes,
    require_same_shape,
    require_tensors,
    require_zero_or_one,
)
from trueloop.engine.task_kind import Task
from trueloop.engine.unprojected import Unprojected, shape_only
from trueloop.errors import BadData, BadRecipe, did_you_mean
from trueloop.recipe.recipe import Recipe
from trueloop.recipe.validate import METRICS

__all__ = ["TASKS", "Binary", "Language", "Multiclass", "Multilabel", "OwnLoss", "Regression", "Task", "build_task"]
__all__ += ["task_of"]

TASKS = tuple(METRICS)


@final
class Multiclass(Task):
    """One of several classes: scores [N, C, ...], or Unprojected [N, D], for class numbers [N, ...]; accuracy."""

    metric = "accuracy"
    higher_is_better = True
    sums = ("accuracy",)

    def __init__(self, facts: Facts = Facts(), label_smoothing: float = 0.0) -> None:  # noqa: B008 - frozen
        self.ignore = -100 if facts.ignore is None else facts.ignore
        self.some_ignored = facts.ignore is not None
        self.label_smoothing = label_smoothing

    def loss_sum(self, output: Tensor | Unprojected, targets: Tensor) -> Tensor:
        if isinstance(output, Unprojected):
            self._refuse_smoothing("The loss")
            return output.loss_sum(targets, self.ignore)
        smoothing = self.label_smoothing
        return F.cross_entropy(output, targets, reduction="sum", ignore_index=self.ignore, label_smoothing=smoothing)

    def count(self, targets: Tensor) -> int | Tensor:
        return (targets != self.ignore).sum() if self.some_ignored else targets.numel()

    def measures(self, output: Tensor | Unprojected, targets: Tensor) -> dict[str, Tensor]:
        hits = output.hits(targets) if isinstance(output, Unprojected) else output.argmax(1) == targets
        return {"accuracy": (hits & (targets != self.ignore)).sum()}

    def _refuse_smoothing(self, at: str) -> None:
        if self.label_smoothing:
            raise BadRecipe(
                f"{at}: label_smoothing={self.label_smoothing} needs the scores of all classes, and the model returns "
                "Unprojected. No step was taken: return the scores, or leave label_smoothing out."
            )

    def check(self, output: Any, targets: Any, at: str) -> None:
        if isinstance(output, Unprojected):
            self._refuse_smoothing(at)
        output = shape_only(output)
        require_tensors(output, targets, at, "multiclass")
        require_class_numbers(output, targets, at, "multiclass")
        if output.dim() < 2 or output.shape[1] < 2:
            raise BadData(
                f"{at}: multiclass needs a score for each class, [N, classes], but the model returns "
                f"{list(output.shape)}. Nothing was trained: give it one output per class, or task='binary' for one."
            )
        fitting = [output.shape[0], *output.shape[2:]]
        if fitting != list(targets.shape):
            cure = ": use targets.squeeze(1)" if [*fitting, 1] == list(targets.shape) else ""
            raise BadData(
                f"{at}: scores {list(output.shape)} need targets {fitting}, but they are {list(targets.shape)}. "
                f"Nothing was trained{cure}."
            )
        self.check_all(targets, output, at)

    def check_all(self, targets: Tensor, output: Any, at: str) -> None:
        require_known_classes(targets, output.shape[1], -100 if not self.some_ignored else self.ignore, at)
        if not self.some_ignored and bool((targets == self.ignore).any()):
            raise BadData(
                f"{at}: some targets are {self.ignore}, which torch leaves out of the loss. Nothing was trained: to "
                f"ignore them, set Facts(ignore={self.ignore}); the mean is then over the others."
            )


@final
class Language(Task):
    """The next token: scores [N, T, V], or Unprojected [N, T, D], for tokens [N, T]; loss per token, accuracy."""

    metric = "loss"
    higher_is_better = False
    sums = ("accuracy",)

    def __init__(self, facts: Facts = Facts()) -> None:  # noqa: B008 - frozen
        self.inner = Multiclass(facts)

    def loss_sum(self, output: Tensor | Unprojected, targets: Tensor) -> Tensor:
        return self.inner.loss_sum(output.flatten(0, -2), targets.flatten())

    def count(self, targets: Tensor) -> int | Tensor:
        return self.inner.count(targets)

    def measures(self, output: Tensor | Unprojected, targets: Tensor) -> dict[str, Tensor]:
        return self.inner.measures(output.flatten(0, -2), targets.flatten())

    def check(self, output: Any, targets: Any, at: str) -> None:
        output = shape_only(output)
        require_tensors(output, targets, at, "language")
        require_class_numbers(output, targets, at, "language")
        if output.dim() != 3 or output.shape[:2] != targets.shape:
            cure = ": return scores for every token, not only the last" if output.dim() == 2 else ""
            raise BadData(
                f"{at}: language needs scores [batch, time, vocabulary] for targets [batch, time], but they are "
                f"{list(output.shape)} and {list(targets.shape)}. Nothing was trained{cure}."
            )
        self.check_all(targets, output, at)

    def check_all(self, targets: Tensor, output: Any, at: str) -> None:
        self.inner.check_all(targets, output.flatten(0, -2), at)


class _YesOrNo(Task):
    """Scores against 0 and 1 (False and True) of the same shape; each label counts alike."""

    metric = "accuracy"
    higher_is_better = True
    sums = ("accuracy", "hits", "said_yes", "are_yes")
    name: str

    def loss_sum(self, output: Tensor, targets: Tensor) -> Tensor:
        return F.binary_cross_entropy_with_logits(output, targets.to(output.dtype), reduction="sum")

    def count(self, targets: Tensor) -> int:
        return targets.numel()

    def measures(self, output: Tensor, targets: Tensor) -> dict[str, Tensor]:
        said, are = output > 0, targets > 0.5
        hits = (said & are).sum()
        return {"accuracy": (said == are).sum(), "hits": hits, "said_yes": said.sum(), "are_yes": are.sum()}

    def metrics(self, totals: Mapping[str, float]) -> dict[str, float]:
        """F1 from sums over all samples: 2 * hits / (said yes + are yes); 0 where neither is."""
        yes = totals["said_yes"] + totals["are_yes"]
        means = {name: totals[name] / totals["count"] for name in ("loss", "accuracy")}
        return {**means, "f1": 2 * totals["hits"] / yes if yes else 0.0}

    def check_all(self, targets: Tensor, output: Any, at: str) -> None:
        require_zero_or_one(targets, at, self.name)


@final
class Binary(_YesOrNo):
    """Yes or no: one score per sample, [N] or [N, 1], against 0 and 1. Metrics: accuracy, f1 of the yes."""

    name = "binary"

    def loss_sum(self, output: Tensor, targets: Tensor) -> Tensor:
        return super().loss_sum(output.flatten(), targets.flatten())

    def measures(self, output: Tensor, targets: Tensor) -> dict[str, Tensor]:
        return super().measures(output.flatten(), targets.flatten())

    def check(self, output: Any, targets: Any, at: str) -> None:
        require_tensors(output, targets, at, "binary")
        if output.numel() != targets.numel() or len(output) != len(targets):
            raise BadData(
                f"{at}: binary needs one score per target, but the model returns {list(output.shape)} for targets "
                f"{list(targets.shape)}. Nothing was trained: give it one output, or use task='multiclass' for two."
            )
        self.check_all(targets, output, at)


@final
class Multilabel(_YesOrNo):
    """Several yes or no at once: scores [N, L] against 0 and 1. Metrics count single labels: accuracy, f1 (micro)."""

    name = "multilabel"

    def check(self, output: Any, targets: Any, at: str) -> None:
        require_tensors(output, targets, at, "multilabel")
        if targets.dim() == output.dim() - 1 and not targets.is_floating_point():
            raise BadData(
                f"{at}: multilabel needs a 0 or 1 for each of the {output.shape[1]} labels, but the targets are "
                f"{describe_tensor(targets)}. Nothing was trained: one class per sample is task='multiclass'."
            )
        require_same_shape(output, targets, at, "multilabel")
        self.check_all(targets, output, at)


@final
class Regression(Task):
    """Quantities: outputs of the targets' shape; [N, 1] against [N] is meant as [N]. Metrics: loss (MSE), mae, r2."""

    metric = "loss"
    higher_is_better = False
    sums = ("mae", "total", "squares")

    def loss_sum(self, output: Tensor, targets: Tensor) -> Tensor:
        return F.mse_loss(_aligned(output, targets), targets.to(output.dtype), reduction="sum")

    def count(self, targets: Tensor) -> int:
        return targets.numel()

    def measures(self, output: Tensor, targets: Tensor) -> dict[str, Tensor]:
        # The spread is a difference of large sums: too coarse in float32. (MPS has nothing finer.)
        wide = targets.float() if targets.device.type == "mps" else targets.double()
        error = (_aligned(output, targets) - targets).abs().sum()
        return {"mae": error, "total": wide.sum(), "squares": (wide * wide).sum()}

    def metrics(self, totals: Mapping[str, float]) -> dict[str, float]:
        count = totals["count"]
        spread = totals["squares"] - totals["total"] ** 2 / count
        # Targets that are all alike leave nothing to explain.
        explained = 1 - totals["loss"] / spread if spread > 0 else 0.0
        return {"loss": totals["loss"] / count, "mae": totals["mae"] / count, "r2": explained}

    def check(self, output: Any, targets: Any, at: str) -> None:
        require_tensors(output, targets, at, "regression")
        if targets.dtype == torch.bool:
            raise BadData(f"{at}: the targets are {describe_tensor(targets)}. Nothing was trained: use task='binary'.")
        if not output.is_floating_point():
            raise BadData(
                f"{at}: regression needs floating-point outputs, but the model returns {describe_tensor(output)}. "
                "Nothing was trained."
            )
        require_same_shape(_aligned(output, targets), targets, at, "regression")
        self.check_all(targets, output, at)

    def check_all(self, targets: Tensor, output: Any, at: str) -> None:
        require_finite(targets, at)


def _aligned(output: Tensor, targets: Tensor) -> Tensor:
    """[N, 1] and [N] hold the same numbers; left alone, their difference would be [N, N]."""
    return output.squeeze(1) if output.dim() == targets.dim() + 1 and output.shape[1] == 1 else output


def _not_called(output: Any, targets: Any) -> Any:
    raise RuntimeError("The recipe's own step and evaluate compute its losses.")


def task_of(recipe: Recipe, splits: Splits, model: nn.Module, device: torch.device) -> Task:
    """The task of a recipe with this model and data: the model's own loss, if it computes one and the recipe none."""
    own = recipe.loss is not None or recipe.step is not None or recipe.evaluate is not None
    named = (splits.train, splits.valid, splits.test)
    source = next((each for each in named if each is not None and each.by_index), None)
    if not own and source is None and takes_labels(model):
        return ModelLoss(model, None)
    if not own and source is not None:
        batch = moved(source.fetch(torch.arange(min(MEASURED, len(source)))), device)
        batch = batch if splits.prepare is None else Batch(splits.prepare(batch.inputs), batch.targets)
        if computes_its_loss(model, batch):
            return ModelLoss(model, batch)
    return build_task(recipe, splits.facts)


def build_task(recipe: Recipe, facts: Facts) -> Task:
    if recipe.evaluate is not None:
        return OwnLoss(_not_called)
    if recipe.loss is not None:
        return OwnLoss(recipe.loss, recipe.loss_count, tuple(recipe.metrics))
    match recipe.task:
        case "multiclass":
            return Multiclass(facts, recipe.label_smoothing)
        case "language":
            return Language(facts)
        case "binary":
            return Binary()
        case "multilabel":
            return Multilabel()
        case "regression":
            return Regression()
    raise BadRecipe(
        f"There is no task {recipe.task!r}.{did_you_mean(recipe.task, TASKS)} "
        f"Nothing was run. There are: {', '.join(TASKS)}."
    )
