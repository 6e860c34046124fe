"""`make ship`: every bundled recipe, trained for a few steps, leaves as every target and answers alike on all its validation samples.

Needs the data: TRUELOOP_DATA=folder. Targets whose packages are not here are left out.
"""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import pytest

from trueloop.cli.main import main
from trueloop.export.folder import read_artefact
from trueloop.recipes.catalogue import bundled

pytestmark = pytest.mark.long
DATA = os.environ.get("TRUELOOP_DATA", "")
SHORT = {
    "shakespeare": ["--set", "steps=2", "--set", "warmup=0", "--set", "evaluate_every=2", "--set", "precision=fp32", "--set", "batch=4"],
    "shakespeare-tiny": ["--set", "steps=30", "--set", "warmup=5", "--set", "evaluate_every=30"],
}
"""Long enough that the answers are not all alike."""
TARGETS = ["pt2", "aoti", "onnx", "safetensors", "torchscript", *(["executorch"] if importlib.util.find_spec("executorch") else [])]
TOLERANCE = 1e-4


def _table(folder: Path) -> Path:
    """Towns, sizes and prices."""
    file = folder / "table.csv"
    lines = [
        f"{30 + number % 170},{number % 6 + 1},{('Ulm', 'Rom', 'Oslo')[number % 3]},{(30 + number % 170) * 3000 + number % 7}"
        for number in range(300)
    ]
    file.write_text("\n".join(["size,rooms,town,price", *lines]) + "\n", encoding="utf-8")
    return file


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("ship")


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("recipe", bundled())
def test_every_bundled_recipe_answers_alike_everywhere(runs: Path, recipe: str, target: str, capsys: pytest.CaptureFixture[str]) -> None:
    if recipe not in ("digits", "tabular") and not DATA:
        pytest.skip("the data of this recipe: set TRUELOOP_DATA to the folder that holds them")
    run = runs / recipe
    if not run.is_dir():
        words = (
            ["tabular", str(_table(runs)), "--target", "price"] if recipe == "tabular" else [recipe, *(["--data", DATA] if DATA else [])]
        )
        short = SHORT.get(recipe, ["--set", "steps=20", "--set", "evaluate_every=20", "--set", "warmup=0"])
        assert main(["train", *words, "--runs", str(runs), "--name", recipe, *short]) in (0, 1)
    assert main(["export", str(run), "--to", target, "--samples", "all"]) == 0, capsys.readouterr().err
    verified = read_artefact(run / "export" / target).verification
    assert verified is not None
    assert verified.max_error <= TOLERANCE * verified.scale
    assert verified.disagreements == 0
    assert verified.ties == 0 or verified.ties < verified.samples / 1000
