"""How results are shown: every result of a verb becomes one document, and one renderer per format writes documents.

    from trueloop.report import FORMATS, FINDINGS_FORMATS, print_report, render

    text = render(result, "html")                           # str, ends with a newline; for --format and --output
    text = render(verdict, "text", verbose=True)            # `check`: evidence, source lines, diff, why it hurts
    print_report(result, to=sys.stderr, color=True)         # a terminal: colors, folded to its width

`result` is what a verb returns: `Verdict`, `Proofs`, `Readiness`, `Profile`, `Tuning`, `Plan`, `Bench`,
`Quantization`, or a ready `Document` (inspect). `FORMATS` work for every result; `sarif` and `github` (in
`FINDINGS_FORMATS`) list findings, so they take a `Verdict` or `Proofs` only. `diff` takes a `Verdict`: the patch of all
findings. `json` is the result's own data, not the document.

A new verb costs one converter: `results/VERB.py` defines the result, `report/from_VERB.py` has
`document(result) -> Document`. No torch here.
"""

from __future__ import annotations

import io
from importlib import import_module
from typing import Any, Final, TextIO

__all__ = ["FINDINGS_FORMATS", "FORMATS", "print_report", "render"]

FORMATS: Final = ("text", "json", "html", "markdown")
FINDINGS_FORMATS: Final = (*FORMATS, "sarif", "github")

_PREFIX: Final = {
    "Verdict": "", "Proofs": "proof_", "Readiness": "readiness_", "Profile": "profile_", "Tuning": "tuning_",
    "Plan": "plan_", "Bench": "bench_", "Quantization": "quantize_", "Sheet": "sheet_",
}  # fmt: skip
_PRINT: Final = {
    "Verdict": "verdict", "Readiness": "readiness", "Profile": "profile", "Tuning": "tuning", "Plan": "plan",
    "Bench": "bench", "Quantization": "quantization", "Sheet": "sheet",
}  # fmt: skip


def render(result: Any, format: str = "text", *, verbose: bool = False) -> str:
    """The report as one string in one of the formats."""
    kind = type(result).__name__
    if format == "text" and kind in ("Bench", "Quantization"):
        text = io.StringIO()
        print_report(result, to=text, color=False)
        return text.getvalue()
    name = {"text": "terminal", "diff": "patch"}.get(format, format)
    written: str = import_module(f"trueloop.report.{_PREFIX[kind]}{name}").document(result)
    return written


def print_report(result: Any, *, to: TextIO, color: bool = True, verbose: bool = False) -> None:
    """The text report, colored and folded where `to` is a terminal."""
    kind = type(result).__name__
    module = import_module(f"trueloop.report.{_PREFIX[kind]}terminal")
    if kind in ("Bench", "Quantization"):
        getattr(module, f"print_{_PRINT[kind]}")(result, to)
    else:
        getattr(module, f"print_{_PRINT[kind]}")(result, to=to, colour=color)
