"""A plan as JSON: every way with its numbers, each with whether it was computed, measured or assumed."""

from __future__ import annotations

import json
from typing import Final

from trueloop.report.evidence import as_json
from trueloop.results.plan import Plan

__all__ = ["document"]

VERSION: Final = 1
"""Raised when a key changes its meaning or goes away."""


def document(plan: Plan) -> str:
    best = plan.recommended
    told = None if best is None else {"way": best.way.name, "how": best.way.how, "speedup": best.speedup.value}
    return (
        json.dumps(as_json({"version": VERSION, **plan.plain(), "recommended": told}), indent=2, allow_nan=False) + "\n"
    )
