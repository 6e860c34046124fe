"""The batches of an epoch, in the order that the recipe asks for: a pure function of (seed, epoch): resumes are exact.

def order(epoch, generator, train):      # train: the training data; draw from the generator only
    return easiest_first[: 1000 * (epoch + 1)]      # samples, cut into the recipe's batches
    return [[4, 7, 1], [0, 3]]                      # or batches
"""

from collections.abc import Sequence
from typing import Any, final

import torch
from torch import Tensor

from trueloop.data.source import Source
from trueloop.engine.sample_order import epoch_order, mix_seed, steps_per_epoch
from trueloop.errors import BadRecipe
from trueloop.measure.randomness import fence
from trueloop.recipe.call import call_own
from trueloop.recipe.recipe import Recipe

__all__ = ["EpochOrder", "plan_epoch"]


@final
class EpochOrder:
    """The sample numbers of each batch of an epoch."""

    def __init__(self, numbers: Tensor, batches: int, batch: int, ends: Sequence[int] | None = None) -> None:
        self.numbers, self.batches, self.batch = numbers, batches, batch
        self.ends = ends  # Where each batch ends in `numbers`; None: every `batch` samples

    def __len__(self) -> int:
        return self.batches

    def __getitem__(self, number: int) -> Tensor:
        if self.ends is None:
            return self.numbers[number * self.batch : (number + 1) * self.batch]
        return self.numbers[self.ends[number - 1] if number else 0 : self.ends[number]]

    def size(self, number: int) -> int:
        """Of a batch, without taking it."""
        if self.ends is None:
            return min(self.batch, len(self.numbers) - number * self.batch)
        return self.ends[number] - (self.ends[number - 1] if number else 0)

    def to(self, device: torch.device) -> "EpochOrder":
        return EpochOrder(self.numbers.to(device), self.batches, self.batch, self.ends)


def plan_epoch(recipe: Recipe, train: Source, epoch: int, labels: Tensor | None) -> EpochOrder:
    """Raises BadRecipe for an order that cannot be trained in."""
    samples, size = len(train), recipe.batch
    if not callable(recipe.order):
        numbers = (
            torch.arange(samples) if recipe.order == "sequential" else epoch_order(samples, recipe.seed, epoch, labels)
        )
        return EpochOrder(numbers, steps_per_epoch(samples, size, recipe.drop_last), size)
    seed = mix_seed(recipe.seed, epoch)
    with fence(seed):
        generator = torch.Generator().manual_seed(seed)
        given = call_own("order", "def order(epoch, generator, train)", recipe.order, epoch, generator, train)
    batches = _batches_of(given)
    numbers = _numbers(given if batches is None else [number for batch in batches for number in batch], samples, epoch)
    if batches is None:
        return EpochOrder(numbers, steps_per_epoch(len(numbers), size, recipe.drop_last), size)
    sizes = [len(batch) for batch in batches]
    if (wrong := next((number for number, each in enumerate(sizes) if not 0 < each <= size), None)) is not None:
        raise BadRecipe(
            f"Batch {wrong} of epoch {epoch} that the recipe's order returned has {sizes[wrong]} samples: a batch has "
            f"1 to batch={size}."
        )
    return EpochOrder(numbers, len(sizes), size, torch.tensor(sizes).cumsum(0).tolist())


def _batches_of(given: Any) -> list[list[int]] | None:
    """None: it is one list of samples."""
    if isinstance(given, Tensor):
        return given.tolist() if given.dim() == 2 else None
    given = given if isinstance(given, (list, tuple)) or hasattr(given, "tolist") else _refuse(given)
    first = given[0] if len(given) else None
    if not isinstance(first, (list, tuple, Tensor)) and getattr(first, "ndim", 0) == 0:
        return None
    return [batch.tolist() if hasattr(batch, "tolist") else list(batch) for batch in given]


def _refuse(given: Any) -> Any:
    raise BadRecipe(
        f"The recipe's order returned a {type(given).__name__}: return a list of sample numbers, or a list of batches."
    )


def _numbers(given: Any, samples: int, epoch: int) -> Tensor:
    try:
        numbers = torch.as_tensor(given)
    except (TypeError, ValueError, RuntimeError):
        numbers = torch.zeros(0)
    if not numbers.numel() or numbers.dim() != 1 or numbers.is_floating_point():
        what = "no sample" if not len(given) else "something other than whole numbers"
        raise BadRecipe(f"The recipe's order returned {what} for epoch {epoch}: return numbers of samples, from 0.")
    if int(numbers.min()) < 0 or int(numbers.max()) >= samples:
        wrong = int(numbers.min()) if int(numbers.min()) < 0 else int(numbers.max())
        raise BadRecipe(
            f"The recipe's order returned sample {wrong:,} for epoch {epoch}, and there are {samples:,}: 0 to "
            f"{samples - 1:,}."
        )
    return numbers.long()
