"""Which of a few orders fits: two things that belong together, in the order that is used and in others.

A statistic says how well they fit in an order. Random orders say what chance gives; a fit is counted in standard
deviations from it. An order is wrong only if it fits no better than chance, and another order of a small family, each
of which somebody makes by mistake, fits far better than chance ever does.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

import numpy
from numpy.typing import NDArray

__all__ = [
    "CHANCE",
    "FITS",
    "Alignment",
    "Order",
    "Statistic",
    "better_order",
    "natural_key",
    "orders_of_keys",
    "orders_of_rows",
    "spread",
]

RANDOM_ORDERS: Final = 40
CHANCE: Final = 3.0  # standard deviations: the order that is used tells nothing
FITS: Final = 8.0  # with the deviation from 40 random orders, p < 1e-6 for hundreds of tries
FARTHEST: Final = 4  # rows of special tokens before the others

Order = NDArray[numpy.int64]  # thing n belongs to row order[n]
Statistic = Callable[[Order], float]


class Alignment(NamedTuple):
    order: str  # the one that fits
    used: float  # standard deviations from chance
    fits: float
    statistic: int  # which of them


def better_order(
    statistics: Sequence[Statistic], used: Sequence[Order], others: Mapping[str, Order]
) -> Alignment | None:
    """The order that fits, if none of the orders that may be in use does by any statistic."""
    best: Alignment | None = None
    for index, statistic in enumerate(statistics):
        middle, deviation = spread(statistic, len(used[0]))
        if not deviation:
            continue
        here = max((statistic(order) - middle) / deviation for order in used)
        if here >= CHANCE:
            return None
        for name, order in others.items():
            fits = (statistic(order) - middle) / deviation
            if fits >= FITS and (best is None or fits > best.fits):
                best = Alignment(name, here, fits, index)
    return best


def spread(statistic: Statistic, rows: int) -> tuple[float, float]:
    """Mean and standard deviation of a statistic over random orders."""
    generator = numpy.random.default_rng(0)
    values = [statistic(generator.permutation(rows)) for _ in range(RANDOM_ORDERS)]
    middle, deviation = float(numpy.mean(values)), float(numpy.std(values))
    return middle, deviation if deviation > 1e-9 * (1 + abs(middle)) else 0.0


def orders_of_rows(rows: int) -> dict[str, Order]:
    """Orders that need no names: reversed, moved by a few rows, row numbers (from 0 or from 1) sorted as text."""
    numbers = numpy.arange(rows)
    found: dict[str, Order] = {}
    for first, shown in ((0, "0, 1, 10, 100, ..."), (1, "1, 10, 100, ...")):
        as_text = _ranks([str(number + first) for number in range(rows)])
        found[f"in text order of their numbers ({shown})"] = as_text
        counted = " from 1" if first else ""
        found[f"in numeric order of numbers{counted} that are sorted as text"] = numpy.argsort(as_text)
    moved = {f"moved by {by:+d}": numpy.roll(numbers, -by) for by in range(-FARTHEST, FARTHEST + 1) if by}
    return {
        **moved,
        "in reversed order": numbers[::-1].copy(),
        **found,
    }


def text_orders(rows: int) -> dict[str, Order]:
    """Row numbers sorted as text, counted from 0 or from 1, in both directions."""
    found: dict[str, Order] = {}
    for first in (0, 1):
        ranks = _ranks([str(number + first) for number in range(rows)])
        shown = ("0, 1, 10, 100, ...", "1, 10, 100, ...")[first]
        found[f"the inputs in text order of their numbers ({shown})"] = numpy.argsort(ranks)
        found[f"the targets in text order of their numbers ({shown})"] = ranks
    return found


def orders_of_keys(name: str, keys: Sequence[str]) -> dict[str, Order]:
    """Rows that are sorted by keys, as text or by the numbers in them, if no key comes twice."""
    if len(set(keys)) < len(keys):
        return {}
    text, natural, folded = _ranks(keys), _ranks([natural_key(key) for key in keys]), _ranks([k.lower() for k in keys])
    found = {f"sorted by {name} as text": text}
    if not numpy.array_equal(text, natural):
        found[f"sorted by the number in {name}"] = natural
    if not numpy.array_equal(text, folded):
        found[f"sorted by {name} without regard to case"] = folded
    return {label: order for label, order in found.items() if not numpy.array_equal(order, numpy.arange(len(keys)))}


def natural_key(key: str) -> tuple[tuple[int, int | str], ...]:
    """Of tile_10: after tile_2."""
    return tuple((0, int(part)) if part.isdigit() else (1, part) for part in re.split(r"(\d+)", key) if part)


def _ranks(keys: Sequence[object]) -> Order:
    """The place of each key in the sorted list."""
    by_key = sorted(range(len(keys)), key=lambda index: keys[index])  # type: ignore[arg-type,return-value]
    ranks = numpy.empty(len(keys), dtype=numpy.int64)
    ranks[by_key] = numpy.arange(len(keys))
    return ranks
