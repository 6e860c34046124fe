"""A run.json whose words are no longer what trueloop wrote: one sentence, and the checkpoints stay."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from trueloop.cli.main import main


@pytest.mark.parametrize(
    "origin",
    [
        5,
        "digits",
        [],
        {},
        {"recipe": "digits"},
        {"recipe": 3, "arguments": {}, "settings": {}},
        {"recipe": "digits", "arguments": [], "settings": {}},
    ],
)
def test_an_origin_that_names_no_recipe_is_one_sentence(
    tmp_path: Path, origin: object, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "run.json").write_text(json.dumps({"kind": "train", "origin": origin}), encoding="utf-8")
    kept = tmp_path / "checkpoints" / "step-00000001"
    kept.mkdir(parents=True)
    assert main(["resume", str(tmp_path)]) == 4
    said = capsys.readouterr().err
    assert "it names no recipe. Nothing was run" in said
    assert "Traceback" not in said
    assert kept.is_dir()
