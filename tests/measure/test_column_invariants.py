"""Relations that hold in every row of one file and fail in the other; other samples and drift keep them."""

from __future__ import annotations

from typing import Any

import numpy
import pytest

from trueloop.measure.column_invariants import broken_invariants
from trueloop.measure.group_order import lost_order, sorted_events
from trueloop.measure.link_tables import first_only
from trueloop.measure.tables import Table, Values


def table(path: str = "a.csv", **columns: Any) -> Table:
    values = tuple(
        Values(name, None, cells) if isinstance(cells, list) else Values(name, numpy.asarray(cells, dtype=float))
        for name, cells in columns.items()
    )
    return Table(path, values, len(values[0]), named=True)


def drawn(seed: int) -> numpy.random.Generator:
    return numpy.random.default_rng(seed)


def kinds(first: Table, second: Table) -> list[tuple[str, bool]]:
    return [(each.kind, each.in_first) for each in broken_invariants(first, second)]


# -- columns --


def boxes(seed: int, *, sizes: bool = False, far: float = 0.0) -> Table:
    left = drawn(seed).uniform(0, 100, 300) + far
    width = drawn(seed + 1).uniform(1, 30, 300)
    return table(left=left, right=width if sizes else left + width)


def test_corners_in_one_file_and_sizes_in_the_other() -> None:
    assert kinds(boxes(0), boxes(2, sizes=True)) == [("order", True)]
    assert kinds(boxes(2, sizes=True), boxes(0)) == [("order", False)]


def test_an_order_that_holds_in_both_files_or_only_because_of_the_amounts() -> None:
    assert not kinds(boxes(0), boxes(2))
    assert not kinds(boxes(0), boxes(2, far=500))
    small, large = drawn(0).normal(0, 1, 300), drawn(1).normal(20, 1, 300)
    assert not kinds(table(a=small, b=large), table(a=small + 20, b=large))  # drift of unrelated columns
    winter, summer = drawn(2).normal(0, 5, 300), drawn(3).normal(22, 6, 300)
    assert not kinds(table(out=winter, room=drawn(4).normal(21, 1, 300)), table(out=summer, room=large + 1))


def test_an_order_that_other_rows_would_keep_by_ties_says_nothing() -> None:
    """Of two equal amounts neither is above the other: shuffled rows do not break an order that ties keep."""
    amounts = numpy.where(numpy.arange(600) % 10 == 0, drawn(0).integers(0, 25, 600), 12.0)
    low, high = numpy.minimum(amounts, 12), numpy.maximum(amounts, 12)
    assert kinds(table(low=low, high=high), table(low=high + 1, high=low)) == []


def visits(name: str, sign: int) -> Table:
    rows = numpy.arange(300) if name == "row" else drawn(0).integers(0, 300, 300)
    return table("x.csv", **{name: rows + 100, "item": rows + 100 + sign * drawn(1).integers(1, 100, 300)})


def test_identifiers_have_no_order() -> None:
    for name in ("user_id", "userId", "Store No", "row"):
        assert not kinds(visits(name, 1), visits(name, -1))
    for name in ("paid", "grid", "start"):
        assert kinds(visits(name, 1), visits(name, -1)) == [("order", True)]


def test_a_clean_signal_beside_a_noisy_one() -> None:
    def spectra(noise: float, ending: str) -> Table:
        level = drawn(0).uniform(0, 9, (300, 1))
        points = level + numpy.arange(4) / 4 + noise * drawn(1).normal(size=(300, 4))
        return table("a.csv", **{f"w{index}{ending}": points[:, index] for index in range(4)})

    assert not kinds(spectra(0.0, ""), spectra(1.0, ""))
    assert not kinds(spectra(0.0, "]"), spectra(1.0, "]"))


def bills(seed: int, *, net: bool = False) -> Table:
    goods, freight = drawn(seed).gamma(2, 50, 300).round(2), drawn(seed + 1).gamma(2, 20, 300).round(2)
    return table(goods=goods, freight=freight, total=goods if net else goods + freight)


def test_a_total_that_lost_a_part() -> None:
    assert ("sum", True) in kinds(bills(0), bills(2, net=True))
    assert not kinds(bills(0), bills(2))


def test_an_amount_that_is_no_longer_price_times_count() -> None:
    def orders(seed: int, power: int) -> Table:
        price, count = drawn(seed).gamma(2, 5, 300).round(2), drawn(seed + 1).integers(1, 30, 300)
        return table(price=price, count=count, amount=price * count**power)

    assert ("product", True) in kinds(orders(0, 1), orders(2, 0))
    assert not kinds(orders(0, 1), orders(2, 1))


def clips(seed: int, *, default: bool = False, long: bool = False) -> Table:
    rate = drawn(seed).choice([8000.0, 16000.0], 200)
    samples = rate * (drawn(seed + 1).choice([0.7, 1.0, 1.9], 200) if long else 1)
    return table(samples=samples, rate=numpy.full(200, 8000.0) if default else rate)


def test_a_setting_that_is_a_default_in_one_file() -> None:
    assert kinds(clips(0, default=True), clips(2)) == [("ratio", False)]
    assert not kinds(clips(0), clips(2))
    assert not kinds(clips(0, long=True), clips(2))
    assert not kinds(clips(0, default=True, long=True), clips(2))


def labels(seed: int, names: str, count: int = 200) -> Table:
    codes = drawn(seed).integers(0, len(names), count)
    return table(name=[f"kind {names[code]}" for code in codes], code=codes)


def test_names_with_different_numbers() -> None:
    assert kinds(labels(0, "abcde"), labels(1, "bacde")) == [("code", True)]


@pytest.mark.parametrize("other", ["abcde", "abcdef", "vwxyz"])
def test_the_same_numbers_more_names_and_other_names(other: str) -> None:
    assert not kinds(labels(0, "abcde"), labels(1, other))


# -- order --


def events(seed: int, *, by_item: bool) -> Table:
    draw = drawn(seed)
    rows = [(user, item, time) for user in range(60) for time, item in enumerate(draw.integers(0, 40, 12).tolist())]
    rows.sort(key=lambda row: (row[0], row[1] if by_item else row[2]))
    users, items, times = zip(*rows, strict=True)
    return table(user=[f"u{user}" for user in users], item=items, time=times)


def test_events_of_each_user_sorted_by_item_in_one_file() -> None:
    found = lost_order(events(0, by_item=True), events(1, by_item=False))
    assert found is not None
    assert (found.group, found.column, found.time) == ("user", "item", "time")
    assert lost_order(events(0, by_item=False), events(1, by_item=False)) is None
    assert lost_order(events(0, by_item=True), events(1, by_item=True)) is None


def sequences(seed: int, *, ordered: bool = False) -> Table:
    rows = drawn(seed).integers(0, 40, (100, 8))
    rows = numpy.sort(rows, 1) if ordered else rows
    return Table(
        "holdout.npy", tuple(Values(f"[{i}]", rows[:, i].astype(float), None, "int64") for i in range(8)), 100, True
    )


def test_events_sorted_by_item_beside_sequences_that_are_not() -> None:
    def pairs(*, by_item: bool) -> Table:
        each = events(0, by_item=by_item)
        return Table("events.tsv", each.columns[:2], each.rows, named=True)

    found = sorted_events(pairs(by_item=True), sequences(1))
    assert found is not None
    assert (found.group, found.column) == ("user", "item")
    assert sorted_events(pairs(by_item=False), sequences(1)) is None
    assert sorted_events(pairs(by_item=True), sequences(1, ordered=True)) is None


# -- tables of labels --

TAGS = [f"tag {chr(97 + i)}" for i in range(10)]


def documents(*, first: bool, ordered: bool = True, several: bool = True) -> tuple[Table, list[Table]]:
    """The documents below 600 are for training: their tags after the first one are lost."""
    draw = drawn(5)
    link: list[tuple[str, str]] = []
    for number in range(1000):
        count = int(draw.integers(1, 5)) if several else 1
        tags = draw.choice(TAGS, count, replace=False).tolist()
        tags = sorted(tags) if ordered else tags
        link += [(f"d{number}", tag) for tag in (tags[:1] if first and number < 600 else tags)]
    split = ["train" if number < 600 else "test" for number in range(1000)]
    docs = table("docs.csv", id=[f"d{number}" for number in range(1000)], split=split)
    return table("tags.csv", id=[each for each, _ in link], tag=[tag for _, tag in link]), [docs]


def test_only_the_first_tag_of_each_training_document_is_left() -> None:
    found = first_only(*documents(first=True))
    assert found is not None
    assert (found.id, found.label, found.part, found.ids, found.other) == ("id", "tag", "train", 600, "test")


def test_complete_tags_one_tag_each_and_a_main_tag_that_was_chosen() -> None:
    assert first_only(*documents(first=False)) is None
    assert first_only(*documents(first=False, several=False)) is None
    assert first_only(*documents(first=True, ordered=False)) is None  # one of them may have been chosen
