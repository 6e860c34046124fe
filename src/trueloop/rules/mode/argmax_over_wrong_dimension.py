"""MOD121 argmax-over-wrong-dimension: the metric takes argmax over another dimension than the classes of the loss.

What it sees
------------
In recorded steps and evaluations, `cross_entropy` or `nll_loss` reads one dimension of a model's output as the classes.
`argmax` (or `max`) of the same output runs over another dimension, followed through transposes and reshapes, and its
result is compared with labels: with the labels of the loss, or with integers of the same shape.

Why it hurts
------------
The metric compares positions with classes. Where the two dimensions have the same size (as many time steps as tags)
nothing fails: the accuracy stays near chance while the loss falls, and model selection by it follows noise.

Evidence
--------
The shape of the output, the dimension of the argmax, the dimension of the classes and the line of the loss.

Use instead
-----------
    logits = model(x)                             # [batch, classes, time]
    loss = F.cross_entropy(logits, tags)          # classes in dimension 1
    hits = (logits.argmax(dim=1) == tags).sum()

When it is fine
---------------
Not reported: an output that is matched in both directions (its losses, or its metrics, read both dimensions), labels
that number the samples of the batch (contrastive losses), an argmax that is compared with no label, and dimensions that
cannot be followed.
"""

from collections.abc import Iterator
from math import prod
from typing import Final, NamedTuple

from trueloop.event import Operation, Place, RunEnded, StepProgram
from trueloop.event.operation_names import CASTS, CLASS_LOSSES, EQUALITIES, SHAPES
from trueloop.rules.program_dims import Dims, dims_after
from trueloop.rules.program_view import ProgramView
from trueloop.rules.rule import Finding, Findings, Rule, Severity, on_line

__all__ = ["ArgmaxOverWrongDimension"]

MOST: Final = 48  # operations behind an output
_SCORES: Final = frozenset({"softmax", "log_softmax", "sigmoid"})
_DECISIONS: Final = ("argmax", "max")
_PASSES: Final = SHAPES | CASTS | {"contiguous", "clone", "detach", "data", "alias", "cpu"}

_Output = tuple[int, int, int]  # a model, the position of its output, and its number of dimensions


class _Loss(NamedTuple):
    dim: int
    place: Place | None


class _Decision(NamedTuple):
    event: StepProgram
    operation: Operation
    shape: tuple[int, ...]
    dim: int
    certain: bool  # the labels are those of a loss of the same output


class ArgmaxOverWrongDimension(Rule, code="MOD121", severity=Severity.ERROR):
    not_applicable = "no argmax of a model's output was compared with labels in a recorded step"

    def __init__(self) -> None:
        self._losses: dict[_Output, list[_Loss]] = {}
        self._decisions: dict[_Output, list[_Decision]] = {}

    def why_not_checked(self) -> str:
        return "" if self._decisions else self.not_applicable

    def on_step_program(self, event: StepProgram) -> None:
        view = ProgramView(event)
        for use in event.models:
            for position, value in enumerate(use.outputs):
                shape = view.values[value].shape
                if value in view.learned and len(shape) > 1:
                    self._read(view, value, (use.model, position, len(shape)))

    def _read(self, view: ProgramView, value: int, output: _Output) -> None:
        readers = list(_readers(view, value))
        shape, labels = view.values[value].shape, set[int]()
        for reader, dims in readers:
            if reader.name in CLASS_LOSSES and len(reader.inputs) > 1:
                classes = dims[1] if len(dims) > 1 else dims[0]
                if classes is not None:
                    labels.add(view.values[view.through_views(reader.inputs[1])].memory)
                    self._losses.setdefault(output, []).append(_Loss(classes, reader.place))
        for reader, dims in readers:
            over = view.dim_of(reader) if reader.name in _DECISIONS else None
            target = None if over is None or not dims else _compared_with(view, reader)
            if over is None or target is None or (dim := dims[over]) is None:
                continue
            certain = view.values[target].memory in labels
            decision = _Decision(view.program, reader, shape, dim, certain)
            self._decisions.setdefault(output, []).append(decision)

    def on_run_ended(self, end: RunEnded) -> Findings:
        reported = set[Place | None]()
        for output, decisions in self._decisions.items():
            losses = self._losses.get(output, [])
            classes = {loss.dim for loss in losses}
            both_ways = any(decision.dim in classes for decision in decisions)
            for decision in decisions:
                if len(classes) != 1 or decision.dim in classes or decision.operation.place in reported:
                    continue
                (dim,) = classes
                fits = decision.shape[decision.dim] == decision.shape[dim]  # else the labels count something else
                if not fits or (both_ways and not decision.certain):
                    continue
                reported.add(decision.operation.place)
                yield self._finding(decision, losses[0])

    def _finding(self, found: _Decision, loss: _Loss) -> Finding:
        shape, place = list(found.shape), found.operation.place
        return self.finding(
            found.event,
            f"`{found.operation.name}` of the output {shape} runs over dimension {found.dim}, but the loss"
            f"{on_line(loss.place, place)} reads dimension {loss.dim} as the classes. The result is compared with "
            "labels: the metric is meaningless.",
            fix=f"Take it over the classes: `dim={loss.dim}` of {shape}.",
            evidence={"shape": shape, "dim": found.dim, "classes_in_dim": loss.dim, "loss": loss.place},
            place=place,
        )


def _readers(view: ProgramView, value: int) -> Iterator[tuple[Operation, Dims]]:
    """The operations that read an output, also behind reshapes; each with the output's dimensions in what it reads."""
    waiting: list[tuple[int, Dims]] = [(value, tuple(range(len(view.values[value].shape))))]
    seen = {value}
    for _ in range(MOST):
        if not waiting:
            return
        value, dims = waiting.pop(0)
        for reader in view.readers.get(value, []):
            if reader.inputs[0] != value or not reader.outputs:
                continue
            yield reader, dims
            after = dims if reader.name in _SCORES else dims_after(view, reader, dims)
            if after is not None and reader.name not in _DECISIONS and reader.outputs[0] not in seen:
                seen.add(reader.outputs[0])
                waiting.append((reader.outputs[0], after))


def _compared_with(view: ProgramView, decision: Operation) -> int | None:
    """The integer labels that the positions are compared with: one for each, and not the numbers of the samples."""
    value = decision.outputs[-1]
    for _ in range(MOST):
        readers = view.readers.get(value, [])
        for reader in readers:
            if reader.name in EQUALITIES and len(reader.inputs) == 2:
                other = reader.inputs[reader.inputs[0] == value]
                return view.through_views(other) if _are_labels(view, value, other) else None
        following = [o for o in readers if o.name in _PASSES and o.outputs and o.inputs[0] == value]
        if not following:
            return None
        value = following[0].outputs[0]
    return None


def _are_labels(view: ProgramView, value: int, other: int) -> bool:
    labels = view.values[other]
    count = prod(labels.shape)
    numbers_of_samples = labels.mean == (count - 1) / 2 and (labels.smallest, labels.largest) == (0, count - 1)
    same = labels.shape == view.values[value].shape and other not in view.learned
    return same and "int" in labels.dtype and count > 1 and not numbers_of_samples
