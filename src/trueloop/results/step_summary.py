"""A recorded training step in a few lines: models, shapes, losses, who trains the parameters, the user's own lines."""

from collections import Counter
from collections.abc import Iterator
from typing import Final

from trueloop.event import Operation, Place, StepProgram
from trueloop.usercode.source import shown_place

__all__ = ["step_summary"]

MOST_LINES: Final = 24  # of the user's own operations


def step_summary(program: StepProgram) -> tuple[str, ...]:
    return tuple(_lines(program))


def _lines(program: StepProgram) -> Iterator[str]:
    cut = "" if program.complete else ", more were not recorded"
    yield f"step {program.step}: {len(program.operations)} operations{cut}"
    for use in program.models:
        mode = "train mode" if use.training else "eval mode"
        shapes = f"{_shapes(program, use.inputs)} -> {_shapes(program, use.outputs)}"
        yield f"model {use.name} ({mode}{'' if use.grad else ', no grad'}): {shapes}{_at(use.place)}"
    yield from (f"backward on: {_shapes(program, (loss,))}" for loss in program.losses)
    trained = Counter(value.trainer for value in program.values if value.origin == "parameter" and value.trainer)
    if trained:
        yield "parameters trained by " + ", ".join(f"{who}: {count}" for who, count in trained.items())
    own = [operation for operation in program.operations if operation.direct and operation.place is not None]
    yield from (_operation(program, operation) for operation in own[:MOST_LINES])
    if len(own) > MOST_LINES:
        yield f"and {len(own) - MOST_LINES} more operations of your own lines"


def _operation(program: StepProgram, operation: Operation) -> str:
    shapes = f"({_shapes(program, operation.inputs)}) -> {_shapes(program, operation.outputs)}"
    return f"{shown_place(operation.place) if operation.place else ''} {operation.name}{shapes}".strip()


def _shapes(program: StepProgram, values: tuple[int, ...]) -> str:
    """'batch float32 [64, 10], parameter fc.weight float32 [10, 8]'."""
    words = []
    for value in (program.values[number] for number in values):
        origin = "" if value.origin == "operation" else f"{value.origin} "
        name = f"{value.name} " if value.name else ""
        words.append(f"{origin}{name}{value.dtype} {list(value.shape)}")
    return ", ".join(words) or "nothing"


def _at(place: Place | None) -> str:
    return "" if place is None else f" at {shown_place(place)}"
