"""The recipes of docs/training run as they are printed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from tests.engine.small import ran
from trueloop.engine.loop import Loop
from trueloop.engine.preflight import check_before_training

PAGES = Path(__file__).parent.parent.parent / "docs" / "training"


def recipes_of(page: str) -> list[dict[str, Any]]:
    """Each code block that holds a complete recipe, executed."""
    blocks = re.findall(r"```python\n(.*?)```", (PAGES / page).read_text(encoding="utf-8"), flags=re.DOTALL)
    found = []
    for block in blocks:
        if "\nrecipe = Recipe(" in block:
            names: dict[str, Any] = {"__name__": "page"}
            exec(compile(block, page, "exec"), names)
            found.append(names)
    return found


def test_the_metrics_of_the_page_are_those_of_the_whole_data_set() -> None:
    names = recipes_of("metrics-and-losses.md")[0]
    loop = Loop.of(names["recipe"])
    check_before_training(loop.parts)
    over = ran(names["recipe"])
    parts = over.loop.parts
    valid = parts.splits.valid
    assert valid is not None
    batch = valid.fetch(torch.arange(len(valid)))
    with torch.no_grad():
        output = parts.model(batch.inputs)
    last = [row for row in over.kept.rows if row.kind == "valid"][-1].values
    top, bottom = names["iou"](output, batch.targets)
    assert last["iou"] == pytest.approx(float((top / bottom).mean()))
    assert last["confidence"] == pytest.approx(float(names["confidence"](output, batch.targets).mean()), rel=1e-5)
    perplexity = float(nn.functional.cross_entropy(output, batch.targets).exp())
    assert last["perplexity"] == pytest.approx(perplexity, rel=1e-5)
    assert over.loop.state.best == max(over.kept.values("iou", "valid"))


def test_the_loss_of_the_page_logs_its_parts() -> None:
    names = recipes_of("metrics-and-losses.md")[1]
    check_before_training(Loop.of(names["recipe"]).parts)
    over = ran(names["recipe"])
    for kind in ("train", "valid"):
        rows = [row.values for row in over.kept.rows if row.kind == kind]
        assert rows
        assert all({"loss", "reconstruction", "kl", "beta"} <= set(row) for row in rows)
    betas = over.kept.values("beta")
    assert betas == sorted(betas)
    assert betas[-1] == 1.0
    last = over.kept.rows[-1].values
    assert last["loss"] == pytest.approx(last["reconstruction"] + last["beta"] * last["kl"], rel=1e-5)
