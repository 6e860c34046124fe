"""Failed claims as GitHub workflow commands: each becomes an annotation, on its line where it has one."""

from __future__ import annotations

from trueloop.report import github
from trueloop.results.proof import Proofs

__all__ = ["document"]


def document(made: Proofs) -> str:
    return github.document(made.verdict())
