"""A run.json whose words are no longer what trueloop wrote: one sentence, and the checkpoints stay."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from trueloop.cli.main import main

WRONG = "the value of 'origin' cannot be right. Nothing was done"
NO_RECIPE = "it names no recipe. Nothing was run"


@pytest.mark.parametrize(
    ("origin", "why"),
    [
        (5, WRONG),
        ("digits", WRONG),
        ([], WRONG),
        ({}, NO_RECIPE),
        ({"recipe": "digits"}, NO_RECIPE),
        ({"recipe": 3, "arguments": {}, "settings": {}}, NO_RECIPE),
        ({"recipe": "digits", "arguments": [], "settings": {}}, NO_RECIPE),
    ],
)
def test_an_origin_that_names_no_recipe_is_one_sentence(
    tmp_path: Path, origin: object, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "run.json").write_text(json.dumps({"kind": "train", "origin": origin}), encoding="utf-8")
    kept = tmp_path / "checkpoints" / "step-00000001"
    kept.mkdir(parents=True)
    assert main(["resume", str(tmp_path)]) == 4
    said = capsys.readouterr().err
    assert why in said
    assert "Traceback" not in said
    assert kept.is_dir()
