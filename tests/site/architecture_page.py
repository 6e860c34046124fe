"""docs/architecture.md and its picture: the rooms of the package, and which imports which, from the source.

python -m tests.site.architecture_page            # writes both
"""

from __future__ import annotations

import ast
from functools import cache
from html import escape
from pathlib import Path
from typing import Final

from benchmarks.structure import imports_of, room_of

ROOT: Final = Path(__file__).parent.parent.parent
SOURCE: Final = ROOT / "src" / "trueloop"
PAGE: Final = ROOT / "docs" / "architecture.md"
PICTURE: Final = ROOT / "docs" / "pictures" / "architecture.svg"
WIDTH, ROW, HEIGHT, LETTER = 1100, 74, 26, 8.0  # pixels: the picture, a level, a box, a letter
HEAD: Final = """# Architecture

Written by `make docs` from the imports of the source; a test compares. A room is a folder or a loose module of `src/trueloop`.
Which imports are allowed is a table in `tests/test_architecture.py`; why it is so, on one page: [all of trueloop](all-of-trueloop.md).

![Rooms by level; each line leads down to a room that is imported](pictures/architecture.svg)

A room stands one level above the highest room that it imports, so all lines lead down, and there are no cycles. A line is left out if the same room is reached through a different one.

| room | what it is | imports |
|---|---|---|"""  # noqa: E501


@cache
def imports() -> dict[str, frozenset[str]]:
    """Rooms that each room imports, at import time or inside functions; not what only the type checker sees."""
    texts = {_module(file): file.read_text(encoding="utf-8") for file in SOURCE.rglob("*.py")}
    rooms = {room_of(module) for module in texts} - {"", "__main__"}
    found: dict[str, set[str]] = {room: set() for room in rooms}
    for module, text in texts.items():
        if (room := room_of(module)) in rooms:
            found[room] |= {room_of(name) for name in imports_of(text) if name in texts} & rooms - {room}
    return {room: frozenset(found[room]) for room in sorted(rooms)}


def _module(file: Path) -> str:
    name = file.relative_to(SOURCE.parent).with_suffix("").as_posix()
    return name.removesuffix("/__init__").replace("/", ".")


@cache
def level(room: str) -> int:
    return 1 + max(map(level, imports()[room]), default=-1)


@cache
def below(room: str) -> frozenset[str]:
    """Every room that is reached from this one."""
    return frozenset().union(*({near} | below(near) for near in imports()[room]))


def lines() -> list[tuple[str, str]]:
    """Imports that no other path shows."""
    return [
        (room, near)
        for room, all_near in imports().items()
        for near in sorted(all_near)
        if not any(near in below(other) for other in all_near)
    ]


def page() -> str:
    order = sorted(imports(), key=lambda room: (-level(room), room))
    rows = [
        f"| `{room}` | {what(room)} | {' '.join(f'`{near}`' for near in sorted(imports()[room]))} |" for room in order
    ]
    return "\n".join([HEAD, *rows]) + "\n"


def what(room: str) -> str:
    """The first line of its docstring."""
    file = SOURCE / room / "__init__.py"
    tree = ast.parse((file if file.is_file() else SOURCE / f"{room}.py").read_text(encoding="utf-8"))
    return (ast.get_docstring(tree) or "").partition("\n")[0].replace("|", "\\|")


def picture() -> str:
    places = _places()
    high = ROW * (1 + max(map(level, imports()))) + HEIGHT
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {high}" font-family="monospace" font-size="13">',
        f'<rect width="{WIDTH}" height="{high}" fill="#ffffff"/>',
    ]
    for room, near in lines():
        (x, y), (to_x, to_y) = places[room], places[near]
        bend = f"{x:.0f} {y + HEIGHT + 20:.0f}, {to_x:.0f} {to_y - 20:.0f}"
        parts.append(
            f'<path d="M {x:.0f} {y + HEIGHT:.0f} C {bend}, {to_x:.0f} {to_y:.0f}" fill="none" stroke="#9fa8da"/>'
        )
    for room, (x, y) in places.items():
        wide = LETTER * len(room) + 14
        parts.append(
            f'<rect x="{x - wide / 2:.0f}" y="{y}" width="{wide:.0f}" height="{HEIGHT}" rx="4" fill="#e8eaf6" '
            f'stroke="#3f51b5"><title>{escape(what(room))}</title></rect>'
            f'<text x="{x:.0f}" y="{y + 17}" text-anchor="middle">{room}</text>'
        )
    return "\n".join([*parts, "</svg>"]) + "\n"


def _places() -> dict[str, tuple[float, int]]:
    """The middle of the upper edge of each room: rows from the doors down to the words, spread over the width."""
    top = max(map(level, imports()))
    places = {}
    for height in range(top + 1):
        row = [room for room in imports() if level(room) == height]
        for place, room in enumerate(row):
            places[room] = (WIDTH * (place + 0.5) / len(row), ROW * (top - height) + HEIGHT)
    return places


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    PICTURE.write_text(picture(), encoding="utf-8")
