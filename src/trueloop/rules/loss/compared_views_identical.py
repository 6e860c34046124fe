"""LOS149 compared-views-identical: the two outputs that the loss compares are one and the same.

What it sees
------------
In all recorded training steps a model gets two views of a batch and the loss combines its two outputs: a similarity, a
distance, a contrastive loss. Both views are equal, and so are the outputs. The views are the inputs of two calls, or
the two parts of one input (`torch.cat([first, second])`).

Why it hurts
------------
A contrastive loss asks that two different views of a sample have similar embeddings. With equal views every encoder
fulfills it, an untrained one too: nothing is learned about what the views have in common. The usual causes: both
augmentations are drawn from generators with one seed, are applied in place, or are not applied at all.

Evidence
--------
The line that combines the outputs or the views, the lines of the calls, and the number of recorded steps that show it.

Use instead
-----------
    generator = torch.Generator().manual_seed(seed)      # once; each view takes the next numbers
    first, second = augment(x, generator), augment(x, generator)

When it is fine
---------------
Not reported: one input whose outputs differ by dropout, outputs that differ in any number, outputs without a graph
(targets), a model that is called twice for separate terms of the loss, one output compared with itself, and one tensor
that is stacked twice.
"""

from typing import Final

from trueloop.event import ModelUse, Operation, Place, RunEnded, StepProgram, Value
from trueloop.event.operation_names import (
    ATTENTION,
    DISTANCE_LOSSES,
    JOINS,
    MATRIX_PRODUCTS,
    PRODUCTS,
    RANDOM,
    RECURRENT,
    SCALINGS,
    SHAPES,
    SUBTRACTIONS,
    TRANSPOSES,
)
from trueloop.rules.program_view import ProgramView
from trueloop.rules.rule import Findings, Rule, Severity, path_and_line

__all__ = ["ComparedViewsIdentical"]

SAMPLED: Final = 3  # recorded steps that must show it
CLOSE: Final = 1e-6  # of the range of the numbers: the order of a sum
_COMBINING: Final = MATRIX_PRODUCTS | JOINS | SUBTRACTIONS | PRODUCTS | DISTANCE_LOSSES | {
    "einsum", "cosine_similarity", "stack", "cdist", "pairwise_distance", "dist", "cosine_embedding_loss",
    "triplet_margin_loss",
}  # fmt: skip
_JOINING: Final = JOINS | {"stack"}
_KEEPING: Final = SHAPES | TRANSPOSES | SCALINGS | {
    "contiguous", "clone", "to", "float", "t", "mT", "T", "normalize", "expand", "linear", "relu", "tanh", "gelu",
    "batch_norm", "layer_norm",
}  # fmt: skip
_MOST: Final = 24  # operations to follow back
_DRAWING: Final = RANDOM | RECURRENT | ATTENTION
"""Operations that draw random numbers, or may: dropout inside."""


class ComparedViewsIdentical(Rule, code="LOS149", severity=Severity.ERROR):
    not_applicable = "no training step was recorded"
    explained_by = ("mined-distance-constant",)

    def __init__(self) -> None:
        self._steps = 0
        self._found: dict[Place, list[tuple[StepProgram, tuple[ModelUse, ...]]]] = {}
        """By the line that combines two equal outputs or views: the steps, each with the calls."""

    def on_step_program(self, event: StepProgram) -> None:
        if event.phase != "training" or not event.losses:
            return
        view = ProgramView(event)
        uses = {output: use for use in event.models for output in use.outputs if use.grad}
        seen: dict[Place, tuple[ModelUse, ...]] = {}
        for operation in view.operations:
            calls = () if operation.place is None else _equal_outputs(view, operation, uses)
            calls = calls or _equal_parts(view, operation)
            if operation.place is not None and calls:
                seen.setdefault(operation.place, calls)
        for place, calls in seen.items():
            self._found.setdefault(place, []).append((event, calls))
        self._steps += bool(seen) or any(place in self._found for place in _places(view))

    def on_run_ended(self, _: RunEnded) -> Findings:
        for place, steps in self._found.items():
            event, calls = steps[-1]
            if len(steps) < max(SAMPLED, self._steps) or self.count("reported") > 1:
                continue
            yield self.finding(
                event,
                f"The two views of a batch that `{calls[0].name}` gets are equal in all {len(steps)} recorded steps, "
                "and so are its outputs: there is nothing to tell apart.",
                fix="Draw each view with new random numbers: make the generator once, and write no view in place.",
                evidence={"calls": [path_and_line(use.place) for use in calls],
                          "shape": list(event.values[calls[0].inputs[0]].shape), "sampled_steps": len(steps)},
                place=place,
            )  # fmt: skip


def _places(view: ProgramView) -> set[Place | None]:
    return {operation.place for operation in view.operations if operation.name in _COMBINING}


def _equal_outputs(view: ProgramView, operation: Operation, uses: dict[int, ModelUse]) -> tuple[ModelUse, ...]:
    """The two calls of one model whose outputs, or what was made of each, are combined and equal."""
    if operation.name not in _COMBINING or not operation.outputs or view.in_model(operation):
        return ()
    if view.on_loss_path.isdisjoint(operation.outputs):
        return ()
    learned = [i for i in operation.inputs if i in view.learned and view.values[i].grad and view.values[i].shape]
    if len(learned) < 2 or not _are_equal(view.values[learned[0]], view.values[learned[1]]):
        return ()
    one, other = (_use_behind(view, index, uses) for index in learned[:2])
    if one is None or other is None or one is other or one.model != other.model or not one.inputs or not other.inputs:
        return ()
    return (one, other) if _are_equal(*(view.values[use.inputs[0]] for use in (one, other))) else ()


def _equal_parts(view: ProgramView, operation: Operation) -> tuple[ModelUse, ...]:
    """The call of a model on two equal tensors that were put together, where nothing random makes them differ."""
    if operation.name not in _JOINING or len(operation.inputs) != 2 or not operation.outputs or operation.model >= 0:
        return ()
    one, other = operation.inputs
    values = view.values[one], view.values[other]
    apart = values[0].memory != values[1].memory and view.through_views(one) != view.through_views(other)
    if not apart or one in view.learned or other in view.learned or not _are_equal(*values):
        return ()
    for use in view.program.models:
        given = [view.through_views(i) for i in use.inputs]
        trained = use.grad and not view.on_loss_path.isdisjoint(use.outputs)
        if given == [operation.outputs[0]] and trained and not _is_random(view, use.model):
            return (use,)
    return ()


def _is_random(view: ProgramView, model: int) -> bool:
    """Dropout or noise inside a model: equal rows get different outputs."""
    return any(o.model == model and (o.name in _DRAWING or "dropout" in o.name) for o in view.operations)


def _use_behind(view: ProgramView, value: int, uses: dict[int, ModelUse]) -> ModelUse | None:
    """The call whose output this is, after reshapes, scales and layers on one tensor."""
    for _ in range(_MOST):
        if value in uses:
            return uses[value]
        maker = view.maker(value)
        if maker is None or maker.name not in _KEEPING or not maker.inputs:
            return None
        value = maker.inputs[0]
    return None


def _are_equal(one: Value, other: Value) -> bool:
    """The same numbers, most likely: equal sizes, smallest, largest and mean."""
    if sorted(one.shape) != sorted(other.shape) or one.constant or one.smallest is None or one.largest is None:
        return False
    if one.smallest != other.smallest or one.largest != other.largest or one.mean is None or other.mean is None:
        return False
    return abs(one.mean - other.mean) <= CLOSE * (one.largest - one.smallest)
