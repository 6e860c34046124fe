"""LOS160 temperature-on-one-side: in distillation, only the teacher's or only the student's scores are softened.

What it sees
------------
A loss compares the probabilities of a teacher with those of a student. The scores of one of them are divided by a
temperature above 1, those of the other are not. That the loss is a distillation is shown by the factor of the squared
temperature behind it, or by a cross-entropy of the student with labels beside it.

Why it hurts
------------
A student that matches softened probabilities without a temperature of its own learns to be as unsure as they are: its
classes may be right, its probabilities are not. The other way round, it learns scores that are too large.

Evidence
--------
The temperature, whose scores it divides, and the number of recorded steps.

Use instead
-----------
    soft = F.softmax(teacher_logits / temperature, dim=1)
    log_student = F.log_softmax(student_logits / temperature, dim=1)
    loss = F.kl_div(log_student, soft, reduction="batchmean") * temperature**2

When it is fine
---------------
Not reported: targets that are sharpened (a temperature below 1), two different temperatures, values of actions as
targets of a policy, teachers whose scores come from a file without a temperature, temperatures that are learned.
"""

from typing import Final

from trueloop.event import Operation, StepProgram
from trueloop.event.operation_names import ADDITIONS, CLAMPS, LOSSES, PRODUCTS
from trueloop.rules.program_view import ProgramView
from trueloop.rules.rule import Finding, Findings, Rule, Severity

__all__ = ["TemperatureOnOneSide"]

SAMPLED: Final = 2  # recorded steps that must show it
SOFT: Final = 1.2  # temperatures below are not meant to soften
_EQUAL: Final = 1e-3
_STABLE: Final = ADDITIONS | CLAMPS  # log(probabilities + 1e-8)
_MOST: Final = 8


class TemperatureOnOneSide(Rule, code="LOS160", severity=Severity.WARNING):
    not_applicable = "no comparison of two models' probabilities was recorded"

    def on_step_program(self, event: StepProgram) -> Findings:
        if event.phase != "training" or not event.losses:
            return
        view = ProgramView(event)
        for operation in event.operations:
            found = _compared(view, operation)
            if found is None or view.on_loss_path.isdisjoint(operation.outputs):
                continue
            (student, own), (teacher, other) = found
            warm = max(own, other)
            if min(own, other) != 1 or warm < SOFT or not _is_distillation(view, operation, student, warm):
                continue
            if own > 1 and teacher not in view.predictions:
                continue  # stored scores may be softened already
            if self.count(operation.place) == SAMPLED:
                yield self._report(event, operation, warm, "student" if own > 1 else "teacher")

    def _report(self, event: StepProgram, operation: Operation, temperature: float, softened: str) -> Finding:
        sharp = "teacher" if softened == "student" else "student"
        return self.finding(
            event,
            f"The scores of the {softened} are divided by the temperature {temperature:.3g}, those of the {sharp} are "
            "not: the two distributions cannot agree when the models do.",
            fix=f"Divide the scores of the {sharp} by the same temperature in this loss.",
            evidence={"temperature": temperature, "softened": softened, "sampled_steps": SAMPLED},
            place=operation.place,
        )


def _compared(view: ProgramView, operation: Operation) -> tuple[tuple[int, float], tuple[int, float]] | None:
    """Student and teacher of a comparison of probabilities: the scores of each, and their temperature."""
    if len(operation.inputs) < 2:
        return None
    one, other = operation.inputs[:2]
    student: int | None
    if operation.name == "cross_entropy":
        student, teacher = one, _scores(view, other, "softmax")
    elif operation.name == "kl_div":
        student, teacher = _scores(view, one, "log_softmax"), _scores(view, other, "softmax")
    elif operation.name in PRODUCTS:
        if _scores(view, one, "softmax") is None:
            one, other = other, one
        student, teacher = _scores(view, other, "log_softmax"), _scores(view, one, "softmax")
    else:
        return None
    if student is None or teacher is None or view.values[student].shape != view.values[teacher].shape:
        return None
    if not view.values[student].grad or view.values[teacher].grad:
        return None
    return _unscaled(view, student), _unscaled(view, teacher)


def _scores(view: ProgramView, value: int, function: str) -> int | None:
    """What went into the softmax or log-softmax that a value is."""
    maker = view.maker(view.through_views(value))
    if maker is not None and maker.name == "log" and function == "log_softmax" and maker.inputs:
        function = "softmax"
        maker = view.maker(view.through_views(maker.inputs[0]))
        if maker is not None and maker.name in _STABLE and maker.inputs:
            maker = view.maker(view.through_views(maker.inputs[0]))
    return maker.inputs[0] if maker is not None and maker.name == function and maker.inputs else None


def _unscaled(view: ProgramView, value: int) -> tuple[int, float]:
    """The scores before a temperature, and the temperature; 1 if they are an output of a model as it is. A temperature
    inside the model counts too."""
    temperature = 1.0
    for _ in range(_MOST):
        value = view.through_views(value)
        maker = view.maker(value)
        factor = None if maker is None else view.factor(maker)
        if maker is None or factor is None:
            break
        temperature /= factor
        value = maker.inputs[0]
    return value, 1.0 if abs(temperature - 1) < _EQUAL else temperature


def _is_distillation(view: ProgramView, operation: Operation, student: int, temperature: float) -> bool:
    """The squared temperature is a factor of the loss, or the student's scores are compared with labels too."""
    models = {use.model for use in view.program.models if student in use.outputs}
    outputs = {index for use in view.program.models if use.model in models for index in use.outputs} | {student}
    for other in view.operations:
        labeled = other.name in LOSSES and len(other.inputs) > 1 and view.values[other.inputs[1]].dtype == "int64"
        if labeled and outputs.intersection(view.behind(other.inputs[0])):
            return True
    waiting, factor = list(operation.outputs), 1.0
    for _ in range(_MOST):
        readers = [o for value in waiting for o in view.readers.get(value, []) if o.name != "backward"]
        if not readers:
            return False
        factor *= view.factor(readers[0]) or 1.0
        if abs(factor - temperature**2) < _EQUAL * factor:
            return True
        waiting = list(readers[0].outputs)
    return False
