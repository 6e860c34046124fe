"""Pairs of earlier blind rounds: a cause that was named once stays named, and no healthy twin is flagged."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.blind.run import DATA, examine_pair, needs_data, pairs_of, serious
from trueloop.rules.catalogue import all_rules

ROUNDS = sorted((Path(__file__).parent / "rounds").iterdir())
PAIRS = [pair for folder in ROUNDS for pair in pairs_of(folder)]


def expected(pair: Path) -> str | None:
    """None: no rule names the cause, or (without the key) nobody has looked yet."""
    rule: str | None = json.loads((pair / "case.json").read_text(encoding="utf-8")).get("expected")
    return rule


def test_every_expected_rule_exists() -> None:
    assert {rule for pair in PAIRS if (rule := expected(pair))} <= {rule.name for rule in all_rules()}


@pytest.mark.long
@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: f"{pair.parent.name}/{pair.name}")
def test_the_cause_is_named_and_the_twin_is_silent(pair: Path) -> None:
    if needs_data(pair) and not os.environ.get(DATA):
        pytest.skip(f"{DATA} is not set: there are no data for this script here")
    rule = expected(pair)
    result = examine_pair(pair, ("bug", "ok") if rule else ("ok",))
    if rule:
        assert rule in {finding.get("name") for finding in result["bug"]}, result["bug"]
    assert not serious(result["ok"])
