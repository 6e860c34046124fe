"""The cross-table: which rules reported on the scripts of which rule's page, without empty cells."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable

__all__ = ["cross_table"]


def cross_table(spoken: Iterable[tuple[str, list[str]]], rules: int) -> list[str]:
    """From (page, reporting rules) of each script: a line for each page, and one for all."""
    scripts: Counter[str] = Counter()
    cells: dict[str, Counter[str]] = defaultdict(Counter)
    for page, names in spoken:
        scripts[page] += 1
        cells[page].update(names)
    lines = []
    for page in sorted(scripts):
        others = ", ".join(f"{name} {count}" for name, count in sorted(cells[page].items()) if name != page)
        also = f", also marked there: {others}" if others else ""
        lines.append(f"{page:36} {cells[page][page]:3} of {scripts[page]:3} scripts{also}")
    total = sum(scripts.values())
    foreign = sum(count for page, row in cells.items() for name, count in row.items() if name != page)
    checks = f"{total} scripts x {rules} rules = {total * rules:,} checks"
    lines.append(f"{checks}; {foreign} cells off the diagonal")
    return lines
