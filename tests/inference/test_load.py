"""A run's model, found again: best weights, predictions as in training, the metrics of the run."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import trueloop
from tests.conftest import in_child
from tests.docs_blocks import python_blocks
from tests.engine.small import SMALL, Read, blobs, with_norm
from tests.session.test_changes import about
from tests.session.test_changes import trueloop as cli
from trueloop.errors import BadCheckpoint, BadData, Misuse, NotARun
from trueloop.session.folder import read_about
from trueloop.session.train import train


def halved(inputs: Any) -> Any:
    return inputs / 2


RECIPE = replace(SMALL, model=with_norm, data=Read(more={"prepare": halved}), ema=0.9, epochs=4, lr=0.03)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("loaded")
    in_child(lambda: train(RECIPE, runs=folder, hooks=()).ending.reason)
    return folder


def loaded(runs: Path, **options: Any) -> trueloop.Loaded:
    return trueloop.load("small", recipe=RECIPE, runs=runs, device="cpu", **options)


def test_it_is_evaluated_as_the_run_evaluated_its_best(runs: Path) -> None:
    found = loaded(runs)
    assert found.evaluate()["accuracy"] == read_about(runs / "small")["best"]
    assert found.evaluate("valid") == found.evaluate()
    assert not found.model.training
    assert found.recipe is RECIPE
    assert found.evaluate(TensorDataset(*blobs(20, seed=1))) == pytest.approx(found.evaluate())


def test_predictions_are_prepared_batched_and_change_nothing(runs: Path) -> None:
    found = loaded(runs)
    inputs, labels = blobs(50)
    with torch.no_grad():
        expected = found.model(inputs / 2)
    before = torch.get_rng_state()
    asked: list[Any] = [
        inputs, inputs.numpy(), TensorDataset(inputs, labels), DataLoader(TensorDataset(inputs, labels), batch_size=7),
    ]  # fmt: skip
    for given in asked:
        assert torch.allclose(found.predict(given), expected, atol=1e-6)

    class Alone(torch.utils.data.Dataset[Tensor]):
        def __len__(self) -> int:
            return len(inputs)

        def __getitem__(self, number: int) -> Tensor:
            return inputs[number]

    assert torch.allclose(found.predict(Alone()), expected, atol=1e-6)
    assert torch.equal(before, torch.get_rng_state())


def test_by_name_by_folder_and_by_checkpoint(runs: Path) -> None:
    steps = sorted((runs / "small" / "checkpoints").glob("step-*"))
    last = trueloop.load(steps[-1], recipe=RECIPE, device="cpu")
    named = loaded(runs, checkpoint="last")
    folder = trueloop.load(runs / "small", recipe=RECIPE, checkpoint=str(int(steps[-1].name[5:])), device="cpu")
    for one in (named, folder):
        pairs = zip(last.model.state_dict().values(), one.model.state_dict().values(), strict=True)
        assert all(torch.equal(*pair) for pair in pairs)


@pytest.mark.parametrize(
    ("ask", "kind", "said"),
    [
        (lambda runs: trueloop.load("smal", runs=runs), NotARun, "Did you mean small"),
        (lambda runs: trueloop.load("small", runs=runs), Misuse, "recipe=recipe"),
        (lambda runs: loaded(runs, checkpoint="first"), Misuse, "write best, last or a step"),
        (lambda runs: loaded(runs, checkpoint="9999"), Misuse, "Available steps"),
        (lambda runs: loaded(runs, model=nn.Linear(1, 1)), Misuse, "leave `model` out"),
        (lambda runs: loaded(runs).evaluate("test"), Misuse, "There are: valid, train"),
        (lambda runs: loaded(runs).predict([1, 2]), BadData, "torch.stack"),
        (lambda runs: loaded(runs).predict(torch.zeros(0, 6)), BadData, "no sample to predict"),
    ],
)
def test_mistakes_are_sentences(runs: Path, ask: Callable[[Path], Any], kind: type[Exception], said: str) -> None:
    with pytest.raises(kind) as raised:
        ask(runs)
    assert said in str(raised.value)


def test_a_changed_recipe_is_reported_and_a_different_model_is_refused(runs: Path) -> None:
    with pytest.warns(UserWarning, match="different recipe or different code .lr"):
        trueloop.load("small", recipe=replace(RECIPE, lr=1.0), runs=runs, device="cpu")
    with pytest.warns(UserWarning, match="different"), pytest.raises(BadCheckpoint, match="does not fit the model"):
        trueloop.load("small", recipe=replace(RECIPE, model=lambda: nn.Linear(6, 3)), runs=runs, device="cpu")


def test_the_page_runs_as_it_is_printed(tmp_path: Path) -> None:
    code, printed = cli(
        tmp_path, "train", "digits", "--set", "epochs=2", "--set", "trackers=none", "--set", "device=cpu"
    )
    assert code == 0, printed

    def work() -> tuple[list[int], dict[str, float]]:
        os.chdir(tmp_path)
        names: dict[str, Any] = {}
        exec(python_blocks("training/load-and-predict.md")[0].replace('"digits")', '"digits", device="cpu")'), names)
        return list(names["scores"].shape), names["loaded"].evaluate()

    shape, values = in_child(work)
    assert shape == [10, 10]
    assert values == about(tmp_path, "digits")["test"]
