"""The pages under tests/rules: prose with scripts that run, which are the tests of a rule.

A script is a fenced block of python under a heading that starts with 'Broken' or 'Healthy'. In a broken one, each line
that must be reported ends in `# error: [rule-name]` (several names: `[a, b]`). Everything else must stay silent, for
every rule. A fence
```python cuda holds a script that needs a CUDA device: `tests/gpu/test_pages.py` runs it there, elsewhere it is only
compiled.
```python ranks=2 holds one that runs on two ranks at once, and `ends=hung` or `ends=exception` says that it does not
come to its end.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.conftest import Checked, check_script

__all__ = ["EXAMPLES", "HANG_AFTER", "PAGES", "Example", "checked", "examples"]

FOLDER = Path(__file__).parent / "rules"
PAGES = sorted(FOLDER.glob("*/*.md"))

HANG_AFTER = 1.0
"""Seconds, on these pages, after which ranks that wait for one another are said to hang."""

_MARK = re.compile(r"#\s*error:\s*\[([^\]]+)\]")


@dataclass(frozen=True)
class Example:
    page: str
    """gradient/gradients_never_cleared"""
    rule: str
    """gradients-never-cleared"""
    title: str
    broken: bool
    text: str
    cuda: bool = False
    """It needs a CUDA device."""
    ranks: int = 1
    """It runs on so many ranks at once."""
    ends: str = "finished"
    """How the rank that tells has ended; several ways, with `|` between them, where that depends on who comes first."""

    def expected(self) -> set[tuple[str, int]]:
        """(rule name, line) that must be reported."""
        return {
            (name.strip(), number)
            for number, line in enumerate(self.text.splitlines(), 1)
            for match in _MARK.finditer(line)
            for name in match.group(1).split(",")
        }

    @property
    def name(self) -> str:
        return f"{self.page}: {self.title}"


def examples(page: Path) -> list[Example]:
    found: list[Example] = []
    title = ""
    fence: list[str] | None = None
    words: list[str] = []
    for line in page.read_text(encoding="utf-8").splitlines():
        if fence is None and line.startswith("#"):
            title = line.lstrip("# ").strip()
        elif fence is None and line.startswith("```python"):
            fence, words = [], line.split()[1:]
            if {word.partition("=")[0] for word in words} - {"cuda", "ranks", "ends"}:
                raise ValueError(f"{page}: the fence {line!r} says what nobody reads")
        elif fence is not None and line.strip() == "```":
            broken = title.lower().startswith("broken")
            if not broken and not title.lower().startswith("healthy"):
                raise ValueError(f"{page}: the heading {title!r} says neither Broken nor Healthy")
            text = "\n".join(fence) + "\n"
            name = f"{page.parent.name}/{page.stem}"
            said = dict(word.split("=") for word in words if "=" in word)
            found.append(
                Example(
                    page=name,
                    rule=page.stem.replace("_", "-"),
                    title=title,
                    broken=broken,
                    text=text,
                    cuda="cuda" in words,
                    ranks=int(said.get("ranks", "1")),
                    ends=said.get("ends", "finished"),
                )
            )
            fence = None
        elif fence is not None:
            fence.append(line)
    return found


EXAMPLES = [example for page in PAGES for example in examples(page)]


@cache
def checked(example: Example) -> Checked:
    """What is said of a script as it stands; it runs once for all tests of a process."""
    if example.cuda:
        compile(example.text, example.name, "exec")
        pytest.skip("needs a CUDA device: run `make gpu-test` on a machine that has one")
    with TemporaryDirectory() as folder:
        return check_script(Path(folder), example.text, ranks=example.ranks, hang_after=HANG_AFTER)
