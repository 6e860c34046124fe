"""LOS155 sampling-starts-above-trained-noise: a diffusion model samples from pure noise, which it was never trained on.

What it sees
------------
In recorded training steps the input of a model is `a * data + b * noise` with `a² + b² = 1`, where both depend on a
time drawn for each sample. Over all recorded samples `a` stays large: even at the last times the input is mostly data.
In a recorded evaluation the model gets plain normal noise, at the last time.

Why it hurts
------------
Sampling assumes that at the last time nothing of the data is left. The model has only seen inputs that still show the
data, so its answer to pure noise is arbitrary, and the samples are off. The loss does not show it. The usual causes:
the factor of one step (`alphas[t]`) instead of the product of all (`alphas_bar[t]`), or betas made for many more steps.

Evidence
--------
The smallest factor of the data, the largest of the noise, the number of recorded samples, and where sampling starts.

Use instead
-----------
    alphas_bar = torch.cumprod(1 - betas, 0)             # close to 0 at the end
    noisy = alphas_bar[t].sqrt() * x0 + (1 - alphas_bar[t]).sqrt() * noise

When it is fine
---------------
Not reported: data that vanish at the last time, noise that is added without shrinking the data (score models start from
noise of the largest scale), data that are much smaller than the noise, sampling that starts from noised data, and runs
in which sampling was not recorded.
"""

from math import prod
from typing import Final, NamedTuple

from trueloop.event import Operation, Place, RunEnded, StepProgram
from trueloop.event.operation_names import ADDITIONS, NORMAL, PRODUCTS
from trueloop.rules.program_view import ProgramView
from trueloop.rules.rule import Findings, Rule, Severity, path_and_line

__all__ = ["SamplingStartsAboveTrainedNoise"]

DRAWS: Final = 96  # samples that must be recorded: the last fifth of the times is among them
KEPT: Final = 0.6  # factor of the data at the noisiest sample; a usual schedule ends below 0.1, a short one below 0.4
VISIBLE: Final = 0.2  # of the noise: the spread of the data, estimated as an eighth of its range
UNIT: Final = 0.02  # tolerance of a² + b² = 1


class _Noised(NamedTuple):
    event: StepProgram
    samples: int
    data_factor: float  # smallest
    noise_factor: float  # largest
    spread: float  # an estimate for the data
    last_time: float
    place: Place | None


class SamplingStartsAboveTrainedNoise(Rule, code="LOS155", severity=Severity.WARNING):
    not_applicable = "no training step was recorded"

    def __init__(self) -> None:
        self._trained: dict[tuple[int, tuple[int, ...]], list[_Noised]] = {}  # by model and shape of a sample
        self._starts: dict[tuple[int, tuple[int, ...]], tuple[float, Place | None]] = {}  # time, and line of the draw

    def on_step_program(self, event: StepProgram) -> None:
        view = ProgramView(event)
        for use in event.models:
            for given in use.inputs:
                key = use.model, view.values[given].shape[1:]
                if event.phase == "evaluation" and _is_noise(view, given):
                    values = [view.values[index] for index in use.inputs if "int" in view.values[index].dtype]
                    times = [value.largest for value in values if value.constant and value.largest is not None]
                    if len(times) == 1:
                        self._starts.setdefault(key, (times[0], view.place_of(view.through_views(given))))
                elif event.phase == "training" and use.grad and event.losses:
                    noised = _noised(view, given, use.inputs)
                    if noised is not None:
                        self._trained.setdefault(key, []).append(noised)

    def on_run_ended(self, _: RunEnded) -> Findings:
        for key, steps in self._trained.items():
            latest = steps[-1]
            time, start = self._starts.get(key, (-1.0, None))
            data, noise = min(step.data_factor for step in steps), max(step.noise_factor for step in steps)
            samples = sum(step.samples for step in steps)
            if samples < DRAWS or data < KEPT or time < max(step.last_time for step in steps):
                continue
            if abs(data**2 + noise**2 - 1) > UNIT or data * latest.spread < VISIBLE * noise:
                continue
            yield self.finding(
                latest.event,
                f"Sampling starts from pure noise at time {time:.0f}, but in {samples:,} recorded training samples the "
                f"factor of the data never fell below {data:.2f}, and that of the noise stayed below {noise:.2f}.",
                fix="Noise with the product of all steps up to t (`torch.cumprod(1 - betas, 0)[t]`), and choose betas "
                "for which it ends near 0.",
                evidence={"data_factor": round(data, 4), "noise_factor": round(noise, 4), "samples": samples,
                          "sampling": path_and_line(start)},
                place=latest.place,
            )  # fmt: skip


def _noised(view: ProgramView, value: int, inputs: tuple[int, ...]) -> _Noised | None:
    """`a * data + b * noise`, where b depends on the times that the model gets too."""
    times = [i for i in inputs if "int" in view.values[i].dtype and len(view.values[i].shape) == 1]
    total = view.maker(view.through_views(value))
    if total is None or total.name not in ADDITIONS or len(total.inputs) != 2 or len(times) != 1:
        return None
    for one, other in (total.inputs, total.inputs[::-1]):
        a, b = _factor(view, one, noise=False), _factor(view, other, noise=True)
        if a is None or b is None or view.through_views(times[0]) not in view.contents(b[0]):
            continue
        low, high, rows = view.values[a[0]].smallest, view.values[b[0]].largest, view.values[a[1]]
        last = view.values[times[0]].largest
        if None in (low, high, rows.smallest, rows.largest, last) or view.values[b[0]].constant:
            continue
        spread = ((rows.largest or 0.0) - (rows.smallest or 0.0)) / 8
        samples = prod(view.values[times[0]].shape)
        return _Noised(view.program, samples, low or 0.0, high or 0.0, spread, last or 0.0, total.place)
    return None


def _factor(view: ProgramView, product: int, *, noise: bool) -> tuple[int, int] | None:
    """The factor and the other part of a product of noise, or of data, with one factor for each sample."""
    maker: Operation | None = view.maker(product)
    if maker is None or maker.name not in PRODUCTS or len(maker.inputs) != 2:
        return None
    for factor, part in (maker.inputs, maker.inputs[::-1]):
        wanted = _is_noise(view, part) if noise else view.is_data(part) and not _is_noise(view, part)
        shape, single = view.values[part].shape, view.values[factor].shape
        if wanted and shape == view.values[product].shape and prod(single) == single[0] == shape[0]:
            return factor, part
    return None


def _is_noise(view: ProgramView, value: int) -> bool:
    maker = view.maker(view.through_views(value))
    return maker is not None and maker.name in NORMAL and len(view.values[value].shape) > 1
