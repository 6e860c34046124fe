"""MDL111 no-activation-between-layers: two linear layers in a row compute what one of them could.

What it sees
------------
In a recorded step, the output of a linear layer goes into exactly one other linear layer, with nothing between them
but reshapes and dropout, and the width between the two is not a bottleneck.

Why it hurts
------------
The product of two matrices is one matrix: the second layer adds parameters and no capacity. A network without an
activation between its layers is a linear model.

Evidence
--------
The two weights with their shapes.

Use instead
-----------
    nn.Sequential(nn.Linear(2, 48), nn.Tanh(), nn.Linear(48, 8))

When it is fine
---------------
Not reported: a width not above the input and the output (low-rank factors, the code of an autoencoder), a branch beside
another linear layer on the same input (LoRA), outputs that several others read or that the model returns, frozen
layers, a head behind a backbone that ends in a linear layer, and anything between the two that is not linear.
"""

from typing import Final

from trueloop.event import Operation, StepProgram
from trueloop.event.operation_names import VIEWS
from trueloop.rules.program_view import ProgramView
from trueloop.rules.rule import Findings, Rule, Severity

__all__ = ["NoActivationBetweenLayers"]

_LINEAR: Final = ("linear",)
_NOTHING: Final = (VIEWS | {"batch_norm", "dropout_", "feature_dropout"}) - {"detach", "data"}
"""Between the layers. Batch normalization is affine for each unit."""


class NoActivationBetweenLayers(Rule, code="MDL111", severity=Severity.WARNING):
    not_applicable = "no linear layer was seen in a recorded step"

    def on_step_program(self, event: StepProgram) -> Findings:
        if event.phase != "training":
            return
        view = ProgramView(event)
        for operation in event.operations:
            if operation.name not in _LINEAR or len(operation.inputs) < 2 or operation.model < 0:
                continue
            following = _only_reader(view, operation.outputs[0])
            if following is None or following.name not in _LINEAR or not following.place:
                continue
            if following.inputs[1] == operation.inputs[1] or _has_sibling(view, operation):
                continue
            (width, entering), (leaving, again) = (view.values[o.inputs[1]].shape for o in (operation, following))
            if again != width or width <= min(entering, leaving) or not _both_train(view, operation, following):
                continue
            names = [view.values[o.inputs[1]].name for o in (operation, following)]
            if _parent(names[0]) != _parent(names[1]):
                continue
            yield self.finding(
                event,
                f"`{names[0]}` ({entering} to {width}) feeds `{names[1]}` ({width} to {leaving}) without an activation "
                f"between them: together they are one linear layer of {entering} to {leaving}.",
                fix="Put an activation (`nn.ReLU()`, `nn.GELU()`) between the two layers, or remove one.",
                evidence={"first": names[0], "second": names[1], "shapes": [[width, entering], [leaving, again]]},
                place=following.place,
            )


def _only_reader(view: ProgramView, value: int) -> Operation | None:
    """The one operation that reads a value, behind reshapes and dropout."""
    for _ in range(6):
        readers = [reader for reader in view.readers.get(value, []) if reader.outputs]
        if len(readers) != 1 or readers[0].inputs[0] != value or value in view.predictions:
            return None
        if readers[0].name not in _NOTHING:
            return readers[0]
        value = readers[0].outputs[0]
    return None


def _both_train(view: ProgramView, *operations: Operation) -> bool:
    """A frozen projection is another matter: it was trained for something else."""
    weights = [view.values[operation.inputs[1]] for operation in operations]
    return all(weight.origin == "parameter" and weight.grad and len(weight.shape) == 2 for weight in weights)


def _parent(name: str) -> str:
    """The module that holds a layer, without numbers: a backbone and the head behind it were not written as one."""
    return ".".join("#" if part.isdigit() else part for part in name.split(".")[:-2])


def _has_sibling(view: ProgramView, operation: Operation) -> bool:
    """Another linear layer reads the same input: LoRA beside its base, one of several projections."""
    entering = view.through_views(operation.inputs[0])
    return any(
        other is not operation and other.name in _LINEAR and view.through_views(other.inputs[0]) == entering
        for other in view.operations
    )
