"""Failed claims as SARIF 2.1.0: each is a result, as a rule's finding is."""

from __future__ import annotations

from trueloop.proof import Proofs
from trueloop.report import sarif

__all__ = ["document"]


def document(made: Proofs) -> str:
    return sarif.document(made.verdict())
