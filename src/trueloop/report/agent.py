"""Findings for a coding agent: one compact document that fits its context and names the next command.

At most `LONGEST` characters, whatever was found: 4,000 tokens at three characters each, which is less than tokenizers
need for English and Python. What is left out is counted, with the command that shows all of it.
"""

import re
import shlex
from collections.abc import Iterable, Iterator
from typing import Final

from trueloop.finding import Finding
from trueloop.report.evidence import evidence_line, where
from trueloop.results.check import CrashExplanation, Verdict, counted
from trueloop.results.proof import Proofs

__all__ = ["LONGEST", "render"]

LONGEST: Final = 12_000  # characters
FINDINGS, STEP, UNSEEN, OWN, NOTES = 4_800, 1_600, 1_200, 600, 600  # characters of each part, at most
TEXT: Final = 400  # of one sentence
DIFF: Final = 1_200  # of one patch


def render(result: Verdict | Proofs) -> str:
    verdict = result.verdict() if isinstance(result, Proofs) else result
    script = " ".join(verdict.watched.script.split())
    parts = [
        [f"# trueloop: {verdict.headline()} in {_cut(script)}", *(_cut(line) for line in verdict.closing_lines())],
        [*_crash(verdict.crash), *filter(None, [_cut(verdict.outcome.sentence())])],
        _within(NOTES, "note", (f"- {_cut(note)}" for note in verdict.notes), "## Notes"),
        _within(FINDINGS, "finding", map(_finding, verdict.findings), "## Findings"),
        _within(STEP, "line", verdict.step_summary, "## One training step, as recorded"),
        _within(UNSEEN, "reason", _not_visible(verdict), "## Not visible in this run"),
        ["## trueloop itself failed", *(_cut(failure, OWN) for failure in verdict.failures[:1])]
        * bool(verdict.failures),
        ["## Next command", *_next(verdict, shlex.quote(script))],
    ]
    return "\n\n".join("\n".join(part) for part in parts if part) + "\n"


def _finding(finding: Finding) -> str:
    return "\n".join(_lines(finding))


def _lines(finding: Finding) -> Iterator[str]:
    yield f"- {finding.severity.word} {finding.code} {finding.name} {where(finding.place)}".rstrip()
    if finding.source.strip():
        yield f"  line: {_cut(finding.source)}"
    yield f"  what: {_cut(finding.message)}"
    yield f"  fix: {_cut(finding.fix)}"
    yield f"  seen: first at step {finding.first_step:,}, {counted(finding.count, 'time')}"
    if evidence := evidence_line(finding.evidence):
        yield f"  evidence: {_cut(evidence)}"
    if 0 < len(finding.diff) <= DIFF:
        yield from ("  ```diff", *finding.diff.rstrip("\n").splitlines(), "  ```")


def _crash(crash: CrashExplanation | None) -> Iterator[str]:
    if crash is None:
        return
    yield f"## What the crash means: {where(crash.place)}"
    yield _cut(crash.message)
    yield from (_cut(detail) for detail in crash.details[:2])
    yield f"fix: {_cut(crash.fix)}"


def _not_visible(verdict: Verdict) -> Iterator[str]:
    if verdict.watched.unwatched_steps:
        yield f"- {counted(verdict.watched.unwatched_steps, 'step')} not watched, to stay within the budget"
    yield from (f"- {_cut(because)}: {codes} not applied" for because, codes in verdict.reasons().items())


def _next(verdict: Verdict, script: str) -> Iterator[str]:
    """One command, and why."""
    codes = [finding.code for finding in verdict.findings if re.fullmatch(r"[A-Z]{3}\d+", finding.code)]
    if verdict.failures:
        yield f"trueloop check --format json {script}    # has the complete traceback, for a bug report"
    elif verdict.outcome.reason == "exception":
        yield f"trueloop check --format agent {script}    # after the exception is fixed"
    elif any(finding.diff for finding in verdict.findings):
        yield f"trueloop fix --unsafe {script}    # writes the patches above, and checks again"
    elif codes:
        yield f"trueloop explain {codes[0]}    # what to write instead; then check again"
    elif verdict.findings:
        yield "fix the first finding, then run the same command again"
    elif not verdict.watched.anything and not verdict.summary:
        yield "trueloop check --format agent SCRIPT    # with the script that trains: this one called no model"
    else:
        yield f"trueloop probe {script}    # nothing known was found: test claims about the training"


def _within(limit: int, word: str, lines: Iterable[str], heading: str) -> list[str]:
    """The heading and as many lines as fit; the rest is counted."""
    waiting, kept, used = list(lines), [], 0
    while waiting and used + len(waiting[0]) + 1 <= limit:
        kept.append(waiting.pop(0))
        used += len(kept[-1]) + 1
    if waiting:
        kept.append(f"({counted(len(waiting), f'more {word}')}: --format json has all)")
    return [heading, *kept] if kept else []


def _cut(text: str, longest: int = TEXT) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= longest else flat[: longest - 1] + "…"
