"""The result of `probe` as a document: an item per claim that holds or could not be tested, a card per failed claim."""

from collections.abc import Iterator
from typing import Final

from trueloop.report.evidence import evidence_line
from trueloop.results.document import Card, Code, Document, Item, Items, Part, Tone
from trueloop.results.proof import Proof, Proofs

__all__ = ["document", "proof_part"]

TONE: Final[dict[str, Tone]] = {"holds": "good", "fails": "error", "unproved": "warning"}
WIDTH: Final = 32  # letters of the longest claim's name: live lines stay aligned


def document(made: Proofs) -> Document:
    worst = "fails" if made.of("fails") or made.failures else "holds" if made.of("holds") else "unproved"
    return Document(
        title=made.subject,
        parts=(*map(proof_part, made.proofs), *map(Code, made.failures)),
        tone=TONE[worst],
        closing=(f"{made.subject}: {made.closing()}",),
        lead=False,
        name=f"trueloop probe: {made.subject}",
    )


def proof_part(proof: Proof) -> Part:
    if proof.result == "fails":
        return Card(
            heading=proof.claim,
            message=proof.measured,
            tone="error",
            badge="fails",
            place=proof.place,
            rows=tuple((label, text) for label, text in _rows(proof) if text),
        )
    text = f"not tested: {proof.measured}" if proof.result == "unproved" else proof.measured
    return Items("", (Item(f"{proof.claim:<{WIDTH}}", text, TONE[proof.result]),), TONE[proof.result])


def _rows(proof: Proof) -> Iterator[tuple[str, str]]:
    yield "healthy", proof.healthy
    yield "evidence", evidence_line(proof.evidence)
    for number, cause in enumerate(proof.causes, 1):
        yield "causes" if number == 1 else "", f"{number}. {cause.what}: {cause.check}"
