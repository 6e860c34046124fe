"""Proofs as one HTML file that opens offline: no scripts, no fonts, nothing fetched."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import Final

from trueloop import __version__
from trueloop.report.evidence import as_words, where
from trueloop.report.html import PAGE, STYLE, prose
from trueloop.results.proof import Proof, Proofs

__all__ = ["document"]

TONE: Final = {"holds": "good", "fails": "error", "unproved": "warning"}
SIGN: Final = {"holds": "holds", "fails": "fails", "unproved": "not proved"}


def document(made: Proofs) -> str:
    return PAGE.format(title=escape(f"trueloop probe: {made.subject}"), style=STYLE, body="\n".join(_body(made)))


def _body(made: Proofs) -> Iterator[str]:
    tone = "error" if made.of("fails") or made.failures else "good" if made.of("holds") else "warning"
    yield f'<h1 class="{tone}"><span class="tone">{escape(made.subject)}</span></h1>'
    yield f'<p class="soft">{escape(made.closing())}</p>'
    yield from (f'<article class="error"><pre>{escape(failure)}</pre></article>' for failure in made.failures)
    for result in ("fails", "unproved", "holds"):
        yield from ("\n".join(_proof(proof)) for proof in made.proofs if proof.result == result)
    yield f"<footer>Written by trueloop {escape(__version__)}.</footer>"


def _proof(proof: Proof) -> Iterator[str]:
    yield f'<article class="{TONE[proof.result]}" id="{escape(proof.claim)}">'
    yield f'<header class="finding"><h2><span class="badge">{SIGN[proof.result]}</span>{escape(proof.claim)}</h2>'
    yield f"<code>{escape(where(proof.place))}</code></header>"
    yield f'<p class="message">{prose(proof.measured)}</p><dl><dt>Healthy</dt><dd>{prose(proof.healthy)}</dd>'
    if evidence := as_words(proof.evidence):
        chips = (
            f'<span><span class="soft">{escape(name)}</span> <code>{escape(text)}</code></span>'
            for name, text in evidence.items()
        )
        yield f'<dt>Evidence</dt><dd class="chips">{"".join(chips)}</dd>'
    if proof.causes:
        causes = (
            f'<li>{prose(cause.what)}<br><span class="soft">{prose(cause.check)}</span></li>' for cause in proof.causes
        )
        yield f"<dt>Likely causes</dt><dd><ol>{''.join(causes)}</ol></dd>"
    yield f"<dt>Took</dt><dd>{proof.seconds:.1f} s</dd></dl></article>"
