"""Every entry of torch_private/ has a test and says since which torch it is there."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

from trueloop import torch_private

ROOM = Path(torch_private.__file__).parent
TOPICS = sorted(file.stem for file in ROOM.glob("*.py") if file.stem != "__init__")
SINCE = re.compile(r"\b2\.\d+\+")


@cache
def _entries_in_tests() -> frozenset[str]:
    """`topic.name` for each entry that a test imports, takes from the imported module, or names for `getattr`."""
    found: set[str] = set()
    for file in Path(__file__).parent.glob("test_*.py"):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        whole = set()  # modules that are imported as a whole
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(torch_private.__name__):
                topic = (node.module or "").removeprefix(torch_private.__name__).lstrip(".")
                found |= {f"{topic}.{alias.name}" for alias in node.names if topic}
                whole |= {alias.name for alias in node.names if not topic}
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in whole:
                found.add(f"{node.value.id}.{node.attr}")
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found |= {f"{topic}.{node.value}" for topic in whole}
    return frozenset(found)


@pytest.mark.parametrize("topic", TOPICS)
def test_every_entry_has_a_test(topic: str) -> None:
    names = import_module(f"{torch_private.__name__}.{topic}").__all__
    untested = [name for name in names if f"{topic}.{name}" not in _entries_in_tests()]
    assert not untested, f"torch_private/{topic}.py: no test in tests/torch_private/ uses {untested}"


def _words_on(text: str, name: str) -> Iterator[str]:
    """What a file says about an entry: its own lines with the docstring below, and the comments that name it."""
    tree, lines = ast.parse(text), text.splitlines()
    for node, below in zip(tree.body, [*tree.body[1:], None], strict=True):
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        names = {inner.id for each in targets if each for inner in ast.walk(each) if isinstance(inner, ast.Name)}
        if name in names or getattr(node, "name", "") == name:
            last = below if isinstance(below, ast.Expr) else node
            yield "\n".join(lines[node.lineno - 1 : last.end_lineno])
    for comment in re.findall(r"(?:^#.*\n)+", text, re.M):
        if re.search(rf"\b{name}\b", comment):
            yield comment


@pytest.mark.parametrize("topic", TOPICS)
def test_every_entry_says_since_which_torch_it_is_there(topic: str) -> None:
    text = (ROOM / f"{topic}.py").read_text(encoding="utf-8")
    if re.search(r"\bAll 2\.\d+\+", ast.get_docstring(ast.parse(text)) or ""):
        return
    names = import_module(f"{torch_private.__name__}.{topic}").__all__
    silent = [name for name in names if not any(SINCE.search(words) for words in _words_on(text, name))]
    assert not silent, f"torch_private/{topic}.py does not say since which torch {silent} are there"
