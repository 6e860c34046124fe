"""docs/reference/python.md: every public name with its signature, its docstring and an example that a test runs.

python -m tests.site.python_page            # writes the page
"""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Final

import trueloop

FOLDER: Final = Path(__file__).parent.parent.parent / "docs" / "reference"
PAGE: Final = FOLDER / "python.md"
MARKS: Final = {"VAR_POSITIONAL": "*", "VAR_KEYWORD": "**"}
LONGEST: Final = 200  # characters of a signature: a longer one is a table elsewhere
HEAD: Final = """# Python

Written by `make docs` from the source. Everything in `trueloop.__all__` is public. The examples are files in
`docs/reference/examples`, which a test runs."""


def example_of(name: str) -> Path:
    """`Session` and `session` share one, as they would on a disk that does not tell letters apart."""
    return FOLDER / "examples" / f"{name.lower()}.py"


def page() -> str:
    parts = [HEAD]
    for name in sorted(trueloop.__all__, key=str.lower):
        found = getattr(trueloop, name)
        parts += [f"## {name}", f"```text\n{signature(name, found)}\n```", inspect.getdoc(found) or ""]
        parts.append(f"```python\n{example_of(name).read_text(encoding='utf-8')}```")
    return "\n\n".join(parts) + "\n"


def signature(name: str, found: object) -> str:
    """Names of the parameters and plain defaults: types and addresses differ between versions of Python."""
    if name == "session":  # the package of that name can be called
        from trueloop.session.own_loop import session as found
    if not callable(found) or name == "Severity":
        return f"trueloop.{name}"
    words: list[str] = []
    star = False
    for parameter in inspect.signature(found).parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and not star:
            words, star = [*words, "*"], True
        mark = MARKS.get(parameter.kind.name, "")
        star = star or mark == "*"
        default = "" if parameter.default is parameter.empty else f"={_shown(parameter.default)}"
        words.append(f"{mark}{parameter.name}{default}")
    full = f"trueloop.{name}({', '.join(words)})"
    return full if len(full) <= LONGEST else f"{full[:LONGEST].rpartition(',')[0]}, ...)"


def _shown(default: object) -> str:
    text = repr(default)
    return "..." if re.search(r" at 0x|<", text) else text


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
