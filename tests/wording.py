"""Phrases that nobody in this field would search for, and what to write instead.

    python -m tests.wording [PATH ...]

prints every place in string literals and docstrings of Python files, and in the prose of Markdown files.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

__all__ = ["FORBIDDEN", "Place", "places"]

FORBIDDEN: Final[dict[str, str]] = {
    r"\b(that )?(is|are|was|were|be) no numbers?\b|\bno number\b": "NaN or Inf; non-finite",
    r"\bthe same bits\b|\bbit for bit\b": "bit-identical",
    r"\bother predictions\b": "different predictions",
    r"\b(is|are|was|were|be|been) (told(?! apart)|said)\b|\btells? of\b": "reported, printed, listed",
    r"\b(goes|went|gone|going) on\b|\bgo on (with|from|to)\b": "continues, resumes",
    r"\bstands? still\b|\bstood still\b": "hangs, makes no progress",
    r"\b(is|are|was|were|be) (still )?whole\b|\bwhole (checkpoint|file)s?\b": "valid, complete",
    r"\bso many (processes|samples|steps|batches|threads|workers|epochs)\b": "number of ...",
    r"\bwhat would run\b": "files that execute code when loaded",
    r"\bwho would wait\b": "requests that would wait",
    r"\bmend(ed|ing|s)?\b": "fixed",
    r"\brubbish\b": "malformed input",
    r"\bartefacts?\b": "artifact",
    r"(?<!`)(?<![Tt]here )\b(is|are) none\b(?!`)": "is not a valid ...",
    r"\blengths? of (the|a|its|their|one) gradients?\b|\bgradient's length\b": "gradient norm",
    r"\bby hand\b": "manually; in your own loop",
    r"\bjudg(e|ed|es|ing)\b": "check, checked",
    r"\bcannot be set so\b": "unknown recipe field",
    r"\bwhat stands there\b|\bstands there\b": "say what it is",
    r"\breckon(ed|s|ing)?\b": "computed, estimated",
    r"(?<![Tt]here )(?<![Tt]hat )\b(is|are) no (?!longer|more|less|larger|smaller|better|worse|different|match|need)[a-z]+\b": "is not a ...",  # noqa: E501
    r"\banew\b": "again",
    r"\bspelt\b": "written",
    r"\b(colour|behaviour|neighbour|favour)\w*": "American spelling",
    r"\b(initialis|normalis|optimis|serialis|quantis|summaris|recognis|organis)(e|es|ed|ing|ation|er)\b": "American spelling",  # noqa: E501
    r"\bthose that\b": "name the noun",
    r"\bone of ours\b|\bof ours\b": "trueloop's",
    r"\bthe first one that differs\b": "the first difference",
    r"\bsamples that occur in two splits\b": "duplicates across splits",
    r"\bhad nothing to\b": "not applicable",
    r"\bevery run of this script is another one\b": "no seed is set, so every run gives different results",
    r"\banother one\b": "a different one, a second one",
    r"\bnot known\b": "unknown, not tested",
    r"\bwithout a word\b": "silently",
}
"""Pattern -> the field's own words."""

_COMPILED: Final = [(re.compile(pattern), better) for pattern, better in FORBIDDEN.items()]


class Place(NamedTuple):
    path: Path
    line: int
    phrase: str
    better: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.phrase!r} -> {self.better}"


def places(path: Path) -> Iterator[Place]:
    """Every forbidden phrase of one file."""
    text = path.read_text(encoding="utf-8")
    for line, words in _strings(text) if path.suffix == ".py" else _prose(text):
        for pattern, better in _COMPILED:
            for found in pattern.finditer(words):
                yield Place(path, line + words.count("\n", 0, found.start()), found.group(), better)


def _strings(text: str) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield node.lineno, node.value


def _prose(text: str) -> Iterator[tuple[int, str]]:
    """Lines outside fenced code."""
    fenced = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif not fenced:
            yield number, line


if __name__ == "__main__":
    roots = [Path(word) for word in sys.argv[1:]] or [Path("src/trueloop"), Path("README.md"), Path("docs")]
    files = [file for root in roots for file in ([root] if root.is_file() else sorted(root.rglob("*")))]
    found = [place for file in files if file.suffix in (".py", ".md") for place in places(file)]
    print(*found, f"{len(found)} places", sep="\n")
