"""The operations of one forward and backward of a model, and what is missing for them."""

from collections.abc import Callable, Iterable
from typing import Any, Final

import torch
from torch import Tensor, nn

from trueloop.engine.call_model import call_model
from trueloop.engine.loop import Loop
from trueloop.engine.parts import Parts
from trueloop.engine.torch_settings import torch_settings
from trueloop.inspection.determinism import needs_the_switch
from trueloop.inspection.missing_support import KINDS, Lack, lacks_of
from trueloop.inspection.operation_log import OperationUse, operations_of
from trueloop.measure.randomness import fence
from trueloop.results.check import counted
from trueloop.results.document import Column, Document, Part, Table, Text
from trueloop.torch_private.dispatch import pytree
from trueloop.usercode.source import shown_place

__all__ = ["inspect_ops", "plain_step", "recipe_step"]

SHOWN: Final = 3  # Lines of the user's in one row


def recipe_step(parts: Parts) -> Callable[[], None]:
    """Forward and backward of the first step, as the engine runs it; the whole step, where the recipe has its own."""

    def step() -> None:
        loop = Loop(parts)
        parts.into_training_mode()
        with torch_settings(parts.precision, parts.recipe):
            windows = loop.windows()
            window = next(windows)
            if loop.program.steps_itself(window):
                loop.program.take(window)
            else:
                targets = parts.count_targets(window)
                for micro, divisor in window.divided(parts.strategy, targets):
                    loop.program.backward(micro, divisor)
            windows.close()

    return step


def plain_step(model: nn.Module, inputs: Any) -> Callable[[], None]:
    """The loss is the sum of the outputs."""

    def step() -> None:
        output = call_model(model, inputs)
        leaves = [leaf for leaf in pytree.tree_leaves(output) if isinstance(leaf, Tensor)]
        sums = [leaf.sum() for leaf in leaves if leaf.requires_grad]
        if sums:
            torch.stack([each.float() for each in sums]).sum().backward()  # type: ignore[no-untyped-call]

    return step


def inspect_ops(model: nn.Module, step: Callable[[], None], title: str) -> Document:
    with fence():
        uses, error = operations_of(step, model)
        owned = frozenset(each.untyped_storage().data_ptr() for each in (*model.parameters(), *model.buffers()))
        with torch.no_grad():
            found = [(use, list(lacks_of(use, owned))) for use in uses]
    model.zero_grad(set_to_none=True)
    notes = [_stopped(error)] if error is not None else []
    calls = sum(use.calls for use in uses)
    heading = f"{title}: {counted(len(uses), 'operation')}, {counted(calls, 'call')} in one forward and backward"
    missing = [(use, lack) for use, lacks in found for lack in lacks]
    parts: list[Part] = [_missing(missing) if missing else Text(_all_well(error is not None), tone="good")]
    notes.append(_switched(use for use in uses if needs_the_switch(use.operator, use.sample)))
    return Document(heading, (*parts, _every(found)), tuple(note for note in notes if note))


def _stopped(error: Exception) -> str:
    said = str(error).strip().partition("\n")[0].rstrip(".")[:200]
    return f"The step ended with {type(error).__name__}: {said}. Operations after that are not listed."


def _all_well(stopped: bool) -> str:
    seen = "every operation up to the error" if stopped else "every operation"
    return (
        f"Nothing is missing: {seen} has a backward where one is needed, and {', '.join(KINDS[1:-1])} and {KINDS[-1]}."
    )


def _missing(found: list[tuple[OperationUse, Lack]]) -> Table:
    ordered = sorted(found, key=lambda pair: KINDS.index(pair[1].kind))
    rows = tuple(
        (f"no {lack.kind}", _named(use), use.calls, _where(use), lack.meaning) for use, lack in ordered
    )  # fmt: skip
    heads = (Column("missing"), Column("operation", "name"), Column("calls", "count"), Column("where"))
    return Table("What is missing", (*heads, Column("what it means")), rows)


def _switched(uses: Iterable[OperationUse]) -> str:
    named = "; ".join(f"{_named(use)} ({_where(use)})" for use in uses)
    how = "`torch.use_deterministic_algorithms(True)`, or deterministic=true in a recipe"
    return f"Deterministic on CUDA only with {how}: {named}." if named else ""


def _every(found: list[tuple[OperationUse, list[Lack]]]) -> Table:
    heads = (Column("operation", "name"), Column("calls", "count"), Column("where"), Column("without"))
    rows = tuple((_named(use), use.calls, _where(use), ", ".join(lack.kind for lack in lacks)) for use, lacks in found)
    return Table("Every operation", heads, rows, show="page")


def _named(use: OperationUse) -> str:
    return f"{use.name}, in the backward" if use.backward else use.name


def _where(use: OperationUse) -> str:
    named = [shown_place(place) for place in use.places] or list(use.layers)
    rest = len(named) - SHOWN
    if not named:
        return "the loss, or the engine"
    return ", ".join(named[:SHOWN]) + (f" and {rest} more" if rest > 0 else "")
