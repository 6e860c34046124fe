"""The recipe's own metrics: plain functions and torchmetrics objects, exact over uneven batches and processes.

A function `metric(output, targets)` is called on each batch of an evaluation. What it returns is added up; the quotient
is taken once, at the end:

    a tensor with a value for each sample       the mean over all samples
    a number, or a tensor of one number         the mean over batches, each weighted by its samples
    numerator, denominator                      two sums: their quotient over the whole data set
    numerators, denominators                    one quotient for each class; the mean of those with a denominator
    numerator, denominator, function            the function of that quotient: `math.exp` makes a perplexity

A torchmetrics object, or any object with `update(output, targets)`, `compute()` and `reset()`, is copied for each
evaluation, so nothing is left of the one before.
"""

import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any, Final, final

import torch
from torch import Tensor

from trueloop.data.source import Batch, size_of
from trueloop.engine.merge_metrics import merged
from trueloop.engine.targets import describe_tensor, type_name
from trueloop.errors import BadRecipe, TrueloopError
from trueloop.parallel.peers import Alone, Peers
from trueloop.recipe.call import required_parameters

__all__ = ["Meter", "check_metrics", "is_higher_better", "start_meters"]

_FORMS: Final = "return one value per sample, their mean, or two sums (numerator, denominator)"


class Meter(ABC):
    """One metric during one evaluation."""

    name: str

    @abstractmethod
    def add(self, output: Any, batch: Batch) -> None:
        """A batch of this process. The host does not wait for the device, unless the metric itself does."""

    @abstractmethod
    def results(self, peers: Peers) -> dict[str, float]:
        """Over all batches of all processes."""

    def fail(self, doing: str, error: Exception) -> BadRecipe:
        said = (str(error).splitlines() or [""])[0].rstrip(".")
        return BadRecipe(f"The metric {self.name!r} fails {doing}: {type(error).__name__}: {said}.")


@final
class _FunctionMeter(Meter):
    """Adds up what a function returns."""

    def __init__(self, name: str, function: Callable[[Any, Any], Any], device: torch.device) -> None:
        self.name, self.function = name, function
        self.wide = torch.float32 if device.type == "mps" else torch.float64
        self.sums: list[Tensor] = []  # numerator and denominator; empty: no batch yet
        self.finish: Callable[[float], Any] | None = None

    def add(self, output: Any, batch: Batch) -> None:
        try:
            value = self.function(output, batch.targets)
        except TrueloopError:
            raise
        except Exception as error:
            raise self.fail("on a batch", error) from error
        new = self._sums_of(value, size_of(batch.inputs))
        if self.sums and self.sums[0].shape != new[0].shape:
            before, now = list(self.sums[0].shape), list(new[0].shape)
            raise BadRecipe(f"The metric {self.name!r} returns sums of shape {before}, and {now} for another batch.")
        self.sums = [a + b for a, b in zip(self.sums, new, strict=True)] if self.sums else new

    def _sums_of(self, value: Any, samples: int) -> list[Tensor]:
        if isinstance(value, tuple):
            return self._ratio(value)
        if isinstance(value, (bool, int, float)):
            value = torch.tensor(float(value))
        if not isinstance(value, Tensor):
            raise BadRecipe(f"The metric {self.name!r} returns {type_name(value)}: {_FORMS}.")
        value = value.detach().to(self.wide)
        if value.dim() == 0:
            return [value * samples, torch.full_like(value, samples)]
        if len(value) != samples:
            got = f"{describe_tensor(value)} for {samples} samples"
            raise BadRecipe(f"The metric {self.name!r} returns {got}: {_FORMS}.")
        return [value.sum(), torch.full_like(value.sum(), value.numel())]

    def _ratio(self, value: tuple[Any, ...]) -> list[Tensor]:
        numbers, finish = value[:2], value[2:]
        fits = len(numbers) == 2 and len(finish) < 2 and all(map(callable, finish))
        if not fits or not all(isinstance(each, (int, float, Tensor)) for each in numbers):
            inside = ", ".join(map(type_name, value))
            raise BadRecipe(f"The metric {self.name!r} returns ({inside}): {_FORMS}.")
        self.finish = finish[0] if finish else None
        device = next((each.device for each in numbers if isinstance(each, Tensor)), torch.device("cpu"))
        top, bottom = (torch.as_tensor(each, dtype=self.wide, device=device).detach() for each in numbers)
        if top.shape != bottom.shape:
            shapes = f"{list(top.shape)} and {list(bottom.shape)}"
            raise BadRecipe(f"The metric {self.name!r} returns two sums of different shapes, {shapes}: {_FORMS}.")
        return [top, bottom]

    def results(self, peers: Peers) -> dict[str, float]:
        answers = [sums for sums in peers.gather([each.cpu().double() for each in self.sums]) if sums]
        top, bottom = (torch.stack([sums[number] for sums in answers]).sum(0) for number in (0, 1))
        counted = bottom != 0
        value = float((top[counted] / bottom[counted]).mean()) if bool(counted.any()) else math.nan
        if self.finish is not None:  # None also in a process without a batch; the first always has one, and answers
            value = float(self.finish(value))
        return {self.name: peers.gather(value)[0]}


@final
class _ObjectMeter(Meter):
    """A copy of a torchmetrics object, or of one with the same three methods."""

    def __init__(self, name: str, metric: Any, device: torch.device) -> None:
        self.name, self.metric = name, deepcopy(metric)
        self.metric.reset()
        self.updated = False
        if callable(getattr(self.metric, "to", None)):
            self.metric = self.metric.to(device)

    def add(self, output: Any, batch: Batch) -> None:
        try:
            self.metric.update(getattr(output, "logits", output), batch.targets)
        except Exception as error:
            raise self.fail("on a batch", error) from error
        self.updated = True

    def results(self, peers: Peers) -> dict[str, float]:
        if peers.world > 1:
            self.metric = merged(self.name, self.metric, self.updated, peers)
        try:
            value = self.metric.compute()
        except Exception as error:
            raise self.fail("in compute()", error) from error
        values = value if isinstance(value, Mapping) else {"": value}
        named = {f"{self.name}_{key}" if key else self.name: self._number(each) for key, each in values.items()}
        found = {key: number for key, number in named.items() if number is not None}
        if not found:
            got = describe_tensor(value) if isinstance(value, Tensor) else type_name(value)
            raise BadRecipe(
                f"The metric {self.name!r} computes {got}, and a row holds one number for each name: give it "
                "average='macro', or wrap it in torchmetrics' ClasswiseWrapper."
            )
        return peers.gather(found)[0]  # type: ignore[no-any-return]

    def _number(self, value: Any) -> float | None:
        if isinstance(value, Tensor):
            return float(value) if value.numel() == 1 else None
        return float(value) if isinstance(value, (bool, int, float)) else None


def start_meters(metrics: Mapping[str, Any], device: torch.device) -> list[Meter]:
    """One for each metric of a recipe, for one evaluation."""
    return [_meter(name, metric, device) for name, metric in metrics.items()]


def _meter(name: str, metric: Any, device: torch.device) -> Meter:
    metric = _created(name, metric)
    return _ObjectMeter(name, metric, device) if _is_object(metric) else _FunctionMeter(name, metric, device)


def _created(name: str, metric: Any) -> Any:
    """The object of a factory: a class, or a function without parameters; everything else as it is."""
    if not isinstance(metric, type) and (_is_object(metric) or required_parameters(metric)):
        return metric
    try:
        made = metric()
    except Exception as error:
        form = f'"{name}": {getattr(metric, "__name__", "metric")}(...)'
        raise BadRecipe(f"The metric {name!r} cannot be created: {error}. Nothing was run: write {form}.") from error
    if not _is_object(made):
        raise BadRecipe(
            f"The metric {name!r} is a function without parameters that returns {type_name(made)}. Nothing was run: "
            "write it as `def metric(output, targets)`, or return a torchmetrics object."
        )
    return made


def _is_object(metric: Any) -> bool:
    if isinstance(metric, type):
        return False
    return all(callable(getattr(metric, method, None)) for method in ("update", "compute", "reset"))


def is_higher_better(metrics: Mapping[str, Any], name: str, lower: tuple[str, ...]) -> bool:
    """For `metric=name`: higher, unless the recipe lists it in lower_is_better, or torchmetrics says otherwise."""
    owner = name if name in metrics else next((each for each in metrics if name.startswith(f"{each}_")), "")
    if name in lower or owner in lower:
        return False
    if owner not in metrics:  # of the recipe's own evaluate
        return True
    return getattr(_created(owner, metrics[owner]), "higher_is_better", None) is not False


def check_metrics(metrics: Mapping[str, Any], output: Any, batch: Batch, at: str, device: torch.device) -> set[str]:
    """Names of what they measure, tried on one batch. Raises BadRecipe with the batch in its sentence."""
    found: set[str] = set()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torchmetrics warns of classes that one batch lacks
        for meter in start_meters(metrics, device):
            try:
                meter.add(output, batch)
                found |= set(meter.results(Alone()))
            except BadRecipe as error:
                raise BadRecipe(f"{at}: {error} Nothing was trained.") from error
    return found
