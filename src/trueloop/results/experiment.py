"""The result of `try`: what a change to a script did to its losses, metrics, gradients and findings. No torch here."""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from statistics import fmean, stdev
from typing import Any, Final, Literal

from trueloop.results.check import counted
from trueloop.results.plain import as_plain

__all__ = ["Conclusion", "Experiment", "FindingSeen", "Quantity", "ScriptRun"]

Conclusion = Literal["helps", "no difference", "worse", "mixed", "unclear", "fails"]
"""unclear: something moved, but nothing that says better or worse. fails: the script fails with the change."""

NOISE_FACTOR: Final = {2: 6.0, 3: 3.0}
"""Number of seeds -> how many times the noise a difference must be. Equal runs pass in fewer than 2 of 100 trials."""
MANY_SEEDS_FACTOR: Final = 2.0
SMALLEST: Final = 0.001  # share of the value: smaller differences do not count, however small the noise
SMALLEST_OF_ONE: Final = 0.05  # the same with one seed, whose noise is unknown
SAME_START: Final = 0.1  # the loss before any step may differ by this share: the change leaves the loss function alone
_LOWER: Final = """loss losses nll bce ce mse rmse mae mape error err ppl perplexity bpc bpb wer cer ter fid eer
regret"""
_HIGHER: Final = """acc accuracy acc1 acc5 top1 top5 f1 auc auroc precision recall r2 bleu rouge map miou iou dice score
reward return returns psnr ssim correct hits mrr ndcg kappa mcc"""
LOWER_IS_BETTER: Final = frozenset(_LOWER.split())
HIGHER_IS_BETTER: Final = frozenset(_HIGHER.split())


@dataclass(frozen=True, slots=True)
class FindingSeen:
    """A finding, without its line number, which the change may move."""

    code: str
    name: str
    source: str  # the user's line


@dataclass(frozen=True, slots=True)
class ScriptRun:
    """One run of the script."""

    offset: int  # added to its seeds
    steps: int
    seconds: float
    failure: str = ""  # the exception or exit code that ended it; empty: it finished
    log: str = ""  # the last lines of stderr, if it failed
    first_loss: float | None = None  # before any step
    last_loss: float | None = None  # median of the last quarter
    gradient: float | None = None  # median gradient norm
    metrics: Mapping[str, float] = field(default_factory=dict)  # the last printed value of each name
    findings: tuple[FindingSeen, ...] = ()
    seeded: bool = True  # the script seeds torch
    loaded: tuple[str, ...] = ()  # Python files below the copied folder that it ran


def direction(name: str) -> int:
    """-1: lower is better; 1: higher is better; 0: unknown."""
    words = name.lower().replace("/", " ").replace("_", " ").replace("-", " ").replace("@", " ").split()
    if any(word in LOWER_IS_BETTER for word in words):
        return -1
    return 1 if any(word in HIGHER_IS_BETTER for word in words) else 0


@dataclass(frozen=True, slots=True)
class Quantity:
    """One number of the runs, without and with the change; one value per seed."""

    name: str
    without: tuple[float, ...]
    with_it: tuple[float, ...]
    better: int  # as in `direction`

    @property
    def noise(self) -> float | None:
        """The larger standard deviation over the seeds; None: one seed, or values that are NaN or Inf."""
        if len(self.without) < 2 or not all(map(math.isfinite, (*self.without, *self.with_it))):
            return None
        return max(stdev(self.without), stdev(self.with_it))

    @property
    def means(self) -> tuple[float, float]:
        return fmean(self.without), fmean(self.with_it)

    @property
    def moved(self) -> bool:
        """Is the difference larger than the noise?"""
        before, after = self.means
        if not (math.isfinite(before) and math.isfinite(after)):
            return math.isfinite(before) != math.isfinite(after)
        smallest = max(abs(before), abs(after)) * (SMALLEST_OF_ONE if self.noise is None else SMALLEST)
        factor = NOISE_FACTOR.get(len(self.without), MANY_SEEDS_FACTOR)
        return abs(after - before) > max(smallest, factor * (self.noise or 0.0))

    @property
    def gain(self) -> int:
        """1: better, -1: worse, 0: no difference, or unknown which is better."""
        if not self.moved:
            return 0
        before, after = self.means
        if not math.isfinite(after) or not math.isfinite(before):
            return 1 if math.isfinite(after) else -1
        return self.better * (1 if after > before else -1)

    def words(self) -> str:
        """'lowers the last loss from 0.693 to 0.184'."""
        before, after = self.means
        verb = "raises" if after > before else "lowers" if after < before else "changes"
        return f"{verb} the {self.name} from {before:.4g} to {after:.4g}"


@dataclass(frozen=True, slots=True)
class Experiment:
    script: str
    change: str  # as a unified diff
    files: tuple[str, ...]  # that it changes
    without: tuple[ScriptRun, ...]  # one per seed
    with_it: tuple[ScriptRun, ...]
    notes: tuple[str, ...] = ()

    # -- numbers --

    def quantities(self) -> tuple[Quantity, ...]:
        """First and last loss, gradient norm, then the printed metrics that all runs share."""
        readers: dict[str, Callable[[ScriptRun], float | None]] = {
            "first loss": lambda run: run.first_loss,
            "last loss": lambda run: run.last_loss,
            "gradient norm": lambda run: run.gradient,
        }
        for name in self.without[0].metrics:
            readers[f"printed {name}"] = partial(_printed, name=name)
        found = []
        for name, read in readers.items():
            sides = _complete([*map(read, self.without)]), _complete([*map(read, self.with_it)])
            if sides[0] and sides[1]:
                judged = name == "last loss" or name.startswith("printed ")
                found.append(Quantity(name, *sides, direction(name) if judged else 0))
        return tuple(found)

    def removed(self) -> dict[FindingSeen, int]:
        """Findings of the runs without the change that no run with it has -> number of runs."""
        return _only_in(self.without, self.with_it)

    def added(self) -> dict[FindingSeen, int]:
        return _only_in(self.with_it, self.without)

    def loss_redefined(self) -> Quantity | None:
        """The loss before any step, if the change moves it: the last losses may not be comparable then."""
        first = next((each for each in self.quantities() if each.name == "first loss"), None)
        if first is None or not first.moved:
            return None
        before, after = first.means
        return first if abs(after - before) > SAME_START * max(abs(before), abs(after)) else None

    def identical(self) -> bool:
        """Every number of every run is the same with and without the change."""
        sides = [[(r.steps, r.first_loss, r.last_loss, r.gradient, r.metrics) for r in side] for side in self._sides]
        return sides[0] == sides[1]

    @property
    def _sides(self) -> tuple[tuple[ScriptRun, ...], tuple[ScriptRun, ...]]:
        return self.without, self.with_it

    # -- the verdict --

    def conclusion(self) -> Conclusion:
        failed = [any(run.failure for run in side) for side in self._sides]
        if failed[1]:
            return "no difference" if failed[0] else "fails"
        if failed[0]:
            return "helps"
        judged = self._judged()
        gains = {each.gain for each in judged} - {0}
        if gains:
            return "mixed" if len(gains) > 1 else "helps" if gains == {1} else "worse"
        if any(each.moved for each in self.quantities()):
            return "unclear"
        return "no difference"

    def _judged(self) -> list[Quantity]:
        """What says better or worse: the loss is left out where the change may measure it differently."""
        redefined = self.loss_redefined() is not None
        return [each for each in self.quantities() if each.better and not (redefined and "loss" in each.name.lower())]

    def sentence(self) -> str:
        """'the change lowers the last loss from 0.693 to 0.184 (3 seeds, noise 0.01): it is the cause'."""
        failures = [next((run.failure for run in side if run.failure), "") for side in self._sides]
        if failures[1] and failures[0]:
            return f"the script fails with and without the change: {failures[1]}"
        if failures[1]:
            return f"with the change the script fails: {failures[1]}"
        if failures[0]:
            return f"the change removes the failure {failures[0]!r}: it is the cause"
        if not self.quantities():
            return "nothing to compare: the runs have fewer than 10 losses and share no printed metric" + self._found()
        if self.identical():
            return f"the change has no effect: all losses and metrics are bit-identical{self._found()}"
        moved = [each for each in self._judged() if each.gain]
        if moved:
            return self._difference(moved) + self._caveat() + self._found()
        return self._no_gain() + self._caveat() + self._found()

    def _difference(self, moved: list[Quantity]) -> str:
        """Of the quantities that got better or worse, up to three."""
        ranked = sorted(moved, key=lambda each: each.name != "last loss")[:3]
        text = f"the change {ranked[0].words()} ({self._seeds(ranked[0])})"
        text += "".join(f" and {each.words()}" for each in ranked[1:])
        if len(self.without) == 1:
            return text
        return text + {"helps": ": it is the cause", "worse": ": it is not the fix"}.get(self.conclusion(), "")

    def _no_gain(self) -> str:
        shown = next((each for each in self.quantities() if each.moved), None)
        if shown is not None:
            return f"the change {shown.words()} ({self._seeds(shown)})"
        known = self.quantities()
        shown = next((each for each in known if each.name == "last loss"), known[0])
        before, after = shown.means
        text = f"{shown.name} {before:.4g} without, {after:.4g} with the change ({self._seeds(shown)})"
        close = shown.noise is not None and abs(after - before) > MANY_SEEDS_FACTOR * shown.noise
        more = "; too few seeds to be sure, --seeds 5 decides" if close and len(self.without) in NOISE_FACTOR else ""
        return f"no difference {'beyond noise' if len(self.without) > 1 else 'of 5 % or more'}: {text}{more}"

    def _caveat(self) -> str:
        first = self.loss_redefined()
        if first is None:
            return ""
        before, after = first.means
        start = f"; the loss before the first step changes too ({before:.4g} to {after:.4g})"
        return f"{start}, so losses may not be comparable: compare a printed metric"

    def _found(self) -> str:
        parts = []
        for text, found in (("no longer reported", self.removed()), ("newly reported", self.added())):
            if found:
                parts.append(f"; {', '.join(dict.fromkeys(each.code for each in found))} {text}")
        return "".join(parts)

    def _seeds(self, shown: Quantity) -> str:
        if len(self.without) == 1:
            return "1 seed, noise unknown"
        noise = "" if shown.noise is None else f", noise {shown.noise:.2g}"
        return f"{counted(len(self.without), 'seed')}{noise}"

    def plain(self) -> dict[str, Any]:
        plain: dict[str, Any] = as_plain(self)
        rows = [
            {
                "name": q.name,
                "without": q.means[0],
                "with": q.means[1],
                "noise": q.noise,
                "moved": q.moved,
                "gain": q.gain,
            }
            for q in self.quantities()
        ]
        found = {"removed": list(self.removed()), "added": list(self.added())}
        head = {"conclusion": self.conclusion(), "sentence": self.sentence(), "quantities": rows, "findings": found}
        return {**head, **plain}


def _printed(run: ScriptRun, name: str) -> float | None:
    return run.metrics.get(name)


def _complete(values: Sequence[float | None]) -> tuple[float, ...]:
    """The values, or nothing if one is missing."""
    known = tuple(value for value in values if value is not None)
    return known if len(known) == len(values) else ()


def _only_in(side: Sequence[ScriptRun], other: Sequence[ScriptRun]) -> dict[FindingSeen, int]:
    """By code where lines differ: a change rewrites lines."""
    codes = {each.code for run in other for each in run.findings}
    return dict(Counter(each for run in side for each in dict.fromkeys(run.findings) if each.code not in codes))
