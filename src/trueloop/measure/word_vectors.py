"""Vectors of words beside the list of the words: does word n have the vector of row n?

Vectors of words, whoever made them, tell something about the words: about labels of the texts that they are in, about
the words beside them, or about their spelling. Those of different words do not.
"""

import json
import os
import re
from collections import Counter
from collections.abc import Iterator
from pickle import UnpicklingError
from typing import Any, Final, NamedTuple

import numpy
import torch
from numpy.typing import NDArray

from trueloop.measure.alignments import (
    Alignment,
    Order,
    Statistic,
    better_order,
    orders_of_keys,
    orders_of_rows,
    spread,
)
from trueloop.measure.tables import Table

__all__ = ["MisplacedWords", "WordList", "Words", "best_text", "misplaced_words", "read_word_lists", "stored_vectors"]

MOST_BYTES: Final = 2**22
LEAST: Final = 40  # words
MOST: Final = 40_000
MOST_SPECIAL: Final = 4  # rows that no word of the list names
FREQUENT: Final = 800  # words that are looked at
LEAST_TOKENS: Final = 500
MOST_TOKENS: Final = 60_000
KNOWN: Final = 0.5  # of the tokens: the list is that of this text
MOST_CLASSES: Final = 20
NARROWEST: Final = 4  # numbers of a vector
WIDEST: Final = 1024
CALLED: Final = re.compile(r"vec|emb|glove|w2v|wte|fasttext|lookup", re.IGNORECASE)
LONGEST: Final = 3.0  # times the usual length of a vector
SURELY_NOT: Final = 2.5  # standard deviations from chance, by every statistic
RELIABLE: Final = 6.0  # standard deviations: the labels of the texts depend on their words
STRUCTURED: Final = 1.3  # times the largest variance of columns that are shuffled apart; 1.05 at most if drawn

Floats = NDArray[numpy.float64]
ABOUT: Final = ("labels of the texts", "words beside them", "words that share their neighbors", "spelling")


class WordList(NamedTuple):
    words: list[str]
    rows: Order  # of each word


class Words(NamedTuple):
    """What a text tells about its most frequent words."""

    chosen: Order  # numbers of the words in the list
    classes: Floats  # [words, classes] occurrences in texts of each class, minus those expected; empty without labels
    beside: Floats  # [words, words] how much more often than by chance they occur together
    reliable: float  # standard deviations from chance: correlation of the labels of words in two halves of the text


class MisplacedWords(NamedTuple):
    alignment: Alignment | None  # None: no order fits
    about: str  # what the vectors tell about the words, in that order


# -- reading --


def read_word_lists(path: str) -> list[WordList]:
    """["the", ...], {"the": 0, ...}, or one word per line."""
    if not path.endswith((".txt", ".json", ".vocab", ".lst", ".tsv", ".words")) or os.path.getsize(path) > MOST_BYTES:
        return []
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
        found = _lists(json.loads(text)) if path.endswith(".json") else _lists(text.rstrip("\n").split("\n"))
        return [each for each in found if LEAST <= len(each.words) <= MOST and len(set(each.words)) == len(each.words)]
    except (ValueError, RecursionError):  # not utf-8, or not json that can be read
        return []


def _lists(content: Any, depth: int = 0) -> Iterator[WordList]:
    if isinstance(content, list) and content and all(isinstance(w, str) and len(w.split()) <= 1 for w in content):
        yield WordList(content, numpy.arange(len(content)))
    elif isinstance(content, dict) and content and all(type(number) is int for number in content.values()):
        rows = numpy.array(list(content.values()))
        if rows.min() >= 0 and len(numpy.unique(rows)) == len(rows):
            yield WordList(list(map(str, content)), rows)
    elif isinstance(content, dict) and depth < 2:
        for value in content.values():
            yield from _lists(value, depth + 1)


def stored_vectors(path: str) -> Iterator[tuple[str, Floats]]:
    """Arrays [rows, numbers] that are vectors by the name of their file or their own name."""
    for name, array in _arrays(path):
        called = CALLED.search(name) or CALLED.search(os.path.basename(path))
        if not called or array.ndim != 2 or array.dtype.kind != "f" or not NARROWEST <= array.shape[1] <= WIDEST:
            continue
        if LEAST <= len(array) <= MOST + MOST_SPECIAL and numpy.isfinite(array).all():
            yield name, array.astype(numpy.float64)


def _arrays(path: str) -> Iterator[tuple[str, NDArray[Any]]]:
    try:
        if path.endswith(".npy"):
            yield "", numpy.load(path, allow_pickle=False)
        elif path.endswith(".npz"):
            yield from numpy.load(path, allow_pickle=False).items()
        elif path.endswith((".pt", ".pth")):
            content = torch.load(path, map_location="cpu", weights_only=True)
            content = content if isinstance(content, dict) else {"": content}
            for inner in [content, *(value for value in content.values() if isinstance(value, dict))]:
                for name, value in inner.items():
                    if isinstance(value, torch.Tensor) and value.dtype in (torch.float32, torch.float64):
                        yield str(name), value.detach().numpy()
    except (OSError, ValueError, UnpicklingError, RuntimeError, EOFError, KeyError):
        return  # not the format that the extension says


# -- what a text tells --


def best_text(listed: WordList, tables: list[Table]) -> Words | None:
    """Of the text that tells most about the words."""
    found = [words for table in tables if (words := _words_of(listed, table)) is not None]
    return max(found, key=lambda words: (words.reliable, len(words.chosen)), default=None)


def _words_of(listed: WordList, table: Table) -> Words | None:
    """Of the column of texts that has the words of the list; None if no column has."""
    number = {word: index for index, word in enumerate(listed.words)}
    characters = sum(len(word) == 1 for word in listed.words) > len(listed.words) / 2
    for column in table.columns:
        if column.words is None or column.kind == "digest":
            continue
        texts = [_tokens(cell, characters, number) for cell in column.words]
        if sum(map(len, texts)) < LEAST_TOKENS or sum(map(len, texts)) < KNOWN * _length(column.words, characters):
            continue
        labels = [found for other in table.columns if other is not column and (found := _labels(other))]
        words = _words(texts, labels, len(listed.words))
        if words is not None:  # a column of few words is none: `test` of a split may be in the list
            return words
    return None


def _tokens(cell: str, characters: bool, number: dict[str, int]) -> list[int]:
    if characters:
        return [number[letter] for letter in cell if letter in number]
    plain = [number[word] for word in cell.split() if word in number]
    lowered = [number[word] for word in re.findall(r"[\w']+|[^\w\s]", cell.lower()) if word in number]
    return plain if len(plain) >= len(lowered) else lowered


def _length(cells: list[str], characters: bool) -> int:
    return sum(len(cell) if characters else len(cell.split()) for cell in cells)


def _labels(column: Any) -> list[int] | None:
    values = column.words if column.numbers is None else column.numbers.tolist()
    codes = {value: index for index, value in enumerate(sorted(set(values)))}
    return [codes[value] for value in values] if 2 <= len(codes) <= MOST_CLASSES else None


def _words(texts: list[list[int]], several: list[list[int]], size: int) -> Words | None:
    """By the labels that the words tell most about: one column may be the split."""
    kept = 0
    last = len(texts)
    for index, text in enumerate(texts):
        kept += len(text)
        if kept > MOST_TOKENS:
            last = index + 1
            break
    texts = texts[:last]
    counts = Counter(token for text in texts for token in text)
    chosen = numpy.array(
        sorted(token for token, count in counts.most_common(FREQUENT) if count >= 2), dtype=numpy.int64
    )
    if len(chosen) < LEAST:
        return None
    place = numpy.full(size, -1)
    place[chosen] = numpy.arange(len(chosen))
    beside = numpy.zeros((len(chosen), len(chosen)))
    for text in texts:
        line = place[text]
        for apart in (1, 2):
            a, b = line[:-apart], line[apart:]
            both = (a >= 0) & (b >= 0) & (a != b)
            numpy.add.at(beside, (a[both], b[both]), 1.0)
    classes, reliable = numpy.zeros((len(chosen), 0)), 0.0
    for labels in several:
        first, second = (_scores(texts[half::2], labels[:last][half::2], place, len(chosen)) for half in (0, 1))
        size_of = float(numpy.sqrt((first**2 * second**2).sum()))
        agreement = float((first * second).sum()) / size_of if size_of else 0.0
        if not classes.size or agreement > reliable:
            classes, reliable = first + second, agreement
    return Words(chosen, classes, _surprise(beside + beside.T), reliable)


def _scores(texts: list[list[int]], labels: list[int], place: Order, size: int) -> Floats:
    """Occurrences of each word in texts of each class minus those expected, in units of their deviation."""
    table = numpy.zeros((size, max(labels) + 1 if labels else 1))
    for text, label in zip(texts, labels, strict=True):
        line = place[list(set(text))] if text else numpy.zeros(0, dtype=numpy.int64)
        table[line[line >= 0], label] += 1
    share = table.sum(0) / max(1.0, table.sum())
    expected = table.sum(1, keepdims=True) * share
    scores: Floats = (table - expected) / numpy.sqrt(numpy.maximum(expected, 1.0))
    padded = numpy.zeros((size, MOST_CLASSES))
    padded[:, : scores.shape[1]] = scores
    return padded


def _surprise(beside: Floats) -> Floats:
    """Pairs that occur together more often than by chance (positive pointwise mutual information)."""
    total = beside.sum()
    if not total:
        return beside
    alone = beside.sum(0) / total
    expected = numpy.outer(alone, alone) * total
    with numpy.errstate(divide="ignore", invalid="ignore"):
        surprise = numpy.where(beside >= 2, numpy.log(beside / expected), 0.0)
    return numpy.maximum(surprise, 0.0)


# -- what the vectors tell --


def misplaced_words(listed: WordList, vectors: Floats, words: Words) -> MisplacedWords | None:
    """Words whose vectors tell nothing about them: an order in which they do; or none, if the vectors tell something,
    the texts too, and nothing of the one is in the other."""
    if not 0 <= len(vectors) - len(listed.words) <= MOST_SPECIAL or listed.rows.max() >= len(vectors):
        return None
    rows = vectors - vectors.mean(0)
    sizes = numpy.linalg.norm(rows, axis=1, keepdims=True)
    usual = max(float(numpy.median(sizes)), 1e-9)
    rows = rows / numpy.maximum(sizes / LONGEST, usual)  # one long vector must not decide
    statistics = list(_statistics(rows, words, [listed.words[i] for i in words.chosen]))
    # More vectors than words: a script may keep the first rows for padding and unknown words, whatever the list says.
    last = len(vectors) - 1 - int(listed.rows.max())
    used = [listed.rows[words.chosen] + special for special in range(last + 1)]
    by_row = numpy.argsort(listed.rows)
    in_order = [listed.words[index] for index in by_row]
    others = {label: order[numpy.argsort(by_row)][words.chosen] for label, order in _family(in_order).items()}
    size = len(words.chosen)
    wrapped = [_of_first(statistic, size) for statistic in statistics]
    everywhere = {label: _with_rest(order, len(vectors)) for label, order in others.items()}
    found = better_order(wrapped, [_with_rest(order, len(vectors)) for order in used], everywhere)
    if found is not None:
        return MisplacedWords(found, ABOUT[found.statistic])
    if words.reliable < RELIABLE or not _structured(rows):
        return None
    for statistic in wrapped:
        middle, deviation = spread(statistic, len(vectors))
        if deviation and (max(map(statistic, used)) - middle) / deviation > SURELY_NOT:
            return None
    return MisplacedWords(None, "")


def _of_first(statistic: Statistic, size: int) -> Statistic:
    """Of an order of all rows, the statistic of the first ones."""
    return lambda order: statistic(order[:size])


def _with_rest(used: Order, rows: int) -> Order:
    """An order of all rows that begins with these."""
    return numpy.concatenate([used, numpy.setdiff1d(numpy.arange(rows), used)])


def _family(words: list[str]) -> dict[str, Order]:
    special = next((i for i, word in enumerate(words) if not re.fullmatch(r"[<\[].*[>\]]", word)), 0)
    family = orders_of_rows(len(words)) | orders_of_keys("the word", words)
    if special:  # special words stay in front
        for label, order in orders_of_keys("the word", words[special:]).items():
            family[label] = numpy.concatenate([numpy.arange(special), order + special])
    return family


def _statistics(rows: Floats, words: Words, spelled: list[str]) -> Iterator[Statistic]:
    yield lambda order: float(numpy.linalg.norm(words.classes.T @ rows[order])) if words.classes.size else 0.0
    yield lambda order: float((rows[order] * (words.beside @ rows[order])).sum())
    yield lambda order: float(numpy.linalg.norm(words.beside @ rows[order]))
    alike = _spelled_alike(spelled)
    yield lambda order: float((rows[order[alike[:, 0]]] * rows[order[alike[:, 1]]]).sum()) if len(alike) else 0.0


def _spelled_alike(words: list[str]) -> Order:
    """Pairs of words that begin with the same three letters."""
    begin: dict[str, list[int]] = {}
    for index, word in enumerate(words):
        if len(word) >= 3:
            begin.setdefault(word[:3].lower(), []).append(index)
    pairs = [(a, b) for group in begin.values() if len(group) <= 40 for a in group for b in group if a < b]
    return numpy.array(pairs, dtype=numpy.int64).reshape(-1, 2)


def _structured(rows: Floats) -> bool:
    """Whether the numbers of a vector depend on one another: not so if they were drawn."""
    generator = numpy.random.default_rng(0)
    shuffled = numpy.stack([generator.permutation(column) for column in rows.T], 1)
    largest, chance = (float(numpy.linalg.eigvalsh(each.T @ each)[-1]) for each in (rows, shuffled))
    return largest > STRUCTURED * chance
