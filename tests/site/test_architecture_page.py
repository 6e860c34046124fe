"""The page of the architecture is drawn from today's imports."""

from __future__ import annotations

from tests.site.architecture_page import PAGE, PICTURE, below, imports, level, lines, page, picture, what


def test_the_page_and_its_picture_are_current() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "docs/architecture.md is older than the imports: run `make docs`"
    assert PICTURE.read_text(encoding="utf-8") == picture(), "run `make docs`"


def test_every_line_leads_down() -> None:
    assert all(level(room) > level(near) for room, near in lines())


def test_lines_that_are_left_out_are_reached_through_others() -> None:
    drawn: dict[str, set[str]] = {room: set() for room in imports()}
    for room, near in lines():
        drawn[room].add(near)
    for room in imports():
        reached: set[str] = set()
        ahead = [room]
        while ahead:
            new = drawn[ahead.pop()] - reached
            reached |= new
            ahead += new
        assert reached == below(room)


def test_every_room_says_what_it_is() -> None:
    assert [room for room in imports() if not what(room)] == []


def test_known_imports() -> None:
    assert "doctor" not in imports()["engine"]
    assert "engine" in imports()["session"]
    assert level("cli") == max(map(level, imports()))
