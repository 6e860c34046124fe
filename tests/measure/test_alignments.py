"""Rows that fit only in a different order are recognized; rows that fit as they are, or in no order, are not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from numpy.typing import NDArray

from trueloop.measure.alignments import better_order, orders_of_keys, orders_of_rows
from trueloop.measure.named_rows import misplaced_groups, misplaced_links, misplaced_rows
from trueloop.measure.tables import Table, Values
from trueloop.measure.word_vectors import MisplacedWords, best_text, misplaced_words, read_word_lists, stored_vectors

Numbers = NDArray[Any]
TEXT_ORDER = "in text order of their numbers (0, 1, 10, 100, ...)"


def table(**columns: Any) -> Table:
    values = tuple(
        Values(key, numpy.asarray(value, dtype=float)) if not isinstance(value, list) else Values(key, None, value)
        for key, value in columns.items()
    )
    return Table("a.csv", values, len(values[0]), named=True)


def array(rows: Numbers) -> Table:
    return Table("a.npy", (Values("", None, [str(i) for i in range(len(rows))], "digest"),), len(rows), True,
                 arrays=(("", rows),))  # fmt: skip


def by_text(count: int) -> list[int]:
    return sorted(range(count), key=str)


# -- orders --


def test_orders_of_keys_know_text_numbers_and_case() -> None:
    found = orders_of_keys("name", [f"tile_{i}" for i in range(12)])
    assert found["sorted by name as text"].tolist() == numpy.argsort(by_text(12)).tolist()
    assert list(orders_of_keys("name", ["b2", "b10", "B3"])) == [
        "sorted by name as text", "sorted by the number in name", "sorted by name without regard to case",
    ]  # fmt: skip
    assert not orders_of_keys("name", ["a", "b", "c"])  # sorted already
    assert not orders_of_keys("name", ["a", "b", "a"])


def test_an_order_that_may_be_in_use_and_fits_ends_the_search() -> None:
    values = numpy.random.default_rng(0).normal(size=200)

    def fit(order: Numbers) -> float:
        return float(values @ values[order])

    orders = orders_of_rows(200)
    turned = orders["in reversed order"]
    assert better_order([lambda order: fit(turned[order])], [numpy.arange(200)], orders) is not None
    assert better_order([fit], [numpy.arange(200)], orders) is None
    assert better_order([lambda order: fit(turned[order])], [numpy.arange(200), turned], orders) is None
    assert better_order([len], [numpy.arange(200)], orders) is None


# -- links --


def graph(seed: int = 0, count: int = 300) -> tuple[Numbers, Numbers]:
    """Features of the nodes, and links that mostly join nodes of one kind."""
    draw = numpy.random.default_rng(seed)
    kind = draw.integers(0, 4, count)
    features = draw.normal(size=(4, 10))[kind] * 0.7 + draw.normal(size=(count, 10))
    ends = draw.integers(0, count, (6000, 2))
    alike = (kind[ends[:, 0]] == kind[ends[:, 1]]) & (ends[:, 0] != ends[:, 1])
    return features, ends[alike][:900]


@pytest.mark.parametrize(("order", "plus"), [("as text", 0), ("reversed", 0), ("", 1)])
def test_links_of_a_different_numbering(order: str, plus: int) -> None:
    features, ends = graph()
    rows = {"as text": features[by_text(300)], "reversed": features[::-1]}.get(order, features)
    ends = ends[ends.max(1) + plus < 300] + plus
    found = misplaced_links(table(a=ends[:, 0], b=ends[:, 1]), array(rows))
    assert found is not None
    expected = {"as text": TEXT_ORDER, "reversed": "in reversed order"}.get(order, "moved by -1")
    assert found.alignment.order == expected


def test_links_by_ids_of_a_column() -> None:
    features, ends = graph(1)
    shuffled = numpy.random.default_rng(2).permutation(300)
    columns = {f"f{i}": features[shuffled, i] for i in range(10)}
    nodes = Table(
        "n.csv", (Values("id", shuffled.astype(float)), *(Values(k, v) for k, v in columns.items())), 300, True
    )
    assert misplaced_links(table(a=ends[:, 0], b=ends[:, 1]), nodes) is None
    moved = ends[ends.max(1) < 299] + 1
    found = misplaced_links(table(a=moved[:, 0], b=moved[:, 1]), nodes)
    assert found is not None
    assert found.alignment.order == "moved by -1"


@pytest.mark.parametrize("seed", range(4))
def test_links_that_fit_or_never_do(seed: int) -> None:
    features, ends = graph(seed)
    links = table(a=ends[:, 0], b=ends[:, 1])
    draw = numpy.random.default_rng(seed)
    assert misplaced_links(links, array(features)) is None
    assert misplaced_links(links, array(draw.normal(size=(300, 10)))) is None  # features that say nothing
    assert misplaced_links(links, array(draw.normal(size=(300, 10)).cumsum(0))) is None  # a series
    assert misplaced_links(links, array(features[draw.permutation(300)])) is None  # an order nobody can name
    unlike = numpy.stack([ends[:, 0], draw.integers(0, 300, len(ends))], 1)  # links between any nodes
    assert misplaced_links(table(a=unlike[:, 0], b=unlike[:, 1]), array(features)) is None
    ratings = table(user=ends[:, 0], item=ends[:, 1], stars=draw.integers(1, 6, len(ends)))
    assert misplaced_links(ratings, array(draw.normal(size=(300, 10)))) is None


# -- rows of a table --


def pictures(seed: int = 0, count: int = 300) -> tuple[Numbers, Numbers]:
    draw = numpy.random.default_rng(seed)
    labels = draw.integers(0, 3, count)
    return draw.normal(size=(3, 6, 6))[labels] + draw.normal(size=(count, 6, 6)), labels


def test_rows_sorted_by_a_name_of_the_table() -> None:
    images, labels = pictures()
    names = [f"{value:06x}.png" for value in numpy.random.default_rng(1).permutation(10**6)[:300]]
    index = table(file=names, kind=[str(label) for label in labels])
    found = misplaced_rows(index, array(images[numpy.argsort(names)]))
    assert found is not None
    assert found.alignment.order == "sorted by `file` as text"
    assert found.column == "kind"
    numbered = table(file=[f"f{i}" for i in range(300)], area=images.mean((1, 2)))
    found = misplaced_rows(numbered, array(images[by_text(300)]))
    assert found is not None


@pytest.mark.parametrize("seed", range(4))
def test_rows_that_fit_or_never_do(seed: int) -> None:
    images, labels = pictures(seed)
    draw = numpy.random.default_rng(seed + 50)
    names = [f"{value:06x}.png" for value in draw.permutation(10**6)[:300]]
    words = [str(label) for label in labels]
    assert misplaced_rows(table(file=names, kind=words), array(images)) is None
    assert misplaced_rows(table(file=names, kind=words), array(draw.normal(size=(300, 8)))) is None
    assert misplaced_rows(table(file=names, kind=words), array(images[draw.permutation(300)])) is None
    order = draw.permutation(300)  # the table names the row of the array
    assert misplaced_rows(table(row=numpy.argsort(order), kind=words), array(images[order])) is None
    by_name = numpy.argsort(names)
    row = numpy.argsort(by_name)  # sorted by name, and the table says so
    assert misplaced_rows(table(file=names, row=row, kind=words), array(images[by_name])) is None
    by_class = numpy.sort(labels)  # rows that are sorted by class fit, moved or not
    assert misplaced_rows(table(kind=[str(k) for k in by_class]), array(images[numpy.argsort(labels)])) is None
    wave = draw.normal(size=300).cumsum()
    windows = numpy.lib.stride_tricks.sliding_window_view(numpy.concatenate([wave, wave[:9]]), 10)
    assert misplaced_rows(table(target=wave), array(windows.copy())) is None  # a series


# -- sizes of groups --


def queries(seed: int, count: int = 120) -> tuple[Table, Numbers]:
    draw = numpy.random.default_rng(seed)
    sizes = draw.integers(3, 15, count)
    centers = draw.normal(0, 2, (count, 5)).repeat(sizes, axis=0)
    rows = centers + draw.normal(size=centers.shape)
    return table(**{f"f{i}": rows[:, i] for i in range(5)}), sizes


def test_sizes_in_a_different_order() -> None:
    rows, sizes = queries(0)
    numbered = sizes[numpy.argsort(by_text(120))]  # the rows are sorted as text, the sizes by number
    found = misplaced_groups(table(size=numbered), rows)
    assert found is not None
    assert misplaced_groups(table(size=sizes[::-1]), rows) is not None


@pytest.mark.parametrize("seed", range(4))
def test_sizes_that_fit_or_never_do(seed: int) -> None:
    rows, sizes = queries(seed)
    draw = numpy.random.default_rng(seed)
    assert misplaced_groups(table(size=sizes), rows) is None
    assert misplaced_groups(table(size=draw.permutation(sizes)), rows) is None
    noise = table(**{f"f{i}": draw.normal(size=int(sizes.sum())) for i in range(5)})
    assert misplaced_groups(table(size=sizes), noise) is None


# -- words and vectors --


def words_and_texts(seed: int, count: int = 200) -> tuple[list[str], Numbers, Table]:
    """Words with a mood, their vectors, and texts whose label is the sum of their moods."""
    draw = numpy.random.default_rng(seed)
    words = ["".join(draw.choice(list("abdegiklmnoprstu"), 6)) for _ in range(count)]
    mood = draw.normal(size=count)
    vectors = numpy.outer(mood, draw.normal(size=12)) + 0.5 * draw.normal(size=(count, 12))
    texts = draw.integers(0, count, (600, 9))
    labels = ["good" if mood[text].sum() > 0 else "bad" for text in texts]
    return words, vectors, table(text=[" ".join(words[i] for i in text) for text in texts], label=labels)


def misplaced(folder: Path, words: list[str] | dict[str, int], vectors: Numbers, text: Table) -> MisplacedWords | None:
    (folder / "vocab.json").write_text(json.dumps(words))
    numpy.save(folder / "vectors.npy", vectors)
    (listed,), ((_, rows),) = read_word_lists(str(folder / "vocab.json")), stored_vectors(str(folder / "vectors.npy"))
    found = best_text(listed, [text])
    assert found is not None
    return misplaced_words(listed, rows, found)


def test_words_in_a_different_order_than_their_vectors(tmp_path: Path) -> None:
    words, vectors, text = words_and_texts(0)
    found = misplaced(tmp_path, words, vectors[numpy.argsort(words)], text)  # vectors of the sorted list
    assert found is not None
    assert found.alignment is not None
    assert found.alignment.order == "sorted by the word as text"
    assert found.about == "labels of the texts"
    found = misplaced(tmp_path, words, numpy.roll(vectors, 2, axis=0), text)  # two special tokens in front
    assert found is not None
    assert found.alignment is not None
    assert found.alignment.order == "moved by +2"
    found = misplaced(tmp_path, sorted(words), vectors, text)  # the order of the vectors is lost
    assert found is not None
    assert found.alignment is None


@pytest.mark.parametrize("seed", range(4))
def test_vectors_that_fit_or_say_nothing(seed: int, tmp_path: Path) -> None:
    words, vectors, text = words_and_texts(seed)
    draw = numpy.random.default_rng(seed)
    shuffled = draw.permutation(len(words)).tolist()
    assert misplaced(tmp_path, words, vectors, text) is None
    numbered = {words[row]: row for row in shuffled}  # the order of a dictionary is not that of its numbers
    assert misplaced(tmp_path, numbered, vectors, text) is None
    assert misplaced(tmp_path, {word: i + 1 for i, word in enumerate(words)}, vectors[[0, *range(200)]], text) is None
    assert misplaced(tmp_path, sorted(words), draw.normal(size=(200, 12)), text) is None  # drawn, to be trained
    unlabelled = table(text=text.column("text").words, label=[str(i) for i in draw.integers(0, 2, 600)])
    assert misplaced(tmp_path, sorted(words), vectors, unlabelled) is None  # the labels do not depend on the words


def test_vectors_of_a_checkpoint_are_found_by_their_name(tmp_path: Path) -> None:
    state = {"embed.weight": torch.zeros(60, 8), "out.weight": torch.zeros(60, 8), "step": 3}
    torch.save(state, tmp_path / "model.pt")
    assert [name for name, _ in stored_vectors(str(tmp_path / "model.pt"))] == ["embed.weight"]
    (tmp_path / "no.npy").write_bytes(b"not an array")
    assert not list(stored_vectors(str(tmp_path / "no.npy")))
    (tmp_path / "notes.txt").write_text("some words\nin a line\n" * 30)
    assert not read_word_lists(str(tmp_path / "notes.txt"))


def test_more_vectors_than_words_may_begin_with_those_of_special_words(tmp_path: Path) -> None:
    words, vectors, text = words_and_texts(0)
    special = numpy.zeros((2, vectors.shape[1]))
    assert misplaced(tmp_path, words, numpy.concatenate([special, vectors]), text) is None
