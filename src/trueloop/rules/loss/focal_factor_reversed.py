"""LOS181 focal-factor-reversed: the focal factor is that of a wrong probability, and rewards wrong predictions.

What it sees
------------
In two recorded training steps a loss of each element is multiplied by a power, and gradients flow through both. The
power is `p ** gamma` or `(1 - p) ** gamma`, and `p` is the sigmoid of the same logits, not the probability of the
true class: it is the same for both labels. Or it is `p_true ** gamma`, with `p_true = exp(-loss)`.

Why it hurts
------------
The focal loss makes easy elements count less. Here elements of one class, or of both, count less the more wrong they
are: the loss falls to 0 by confident mistakes. With `(1 - p) ** gamma` for both labels, false alarms cost nothing.

Evidence
--------
The line of the power and its exponent, and the line of the loss that it multiplies.

Use instead
-----------
    ce = F.binary_cross_entropy_with_logits(logits, target, reduction="none")
    p_true = p * target + (1 - p) * (1 - target)      # or torch.exp(-ce)
    loss = ((1 - p_true) ** gamma * ce).mean()

When it is fine
---------------
Not reported: powers without a gradient (weights of a robust loss), powers that stand behind a mask of the labels (one
formula for each class), and batches of one class.
"""

from typing import Final

from trueloop.event import Operation, StepProgram
from trueloop.event.operation_names import (
    BINARY_LOSSES,
    CLASS_LOSSES,
    DIFFERENCES,
    NEGATIONS,
    POWERS,
    PRODUCTS,
    REVERSED_SUBTRACTIONS,
)
from trueloop.rules.program_view import ProgramView, number_in
from trueloop.rules.rule import Finding, Findings, Rule, Severity, on_line

__all__ = ["FocalFactorReversed"]

SAMPLED: Final = 2  # steps that must show it
_MOST: Final = 16  # factors, or operations that are followed


class FocalFactorReversed(Rule, code="LOS181", severity=Severity.ERROR):
    not_applicable = "no training step was recorded"

    def on_step_program(self, event: StepProgram) -> Findings:
        if event.phase != "training":
            return
        view = ProgramView(event)
        for operation in event.operations:
            loss = operation.outputs[0] if operation.outputs and _is_elementwise(operation) else None
            if loss is None or loss not in view.on_loss_path or not view.values[loss].shape:
                continue
            for product, factors in _products(view, loss):
                power = next((f for f in factors if _is_wrong(view, f, operation)), None)
                others = [factor for factor in factors if factor != power]
                if power is None or not _stands_alone(view, product, others):
                    continue
                maker = view.maker(power)
                if maker is not None and self.count(maker.place, operation.place) == SAMPLED:
                    yield self._report(view, event, maker, operation)

    def _report(self, view: ProgramView, event: StepProgram, power: Operation, loss: Operation) -> Finding:
        exponent = _exponent(power)
        what = "the probability of the true class, not 1 minus it"
        if _sigmoid_behind(view, power.inputs[0]) is not None:
            what = "a probability that is the same for both labels"
        place = power.place or loss.place
        return self.finding(
            event,
            f"The factor of `{loss.name}`{on_line(loss.place, place)} is a power of {what}: elements that are "
            f"confidently wrong cost next to nothing.",
            fix="Use `(1 - p_true) ** gamma` with `p_true = p * target + (1 - p) * (1 - target)`, or `torch.exp(-ce)`.",
            evidence={"exponent": exponent, "loss": loss.place},
            place=place,
        )


def _is_elementwise(operation: Operation) -> bool:
    loss = operation.name in BINARY_LOSSES or operation.name in CLASS_LOSSES
    return loss and len(operation.inputs) >= 2 and dict(operation.options).get("reduction") == "none"


def _products(view: ProgramView, loss: int) -> list[tuple[int, list[int]]]:
    """Products of the loss of each element with other values of its shape: the result, and all factors."""
    found: list[tuple[int, list[int]]] = []
    waiting, factors = [loss], list[int]()
    while waiting and len(found) < _MOST:
        value = waiting.pop()
        for reader in view.readers.get(value, ()):
            same = reader.outputs and view.values[reader.outputs[0]].shape == view.values[loss].shape
            if reader.name not in PRODUCTS or not same:
                continue
            factors += [f for i in reader.inputs if i != value for f in _factors(view, i)]
            found.append((reader.outputs[0], list(factors)))
            waiting.append(reader.outputs[0])
    return found[-1:]


def _factors(view: ProgramView, value: int) -> list[int]:
    found: list[int] = []
    waiting = [value]
    while waiting and len(found) < _MOST:
        value = waiting.pop()
        maker = view.maker(value)
        if maker is not None and maker.name in PRODUCTS and maker.inputs:
            waiting += maker.inputs
        else:
            found.append(value)
    return found


def _exponent(power: Operation) -> float:
    if power.name == "square":
        return 2.0
    return next((number for _, text in power.options if (number := number_in(text)) is not None), 0.0)


def _is_wrong(view: ProgramView, factor: int, loss: Operation) -> bool:
    maker = view.maker(factor)
    if maker is None or maker.name not in POWERS or len(maker.inputs) != 1 or not view.values[factor].grad:
        return False
    if _exponent(maker) < 0.5:
        return False
    base = view.maker(view.through_views(maker.inputs[0]))
    if base is not None and base.name == "exp" and base.inputs:  # exp(-ce): the probability of the true class
        negated = view.maker(base.inputs[0])
        return negated is not None and negated.name in NEGATIONS and negated.inputs[:1] == loss.outputs[:1]
    sigmoid = _sigmoid_behind(view, maker.inputs[0])
    if sigmoid is None or loss.name not in BINARY_LOSSES:
        return False
    scored = view.through_views(loss.inputs[0])
    own = {view.through_views(sigmoid.outputs[0]), view.through_views(sigmoid.inputs[0])}
    target = view.values[loss.inputs[1]]
    both = target.smallest is not None and target.largest is not None and target.smallest < 0.5 < target.largest
    return scored in own and both and not target.grad


def _sigmoid_behind(view: ProgramView, base: int) -> Operation | None:
    """The sigmoid of `p` or `1 - p`."""
    maker = view.maker(view.through_views(base))
    if maker is not None and maker.name in DIFFERENCES and len(maker.inputs) == 1:
        ones = {number_in(text) for _, text in maker.options} - {None}
        first = maker.name in REVERSED_SUBTRACTIONS or dict(maker.options).get("0") is not None
        if ones != {1.0} or not first:
            return None
        maker = view.maker(view.through_views(maker.inputs[0]))
    return maker if maker is not None and maker.name == "sigmoid" and maker.inputs else None


def _stands_alone(view: ProgramView, product: int, factors: list[int]) -> bool:
    """No mask selects elements before or after the product, and nothing with a graph is added to it."""
    if any(_may_select(view, factor) for factor in factors):
        return False
    waiting, seen = [product], {product}
    while waiting and len(seen) < _MOST:
        for reader in view.readers.get(waiting.pop(), ()):
            if any(_may_select(view, i) for i in reader.inputs if i not in seen):
                return False
            if reader.name not in ("mean", "sum"):
                waiting += [i for i in reader.outputs if i not in seen]
                seen.update(reader.outputs)
    return True


def _may_select(view: ProgramView, value: int) -> bool:
    """0 for some elements, or with a graph of its own."""
    known = view.values[value]
    return known.grad or known.dtype == "bool" or known.smallest is None or known.smallest <= 0
