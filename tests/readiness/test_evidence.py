"""The sceptic who reads the notes is one: each kind of untruth is caught."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.readiness.evidence import check_markdown, check_statements
from tests.readiness.made import made, readiness
from trueloop.errors import NotARun
from trueloop.readiness.record import Record
from trueloop.report import render
from trueloop.results.readiness import Figure, Readiness, Statement, stated

UNTRUE = {
    "a wrong number": stated("data", "good", "{best:.2f}", best=Figure(0.8, "[run.json#best]")),
    "a rounding too far": stated("data", "good", "{value:.3f}", value=Figure(0.991, "[facts.json#baseline.value]")),
    "a wrong word": stated("model", "good", "{name}", name=Figure("Other", "[facts.json#model.class]")),
    "a wrong computation": stated(
        "data", "good", "{most:.1f}", most=Figure(0.6, "largest([metrics.jsonl?train#gradient_norm])")
    ),
    "a number from nowhere": stated("data", "good", "12 samples").and_see("run.json"),
    "a dead link": stated("data", "good", "all is well").and_see("facts.json#no.such"),
    "a line that is not there": stated("data", "good", "all is well").and_see("metrics.jsonl:99#loss"),
    "no evidence": stated("data", "good", "all is well"),
    "missing, and there": Statement(
        "data", "missing", "x: not recorded, `facts.json#data.train` is missing", command="do"
    ),
    "missing, and nobody says how": Statement("data", "missing", "x: not tested"),
}


@pytest.mark.parametrize("what", UNTRUE)
def test_it_is_caught(what: str, tmp_path: Path) -> None:
    run = made(tmp_path)
    with pytest.raises(AssertionError):
        check_statements(Readiness("mine", (UNTRUE[what],)), run)


def test_a_line_that_was_changed_by_hand_is_caught(tmp_path: Path) -> None:
    run = made(tmp_path)
    read, note = readiness(run), run / "training-readiness.md"
    note.write_text(render(read, "markdown"), encoding="utf-8")
    check_markdown(note, read)
    note.write_text(render(read, "markdown").replace("800 training", "900 training"), encoding="utf-8")
    with pytest.raises(AssertionError):
        check_markdown(note, read)


@pytest.mark.parametrize("text", ['{"format": 1, "proofs": "no"}', "[]", '{"proofs": [{"result": "holds"}]}'])
def test_damaged_proofs_are_refused_in_a_sentence(tmp_path: Path, text: str) -> None:
    (tmp_path / "proofs.json").write_text(text, encoding="utf-8")
    with pytest.raises(NotARun, match=r"proofs\.json is damaged"):
        Record(tmp_path).value("proofs.json#overfit-one-batch.result")
