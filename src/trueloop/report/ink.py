"""How text is put on a terminal: coloured and folded to its width there, plain and unfolded in a pipe or a file."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TextIO

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

__all__ = ["WIDEST", "block", "console_for", "line", "prose"]

WIDEST: Final = 110
"""Columns that prose is folded to at most: longer lines are tiring to read, however wide the terminal is."""
INDENT: Final = 11
"""Columns of the labels (why, fix, evidence) that stand before the prose."""

_CONTROL: Final = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160)) if code not in (9, 10)}


def console_for(to: TextIO, *, colour: bool) -> Console:
    from rich.console import Console

    plain = not colour or bool(os.environ.get("NO_COLOR"))
    return Console(
        file=to,
        color_system=None if plain else "auto",
        force_terminal=None if colour else to.isatty(),
        force_jupyter=False,
        highlight=False,
        emoji=False,
        markup=False,
    )


def line(console: Console, *parts: tuple[str, str]) -> None:
    """One line, never folded."""
    from rich.text import Text

    console.print(Text.assemble(*((_clean(text), style) for text, style in parts)), soft_wrap=True)


def block(console: Console, text: str, style_of: Callable[[str], str]) -> None:
    for each in text.rstrip("\n").split("\n"):
        line(console, (f"    {each}", style_of(each)))


def prose(
    console: Console,
    *texts: str,
    label: str = "",
    width: int = INDENT,
    indent: int = 0,
    style: str = "",
    label_style: str = "cyan",
) -> None:
    """A paragraph, folded in a terminal; with a label, the lines hang behind it. The first text has the style, the
    others have none."""
    from rich.text import Text

    hang = indent + (width if label else 0)
    whole = Text.assemble((_clean(texts[0]), style), *(_clean(text) for text in texts[1:]))
    for index, folded in enumerate(_folded(console, whole, hang)):
        lead = f"{'':{indent}}{label:{width if label else 0}}" if index == 0 else " " * hang
        console.print(Text.assemble((lead, label_style), folded), soft_wrap=True)


def _folded(console: Console, text: Text, hang: int) -> list[Text]:
    if not console.is_terminal:
        return [text]
    return list(text.wrap(console, max(20, min(console.width, WIDEST) - hang)))


def _clean(text: str) -> str:
    """What a script put into a message must not steer the terminal."""
    return text.translate(_CONTROL)
