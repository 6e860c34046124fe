"""Failed claims as GitHub workflow commands: each becomes an annotation, on its line where it has one."""

from __future__ import annotations

from trueloop.proof import Proofs
from trueloop.report import github

__all__ = ["document"]


def document(made: Proofs) -> str:
    return github.document(made.verdict())
