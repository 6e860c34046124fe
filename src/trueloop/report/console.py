"""How text is put on a terminal: colored and folded to its width there, plain and unfolded in a pipe or a file."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final, TextIO

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

__all__ = ["PLAIN_WIDTH", "WIDEST", "console_for", "line", "prose"]

WIDEST: Final = 110  # Columns that prose is folded to: longer lines are tiring to read, however wide the terminal is
PLAIN_WIDTH: Final = 10_000  # columns of a pipe or a file: nothing is folded there

_CONTROL: Final = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160)) if code not in (9, 10)}


def console_for(to: TextIO, *, color: bool) -> Console:
    from rich.console import Console

    plain = not color or bool(os.environ.get("NO_COLOR"))
    console = Console(
        file=to,
        color_system=None if plain else "auto",
        force_terminal=None if color else to.isatty(),
        force_jupyter=False,
        highlight=False,
        emoji=False,
        markup=False,
    )
    if not console.is_terminal:
        console.width = PLAIN_WIDTH
    return console


def line(console: Console, *parts: tuple[str, str]) -> None:
    """(text, style) side by side on one line, never folded."""
    from rich.text import Text

    console.print(Text.assemble(*((_clean(text), style) for text, style in parts)), soft_wrap=True)


def prose(
    console: Console,
    text: str,
    label: str = "",
    *,
    width: int = 0,
    indent: int = 0,
    style: str = "",
    label_style: str = "cyan",
) -> None:
    """A paragraph, folded in a terminal; its lines hang behind a label of `width` columns."""
    from rich.text import Text

    hang = indent + width
    for index, folded in enumerate(_folded(console, Text(_clean(text), style), hang)):
        lead = f"{'':{indent}}{_clean(label):{width}}" if index == 0 else " " * hang
        console.print(Text.assemble((lead, label_style), folded), soft_wrap=True)


def _folded(console: Console, text: Text, hang: int) -> list[Text]:
    if not console.is_terminal:
        return [text]
    return list(text.wrap(console, max(20, min(console.width, WIDEST) - hang)))


def _clean(text: str) -> str:
    """Text from a script must not control the terminal."""
    return text.translate(_CONTROL)
