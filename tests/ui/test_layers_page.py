"""Layers x steps, from the rows of kind `layers`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.ui.folders import make_run, row
from trueloop.ui.library import Library
from trueloop.ui.page import Query
from trueloop.ui.pages import layers


def page(folder: Path, **query: str) -> dict[str, Any]:
    return layers.data(Library(folder), Query([("run", "a"), *query.items()]))


def look(step: int, **values: object) -> str:
    named: dict[str, Any] = {name.replace("__", "/"): value for name, value in values.items()}
    return row(step, kind="layers", **named)


def test_a_table_of_layers_and_steps(tmp_path: Path) -> None:
    lines = [
        row(1),
        look(1, grad_norm__a=1.0, grad_norm__b=2.0, update__a=0.1),
        look(2, grad_norm__a="nan", mine__a=5.0),
    ]
    make_run(tmp_path, "a", lines)
    found = page(tmp_path)
    assert [key for key, _ in found["statistics"]] == ["grad_norm", "update", "mine"]
    assert (found["statistic"], found["layers"], found["steps"]) == ("grad_norm", ["a", "b"], [1, 2])
    assert found["values"] == [[1.0, "nan"], [2.0, None]]
    assert page(tmp_path, statistic="update")["values"] == [[0.1, None]]
    assert page(tmp_path, statistic="none")["statistic"] == "grad_norm"


def test_a_run_without_statistics(tmp_path: Path) -> None:
    make_run(tmp_path, "a")
    assert page(tmp_path)["statistics"] == []


def test_long_runs_and_deep_models_are_bounded(tmp_path: Path) -> None:
    wide = {f"grad_norm__{number}": 1.0 for number in range(310)}
    make_run(
        tmp_path, "a", [look(step, **(wide if step == 1000 else {"grad_norm__0": 1.0})) for step in range(1, 1001)]
    )
    found = page(tmp_path)
    assert len(found["layers"]) == layers.MOST_LAYERS
    assert found["left_out"] == 10
    assert len(found["steps"]) <= layers.MOST_STEPS
    assert found["steps"][-1] == 1000
