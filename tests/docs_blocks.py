"""Code blocks of the documentation, so that tests run what the pages show."""

from __future__ import annotations

import re
from pathlib import Path

DOCS = Path(__file__).parent.parent / "docs"


def python_blocks(page: str) -> list[str]:
    """The python blocks of a page under docs/, in order."""
    return re.findall(r"^```python\n(.*?)^```", (DOCS / page).read_text(encoding="utf-8"), re.M | re.S)
