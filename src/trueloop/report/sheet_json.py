"""A sheet as strict JSON, for programs: rows as objects, pictures by their sizes and captions."""

from __future__ import annotations

import json
import math
from typing import Any, Final

from trueloop.results.document import Bars, Facts, Part, Picture, Sheet, Table

__all__ = ["document"]

VERSION: Final = 1
"""Raised when a key changes its meaning or goes away."""


def document(sheet: Sheet) -> str:
    whole = {
        "version": VERSION,
        "title": sheet.title,
        "parts": [_part(part) for part in sheet.parts],
        "notes": list(sheet.notes),
    }
    return json.dumps(_plain(whole), indent=2, allow_nan=False) + "\n"


def _part(part: Part) -> dict[str, Any]:
    match part:
        case Facts():
            return {"kind": "facts", "title": part.title, "values": dict(part.values)}
        case Table():
            names = [column.name for column in part.columns]
            rows = [dict(zip(names, row, strict=True)) for row in part.rows]
            return {"kind": "table", "title": part.title, "rows": rows, "note": part.note}
        case Bars():
            counted = [{"label": label, "count": count} for label, count in zip(part.labels, part.counts, strict=True)]
            return {"kind": "bars", "title": part.title, "bars": counted}
        case Picture():
            tiles = [{"width": tile.width, "height": tile.height, "caption": tile.caption} for tile in part.tiles]
            return {"kind": "picture", "title": part.title, "tiles": tiles}


def _plain(value: Any) -> Any:
    """JSON has no nan and no inf: they are written as words."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)
