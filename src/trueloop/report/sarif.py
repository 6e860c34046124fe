"""Findings as SARIF 2.1.0, which code hosts and editors read: of `check`, and the failed claims of `probe`."""

import json
import os
from collections.abc import Iterator
from pathlib import Path, PurePath
from typing import Any, Final
from urllib.parse import quote

from trueloop import __version__
from trueloop.event import Place
from trueloop.finding import Finding, Severity, rule_page
from trueloop.report.patch import Change, changes_of
from trueloop.results.check import Verdict
from trueloop.results.plain import as_plain
from trueloop.results.proof import Proofs
from trueloop.usercode.fingerprint import fingerprints
from trueloop.usercode.notebook import notebook_of
from trueloop.usercode.source import full_path, line_of, lines_on_disk, shown_path, shown_place

__all__ = ["render"]

SCHEMA: Final = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
LEVEL: Final = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.ADVICE: "note"}
FINGERPRINT: Final = "trueloop/v1"  # Its version rises when the same finding gets a different fingerprint
ROOT: Final = "SRCROOT"  # Names the working directory: paths below it are relative, so a report can be read elsewhere


def render(result: Verdict | Proofs) -> str:
    verdict = result.verdict() if isinstance(result, Proofs) else result
    rules = {finding.code: finding for finding in verdict.findings}
    pages = not isinstance(result, Proofs)  # claims have none
    order = {code: index for index, code in enumerate(rules)}
    driver = {"name": "trueloop", "version": __version__, "rules": [_rule(f, pages) for f in rules.values()]}
    run = {
        "tool": {"driver": driver},
        "invocations": [_invocation(verdict)],
        "originalUriBaseIds": {ROOT: {"uri": Path(full_path("")).absolute().as_uri() + "/"}},
        "columnKind": "unicodeCodePoints",
        "results": [
            _result(finding, order[finding.code], name)
            for finding, name in zip(verdict.findings, fingerprints(verdict.findings), strict=True)
        ],
        "properties": as_plain({"summary": verdict.closing(), "overhead": verdict.overhead}),
    }
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2, allow_nan=False) + "\n"


def _rule(finding: Finding, page: bool) -> dict[str, Any]:
    more = f"`trueloop explain {finding.code}` prints the full page."
    return {
        "id": finding.code,
        "name": finding.name,
        "shortDescription": {"text": finding.name.replace("-", " ")},
        "fullDescription": {"text": finding.why or finding.name},
        "help": {"text": f"{finding.why}\n\n{more}"},
        **({"helpUri": rule_page(finding.code)} if page else {}),
        "defaultConfiguration": {"level": LEVEL[finding.severity]},
    }


def _result(finding: Finding, index: int, name: str) -> dict[str, Any]:
    result: dict[str, Any] = {
        "ruleId": finding.code,
        "ruleIndex": index,
        "level": LEVEL[finding.severity],
        "message": {"text": f"{_cell(finding.place)}{finding.message}\nFix: {finding.fix}"},
        "occurrenceCount": max(1, finding.count),
        "partialFingerprints": {FINGERPRINT: name},
        "properties": as_plain({"first_step": finding.first_step, "evidence": finding.evidence, "diff": finding.diff}),
    }
    if finding.place is not None:
        result["locations"] = [_location(finding.place, finding.source)]
    if finding.diff:
        files = changes_of(finding.diff)
        result["fixes"] = [{"description": {"text": finding.fix}, "artifactChanges": [_file(*each) for each in files]}]
    return result


def _file(name: str, changes: list[Change]) -> dict[str, Any]:
    """What a fix changes in one file."""
    path = full_path(name)
    lines = lines_on_disk(path)
    return {"artifactLocation": _artifact(path), "replacements": [_replacement(change, lines) for change in changes]}


def _replacement(change: Change, lines: list[str]) -> dict[str, Any]:
    """Whole lines, up to the start of the next one; the last line of a file has no next one."""
    region = {"startLine": change.first + 1, "startColumn": 1, "endLine": change.last + 1, "endColumn": 1}
    if change.first < change.last == len(lines):
        region |= {"endLine": change.last, "endColumn": len(lines[-1]) + 1}
    return {"deletedRegion": region, "insertedContent": {"text": "".join(change.lines)}}


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
