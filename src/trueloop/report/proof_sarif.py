"""Failed claims as SARIF 2.1.0: each is a result, as a rule's finding is."""

from __future__ import annotations

from trueloop.report import sarif
from trueloop.results.proof import Proofs

__all__ = ["document"]


def document(made: Proofs) -> str:
    return sarif.document(made.verdict())
