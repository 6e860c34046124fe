"""A result as one JSON document, for programs: its own data, not the document that people read.

Version 1 is a promise: keys may be added, never renamed or removed.
"""

import json
from collections.abc import Mapping
from typing import Any, Final, Protocol

from trueloop.results.plain import as_plain

__all__ = ["Result", "render"]

VERSION: Final = 1  # raised when a key changes its meaning or is removed


class Result(Protocol):
    """What every verb returns."""

    def plain(self) -> Mapping[str, Any]:
        """Its data by name; values may be anything that `as_plain` takes."""


def render(result: Result) -> str:
    return json.dumps(as_plain({"version": VERSION, **result.plain()}), indent=2, allow_nan=False) + "\n"
