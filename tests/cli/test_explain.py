"""The pages of the rules."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from trueloop.cli.explain import rule_page, search, write_pages
from trueloop.cli.main import main
from trueloop.rules.catalogue import all_rules, find_rule
from trueloop.rules.page_blocks import FAMILY, Block, blocks, sentence
from trueloop.rules.rule import SECTIONS, Rule

DOCS = Path(__file__).parent.parent.parent / "docs" / "rules"


@pytest.mark.parametrize("word", ["GRD101", "grd101", "gradients-never-cleared"])
def test_a_rule_is_found_by_code_and_by_name(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", word]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("GRD101 gradients-never-cleared  error\nEach step also uses")
    assert "    optimizer.zero_grad()\n    loss.backward()" in printed
    assert "# trueloop: allow[gradients-never-cleared]" in printed
    assert "\x1b" not in printed


def test_all_and_a_family_are_lists(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "--all"]) == 0
    everything = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in everything] == [rule.code for rule in all_rules()]
    assert main(["explain", "GRD"]) == 0
    gradient = capsys.readouterr().out.splitlines()
    assert gradient
    assert {line[:3] for line in gradient} == {"GRD"}


def test_words_search_names_and_pages(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "softmax"]) == 0
    *found, blank, last = capsys.readouterr().out.splitlines()
    assert found[0].startswith("LOS101  softmax-before-cross-entropy"), "names come first"
    assert len(found) > 3
    assert blank == ""
    assert last == f"{len(found)} rules mention softmax. `trueloop explain CODE` shows a page."
    assert main(["explain", "SOFTMAX", "bce"]) == 0, "all words, in any case"
    assert len(capsys.readouterr().out.splitlines()) > 0
    assert main(["explain", "softmax-before"]) == 0
    assert capsys.readouterr().out.startswith("LOS101 softmax-before-cross-entropy  error\n"), "one match is its page"


def test_a_page_and_a_list_in_every_format(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "GRD101", "--format", "json"]) == 0
    [rule] = json.loads(capsys.readouterr().out)["rules"]
    assert (rule["code"], rule["severity"]) == ("GRD101", "error")
    assert list(rule["sections"]) == list(SECTIONS)
    assert main(["explain", "GRD101", "--format", "markdown"]) == 0
    assert "```python\noptimizer.zero_grad()\nloss.backward()\noptimizer.step()\n```" in capsys.readouterr().out
    files = [tmp_path / name for name in ("rules.json", "rules.html", "rules.txt")]
    outputs = [word for file in files for word in ("--output", str(file))]
    assert main(["explain", "--all", *outputs]) == 0
    assert capsys.readouterr().out == ""
    data, page, text = (file.read_text(encoding="utf-8") for file in files)
    assert [each["code"] for each in json.loads(data)["rules"]] == [rule.code for rule in all_rules()]
    assert "gradients-never-cleared" in page
    assert text.count("\n") == len(all_rules())


def test_search_puts_names_before_pages() -> None:
    codes = [rule.code for rule in search(["shuffle"])]
    names = [rule.code for rule in all_rules() if "shuffle" in rule.name]
    assert codes[: len(names)] == names


@pytest.mark.parametrize("rule", all_rules(), ids=lambda rule: rule.code)
def test_every_rule_has_a_whole_page(rule: type[Rule]) -> None:
    title = rule.page().title
    assert title.startswith(f"{rule.code} {rule.name}: "), title
    assert title.endswith("."), title
    assert sentence(rule)[0].isupper() or sentence(rule)[0] == "`", "a sentence, or the name of a call"
    assert tuple(rule.page().sections) == SECTIONS
    assert all(text.strip() for text in rule.page().sections.values())
    assert rule.page().why
    assert rule.code[:3] in FAMILY


def test_a_section_is_taken_apart_into_prose_items_and_code() -> None:
    section = "First line,\nsecond line.\n- one\n  more\n- two\n\n    a = 1\n\n    b = 2\n\nLast.\n"
    assert list(blocks(section)) == [
        Block(False, "First line, second line."),
        Block(False, "- one more"),
        Block(False, "- two"),
        Block(True, "a = 1\n\nb = 2"),
        Block(False, "Last."),
    ]


def test_a_page_in_markdown() -> None:
    page = rule_page(find_rule("GRD101"))
    assert page.startswith("# GRD101 gradients-never-cleared\n\n**error**: Each step")
    assert "## Why it hurts\n\n`backward()` adds" in page
    assert "```python\noptimizer.zero_grad()\nloss.backward()\noptimizer.step()\n```" in page


def test_pages_are_written_and_those_of_rules_that_are_gone_removed(tmp_path: Path) -> None:
    (tmp_path / "XYZ999.md").write_text("gone")
    (tmp_path / "README.md").write_text("mine")
    assert main(["explain", "--all", "--output", str(tmp_path)]) == 0
    assert {file.name for file in tmp_path.iterdir()} == {
        "README.md",
        "index.md",
        *(f"{rule.code}.md" for rule in all_rules()),
    }
    assert (tmp_path / "README.md").read_text() == "mine"
    assert "[GRD101](GRD101.md) | `gradients-never-cleared` | error |" in (tmp_path / "index.md").read_text(
        encoding="utf-8"
    )


def test_the_pages_in_the_documentation_are_up_to_date(tmp_path: Path) -> None:
    write_pages(tmp_path)
    fresh = {file.name: file.read_text(encoding="utf-8") for file in tmp_path.iterdir()}
    kept = {file.name: file.read_text(encoding="utf-8") for file in DOCS.iterdir()}
    stale = sorted(name for name in fresh.keys() | kept.keys() if fresh.get(name) != kept.get(name))
    assert not stale, "run: trueloop explain --all --output docs/rules"
