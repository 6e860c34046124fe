"""Pieces of pictures, as SVG written by hand. Colours work on light and on dark paper; `soft` is a class of the page's
style."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html import escape
from typing import Final

__all__ = ["CHARTS", "WIDE", "box", "legend", "svg", "text"]

WIDE: Final = 840
"""Points across; the page scales them to its width."""
CHARTS: Final = """
svg .soft { fill: var(--soft); } section { margin: 2rem 0; } .legend span { margin-right: 1rem; white-space: nowrap; }
.legend i { display: inline-block; width: .8em; height: .8em; border-radius: .2em; margin-right: .35em; }
"""
"""For pages with pictures, beside `STYLE` and `TABLES`."""


def svg(height: float, parts: Iterable[str], label: str) -> str:
    return f'<svg viewBox="0 0 {WIDE} {height:.0f}" role="img" aria-label="{escape(label)}">{"".join(parts)}</svg>'


def box(x: float, y: float, width: float, height: float, colour: str, title: str) -> str:
    shape = f'x="{x:.2f}" y="{y:.1f}" width="{max(width, 0.3):.2f}" height="{height:.1f}"'
    return f'<rect {shape} fill="{colour}"><title>{escape(title)}</title></rect>'


def text(x: float, y: float, words: str, *, anchor: str = "start", soft: bool = False) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{" class=soft" if soft else ""}>{escape(words)}</text>'


def legend(colours: Mapping[str, str]) -> str:
    """Words -> their colour."""
    chips = "".join(
        f'<span><i style="background:{colour}"></i>{escape(words)}</span>' for words, colour in colours.items()
    )
    return f'<p class="legend soft">{chips}</p>'
