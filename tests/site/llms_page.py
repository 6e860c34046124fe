"""docs/llms.txt: the pages of the site in one list, for language models.

python -m tests.site.llms_page            # writes the file
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import yaml

ROOT: Final = Path(__file__).parent.parent.parent
PAGE: Final = ROOT / "docs" / "llms.txt"
HEAD: Final = """# trueloop

> Finds the PyTorch training bugs that don't crash, in any script, unmodified. It also trains, profiles, exports and serves.

Install: `pip install trueloop`. Check a script: `trueloop check train.py` (exit code 1: findings). As data:
`trueloop check --format json train.py`. A rule's page: `trueloop explain CODE`. Try a fix without changing files:
`trueloop try --patch FIX.diff train.py`."""  # noqa: E501 - the format wants one line


def page() -> str:
    nav = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]
    parts = [HEAD]
    for entry in nav:
        ((heading, below),) = entry.items()
        parts.append("\n".join([f"## {heading}", "", *(f"- [{title(file)}]({file})" for file in files(below))]))
    return "\n\n".join(parts) + "\n"


def files(entry: Any) -> Iterator[str]:
    if isinstance(entry, str):
        yield entry
        return
    for below in entry.values() if isinstance(entry, dict) else entry:
        yield from files(below)


def title(file: str) -> str:
    return (ROOT / "docs" / file).read_text(encoding="utf-8").splitlines()[0].removeprefix("# ").replace("`", "")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
