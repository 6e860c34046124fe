"""LOS118 derivative-without-graph: a derivative in the loss was computed without `create_graph=True`.

What it sees
------------
In a recorded training step, `torch.autograd.grad` differentiates the output of a model by its inputs without
`create_graph=True`, and the loss is computed from the result.

Why it hurts
------------
Without its own graph the derivative is a constant: the part of the loss that depends on it (a force, a residual of a
differential equation, a gradient penalty) sends no gradient, or a wrong one, to the weights.

Evidence
--------
The shape of the derivative and the line of the loss.

Use instead
-----------
    forces = -torch.autograd.grad(energy.sum(), positions, create_graph=True)[0]

When it is fine
---------------
Not reported: derivatives by weights (first-order meta-learning), derivatives that only change the input of a model
(adversarial examples), and derivatives that the loss does not use.
"""

from trueloop.event import StepProgram
from trueloop.rules.program_view import ProgramView
from trueloop.rules.rule import Findings, Rule, Severity

__all__ = ["DerivativeWithoutGraph"]


class DerivativeWithoutGraph(Rule, code="LOS118", severity=Severity.ERROR):
    not_applicable = "`torch.autograd.grad` was not called in a recorded step"

    def on_step_program(self, event: StepProgram) -> Findings:
        if event.phase != "training":
            return
        view = ProgramView(event)
        for operation in event.operations:
            if operation.name != "grad" or dict(operation.options).get("create_graph") != "False":
                continue
            if any(index in view.learned for index in operation.inputs[1:]):
                continue  # by weights: first-order meta-learning
            used = [index for index in operation.outputs if index in view.on_loss_path]
            if not used or operation.inputs[0] not in view.learned or _enters_a_model(view, used[0]):
                continue
            yield self.finding(
                event,
                f"A derivative {list(view.values[used[0]].shape)} of the model's output is in the loss, but it was "
                "computed without `create_graph=True`: the weights get no gradient through it.",
                fix="Call `torch.autograd.grad(..., create_graph=True)`.",
                evidence={"shape": list(view.values[used[0]].shape)},
                place=operation.place,
            )


def _enters_a_model(view: ProgramView, value: int) -> bool:
    return any(value in view.behind(index) for use in view.program.models for index in use.inputs)
