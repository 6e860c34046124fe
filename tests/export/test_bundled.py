"""benchmarks/shipping.py, whose table `make ship` prints and docs/shipping.md keeps: does it ask what it says, and miss
nothing?

Here it really ships the two recipes that need no data sets, to every target whose packages are in one of the
environments.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from benchmarks import shipping
from benchmarks.shipping import BAR, Shipped, asked_once, python_of, ship_all, train
from tests.export.made import subject
from trueloop.cli.main import main
from trueloop.export.catalogue import TARGETS
from trueloop.export.program import Program
from trueloop.results.artifact import Verification

VERIFIED = Verification("valid", 200, (1, 2, 7), (), BAR, 2e-6, 1.0, 0, 0, {"accuracy": (0.5, 0.5)}, "torch 2.13.0")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("ship")


@pytest.mark.long
@pytest.mark.parametrize("recipe", ["digits", "tabular"])
def test_a_bundled_recipe_answers_alike_everywhere(runs: Path, recipe: str) -> None:
    targets = [target for target in TARGETS if python_of(target)]
    shipped = list(ship_all([recipe], targets, runs, ""))
    assert [each.target for each in shipped if not each.alike] == []
    assert sorted(each.target for each in shipped) == sorted(targets)


@pytest.mark.long
def test_the_command_says_the_same(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = train("digits", runs, "")
    assert main(["export", str(run), "--to", "pt2", "--samples", "all"]) == 0
    assert "200 valid samples, batch sizes 1, 2, 7, 32, 64, 30, 130" in capsys.readouterr().out


# -- what is asked of them --


def test_a_score_may_be_off_by_the_bar_and_no_more() -> None:
    assert Shipped("digits", "onnx", replace(VERIFIED, max_error=BAR), 1.0).alike
    assert not Shipped("digits", "onnx", replace(VERIFIED, max_error=1.01 * BAR), 1.0).alike


def test_a_quantity_of_hundreds_of_thousands_may_be_off_by_a_few_steps_of_single_precision() -> None:
    """0.0625 between two neighbours at 600,000: the bar itself cannot be said there."""
    prices = replace(VERIFIED, scale=600_000.0, max_error=0.25)
    assert Shipped("tabular", "onnx", prices, 1.0).alike
    assert not Shipped("tabular", "onnx", replace(prices, max_error=0.26), 1.0).alike
    assert Shipped("tabular", "onnx", replace(prices, scale=60.0), 1.0).allowed == BAR


def test_another_prediction_is_never_alike_and_what_was_not_exported_neither() -> None:
    assert not Shipped("digits", "onnx", replace(VERIFIED, disagreements=1), 1.0).alike
    assert not Shipped("digits", "onnx", replace(VERIFIED, ties=1), 1.0).alike, "identical is identical"
    refused = Shipped("digits", "onnx", None, 1.0, "onnx does not support this model.")
    assert not refused.alike
    assert refused.row()[-1] == "onnx does not support this model."


def test_only_a_refusal_that_is_known_by_its_reason_is_no_miss(capsys: pytest.CaptureFixture[str]) -> None:
    known = Shipped(
        "sentiment", "executorch", None, 1.0, "executorch does not support this model. (XNNPACK reshape ...)"
    )
    assert known.alike
    assert not replace(known, said="it said nothing").alike
    assert not replace(known, target="onnx").alike
    assert shipping._table_of([known], []) == 0
    assert "0 of 1 answer alike, 1 refused as known." in capsys.readouterr().out


def test_the_table_ends_with_how_many_are_alike(capsys: pytest.CaptureFixture[str]) -> None:
    made = [
        Shipped("digits", "pt2", VERIFIED, 12.4),
        Shipped("digits", "onnx", replace(VERIFIED, max_error=1.0, ties=2), 9.6),
    ]
    assert shipping._table_of(made, ["executorch"]) == 1
    out = capsys.readouterr().out
    assert "| digits | pt2 | 200 | 2.0e-06 | 1.0e-04 | 0 | 0 | 12 |  |" in out
    assert "| digits | onnx | 200 | 1.0e+00 | 1.0e-04 | 0 | 2 | 10 | missed |" in out
    assert "1 of 2 answer alike, 0 refused as known." in out
    assert "executorch was left out" in out
    assert shipping._table_of(made[:1], []) == 0


def test_a_model_that_was_asked_is_not_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    made = subject()
    calls: list[int] = []
    program = made.program()
    raw = made.fetch(torch.arange(3)).inputs
    monkeypatch.setattr(program.model, "forward", _counted(program, calls))
    with asked_once():
        first, again, other = program.answer([raw]), program.answer([raw.clone()]), program.answer([raw[:2]])
    assert len(calls) == 2
    assert torch.equal(first[0], again[0])
    assert torch.equal(other[0], first[0][:2])
    program.answer([raw])
    assert len(calls) == 3, "outside, every question is asked"


def _counted(program: Program, calls: list[int]) -> object:
    plain = program.model.forward

    def forward(images: Tensor) -> Tensor:
        calls.append(len(images))
        answer: Tensor = plain(images)
        return answer

    return forward


def test_another_python_ships_what_this_one_cannot(tmp_path: Path) -> None:
    python = _script(
        tmp_path,
        json.dumps({"recipe": "digits", "target": "executorch", "verified": None, "seconds": 2.0, "said": "no"}),
    )
    assert shipping.ship_elsewhere(python, tmp_path / "digits", "executorch", "") == Shipped(
        "digits", "executorch", None, 2.0, "no"
    )
    silent = shipping.ship_elsewhere(_script(tmp_path, "Traceback"), tmp_path / "digits", "executorch", "")
    assert (silent.alike, silent.said) == (False, "Traceback")


def _script(folder: Path, line: str) -> str:
    """Says one line, whatever it is asked."""
    file = folder / "python"
    file.write_text(f"#!/bin/sh\ncat <<'END'\n{line}\nEND\n", encoding="utf-8")
    file.chmod(0o755)
    return str(file)


def test_what_cannot_be_trained_ends_it_with_what_was_said(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"no-such-recipe could not be trained: .*no-such-recipe"):
        train("no-such-recipe", tmp_path, "")


def test_a_run_that_is_there_is_not_trained_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(words: Sequence[str], **options: object) -> None:
        raise AssertionError(words)

    monkeypatch.setattr("subprocess.run", never)
    (tmp_path / "digits").mkdir()
    assert train("digits", tmp_path, "") == tmp_path / "digits"
