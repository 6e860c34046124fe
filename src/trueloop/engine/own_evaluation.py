"""The recipe's own evaluation: `evaluate(models, batch)` gives means over a batch, `evaluate(models)` needs no data."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from trueloop.data.source import Batch, size_of
from trueloop.engine.evaluate import evaluating
from trueloop.engine.precision import Precision
from trueloop.errors import BadRecipe
from trueloop.parallel.peers import Peers
from trueloop.recipe.call import call_own, required_parameters
from trueloop.recipe.recipe import Recipe

__all__ = ["evaluate_own", "evaluates_without_data"]


def evaluates_without_data(recipe: Recipe) -> bool:
    """Does it take the models only, as for an agent that plays?"""
    return recipe.evaluate is not None and required_parameters(recipe.evaluate) == 1


def evaluate_own(
    recipe: Recipe, model: nn.Module, batches: Iterable[Batch], device: torch.device, precision: Precision, peers: Peers
) -> dict[str, float]:
    """Each value weighted by the samples of its batch, over all processes. Nothing of the training changes."""
    assert recipe.evaluate is not None
    with evaluating(model), precision.autocast():
        if evaluates_without_data(recipe):
            values = _checked(recipe, call_own("evaluate", "def evaluate(models)", recipe.evaluate, model))
            return _means(peers.gather({name: float(value) for name, value in values.items()}))
        sums: dict[str, Tensor] = {}
        for batch in batches:
            found = call_own("evaluate", "def evaluate(models, batch)", recipe.evaluate, model, batch)
            samples = size_of(batch.inputs)
            for name, value in {**_checked(recipe, found), "": 1.0}.items():
                entry = torch.as_tensor(value, dtype=torch.float32, device=device).reshape(()) * samples
                sums[name] = sums[name] + entry if name in sums else entry
        # A process may have no sample of a small split: all add up the same names.
        names = sorted({name for each in peers.gather(sorted(sums)) for name in each})
        totals = {name: peers.sum(sums.get(name, torch.zeros((), device=device)).clone()).item() for name in names}
    count = totals.pop("")
    return {name: total / count for name, total in totals.items()}


def _means(everybody: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Each process draws its own random numbers, and the best step must be the same in all of them."""
    first = everybody[0]
    for rank, values in enumerate(everybody):
        if values.keys() != first.keys():
            raise BadRecipe(
                f"The recipe's evaluate returned {', '.join(first)} in process 0 and {', '.join(values)} in process "
                f"{rank}: return the same names in every process, because their means are logged."
            )
    columns = {name: [values[name] for values in everybody] for name in first}
    # Equal values stay what they are: a mean is rounded.
    return {name: own[0] if len(set(own)) == 1 else sum(own) / len(own) for name, own in columns.items()}


def _checked(recipe: Recipe, values: Any) -> Mapping[str, Any]:
    number = all(
        isinstance(each, (int, float)) or (isinstance(each, Tensor) and each.numel() == 1)
        for each in (values.values() if isinstance(values, Mapping) else ())
    )
    if not isinstance(values, Mapping) or not values or not number:
        what = "None" if values is None else f"a {type(values).__name__}"
        if isinstance(values, Mapping) and values:
            kinds = (f"a {type(each).__name__} for {name!r}" for name, each in values.items())
            what = ", ".join(kinds)
        raise BadRecipe(
            f"The recipe's evaluate returned {what}: return "
            'numbers by name, means over the batch, as in {"loss": loss, "accuracy": hits.float().mean()}.'
        )
    metric = recipe.metric or "loss"
    if metric not in values:
        raise BadRecipe(
            f"The recipe's evaluate returned {', '.join(map(str, values))}, and the best checkpoint is selected by "
            f"{metric}: set metric={next(iter(values))!r}, or return {metric!r} too."
        )
    return values
