"""`trueloop evaluate RUN`: the metrics that the run logged, again, with intervals that cover what they should."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import trueloop
from tests.conftest import in_child
from tests.engine.small import SMALL, Read, with_norm
from trueloop.cli.main import main
from trueloop.data.source import Batch, Facts
from trueloop.engine.precision import Precision
from trueloop.engine.task import build_task
from trueloop.errors import Misuse
from trueloop.inference.evaluation import evaluate_run
from trueloop.inference.intervals import SampleSums
from trueloop.results.check import ExitCode
from trueloop.session.train import train

Captured = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two epochs of digits; the moving average is what was evaluated."""
    folder: Path = tmp_path_factory.mktemp("evaluated") / "runs"
    fields = ("epochs=2", "ema=0.9", "trackers=none", "device=cpu")
    words = [word for field in fields for word in ("--set", field)]
    assert in_child(lambda: main(["train", "digits", "--runs", str(folder), "--quiet", *words])) == 0
    return folder


def evaluated(runs: Path, capsys: Captured, *words: str) -> Any:
    code = main(["evaluate", "digits", "--runs", str(runs), "--device", "cpu", "--format", "json", *words])
    assert code == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("split", ["test", "valid"])
def test_it_repeats_what_the_run_logged(runs: Path, capsys: Captured, split: str) -> None:
    rows = [json.loads(line) for line in (runs / "digits" / "metrics.jsonl").read_text().splitlines()]
    logged = next(row for row in reversed(rows) if row["kind"] == split)
    found = evaluated(runs, capsys, "--split", split)
    assert (found["split"], found["weights"], found["step"]) == (split, "ema", logged["step"])
    for metric in found["metrics"]:
        assert metric["value"] == metric["logged"] == logged[metric["name"]]
        low, high = metric["interval"]
        assert low < metric["value"] < high


def test_the_text_says_that_they_agree_or_by_how_much_not(runs: Path, capsys: Captured, tmp_path: Path) -> None:
    assert main(["evaluate", str(runs / "digits"), "--device", "cpu"]) == 0
    printed = capsys.readouterr().out
    assert "moving average of the weights of step 38 on the test split (400 samples)" in printed
    assert printed.count("identical") == 2
    assert "They agree with the values that the run logged." in printed
    rows = (runs / "digits" / "metrics.jsonl").read_text()
    last = json.loads(rows.splitlines()[-1])
    changed = json.dumps({**last, "accuracy": last["accuracy"] - 0.25})
    (runs / "digits" / "metrics.jsonl").write_text(rows.replace(rows.splitlines()[-1], changed))
    try:
        assert main(["evaluate", str(runs / "digits"), "--device", "cpu"]) == ExitCode.FINDINGS
        printed = capsys.readouterr().out
        assert main(["evaluate", str(runs / "digits"), "--device", "cpu", "--format", "json"]) == ExitCode.FINDINGS
        beside = capsys.readouterr()
    finally:
        (runs / "digits" / "metrics.jsonl").write_text(rows)
    assert "differs by +0.25" in printed
    assert "digits does not give the values that it logged: accuracy " in printed
    assert beside.err.startswith("trueloop: digits does not give the values that it logged: accuracy ")
    assert json.loads(beside.out)["split"] == "test"


def test_a_different_machine_may_round_differently_and_no_more(runs: Path, capsys: Captured) -> None:
    file, rows = runs / "digits" / "run.json", (runs / "digits" / "metrics.jsonl").read_text()
    about, last = file.read_text(), json.loads(rows.splitlines()[-1])

    def code(loss: float, samples: int) -> int:
        changed = {**last, "loss": last["loss"] * (1 + loss), "accuracy": last["accuracy"] - samples / 400}
        (runs / "digits" / "metrics.jsonl").write_text(rows.replace(rows.splitlines()[-1], json.dumps(changed)))
        return main(["evaluate", str(runs / "digits"), "--device", "cpu"])

    try:
        assert (code(5e-4, 0), code(0, 1)) == (1, 1)
        there = json.loads(about)
        file.write_text(json.dumps({**there, "machine": {**there["machine"], "torch": "2.11.0", "cuda": "H200"}}))
        assert (code(5e-4, 0), code(0, 1), code(5e-3, 0), code(0, 3)) == (0, 0, 1, 1)
    finally:
        file.write_text(about)
        (runs / "digits" / "metrics.jsonl").write_text(rows)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "Which run?"),
        (["nothing"], "There is no run 'nothing'"),
        (["digits", "--split", "tset"], "Did you mean test?"),
        (["digits", "--data", "nowhere"], "There is no folder nowhere"),
        (["digits", "--device", "gpu"], "--device cannot be 'gpu'"),
        (["digits", "--checkpoint", "7"], "Available steps"),
    ],
)
def test_mistakes_are_one_sentence(runs: Path, capsys: Captured, words: list[str], said: str) -> None:
    assert main(["evaluate", "--runs", str(runs), *words]) == ExitCode.MISUSE
    printed = capsys.readouterr()
    assert said in printed.err
    assert printed.err.count("\n") == 1


def right(output: Tensor, targets: Tensor) -> Tensor:
    return (output.argmax(1) == targets).float()


def mean_right(output: Tensor, targets: Tensor) -> Tensor:
    return right(output, targets).mean()


def test_metrics_of_your_own_get_an_interval_where_they_are_means_over_samples(tmp_path: Path) -> None:
    metrics = {"right": right, "mean_right": mean_right}
    recipe = replace(SMALL, model=with_norm, data=Read(), metrics=metrics, epochs=1)
    in_child(lambda: train(recipe, runs=tmp_path, hooks=()).ending.reason)
    loaded = trueloop.load("small", recipe=recipe, runs=tmp_path, device="cpu")
    found = {each.name: each for each in evaluate_run(loaded).metrics}
    assert found["right"].interval == found["accuracy"].interval
    assert found["mean_right"].interval is None
    assert found["mean_right"].value == pytest.approx(found["accuracy"].value)
    with pytest.raises(Misuse, match="There is no split 'test'"):
        evaluate_run(loaded, "test")


def batch_of(draws: torch.Generator, task: str) -> tuple[Tensor, Tensor]:
    if task == "multiclass":
        return torch.randn(200, 3, generator=draws), torch.randint(3, (200,), generator=draws)
    if task == "regression":
        targets = torch.randn(200, generator=draws)
        return targets[:, None] + torch.randn(200, 1, generator=draws), targets
    return torch.randn(200, 1, generator=draws), torch.randint(2, (200,), generator=draws).float()


@pytest.mark.parametrize("task", ["multiclass", "regression", "binary"])
def test_the_interval_of_a_mean_is_that_of_the_normal_approximation(task: str) -> None:
    recipe = replace(SMALL, task=task)  # type: ignore[arg-type]
    kind, (output, targets) = build_task(recipe, Facts()), batch_of(torch.Generator().manual_seed(1), task)
    sums = SampleSums(recipe, kind, Precision("fp32", torch.device("cpu")))
    for part in (slice(0, 128), slice(128, 200)):
        sums.add(output[part], Batch(output[part], targets[part]))
    losses = np.concatenate(sums.rows)[:, 0]
    assert losses.sum() == pytest.approx(float(kind.loss_sum(output, targets)), rel=1e-5)
    low, high = sums.intervals()["loss"]
    margin = 1.96 * losses.std() / len(losses) ** 0.5
    assert low == pytest.approx(losses.mean() - margin, abs=0.2 * margin)
    assert high == pytest.approx(losses.mean() + margin, abs=0.2 * margin)
    assert set(sums.intervals()) == set(kind.metrics(dict.fromkeys(sums.names, 1.0)))
