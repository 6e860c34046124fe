"""Statements, the figures in them, and the verdict that follows."""

from __future__ import annotations

from itertools import product

import pytest

from trueloop.results.readiness import Figure, Readiness, Statement, Status, condensed, middle_of, stated, verdict_of


def test_a_figure_knows_how_it_was_made() -> None:
    made = (Figure(6, "[a.json#x]") * 2 + 1 - Figure(3, "[b.json#y]")) / Figure(5, "[a.json#x]")
    assert made.value == 2.0
    assert made.source == "((((([a.json#x] * 2)) + 1) - [b.json#y]) / [a.json#x])".replace("(((([a", "((([a").replace(
        "2))", "2)"
    )
    assert made.addresses == ("a.json#x", "b.json#y")


def test_a_median_says_of_what() -> None:
    made = middle_of(Figure([3.0, 1.0, 9.0], "[m.jsonl?train#x]"))
    assert (made.value, made.source) == (3.0, "median([m.jsonl?train#x])")


def test_a_statement_keeps_each_figure_as_it_is_shown() -> None:
    made = stated(
        "data",
        "good",
        "{many:,} of {name}, {share:.1%}",
        many=Figure(1234, "[a#m]"),
        name=Figure("x", "[a#n]"),
        share=Figure(0.5, "[b]"),
    )
    assert made.text == "1,234 of x, 50.0%"
    assert [each.text for each in made.shown] == ["1,234", "x", "50.0%"]
    assert made.links == ("a#m", "a#n", "b")
    assert made.and_see("b", "c").links == ("a#m", "a#n", "b", "c")
    assert made.advising("do it").command == "do it"


def test_braces_in_a_value_are_only_text() -> None:
    assert stated("data", "note", "{said}", said=Figure("{x} {0}", "[a]")).text == "{x} {0}"


def test_a_figure_that_is_not_given_is_refused() -> None:
    with pytest.raises(KeyError):
        stated("data", "note", "{nobody}")


def test_links_into_the_same_part_are_one() -> None:
    links = ("facts.json#model.a", "facts.json#model.b", "facts.json#data", "m.jsonl:3#x", "m.jsonl:3#y", "report.json")
    assert list(condensed(links)) == ["facts.json#model", "facts.json#data", "m.jsonl:3", "report.json"]
    assert condensed(("run.json#best",)) == {"run.json#best": ("run.json#best",)}


# -- the verdict --


def of(status: Status, *, essential: bool = False) -> Statement:
    return Statement("data", status, f"a {status} line", essential=essential)


def test_nothing_known_is_not_ready() -> None:
    assert verdict_of(()) == "not ready"


@pytest.mark.parametrize(
    ("status", "essential"), list(product(("good", "note", "risk", "missing", "bad"), (False, True)))
)
def test_the_verdict_follows_the_worst_line(status: Status, essential: bool) -> None:
    verdict = verdict_of((of("good"), of("note"), of(status, essential=essential)))
    if status == "bad" or (status == "missing" and essential):
        assert verdict == "not ready"
    elif status in ("risk", "missing"):
        assert verdict == "ready with risks"
    else:
        assert verdict == "ready"


def test_the_gravest_reasons_come_first() -> None:
    lines = (of("risk"), of("missing"), of("good"), of("missing", essential=True), of("bad"))
    read = Readiness("x", lines)
    assert [each.status for each in read.reasons()] == ["missing", "bad", "risk", "missing"]
    assert read.closing() == "5 lines: 1 bad, 1 at risk, 2 missing, 1 good"
