"""carry=True: a recurrent model's state goes from batch to batch, detached (truncated backpropagation in time).

The model is called as `model(inputs, state)` and returns `(output, state)`; the state of the first batch is None. Two
hooks on the model do it, so everything else calls `model(inputs)` and gets the output. Evaluation has a state of its
own, and leaves that of the training as it was.
"""

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, final

import torch
from torch import Tensor, nn

from trueloop.data.source import Source, map_tensors
from trueloop.data.tracks import Tracks
from trueloop.errors import BadRecipe
from trueloop.measure.tensors import tensors_in
from trueloop.recipe.recipe import Recipe

__all__ = [
    "Carry",
    "attach_carry",
    "begin_carrying",
    "carry_of",
    "check_carried_data",
    "rows_at_once",
    "without_carried_state",
]

_NAME: Final = "trueloop_carry"


@final
class Carry:
    """The state of one model: copied with it."""

    def __init__(self, keep_finite: bool) -> None:
        self.state: Any = None
        self.keeps = False  # Outside a run (an export, a plan) each call begins with None
        self.keep_finite = keep_finite  # A batch that is skipped as non-finite must not spoil those after it

    def before(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        return ((*args, self.state), kwargs) if args else (args, kwargs | {"state": self.state})

    def after(self, module: nn.Module, args: tuple[Any, ...], answer: Any) -> Any:
        if not isinstance(answer, tuple) or len(answer) != 2:
            raise BadRecipe(
                f"With carry=True the model returns (output, state), and {type(module).__name__} returned a "
                f"{type(answer).__name__}: write `return output, state` in its forward, or carry=False."
            )
        output, state = answer
        if not self.keeps:
            return output
        state = map_tensors(state, torch.detach)
        self.state = _finite(state, self.state) if self.keep_finite else state
        return output


def _finite(state: Any, before: Any) -> Any:
    """Without waiting for the device: values that are not finite are those of before, or zeros."""
    old = list(tensors_in(before))
    kept = iter(old if len(old) == len(list(tensors_in(state))) else [None] * len(list(tensors_in(state))))

    def kept_finite(tensor: Tensor) -> Tensor:
        other = next(kept)
        if not tensor.is_floating_point():
            return tensor
        other = torch.zeros_like(tensor) if other is None or other.shape != tensor.shape else other
        return torch.where(torch.isfinite(tensor).all(), tensor, other)

    return map_tensors(state, kept_finite)


def attach_carry(recipe: Recipe, model: nn.Module) -> None:
    """If the recipe asks for it. The state is kept from `begin_carrying` on."""
    if not recipe.carry:
        return
    try:
        inspect.signature(model.forward).bind(None, None)
    except TypeError:
        raise BadRecipe(
            f"With carry=True the model is called as model(inputs, state), which {type(model).__name__} does not take. "
            "Nothing was run: write `def forward(self, inputs, state=None)`, and return (output, state)."
        ) from None
    carry = Carry(keep_finite=recipe.on_nonfinite != "stop")
    model.register_forward_pre_hook(carry.before, with_kwargs=True)
    model.register_forward_hook(carry.after)
    setattr(model, _NAME, carry)


def begin_carrying(model: nn.Module) -> None:
    if (carry := carry_of(model)) is not None:
        carry.keeps = True


def carry_of(model: nn.Module) -> Carry | None:
    found = getattr(model, _NAME, None)
    return found if isinstance(found, Carry) else None


@contextmanager
def without_carried_state(model: nn.Module) -> Iterator[None]:
    """Inside, the first state is None; afterwards it is what it was before."""
    carry = carry_of(model)
    before = None if carry is None else carry.state
    if carry is not None:
        carry.state = None
    try:
        yield
    finally:
        if carry is not None:
            carry.state = before


def check_carried_data(recipe: Recipe, world: int, **sources: Source | None) -> None:
    """Row n of a batch continues row n of the batch before it: every batch needs the same rows."""
    for name, source in sources.items() if recipe.carry else ():
        if source is None:
            continue
        if not source.by_index:
            raise BadRecipe(
                f"carry=True needs {name} data by index, as Tracks(tokens, batch, length). Nothing was run."
            )
        size = rows_at_once(source, recipe)
        if size < world:
            raise BadRecipe(
                f"carry=True gives each of {world} processes some of the tracks, and the {name} data have {size}. "
                f"Nothing was run: train in {size} processes, or cut the sequence into more tracks."
            )
        if name == "training" and size != recipe.batch:
            raise BadRecipe(f"The training data are {size} tracks, and batch={recipe.batch}: set batch={size}.")
        if len(source) % size and not (name == "training" and recipe.drop_last):
            raise BadRecipe(
                f"carry=True needs full batches, and the {len(source):,} {name} samples are not a multiple of {size}. "
                "Nothing was run: use Tracks(tokens, batch, length), which leaves the rest out."
            )


def rows_at_once(source: Source, recipe: Recipe) -> int:
    """The samples of a batch."""
    return source.batch if isinstance(source, Tracks) else recipe.batch
