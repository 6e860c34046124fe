"""What `trueloop tune` has tried, measured, proved and chosen: values that reports, the cache and the written recipe
read. No torch here.

A trial is the recipe with other values for some fields. It is *kept* only if it is better by more than noise and
computes the same training as the reference, which is the recipe in fp32, eager, not compiled.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final, Literal

__all__ = [
    "OBJECTIVES",
    "Agreement",
    "BatchSizes",
    "Changes",
    "Idle",
    "Objective",
    "Outcome",
    "Pace",
    "Place",
    "Trial",
    "Tuning",
    "front",
    "read_tuning",
    "words_of",
]

Objective = Literal["throughput", "memory", "latency"]
OBJECTIVES: Final[tuple[Objective, ...]] = ("throughput", "memory", "latency")
Outcome = Literal["reference", "kept", "no gain", "refused", "failed", "unproved", "reported"]
"""unproved: better, but there was no time left to prove it the same, so it is not chosen. reported: it would change the
training."""

Changes = Mapping[str, Any]
"""Field of a recipe -> another value; plain values only."""


def words_of(changes: Changes) -> str:
    """'precision=bf16 compile=default', as --set takes them."""
    said = []
    for name, value in changes.items():
        if isinstance(value, Mapping):
            said += [f"{name}.{key}={_word(item)}" for key, item in value.items()] or [f"{name}=none"]
        else:
            said.append(f"{name}={_word(value)}")
    return " ".join(said)


def _word(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) or value is None else str(value)


@dataclass(frozen=True, slots=True)
class Place:
    """What it was measured on: results hold there and nowhere else."""

    device: str
    """cpu | cuda | mps"""
    name: str
    cores: int
    memory: int
    """Bytes: of the device, or of the machine."""
    torch: str
    trueloop: str


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast a trial is, and what it takes."""

    samples_per_second: float
    step_seconds: float
    peak_bytes: int
    start_seconds: float
    """Until the first line of metrics: reading, building, compiling, warming up."""
    windows: int
    spread: float
    """Of the windows: half of the distance between their quartiles, as a share of the median."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """A trial held against the reference: the same batches, the same initial weights, no dropout; and the metric over
    seeds, with it."""

    steps: int
    loss_apart: float
    """The largest distance of the loss curves, as a share of the loss."""
    loss_allowed: float
    """A multiple of the distance that the reference has from itself when its weights are moved by one rounding."""
    cosine: float
    """The smallest, over layers, between the gradients at the same weights: at the first step, and after the last."""
    cosine_allowed: float
    layer: str
    length: float
    """Of the whole gradient, over that of the reference."""
    metric: str
    reference: tuple[float, ...]
    """The metric of the reference after a short training, for each seed; empty: there are no validation data."""
    measured: tuple[float, ...]
    metric_allowed: float
    """How much worse the mean may be and still be noise."""
    failures: tuple[str, ...] = ()
    """A sentence for each that fails; none: it is the same training."""

    @property
    def same(self) -> bool:
        return not self.failures


@dataclass(frozen=True, slots=True)
class Trial:
    """One variant of the recipe, and what became of it."""

    number: int
    knob: str
    changes: Changes
    """All that differs from the user's recipe."""
    added: Changes
    """What this trial changed on top of the best so far."""
    outcome: Outcome
    said: str = ""
    """Why it failed or was refused, in a sentence."""
    pace: Pace | None = None
    gain: float = 0.0
    """Over the best at that time, by what was asked for; measured in turns with it."""
    speed: float = 0.0
    """Times the samples per second of the reference."""
    agreement: Agreement | None = None


@dataclass(frozen=True, slots=True)
class Idle:
    """A knob that has nothing to offer here."""

    knob: str
    why: str


@dataclass(frozen=True, slots=True)
class BatchSizes:
    """What larger batches would bring. They change the training, so they are told, and not chosen."""

    tried: tuple[tuple[int, float, int], ...]
    """(batch, samples per second, peak bytes)"""
    knee: int
    """From here on, twice the batch gains less than a tenth."""
    largest: int
    """That fits, reckoned from how the peak grows, at most as many as there are samples."""
    measured: bool
    """Was the largest really run?"""
    limit: str
    """What stops it: memory, or the number of samples."""


@dataclass(frozen=True, slots=True)
class Tuning:
    """The whole search."""

    subject: str
    """As the user named it."""
    place: Place
    objective: Objective
    trials: tuple[Trial, ...]
    winner: int
    """Number of the trial that is chosen."""
    idle: tuple[Idle, ...] = ()
    batches: BatchSizes | None = None
    notes: tuple[str, ...] = ()
    budget: float = 0.0
    """Seconds that were allowed."""
    seconds: float = 0.0
    """Seconds that it took."""
    when: float = 0.0
    """Seconds since 1970."""
    cached: bool = False
    """Told from memory, not measured now."""
    fixed: Changes = field(default_factory=dict)
    """What the user has set, and no knob may turn."""

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
    """Of those that compute the same training: nobody is faster with less memory. The fastest first."""
    sound = [trial for trial in trials if trial.pace is not None and trial.outcome in ("reference", "kept")]
    found: list[Trial] = []
    for trial in sorted(sound, key=lambda each: -each.speed):
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
        raise ValueError("the winner is none of the trials")
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
