"""Which of several runs is better: only said where the difference is larger than its noise."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from trueloop.session.runs import RunSummary, Status
from trueloop.session.verdict import verdict_of


def run(
    name: str, best: float | None, status: Status = "finished", metric: str = "accuracy", **settings: Any
) -> RunSummary:
    return RunSummary(Path("runs") / name, status, metric=metric, best=best, settings=settings)


def seeds(lr: float, *values: float) -> list[RunSummary]:
    return [run(f"{lr}-{seed}", value, lr=lr, seed=seed) for seed, value in enumerate(values)]


def test_a_difference_that_is_larger_than_the_noise() -> None:
    verdict = verdict_of([*seeds(0.01, 0.90, 0.91, 0.90, 0.91), *seeds(0.1, 0.70, 0.72, 0.69, 0.71)])
    assert verdict.text.startswith(
        "lr=0.01 is best: accuracy 0.905 ± 0.0058, ahead of lr=0.1 (0.705 ± 0.013) by 0.2; p ="
    )
    assert verdict.advice == ""
    assert "paired by seed" in verdict.method


def test_a_difference_within_the_noise() -> None:
    verdict = verdict_of([*seeds(0.01, 0.90, 0.95, 0.91, 0.93), *seeds(0.1, 0.93, 0.90, 0.94, 0.91)])
    assert "cannot be told apart" in verdict.text
    assert "seeds" in verdict.advice


def test_one_run_of_each_shows_no_noise() -> None:
    verdict = verdict_of([*seeds(0.01, 0.90), *seeds(0.1, 0.95)])
    assert verdict.text.startswith("lr=0.1 has the best accuracy, 0.95")
    assert "no noise" in verdict.text


def test_a_metric_of_which_less_is_better() -> None:
    runs = [
        RunSummary(Path(f"runs/{lr}"), "finished", metric="mae", higher_is_better=False, best=best, settings={"lr": lr})
        for lr, best in ((0.1, 2.0), (0.2, 1.0))
    ]
    assert verdict_of(runs).text.startswith("lr=0.2 has the best mae, 1")


def test_nothing_to_compare_is_no_verdict() -> None:
    assert verdict_of(seeds(0.01, 0.90, 0.91)).text == ""  # one setting
    assert verdict_of([run("a", None, lr=1), run("b", None, lr=2)]).text == ""  # no validation
    assert verdict_of([run("a", 0.9, lr=1), run("b", 2.0, metric="mae", lr=2)]).text == ""  # two metrics
    assert verdict_of([run("a", 0.9, lr=1), run("b", float("nan"), lr=2)]).text == ""
    assert verdict_of([run("a", 0.9, lr=1), run("b", 0.95, status="running", lr=2)]).text == ""


def test_fields_that_change_no_result_make_no_settings() -> None:
    runs = [run(str(keep), 0.9 + keep / 100, keep=keep, seed=keep) for keep in range(4)]
    assert verdict_of(runs).text == ""


def test_runs_that_differ_in_many_fields_are_called_by_name() -> None:
    runs = [run(name, best, a=best, b=best, c=best, d=best) for name, best in (("mine", 0.9), ("yours", 0.8))]
    assert verdict_of(runs).text.startswith("run=mine has the best accuracy")


def test_a_chosen_field_makes_the_settings() -> None:
    runs = [run(f"{lr}{wd}", lr + wd, lr=lr, wd=wd) for lr in (0.1, 0.2) for wd in (0.01, 0.02, 0.03)]
    verdict = verdict_of(runs, ["lr"])
    assert verdict.text.startswith("lr=0.2 is best")
    assert "n = 3" in verdict.text


def test_runs_of_a_setting_that_share_a_seed_all_count() -> None:
    runs = [
        run(f"{lr}{wd}{seed}", lr + wd + seed / 1000, lr=lr, wd=wd, seed=seed)
        for lr in (0.1, 0.2)
        for wd in (0.01, 0.02)
        for seed in (0, 1)
    ]
    verdict = verdict_of(runs, ["lr"])
    assert "n = 4" in verdict.text
    assert "paired by seed where possible" in verdict.method


def test_scripts_with_a_seed_among_their_arguments_are_paired() -> None:
    runs = [
        RunSummary(
            Path(f"runs/{lr}{seed}"), "finished", metric="accuracy", best=float(lr) + int(seed) / 100,
            settings={"--lr": lr, "--seed": seed},
        )
        for lr in ("0.1", "0.2")
        for seed in "012"
    ]  # fmt: skip
    assert verdict_of(runs).method.startswith(
        "± is the standard deviation over seeds; compared by t-tests paired by seed"
    )
