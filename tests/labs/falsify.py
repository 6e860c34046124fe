"""Can a sentence of an answer be wrong at all? Single numbers of a measurement are changed until it is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

from trueloop.labs.lab import Lab, Page

__all__ = ["never_contradicted"]


def never_contradicted(lab: Lab[Any], measured: Any) -> list[str]:
    """Sentences that hold whatever is measured: they say nothing."""
    open_ones = list(range(len(_sentences(lab, measured) or ())))
    for changed in _changed(measured):
        found = _sentences(lab, changed)
        if found is not None and len(found) > max(open_ones, default=-1):
            open_ones = [at for at in open_ones if found[at].holds]
        if not open_ones:
            return []
    page = _sentences(lab, measured) or []
    return [page[at].text for at in open_ones]


def _sentences(lab: Lab[Any], measured: Any) -> list[Any] | None:
    page = Page()
    try:
        lab.answer(page, measured)
    except (ArithmeticError, ValueError, KeyError, IndexError, TypeError, AttributeError, StopIteration):
        return None  # a value that cannot be measured
    return page.sentences


def _changed(value: Any) -> Iterator[Any]:
    """The value with one leaf changed, each leaf in turn."""
    if is_dataclass(value) and not isinstance(value, type):
        for each in fields(value):
            yield from (replace(value, **{each.name: other}) for other in _changed(getattr(value, each.name)))
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from ({**value, key: other} for other in _changed(inner))
            alike = [other for other in value.values() if type(other) is type(inner)]
            yield from ({**value, key: other} for other in alike)  # what was measured elsewhere
        yield {}
    elif isinstance(value, (list, tuple)):
        make = type(value) if type(value) in (list, tuple) else lambda items: type(value)(*items)
        for at, inner in enumerate(value):
            yield from (make([*value[:at], other, *value[at + 1 :]]) for other in _changed(inner))
        yield from (
            (make([]), make([*value, *value]), make(list(reversed(value)))) if type(value) in (list, tuple) else ()
        )
    elif isinstance(value, bool):
        yield not value
    elif isinstance(value, (int, float)):
        yield from (
            type(value)(other)
            for other in (0, -1, value + 1, value * 2, value / 2, float(f"{value:.0e}"), 10**12, -(10**12))
        )
        yield from (1e-12, 0.5, 1e30) if isinstance(value, float) else ()
    elif isinstance(value, str):
        yield from ("", "something else")
