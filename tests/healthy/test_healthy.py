"""Complete healthy programs of every kind of training: not one error or warning among them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import check_script
from trueloop.finding import Severity

PROGRAMS = sorted((Path(__file__).parent / "programs").glob("*.py"))

MARKS = {"checkpointed_bf16": pytest.mark.long}
"""A processor without bf16 takes more than a minute for it."""


@pytest.mark.filterwarnings("default")  # a program may be warned by torch, as it is when it runs alone
@pytest.mark.parametrize(
    "program", [pytest.param(each, marks=MARKS.get(each.stem, ()), id=each.stem) for each in PROGRAMS]
)
def test_a_healthy_program_is_left_in_peace(program: Path, tmp_path: Path) -> None:
    checked = check_script(tmp_path, program.read_text(encoding="utf-8"))
    assert checked.verdict.outcome.reason == "finished", checked.output
    assert not checked.verdict.failures, "\n".join(checked.verdict.failures)
    said = [
        f"{f.code} {f.name} line {f.place.line if f.place else 0}: {f.message}"
        for f in checked.findings
        if f.severity > Severity.ADVICE
    ]
    assert not said, "\n".join(said)
    assert checked.verdict.watched.steps >= 10, "a program that does not train proves nothing"
