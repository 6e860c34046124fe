"""`trueloop compare RUN RUN ...`: what differs between runs, and from which step on. No torch is imported."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from trueloop.cli.deliver import Delivery
from trueloop.cli.options import Parser
from trueloop.cli.runs import table
from trueloop.errors import Misuse
from trueloop.report.units import duration, number
from trueloop.results.document import Code, Column, Document, Item, Items, Table, Text
from trueloop.results.plain import as_plain
from trueloop.session.comparison import Comparison, compared
from trueloop.session.folder import find_run
from trueloop.session.verdict import verdict_of

__all__ = ["compare", "parser"]


def parser() -> Parser:
    about = "Show what differs between runs: recipe or arguments, machine, results, and the first loss that differs."
    made = Parser("compare", "RUN RUN ... [options]", about)
    made.add_argument("words", nargs="*", metavar="RUN", help="the folder of a run, or its name in the folder of runs")
    made.add_argument("--runs", metavar="FOLDER", type=Path, default=Path("runs"), help="the folder of runs")
    made.add_report_options(quiet="")
    return made


def compare(arguments: list[str]) -> int:
    options = parser().parse_all(arguments)
    if len(options.words) < 2:
        raise Misuse("Which runs? Name two or more: `trueloop compare runs/A runs/B`; `trueloop runs` lists them.")
    paths = [find_run(word, options.runs) for word in options.words]
    if len({path.resolve() for path in paths}) < len(paths):
        raise Misuse("The same run is named twice. Nothing was compared: name each run once.")
    comparison = compared(paths)
    writers = {"text": partial(_text, comparison), "json": partial(_json, comparison)}
    Delivery(options).deliver_text(writers, partial(_document, comparison))
    return 0


# -- words --


def _sections(comparison: Comparison) -> list[tuple[str, list[list[str]], str]]:
    """(heading, rows of cells, what to say where there are none)."""
    recipe, machine, results = map(_rows, (comparison.recipe, comparison.machine, comparison.results))
    kinds = {run.kind for run in comparison.runs}
    asked = {"train": "recipe", "check": "script"}[kinds.pop()] if len(kinds) == 1 else "recipe or script"
    return [(asked, recipe, "the same"), ("machine", machine, "the same"), ("result", results, "nothing yet")]


def _rows(values: Mapping[str, tuple[Any, ...]]) -> list[list[str]]:
    names = {"seconds": "time"}
    return [[names.get(name, name), *(_shown(name, value) for value in each)] for name, each in values.items()]


def _shown(name: str, value: Any) -> str:
    if value is None:
        return "-"
    if name == "seconds":
        return duration(value)
    if name in ("steps", "samples per second", "findings"):
        return f"{value:,.0f}"
    if name.startswith(("best ", "test ", "last ")):
        return number(value)
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _sentences(comparison: Comparison) -> list[str]:
    """Which is better, by how much against the noise; and from which step on the losses differ."""
    verdict = verdict_of(comparison.runs)
    known = [text for text in (verdict.text, verdict.advice, verdict.method) if text]
    return known + [each.sentence(comparison.labels[0]) for each in comparison.partings]


# -- formats --


def _text(comparison: Comparison) -> str:
    cells = [["", *comparison.labels]]
    for heading, rows, none in _sections(comparison):
        cells.append([heading, *[none if not rows and index == 0 else "" for index in range(len(comparison.runs))]])
        cells += [[f"  {row[0]}", *row[1:]] for row in rows]
    code = [f"\n{name}\n{diff.rstrip()}" for name, diff in comparison.code.items()]
    return "\n".join([*table(cells), "", *_sentences(comparison), *code])


def _document(comparison: Comparison) -> Document:
    heads = tuple(map(Column, ("", *comparison.labels)))
    sections = [(heading.capitalize(), tuple(map(tuple, rows)), none) for heading, rows, none in _sections(comparison)]
    parts = [Table(head, heads, rows) if rows else Text(none, title=head) for head, rows, none in sections]
    losses = Items("Verdict", tuple(Item("", sentence) for sentence in _sentences(comparison)))
    code = [Code(diff, "diff", name) for name, diff in comparison.code.items()]
    return Document(f"Compare {', '.join(comparison.labels)}", (*parts, losses, *code))


def _json(comparison: Comparison) -> str:
    """Values stand in lists, in the order of the runs."""
    losses = [
        {**asdict(each), "first": comparison.labels[0], "equal": each.compared > 0 and each.step is None}
        for each in comparison.partings
    ]
    named = zip(comparison.labels, comparison.runs, strict=True)
    runs = [{"name": name, "path": run.path} for name, run in named]
    sides = {name: getattr(comparison, name) for name in ("recipe", "machine", "code", "results")}
    verdict = asdict(verdict_of(comparison.runs))
    return json.dumps(as_plain({"version": 1, "runs": runs, **sides, "losses": losses, "verdict": verdict}), indent=2)
