"""Findings as SARIF 2.1.0, which code hosts and editors read: of `check`, and the failed claims of `probe`."""

import json
import os
from collections.abc import Iterator
from pathlib import Path, PurePath
from typing import Any, Final
from urllib.parse import quote

from trueloop import __version__
from trueloop.event import Place
from trueloop.finding import Finding, Severity
from trueloop.results.check import Verdict
from trueloop.results.plain import as_plain
from trueloop.results.proof import Proofs
from trueloop.usercode.notebook import notebook_of
from trueloop.usercode.source import full_path, line_of, shown_path, shown_place

__all__ = ["render"]

SCHEMA: Final = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
LEVEL: Final = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.ADVICE: "note"}
ROOT: Final = "SRCROOT"  # Names the working directory: paths below it are relative, so a report can be read elsewhere


def render(result: Verdict | Proofs) -> str:
    verdict = result.verdict() if isinstance(result, Proofs) else result
    rules = {finding.code: finding for finding in verdict.findings}
    order = {code: index for index, code in enumerate(rules)}
    run = {
        "tool": {"driver": {"name": "trueloop", "version": __version__, "rules": list(map(_rule, rules.values()))}},
        "invocations": [_invocation(verdict)],
        "originalUriBaseIds": {ROOT: {"uri": Path(full_path("")).absolute().as_uri() + "/"}},
        "columnKind": "unicodeCodePoints",
        "results": [_result(finding, order[finding.code]) for finding in verdict.findings],
        "properties": as_plain({"summary": verdict.closing(), "overhead": verdict.overhead}),
    }
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2, allow_nan=False) + "\n"


def _rule(finding: Finding) -> dict[str, Any]:
    more = f"`trueloop explain {finding.code}` prints the full page."
    return {
        "id": finding.code,
        "name": finding.name,
        "shortDescription": {"text": finding.name.replace("-", " ")},
        "fullDescription": {"text": finding.why or finding.name},
        "help": {"text": f"{finding.why}\n\n{more}"},
        "defaultConfiguration": {"level": LEVEL[finding.severity]},
    }


def _result(finding: Finding, index: int) -> dict[str, Any]:
    result: dict[str, Any] = {
        "ruleId": finding.code,
        "ruleIndex": index,
        "level": LEVEL[finding.severity],
        "message": {"text": f"{_cell(finding.place)}{finding.message}\nFix: {finding.fix}"},
        "occurrenceCount": max(1, finding.count),
        "properties": as_plain({"first_step": finding.first_step, "evidence": finding.evidence, "diff": finding.diff}),
    }
    if finding.place is not None:
        result["locations"] = [_location(finding.place, finding.source)]
    return result


def _location(place: Place, source: str) -> dict[str, Any]:
    if notebook := notebook_of(place.path):  # the lines of the file are those of its JSON
        named = [{"fullyQualifiedName": shown_place(place), "kind": "module"}]
        return {"physicalLocation": {"artifactLocation": _artifact(notebook)}, "logicalLocations": named}
    region: dict[str, Any] = {"startLine": max(1, place.line)}
    if source:
        region["snippet"] = {"text": source}
    return {"physicalLocation": {"artifactLocation": _artifact(place.path), "region": region}}


def _cell(place: Place | None) -> str:
    return f"{shown_place(place)}: " if place is not None and notebook_of(place.path) else ""


def _artifact(path: str) -> dict[str, Any]:
    shown = PurePath(shown_path(path))
    if shown.is_absolute():
        return {"uri": shown.as_uri()}
    return {"uri": quote(os.fsencode(shown.as_posix())), "uriBaseId": ROOT}


def _notifications(verdict: Verdict) -> Iterator[dict[str, Any]]:
    yield from ({"level": "error", "message": {"text": failure}} for failure in verdict.failures)
    yield from ({"level": "warning", "message": {"text": note}} for note in verdict.notes)
    if (crash := verdict.crash) is not None:
        text = "\n".join([crash.message, *crash.details, f"Fix: {crash.fix}"])
        located = {"locations": [_location(crash.place, line_of(crash.place))]} if crash.place else {}
        yield {"level": "error", "message": {"text": text}, **located}


def _invocation(verdict: Verdict) -> dict[str, Any]:
    """Did the run and the watching succeed? Findings do not count here."""
    failed = verdict.outcome.reason in ("exception", "interrupted") or verdict.outcome.exit_code != 0
    invocation: dict[str, Any] = {
        "executionSuccessful": not (failed or verdict.failures),
        "exitCode": verdict.outcome.exit_code,
        "toolExecutionNotifications": list(_notifications(verdict)),
    }
    if sentence := verdict.outcome.sentence():
        invocation["exitCodeDescription"] = sentence
    return invocation
