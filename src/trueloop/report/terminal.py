"""The report as a person reads it, in a terminal."""

from __future__ import annotations

import sys

from trueloop.verdict import Verdict

__all__ = ["print_verdict"]


def print_verdict(verdict: Verdict) -> None:
    for f in verdict.findings:
        where = f"{f.place.path}:{f.place.line}" if f.place else "-"
        print(
            f"{f.severity.word} {f.code} {f.name} {where}\n    {f.source.strip()}\n  {f.message}\n  fix: {f.fix}\n{f.diff}", file=sys.stderr
        )
    print(verdict.watched, verdict.not_judged, verdict.overhead, file=sys.stderr)
    for failure in verdict.failures:
        print(failure, file=sys.stderr)
