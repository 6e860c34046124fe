"""The page of a rule, taken apart: one sentence, and blocks of prose and code. The terminal, Markdown and the local
page of `trueloop ui` show the same blocks."""

import re
from collections.abc import Iterator
from itertools import groupby
from textwrap import dedent
from typing import Final, NamedTuple

from trueloop.rules.rule import Rule

__all__ = ["FAMILY", "Block", "blocks", "sentence"]

_CODES: Final = "CKP checkpoint, DAT data, GRD gradient, LOS loss, MDL model, MOD mode, OPT optimizer, PAR parallel"
FAMILY: Final = dict(pair.split() for pair in f"{_CODES}, PRC precision, SPD speed".split(", "))
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
