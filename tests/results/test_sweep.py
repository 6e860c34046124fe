"""What a sweep says: which settings can be told apart, with their noise; test values of the chosen one only."""

from __future__ import annotations

import json
import random

import pytest

from trueloop.report import render
from trueloop.results.sweep import Setting, Sweep, TrialResult, TrialState


def setting(lr: str, *values: float | None, state: TrialState = "finished", message: str = "") -> Setting:
    trials = [
        TrialResult(f"s-lr={lr}-seed={seed}", seed, state, value, {"accuracy": 0.123}, message)
        for seed, value in enumerate(values)
    ]
    return Setting({"lr": lr}, tuple(trials))


def sweep(*settings: Setting, higher: bool = True) -> Sweep:
    return Sweep("digits", "digits-sweep", "runs", "accuracy", higher, settings)


CLOSE = sweep(setting("3e-2", 0.979, 0.972, 0.985, 0.98), setting("3e-3", 0.981, 0.977, 0.986, 0.978))
APART = sweep(setting("3e-2", 0.91, 0.92, 0.915, 0.918), setting("3e-3", 0.981, 0.977, 0.986, 0.978))


def test_settings_that_cannot_be_told_apart() -> None:
    assert CLOSE.verdict() == (
        "lr=3e-3 and lr=3e-2 cannot be told apart (accuracy 0.9805 ± 0.004, 0.979 ± 0.0054, n = 4)"
    )
    assert "seeds each would show a difference of 0.0015 to lr=3e-2" in CLOSE.advice()
    assert "standard deviation over seeds" in CLOSE.method()
    assert "paired by seed" in CLOSE.method()


def test_a_best_setting() -> None:
    assert APART.verdict().startswith("lr=3e-3 is best: accuracy 0.9805 ± 0.004, ahead of lr=3e-2 (0.9158 ± 0.0043) by")
    assert APART.advice() == ""


def test_lower_may_be_better() -> None:
    assert sweep(*APART.settings, higher=False).verdict().startswith("lr=3e-2 is best")


def test_one_seed_shows_no_noise() -> None:
    said = sweep(setting("3e-2", 0.9), setting("3e-3", 0.98)).verdict()
    assert (
        said == "lr=3e-3 has the best accuracy, 0.98, but one seed per setting shows no noise: `--seeds 4` measures it"
    )


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ((setting("1", None, state="failed", message="ValueError: x"),), "no trial finished"),
        ((setting("1", None),), "needs validation data"),
        ((setting("1", 0.5, 0.6),), "no other setting has a value"),
    ],
)
def test_where_nothing_can_be_compared(settings: tuple[Setting, ...], words: str) -> None:
    assert words in sweep(*settings).verdict()
    for form in ("text", "json", "html", "markdown"):
        assert render(sweep(*settings), form)


def test_test_values_are_those_of_the_chosen_setting_only() -> None:
    text = render(APART, "text")
    assert "Test values of lr=3e-3" in text
    assert text.count("0.123") == 1
    plain = json.loads(render(APART, "json"))
    assert plain["test"] == {"accuracy": [0.123] * 4}
    assert "0.123" not in json.dumps(plain["settings"])


@pytest.mark.parametrize("result", [CLOSE, APART], ids=["close", "apart"])
def test_the_table_is_narrow_and_sorted(result: Sweep) -> None:
    lines = render(result, "text").splitlines()
    rows = [line for line in lines if "3e-" in line and "±" not in line and "Test" not in line]
    assert rows[0].split()[:2] == ["→", "3e-3"]
    assert max(map(len, rows)) <= 100


def test_a_winner_among_equal_settings_is_rare() -> None:
    """The best of five equal settings is far from the worst by chance: in 5 % of sweeps that may be called real."""
    draws, wrong = random.Random(0), 0
    for _ in range(300):
        equal = [setting(str(number), *(draws.gauss(0, 1) for _ in range(4))) for number in range(5)]
        wrong += any(p is not None and p < 0.05 for _, _, p in sweep(*equal).comparisons())
    assert wrong <= 24


def test_a_diverged_setting_is_a_result() -> None:
    diverged = setting("9", 0.3, 0.3, state="diverged", message="NaN at step 3")
    result = sweep(*APART.settings, diverged)
    assert not result.troubles_of_code()
    assert "2 diverged" in render(result, "text")
    assert sweep(setting("9", None, state="failed", message="ValueError")).troubles_of_code()
