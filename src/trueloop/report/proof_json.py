"""Proofs as one JSON document, for programs. Version 1 is a promise: keys may be added, never renamed or removed."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Final

from trueloop.report.evidence import as_json
from trueloop.results.proof import Proof, Proofs
from trueloop.usercode.source import shown_path

__all__ = ["document"]

VERSION: Final = 1
"""Raised when a key changes its meaning or goes away."""


def document(made: Proofs) -> str:
    whole = {
        "version": VERSION,
        "subject": made.subject,
        "proofs": [_proof(proof) for proof in made.proofs],
        "holds": len(made.of("holds")),
        "fails": len(made.of("fails")),
        "unproved": len(made.of("unproved")),
        "left_out": made.left_out,
        "failures": made.failures,
        "script_exit_code": made.script_code,
    }
    return json.dumps(as_json(whole), indent=2, allow_nan=False) + "\n"


def _proof(proof: Proof) -> dict[str, object]:
    place = proof.place
    at = {"path": shown_path(place.path) if place else None, "line": place.line if place else None}
    return {**asdict(proof), **at, "place": None if place is None else f"{at['path']}:{place.line}"}
