"""The tutorials: pages show the steps of their scripts, and the steps do what the pages say."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.site.tutorial import FOLDER, NAMES, Command, execute, load, page, prepare

every_tutorial = pytest.mark.parametrize("name", NAMES)


def test_there_is_one_for_each_user() -> None:
    assert set(NAMES) == {"on_call", "platform_gate", "researcher", "student"}
    index = (FOLDER / "index.md").read_text(encoding="utf-8")
    assert [name for name in NAMES if f"]({name}.md)" not in index] == []


@every_tutorial
def test_a_page_shows_the_steps_of_its_script_in_order(name: str) -> None:
    rest = (FOLDER / f"{name}.md").read_text(encoding="utf-8")
    for part in load(name).skeleton():
        before, found, rest = rest.partition(part)
        assert found, f"{name}.md is older than {name}.py, run `make tutorials`: {part}"
        assert "```text\n$ " not in before, f"{name}.md shows a command that {name}.py does not run: {before}"


@every_tutorial
def test_a_page_shows_what_its_commands_must_print(name: str) -> None:
    text = (FOLDER / f"{name}.md").read_text(encoding="utf-8")
    expected = [words for step in load(name).steps if isinstance(step, Command) for words in step.shows]
    assert expected
    assert [words for words in expected if words not in text] == []


def test_a_command_that_ends_or_prints_otherwise_is_refused(tmp_path: Path) -> None:
    environment = prepare(tmp_path)
    assert execute(Command("echo a; exit 3", 3, ["a"]), tmp_path / "work", environment) == "a\n"
    with pytest.raises(SystemExit, match="ended with 3, not with 0"):
        execute(Command("exit 3", 0, []), tmp_path / "work", environment)
    with pytest.raises(SystemExit, match="without \\['b'\\]"):
        execute(Command("echo a", 0, ["b"]), tmp_path / "work", environment)


@pytest.mark.long
@every_tutorial
def test_its_steps_do_what_the_page_says(name: str) -> None:
    assert page(name).startswith(f"# {load(name).title}")
