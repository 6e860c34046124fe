"""LOS103 logits-passed-as-probabilities: a loss that needs (log-)probabilities gets something else.

What it sees
------------
`nll_loss` with logits (rows with values above zero that are not log-probabilities) or with probabilities; `kl_div` with
probabilities or positive logits instead of log-probabilities, or with `log_target=True` and a target of
probabilities; `ctc_loss` with values above zero; `binary_cross_entropy`, or a likelihood that takes `log(p)` and
`log(1 - p)`, with the output of a linear layer, a convolution or a product clamped to [0, 1]. And a mixture whose
likelihood is maximized, `logsumexp(weights + log-densities)`, with a softmax as its weights, or with the output of a
layer that reaches the loss in no other way.

Why it hurts
------------
None of these functions checks its input. `nll_loss` of logits has no minimum: it falls forever as logits grow, and says
nothing about probabilities. `kl_div` of probabilities is not a divergence. With `log_target=True` it takes the
exponential of its target: of probabilities that is nearly the same for each class. `ctc_loss` of logits is not a
likelihood, and neither is a mixture whose weights do not sum to 1: all of them can grow. A clamp gives no gradient to
samples outside the interval, which are exactly the most wrong ones.

Evidence
--------
The loss function, the shape and range of its input, what its rows are, and the operations that produced it.

Use instead
-----------
    F.nll_loss(F.log_softmax(logits, dim=1), y)           # or F.cross_entropy(logits, y)
    F.kl_div(F.log_softmax(logits, dim=1), teacher_probabilities, reduction="batchmean")
    F.binary_cross_entropy_with_logits(logits, y)

When it is fine
---------------
Not reported: unnormalized log-likelihoods that are never positive (mixtures, masked classes), `ctc_loss` of
log-probabilities minus the logarithm of a prior, weights of a mixture whose own `logsumexp` is subtracted, a clamp on
probabilities that guards against log(0), and a hard sigmoid (`(x / 6 + 0.5).clamp(0, 1)`).
"""

from typing import Final

from trueloop.event import LossComputed, Operation, Place, StepProgram
from trueloop.event.operation_names import (
    ADDITIONS,
    CLAMP_NODES,
    CLAMPS,
    CONVOLUTIONS,
    DIFFERENCES,
    LOGARITHMS,
    MATRIX_PRODUCTS,
    NEGATIONS,
    PRODUCTS,
    VIEWS,
)
from trueloop.rules.program_mixtures import wrong_weights
from trueloop.rules.program_view import ProgramView, number_in
from trueloop.rules.rule import Findings, Rule, Severity, facts

__all__ = ["LogitsPassedAsProbabilities"]

CALLS: Final = 2  # Calls that must show it: a first batch may be all zeros
CLEARLY_POSITIVE: Final = 0.05  # A log-probability is at most zero; rounding in half precision stays far below this

OUTSIDE: Final = 0.25  # of the unit interval: rounding, and scores that are nearly probabilities, stay far below this
EDGE: Final = 0.1  # the bounds of a clamp that keeps probabilities away from 0 and 1
_LINEAR: Final = tuple(f"{name}Backward" for name in ["Addmm", "Mm", "Bmm", "Baddbmm", "Convolution", "Linear", "Mv"])
_SCORES: Final = MATRIX_PRODUCTS | CONVOLUTIONS | {"linear", "bilinear", "addmm", "baddbmm", "dot", "mv", "embedding"}
_FIX: Final = {
    "nll_loss": "Use `cross_entropy(logits, y)`, or apply `log_softmax(logits, dim=1)` before `nll_loss`.",
    "kl_div": "Pass log-probabilities as the first argument: `kl_div(log_softmax(logits, dim=1), ...)`.",
    "log_target": "Pass the target as log-probabilities, or call `kl_div` without `log_target=True`.",
    "ctc_loss": "Apply `log_softmax(dim=-1)` to the scores before `ctc_loss`, in training as well.",
    "likelihood": "Remove the clamp and use `binary_cross_entropy_with_logits(logits, y)`, or apply a sigmoid before "
    "the clamp.",
    "logits": "Apply `log_softmax` to the weights of the mixture, over the dimension of the `logsumexp`.",
    "probabilities": "Use `log_softmax` instead of `softmax` for the weights of the mixture.",
    "binary_cross_entropy": "Remove the clamp and use `binary_cross_entropy_with_logits(logits, y)`.",
}


class LogitsPassedAsProbabilities(Rule, code="LOS103", severity=Severity.ERROR):
    not_applicable = "no loss that needs probabilities was called"

    def __init__(self) -> None:
        self._clamps: dict[Place | None, Place] = {}
        """The line of the clamp by the line of the loss; visible on the first calls only."""

    def on_loss_computed(self, event: LossComputed) -> Findings:
        wrong = _what_is_wrong(event)
        if not wrong:
            return
        if event.preceding_place is not None and event.function == "binary_cross_entropy":
            self._clamps[event.place] = event.preceding_place
        calls = self.count(event.function, event.place)
        if calls < CALLS:
            return
        yield self.finding(
            event,
            f"`{event.function}` gets {wrong}.",
            fix=_FIX["log_target" if _is_log_target(event) else event.function],
            evidence=facts(event, "function input_shape input_range rows produced_by=preceding", calls=calls),
            place=self._clamps.get(event.place),
        )

    def on_step_program(self, event: StepProgram) -> Findings:
        if event.phase != "training":
            return
        view = ProgramView(event)
        for operation in event.operations:
            if operation.name == "ctc_loss":
                yield from self._ctc(event, view, operation)
            elif operation.name in CLAMPS and _is_unit_interval(operation):
                yield from self._clamped(event, view, operation)
        for loss in dict.fromkeys(event.losses):
            yield from self._mixture(event, view, loss)

    def _mixture(self, event: StepProgram, view: ProgramView, loss: int) -> Findings:
        wrong = wrong_weights(view, loss)
        if wrong is None or not event.complete or self.count("mixture", wrong.sum.place) != CALLS:
            return
        weights = view.values[wrong.value]
        yield self.finding(
            event,
            f"`logsumexp` adds up a mixture whose log-weights are {wrong.kind} of {list(weights.shape)}, not "
            "log-probabilities: the loss is not a likelihood.",
            fix=_FIX[wrong.kind],
            evidence={"function": "logsumexp", "weights": wrong.kind, "shape": list(weights.shape),
                      "range": [weights.smallest, weights.largest]},
            place=wrong.sum.place,
        )  # fmt: skip

    def _ctc(self, event: StepProgram, view: ProgramView, operation: Operation) -> Findings:
        scores = view.values[operation.inputs[0]]
        if not scores.grad or scores.largest is None or scores.largest <= CLEARLY_POSITIVE:
            return
        makers = [maker for index in view.behind(operation.inputs[0]) if (maker := view.maker(index)) is not None]
        if any(maker.name in LOGARITHMS for maker in makers):
            return  # log-probabilities minus the logarithm of a prior
        if self.count("ctc_loss", operation.place) == CALLS:
            yield self.finding(
                event,
                f"`ctc_loss` gets values from {scores.smallest:.3g} to {scores.largest:.3g} instead of "
                "log-probabilities, which are never above 0.",
                fix=_FIX["ctc_loss"],
                evidence={"function": "ctc_loss", "input_shape": list(scores.shape),
                          "input_range": [scores.smallest, scores.largest]},
                place=operation.place,
            )  # fmt: skip

    def _clamped(self, event: StepProgram, view: ProgramView, operation: Operation) -> Findings:
        scores = view.values[operation.inputs[0]]
        if not scores.grad or scores.smallest is None or scores.largest is None:
            return
        outside = scores.smallest < -OUTSIDE or scores.largest > 1 + OUTSIDE
        if not outside or not _is_raw(view, operation.inputs[0]) or not _is_likelihood(view, operation.outputs[0]):
            return
        if self.count("clamp", operation.place) == CALLS:
            yield self.finding(
                event,
                f"Scores from {scores.smallest:.3g} to {scores.largest:.3g} are clamped to probabilities for "
                "`log(p)` and `log(1 - p)`: values outside get no gradient.",
                fix=_FIX["likelihood"],
                evidence={"function": operation.name, "input_shape": list(scores.shape),
                          "input_range": [scores.smallest, scores.largest]},
                place=operation.place,
            )  # fmt: skip


def _what_is_wrong(event: LossComputed) -> str:
    """Empty if the input is correct."""
    if event.input_range is None:
        return ""
    low, high = event.input_range
    if _is_log_target(event):
        return f"a target of probabilities (rows of {list(event.target_shape)} sum to 1) and `log_target=True`"
    if event.function in ("nll_loss", "kl_div"):
        if event.rows == "probabilities":
            return f"probabilities (rows of {list(event.input_shape)} sum to 1) instead of log-probabilities"
        scores = event.rows == "scores" and high > CLEARLY_POSITIVE
        if scores and (event.function == "nll_loss" or event.target_rows_sum_to_one):
            return f"logits from {low:.3g} to {high:.3g} instead of log-probabilities, which are never above 0"
    before = event.preceding
    clamped = any(name.startswith(CLAMP_NODES) for name in before) and before[-1].startswith(_LINEAR)
    if event.function == "binary_cross_entropy" and clamped:
        return f"logits clamped to [{low:.3g}, {high:.3g}]: values outside get no gradient"
    return ""


def _is_log_target(event: LossComputed) -> bool:
    return event.log_target and bool(event.target_rows_sum_to_one) and event.target_range is not None and (
        event.target_range[0] >= 0
    )  # fmt: skip


# -- a likelihood that the script wrote itself --


def _is_unit_interval(operation: Operation) -> bool:
    """`clamp(eps, 1 - eps)`."""
    numbers = [number for _, text in operation.options if (number := number_in(text)) is not None]
    return len(numbers) == 2 and -1e-6 <= min(numbers) <= EDGE and 1 - EDGE <= max(numbers) <= 1 + 1e-6


def _is_raw(view: ProgramView, value: int) -> bool:
    """Made by linear layers and products, and by sums of such: a constant added is that of a hard sigmoid."""
    waiting = [value]
    for _ in range(12):
        if not waiting:
            return True
        maker = view.maker(waiting.pop())
        if maker is None or not maker.inputs:
            return maker is None  # a parameter: a bias that is added
        if maker.name in VIEWS:
            waiting.append(maker.inputs[0])
        elif maker.name in ADDITIONS and len(maker.inputs) == 2:
            waiting += maker.inputs
        elif maker.name == "sum":
            product = view.maker(maker.inputs[0])
            if product is None or product.name not in PRODUCTS or len(product.inputs) != 2:
                return False
        elif maker.name not in _SCORES:
            return False
    return False


def _is_likelihood(view: ProgramView, value: int) -> bool:
    """Both `log(p)` and `log(1 - p)` are taken of it."""
    waiting, taken = [(value, False)], set()
    for _ in range(24):
        if not waiting:
            break
        index, complement = waiting.pop()
        for reader in view.readers.get(index, []):
            if not reader.outputs or reader.outputs[0] not in view.on_loss_path:
                continue
            if reader.name in ("log", "xlogy", "log1p"):
                taken.add(complement)
            elif reader.name in NEGATIONS | DIFFERENCES:
                waiting.append((reader.outputs[0], True))
            elif reader.name in VIEWS and reader.inputs[0] == index:
                waiting.append((reader.outputs[0], complement))
    return len(taken) == 2
