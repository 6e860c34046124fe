"""The judge of the ecosystem run: what counts as the same output, and what fails."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.ecosystem.compare import first_difference
from tests.ecosystem.data import KINDS, cifar10, citations, corpus
from tests.ecosystem.run import Ending, Script, judge, read_scripts


@pytest.mark.parametrize(
    ("plain", "checked"),
    [
        ("iter 3: loss 4.1200, time 81.20ms, mfu 0.01%", "iter 3: loss 4.1200, time 93.77ms, mfu 0.02%"),
        ("Epoch: 1 loss: 0.5 time: 0.0312s", "Epoch: 1 loss: 0.5 time: 0.1500s"),
        ("| ms/batch 12.30 | loss  5.1", "| ms/batch 19.80 | loss  5.1"),
        ("Epoch: [0][1/9]\tTime  0.512 ( 0.9)\tLoss 7.1", "Epoch: [0][1/9]\tTime  0.733 ( 1.2)\tLoss 7.1"),
        ("Step: 2m13s | Tot: 1h2m | Loss: 2.4", "Step: 42s119ms | Tot: 59m3s | Loss: 2.4"),
        ("eval_steps_per_second   =     17.858", "eval_steps_per_second   =      9.1"),
        ("'train_runtime': '0.93', 'loss': '0.7'", "'train_runtime': '1.21', 'loss': '0.7'"),
        ("configuration default-80a51a7275b47b37", "configuration default-6139742fa3e49de8"),
        ("saved at 0x7f001122 on 12:30:59", "saved at 0x7f998877 on 12:31:02"),
    ],
)
def test_clocks_and_addresses_may_differ(plain: str, checked: str) -> None:
    assert first_difference(plain, checked, cut=False) == ""


@pytest.mark.parametrize(
    ("plain", "checked"),
    [
        ("loss 4.1200", "loss 4.1201"),
        ("4 models, 3 samples", "4 models, 2 samples"),
        ("iter 3: loss 4.1200, time 81.20ms", "iter 3: loss 4.1300, time 81.20ms"),
        ("epoch 1\nepoch 2", "epoch 1"),
    ],
)
def test_every_other_number_must_not(plain: str, checked: str) -> None:
    assert first_difference(plain, checked, cut=False)


def test_a_run_that_was_cut_may_print_less_but_nothing_else() -> None:
    assert first_difference("loss 3\nloss 2\n", "loss 3\n", cut=True) == ""
    assert first_difference("loss 3\nloss 2\n", "loss 4\n", cut=True)


SCRIPT = Script(
    "s",
    "o/n",
    "c",
    "train.py",
    ".",
    (),
    ".",
    (),
    (),
    (),
    {},
    None,
    9,
    ({"rule": "not-shuffled", "line": [7, 9], "reason": "it is"},),
)
FINDING = {"code": "X1", "name": "not-shuffled", "severity": "warning", "path": "train.py", "line": 9, "message": "m"}


def _report(folder: Path, *findings: dict[str, object], failures: tuple[str, ...] = ()) -> Path:
    path = folder / "report.json"
    path.write_text(json.dumps({"findings": findings, "watched": {"failures": failures}}), encoding="utf-8")
    return path


def _ending(code: int = 0, printed: str = "loss 1\n") -> Ending:
    return Ending(code, printed, "", 1.0)


def test_an_expected_finding_and_advice_pass(tmp_path: Path) -> None:
    advice = {**FINDING, "name": "other", "severity": "advice"}
    answer = judge(SCRIPT, _ending(), _ending(), _report(tmp_path, FINDING, advice))
    assert answer.good
    assert len(answer.findings) == 2


def test_an_expected_finding_that_stays_away_fails(tmp_path: Path) -> None:
    answer = judge(SCRIPT, _ending(), _ending(), _report(tmp_path))
    assert not answer.good
    assert "not-shuffled" in answer.problems[0]


@pytest.mark.parametrize("change", [{"line": 8}, {"name": "vanishing-gradients"}])
def test_an_unexpected_finding_fails(tmp_path: Path, change: dict[str, object]) -> None:
    assert not judge(SCRIPT, _ending(), _ending(), _report(tmp_path, {**FINDING, **change})).good


def test_another_ending_or_a_failure_of_ours_fails(tmp_path: Path) -> None:
    assert not judge(SCRIPT, _ending(), _ending(code=1), _report(tmp_path)).good
    assert not judge(SCRIPT, _ending(), _ending(printed="loss 2\n"), _report(tmp_path)).good
    assert not judge(SCRIPT, _ending(), _ending(), _report(tmp_path, failures=("Traceback\nKeyError: 1",))).good


def test_a_script_that_fails_by_itself_is_skipped(tmp_path: Path) -> None:
    assert "by itself" in judge(SCRIPT, _ending(code=1), _ending(code=1), tmp_path / "none.json").skipped


def test_the_list_is_well_formed() -> None:
    scripts = read_scripts([])
    assert len(scripts) >= 40
    assert len({script.repository for script in scripts}) >= 12
    assert len({script.name for script in scripts}) == len(scripts)
    for script in scripts:
        assert {wanted["kind"] for wanted in script.data} <= {*KINDS, "repository"}
        assert all(entry["reason"] for entry in script.expected)


def test_made_up_data_is_as_large_as_asked_for(tmp_path: Path) -> None:
    cifar10(tmp_path, tmp_path, 50, 10)
    assert len(list((tmp_path / "cifar-10-batches-py").iterdir())) == 7
    citations(tmp_path, tmp_path, 30, 10)
    assert len((tmp_path / "cora.content").read_text(encoding="utf-8").splitlines()) == 40
    source = tmp_path / "tinyshakespeare"
    source.mkdir()
    (source / "input.txt").write_text("a\nb\nc\nd\n", encoding="utf-8")
    corpus(tmp_path, tmp_path / "corpus", 2, 1)
    assert (tmp_path / "corpus" / "test.txt").read_text(encoding="utf-8") == "d\n"
