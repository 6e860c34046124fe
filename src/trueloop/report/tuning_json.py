"""A tuning as JSON: every trial with its numbers, the winner's values, the proofs."""

from __future__ import annotations

import json
from typing import Final

from trueloop.report.evidence import as_json
from trueloop.results.tune import Tuning, front, words_of

__all__ = ["document"]

VERSION: Final = 1
"""Raised when a key changes its meaning or goes away."""


def document(tuning: Tuning) -> str:
    best = tuning.best
    whole = {
        "version": VERSION,
        **tuning.plain(),
        "chosen": {"changes": dict(best.changes), "words": words_of(best.changes), "speed": best.speed},
        "front": [trial.number for trial in front(tuning.trials)],
    }
    return json.dumps(as_json(whole), indent=2, allow_nan=False) + "\n"
