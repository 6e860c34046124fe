"""Ignores warnings for a while, and leaves those of the script as they are."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["without_warnings"]


@contextmanager
def without_warnings(category: type[Warning] = Warning) -> Iterator[None]:
    """Not by `catch_warnings`: after it Python forgets which warnings the script has shown, and shows them again."""
    filters: list[Any] = warnings.filters  # type: ignore[assignment]
    before = filters[:]
    filters.insert(0, ("ignore", None, category, None, 0))
    try:
        yield
    finally:
        filters[:] = before
