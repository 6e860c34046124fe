"""Pairs that are written the other way round; and pairs that are different ones."""

from __future__ import annotations

import random
from itertools import combinations

import numpy

from trueloop.measure.mirrored_pairs import mirrored_pairs
from trueloop.measure.tables import Table, Values

NAMES = [f"P{number:03d}" for number in range(60)]
Pairs = list[tuple[str, str, int]]


def table(path: str, pairs: Pairs) -> Table:
    first, second = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    numbers = numpy.array([float(pair[2]) for pair in pairs])
    return Table(path, (Values("a", None, first), Values("b", None, second), Values("y", numbers)), len(pairs), True)


def drawn(count: int) -> Pairs:
    draw = random.Random(0)
    pairs = [(a, b, draw.randrange(2)) for a, b in combinations(NAMES, 2)]
    draw.shuffle(pairs)
    return pairs[:count]


def test_training_pairs_the_other_way_round() -> None:
    pairs = drawn(1000)
    train, new = pairs[:800], pairs[800:]
    back = [(b, a, label) for a, b, label in train[:150]]
    found = mirrored_pairs(table("train.tsv", train), table("valid.tsv", new + back))
    assert found is not None
    assert (found.columns, found.label, found.pairs) == (("a", "b"), "y", 150)
    assert mirrored_pairs(table("train.tsv", train), table("valid.tsv", new)) is None


def test_matches_at_home_and_away_have_a_result_each() -> None:
    draw = random.Random(1)
    home = drawn(900)
    away = [(b, a, draw.randrange(2)) for a, b, _ in home]
    assert mirrored_pairs(table("train.tsv", home), table("valid.tsv", away)) is None


def test_a_directed_graph_has_edges_in_both_directions() -> None:
    draw = random.Random(2)
    edges = drawn(900)
    edges += [(b, a, label) for a, b, label in edges[:500]]
    draw.shuffle(edges)
    assert mirrored_pairs(table("train.tsv", edges[:1000]), table("valid.tsv", edges[1000:])) is None


def test_nearly_all_labels_are_equal() -> None:
    pairs = [(a, b, int(number % 12 == 0)) for number, (a, b, _) in enumerate(drawn(1000))]
    back = [(b, a, label) for a, b, label in pairs[:300]]
    assert mirrored_pairs(table("train.tsv", pairs), table("valid.tsv", back)) is None
