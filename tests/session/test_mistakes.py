"""Ordinary mistakes in a recipe: one sentence that says what to change, and nothing is run."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

from trueloop.data.dataset import Dataset
from trueloop.data.source import Splits
from trueloop.data.tensors import Tensors
from trueloop.errors import BadRecipe, TrueloopError
from trueloop.recipe.recipe import DataRequest, Recipe, defaults
from trueloop.recipes.catalogue import load_file
from trueloop.session.changes import changes_since
from trueloop.session.train import Trained, train

ROWS = torch.randn(64, 6, generator=torch.Generator().manual_seed(0))
LABELS = (ROWS.sum(1) > 0).long()
TRAIN, VALID = TensorDataset(ROWS[:48], LABELS[:48]), TensorDataset(ROWS[48:], LABELS[48:])


def net() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 2))


def data(_: DataRequest) -> Splits:
    return Splits(Dataset(TRAIN), Dataset(VALID))


class Endless(IterableDataset[Any]):
    def __iter__(self) -> Any:
        return iter(())


class Complex(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(6, 2, dtype=torch.cfloat))

    def forward(self, x: Tensor) -> Tensor:
        return (x.to(torch.cfloat) @ self.weight).abs()


def two_arguments(_: Any, two: Any) -> nn.Module:
    return nn.Linear(6, int(two))


def nothing(_: Any, lr: float) -> None:
    assert lr


def penalized(output: Tensor, batch: Any, _: Any) -> Tensor:
    (slope,) = torch.autograd.grad(output.sum(), batch.inputs.requires_grad_(), create_graph=True)
    steep: Tensor = slope.square().sum(1)
    return steep


RECIPE = Recipe("mine", model=net, data=data, epochs=1, batch=16, trackers=(), device="cpu")
LOADER: Any = DataLoader(TRAIN, 16)
PLAIN: Any = TRAIN
NO_DATA: Any = None
HEADS = Tensors(ROWS, {"label": LABELS, "value": ROWS[:, 0]})


def trained(folder: Path, **fields: Any) -> Trained:
    return train(replace(RECIPE, **fields), runs=folder, hooks=[])


@pytest.mark.parametrize(
    "given",
    [
        TRAIN,
        (TRAIN, VALID),
        (TRAIN, None, VALID),
        Splits(PLAIN),
        [TRAIN[i] for i in range(48)],
        LOADER,
        Splits(LOADER, LOADER),
        {"train": TRAIN, "validation": VALID},
    ],
    ids=["dataset", "pair", "without validation", "splits of datasets", "list", "loader", "splits of loaders", "names"],
)
def test_plain_datasets_are_data(tmp_path: Path, given: Any) -> None:
    assert trained(tmp_path, data=lambda _: given).ending.reason == "finished"


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"data": lambda _: LOADER, "batch": 8}, "batch=8, and its loader gives batches of 16"),
        ({"data": lambda _: (ROWS, LABELS)}, "returned a tuple. Nothing was trained: return a dataset"),
        ({"data": lambda _: None}, "returned None. Nothing was trained"),
        ({"data": lambda _: {"first": TRAIN}}, "returned a dict of first. Nothing was trained: there is no 'train'"),
        ({"data": lambda _: {"x": ROWS, "y": LABELS}}, "returned a dict. Nothing was trained: return a dataset"),
        ({"data": lambda _: Splits(NO_DATA)}, "returned None. Nothing was trained"),
        ({"data": lambda _: []}, "The training data is empty. Nothing was trained"),
        ({"data": lambda _: HEADS}, "task=multiclass needs targets as one tensor, not a dict"),
        ({"data": lambda _: TensorDataset(ROWS[:, 0], LABELS), "accumulate": 2}, r"has inputs \[16\].*fails on them"),
        ({"data": lambda _: Endless()}, r"batches Endless gives in an epoch is unknown.*steps=10_000"),
        ({"data": two_arguments}, r"data cannot be called: missing a required.*`def data\(request\)`"),
        ({"model": lambda: len}, "model returned a builtin_function_or_method, not an nn.Module"),
        ({"model": two_arguments}, "model cannot be called: missing a required argument: 'two'"),
        ({"loss": lambda output: output.sum()}, r"loss cannot be called.*`def loss\(output, targets\)`"),
        ({"loss": lambda output, _: output.sum(1).detach()}, "no gradient flows from the recipe's loss"),
        ({"loss": penalized}, "differentiates with respect to the inputs.*a step of your own"),
        ({"optimizer": lambda p: torch.optim.SGD(p)}, "optimizer cannot be called: got an unexpected keyword.*'lr'"),
        ({"optimizer": nothing}, "optimizer returned a NoneType, not an Optimizer"),
        ({"model": lambda: nn.Sequential(nn.Embedding(9, 2, sparse=True))}, "has sparse gradients"),
        ({"data": lambda _: TensorDataset(ROWS, torch.softmax(ROWS[:, :2], 1))}, "as soft labels are"),
    ],
)
def test_a_mistake_is_one_sentence(tmp_path: Path, fields: dict[str, Any], sentence: str) -> None:
    with pytest.raises(TrueloopError, match=sentence) as raised:
        trained(tmp_path, **fields)
    assert "\n" not in str(raised.value)
    assert not list(tmp_path.iterdir()), "nothing was run, so nothing is left"


class Heads(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body, self.label, self.value = nn.Linear(6, 8), nn.Linear(8, 2), nn.Linear(8, 1)

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        x = self.body(x).relu()
        return {"label": self.label(x), "value": self.value(x).squeeze(1)}


def both(output: Any, targets: Any) -> Tensor:
    label: Tensor = nn.functional.cross_entropy(output["label"], targets["label"], reduction="none")
    value: Tensor = (output["value"] - targets["value"]).square()
    return label + value


def test_tensors_hold_targets_of_several_heads(tmp_path: Path) -> None:
    fields = {"model": Heads, "loss": both, "data": lambda _: (HEADS, HEADS), "accumulate": 2}
    assert trained(tmp_path, **fields).ending.reason == "finished"


class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = net()

    def forward(self, batch: dict[str, Tensor]) -> Tensor:
        return self.net(batch["x"] * batch["scale"])  # type: ignore[no-any-return]


def test_scalar_inputs_go_with_accumulate(tmp_path: Path) -> None:
    def collate(rows: list[Any]) -> Any:
        return {"x": torch.stack([x for x, _ in rows]), "scale": torch.tensor(0.5)}, torch.stack([y for _, y in rows])

    fields = {"model": Scaled, "data": lambda _: Dataset(TRAIN, collate=collate), "accumulate": 2}
    assert trained(tmp_path, **fields).ending.reason == "finished"


def test_the_batch_size_of_a_loader_is_recorded_and_is_no_change(tmp_path: Path) -> None:
    recipe = replace(RECIPE, data=lambda _: LOADER, batch=defaults()["batch"])
    folder = train(recipe, runs=tmp_path, hooks=[]).folder
    about = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    assert (about["batch_size"], about["recipe"]["batch"]) == (16, defaults()["batch"])
    assert not changes_since(about, recipe)


def test_complex_parameters_are_trained(tmp_path: Path) -> None:
    assert trained(tmp_path, model=Complex).ending.reason == "finished"


def test_a_field_that_does_not_exist_has_a_neighbor(tmp_path: Path) -> None:
    file = tmp_path / "misspelled_field.py"
    file.write_text("from trueloop import Recipe\nrecipe = Recipe('mine', model=None, data=None, epoch=3)\n")
    with pytest.raises(TrueloopError, match=r"has no field 'epoch'. Did you mean epochs"):
        load_file(file)


class Forces(nn.Module):
    """Its output has a derivative of its own network."""

    def __init__(self) -> None:
        super().__init__()
        self.energy = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 2))

    def forward(self, x: Tensor) -> Tensor:
        x = x.detach().requires_grad_()
        with torch.enable_grad():
            energy: Tensor = self.energy(x)
            (slope,) = torch.autograd.grad(energy.sum(), x, create_graph=True)
        return energy + slope.sum(1, keepdim=True)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:The .grad attribute:UserWarning")  # of torch's compiler
def test_a_second_derivative_does_not_go_with_compile(tmp_path: Path) -> None:
    with pytest.raises(TrueloopError, match=r"has no second derivative\. No step was taken: set compile=off"):
        trained(tmp_path, model=Forces, compile="default")
    assert trained(tmp_path / "eager", model=Forces).ending.reason == "finished"


def test_a_file_that_exits_while_it_is_loaded_is_one_sentence(tmp_path: Path) -> None:
    file = tmp_path / "exits_when_loaded.py"
    file.write_text("raise SystemExit(7)\n", encoding="utf-8")
    with pytest.raises(BadRecipe, match=r"ended while it was loaded \(sys.exit, code 7\)\. Nothing was run"):
        load_file(file)
