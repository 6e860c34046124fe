"""Advice for a recipe names its fields, and never what it does already."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from trueloop.profile.recipe_advice import _in_words
from trueloop.results.profile import Advice

ADVICE = Advice("load batches in 4 worker processes: DataLoader(..., num_workers=4)", 1.5, "", "workers")


@pytest.mark.parametrize(
    ("what", "key", "recipe", "expected"),
    [
        (ADVICE.what, "workers", {"workers": 0}, "load batches in 4 worker processes: --set workers=4"),
        (ADVICE.what, "workers", {"workers": 4}, None),
        ("run matrix products in bfloat16: torch.autocast()", "precision", {"precision": "fp32"}, "run matrix products in bfloat16: --set precision=bf16"),  # noqa: E501
        ("copy from pinned memory: DataLoader(...)", "pin", {"pin": True}, None),
        ("update all weights in one kernel: Adam(..., fused=True)", "fused", {}, None),
        ("keep it", "lift", {}, "keep it"),
        ("fuse them: torch.compile(model)", "compile", {"step": None}, "fuse them: --set compile=default"),
        ("fuse them: torch.compile(model)", "compile", {"step": "own:step"}, "fuse them: return `torch.compile(model)` from the recipe's `model`"),  # noqa: E501
        ("capture the whole step", "graph", {"step": "own:step"}, None),
    ],
)  # fmt: skip
def test_advice_is_a_setting(what: str, key: str, recipe: dict[str, Any], expected: str | None) -> None:
    found = _in_words(replace(ADVICE, what=what, key=key), recipe)
    assert (found.what if found else None) == expected
