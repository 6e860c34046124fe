"""The cross-table: which rules spoke on the scripts of which rule's page. Only cells that are not empty are shown."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable

__all__ = ["cross_table"]


def cross_table(spoken: Iterable[tuple[str, list[str]]], rules: int) -> list[str]:
    """From (whose page, who spoke) of each script: a line for each page, and one for all."""
    scripts: Counter[str] = Counter()
    cells: dict[str, Counter[str]] = defaultdict(Counter)
    for page, names in spoken:
        scripts[page] += 1
        cells[page].update(names)
    lines = []
    for page in sorted(scripts):
        others = ", ".join(f"{name} {count}" for name, count in sorted(cells[page].items()) if name != page)
        lines.append(
            f"{page:36} {cells[page][page]:3} of {scripts[page]:3} scripts{f', marked there too: {others}' if others else ''}"
        )
    total = sum(scripts.values())
    foreign = sum(count for page, row in cells.items() for name, count in row.items() if name != page)
    lines.append(
        f"{total} scripts x {rules} rules = {total * rules:,} chances to speak out of turn; {foreign} cells off the diagonal"
    )
    return lines
