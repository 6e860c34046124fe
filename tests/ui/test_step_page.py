"""The recorded step program as graphs of three levels."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.ui.folders import make_run
from trueloop.errors import NotARun
from trueloop.ui.library import Library
from trueloop.ui.page import Query
from trueloop.ui.pages import step

VALUES: list[Any] = [
    [[4, 8], "float32", "batch", ""],
    [[2, 8], "float32", "parameter", "fc.weight", "optimizer"],
    [[2], "float32", "parameter", "fc.bias", "nobody"],
    [[4, 2], "float32", "operation", ""],
    [[4, 2], "float32", "operation", ""],
    [[4], "int64", "outside", ""],
    [[], "float32", "operation", ""],
]
OPERATIONS: list[Any] = [
    ["linear", [0, 1, 2], [3], [0, 5], 0, 0],
    ["relu", [3], [4], [0, 5], 0, 0],
    ["cross_entropy", [4, 5], [6], [0, 9], -1, 1],
    ["backward", [6], [], [0, 10], -1, 1],
]
CALLS = [{"model": 0, "name": "Net", "inputs": [0], "outputs": [4], "place": [0, 5], "training": True, "grad": True}]
PROGRAM: dict[str, Any] = {
    "phase": "training", "step": 2, "complete": True,
    "values": VALUES, "operations": OPERATIONS, "calls": CALLS, "losses": [6],
}  # fmt: skip
CONTENT: dict[str, Any] = {
    "format": 1,
    "files": ["/home/me/train.py"],
    "models": [{"model": 0, "name": "Net", "parameters": 18}],
    "optimizers": [{"optimizer": 0, "name": "AdamW", "learning_rates": [0.001]}],
    "programs": [PROGRAM],
}


def page(folder: Path, content: object = None, **query: str) -> dict[str, Any]:
    if content is not None:
        (make_run(folder, "a", []) / step.FILE).write_text(json.dumps(content))
    return step.data(Library(folder), Query([("run", "a"), *query.items()]))


def drawn(found: dict[str, Any]) -> tuple[list[tuple[str, str]], list[list[int]]]:
    graph = found["graph"]
    return [(each["kind"], each["label"]) for each in graph["nodes"]], [edge[:2] for edge in graph["edges"]]


def test_a_model_is_one_node(tmp_path: Path) -> None:
    found = page(tmp_path, CONTENT)
    nodes, edges = drawn(found)
    assert nodes == [
        *(("model", "Net"), ("input", "batch"), ("operation", "cross_entropy"), ("outside", "from before")),
        *(("loss", "backward()"), ("optimizer", "AdamW")),
    ]
    assert edges == [[1, 0], [0, 2], [3, 2], [2, 4], [4, 5]]
    assert found["graph"]["nodes"][0]["note"] == "18 parameters"
    assert found["files"] == ["train.py"]
    assert [each[3] for each in found["parameters"]] == ["optimizer", "nobody"]


def test_layers_and_operations(tmp_path: Path) -> None:
    nodes, _ = drawn(page(tmp_path, CONTENT, level="layer"))
    assert nodes[0] == ("layer", "fc")  # relu has no weights: it belongs to the layer before it
    nodes, _ = drawn(page(tmp_path, level="operation"))
    assert [label for kind, label in nodes if kind == "operation"] == ["linear", "relu", "cross_entropy"]


def test_a_layer_that_is_called_twice_makes_no_circle(tmp_path: Path) -> None:
    values = [*VALUES, [[2, 2], "float32", "parameter", "other.weight", "optimizer"], VALUES[3], VALUES[3]]
    operations = [
        ["linear", [0, 1], [3], None, 0, 0],
        ["linear", [3, 7], [8], None, 0, 0],
        ["linear", [8, 1], [9], None, 0, 0],
    ]
    nodes, edges = drawn(
        page(
            tmp_path, {**CONTENT, "programs": [{**PROGRAM, "values": values, "operations": operations}]}, level="layer"
        )
    )
    assert [label for kind, label in nodes if kind == "layer"] == ["fc", "other", "fc"]
    assert [2, 0] not in edges


def test_a_run_without_a_step(tmp_path: Path) -> None:
    make_run(tmp_path, "a", [], script="train.py")
    assert page(tmp_path) == {"recorded": False, "script": "train.py", "kind": "train"}


def test_damaged_files(tmp_path: Path) -> None:
    with pytest.raises(NotARun, match="no list of programs"):
        page(tmp_path, {"programs": 5})


@pytest.mark.parametrize("change", [
    {"values": 5}, {"operations": [[1], "x", ["a", [99, -1, "0"], 5, "x", None]]}, {"calls": [1]}, {"losses": [99]},
    {"values": [[["x"], 5, None, {}]]}, {"step": "x", "phase": {}},
])  # fmt: skip
def test_malformed_programs_show_what_they_can(tmp_path: Path, change: dict[str, Any]) -> None:
    for level in ("model", "layer", "operation"):
        found = page(tmp_path / level, {**CONTENT, "programs": [{**PROGRAM, **change}]}, level=level)
        assert found["recorded"]


def test_a_huge_program_is_cut(tmp_path: Path) -> None:
    found = page(tmp_path, {**CONTENT, "programs": [{**PROGRAM, "operations": OPERATIONS[:1] * 2000}]})
    assert found["graph"]["left_out"] == 500
