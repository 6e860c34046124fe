"""The result of `sweep`: the settings by their validation values over seeds, and which of them can be told apart."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import combinations
from statistics import fmean, stdev
from typing import Any, Final, Literal

from trueloop.results.check import counted
from trueloop.results.significance import MOST_SEEDS, Difference, adjusted, difference_of, seeds_needed

__all__ = ["LEVEL", "Setting", "Sweep", "TrialResult", "spread_text"]

LEVEL: Final = 0.05  # Settings differ below this p, after the correction for several comparisons
NAMED: Final = 4  # Settings in a sentence, at most

TrialState = Literal["finished", "halved", "diverged", "failed", "unfinished"]
"""halved: ended early by --halving. diverged: NaN or Inf, or a collapse, ended it. unfinished: not run to its end."""


@dataclass(frozen=True, slots=True)
class TrialResult:
    """One run of the sweep."""

    run: str  # the name of its folder
    seed: int
    state: TrialState
    value: float | None = None  # best validation value
    test: Mapping[str, float] = field(default_factory=dict)
    message: str = ""  # why it failed; what a rule found


@dataclass(frozen=True, slots=True)
class Setting:
    values: Mapping[str, str]  # what is varied, as --set takes it
    trials: tuple[TrialResult, ...]

    @property
    def label(self) -> str:
        return ", ".join(f"{name}={value}" for name, value in self.values.items()) or "the recipe as it is"

    def scores(self) -> dict[int, float]:
        """By seed, of trials that finished."""
        done = (trial for trial in self.trials if trial.state == "finished" and trial.value is not None)
        return {trial.seed: trial.value for trial in done if trial.value is not None}

    def states(self) -> str:
        """'2 failed, 1 diverged'; empty if all finished."""
        words = ("failed", "diverged", "halved", "unfinished")
        counts = {word: sum(trial.state == word for trial in self.trials) for word in words}
        return ", ".join(f"{count} {word}" for word, count in counts.items() if count)


@dataclass(frozen=True, slots=True)
class Sweep:
    recipe: str
    group: str
    folder: str  # of the runs
    metric: str
    higher_is_better: bool
    settings: tuple[Setting, ...]
    interrupted: bool = False

    def ranked(self) -> list[Setting]:
        """The best mean first; settings without a value last."""
        sign = -1 if self.higher_is_better else 1
        with_values = [setting for setting in self.settings if setting.scores()]
        ranked = sorted(with_values, key=lambda setting: sign * fmean(setting.scores().values()))
        return ranked + [setting for setting in self.settings if not setting.scores()]

    def chosen(self) -> Setting | None:
        """By validation alone."""
        ranked = self.ranked()
        return ranked[0] if ranked and ranked[0].scores() else None

    def comparisons(self) -> list[tuple[Setting, Difference, float | None]]:
        """Each other setting: how far the chosen one is ahead, and the corrected p; None: the noise is unknown.

        The best is chosen by the same values, so it is not one comparison per setting: all pairs are corrected for.
        """
        scores = [setting.scores() for setting in self.ranked() if setting.scores()]
        pairs = list(combinations(range(len(scores)), 2))
        differences = [difference_of(scores[one], scores[other]) for one, other in pairs]
        corrected = iter(adjusted([each.p for each in differences if each.p is not None]))
        with_p = [(each, None if each.p is None else next(corrected)) for each in differences]
        with_best = [found for (one, _), found in zip(pairs, with_p, strict=True) if one == 0]
        return [(setting, *found) for setting, found in zip(self.ranked()[1:], with_best, strict=False)]

    def pairs(self) -> int:
        with_scores = sum(bool(setting.scores()) for setting in self.settings)
        return with_scores * (with_scores - 1) // 2

    def test_values(self) -> dict[str, tuple[float, ...]]:
        """Of the chosen setting only: test data that select are test data no more."""
        best = self.chosen()
        tests = [trial.test for trial in best.trials if trial.state == "finished" and trial.test] if best else []
        names = tests[0] if tests else {}
        return {name: tuple(test[name] for test in tests if name in test) for name in names}

    # -- sentences --

    def verdict(self) -> str:
        best, compared = self.chosen(), self.comparisons()
        if best is None:
            done = any(trial.state == "finished" for setting in self.settings for trial in setting.trials)
            missing = "no run has a validation value: a sweep needs validation data"
            return missing if done else "no trial finished, so there is nothing to compare"
        if not compared:
            return f"{best.label}: {self.metric} {spread_text(best)}; no other setting has a value to compare with"
        unknown = [setting for setting, _, p in compared if p is None]
        if unknown:
            ahead = f"{best.label} has the best {self.metric}, {spread_text(best)}"
            return f"{ahead}, but one seed per setting shows no noise: `--seeds 4` measures it"
        equal = [(setting, each) for setting, each, p in compared if p is not None and p >= LEVEL]
        if not equal:
            second, each, p = compared[0]
            ahead = f"{best.label} is best: {self.metric} {spread_text(best)}, ahead of {second.label}"
            return f"{ahead} ({spread_text(second)}) by {abs(each.mean):.4g}; p = {_p_text(p)}, n = {each.n}"
        return self._undecided(best, equal)

    def _undecided(self, best: Setting, equal: list[tuple[Setting, Difference]]) -> str:
        together = [best, *(setting for setting, _ in equal)]
        shown = together[:NAMED]
        more = f" and {len(together) - NAMED} more" if len(together) > NAMED else ""
        names = _listed([setting.label for setting in shown]) if not more else ", ".join(s.label for s in shown) + more
        values = ", ".join(spread_text(setting) for setting in shown)
        n = min(each.n for _, each in equal)
        return f"{names} cannot be told apart ({self.metric} {values}, n = {n})"

    def advice(self) -> str:
        """What would settle it; empty if it is settled, or if nothing is known."""
        compared = self.comparisons()
        equal = [(setting, each) for setting, each, p in compared if p is not None and p >= LEVEL]
        if not equal:
            return ""
        setting, each = equal[0]
        needed = seeds_needed(each, LEVEL / max(1, self.pairs()))
        if needed is None:
            return f"more than {MOST_SEEDS} seeds each would be needed to show a difference: take either"
        size = f"a difference of {abs(each.mean):.2g} to {setting.label}"
        return f"{needed} seeds each would show {size}, if it is real, in 4 of 5 sweeps: `--seeds {needed}`"

    def method(self) -> str:
        compared = self.comparisons()
        if not any(p is not None for _, _, p in compared):
            return ""
        how = "paired by seed" if all(each.paired for _, each, _ in compared) else "paired by seed where possible"
        corrected = f", corrected for {self.pairs()} pairs (Holm)" if self.pairs() > 1 else ""
        return f"± is the standard deviation over seeds; compared by t-tests {how}{corrected}, level {LEVEL}"

    def troubles(self) -> list[str]:
        """One line per trial that failed, or in which a rule found an error."""
        trials = [trial for setting in self.settings for trial in setting.trials]
        return [f"{trial.run}: {trial.message or trial.state}" for trial in trials if trial.message]

    def troubles_of_code(self) -> bool:
        """Has a trial failed, or did a rule find an error? A setting that diverges is a result, no failure."""
        trials = [trial for setting in self.settings for trial in setting.trials]
        return any(trial.message and trial.state != "diverged" for trial in trials)

    def counts(self) -> str:
        trials = [trial for setting in self.settings for trial in setting.trials]
        done = sum(trial.state == "finished" for trial in trials)
        rest = [
            f"{count} {state}"
            for state in ("halved", "diverged", "failed", "unfinished")
            if (count := sum(trial.state == state for trial in trials))
        ]
        return ", ".join([f"{done} of {counted(len(trials), 'trial')} finished", *rest])

    # -- for programs --

    def plain(self) -> dict[str, Any]:
        return {
            "recipe": self.recipe,
            "group": self.group,
            "metric": self.metric,
            "higher_is_better": self.higher_is_better,
            "interrupted": self.interrupted,
            "verdict": self.verdict(),
            "advice": self.advice(),
            "method": self.method(),
            "chosen": None if (best := self.chosen()) is None else best.values,
            "test": self.test_values(),
            "settings": [_plain_setting(setting) for setting in self.ranked()],
            "comparisons": [
                {"values": setting.values, "behind_by": each.mean, "p": p, "paired": each.paired, "n": each.n}
                for setting, each, p in self.comparisons()
            ],
        }


def _plain_setting(setting: Setting) -> dict[str, Any]:
    scores = list(setting.scores().values())
    trials = [
        {"run": t.run, "seed": t.seed, "state": t.state, "value": t.value, "message": t.message} for t in setting.trials
    ]
    return {
        "values": setting.values,
        "mean": fmean(scores) if scores else None,
        "spread": stdev(scores) if len(scores) > 1 else None,
        "n": len(scores),
        "trials": trials,  # their test values are left out on purpose
    }


def spread_text(setting: Setting) -> str:
    """'0.979 ± 0.007'; without ± for one seed."""
    scores = list(setting.scores().values())
    if not scores:
        return "no value"
    mean = f"{fmean(scores):.4g}"
    return f"{mean} ± {stdev(scores):.2g}" if len(scores) > 1 else mean


def _listed(words: list[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else words[0]


def _p_text(p: float | None) -> str:
    return "unknown" if p is None else "0.0001 or less" if p <= 0.0001 else f"{p:.2g}"
