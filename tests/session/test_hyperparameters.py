"""The recipe of docs/training/hyperparameters.md: set, shown, recorded, compared, resumed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.docs_blocks import python_blocks
from tests.session.test_changes import about, trueloop


def typed(folder: Path, words: str) -> tuple[int, str]:
    return trueloop(folder, *words.split())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    text = python_blocks("training/hyperparameters.md")[0].replace("lr=1e-2", 'lr=1e-2, trackers=(), device="cpu"')
    (tmp_path / "xor.py").write_text(text, encoding="utf-8")
    code, printed = trueloop(tmp_path, "train", "xor.py", "--set", "hidden=16", "--set", "epochs=1", "--name", "wide")
    assert code == 0, printed
    return tmp_path


def test_a_run_records_its_own_hyperparameters_and_resumes_with_them(folder: Path) -> None:
    assert about(folder, "wide")["recipe"]["hyperparameters"] == {"hidden": 16, "dropout": 0.1}
    code, printed = trueloop(folder, "resume", "wide", "--set", "epochs=2")
    assert code == 0, printed
    assert about(folder, "wide")["recipe"]["hyperparameters"]["hidden"] == 16
    code, printed = trueloop(folder, "resume", "wide", "--set", "epochs=3", "--set", "dropout=0.2")
    assert code == 4
    assert "hyperparameters: {'hidden': 16, 'dropout': 0.1}, now {'hidden': 16, 'dropout': 0.2}" in printed
    code, printed = typed(folder, "resume wide --set epochs=3 --set dropout=0.2 --accept-changes")
    assert code == 0, printed
    code, printed = typed(folder, "resume wide --set epochs=4")  # dropout=0.2 was kept
    assert code == 0, printed


def test_they_are_shown_and_compared(folder: Path) -> None:
    code, printed = trueloop(folder, "train", "xor.py", "--set", "epochs=1")
    assert code == 0, printed
    listed = [line.split()[:3] for line in trueloop(folder, "runs")[1].splitlines()]
    assert listed[0] == ["run", "recipe", "hidden"]  # the values of `dropout` do not differ
    assert ["wide", "xor", "16"] in listed
    rows = [line.split() for line in trueloop(folder, "compare", "xor", "wide")[1].splitlines()]
    assert ["hidden", "64", "16"] in rows
    assert not any(row[:1] == ["dropout"] for row in rows)
    shown = typed(folder, "train xor.py --set hidden=32 --show")[1]
    assert [line.split() for line in shown.splitlines()][2:5] == [
        ["your", "own", "hyperparameters"],
        [">", "hidden", "32"],
        ["dropout", "0.1"],
    ]
    values = json.loads(typed(folder, "train xor.py --set hidden=32 --show --format json")[1])["fields"]
    assert {each["name"]: each["value"] for each in values}["hyperparameters"] == {"hidden": 32, "dropout": 0.1}


def test_a_wrong_one_is_a_sentence(folder: Path) -> None:
    code, printed = typed(folder, "train xor.py --set hiden=32")
    assert (code, "Did you mean hidden?" in printed) == (4, True)
    code, printed = typed(folder, "train xor.py --set hidden=wide")
    assert (code, "hidden=wide is not valid: it is a whole number" in printed) == (4, True)


def test_export_and_probe_build_the_same_model(folder: Path) -> None:
    code, printed = typed(folder, "probe runs/wide reload-gives-same-output")
    assert code == 0, printed
    code, printed = typed(folder, "probe xor.py --set hidden=8 optimizer-holds-every-parameter")
    assert code == 0, printed
