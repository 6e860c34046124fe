"""The note as one JSON document, for programs. Version 1 is a promise: keys may be added, never renamed or removed."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Final

from trueloop.report.evidence import as_json
from trueloop.results.readiness import Readiness

__all__ = ["document"]

VERSION: Final = 1
"""Raised when a key changes its meaning or goes away."""


def document(made: Readiness) -> str:
    whole = {
        "version": VERSION,
        "subject": made.subject,
        "verdict": made.verdict,
        "statements": [asdict(each) for each in made.statements],
    }
    return json.dumps(as_json(whole), indent=2, allow_nan=False) + "\n"
