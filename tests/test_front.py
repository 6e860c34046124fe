"""The front: a README of one screen, a picture made from real output, links that lead."""

from __future__ import annotations

import re
import shlex
import tomllib
from importlib import import_module
from pathlib import Path

import pytest
import yaml

from tests.test_examples import EXPECTED
from trueloop import __version__
from trueloop.cli.main import VERBS, module_name
from trueloop.rules.catalogue import all_rules

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
README = (ROOT / "README.md").read_text(encoding="utf-8")
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PICTURE = DOCS / "pictures" / "finding.svg"


def test_the_readme_is_one_screen_of_short_lines() -> None:
    lines = README.splitlines()
    assert len(lines) <= 150
    assert [line for line in lines if len(line) > 120] == []


def test_the_readme_shows_the_pictures_and_the_two_commands_of_the_set_up() -> None:
    for name in ("finding.svg", "ui-run.png", "ui-compare.png"):
        assert f"](docs/pictures/{name})" in README
    assert re.search(r"^    pip install trueloop\b.*\n    trueloop check train\.py", README, re.M)
    assert len(re.findall(r"^- \*\*", README, re.M)) == 5


def test_the_links_of_the_readme_lead_to_files() -> None:
    links = [link for link in re.findall(r"\]\(([^)#]+)[^)]*\)", README) if not link.startswith("http")]
    assert links
    assert [link for link in links if not (ROOT / link).is_file()] == []


def test_the_targets_that_the_readme_names_are_in_the_makefile() -> None:
    targets = re.findall(r"\bmake ([a-z-]+)", README)
    assert {"demo", "test", "site"} <= set(targets)
    assert [target for target in targets if f"\n{target}:" not in MAKEFILE] == []


# Words end before a quote, a pipe or a redirection.
COMMAND = re.compile(r"(?:\$\(BIN\)/|-m |\$\$ |`)trueloop ([a-z]+)((?: [^`'|>;&#\n]*)?)")
WITH_SCRIPTS = ("check", "fix", "try", "launch", "profile", "ready")


def parse_command(verb: str, words: list[str]) -> None:
    """By the verb's own parser; raises Misuse for an option or a value that it does not have."""
    parser = import_module(f"trueloop.cli.{module_name(verb)}").parser()
    if verb in WITH_SCRIPTS:
        parser.split(words, lambda word: word.endswith(".py"))
    else:
        parser.parse_words(words)


MAKE_COMMANDS = [  # a variable other than BIN is a folder
    (verb, shlex.split(words)) for verb, words in COMMAND.findall(re.sub(r"\$\((?!BIN)[A-Z]+\)", ".", MAKEFILE))
]


@pytest.mark.parametrize(
    ("verb", "words"), MAKE_COMMANDS, ids=[" ".join([verb, *rest]) for verb, rest in MAKE_COMMANDS]
)
def test_every_command_of_the_makefile_parses(verb: str, words: list[str]) -> None:
    """`make gpu-bench-tune` once named an option that `tune` no longer had; nobody ran it for a week."""
    assert verb in VERBS
    parse_command(verb, words)


def test_the_commands_of_the_makefile_are_found() -> None:
    assert {"check", "explain", "lab", "train", "tune", "ui"} <= {verb for verb, _ in MAKE_COMMANDS}
    assert len(MAKE_COMMANDS) >= len(re.findall(r"(?:\$\(BIN\)/|-m )trueloop ", MAKEFILE))


def test_the_picture_shows_the_findings_of_the_broken_example_and_fetches_nothing() -> None:
    svg = PICTURE.read_text(encoding="utf-8")
    assert len(svg.encode()) < 200_000
    shown = re.sub(r"<[^>]+>", "", svg).replace("&#160;", " ")
    codes = {rule.code for rule in all_rules() if rule.name in EXPECTED}
    assert codes == set(re.findall(r"\b[A-Z]{3}\d{3}(?= [a-z])", shown)), "run `make pictures`"
    assert "url(http" not in svg
    assert "href" not in svg


# -- what is written in two places --


def test_the_table_of_extras_is_that_of_the_package() -> None:
    rows = dict(re.findall(r"^\| `([a-z]+)` \| (.*?) \|", (DOCS / "start.md").read_text(encoding="utf-8"), re.M))
    extras = PROJECT["optional-dependencies"]
    assert rows.keys() == extras.keys(), "docs/start.md has one row for each extra of pyproject.toml"
    for name, needs in extras.items():
        packages = [re.split(r"[><=;\[ ]", need)[0].lower() for need in needs]
        if name not in ("dev", "train"):
            assert [each for each in packages if each not in rows[name].lower()] == [], f"row {name} of docs/start.md"


def test_the_citation_names_this_version_and_licence() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == __version__
    assert citation["license"] == PROJECT["license"]
    assert citation["authors"] == PROJECT["authors"]


def test_every_page_has_a_place_on_the_site() -> None:
    settings = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    listed = set(_pages(settings["nav"]))
    pages = {page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")}
    elsewhere = {page for page in pages if re.fullmatch(r"rules/[A-Z]{3}\d{3}\.md|decisions/.*", page)}
    assert listed == pages - elsewhere, "the `nav` of mkdocs.yml lists each page of docs/ once"


def _pages(entry: object) -> list[str]:
    if isinstance(entry, str):
        return [entry]
    parts = entry.values() if isinstance(entry, dict) else entry if isinstance(entry, list) else []
    return [page for part in parts for page in _pages(part)]
