"""The data of the page Compare: fields as plain cells, and the verdict with its noise."""

from __future__ import annotations

from pathlib import Path

from tests.ui.conftest import Client
from tests.ui.folders import make_run, row


def test_a_mapping_is_a_cell_for_each_name_that_differs(client: Client, tmp_path: Path) -> None:
    make_run(tmp_path, "a", recipe={"options": {"momentum": 0.9, "nesterov": True}, "betas": [0.9, 0.99]})
    make_run(tmp_path, "b", recipe={"options": {"momentum": 0.8, "nesterov": True}, "betas": [0.9, 0.999]})
    answer = client(tmp_path).get("/api/compare?run=a&run=b").json()
    assert answer["recipe"] == {"options.momentum": [0.9, 0.8], "betas": ["[0.9, 0.99]", "[0.9, 0.999]"]}
    cells = [cell for side in ("recipe", "machine", "results") for each in answer[side].values() for cell in each]
    assert not any(isinstance(cell, (dict, list)) for cell in cells)


def test_a_mapping_beside_nothing(client: Client, tmp_path: Path) -> None:
    make_run(tmp_path, "a", recipe={"options": {"momentum": 0.9}})
    make_run(tmp_path, "b", recipe={"options": None})
    answer = client(tmp_path).get("/api/compare?run=a&run=b").json()
    assert answer["recipe"] == {"options.momentum": [0.9, None]}


def test_the_verdict_names_the_noise(client: Client, tmp_path: Path) -> None:
    for lr, values in ((0.1, (0.90, 0.91, 0.90, 0.91)), (0.2, (0.70, 0.72, 0.69, 0.71))):
        for seed, best in enumerate(values):
            make_run(tmp_path, f"lr-{lr}-{seed}", recipe={"lr": lr, "seed": seed}, best=best)
    asked = "&".join(f"run=lr-{lr}-{seed}" for lr in (0.1, 0.2) for seed in range(4))
    answer = client(tmp_path).get(f"/api/compare?{asked}").json()
    assert answer["verdict"]["text"].startswith("lr=0.1 is best: accuracy 0.905 ± ")
    assert "t-tests" in answer["verdict"]["method"]
    by_seed = client(tmp_path).get(f"/api/compare?{asked}&group=seed").json()
    assert "cannot be told apart" in by_seed["verdict"]["text"]


def test_the_first_difference_and_the_diff_of_the_source(client: Client, tmp_path: Path) -> None:
    make_run(tmp_path, "a", [row(1, 1.0), row(2, 0.5)], code={"net": "def net():\n    return 1\n"})
    make_run(tmp_path, "b", [row(1, 1.0), row(2, 0.6)], code={"net": "def net():\n    return 2\n"})
    answer = client(tmp_path).get("/api/compare?run=a&run=b").json()
    assert "differs from step 2 on" in answer["losses"][0]["sentence"]
    assert "+    return 2" in answer["code"]["b: net"]
