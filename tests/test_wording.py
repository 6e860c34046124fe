"""User-facing text speaks the field's own language: no forbidden phrase in the source, the README or the docs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.wording import places

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "trueloop"
ROOMS = sorted(path.name for path in SOURCE.iterdir() if path.is_dir() and path.name != "__pycache__")
DOCS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.mark.parametrize("room", [*ROOMS, "."])
def test_the_source_uses_no_forbidden_phrase(room: str) -> None:
    files = SOURCE.glob("*.py") if room == "." else (SOURCE / room).rglob("*.py")
    found = [str(place) for file in sorted(files) for place in places(file)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("page", DOCS, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_docs_use_no_forbidden_phrase(page: Path) -> None:
    found = [str(place) for place in places(page)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('x = "the loss is no number here"', True),
        ('x = "the loss is NaN here"', False),
        ('"""Nothing was cleared: those that came before."""', True),
        ("x = None  # is none of ours", False),
        ('f"{a} went on"', True),
    ],
)
def test_phrases_are_found_in_strings_and_docstrings_only(tmp_path: Path, text: str, found: bool) -> None:
    file = tmp_path / "a.py"
    file.write_text(text, encoding="utf-8")
    assert bool(list(places(file))) is found


def test_code_in_markdown_is_not_prose(tmp_path: Path) -> None:
    page = tmp_path / "a.md"
    page.write_text("It goes on.\n\n```\nit goes on\n```\n", encoding="utf-8")
    assert [place.line for place in places(page)] == [1]
