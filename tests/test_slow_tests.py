"""The list of slow tests names tests that exist, and is read from a run's times as pytest names them."""

from __future__ import annotations

from pathlib import Path

from tests.slow_tests import LIST, slow_functions

ROOT = LIST.parent.parent


def test_every_listed_test_exists() -> None:
    gone = []
    for name in LIST.read_text().split():
        file, *names = name.split("::")
        text = (ROOT / file).read_text() if (ROOT / file).exists() else ""
        if f"def {names[-1]}(" not in text:
            gone.append(name)
    assert not gone, "no longer there: take these lines out of tests/slow_tests.txt"


def test_the_mean_over_the_parameters_counts(tmp_path: Path) -> None:
    cases = [
        ("tests.cli.test_a", "test_one[x]", 3.0),
        ("tests.cli.test_a", "test_one[y]", 0.1),
        ("tests.cli.test_a", "test_two[x]", 1.5),
        ("tests.cli.test_a", "test_two[y]", 0.1),
        ("tests.test_b.TestGroup", "test_three", 1.2),
        ("tests.test_b", "test_four", 0.9),
    ]
    rows = "".join(f'<testcase classname="{place}" name="{name}" time="{took}"/>' for place, name, took in cases)
    junit = tmp_path / "times.xml"
    junit.write_text(f"<testsuites><testsuite>{rows}</testsuite></testsuites>")
    assert slow_functions([junit], 1.0) == ["tests/cli/test_a.py::test_one", "tests/test_b.py::TestGroup::test_three"]
