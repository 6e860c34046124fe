"""`--baseline`: a run that falls below a good one stops or is marked, and is not promoted; a healthy one with another
seed passes."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.engine.small import SMALL, Kept, Of, Read, blobs
from tests.session.made import FINISHED, made
from trueloop.checkpoint.store import Folder
from trueloop.cli.main import main
from trueloop.cli.train import exit_code
from trueloop.data.source import Splits
from trueloop.data.tensors import Tensors
from trueloop.errors import Misuse, NotARun
from trueloop.hook import Hook, Row
from trueloop.recipe.recipe import DataRequest, Recipe
from trueloop.session import train as session
from trueloop.session.baseline import Found, read_baseline
from trueloop.session.runs import summary_of
from trueloop.session.train import Trained

Run = Callable[..., Trained]


def read(request: DataRequest) -> Splits:
    return Splits(Tensors(*blobs(300)), Tensors(*blobs(200, seed=1)))


def mislabelled(request: DataRequest) -> Splits:
    """What is learned says nothing about the validation data: every label is another one's."""
    inputs, labels = blobs(300)
    return Splits(
        Tensors(inputs, labels[torch.randperm(300, generator=torch.Generator().manual_seed(5))]),
        Tensors(*blobs(200, seed=1)),
    )


HEALTHY = replace(SMALL, data=read, epochs=4, batch=30, lr=0.03, log_every=10)
BROKEN = replace(HEALTHY, name="broken", data=mislabelled)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.chdir(tmp_path)

    def start(recipe: Recipe, *hooks: Hook, **more: Any) -> Trained:
        return session.train(recipe, runs=tmp_path / "runs", hooks=hooks, hand_on_signals=False, **more)

    return start


def about(done: Trained) -> dict[str, Any]:
    return dict(json.loads((done.folder / "run.json").read_text(encoding="utf-8")))


# -- stopped, marked, left alone --


def test_a_run_with_shuffled_labels_stops_and_nothing_is_promoted(run: Run) -> None:
    good = run(HEALTHY, name="good")
    done = run(BROKEN, baseline="good")
    assert done.ending.reason == "collapsed"
    assert exit_code(done.ending) == 5
    assert done.ending.step == 20, "after the second of four epochs"
    assert (done.ending.best, done.best_checkpoint, done.ending.test) == (None, None, None)
    assert Folder(done.folder / "checkpoints").names() == ["step-00000010", "step-00000020"]
    told = about(done)
    assert told["status"] == "collapsed"
    assert told["baseline"]["run"] == str(good.folder)
    assert told["baseline"]["value"] == good.ending.best
    assert told["baseline"]["noise_from"].endswith("on 200 validation samples")
    assert (told["collapse"]["kind"], told["collapse"]["first_step"], told["collapse"]["recovered_at"]) == (
        "baseline",
        20,
        None,
    )
    assert "is worse than the baseline good" in done.ending.message
    assert f"`trueloop compare {good.folder} {done.folder}`" in done.ending.message
    assert summary_of(done.folder).status == "collapsed"


def test_a_healthy_run_with_another_seed_passes_and_has_the_bits_of_one_without_a_baseline(run: Run) -> None:
    run(HEALTHY, name="good")
    alone, held = (
        run(replace(HEALTHY, seed=1), name="alone"),
        run(replace(HEALTHY, seed=1), name="held", baseline="good"),
    )
    assert held.ending.reason == "finished"
    assert held.best_checkpoint is not None
    assert "collapse" not in about(held)
    assert held.ending.best == alone.ending.best
    assert all(torch.equal(value, alone.model.state_dict()[name]) for name, value in held.model.state_dict().items())


@pytest.mark.parametrize("seed", range(2, 6))
def test_no_seed_of_a_healthy_recipe_collapses(run: Run, seed: int) -> None:
    run(HEALTHY, name="good")
    assert run(replace(HEALTHY, seed=seed), baseline="good").ending.reason == "finished"


def test_a_marked_run_goes_on_and_has_no_best(run: Run) -> None:
    run(HEALTHY, name="good")
    kept = Kept()
    done = run(replace(BROKEN, on_collapse="mark"), kept, baseline="good")
    assert (done.ending.reason, done.ending.step, done.ending.best) == ("finished", 40, None)
    assert done.best_checkpoint is None
    told = about(done)["collapse"]
    assert (told["first_step"], told["step"], told["recovered_at"]) == (20, 40, None)
    assert len([note for note in kept.notes if "on_collapse=mark" in note]) == 1
    assert summary_of(done.folder).status == "finished"
    assert summary_of(done.folder).collapse.startswith("The best validation accuracy of the run")


class Spoilt(Hook):
    """Turns the labels that are learned from, in the middle of the run, and back."""

    def __init__(self, splits: Splits, at: int, until: int) -> None:
        assert isinstance(splits.train, Tensors)
        self.targets: Tensor = splits.train.targets
        self.at, self.until = at, until

    def logged(self, row: Row) -> None:
        if row.kind == "valid" and row.step in (self.at, self.until):
            self.targets.copy_((self.targets + (1 if row.step == self.at else 2)) % 3)


def test_a_best_from_before_stays_and_a_recovery_is_told(run: Run) -> None:
    run(HEALTHY, name="good")
    splits = read(DataRequest())
    spoilt = Spoilt(splits, 20, 40)
    done = run(replace(HEALTHY, data=Of(splits), epochs=8, on_collapse="mark", lr=0.05), spoilt, baseline="good")
    rows = [row for row in _rows(done) if row["kind"] == "valid"]
    told = about(done)["collapse"]
    assert told["first_step"] == 30
    assert next(row["step"] for row in rows if row.get("best")) == 10
    assert not any(row.get("best") for row in rows if row["step"] in (30, 40))
    assert told["recovered_at"] == 70
    assert summary_of(done.folder).collapse == ""


def _rows(done: Trained) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (done.folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]


def stuck() -> nn.Module:
    """Answers with the commonest class, whatever it is shown."""
    layer = nn.Linear(6, 3)
    nn.init.zeros_(layer.weight)
    layer.bias.data.copy_(torch.bincount(blobs(300)[1]))
    return layer


def test_without_a_baseline_a_constant_answer_is_only_noted_once_at_the_end(run: Run) -> None:
    kept = Kept()
    done = run(replace(HEALTHY, model=stuck, lr=1e-9), kept)
    assert done.ending.reason == "finished"
    assert done.best_checkpoint is not None
    assert len([note for note in kept.notes if "no better than a constant answer (always " in note]) == 1
    kept = Kept()
    run(HEALTHY, kept)
    assert not any("constant" in note for note in kept.notes)


# -- going on --


class Stopped(Hook):
    def __init__(self, step: int) -> None:
        self.step = step

    def logged(self, row: Row) -> None:
        if row.kind == "valid" and row.step == self.step:
            os.kill(os.getpid(), signal.SIGTERM)


def test_a_resumed_run_keeps_its_baseline_even_if_that_is_gone(run: Run, tmp_path: Path) -> None:
    good = run(HEALTHY, name="good")
    done = run(BROKEN, Stopped(10), baseline=good.folder)
    assert done.ending.reason == "signal"
    good.folder.rename(tmp_path / "elsewhere")
    before = about(done)["baseline"]
    again = session.resume(BROKEN, done.folder, hooks=[], hand_on_signals=False)
    assert (again.ending.reason, again.ending.step) == ("collapsed", 20)
    assert about(again)["baseline"] == before


def test_a_stopped_run_goes_on_when_asked_to_mark(run: Run) -> None:
    run(HEALTHY, name="good")
    done = run(BROKEN, baseline="good")
    again = session.resume(replace(BROKEN, on_collapse="mark"), done.folder, hooks=[], hand_on_signals=False)
    assert (again.ending.reason, again.ending.step, again.ending.best) == ("finished", 40, None)
    assert about(again)["collapse"]["first_step"] == 20


def test_a_baseline_that_was_changed_by_hand_is_refused(run: Run) -> None:
    run(HEALTHY, name="good")
    done = run(BROKEN, Stopped(10), baseline="good")
    told = about(done)
    del told["baseline"]["noise"]
    (done.folder / "run.json").write_text(json.dumps(told), encoding="utf-8")
    for _ in range(2):  # the lock was let go
        with pytest.raises(NotARun, match="its baseline cannot be read"):
            session.resume(BROKEN, done.folder, hooks=[], hand_on_signals=False)


# -- refused before anything is trained --


def never(request: DataRequest) -> Splits:
    raise AssertionError("the data were read")


@pytest.mark.parametrize(
    ("baseline", "said"),
    [
        ("goood", "There is no run 'goood'. Did you mean good? Nothing was trained"),
        ("damaged", "cannot be read"),
        ("rows", "is damaged"),
        ("other", "uses metric=loss and this recipe metric=accuracy"),
        ("empty", "has no validation"),
        ("fallen", "has collapsed"),
        (".", "holds no run"),
    ],
)
def test_a_baseline_that_is_none_is_refused_with_a_sentence(run: Run, tmp_path: Path, baseline: str, said: str) -> None:
    runs = tmp_path / "runs"
    made(runs, "good", **FINISHED)
    (made(runs, "damaged") / "run.json").write_text("{")
    (made(runs, "rows", **FINISHED) / "metrics.jsonl").write_text('{"kind": "valid"\n{"kind": "valid"}\n')
    made(runs, "other", metric="loss", higher_is_better=False, **FINISHED)
    made(runs, "empty", status="finished")
    made(runs, "fallen", status="collapsed", collapse={"sentence": "It fell.", "recovered_at": None})
    before = sorted(path.name for path in runs.iterdir())
    with pytest.raises(NotARun, match=re.escape(said)):
        run(replace(SMALL, data=never), baseline=baseline)
    assert sorted(path.name for path in runs.iterdir()) == before


def test_a_run_without_validation_data_cannot_have_a_baseline(run: Run, tmp_path: Path) -> None:
    made(tmp_path / "runs", "good", **FINISHED)
    with pytest.raises(Misuse, match="there are no validation data"):
        run(replace(SMALL, data=Read(valid=0)), baseline="good")
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["good"]


def test_the_command_refuses_it_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["train", "digits", "--baseline", "nowhere"]) == 4
    assert "There is no run 'nowhere'. Nothing was trained" in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()


# -- the noise --

ROWS = tuple(
    Row("valid", 40 * number, float(number), {"accuracy": value}) for number, value in enumerate((0.9, 0.95, 0.985), 1)
)


def found(runs: Path, **others: float) -> Found:
    made(runs, "good", ROWS, **FINISHED)
    for name, best in others.items():
        made(runs, name, ROWS, recipe={"seed": int(name[1:])}, **{**FINISHED, "best": best})
    return read_baseline("good", runs, SMALL)


def test_with_enough_other_seeds_the_noise_is_their_spread(tmp_path: Path) -> None:
    baseline = found(tmp_path, s1=0.9, s2=0.95).with_noise(1000)
    assert baseline.noise == pytest.approx(3 * 0.04272, rel=1e-3)
    assert baseline.noise_from == "3 standard deviations of the best accuracy of 3 runs with different seeds"
    assert baseline.rows == ((40, 0.9), (80, 0.95), (120, 0.985))


def test_only_finished_sound_runs_of_the_same_recipe_count_and_each_seed_once(tmp_path: Path) -> None:
    made(tmp_path, "longer", ROWS, recipe={"seed": 7, "lr": 1.0}, **FINISHED)
    made(tmp_path, "killed", ROWS, recipe={"seed": 8})
    made(tmp_path, "elsewhere", ROWS, recipe={"seed": 9}, data="/other", **FINISHED)
    made(tmp_path, "again", ROWS, recipe={"seed": 0}, **FINISHED)
    made(tmp_path, "marked", ROWS, recipe={"seed": 10}, collapse={"sentence": "fell", "recovered_at": None}, **FINISHED)
    (made(tmp_path, "damaged") / "run.json").write_text("{")
    made(tmp_path, "same", ROWS, recipe={"seed": 1, "name": "digits", "workers": 2}, **{**FINISHED, "best": 0.97})
    assert found(tmp_path, s1=0.97).others == (0.97,)


def test_two_runs_that_are_close_by_luck_do_not_make_the_noise_small(tmp_path: Path) -> None:
    baseline = found(tmp_path, s1=0.985).with_noise(200)
    assert baseline.noise == pytest.approx(0.0343, abs=2e-3)
    assert "2 runs with different seeds lie closer together" in baseline.noise_from


def test_alone_an_accuracy_has_the_error_of_its_samples_and_is_never_exact(tmp_path: Path) -> None:
    good = found(tmp_path)
    assert good.with_noise(10_000).noise == pytest.approx(3 * (0.985 * 0.015 / 10_000) ** 0.5, rel=0.05)
    assert replace(good, value=1.0).with_noise(100).noise > 0.01


def test_a_loss_has_the_unrest_of_its_last_evaluations_or_a_tenth_of_its_value() -> None:
    rows = tuple((number, value) for number, value in enumerate((9.0, 0.50, 0.52, 0.48, 0.50, 0.50)))
    loss = Found(Path("runs/good"), "loss", False, 0.48, rows, ())
    assert loss.with_noise(10).noise == pytest.approx(3 * 0.01414, rel=1e-3)
    assert loss.with_noise(10).noise_from == "3 standard deviations of its last 5 evaluations"
    assert replace(loss, rows=rows[:2]).with_noise(10).noise == pytest.approx(0.048)
