"""LOS117 loss-term-dominates: one term of the loss is far larger than another, which is not learned.

What it sees
------------
In at least three recorded training steps, and in all of them, the loss adds two distances between a prediction and a
target (squared or absolute errors, cross-entropy) that share weights, and one is more than a thousand times the other.
Or a term with a weight of 50 or more begins above the distance to a target and falls to less than half, while that
distance does not fall at all.

Why it hurts
------------
The shared weights learn the large term only. The small one is computed, printed and hardly learned: a target in
milliseconds beside one in seconds, or a weight with a wrong exponent. A penalty with a weight of 1000 makes all outputs
equal before the first class is learned.

Evidence
--------
The values of both terms in each recorded step.

Use instead
-----------
Bring the terms to one scale: normalize the targets, or give the large term a weight.

    loss = classification + 0.001 * duration

When it is fine
---------------
Not reported: terms with a small weight in front, terms without a target or with a target that a model computed (policy
gradients, KL, consistency, distillation), models that share no weights, and terms whose ratio falls below a thousand in
any recorded step. Of terms with a large weight: those beside a distance that falls too, or to a constant target
(adversarial training), and runs with several optimizers or fewer than 100 steps.
"""

from collections import defaultdict
from typing import Final

from trueloop.event import LossCurve, Operation, Place, RunEnded, StepProgram
from trueloop.event.operation_names import DIFFERENCES, LOSSES, MAGNITUDES, PRODUCTS, SCALINGS, VIEWS
from trueloop.rules.program_view import ProgramView
from trueloop.rules.rule import Findings, Rule, Severity

__all__ = ["LossTermDominates"]

RATIO: Final = 1000.0
PROGRAMS: Final = 3
HEAVY: Final = 50.0  # a weight that is a mistake, if the term beside it is not learned
OUTWEIGHS: Final = 5.0  # in the first recorded step
FALLS: Final = 0.5  # what is left of the heavy term
STAYS: Final = 0.98  # and of the other one
STEPS: Final = 100
SMALL: Final = 0.1  # a weight that makes a term small on purpose
_SIGNED: Final = frozenset({"kl_div", "poisson_nll_loss", "gaussian_nll_loss", "ctc_loss"})


class LossTermDominates(Rule, code="LOS117", severity=Severity.WARNING):
    not_applicable = "no training step was recorded"
    explained_by = ("mean-and-sum-mixed", "loss-diverges", "nan-or-inf", "loss-term-without-gradient")

    def __init__(self) -> None:
        self._pairs: dict[Place | None, list[tuple[float, float]]] = defaultdict(list)
        self._event: StepProgram | None = None
        self._heavy: dict[Place | None, list[tuple[int, float, float, float]]] = defaultdict(list)
        """Step, weight, weighted term, and the distance beside it."""
        self._curve: LossCurve | None = None

    def on_loss_curve(self, event: LossCurve) -> None:
        self._curve = event

    def on_step_program(self, event: StepProgram) -> None:
        if event.phase != "training":
            return
        view = ProgramView(event)
        for loss in dict.fromkeys(event.losses):
            root = view.through_views(loss)
            terms = [value for value in view.terms(root) if _is_distance(view, value)]
            self._weigh(view, root, terms)
            terms.sort(key=lambda value: abs(view.values[value].mean or 0.0))
            if len(terms) >= 2:
                small, large = terms[0], terms[-1]
                numbers = [abs(view.values[value].mean or 0.0) for value in (large, small)]
                if not _share_weights(view, small, large):
                    numbers[1] = numbers[0]
                self._event = event
                self._pairs[view.place_of(root)].append((numbers[0], numbers[1]))

    def _weigh(self, view: ProgramView, root: int, distances: list[int]) -> None:
        weighted = {value: _factor(view, value) for value in view.terms(root)}
        heavy = max(weighted, key=lambda value: weighted[value])
        others = [value for value in distances if value != heavy and not _has_constant_target(view, value)]
        if weighted[heavy] >= HEAVY and len(others) == 1 and _share_weights(view, heavy, others[0]):
            self._event = view.program
            large, small = (abs(view.values[value].mean or 0.0) for value in (heavy, others[0]))
            self._heavy[view.place_of(heavy)].append((view.program.step, weighted[heavy], large, small))

    def _outweighed(self) -> Findings:
        for place, seen in self._heavy.items():
            if len(seen) < PROGRAMS or self._event is None or seen[-1][0] < STEPS:
                continue
            (_, weight, large, small), (step, _, last_large, last_small) = seen[0], seen[-1]
            if large < OUTWEIGHS * small or last_large > FALLS * large or last_small < STAYS * small:
                continue
            yield self.finding(
                self._event,
                f"A term of the loss has the weight {weight:g}: it fell from {large:.4g} to {last_large:.4g} by step "
                f"{step}, and the loss of the targets beside it stayed at {last_small:.4g} ({small:.4g} at the start).",
                fix="Lower the weight until this term is smaller than the loss of the targets at the start.",
                evidence={"weight": weight, "weighted": [round(a, 6) for _, _, a, _ in seen],
                          "beside": [round(b, 6) for _, _, _, b in seen]},
                place=place,
            )  # fmt: skip

    def on_run_ended(self, _: RunEnded) -> Findings:
        if self._curve is not None and self._curve.optimizers == 1:
            yield from self._outweighed()
        for place, pairs in self._pairs.items():
            if len(pairs) < PROGRAMS or self._event is None:
                continue
            if any(small == 0 or large < RATIO * small for large, small in pairs):
                continue
            large, small = pairs[-1]
            yield self.finding(
                self._event,
                f"One term of the loss is {large:.4g} and another {small:.4g}, over {RATIO:,.0f} times apart in all "
                f"{len(pairs)} recorded steps: the weights that they share learn the large one only.",
                fix="Bring the terms to one scale: normalize the targets of the large one, or weight it.",
                evidence={"large": [round(a, 6) for a, _ in pairs], "small": [round(b, 6) for _, b in pairs]},
                place=place,
            )


def _is_distance(view: ProgramView, value: int) -> bool:
    """A number that is never negative, from predictions and a target that no model computed; without a small weight."""
    for _ in range(8):
        maker = view.maker(value)
        if maker is None or not maker.inputs or not view.values[value].grad:
            return False
        if maker.name in LOSSES - _SIGNED:
            return _has_target(view, maker)
        if maker.name in ("mean", "sum"):
            behind = view.maker(view.through_views(maker.inputs[0]))
            if behind is not None and behind.name == "sum" and behind.inputs:
                behind = view.maker(behind.inputs[0])
            error = None if behind is None or behind.name not in MAGNITUDES else view.maker(behind.inputs[0])
            return error is not None and error.name in DIFFERENCES and _has_target(view, error)
        if maker.name in SCALINGS:
            if len(maker.inputs) != 1 or _weight(maker) < SMALL:
                return False
        elif maker.name not in VIEWS:
            return False
        value = maker.inputs[0]
    return False


def _has_target(view: ProgramView, operation: Operation) -> bool:
    if len(operation.inputs) < 2:
        return False
    one, other = (index in view.learned for index in operation.inputs[:2])
    target = operation.inputs[1 if one else 0]
    return one != other and target in view.from_data


def _factor(view: ProgramView, value: int) -> float:
    """The number that a term is multiplied with."""
    maker = view.maker(value)
    return _weight(maker) if maker is not None and maker.name in SCALINGS and len(maker.inputs) == 1 else 1.0


def _has_constant_target(view: ProgramView, value: int) -> bool:
    makers = (view.maker(index) for index in view.behind(value))
    loss = next((maker for maker in makers if maker is not None and len(maker.inputs) > 1), None)
    return loss is None or any(view.values[index].constant for index in loss.inputs[:2])


def _share_weights(view: ProgramView, one: int, other: int) -> bool:
    shared = set(view.behind(one)) & set(view.behind(other))
    return any(view.values[index].origin == "parameter" and view.values[index].grad for index in shared)


def _weight(operation: Operation) -> float:
    for _, text in operation.options:
        try:
            number = abs(float(text))
        except ValueError:
            continue
        return number if operation.name in PRODUCTS else 1 / max(number, 1e-12)
    return 1.0
