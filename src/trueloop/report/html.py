"""The report as one HTML file that opens offline: no scripts, no fonts, nothing fetched; light or dark as the reader's
system is."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import escape
from typing import Final

from trueloop import __version__
from trueloop.event import Place
from trueloop.finding import Finding
from trueloop.report.evidence import as_words, lines_around, where
from trueloop.results.check import CrashExplanation, Verdict, counted
from trueloop.usercode.source import line_of

__all__ = ["PAGE", "STYLE", "TABLES", "document", "prose"]

TABLES: Final = """
table { border-collapse: collapse; width: 100%; font-size: .9rem; margin: .6rem 0; }
th { text-align: left; color: var(--soft); font-weight: 500; }
th, td { padding: .2rem .8rem .2rem 0; border-bottom: 1px solid var(--line); }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; }
svg { display: block; width: 100%; height: auto; margin: .6rem 0; } svg text { fill: var(--ink); font: 12px system-ui, sans-serif; }
"""
"""For pages of numbers, beside `STYLE`."""

STYLE: Final = """
:root { color-scheme: light dark; --paper: #fbfbfa; --card: #fff; --ink: #1d2125; --soft: #626a73; --line: #e3e4e2; --code: #f4f4f1;
  --error: #c2272d; --warning: #a86200; --advice: #1f6f94; --good: #21803f; --plus: #dff3e3; --minus: #fbe3e3; --here: #fff3cd; }
@media (prefers-color-scheme: dark) { :root { --paper: #15181b; --card: #1c2024; --ink: #e6e8ea; --soft: #98a1aa; --line: #30363c;
  --code: #14171a; --error: #ff7b7f; --warning: #f0b04d; --advice: #71bfe4; --good: #6fd08c;
  --plus: #153822; --minus: #43201f; --here: #3a3315; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
main { max-width: 56rem; margin: 0 auto; padding: 2.5rem 1.25rem 4rem; }
h1 { font-size: 1.6rem; margin: 0 0 .25rem; line-height: 1.25; }
h2 { font-size: 1.1rem; margin: 0; }
.soft { color: var(--soft); }
.facts { display: flex; flex-wrap: wrap; gap: .5rem; padding: 0; margin: 1.25rem 0; list-style: none; }
.facts li { background: var(--card); border: 1px solid var(--line); border-radius: .6rem; padding: .35rem .8rem; font-size: .9rem;
  color: var(--soft); }
.facts b { color: var(--ink); font-size: 1.05rem; margin-right: .3rem; }
article { background: var(--card); border: 1px solid var(--line); border-left: .3rem solid var(--tone); border-radius: .6rem;
  padding: 1.1rem 1.25rem; margin: 1.25rem 0; }
.error { --tone: var(--error); } .warning { --tone: var(--warning); } .advice { --tone: var(--advice); } .good { --tone: var(--good); }
.tone { color: var(--tone); }
header.finding { display: flex; flex-wrap: wrap; gap: .25rem .75rem; align-items: baseline; justify-content: space-between; }
.badge { color: var(--tone); font-size: .75rem; font-weight: 700; letter-spacing: .06em; text-transform: uppercase; margin-right: .4rem; }
code, pre { font: .86rem/1.5 ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; }
pre { background: var(--code); border: 1px solid var(--line); border-radius: .4rem; padding: .6rem 0; overflow-x: auto; margin: .8rem 0; }
pre span { display: block; padding: 0 .8rem; min-width: max-content; min-height: 1.5em; }
pre .number { display: inline-block; padding: 0; min-width: 3rem; color: var(--soft); user-select: none; }
.here { background: var(--here); } .plus { background: var(--plus); } .minus { background: var(--minus); }
.message { font-weight: 600; margin: .8rem 0; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .35rem 1rem; margin: .8rem 0 0; }
dt { color: var(--soft); } dd { margin: 0; overflow-wrap: anywhere; }
.chips { display: flex; flex-wrap: wrap; gap: .3rem .8rem; }
summary { cursor: pointer; color: var(--soft); }
footer { margin-top: 2.5rem; font-size: .85rem; color: var(--soft); }
"""

PAGE: Final = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<main>
{body}
</main>
</body>
</html>
"""


def document(verdict: Verdict) -> str:
    worst = verdict.worst()
    tone = "good" if worst is None else worst.word
    title = f"trueloop: {verdict.headline()}"
    body = "\n".join(_body(verdict, tone))
    return PAGE.format(title=escape(title), style=STYLE, body=body)


def _body(verdict: Verdict, tone: str) -> Iterator[str]:
    headline = verdict.headline()
    yield f'<h1 class="{tone}"><span class="tone">{escape(headline[:1].upper() + headline[1:])}</span></h1>'
    yield f'<p class="soft">in <code>{escape(verdict.watched.script)}</code></p>'
    yield f'<ul class="facts">{"".join(_facts(verdict))}</ul>'
    if sentence := verdict.outcome.sentence():
        yield f'<article class="{"error" if verdict.outcome.exit_code else "advice"}">{prose(sentence)}</article>'
    if verdict.failures:
        yield f'<article class="error">{prose(verdict.broken())}{_lines(verdict.failures)}</article>'
    yield from (f'<article class="warning">{prose(note)}</article>' for note in verdict.notes)
    if verdict.crash is not None:
        yield "\n".join(_crash(verdict.crash))
    for finding in verdict.findings:
        yield "\n".join(_finding(finding))
    if verdict.not_judged:
        yield _not_judged(verdict)
    yield f"<footer>{escape(verdict.closing())}.<br>Written by trueloop {escape(__version__)}.</footer>"


def _facts(verdict: Verdict) -> Iterator[str]:
    watched = verdict.watched
    facts = {
        "steps": watched.steps,
        "batches": watched.batches,
        "epochs": watched.epochs,
        "rules judged": watched.rules,
    }
    if verdict.allowed:
        facts["allowed"] = verdict.allowed
    yield from (f"<li><b>{number:,}</b>{name}</li>" for name, number in facts.items())
    if verdict.overhead is not None:
        yield f"<li><b>{verdict.overhead:.1%}</b>spent watching</li>"
    yield from (f"<li><b>{escape(model)}</b>model</li>" for model in watched.models)


def _finding(finding: Finding) -> Iterator[str]:
    severity = finding.severity.word
    yield f'<article class="{severity}">'
    yield f'<header class="finding"><h2><span class="badge">{severity}</span>{escape(finding.code)} {escape(finding.name)}</h2>'
    yield f"<code>{escape(where(finding.place))}</code></header>"
    yield from _stated(finding.place, finding.source, finding.message)
    yield "<dl>"
    yield from (
        f"<dt>{name}</dt><dd>{prose(text)}</dd>" for name, text in (("Why", finding.why), ("Fix", finding.fix)) if text
    )
    if evidence := as_words(finding.evidence):
        chips = "".join(
            f'<span><span class="soft">{escape(name)}</span> <code>{escape(text)}</code></span>'
            for name, text in evidence.items()
        )
        yield f'<dt>Evidence</dt><dd class="chips">{chips}</dd>'
    yield f"<dt>Seen</dt><dd>first at step {finding.first_step:,}, {counted(finding.count, 'time')}</dd></dl>"
    yield from _diff(finding.diff)
    yield "</article>"


def _crash(crash: CrashExplanation) -> Iterator[str]:
    yield '<article class="error"><header class="finding"><h2>What the crash means</h2>'
    yield f"<code>{escape(where(crash.place))}</code></header>"
    yield from _stated(crash.place, line_of(crash.place), crash.message)
    rows = [
        *(("Because" if index == 0 else "", detail) for index, detail in enumerate(crash.details)),
        ("Fix", crash.fix),
    ]
    yield f"<dl>{''.join(f'<dt>{label}</dt><dd>{prose(text)}</dd>' for label, text in rows if text)}</dl>"
    yield from _diff(crash.diff)
    yield "</article>"


def _stated(place: Place | None, source: str, message: str) -> Iterator[str]:
    if lines := "".join(_source(place, source)):
        yield f"<pre>{lines}</pre>"
    yield f'<p class="message">{prose(message)}</p>'


def _source(place: Place | None, source: str) -> Iterator[str]:
    for number, text in lines_around(place, source, 2):
        here = ' class="here"' if place is not None and number == place.line else ""
        yield f'<span{here}><span class="number">{number}</span>{escape(text)}</span>'


def _diff(diff: str) -> Iterator[str]:
    kinds = {"+": "plus", "-": "minus"}
    lines = [
        (line, "soft" if line.startswith(("---", "+++", "@@")) else kinds.get(line[:1], ""))
        for line in diff.splitlines()
    ]
    if lines:
        yield "<pre>" + "".join(f'<span class="{kind}">{escape(line)}</span>' for line, kind in lines) + "</pre>"


def _not_judged(verdict: Verdict) -> str:
    rows = "".join(
        f"<dt><code>{escape(codes)}</code></dt><dd>{escape(because)}</dd>"
        for because, codes in verdict.reasons().items()
    )
    return f"<details><summary>{counted(len(verdict.not_judged), 'rule')} had nothing to judge</summary><dl>{rows}</dl></details>"


def _lines(texts: tuple[str, ...]) -> str:
    return "".join(f"<pre><span>{escape(text)}</span></pre>" for text in texts)


def prose(text: str) -> str:
    """Escaped, with `code` shown as code."""
    return re.sub(r"`([^`\n]+)`", r"<code>\1</code>", escape(text))
