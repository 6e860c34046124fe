"""Proofs as Markdown, for a pull request's comment or a job's summary: a table, and a section for each claim that
fails."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from trueloop.report.evidence import as_words, where
from trueloop.report.markdown import fenced, plain, span
from trueloop.results.proof import Proof, Proofs

__all__ = ["document"]

SIGN: Final = {"holds": "✅", "fails": "❌", "unproved": "❔"}


def document(made: Proofs) -> str:
    worst = "❌" if made.of("fails") or made.failures else "✅" if made.of("holds") else "❔"
    lines = [
        f"# {worst} trueloop probe: {plain(made.subject)}",
        "",
        f"{made.closing()}.",
        "",
        "| | claim | measured |",
        "|---|---|---|",
    ]
    lines += [f"| {SIGN[proof.result]} | {proof.claim} | {_measured(proof)} |" for proof in made.proofs]
    lines.append("")
    for proof in made.of("fails"):
        lines += _section(proof)
    for failure in made.failures:
        lines += [*fenced(failure, "text"), ""]
    return "\n".join(lines).rstrip("\n") + "\n"


def _measured(proof: Proof) -> str:
    return plain(f"not proved: {proof.measured}" if proof.result == "unproved" else proof.measured)


def _section(proof: Proof) -> Iterator[str]:
    yield f"## ❌ {proof.claim}"
    yield ""
    if proof.place is not None:
        yield f"{span(where(proof.place))}"
        yield ""
    yield f"**{plain(proof.measured)}**"
    yield ""
    yield f"- **Healthy:** {plain(proof.healthy)}"
    if evidence := as_words(proof.evidence):
        yield "- **Evidence:** " + "; ".join(f"{plain(name)}: {span(text)}" for name, text in evidence.items())
    yield "- **Likely causes, the likeliest first:**"
    yield from (
        f"  {number}. {plain(cause.what)} ({plain(cause.check)})" for number, cause in enumerate(proof.causes, 1)
    )
    yield ""
