"""A run is found by its name in every verb; a word that is also a recipe is the recipe, and the verb says so."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.cli.test_train import RECIPE
from trueloop.cli.main import main
from trueloop.cli.named_run import named_run


@pytest.fixture
def _in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(RECIPE)
    monkeypatch.setattr(sys, "modules", dict(sys.modules))


@pytest.mark.usefixtures("_in_folder")
def test_verbs_find_a_run_by_its_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "mine.py", "--name", "best-one", "-q"]) in (0, 1)
    capsys.readouterr()
    for words in (
        ["runs", "best-one"],
        ["ready", "best-one"],
        ["checkpoint", "show", "best-one"],
        ["checkpoint", "convert", "best-one", "--to", "a.pt"],
        ["inspect", "checkpoint", "best-one"],
        ["inspect", "model", "best-one"],
        ["probe", "best-one", "optimizer-holds-every-parameter"],
    ):
        assert main(words) == 0, (words, capsys.readouterr().err)
    assert "note: best-one is the run runs/best-one" in capsys.readouterr().err
    assert Path("runs/best-one/proofs.json").is_file()


@pytest.mark.usefixtures("_in_folder")
def test_a_word_that_is_a_recipe_and_a_run_is_the_recipe(capsys: pytest.CaptureFixture[str]) -> None:
    run = Path("runs/digits")
    run.mkdir(parents=True)
    (run / "run.json").touch()
    assert named_run("digits") is None
    assert (
        "digits is a bundled recipe, and it is used. For the run of that name: runs/digits" in capsys.readouterr().err
    )
    assert named_run("runs/digits") == run
    assert capsys.readouterr().err == ""
    assert named_run("mine.py") is None
