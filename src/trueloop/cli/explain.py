"""`trueloop explain RULE|WORD ...`, `trueloop explain --all [--output DIR]`: the pages of the rules. No torch."""

import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Final

from trueloop.cli.deliver import Delivery
from trueloop.cli.options import Parser
from trueloop.errors import Misuse, did_you_mean
from trueloop.finding import Severity
from trueloop.results.document import Code, Column, Document, Part, Table, Text
from trueloop.rules.catalogue import all_rules
from trueloop.rules.page_blocks import FAMILY, blocks, sentence
from trueloop.rules.rule import Rule

__all__ = ["explain", "index_page", "parser", "rule_page", "search", "write_pages"]

ABOUT: Final = "Show what a rule detects, why it matters, and what to write instead. Or search the rules by words."
STYLE: Final = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.ADVICE: "cyan"}
WIDEST: Final = 100  # Columns of prose, at most

_PAGE_NAME: Final = re.compile(r"[A-Z]{3}\d{3}\.md")

Line = list[tuple[str, str]]  # (text, style) after one another; the styles are for terminals


@dataclass(frozen=True, slots=True)
class Answer:
    """Rules to show, in groups: the page of a rule that is alone, a table of several."""

    groups: list[list[type[Rule]]]
    note: str = ""


def rule_page(rule: type[Rule]) -> str:
    """The page in Markdown."""
    lines = [f"# {rule.code} {rule.name}", "", f"**{rule.severity.word}**: {sentence(rule)}", ""]
    for heading, section in rule.page().sections.items():
        lines += [f"## {heading}", ""]
        for block in blocks(section):
            lines += [*_fenced(block.text), ""] if block.code else [block.text, ""]
    allow = _fenced(f"...  # trueloop: allow[{rule.name}]")
    lines += ["## Allow it", "", "If the finding is intended, accept it on its line:", "", *allow, ""]
    if rule.explained_by:
        causes = ", ".join(f"`{name}`" for name in rule.explained_by)
        lines += [f"Not reported if its cause is reported: {causes}.", ""]
    return "\n".join(lines)


def index_page(rules: Sequence[type[Rule]]) -> str:
    """Every rule in one table, by family."""
    source = "Written by `trueloop explain --all --output docs/rules` from the rules' own files; edit those."
    lines = ["# The rules", "", source, ""]
    for code, members in groupby(rules, key=lambda rule: rule.code[:3]):
        heading = f"## {code} {FAMILY.get(code, '')}".rstrip()
        lines += [heading, "", "| code | name | severity | what is wrong |", "|---|---|---|---|"]
        for rule in members:
            said = sentence(rule).replace("|", "\\|")
            lines.append(f"| [{rule.code}]({rule.code}.md) | `{rule.name}` | {rule.severity.word} | {said} |")
        lines.append("")
    return "\n".join(lines)


def _fenced(code: str) -> list[str]:
    return ["```python", code, "```"]


def parser() -> Parser:
    made = Parser("explain", ("RULE|WORD ... [options]", "--all [--output DIR]"), ABOUT)
    add = made.add_argument
    help = "GRD101, gradients-never-cleared, GRD; or words to search: softmax"
    add("words", nargs="*", metavar="RULE|WORD", help=help)
    add("--all", action="store_true", help="list every rule")
    made.add_report_options(quiet="")
    made.epilog = "--all --output DIR writes a Markdown page per rule, and an index, into this folder."
    return made


def explain(arguments: list[str]) -> int:
    options = parser().parse_all(arguments)
    if options.all and options.words:
        raise Misuse(f"Either --all or {' '.join(options.words)}, not both.")
    if options.all and options.format is None and (folders := [Path(name) for name in options.output if _is_dir(name)]):
        for folder in folders:
            print(f"{write_pages(folder)} pages in {folder}")
        return 0
    if not (options.all or options.words):
        words = "`trueloop explain GRD101`, `trueloop explain softmax`, or `trueloop explain --all`"
        raise Misuse(f"Which rule? Type {words}.")
    delivery = Delivery(options)
    answer = Answer([list(all_rules())]) if options.all else _answer(options.words)
    if delivery.in_terminal:
        _print(_lines(answer), color=delivery.color)
    else:
        texts = {"text": lambda: "\n".join(_plain_lines(_lines(answer)))}
        delivery.deliver_text(texts, lambda: _document(answer))
    return 0


def _is_dir(name: str) -> bool:
    return Path(name).is_dir() or not Path(name).suffix


def write_pages(folder: Path) -> int:
    """A page per rule, and an index; returns how many. Pages of rules that no longer exist are removed."""
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


# -- what to show --


def _answer(words: list[str]) -> Answer:
    """Each rule, or each family; otherwise the rules that mention all words."""
    named = [_named(word) for word in words]
    if all(named):
        return Answer(named)
    found = search(words)
    if not found:
        known = [each for rule in all_rules() for each in (rule.code, rule.name, *rule.name.split("-"))]
        near = did_you_mean(words[0], known) if len(words) == 1 else ""
        raise Misuse(f"No rule mentions {' and '.join(map(repr, words))}.{near} `trueloop explain --all` lists all.")
    count = f"{len(found)} rules mention {' and '.join(words)}. `trueloop explain CODE` shows a page."
    return Answer([found], count if len(found) > 1 else "")


def _named(word: str) -> list[type[Rule]]:
    """The rule with this code or name, or the rules of a family: GRD, GRD1."""
    exact = [rule for rule in all_rules() if word.upper() == rule.code or word == rule.name]
    return exact or [rule for rule in all_rules() if rule.code.startswith(word.upper())]


def search(words: Iterable[str]) -> list[type[Rule]]:
    """Rules whose pages have all the words, in any case; matches in the name or the first line come first."""
    wanted = [word.lower() for word in words]

    def ranked(rule: type[Rule]) -> int | None:
        title = f"{rule.code} {rule.name} {sentence(rule)}".lower()
        page = f"{title} {' '.join(rule.page().sections.values())}".lower()
        places = [rule.name, title, page]
        return next((rank for rank, text in enumerate(places) if all(word in text for word in wanted)), None)

    found = [(rank, rule.code, rule) for rule in all_rules() if (rank := ranked(rule)) is not None]
    return [rule for _, _, rule in sorted(found, key=lambda each: each[:2])]


# -- as text --


def _lines(answer: Answer) -> list[Line]:
    lines = [line for rules in answer.groups for line in (_page(rules[0]) if len(rules) == 1 else _table(rules))]
    return [*lines, [], [(answer.note, "")]] if answer.note else lines


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
    title = [(f"{rule.code} {rule.name}", "bold"), (f"  {rule.severity.word}", STYLE[rule.severity])]
    lines: list[Line] = [title, [(sentence(rule), "")], []]
    for heading, section in rule.page().sections.items():
        lines.append([(heading, "bold cyan")])
        for block in blocks(section):
            indent, style = ("    ", "green") if block.code else ("", "")
            lines += [[(indent + text, style)] for text in block.text.split("\n")]
        lines.append([])
    return [*lines, [("Allow it on a line:  ", ""), (f"# trueloop: allow[{rule.name}]", "green")], []]


def _print(lines: list[Line], *, color: bool) -> None:
    if not (sys.stdout.isatty() and color and not os.environ.get("NO_COLOR")):
        print("\n".join(_plain_lines(lines)))
        return
    from rich.console import Console  # a tenth of a second: only for terminals
    from rich.text import Text

    console = Console(highlight=False, emoji=False, markup=False)
    for line in lines:
        console.print(Text.assemble(*line), width=min(console.width, WIDEST) if len(line) == 1 else None)


def _plain_lines(lines: list[Line]) -> Iterator[str]:
    return ("".join(text for text, _ in line).rstrip() for line in lines)


# -- as a document --


def _document(answer: Answer) -> Document:
    parts = [part for rules in answer.groups for part in _parts(rules)]
    rules = [_plain_rule(rule) for group in answer.groups for rule in group]
    return Document("Rules of trueloop", tuple(parts), data={"rules": rules})


def _parts(rules: list[type[Rule]]) -> Iterator[Part]:
    if len(rules) > 1:
        columns = tuple(map(Column, ("code", "name", "severity", "what is wrong")))
        yield Table("", columns, tuple((rule.code, rule.name, rule.severity.word, sentence(rule)) for rule in rules))
        return
    [rule] = rules
    yield Text(sentence(rule), label=rule.severity.word, title=f"{rule.code} {rule.name}")
    for heading, section in rule.page().sections.items():
        for index, block in enumerate(blocks(section)):
            title = "" if index else heading
            yield Code(block.text, "python", title=title) if block.code else Text(block.text, title=title)
    yield Code(f"...  # trueloop: allow[{rule.name}]", "python", title="Allow it")


def _plain_rule(rule: type[Rule]) -> dict[str, object]:
    about = {"code": rule.code, "name": rule.name, "severity": rule.severity.word, "sentence": sentence(rule)}
    return {**about, "sections": dict(rule.page().sections), "explained_by": list(rule.explained_by)}
