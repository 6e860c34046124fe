"""A model cut into the stages of a pipeline, between its repeated blocks: `forward` stays as its author wrote it.

A stage runs the whole `forward`, with three changes. Blocks of earlier stages hand on what they are given. The first
block of the stage is given what the stage before has sent. At the first block of the next stage `forward` is left, and
what that block would have been given is the result. So positions, masks and whatever else blocks are given are computed
on each stage, and so is what comes after the last block, on the last one. Weights outside of blocks are on all stages.
"""

from collections.abc import Callable, Sequence
from functools import partial, wraps
from typing import Any, final

import torch
from torch import Tensor, nn

from trueloop.errors import BadRecipe
from trueloop.measure.graph import leaves_behind
from trueloop.measure.randomness import seed_all
from trueloop.measure.tensors import tensors_in

__all__ = ["Stages", "find_break", "find_early_draws", "refuse_uneven"]


class _Left(BaseException):
    """Leaves a forward. Not an Exception: a model may catch those."""

    def __init__(self, hidden: Tensor) -> None:
        self.hidden = hidden


@final
class Stages:
    """A model whose blocks are asked for by stage. `outside`: what a call of the model does outside of `run`."""

    def __init__(
        self, model: nn.Module, blocks: Sequence[nn.Module], count: int, outside: Callable[..., Any] | None = None
    ) -> None:
        refuse_uneven(model, len(blocks), count)
        self.model, self.blocks, self.count = model, blocks, count
        self.each = len(blocks) // count
        self.stage = 0
        self.marks: list[Tensor] | None = None  # what skipped blocks hand on, where somebody wants to find it again
        self.on_first: Callable[[], None] | None = None  # called before the first block of the stage
        self._hidden: Tensor | None = None
        self._next: int | None = None  # the block that must be called next; None: outside of `run`
        self._forwards = [block.forward for block in blocks]
        for number, block in enumerate(blocks):
            block.forward = _Placed(self, number, block.forward)
        self._forward = model.forward
        if outside is not None:
            model.forward = self._entrance(model.forward, outside)

    def restore(self) -> None:
        """The model as it was."""
        for block, forward in zip(self.blocks, self._forwards, strict=True):
            block.forward = forward
        self.model.forward = self._forward

    def _entrance(self, forward: Callable[..., Any], outside: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(forward)  # its parameters are looked at
        def enter(*args: Any, **kwargs: Any) -> Any:
            return forward(*args, **kwargs) if self._next is not None else outside(self, forward, *args, **kwargs)

        return enter

    def run(self, call: Callable[[], Any], hidden: Tensor | None) -> Any:
        """`call`: of the model. `hidden`: from the stage before. Returns what the next one is given; on the last stage,
        what the model returns."""
        self._hidden, self._next = hidden, 0
        try:
            result = call()
        except _Left as left:
            return left.hidden
        finally:
            ended, self._next, self._hidden = self._next, None, None
        if ended != len(self.blocks):
            raise _no_chain(self.model, f"its forward called {ended} of its {len(self.blocks)} blocks")
        return result

    def stage_of(self) -> dict[Tensor, int]:
        """Each parameter that only the blocks of one stage have."""
        places: dict[Tensor, set[int | None]] = {}
        inside = {module: number // self.each for number, block in enumerate(self.blocks) for module in block.modules()}
        for module in self.model.modules():
            for parameter in module.parameters(recurse=False):
                places.setdefault(parameter, set()).add(inside.get(module))
        alone = {parameter: next(iter(stages)) for parameter, stages in places.items() if len(stages) == 1}
        return {parameter: stage for parameter, stage in alone.items() if stage is not None}

    def passed(self, number: int, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A block of the model is called."""
        if self._next is None:
            return forward(*args, **kwargs)
        first = self.stage * self.each
        if number != self._next or not args or not isinstance(args[0], Tensor):
            said = "takes no tensor as its first argument" if number == self._next else "is not called in its order"
            raise _no_chain(self.model, f"block {number} {said}")
        self._next += 1
        if number < first:
            return self._handed_on(args[0])
        if number == first + self.each:
            raise _Left(args[0].contiguous())
        if number == first and self.on_first is not None:
            self.on_first()
        if number == first and self._hidden is not None:
            args = (self._hidden.clone(), *args[1:])  # a block may change what it is given in place
        result = forward(*args, **kwargs)
        if not isinstance(result, Tensor):
            raise _no_chain(self.model, f"block {number} returns a {type(result).__name__}, not one tensor")
        return result

    def _handed_on(self, given: Tensor) -> Tensor:
        if self.marks is None or not given.is_floating_point():
            return given
        mark = given.detach().requires_grad_()
        self.marks.append(mark)
        return mark.clone()


@final
class _Placed:
    """In place of a block's forward."""

    def __init__(self, stages: Stages, number: int, forward: Callable[..., Any]) -> None:
        self.stages, self.number, self.forward = stages, number, forward

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.stages.passed(self.number, self.forward, args, kwargs)


def refuse_uneven(model: nn.Module, blocks: int, stages: int) -> None:
    """Raises BadRecipe."""
    name = type(model).__name__
    if not blocks:
        raise BadRecipe(
            f"parallel=pp splits repeated blocks (modules with layers in a ModuleList or a Sequential), and {name} has "
            "none. Nothing was run: use parallel=fsdp."
        )
    if blocks % stages:
        fitting = [each for each in range(2, blocks + 1) if blocks % each == 0]
        raise BadRecipe(
            f"parallel=pp cannot split the {blocks} repeated blocks of {name} into {stages} equal stages. Nothing was "
            f"run: use --nproc {min(fitting, key=lambda each: abs(each - stages)) if fitting else 1}, or parallel=fsdp."
        )


def find_break(stages: Stages, call: Callable[[], Any]) -> None:
    """Runs all stages one after the other in this process. Raises BadRecipe if one needs more of an earlier stage than
    it is sent: a connection past several blocks, an encoder's output."""
    hidden: Tensor | None = None
    try:
        with torch.enable_grad():
            for stage in range(stages.count):
                stages.stage, stages.marks = stage, []
                result = stages.run(call, hidden)
                reached = leaves_behind(tensors_in(result))
                if any(id(mark) in reached for mark in stages.marks):
                    raise _no_chain(stages.model, f"stage {stage} uses outputs of blocks of earlier stages")
                if stage < stages.count - 1:
                    hidden = result.detach()
                    hidden.requires_grad_(hidden.is_floating_point())
    finally:
        stages.marks, stages.stage = None, 0


def find_early_draws(stages: Stages, call: Callable[[], Any]) -> None:
    """Raises BadRecipe if a later stage uses numbers that are drawn before the blocks (dropout whose result is added
    after them): each stage draws its own."""
    stages.on_first = partial(seed_all, 0)
    hidden: Tensor | None = None
    try:
        with torch.no_grad():
            for stage in range(stages.count):
                stages.stage, results = stage, []
                for seed in (1, 2):
                    seed_all(seed)
                    results.append(stages.run(call, hidden))
                one, other = ([each for each in tensors_in(result) if each.is_floating_point()] for result in results)
                if stage and not all(torch.allclose(*pair, equal_nan=True) for pair in zip(one, other, strict=True)):
                    raise _no_chain(stages.model, "random numbers drawn before the blocks are used after them")
                hidden = results[0]
    finally:
        stages.on_first, stages.stage = None, 0


def _no_chain(model: nn.Module, why: str) -> BadRecipe:
    return BadRecipe(
        f"parallel=pp needs a chain of blocks, each given the output of the one before as its first argument, and in "
        f"{type(model).__name__} {why}. Nothing was run: use parallel=fsdp."
    )
