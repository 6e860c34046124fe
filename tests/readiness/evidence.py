"""Reads a note as a sceptic would: every link is opened, every number looked up or computed again, by code of its
own."""

from __future__ import annotations

import json
import math
import re
import statistics
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, final
from urllib.parse import unquote

import torch

from trueloop.results.readiness import Readiness, Shown, Statement

__all__ = ["NOT_THERE", "check_html", "check_markdown", "check_statements", "look_up"]

NOT_THERE = re.compile(r"not recorded, `([^`]+)` is missing")
ADDRESS = re.compile(r"\[([^\[\]]+)\]")
ITEM = re.compile(r"^- (?P<sign>\S+) (?P<text>.*?)(?: — (?P<links>\[`.*?\)))?(?: → (?P<command>`.*`))?$")
LINK = re.compile(r"\[`([^`]+)`\]\(([^)]*)\)")


def look_up(folder: Path, address: str) -> Any:
    """What stands at an address; None: nothing does."""
    where, _, keys = address.partition("#")
    where, _, kind = where.partition("?")
    where, _, line = where.partition(":")
    file = folder / where
    if not file.exists():
        return None
    if file.suffix == ".jsonl":
        rows = [json.loads(text) for text in file.read_text(encoding="utf-8").splitlines()]
        if kind and "=" in keys:
            name, _, value = keys.partition("=")
            return [row for row in rows if kind == row.get("event") and str(row.get(name)) == value] or None
        if kind:
            found = [row.get(keys) for row in rows if kind in (row.get("kind"), row.get("event"))]
            return [number(each) for each in found if each is not None] or None
        return inside(rows[int(line) - 1], keys) if 0 < int(line) <= len(rows) else None
    if file.suffix != ".json":
        return file
    whole = json.loads(file.read_text(encoding="utf-8"))
    if file.name == "proofs.json":
        whole = {proof["claim"]: proof for proof in whole["proofs"]}
    return inside(whole, keys)


def inside(value: Any, keys: str) -> Any:
    for key in filter(None, keys.split(".")):
        if isinstance(value, list):
            value = value[int(key)] if key.isdecimal() and int(key) < len(value) else None
        else:
            value = value.get(key) if isinstance(value, dict) else None
    return value


def number(value: Any) -> Any:
    return float(value) if value in ("nan", "inf", "-inf") else value


def computed(folder: Path, source: str) -> Any:
    """What a source gives, from the files as they are now."""
    found: list[Any] = []

    def stand_in(match: re.Match[str]) -> str:
        value = look_up(folder, match[1])
        assert value is not None, f"{match[1]} is not there"
        found.append(number(value))
        return f"found[{len(found) - 1}]"

    def numbers(value: Any) -> list[Any]:
        return [number(each) for each in (value.values() if isinstance(value, dict) else value)]

    known = {
        "count": len,
        "median": lambda value: statistics.median(numbers(value)),
        "largest": lambda value: max(numbers(value)),
        "smallest": lambda value: min(numbers(value)),
        "key_of_largest": lambda value: next(key for key, each in value.items() if each == max(value.values())),
        "key_of_smallest": lambda value: next(key for key, each in value.items() if each == min(value.values())),
        "total": lambda files: sum(each["bytes"] for each in files.values()),
        "last_of": lambda path: Path(path).name,
        "sqrt": math.sqrt,
    }
    return eval(ADDRESS.sub(stand_in, source), {"__builtins__": {}}, {**known, "found": found})


def agree(shown: Shown, folder: Path) -> None:
    """The text is the value, rounded as it is written."""
    value = computed(folder, shown.source)
    if isinstance(value, (str, bool)):
        assert shown.text == str(value), (shown, value)
        return
    plain = shown.text.replace(",", "")
    scale = 0.01 if plain.endswith("%") else 1.0
    plain = plain.removesuffix("%")
    mantissa, _, power = plain.partition("e")
    step = 10.0 ** -len(mantissa.partition(".")[2]) * 10.0 ** int(power or 0) * scale
    assert abs(float(plain) * scale - value) <= 0.5 * step * (1 + 1e-6), (shown, value)


def check_statements(made: Readiness, folder: Path) -> None:
    """Every claim against the files. `folder`: where the note lies."""
    assert made.statements
    for each in made.statements:
        for link in each.links:
            assert look_up(folder, link) is not None, f"{link} of {each.text!r} leads nowhere"
        for shown in each.shown:
            agree(shown, folder)
        if each.status == "missing":
            assert each.command, f"{each.text!r} is missing, and nobody says how to get it"
            check_missing(each, folder)
        else:
            assert each.links, f"{each.text!r} has no evidence"
            assert not re.search(r"\d", unnumbered(each)), f"a number in {each.text!r} comes from nowhere"


def check_missing(statement: Statement, folder: Path) -> None:
    """What is called missing is not there."""
    if absent := NOT_THERE.search(statement.text):
        assert not (
            look_up(folder, absent[1]) if absent[1] != "checkpoints/" else list(folder.glob("checkpoints/step-*"))
        )


def unnumbered(statement: Statement) -> str:
    """The text without what is shown of figures."""
    text, rest = "", statement.text
    for shown in statement.shown:
        before, found, rest = rest.partition(shown.text)
        assert found, (shown, statement.text)
        text += before
    return text + rest


def check_markdown(note: Path, made: Readiness) -> None:
    """Every line of the note is a statement, and every link of it opens."""
    lines = [ITEM.match(line) for line in note.read_text(encoding="utf-8").splitlines() if line.startswith("- ")]
    assert None not in lines
    texts = {unescaped(line["text"]): line for line in lines if line}
    assert set(texts) == {" ".join(each.text.split()) for each in made.statements}
    for each in made.statements:
        line = texts[" ".join(each.text.split())]
        links = LINK.findall(line["links"] or "")
        assert bool(links) == bool(each.links)
        for address, target in links:
            assert look_up(note.parent, address) is not None, address
            file, _, anchor = target.partition("#L")
            path = note.parent / unquote(file)
            assert path.is_file(), target
            assert not anchor or int(anchor) <= len(path.read_text(encoding="utf-8").splitlines())
        assert (line["command"] or "").strip("` ") == each.command


def unescaped(text: str) -> str:
    return re.sub(r"\\([\\`*_{}\[\]<>#|~])", r"\1", text)


@final
class _Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.fetched: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        told = dict(attrs)
        if tag == "a":
            self.found.append(told["href"] or "")
        self.fetched += [
            value for name, value in told.items() if name == "src" or (tag in ("link", "script") and value) if value
        ]


def check_html(note: Path, made: Readiness) -> None:
    """It stands alone, and its links open."""
    text = note.read_text(encoding="utf-8")
    reader = _Links()
    reader.feed(text)
    assert reader.found
    assert not reader.fetched
    assert "http" not in text
    assert made.verdict in text
    for link in reader.found:
        assert (note.parent / unquote(link.partition("#")[0])).is_file(), link


def parts_by_torch(file: Path) -> set[str]:
    """What torch itself reads there."""
    return set(torch.load(file, map_location="cpu", weights_only=True))
