"""How results are shown: every result of a verb becomes one document, and one renderer per format writes documents.

    from trueloop.report import FINDINGS_FORMATS, FORMATS, Live, print_report, render

    text = render(result, "html")                           # str, ends with a newline; for --format and --output
    text = render(verdict, "text", verbose=True)            # `check`: evidence, source lines, diff, why it hurts
    print_report(result, to=sys.stderr, color=True)         # a terminal: colors, folded to its width

`result` is what a verb returns: `Verdict`, `Proofs`, `Readiness`, `Profile`, `Tuning`, `Plan`, `Bench`,
`Quantization`, or a ready `Document` (inspect). `FORMATS` work for every result; `sarif`, `github` and `agent`
(in `FINDINGS_FORMATS`) list findings, so they take a `Verdict` or `Proofs` only. `diff` takes a `Verdict`: the patch of
all findings. `json` is the result's own data, not the document. `Live` prints single parts while a verb is at work.

A new verb costs one converter: `results/VERB.py` defines the result with `plain() -> Mapping`, and
`report/from_VERB.py` has `document(result) -> Document`. No torch here.
"""

from importlib import import_module
from typing import Any, Final, TextIO

from trueloop.report.terminal import Live
from trueloop.results.document import Document

__all__ = ["FINDINGS_FORMATS", "FORMATS", "Live", "document_of", "print_report", "render"]

FORMATS: Final = ("text", "json", "html", "markdown")
FINDINGS_FORMATS: Final = (*FORMATS, "sarif", "github", "agent")

_RENDERERS: Final = {"text": "terminal", "diff": "patch"}


def render(result: Any, format: str = "text", *, verbose: bool = False) -> str:
    """The report as one string. `verbose`: the text of `check` with evidence, source lines, diffs and reasons."""
    module = import_module(f"trueloop.report.{_RENDERERS.get(format, format)}")
    shown = result if format in ("json", "sarif", "github", "agent", "diff") else document_of(result)
    made: str = module.render(shown, **({"verbose": verbose} if format == "text" else {}))
    return made


def print_report(result: Any, *, to: TextIO, color: bool = True, verbose: bool = False) -> None:
    """The text report, colored and folded where `to` is a terminal."""
    from trueloop.report.terminal import print_document

    print_document(document_of(result), to=to, color=color, verbose=verbose)


def document_of(result: Any) -> Document:
    """A result of `results/VERB.py`, converted by `report/from_VERB.py`."""
    if isinstance(result, Document):
        return result
    verb = type(result).__module__.rpartition(".")[2]
    made: Document = import_module(f"trueloop.report.from_{verb}").document(result)
    return made
