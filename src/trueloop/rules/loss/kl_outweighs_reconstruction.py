"""LOS130 kl-outweighs-reconstruction: the KL term is so heavy that the latents of a VAE say nothing about the sample.

What it sees
------------
A variational model, found by what runs: learned means plus noise times learned deviations. Its loss is read as a
weighted sum, so the weight of one element of the KL term can be compared with that of one element of the
reconstruction, whatever means, sums and factors lie between. Late in the run, all latents are pure noise, and
the KL term weighs many times more than in the evidence bound (most latents are, if the KL term is also a sum over
latents while the reconstruction is a mean over features); or the latents say little, and the KL term is a sum over
the batch while the reconstruction is a mean over it.

Why it hurts
------------
The encoder gives every sample the same distribution, so the decoder draws the average of the data. Reconstructions,
anomaly scores and samples do not depend on the input.

Evidence
--------
The latents in use, their mean divergence, how both terms are reduced, and the weight of the KL term.

Use instead
-----------
Sum both terms over features and latents, and average both over samples:

    reconstruction = F.mse_loss(output, x, reduction="none").flatten(1).sum(1).mean()
    kl = -0.5 * (1 + logvar - mu**2 - logvar.exp()).sum(1).mean()

When it is fine
---------------
Not reported: some unused latents beside used ones, terms with the same reductions and a weight below 8, the first 100
steps, looks in the first quarter of the run, and noise on weights or actions.
"""

from math import prod
from typing import Final, NamedTuple

from trueloop.event import LatentsMeasured, Operation, Place, RunEnded, StepProgram
from trueloop.event.operation_names import (
    ANY_ADDITION,
    ANY_PRODUCT,
    LOSSES,
    POWERS,
    QUOTIENTS,
    RANDOM,
    SUBTRACTIONS,
    VIEWS,
)
from trueloop.rules.program_linear import Part, parts_of
from trueloop.rules.program_view import ProgramView
from trueloop.rules.rule import Findings, Rule, Severity

__all__ = ["KlOutweighsReconstruction"]

STEPS: Final = 100
SHARE: Final = 0.25  # of the run, after which a look counts
LITTLE: Final = 0.6  # nats of a latent
ALMOST_NONE: Final = 0.1  # nats of a latent, on average
HEAVY: Final = 8.0  # the weight of the KL term in an evidence bound is 1
_SQUARES: Final = POWERS | ANY_PRODUCT
_BESIDE: Final = VIEWS | SUBTRACTIONS | QUOTIENTS | {"broadcast_tensors", "pow", "square", "__getitem__"}


class _Terms(NamedTuple):
    weight: float  # of an element of the KL term, over that of an element of the reconstruction
    over_batch: bool  # the KL term is a sum over the batch, the reconstruction a mean
    over_features: bool  # the KL term is a sum over latents, the reconstruction a mean over features
    divergence: str  # how the terms are reduced
    reconstruction: str
    place: Place | None


class KlOutweighsReconstruction(Rule, code="LOS130", severity=Severity.WARNING):
    not_applicable = "no training step was recorded"
    applies_after = (StepProgram,)

    def __init__(self) -> None:
        self._looks: list[LatentsMeasured] = []
        self._terms: _Terms | None = None

    def on_latents_measured(self, event: LatentsMeasured) -> None:
        self._looks.append(event)

    def on_step_program(self, event: StepProgram) -> None:
        if event.phase == "training" and event.losses and event.complete:
            view = ProgramView(event)
            for loss in dict.fromkeys(event.losses):
                self._terms = _terms(view, loss) or self._terms

    def on_run_ended(self, end: RunEnded) -> Findings:
        terms, looks = self._terms, self._looks
        if terms is None or not looks or len({look.place for look in looks}) != 1:
            return
        last = looks[-1]
        if last.step < STEPS or last.step < SHARE * end.step:
            return
        none = last.active == 0 and terms.weight >= HEAVY
        little = last.divergence < LITTLE and terms.over_batch and terms.weight >= 2
        few = 2 * last.active <= last.latents and last.divergence < ALMOST_NONE
        if not none and not little and not (few and terms.over_features and terms.weight >= HEAVY):
            return
        yield self.finding(
            last,
            f"After {last.step} steps {last.active} of {last.latents} latents say something about the sample "
            f"({last.divergence:.2g} nats each): the KL term, {terms.divergence}, weighs {terms.weight:.3g} times the "
            f"reconstruction, {terms.reconstruction}.",
            fix="Sum both terms over features and latents and average both over samples, "
            "`.flatten(1).sum(1).mean()`; then choose the KL weight, 1 or less.",
            evidence={"latents": last.latents, "active": last.active, "divergence": last.divergence,
                      "weight": terms.weight, "kl": terms.divergence, "reconstruction": terms.reconstruction},
            place=terms.place,
        )  # fmt: skip


def _terms(view: ProgramView, loss: int) -> _Terms | None:
    sampled = [found for operation in view.operations if (found := _sample(view, operation)) is not None]
    if not sampled:
        return None
    mean, latent = sampled[0]
    parts = parts_of(view, loss)
    squares = [part for part in parts if _is_square_of(view, part.value, mean)]
    errors = [part for part in parts if latent in set(view.behind(part.value)) and part.weight > 0]
    if len(squares) != 1 or not errors or squares[0].weight <= 0:
        return None
    kl, error = squares[0], max(errors, key=lambda part: part.weight)
    weight, divided = _of_element(view, error)
    rows = view.values[latent].shape[0]
    over_batch = (
        kl.divided == 1 and abs(divided - rows) < 0.5 and rows > 1 and view.values[kl.value].shape[:1] == (rows,)
    )
    over_features = divided >= 0.99 * prod(_shape(view, error)) and kl.divided <= rows + 0.5
    return _Terms(
        2 * kl.weight / weight, over_batch, over_features, _reduced(kl.divided, view.values[kl.value].shape),
        _reduced(divided, _shape(view, error)), view.place_of(view.through_views(loss)),
    )  # fmt: skip


def _sample(view: ProgramView, operation: Operation) -> tuple[int, int] | None:
    """The mean and the result of `mean + deviation * noise`."""
    if operation.name not in ANY_ADDITION or len(operation.inputs) != 2 or not operation.outputs:
        return None
    for mean, noise in (operation.inputs, operation.inputs[::-1]):
        maker = view.maker(noise)
        if maker is None or maker.name not in ANY_PRODUCT or len(maker.inputs) != 2 or not view.values[mean].grad:
            continue
        makers = [view.maker(view.through_views(index)) for index in maker.inputs]
        drawn = [m is not None and m.name in RANDOM for m in makers]
        if drawn.count(True) == 1 and view.values[maker.inputs[drawn.index(False)]].grad:
            return mean, operation.outputs[0]
    return None


def _is_square_of(view: ProgramView, value: int, mean: int) -> bool:
    """mu ** 2, also in the divergence of two distributions."""
    maker = view.maker(value)
    if maker is None or maker.name not in _SQUARES or (maker.name in ANY_PRODUCT and len(set(maker.inputs)) != 1):
        return False
    wanted, waiting = {mean, *_sources(view, mean)}, [maker.inputs[0]]
    return any(index in wanted for index in [*waiting, *_sources(view, maker.inputs[0])])


def _sources(view: ProgramView, value: int) -> list[int]:
    """What a value was made of by views and by subtracting or dividing."""
    found: list[int] = []
    for _ in range(6):
        maker = view.maker(value)
        if maker is None or maker.name not in _BESIDE or not maker.inputs:
            break
        number = maker.outputs.index(value) if maker.name == "broadcast_tensors" else 0
        value = maker.inputs[min(number, len(maker.inputs) - 1)]
        found.append(value)
    return found


def _of_element(view: ProgramView, part: Part) -> tuple[float, float]:
    """The weight of one element of an error, and by how many elements means have divided it."""
    maker = view.maker(part.value)
    if maker is None or maker.name not in LOSSES or (view.option(maker, "reduction", 99) or "mean") != "mean":
        return part.weight, part.divided
    count = 1
    for size in view.values[maker.inputs[0]].shape:
        count *= size
    return part.weight / count, part.divided * count


def _shape(view: ProgramView, part: Part) -> tuple[int, ...]:
    maker = view.maker(part.value)
    return view.values[maker.inputs[0] if maker is not None and maker.name in LOSSES else part.value].shape


def _reduced(divided: float, shape: tuple[int, ...]) -> str:
    count = 1
    for size in shape:
        count *= size
    if divided >= count:
        return f"a mean over all {count:,} elements"
    if shape and abs(divided - shape[0]) < 0.5:
        return f"a sum over {count // max(1, shape[0]):,} elements and a mean over {shape[0]} samples"
    return f"a sum over {count:,} elements" if divided <= 1 else f"a sum divided by {divided:,.0f}"
