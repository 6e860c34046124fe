"""Proofs: on disk and back, counted, and never claimed where they were not made."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from trueloop.errors import CannotSave, NotARun
from trueloop.event import Place
from trueloop.results.proof import FILE, Cause, Proof, Proofs, read_proofs, write_proofs

HOLDS = Proof(
    "evaluation-repeats", "holds", "twice 0.93", "the same number", {"twice": (0.93, 0.93)}, seconds=1.5, when=7.0
)
FAILS = Proof(
    "overfit-one-batch",
    "fails",
    "stays at 2.3",
    "about zero",
    {"loss": math.inf},
    (Cause("a softmax", "remove it"),),
    Place("t.py", 3, "f"),
)
OPEN = Proof("cpu-and-gpu-agree", "unproved", "there is no GPU here", "the same to rounding")
ALL = Proofs("digits", (HOLDS, FAILS, OPEN))


def test_what_is_written_is_read(tmp_path: Path) -> None:
    write_proofs(tmp_path, ALL)
    read = read_proofs(tmp_path)
    assert read.subject == "digits"
    assert read.proofs[1:] == (replace(FAILS, evidence={"loss": "inf"}), OPEN)
    assert read.proofs[0] == replace(HOLDS, evidence={"twice": [0.93, 0.93]})


def test_a_claim_that_is_tried_again_replaces_what_was_proved_before(tmp_path: Path) -> None:
    write_proofs(tmp_path, ALL)
    write_proofs(tmp_path, Proofs("digits", (replace(FAILS, result="holds", causes=()),)))
    assert {proof.claim: proof.result for proof in read_proofs(tmp_path).proofs} == {
        "evaluation-repeats": "holds",
        "cpu-and-gpu-agree": "unproved",
        "overfit-one-batch": "holds",
    }


def test_no_file_is_no_proof(tmp_path: Path) -> None:
    assert read_proofs(tmp_path).proofs == ()


@pytest.mark.parametrize(
    "damage",
    [
        "{",
        "[]",
        '{"format": 1}',
        '{"format": 99, "subject": "x", "proofs": []}',
        '{"format": 1, "subject": "x", "proofs": [{"claim": "a", "result": "sure", "measured": "", "healthy": ""}]}',
        '{"format": 1, "subject": "x", "proofs": [3]}',
    ],
)
def test_a_damaged_file_is_refused_in_a_sentence(tmp_path: Path, damage: str) -> None:
    (tmp_path / FILE).write_text(damage, encoding="utf-8")
    with pytest.raises(NotARun, match=r"proofs\.json"):
        read_proofs(tmp_path)


def test_a_folder_that_is_not_there_cannot_keep_proofs(tmp_path: Path) -> None:
    with pytest.raises(CannotSave, match="only on the screen"):
        write_proofs(tmp_path / "gone", ALL)


def test_the_file_is_strict_json(tmp_path: Path) -> None:
    def refuse(word: str) -> None:
        raise AssertionError(word)

    json.loads(write_proofs(tmp_path, ALL).read_text(encoding="utf-8"), parse_constant=refuse)


def test_exit_codes() -> None:
    assert Proofs("x", (HOLDS, OPEN)).exit_code() == 0
    assert ALL.exit_code() == 1
    assert replace(ALL, failures=("Traceback",)).exit_code() == 3
    assert replace(ALL, script_code=7).exit_code() == 7


def test_the_closing_line_counts() -> None:
    assert ALL.closing() == "1 of 3 claims holds, 1 fails, 1 could not be tested here; 2 s"
    assert Proofs("x", (HOLDS,)).closing() == "1 of 1 claim holds; 2 s"
