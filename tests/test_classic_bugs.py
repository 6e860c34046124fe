"""Ten classic bugs and three healthy scripts, the ones the peers are measured on: each bug at its marked line, and
nothing else."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.conftest import check_script
from trueloop.finding import Severity

SCRIPTS = sorted((Path(__file__).parent.parent / "benchmarks" / "peers" / "scripts").glob("*.py"))


@pytest.mark.filterwarnings(
    "default"
)  # torch itself warns of the broadcast; the script lives on, as it would outside the tests
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda p: p.stem)
def test_it_is_found_at_its_line_and_nothing_else_is(script: Path, tmp_path: Path) -> None:
    text = script.read_text(encoding="utf-8")
    marks = {
        (m[1], number) for number, line in enumerate(text.splitlines(), 1) if (m := re.search(r"# expect: (\S+)", line))
    }
    assert len(marks) == (0 if script.stem.startswith("healthy") else 1)
    found = check_script(tmp_path, text).findings
    assert {(f.name, f.place.line if f.place else 0) for f in found if f.severity > Severity.ADVICE} == marks


def test_there_are_ten_bugs_and_three_healthy_scripts() -> None:
    assert [sum(s.stem.startswith("healthy") == healthy for s in SCRIPTS) for healthy in (False, True)] == [10, 3]
