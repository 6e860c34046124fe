"""The note of every bundled recipe, read line by line against the run's own files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.golden.short_runs import SHORT
from tests.golden.stand_ins import TARGET, stand_in_for, write_table
from tests.readiness.evidence import check_html, check_markdown, check_statements, parts_by_torch
from trueloop.claims.catalogue import ORDER, names
from trueloop.cli.main import main
from trueloop.readiness.checkpoints import NEEDED
from trueloop.readiness.gather import readiness_of
from trueloop.readiness.training_keys import keys_of
from trueloop.recipes.catalogue import bundled, find_recipe
from trueloop.results.proof import Proof, Proofs, write_proofs
from trueloop.session.train import train

QUICK = ("digits", "tabular", "fashion-mlp", "sentiment", "shakespeare-tiny")
"""In the quick suite: classes, quantities, yes and no, and language. The others take some seconds each."""
HAVE_THEIRS = ("digits", "tabular")
"""Recipes that look for no data."""
MOST_STEPS = {"digits": 40, "tabular": 30}


def trained(name: str, folder: Path, run: str = "", **changes: Any) -> Path:
    """A short run of a recipe on made-up data, in runs/NAME."""
    if name == "digits":
        pytest.importorskip("sklearn", reason="the digits come with scikit-learn")
    given = {"table": str(write_table(folder)), "target": TARGET} if name == "tabular" else {}
    steps = MOST_STEPS.get(name, SHORT[name]["steps"])
    short: dict[str, Any] = {
        **SHORT[name],
        "steps": steps,
        "epochs": None,
        "device": "cpu",
        "warmup": 1,
        "log_every": 2,
        "trackers": (),
        "hooks": (),
    }
    recipe = replace(find_recipe(name, given), **short, **changes)
    data = folder if name in HAVE_THEIRS else stand_in_for(name, folder / "data")
    origin = {"recipe": name, "arguments": given, "settings": {}}
    return train(recipe, name=run or name, runs=folder / "runs", data=data, hooks=(), origin=origin).folder


def notes_of(run: Path, *words: str) -> None:
    """As the command line writes them; every line of both is checked."""
    assert main(["ready", str(run), *words]) == 0
    made = readiness_of(run, names(), Path(words[1]) if words else None)
    check_statements(made, run)
    check_markdown(run / "training-readiness.md", made)
    check_html(run / "training-readiness.html", made)


@pytest.mark.parametrize("name", QUICK)
def test_every_claim_of_the_note_is_in_the_files(name: str, tmp_path: Path) -> None:
    notes_of(trained(name, tmp_path))


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name in bundled() if name not in QUICK])
def test_every_claim_of_the_other_notes_is_in_the_files(name: str, tmp_path: Path) -> None:
    notes_of(trained(name, tmp_path))


def test_all_recipes_have_a_note_that_is_read() -> None:
    assert set(SHORT) == set(bundled())


def test_a_second_run_is_held_against_the_first_and_proofs_are_quoted(tmp_path: Path) -> None:
    trained("digits", tmp_path, "first")
    second = trained("digits", tmp_path, "second", seed=1)
    tried = [Proof(name, "holds", f"0.{number} of 3 was measured", "as it should") for number, name in enumerate(ORDER)]
    write_proofs(second, Proofs(str(second), tuple(tried)))
    notes_of(second)
    notes_of(second, "--baseline", str(tmp_path / "runs" / "first"))
    made = readiness_of(second, names())
    assert {each.status for each in made.statements if each.section == "contract"} == {"good"}
    assert any(
        "of the last good run, first" in each.text and "../first/run.json#best" in each.links
        for each in made.statements
    )
    assert any(each.text.startswith("with seed 1 the best is") for each in made.of("good"))
    assert not made.of("missing"), "everything that can be asked was tried"


def test_what_is_read_of_a_checkpoint_without_torch_is_what_torch_reads(tmp_path: Path) -> None:
    run = trained("digits", tmp_path)
    file = next(run.glob("checkpoints/*/training.pt"))
    assert keys_of(file) == parts_by_torch(file)
    assert set(NEEDED) <= keys_of(file)
