"""Each rule's page: it fires at every marked line, and nowhere else; and no other rule speaks uninvited."""

from __future__ import annotations

import pytest

from tests.pages import EXAMPLES, Example, checked
from trueloop.finding import Severity
from trueloop.rules.catalogue import all_rules

LOOKALIKES = 3
"""Healthy scripts that an error rule must stay silent on, at least."""


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda e: e.name)
def test_the_rule_speaks_where_it_is_marked_and_nowhere_else(example: Example) -> None:
    result = checked(example)
    assert not result.verdict.failures, "\n".join(result.verdict.failures)
    assert result.verdict.outcome.reason == "finished", result.output
    own = {pair for pair in result.at() if pair[0] == example.rule}
    expected = {pair for pair in example.expected() if pair[0] == example.rule}
    assert own == expected, result.output
    assert bool(expected) == example.broken


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda e: e.name)
def test_no_other_rule_speaks_uninvited(example: Example) -> None:
    result = checked(example)
    others = {
        (f.name, f.place.line if f.place else 0): f.message
        for f in result.findings
        if f.name != example.rule and f.severity > Severity.ADVICE
    }
    uninvited = {pair: message for pair, message in others.items() if pair not in example.expected()}
    assert not uninvited
    missing = {pair for pair in example.expected() if pair[0] != example.rule} - set(others)
    assert not missing


@pytest.mark.parametrize("rule", all_rules(), ids=lambda r: r.code)
def test_every_rule_has_a_page_with_broken_and_healthy_scripts(rule: type) -> None:
    name = rule.name  # type: ignore[attr-defined]
    mine = [example for example in EXAMPLES if example.rule == name]
    healthy = [example for example in mine if not example.broken]
    assert any(example.broken for example in mine), f"{name} has no broken script"
    least = LOOKALIKES if rule.severity is Severity.ERROR else 1  # type: ignore[attr-defined]
    assert len(healthy) >= least, f"{name} has {len(healthy)} healthy scripts, not {least}"
