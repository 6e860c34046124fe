"""Texts whose first word gives their label, where the rest of the text does not."""

from collections import Counter, defaultdict
from math import log
from typing import Final, NamedTuple

from trueloop.measure.tables import Table, Values

__all__ = ["Marker", "marker"]

LEAST: Final = 200  # texts
MOST: Final = 4000
MOST_LABELS: Final = 20
FREQUENT: Final = 10  # texts that begin with a word that counts
POSITIONS: Final = 2
REVEALS: Final = 0.95  # of the labels
COMMON: Final = 0.85  # share of the most frequent label: with more, any guess is right
BETTER: Final = 0.08  # than what the rest of the text gives


class Marker(NamedTuple):
    text: str  # column
    label: str
    words: tuple[str, ...]
    found: float  # share of the labels that the word gives
    rest: float  # share that a naive Bayes probe on the other words gives
    chance: float


def marker(table: Table) -> Marker | None:
    labels = [c for c in table.columns if _is_label(c, table.rows)]
    texts = [c for c in table.columns if c.words is not None and c.kind != "digest" and _is_text(c.words)]
    if table.rows < LEAST or table.lines:
        return None
    for text in texts[:2]:
        for label in labels[:3]:
            found = _judge(text, label)
            if found is not None:
                return found
    return None


def _is_label(column: Values, rows: int) -> bool:
    values = column.words if column.numbers is None else column.numbers.tolist()
    counts = Counter(values or [])
    return 2 <= len(counts) <= MOST_LABELS and max(counts.values()) <= COMMON * rows


def _is_text(words: list[str]) -> bool:
    return sum(len(cell.split()) > 3 for cell in words) > len(words) / 2


def _judge(text: Values, label: Values) -> Marker | None:
    labels = [str(v) for v in ((label.words if label.numbers is None else label.numbers.tolist()) or [])][:MOST]
    texts = [cell.lower().split() for cell in text.words or []][:MOST]
    usual, count = Counter(labels).most_common(1)[0]
    for position in range(POSITIONS):
        by_word: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for words, name in zip(texts, labels, strict=True):
            by_word[words[position] if len(words) > position else ""][name] += 1
        known = {w: counts for w, counts in by_word.items() if sum(counts.values()) >= FREQUENT}
        right = sum(max(counts.values()) if word in known else counts[usual] for word, counts in by_word.items())
        if right < REVEALS * len(labels):
            continue
        # Words that stand in the same texts (a phrase) give the label too: they are left out with the first one.
        marks = _marks(texts, known)
        rest = _naive_bayes([[word for word in words if word not in marks] for words in texts], labels)
        if right / len(labels) - rest >= BETTER:
            often = tuple(sorted(known, key=lambda word: -sum(known[word].values())))[:4]
            return Marker(text.name, label.name, often, right / len(labels), rest, count / len(labels))
    return None


def _marks(texts: list[list[str]], known: dict[str, Counter[str]]) -> set[str]:
    """The words at that place, and words that come only with them."""
    first = {word for word, counts in known.items() if max(counts.values()) > 0.9 * sum(counts.values())}
    together: Counter[str] = Counter()
    overall: Counter[str] = Counter()
    for words in texts:
        overall.update(set(words))
        if not first.isdisjoint(words[:POSITIONS]):
            together.update(set(words[:4]))
    return first | {word for word, count in together.items() if count >= FREQUENT and count > 0.9 * overall[word]}


def _naive_bayes(texts: list[list[str]], labels: list[str]) -> float:
    """Share of the labels of every other text that the others give."""
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    share = Counter(labels[::2])
    for words, name in zip(texts[::2], labels[::2], strict=True):
        counts[name].update(words)
    totals = {name: sum(counter.values()) + len(counter) + 1 for name, counter in counts.items()}
    right = 0
    for words, name in zip(texts[1::2], labels[1::2], strict=True):
        scores = {n: log(share[n]) + sum(log((counts[n][w] + 1) / totals[n]) for w in words) for n in share}
        right += max(scores, key=lambda n: scores[n]) == name
    return right / max(1, len(texts[1::2]))
