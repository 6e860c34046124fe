"""`python -m tests.labs.table` writes the table of labs into docs/labs.md."""

from __future__ import annotations

from pathlib import Path

from trueloop.labs.catalogue import all_labs
from trueloop.results.lab import GROUPS

PAGE = Path(__file__).parent.parent.parent / "docs" / "labs.md"
BEGIN, END = "<!-- labs -->\n", "<!-- end of labs -->"


def table() -> str:
    lines = []
    for group, heading in GROUPS.items():
        entries = [entry for entry in all_labs().values() if entry.group == group]
        if entries:
            lines += [f"### {heading}", "", "| lab | question | |", "|---|---|---|"]
            for each in entries:
                needs = f"needs {'a GPU' if each.needs == 'gpu' else each.needs}" if each.needs else ""
                slow = f"about {each.seconds} s" if each.seconds > 20 else ""
                also = ", ".join(filter(None, ("exercise" if each.exercise else "", needs, slow)))
                lines.append(f"| `{each.name}` | {each.question} | {also} |")
            lines.append("")
    return "\n".join(lines)


def page_with_table(text: str) -> str:
    before, _, rest = text.partition(BEGIN)
    return f"{before}{BEGIN}\n{table()}\n{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    PAGE.write_text(page_with_table(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
