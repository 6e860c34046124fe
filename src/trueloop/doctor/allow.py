"""`# trueloop: allow[gradients-never-cleared]` on the line of a finding, or alone on the line above it."""

from __future__ import annotations

import linecache
import re
from typing import Final

from trueloop.finding import Finding

__all__ = ["is_allowed"]

_COMMENT: Final = re.compile(r"#\s*trueloop:\s*allow\[([^\]]*)\]")


def is_allowed(finding: Finding) -> bool:
    """Did the user say, at this place, that it is meant?"""
    place = finding.place
    if place is None:
        return False
    above = linecache.getline(place.path, place.line - 1).strip() if place.line > 1 else ""
    words = _allowed_on(linecache.getline(place.path, place.line))
    if above.startswith("#"):
        words |= _allowed_on(above)
    return finding.name in words or finding.code in words


def _allowed_on(line: str) -> set[str]:
    return {word.strip() for match in _COMMENT.finditer(line) for word in match.group(1).split(",")}
