"""The page of a rule, read from its file's docstring: as Markdown for docs/rules, as blocks for the terminal."""

import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from textwrap import dedent
from typing import Final, NamedTuple

from trueloop.rules.rule import Rule

__all__ = ["Block", "blocks", "index_page", "rule_page", "sentence"]

FAMILY: Final = {
    "CKP": "checkpoint",
    "DAT": "data",
    "GRD": "gradient",
    "LOS": "loss",
    "MDL": "model",
    "MOD": "mode",
    "OPT": "optimizer",
    "PAR": "parallel",
    "PRC": "precision",
    "SPD": "speed",
}
"""How a code begins -> what its rules are about."""

_ITEM: Final = re.compile(r"^(?=- )", re.MULTILINE)


class Block(NamedTuple):
    """A paragraph, an item of a list, or lines of code."""

    code: bool
    text: str


def sentence(rule: type[Rule]) -> str:
    """What is wrong, in one sentence: the first line of the page behind the name."""
    said = rule.page().title.partition(": ")[2]
    return said[:1].upper() + said[1:]


def blocks(section: str) -> Iterator[Block]:
    """A section of a page, taken apart: what is indented is code, the rest is prose whose lines belong together."""
    lines = section.strip("\n").splitlines()
    paragraphs = [list(group) for filled, group in groupby(lines, key=lambda line: bool(line.strip())) if filled]
    merged: list[Block] = []
    for paragraph in paragraphs:
        for code, group in groupby(paragraph, key=lambda line: line.startswith("    ")):
            text = "\n".join(group)
            if code and merged and merged[-1].code:
                merged[-1] = Block(True, f"{merged[-1].text}\n\n{text}")
            elif code:
                merged.append(Block(True, text))
            else:
                merged += [Block(False, " ".join(item.split())) for item in _ITEM.split(text) if item.strip()]
    yield from (Block(block.code, dedent(block.text)) for block in merged)


def rule_page(rule: type[Rule]) -> str:
    """The page in Markdown."""
    lines = [f"# {rule.code} {rule.name}", "", f"**{rule.severity.word}**: {sentence(rule)}", ""]
    for heading, section in rule.page().sections.items():
        lines += [f"## {heading}", ""]
        for block in blocks(section):
            lines += [*_fenced(block.text), ""] if block.code else [block.text, ""]
    lines += [
        "## Allow it",
        "",
        "Where it is meant, say so on the line:",
        "",
        *_fenced(f"...  # trueloop: allow[{rule.name}]"),
        "",
    ]
    if rule.explained_by:
        causes = ", ".join(f"`{name}`" for name in rule.explained_by)
        lines += [f"It stays quiet where one of its causes has been found: {causes}.", ""]
    return "\n".join(lines)


def index_page(rules: Sequence[type[Rule]]) -> str:
    """Every rule in one table, by family."""
    lines = [
        "# The rules",
        "",
        "Written by `trueloop explain --all --output docs/rules` from the rules' own files; edit those.",
        "",
    ]
    for code, members in groupby(rules, key=lambda rule: rule.code[:3]):
        lines += [
            f"## {code} {FAMILY.get(code, '')}".rstrip(),
            "",
            "| code | name | severity | what is wrong |",
            "|---|---|---|---|",
        ]
        for rule in members:
            said = sentence(rule).replace("|", "\\|")
            lines.append(f"| [{rule.code}]({rule.code}.md) | `{rule.name}` | {rule.severity.word} | {said} |")
        lines.append("")
    return "\n".join(lines)


def _fenced(code: str) -> list[str]:
    return ["```python", code, "```"]
