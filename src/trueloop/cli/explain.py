"""`trueloop explain RULE`, `trueloop explain --all [--output DIR]`: the pages of the rules. No torch is loaded."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from trueloop.cli.options import Parser
from trueloop.cli.pages import blocks, index_page, rule_page, sentence
from trueloop.errors import Misuse
from trueloop.finding import Severity
from trueloop.rules.catalogue import all_rules, find_rule
from trueloop.rules.rule import Rule

__all__ = ["explain", "write_pages"]

USAGE: Final = "RULE ...\n       trueloop explain --all [--output DIR]"
STYLE: Final = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.ADVICE: "cyan"}
WIDEST: Final = 100
"""Columns that prose is folded to at most."""

_PAGE_NAME: Final = re.compile(r"[A-Z]{3}\d{3}\.md")

Line = list[tuple[str, str]]
"""(text, style) after one another; the styles are for terminals."""


def explain(arguments: list[str]) -> int:
    parser = Parser("explain", USAGE, "Show what a rule sees, why it hurts, and what to write instead.")
    parser.add_argument(
        "rules",
        nargs="*",
        metavar="RULE",
        help="a code, a name, or the start of codes: GRD101, gradients-never-cleared, GRD",
    )
    parser.add_argument("--all", action="store_true", help="list every rule")
    parser.add_argument(
        "--output", metavar="DIR", type=Path, help="with --all: write a Markdown page per rule, and an index"
    )
    parser.add_argument("--no-color", action="store_true", help="no colours; the variable NO_COLOR does the same")
    asked = parser.parse_all(arguments)
    if asked.output is not None and not asked.all:
        raise Misuse("--output writes the pages of all rules: add --all. Nothing was written.")
    if asked.all and asked.rules:
        raise Misuse(f"Either --all or {' '.join(asked.rules)}, not both.")
    if asked.output is not None:
        print(f"{write_pages(asked.output)} pages in {asked.output}")
        return 0
    if not (asked.all or asked.rules):
        raise Misuse("Which rule? Type `trueloop explain GRD101`, or `trueloop explain --all` for the list.")
    shown = _table(all_rules()) if asked.all else [line for word in asked.rules for line in _about(word)]
    _print(shown, colour=not asked.no_color)
    return 0


def write_pages(folder: Path) -> int:
    """A page per rule, and an index; how many there are. Pages of rules that are gone are removed."""
    pages = {f"{rule.code}.md": rule_page(rule) for rule in all_rules()} | {"index.md": index_page(all_rules())}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for file in folder.glob("*.md"):
            if _PAGE_NAME.fullmatch(file.name) and file.name not in pages:
                file.unlink()
        for name, text in pages.items():
            (folder / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise Misuse(f"{folder} cannot be written ({error.strerror}). Choose another folder for --output.") from None
    return len(pages)


def _about(word: str) -> list[Line]:
    """The page of a rule, or the list of a family."""
    family = [rule for rule in all_rules() if rule.code.startswith(word.upper()) and rule.code != word.upper()]
    return _table(family) if family else _page(find_rule(word))


def _table(rules: Iterable[type[Rule]]) -> list[Line]:
    rules = list(rules)
    width = max(len(rule.name) for rule in rules)
    return [
        [
            (f"{rule.code}  ", "bold"),
            (f"{rule.name:<{width}}  ", ""),
            (f"{rule.severity.word:<7}  ", STYLE[rule.severity]),
            (sentence(rule), "dim"),
        ]
        for rule in rules
    ]


def _page(rule: type[Rule]) -> list[Line]:
    lines: list[Line] = [
        [(f"{rule.code} {rule.name}", "bold"), (f"  {rule.severity.word}", STYLE[rule.severity])],
        [(sentence(rule), "")],
        [],
    ]
    for heading, section in rule.page().sections.items():
        lines.append([(heading, "bold cyan")])
        for block in blocks(section):
            indent, style = ("    ", "green") if block.code else ("", "")
            lines += [[(indent + text, style)] for text in block.text.split("\n")]
        lines.append([])
    return [*lines, [("Allow it on a line:  ", ""), (f"# trueloop: allow[{rule.name}]", "green")], []]


def _print(lines: list[Line], *, colour: bool) -> None:
    if not (sys.stdout.isatty() and colour and not os.environ.get("NO_COLOR")):
        print("\n".join("".join(text for text, _ in line).rstrip() for line in lines))
        return
    from rich.console import Console  # a tenth of a second: only for who can see it
    from rich.text import Text

    console = Console(highlight=False, emoji=False, markup=False)
    for line in lines:
        console.print(Text.assemble(*line), width=min(console.width, WIDEST) if len(line) == 1 else None)
