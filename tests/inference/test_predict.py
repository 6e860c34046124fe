"""`trueloop predict RUN`: files in, a CSV out, with the predictions that the model gives in Python."""

from __future__ import annotations

import csv
import io
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import trueloop
from tests.conftest import in_child
from trueloop.cli.main import main
from trueloop.results.check import ExitCode

Captured = pytest.CaptureFixture[str]
COLOURS = ("red", "green", "blue")


def write_table(path: Path) -> Path:
    draws = np.random.default_rng(0)
    lines = ["id,size,colour,kind,price"]
    for number in range(120):
        size, colour = draws.normal(), COLOURS[number % 3]
        kind = "large" if size > 0 else "small"
        lines.append(f"row-{number},{size:.6f},{colour},{kind},{3 * size + number % 3:.6f}")
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """digits (images), kind (a table, classes) and price (a table, a quantity)."""
    folder: Path = tmp_path_factory.mktemp("predicted")
    table = str(write_table(folder / "table.csv"))
    fields = ("epochs=1", "trackers=none", "device=cpu")
    words = ["--runs", str(folder / "runs"), "--quiet", *(word for field in fields for word in ("--set", field))]
    assert in_child(lambda: main(["train", "digits", *words])) == 0
    for target in ("kind", "price"):
        assert in_child(lambda: main(["train", "tabular", table, "--target", target, "--name", target, *words])) == 0  # noqa: B023
    return folder / "runs"


def predicted(runs: Path, capsys: Captured, run: str, *words: str) -> list[dict[str, str]]:
    assert main(["predict", run, "--runs", str(runs), "--device", "cpu", *words]) == 0
    return list(csv.DictReader(io.StringIO(capsys.readouterr().out)))


def test_a_split_has_the_accuracy_of_the_run(runs: Path, capsys: Captured, tmp_path: Path) -> None:
    rows = predicted(runs, capsys, "digits", "--split", "test")
    loaded = trueloop.load("digits", runs=runs, device="cpu")
    share = np.mean([row["predicted"] == row["target"] for row in rows])
    assert share == pytest.approx(loaded.evaluate()["accuracy"])
    assert [row["input"] for row in rows] == [str(number) for number in range(len(rows))]
    assert all(sum(float(row[f"p_{digit}"]) for digit in range(10)) == pytest.approx(1, abs=1e-4) for row in rows)
    file = tmp_path / "preds.csv"
    assert main(["predict", "digits", "--runs", str(runs), "--device=cpu", "--split=test", f"--output={file}"]) == 0
    assert f"{len(rows)} predictions in {file}" in capsys.readouterr().out
    assert list(csv.DictReader(io.StringIO(file.read_text()))) == rows


@pytest.mark.parametrize("form", ["npy", "pt", "float npy", "one per file"])
def test_tensors_are_predicted_as_in_python(runs: Path, capsys: Captured, tmp_path: Path, form: str) -> None:
    loaded = trueloop.load("digits", runs=runs, device="cpu")
    assert loaded.splits.test is not None
    images = loaded.splits.test.fetch(torch.arange(5)).inputs
    path = tmp_path / "images.npy"
    match form:
        case "npy":
            np.save(path, images.numpy())
        case "float npy":  # whole numbers, as other programs write them
            np.save(path, images.double().numpy())
        case "pt":
            path = tmp_path / "images.pt"
            torch.save(images, path)
        case _:
            path = tmp_path / "folder"
            path.mkdir()
            for number, image in enumerate(images):
                np.save(path / f"{number}.npy", image.numpy())
    rows = predicted(runs, capsys, "digits", "--input", str(path))
    assert [row["predicted"] for row in rows] == [str(each) for each in loaded.predict(images).argmax(1).tolist()]
    first = "0.npy" if form == "one per file" else "0"
    assert rows[0]["input"] == first


def test_image_files_are_scaled_to_the_range_of_training(runs: Path, capsys: Captured, tmp_path: Path) -> None:
    loaded = trueloop.load("digits", runs=runs, device="cpu")
    assert loaded.splits.test is not None
    images = loaded.splits.test.fetch(torch.arange(4)).inputs
    for number, image in enumerate(images):
        bright = (image[0].float() * 255 / 16).round().to(torch.uint8).numpy()
        Image.fromarray(bright).save(tmp_path / f"{number}.png")
    rows = predicted(runs, capsys, "digits", "--input", str(tmp_path))
    assert [row["input"] for row in rows] == ["0.png", "1.png", "2.png", "3.png"]
    expected = loaded.predict(images).double().softmax(1)
    assert [float(row["p_3"]) for row in rows] == pytest.approx(expected[:, 3].tolist(), rel=1e-4)


@pytest.mark.parametrize("run", ["kind", "price"])
def test_a_table_is_encoded_as_in_training(runs: Path, capsys: Captured, run: str, tmp_path: Path) -> None:
    """The whole table again, its columns in a different order, contains the rows of the test split."""
    table = list(csv.reader(io.StringIO((runs.parent / "table.csv").read_text())))
    again = tmp_path / "again.csv"
    again.write_text("\n".join(",".join(reversed(row)) for row in table) + "\n")
    everything = predicted(runs, capsys, run, "--input", str(again))
    test = predicted(runs, capsys, run, "--split", "test")
    assert len(everything) == 120
    shown = "p_large" if run == "kind" else "value"
    known = sorted(round(float(row[shown]), 4) for row in everything)
    for row in test:
        assert min(abs(float(row[shown]) - value) for value in known) < 2e-4, row
    if run == "kind":
        assert {row["predicted"] for row in everything} <= {"large", "small"}
        right = [row["predicted"] == kind for row, (_, _, _, kind, _) in zip(everything, table[1:], strict=True)]
        assert np.mean(right) > 0.9


def test_columns_without_use_are_listed_and_new_categories_are_taken(
    runs: Path, capsys: Captured, tmp_path: Path
) -> None:
    new = tmp_path / "new.csv"
    new.write_text("id,size,colour,price\nrow-0,0.5,purple,1.0\n")
    assert main(["predict", "kind", "--runs", str(runs), "--device", "cpu", "--input", str(new)]) == 0
    printed = capsys.readouterr()
    assert printed.err == "trueloop: columns that the model does not use: id.\n"
    assert printed.out.startswith("input,predicted,p_large,p_small\n0,")


@pytest.mark.parametrize(
    ("run", "name", "content", "said"),
    [
        ("kind", "a.csv", "size,colour\n1,red\n", "has no column 'price'"),
        ("kind", "a.csv", "size,colour,price\nbig,red,1\n", "row 2: column 'size' holds 'big'"),
        ("kind", "a.csv", "size,colour,price\n1,,1\n", "column 'colour' is empty"),
        ("kind", "a.csv", "size,colour,price\n1e300,red,1\n", "too large"),
        ("kind", "a.csv", "size,colour,price\n", "has a header but no rows"),
        ("kind", "a.png", "", "this model takes a CSV or Parquet table"),
        ("digits", "a.csv", "a\n1\n", "this model takes image files, or .npy or .pt tensors of uint8 [N x 1x8x8]"),
        ("digits", "a.png", "not an image", "cannot be read"),
        ("digits", "a.npy", "not a tensor", "is damaged, or not a numpy file"),
        ("digits", "a.pt", "not a tensor", "is damaged, or not a torch.save file"),
        ("digits", "missing.npy", None, "There is no file or folder"),
    ],
)
def test_what_the_data_cannot_take_is_refused_in_one_sentence(
    runs: Path, capsys: Captured, tmp_path: Path, run: str, name: str, content: str | None, said: str
) -> None:
    if content is not None:
        (tmp_path / name).write_text(content)
    code = main(["predict", run, "--runs", str(runs), "--device", "cpu", "--input", str(tmp_path / name)])
    printed = capsys.readouterr()
    assert code == ExitCode.MISUSE
    assert said in printed.err
    assert "trained." not in printed.err
    assert (printed.out, printed.err.count("\n")) == ("", 1)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "Which run?"),
        (["digits"], "Predict what?"),
        (["digits", "--split", "test", "--input", "x"], "one of them"),
        (["digits", "--split", "test", "--output", "x.json"], "predictions are CSV"),
        (["kind", "--split", "test", "--data", "."], "this recipe reads its own table"),
    ],
)
def test_mistakes_are_one_sentence(runs: Path, capsys: Captured, words: list[str], said: str) -> None:
    assert main(["predict", "--runs", str(runs), *words]) == ExitCode.MISUSE
    printed = capsys.readouterr()
    assert said in printed.err
    assert printed.err.count("\n") == 1


def test_a_tensor_of_a_different_shape_or_range_is_refused(runs: Path, capsys: Captured, tmp_path: Path) -> None:
    for given, said in {"shape": "has shape [2, 9]", "range": "values that do not fit"}.items():
        values = np.zeros((2, 9)) if given == "shape" else np.full((2, 1, 8, 8), 0.5)
        np.save(tmp_path / "a.npy", values)
        code = main(["predict", "digits", "--runs", str(runs), "--device=cpu", "--input", str(tmp_path / "a.npy")])
        assert code == ExitCode.MISUSE
        assert said in capsys.readouterr().err


@pytest.mark.parametrize("suffix", [".parquet", ".pq"])
def test_parquet_gives_what_the_csv_gives(runs: Path, capsys: Captured, tmp_path: Path, suffix: str) -> None:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    (tmp_path / "new.csv").write_text("size,colour,price\n0.5,red,1\n-1.5,blue,2\n2.25,green,0\n")
    columns = {"price": [1.0, 2.0, 0.0], "colour": ["red", "blue", "green"], "size": [0.5, -1.5, 2.25]}
    parquet.write_table(arrow.table(columns), tmp_path / f"new{suffix}")
    from_csv = predicted(runs, capsys, "kind", "--input", str(tmp_path / "new.csv"))
    assert predicted(runs, capsys, "kind", "--input", str(tmp_path / f"new{suffix}")) == from_csv
    assert len(from_csv) == 3


def test_without_pyarrow_parquet_is_one_sentence(
    runs: Path, capsys: Captured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "new.parquet").write_bytes(b"PAR1")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    code = main(["predict", "kind", "--runs", str(runs), "--device=cpu", "--input", str(tmp_path / "new.parquet")])
    said = capsys.readouterr().err
    assert code in (ExitCode.TRUELOOP_FAILED, ExitCode.MISUSE)
    assert "pyarrow" in said
    assert "itself failed" not in said
    assert said.count("\n") == 1


TASKS = """
import torch
from torch import nn
from trueloop import Recipe, Splits
from trueloop.data.source import Facts
from trueloop.data.tensors import Tensors

def data(request):
    draws = torch.Generator().manual_seed(0)
    rows = torch.randn(64, 3, generator=draws)
    targets = {targets}
    source = Tensors(rows, targets)
    return Splits(source, source, facts=Facts(inputs=(3,), classes={classes}))

def model():
    return nn.Linear(3, {outputs})

fields = dict(task="{task}", epochs=4, batch=16, lr=0.1, trackers=(), device="cpu")
recipe = Recipe(name="{task}", model=model, data=data, **fields)
"""
CASES = {
    "binary": ("(rows[:, 0] > 0).float()", ("no", "yes"), 1),
    "multilabel": ("(rows > 0).float()", ("a", "b", "c"), 3),
}


@pytest.mark.parametrize("task", CASES)
def test_binary_and_multilabel_rows_say_what_python_gives(capsys: Captured, tmp_path: Path, task: str) -> None:
    targets, classes, outputs = CASES[task]
    recipe = tmp_path / f"{task}_of_mine.py"
    recipe.write_text(TASKS.format(task=task, targets=targets, classes=classes, outputs=outputs))
    assert in_child(lambda: main(["train", str(recipe), "--runs", str(tmp_path), "--quiet"])) == 0
    np.save(tmp_path / "new.npy", np.array([[2.0, -2.0, 1.0], [-2.0, 2.0, -1.0], [-3.0, -3.0, -3.0]], np.float32))
    rows = predicted(tmp_path, capsys, task, "--input", str(tmp_path / "new.npy"))
    scores = trueloop.load(task, runs=tmp_path, device="cpu").predict(torch.from_numpy(np.load(tmp_path / "new.npy")))
    chances = scores.sigmoid()
    if task == "binary":
        assert [row["predicted"] for row in rows] == ["yes", "no", "no"]
        assert [float(row["probability"]) for row in rows] == pytest.approx(chances.flatten().tolist(), rel=1e-4)
    else:
        yes = [";".join(n for n, each in zip(classes, row, strict=True) if each > 0) for row in scores.tolist()]
        assert [row["predicted"] for row in rows] == yes
        assert len(set(yes)) == 3
        for row, chance in zip(rows, chances.tolist(), strict=True):
            assert [float(row[f"p_{name}"]) for name in classes] == pytest.approx(chance, rel=1e-4)
    beside = predicted(tmp_path, capsys, task, "--split", "valid")
    if task == "binary":
        right = [row["predicted"] == {"1": "yes", "0": "no"}.get(row["target"], row["target"]) for row in beside]
        share = trueloop.load(task, runs=tmp_path, device="cpu").evaluate()["accuracy"]
        assert np.mean(right) == pytest.approx(share)
