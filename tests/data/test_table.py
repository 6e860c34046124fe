"""A table to learn from: what the target asks for, what the inputs become, and what is refused."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from trueloop.data import table
from trueloop.data.source import Source, Splits
from trueloop.data.table import read_table, read_target
from trueloop.data.tensors import Tensors
from trueloop.errors import BadData


def write(folder: Path, columns: dict[str, list[Any]]) -> Path:
    path = folder / "t.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
    return path


def held(source: Source | None) -> Tensors:
    assert isinstance(source, Tensors)
    return source


def everything(splits: Splits) -> tuple[torch.Tensor, torch.Tensor]:
    """Inputs and targets of all parts; the order of the file is lost."""
    parts = [held(part) for part in (splits.train, splits.valid, splits.test)]
    return torch.cat([part.inputs for part in parts]), torch.cat([part.targets for part in parts])


def example(rows: int = 60) -> dict[str, list[Any]]:
    draw = np.random.default_rng(0)
    return {
        "size": draw.normal(50, 10, rows).round(2).tolist(),
        "town": [["Ulm", "Bonn", "Kiel"][n % 3] for n in range(rows)],
        "y": [["no", "yes"][n % 2] for n in range(rows)],
    }


# -- the target decides the task --


def test_texts_are_classes_in_the_order_of_the_alphabet(tmp_path: Path) -> None:
    task, splits = read_table(write(tmp_path, example()), "y")
    assert task == "multiclass"
    assert splits.facts.classes == ("no", "yes")
    assert splits.facts.outputs == 2
    targets = everything(splits)[1]
    assert targets.dtype == torch.int64
    assert targets.bincount().tolist() == [30, 30]


def test_few_whole_numbers_are_classes_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    aim = read_target(write(tmp_path, example() | {"y": [[10, 2, -1][n % 3] for n in range(60)]}), "y")
    assert (aim.task, aim.classes) == ("multiclass", ("-1", "2", "10"))
    assert aim.values[:3].tolist() == [2, 1, 0]
    assert str(aim) == "3 classes (-1, 2, 10)"


def test_fractions_are_quantities(tmp_path: Path) -> None:
    task, splits = read_table(write(tmp_path, example() | {"y": [n + 0.5 for n in range(60)]}), "y")
    assert task == "regression"
    assert (splits.facts.classes, splits.facts.outputs) == ((), 1)
    targets = everything(splits)[1]
    assert targets.dtype == torch.float32
    assert sorted(targets.tolist()) == [n + 0.5 for n in range(60)]
    learned = held(splits.train).targets.double()
    assert splits.facts.more["mean"] == pytest.approx(learned.mean().item())
    assert splits.facts.more["spread"] == pytest.approx(learned.std(correction=0).item())


def test_many_whole_numbers_are_quantities(tmp_path: Path) -> None:
    assert read_target(write(tmp_path, example() | {"y": list(range(60))}), "y").task == "regression"
    assert read_target(write(tmp_path, {"x": list(range(12)), "y": [*range(11), 3]}), "y").task == "regression"


def test_the_task_can_be_asked_for(tmp_path: Path) -> None:
    counted = write(tmp_path, example() | {"y": [n % 3 for n in range(60)]})
    assert read_target(counted, "y").task == "multiclass"
    assert read_table(counted, "y", task="regression")[0] == "regression"
    with pytest.raises(BadData, match=r"t\.csv, row 2: the target column 'y' holds 'no'; regression needs numbers"):
        read_target(write(tmp_path, example()), "y", "regression")
    with pytest.raises(BadData, match=r"t\.csv, row 3: the target column 'y' holds 1\.5, which is not a class index"):
        read_target(write(tmp_path, example() | {"y": [1, 1.5] * 30}), "y", "multiclass")
    with pytest.raises(BadData, match="multiclass or regression, not 'binary'"):
        read_target(counted, "y", "binary")


def test_the_target_read_alone_is_the_target_of_the_table(tmp_path: Path) -> None:
    path = write(tmp_path, example())
    aim, (task, splits) = read_target(path, "y"), read_table(path, "y")
    assert (aim.task, aim.classes) == (task, splits.facts.classes)


@pytest.mark.parametrize(("value", "shown"), [("yes", "'yes'"), (3, "3"), (2.5, "2.5")])
def test_a_target_that_never_changes(tmp_path: Path, value: object, shown: str) -> None:
    path = write(tmp_path, example() | {"y": [value] * 60})
    with pytest.raises(BadData, match=rf"t\.csv: the target column 'y' is {shown} in all rows"):
        read_target(path, "y")


def test_a_class_that_appears_once(tmp_path: Path) -> None:
    targets = example()["y"]
    targets[17] = "maybe"
    with pytest.raises(BadData, match=r"t\.csv, row 19: class 'maybe' of 'y' has only this sample"):
        read_table(write(tmp_path, example() | {"y": targets}), "y")
    targets[20] = "rarely"
    with pytest.raises(BadData, match=r"has only this sample \(1 more classes have one sample\)"):
        read_table(write(tmp_path, example() | {"y": targets}), "y")


def test_a_target_that_names_rows(tmp_path: Path) -> None:
    path = write(tmp_path, example() | {"y": [f"person {n}" for n in range(60)]})
    with pytest.raises(BadData, match="has 60 different values in 60 rows, so most classes have one sample"):
        read_target(path, "y")


def test_a_table_of_a_few_rows(tmp_path: Path) -> None:
    with pytest.raises(BadData, match=r"t\.csv has 9 rows; at least 10 are needed"):
        read_target(write(tmp_path, example(9)), "y")


# -- the rows --


def test_rows_are_drawn_class_by_class_from_the_seed(tmp_path: Path) -> None:
    path = write(tmp_path, example(200))
    first, again, other = (read_table(path, "y", seed=seed)[1] for seed in (0, 0, 1))
    assert [len(held(part)) for part in (first.train, first.valid, first.test)] == [140, 30, 30]
    assert held(first.valid).targets.bincount().tolist() == [15, 15]
    assert torch.equal(held(first.train).inputs, held(again.train).inputs)
    assert not torch.equal(held(first.train).inputs, held(other.train).inputs)
    assert "200 rows: 140 for training, 30 validation, 30 test (stratified, seed 0)" in first.notes


def test_classes_of_two_are_still_learned_and_validated(tmp_path: Path) -> None:
    splits = read_table(write(tmp_path, {"x": list(range(10)), "y": list("aabbccddee")}), "y")[1]
    assert held(splits.train).targets.tolist() == held(splits.valid).targets.tolist() == [0, 1, 2, 3, 4]
    assert splits.test is None


# -- the inputs --


def test_numbers_are_standardised_by_the_training_rows_alone(tmp_path: Path) -> None:
    path = write(tmp_path, example(300))
    splits = read_table(path, "y")[1]
    learned = held(splits.train).inputs[:, 0].double()
    assert learned.mean().item() == pytest.approx(0, abs=1e-6)
    assert learned.std(correction=0).item() == pytest.approx(1, abs=1e-6)
    assert abs(held(splits.valid).inputs[:, 0].mean().item()) > 1e-3
    column = splits.facts.more["columns"][0]
    assert column["name"] == "size"
    raw = everything(splits)[0][:, 0].double() * column["spread"] + column["mean"]
    assert sorted(raw.tolist()) == pytest.approx(sorted(example(300)["size"]), abs=1e-4)


def test_a_category_has_an_input_each_and_one_for_what_training_never_saw(tmp_path: Path) -> None:
    splits = read_table(write(tmp_path, example()), "y")[1]
    assert splits.facts.inputs == (1 + 4,)
    assert splits.facts.more["columns"][1] == {
        "name": "town",
        "kind": "category",
        "categories": ["Bonn", "Kiel", "Ulm"],
    }
    towns = everything(splits)[0][:, 1:]
    assert towns.sum(0).tolist() == [20, 20, 20, 0]
    assert (towns.sum(1) == 1).all()


def test_an_unseen_category_goes_into_the_bucket_of_its_own(tmp_path: Path) -> None:
    columns = example()
    numbered = write(tmp_path, columns | {"size": [n / 1000 + 0.5 for n in range(60)]})
    _, splits = read_table(numbered, "y")
    size = splits.facts.more["columns"][0]
    row = round((held(splits.valid).inputs[0, 0].item() * size["spread"] + size["mean"] - 0.5) * 1000)
    columns["town"][row] = "Atlantis"
    one_hot = read_table(write(tmp_path, columns), "y")[1]
    assert held(one_hot.valid).inputs[0, 1:].tolist() == [0, 0, 0, 1]
    assert "town: 1 validation or test rows hold a category unseen in training: 'other'" in one_hot.notes
    codes = read_table(tmp_path / "t.csv", "y", categories="codes")[1]
    assert codes.facts.inputs == (2,)
    assert held(codes.valid).inputs[0, 1].item() == 3
    assert set(held(codes.train).inputs[:, 1].tolist()) == {0, 1, 2}


def test_rare_categories_share_an_input_where_there_are_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "MOST_CATEGORIES", 2)
    columns = example() | {"town": (["often"] * 25 + ["also"] * 25 + ["rare"] * 5 + ["odd"] * 5)}
    splits = read_table(write(tmp_path, columns), "y")[1]
    assert splits.facts.more["columns"][1]["categories"] == ["also", "often"]
    assert everything(splits)[0][:, 1:].sum(0).tolist() == [25, 25, 10]
    assert "town: the 2 most frequent of 4 categories get one input each; the others share one" in splits.notes


def test_columns_that_say_nothing_are_left_out_with_a_word(tmp_path: Path) -> None:
    nothing: dict[str, list[Any]] = {"name": [f"n{n}" for n in range(60)], "unit": ["cm"] * 60, "year": [1999] * 60}
    columns = nothing | example()
    splits = read_table(write(tmp_path, columns), "y")[1]
    assert splits.facts.inputs == (5,)
    left_out = [note for note in splits.notes if note.startswith("left out")]
    assert left_out == [
        "left out: name (44 different texts in 44 training rows: like a row ID)",
        "left out: unit (always 'cm' in the training rows)",
        "left out: year (always 1999 in the training rows)",
    ]


def test_a_table_with_nothing_to_predict_from(tmp_path: Path) -> None:
    with pytest.raises(BadData, match=r"t\.csv has no usable input column for 'y' \(there is no other column\)"):
        read_table(write(tmp_path, {"y": example()["y"]}), "y")
    with pytest.raises(BadData, match=r"no usable input column for 'y' \(unit: always 'cm' in the training rows\)"):
        read_table(write(tmp_path, {"unit": ["cm"] * 60, "y": example()["y"]}), "y")


def test_missing_cells_are_refused_or_filled(tmp_path: Path) -> None:
    columns = example()
    columns["size"][4] = ""
    columns["town"][5] = ""
    path = write(tmp_path, columns)
    with pytest.raises(BadData, match="row 6: column 'size' is empty"):
        read_table(path, "y")
    splits = read_table(path, "y", missing="fill")[1]
    inputs = everything(splits)[0]
    assert torch.isfinite(inputs).all()
    assert (inputs[:, 0] == 0).sum() == 1
    assert splits.facts.more["columns"][1]["categories"][0] in ("(missing)", "Bonn")
    assert any(note.startswith("filled: 1 empty cells of size with the mean") for note in splits.notes)


def test_huge_numbers_do_not_overflow(tmp_path: Path) -> None:
    columns = example() | {"size": [(n % 7) * 1e200 for n in range(60)]}
    assert torch.isfinite(everything(read_table(write(tmp_path, columns), "y")[1])[0]).all()


def test_parquet_and_csv_give_the_same_bits(tmp_path: Path) -> None:
    columns = example()
    pq.write_table(pa.table(columns), tmp_path / "t.parquet")
    from_csv = everything(read_table(write(tmp_path, columns), "y")[1])
    from_parquet = everything(read_table(tmp_path / "t.parquet", "y")[1])
    assert all(torch.equal(one, other) for one, other in zip(from_csv, from_parquet, strict=True))


cells = st.floats(-1e6, 1e6, allow_nan=False).map(lambda value: round(value, 3))
texts = st.text(
    st.characters(codec="utf-8", exclude_categories=("Cs", "Cc", "Zs", "Zl", "Zp")), min_size=1, max_size=5
).map(lambda t: f"w{t}")


@given(st.lists(st.tuples(cells, texts), min_size=12, max_size=40))
def test_what_was_written_is_what_is_read(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[float, str]]
) -> None:
    """Numbers come back through the described scale, words through the described categories, whatever they hold."""
    folder = tmp_path_factory.mktemp("t")
    twice = rows + rows + rows  # so that words repeat
    columns: dict[str, list[Any]] = {
        "x": [x for x, _ in twice],
        "w": [w for _, w in twice],
        "n": list(range(len(twice))),
    }
    columns["y"] = [n % 2 for n in columns["n"]]
    splits = read_table(write(folder, columns), "y", categories="codes")[1]
    inputs = everything(splits)[0].double()
    for place, column in enumerate(splits.facts.more["columns"]):
        name = column["name"]
        if column["kind"] == "number":
            back = inputs[:, place] * column["spread"] + column["mean"]
            assert sorted(back.tolist()) == pytest.approx(
                sorted(columns[name]), abs=1e-5 * max(map(abs, columns[name]))
            )
        else:
            names = [*column["categories"], None]
            read = [names[int(code)] for code in inputs[:, place]]
            for word in column["categories"]:
                assert read.count(word) == columns["w"].count(word)
