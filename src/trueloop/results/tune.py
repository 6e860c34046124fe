"""The result of `tune`: what was tried, measured, verified and chosen. No torch here.

A trial is the recipe with different values for some fields. It is *kept* only if it is better by more than noise and
computes the same training as the reference, which is the recipe in fp32, eager, not compiled.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final, Literal

__all__ = ["OBJECTIVES", "Agreement", "BatchSizes", "Changes", "Idle", "Objective", "Outcome", "Pace", "Place"]
__all__ += ["Trial", "Tuning", "front", "read_tuning", "words_of"]

Objective = Literal["throughput", "memory", "latency"]
OBJECTIVES: Final[tuple[Objective, ...]] = ("throughput", "memory", "latency")
Outcome = Literal["reference", "kept", "no gain", "refused", "failed", "unproved", "reported"]
"""unproved: better, but no time was left to verify it, so it is not chosen. reported: it would change the training."""

Changes = Mapping[str, Any]  # Field of a recipe -> a different value; plain values only


def words_of(changes: Changes) -> str:
    """'precision=bf16 compile=default', as --set takes them."""
    words = []
    for name, value in changes.items():
        if isinstance(value, Mapping):
            words += [f"{name}.{key}={_word(item)}" for key, item in value.items()] or [f"{name}=none"]
        else:
            words.append(f"{name}={_word(value)}")
    return " ".join(words)


def _word(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) or value is None else str(value)


@dataclass(frozen=True, slots=True)
class Place:
    """The machine of the measurements: results are valid only there."""

    device: str  # cpu | cuda | mps
    name: str
    cores: int
    memory: int  # bytes: of the device, or of the machine
    torch: str
    trueloop: str


@dataclass(frozen=True, slots=True)
class Pace:
    """Speed and memory of a trial."""

    samples_per_second: float
    step_seconds: float
    peak_bytes: int
    start_seconds: float  # until the first metrics: reading, building, compiling, warm-up
    windows: int
    spread: float  # half the interquartile range of the windows, as a share of the median


@dataclass(frozen=True, slots=True)
class Agreement:
    """A trial compared with the reference: same batches and initial weights, no dropout; the metric over seeds."""

    steps: int
    loss_apart: float  # the largest difference of the loss curves, as a share of the loss
    loss_allowed: float  # A multiple of the reference's own difference after one rounding of its weights
    cosine: float  # Smallest over layers, between gradients at the same weights, at the first step and after the last
    cosine_allowed: float
    layer: str
    length: float  # the gradient norm divided by that of the reference
    metric: str
    reference: tuple[float, ...]  # Metric of the reference after a short training, per seed; empty: no validation data
    measured: tuple[float, ...]
    metric_allowed: float  # how much worse the mean may be within noise
    failures: tuple[str, ...] = ()  # one sentence per failed comparison; empty: it is the same training

    @property
    def same(self) -> bool:
        return not self.failures


@dataclass(frozen=True, slots=True)
class Trial:
    """One variant of the recipe, and its outcome."""

    number: int
    knob: str
    changes: Changes  # everything that differs from the user's recipe
    added: Changes  # what this trial adds to the best so far
    outcome: Outcome
    said: str = ""  # why it failed or was refused, in a sentence
    pace: Pace | None = None
    gain: float = 0.0  # over the best at that time, by the objective; measured in interleaved windows
    speed: float = 0.0  # times the samples per second of the reference
    agreement: Agreement | None = None


@dataclass(frozen=True, slots=True)
class Idle:
    """A knob with nothing to try here."""

    knob: str
    why: str


@dataclass(frozen=True, slots=True)
class BatchSizes:
    """What larger batches would gain. They change the training, so they are reported, not chosen."""

    tried: tuple[tuple[int, float, int], ...]  # (batch, samples per second, peak bytes)
    knee: int  # from here, doubling the batch gains less than 10 %
    largest: int  # the largest that fits, estimated from how the peak grows; at most the number of samples
    measured: bool  # was the largest really run?
    limit: str  # memory, or the number of samples


@dataclass(frozen=True, slots=True)
class Tuning:
    subject: str  # as the user named it
    place: Place
    objective: Objective
    trials: tuple[Trial, ...]
    winner: int  # number of the chosen trial
    idle: tuple[Idle, ...] = ()
    batches: BatchSizes | None = None
    notes: tuple[str, ...] = ()
    budget: float = 0.0
    seconds: float = 0.0
    when: float = 0.0  # seconds since 1970
    cached: bool = False  # read from the cache, not measured now
    fixed: Changes = field(default_factory=dict)  # set by the user: no knob may change it

    @property
    def reference(self) -> Trial:
        return self.trials[0]

    @property
    def best(self) -> Trial:
        return next(trial for trial in self.trials if trial.number == self.winner)

    def from_cache(self) -> Tuning:
        return replace(self, cached=True)

    def plain(self) -> dict[str, Any]:
        best = self.best
        chosen = {"changes": best.changes, "words": words_of(best.changes), "speed": best.speed}
        return {**asdict(self), "chosen": chosen, "front": [trial.number for trial in front(self.trials)]}


def front(trials: Iterable[Trial]) -> list[Trial]:
    """The Pareto front of the verified trials: none is both faster and smaller. The fastest first."""
    verified = [trial for trial in trials if trial.pace is not None and trial.outcome in ("reference", "kept")]
    found: list[Trial] = []
    for trial in sorted(verified, key=lambda each: -each.speed):
        if not found or _peak(trial) < min(map(_peak, found)):
            found.append(trial)
    return found


def _peak(trial: Trial) -> int:
    return trial.pace.peak_bytes if trial.pace else 0


# -- back from the cache --


def read_tuning(plain: Mapping[str, Any]) -> Tuning:
    """Raises KeyError, TypeError or ValueError where it is not what `plain` gave."""
    fields = {name: value for name, value in plain.items() if name not in ("chosen", "front")}
    fields["place"] = Place(**fields["place"])
    fields["trials"] = tuple(_trial(each) for each in fields["trials"])
    fields["idle"] = tuple(Idle(**each) for each in fields["idle"])
    fields["notes"] = tuple(fields["notes"])
    if fields["batches"] is not None:
        sizes = dict(fields["batches"])
        sizes["tried"] = tuple((int(size), float(rate), int(peak)) for size, rate, peak in sizes["tried"])
        fields["batches"] = BatchSizes(**sizes)
    made = Tuning(**fields)
    if made.winner not in {trial.number for trial in made.trials}:
        raise ValueError("the winner is not in the list of trials")
    return made


def _trial(plain: Mapping[str, Any]) -> Trial:
    fields = dict(plain)
    if fields["pace"] is not None:
        fields["pace"] = Pace(**fields["pace"])
    if fields["agreement"] is not None:
        fields["agreement"] = Agreement(**{name: _frozen(value) for name, value in fields["agreement"].items()})
    return Trial(**fields)


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, Sequence) and not isinstance(value, str) else value
