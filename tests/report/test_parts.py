"""Every part of a document on a terminal, as a page, as Markdown, as JSON; and pictures as files."""

from __future__ import annotations

import io
import json
import math
import re
from typing import Any

import pytest

from trueloop.report import print_report, render, terminal
from trueloop.report.png import GAP, contact_sheet, enlarged, png
from trueloop.results.document import Bars, Column, Document, Facts, Picture, Table, Tile, cell

RED = Tile(2, 2, b"\xff\x00\x00" * 4, "red <one>")
DOCUMENT = Document(
    "all <kinds>",
    (
        Facts("", {"shape": (3, 4), "nothing": None}),
        Table(
            "T",
            (Column("name", "name"), Column("numbers", "count"), Column("on", "flag")),
            (("a\x1b[31m", 12345, True), ("b", None, False)),
            "said",
        ),
        Bars("B", ("low", "high"), (1, 4)),
        Picture("P", (RED, RED)),
    ),
    ("mind `this`",),
)


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (None, "text", ""), (True, "flag", "yes"), (1234567, "count", "1,234,567"), (0.123456, "real", "0.1235"),
        ((3, 4), "shape", "3x4"),
        ((), "shape", "scalar"), (("a", "b"), "name", "a, b"), (math.nan, "real", "nan"), ("a\x07", "text", "a\\x07"),
    ],
)  # fmt: skip
def test_cells(value: Any, kind: Any, text: str) -> None:
    assert cell(value, kind) == text


def test_plain_text_has_everything_and_nothing_controls_the_terminal() -> None:
    text = render(DOCUMENT)
    assert "\x1b" not in text
    for word in ("all <kinds>", "3x4", "12,345", "a\\x1b[31m", "said", "red <one>, red <one>", "mind `this`"):
        assert word in text
    low, high = (next(line for line in text.splitlines() if word in line) for word in ("low", "high"))
    assert high.count("█") == 4 * low.count("█") == terminal.LONGEST_BAR


def test_a_terminal_with_colors_shows_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLORTERM", "truecolor")
    to = Terminal()
    print_report(DOCUMENT, to=to)
    assert "38;2;255;0;0" in to.getvalue()
    assert to.getvalue().count("▀") == 4


def test_a_large_picture_is_made_small_for_the_terminal() -> None:
    wide = terminal._shrunk(Tile(100, 50, bytes(3 * 100 * 50)))
    assert wide.width <= terminal.WIDEST_TILE
    assert len(wide.rgb) == 3 * wide.width * wide.height


def test_a_page_stands_alone_and_escapes() -> None:
    page = render(DOCUMENT, "html")
    assert "all &lt;kinds&gt;" in page
    assert "red &lt;one&gt;" in page
    assert page.count("data:image/png;base64,") == 2
    assert not re.search(r"<script|https?://", page)


def test_json_is_strict() -> None:
    told = json.loads(render(Document("x", (*DOCUMENT.parts, Facts("F", {"value": math.inf}))), "json"))
    assert told["parts"][1]["rows"][0] == {"name": "a\x1b[31m", "numbers": 12345, "on": True}
    assert told["parts"][0]["values"]["shape"] == [3, 4]
    assert told["parts"][3]["tiles"][0] == {"width": 2, "height": 2, "caption": "red <one>"}
    assert told["parts"][4]["values"]["value"] == "inf"


def test_a_png_is_read_by_others_as_it_was_meant() -> None:
    image = pytest.importorskip("PIL.Image")
    tile = Tile(3, 2, bytes(range(18)))
    read = image.open(io.BytesIO(png(tile)))
    assert read.size == (3, 2)
    assert read.tobytes() == tile.rgb
    sheet = contact_sheet(Picture("", (RED, Tile(2, 2, b"\x00\x00\xff" * 4))))
    read = image.open(io.BytesIO(png(sheet)))
    assert [read.getpixel((x, 10)) for x in (0, GAP, GAP + 64 + GAP)] == [(255, 255, 255), (255, 0, 0), (0, 0, 255)]


def test_small_tiles_are_enlarged_and_large_ones_left() -> None:
    assert (enlarged(RED).width, enlarged(RED).rgb) == (64, b"\xff\x00\x00" * 64 * 64)
    large = Tile(100, 80, bytes(24000))
    assert enlarged(large) is large


def test_a_logarithmic_axis_over_many_powers_has_labels_that_fit() -> None:
    from trueloop.report.svg import MOST_POWERS, ticks

    assert 5 < len(ticks(1e-30, 1e27, True)) <= MOST_POWERS
    assert ticks(1.0, 1e6, True) == [10.0**exponent for exponent in range(7)]
