"""Proofs as a person reads them: a line each, as they come; where one fails, what is healthy and the likely causes
below it."""

from __future__ import annotations

import io
from typing import Final, TextIO, final

from trueloop.report.evidence import as_words, where
from trueloop.report.ink import block, console_for, line, prose
from trueloop.results.proof import Proof, Proofs

__all__ = ["Teller", "document"]

SIGN: Final = {"holds": ("✓", "bold green"), "fails": ("✗", "bold red"), "unproved": ("?", "yellow")}
WIDTH: Final = 35
"""Columns for the sign and a claim's name, of which the longest has 31."""


@final
class Teller:
    """Tells of each proof as soon as it is made."""

    def __init__(self, to: TextIO, *, colour: bool) -> None:
        self._console = console_for(to, colour=colour)

    def tell(self, proof: Proof) -> None:
        sign, style = SIGN[proof.result]
        measured = f"not proved: {proof.measured}" if proof.result == "unproved" else proof.measured
        prose(
            self._console,
            measured,
            label=f"{sign} {proof.claim}",
            width=WIDTH,
            style="" if proof.result != "unproved" else "dim",
            label_style=style,
        )
        if proof.result == "fails":
            self._explain(proof)

    def close(self, made: Proofs) -> None:
        """The closing line, and what broke of our own."""
        for failure in made.failures:
            block(self._console, failure, lambda _: "dim")
        worst = "fails" if made.of("fails") or made.failures else "holds" if made.of("holds") else "unproved"
        sign, style = SIGN[worst]
        prose(self._console, f"{sign} {made.subject}: {made.closing()}", style=style)

    def _explain(self, proof: Proof) -> None:
        if proof.place is not None:
            prose(self._console, where(proof.place), label="at", indent=2, style="cyan underline")
        prose(self._console, proof.healthy, label="healthy", indent=2)
        if evidence := as_words(proof.evidence):
            prose(
                self._console,
                " · ".join(f"{name}: {text}" for name, text in evidence.items()),
                label="evidence",
                indent=2,
            )
        for number, cause in enumerate(proof.causes, 1):
            prose(self._console, f"{number}. {cause.what}", label="causes" if number == 1 else " ", indent=2)
            prose(self._console, cause.check, label=" ", indent=5, style="dim")
        line(self._console)


def document(made: Proofs) -> str:
    """The same as plain text."""
    text = io.StringIO()
    teller = Teller(text, colour=False)
    for proof in made.proofs:
        teller.tell(proof)
    teller.close(made)
    return text.getvalue()
