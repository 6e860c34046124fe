"""The pages under tests/rules: prose with scripts that run, which are the tests of a rule.

A script is a fenced block of python under a heading that starts with 'Broken' or 'Healthy'. In a broken one, each line that must be
reported ends in `# error: [rule-name]` (several names: `[a, b]`). Everything else must stay silent, for every rule.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.conftest import Checked, check_script

__all__ = ["EXAMPLES", "PAGES", "Example", "checked", "examples"]

FOLDER = Path(__file__).parent / "rules"
PAGES = sorted(FOLDER.glob("*/*.md"))

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
    for line in page.read_text(encoding="utf-8").splitlines():
        if fence is None and line.startswith("#"):
            title = line.lstrip("# ").strip()
        elif fence is None and line.strip() == "```python":
            fence = []
        elif fence is not None and line.strip() == "```":
            broken = title.lower().startswith("broken")
            if not broken and not title.lower().startswith("healthy"):
                raise ValueError(f"{page}: the heading {title!r} says neither Broken nor Healthy")
            text = "\n".join(fence) + "\n"
            found.append(Example(f"{page.parent.name}/{page.stem}", page.stem.replace("_", "-"), title, broken, text))
            fence = None
        elif fence is not None:
            fence.append(line)
    return found


EXAMPLES = [example for page in PAGES for example in examples(page)]


@cache
def checked(example: Example) -> Checked:
    """What is said of a script as it stands; it runs once for all tests of a process."""
    with TemporaryDirectory() as folder:
        return check_script(Path(folder), example.text)
