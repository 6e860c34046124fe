"""Each rule's page: the rule reports every marked line and nothing else, and no other rule reports, not even advice.

A cross-table of all findings on all scripts is printed after the tests (tests/rules/table.py).
"""

from __future__ import annotations

import pytest

from tests.pages import EXAMPLES, Example, checked
from trueloop.finding import Severity
from trueloop.rules.catalogue import all_rules

LOOKALIKES = 3
"""Minimum number of healthy scripts for a rule of severity error."""


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda e: e.name)
def test_marked_lines_are_reported_and_no_others(example: Example, record_property: pytest.FixtureRequest) -> None:
    result = checked(example)
    reported = sorted({finding.name for finding in result.findings})
    record_property("spoken", (example.rule, reported))  # type: ignore[operator]
    assert not result.verdict.failures, "\n".join(result.verdict.failures)
    assert result.verdict.outcome.reason in example.ends.split("|"), result.output
    expected = example.expected()
    said = {(f.name, f.place.line if f.place else 0): f"{f.severity.name} {f.message}" for f in result.findings}
    uninvited = {pair: message for pair, message in said.items() if pair not in expected}
    assert not uninvited, result.output
    assert not expected - set(said), result.output
    assert any(name == example.rule for name, _ in expected) == example.broken


@pytest.mark.parametrize("rule", all_rules(), ids=lambda r: r.code)
def test_every_rule_has_a_page_with_broken_and_healthy_scripts(rule: type) -> None:
    name = rule.name  # type: ignore[attr-defined]
    mine = [example for example in EXAMPLES if example.rule == name]
    healthy = [example for example in mine if not example.broken]
    assert any(example.broken for example in mine), f"{name} has no broken script"
    least = LOOKALIKES if rule.severity is Severity.ERROR else 1  # type: ignore[attr-defined]
    assert len(healthy) >= least, f"{name} has {len(healthy)} healthy scripts, not {least}"
