"""Letters of a text that an alphabet of the script knows in one case only; settings about case."""

from __future__ import annotations

import ast
import json
import random
from pathlib import Path

import pytest

from trueloop.measure.alphabets import alphabets, known_letters
from trueloop.measure.tables import Table, Values, read_tables
from trueloop.measure.vocabulary import Vocabulary, case_setting, coverage

CAPITALS = alphabets(ast.parse('BASES = "ACGT"'))


def sequences(masked: float, letters: str = "ACGT") -> Table:
    draw = random.Random(0)
    cells = ["".join(draw.choice(letters) for _ in range(60)) for _ in range(80)]
    cells = [c[: int(60 * masked)].lower() + c[int(60 * masked) :] for c in cells]
    lines = [line for number, cell in enumerate(cells) for line in (f">read{number} 1", cell)]
    return Table("reads.fa", (Values("line", None, lines),), len(lines), named=False, lines=True)


@pytest.mark.parametrize("source", ['"ACGT"', '{"A": 0, "C": 1, "G": 2, "T": 3}', '["A", "C", "G", "T"]', '"ACGTN"'])
def test_letters_in_the_other_case(source: str) -> None:
    found = known_letters(alphabets(ast.parse(f"KNOWN = {source}")), sequences(0.4))
    assert found is not None
    assert found.known == pytest.approx(0.6)
    assert found.ignoring_case == 1.0
    assert found.example.islower()


def test_letters_that_the_script_knows() -> None:
    assert known_letters(CAPITALS, sequences(0.0)) is None
    assert known_letters(alphabets(ast.parse('KNOWN = "ACGTacgt"')), sequences(0.4)) is None
    assert known_letters(alphabets(ast.parse('UPPER, SMALL = "ACGT", "acgt"')), sequences(1.0)) is None


def test_another_alphabet_and_ordinary_text() -> None:
    assert known_letters(CAPITALS, sequences(0.4, "ACDEFGHIKLMNPQRSTVWY")) is None
    words = Values("line", None, ["the cat sat at a tea table, that is all"] * 80)
    assert known_letters(CAPITALS, Table("a.txt", (words,), 80, named=False, lines=True)) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"lowercase": true, "length": 56}', ("lowercase", True)),
        ("do_lower_case: False\nsize: 3", ("do_lower_case", False)),
        ('{"length": 56}', None),
        ('{"lower": 3.5, "upper": 4}', None),
    ],
)
def test_settings_about_case(text: str, expected: object) -> None:
    assert case_setting(text) == expected


def test_lines_of_a_record_are_a_text_and_lower_case_loses_its_words(tmp_path: Path) -> None:
    words = [f"Word{chr(97 + i)}" for i in range(24)] + ["size", "from"]
    rows = [{"lines": [f"{words[i % 26]} {words[(i + 3) % 26]}", "size from Wordb"], "label": i % 2} for i in range(90)]
    (tmp_path / "logs.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (table,) = read_tables(str(tmp_path / "logs.jsonl"))
    found = coverage(Vocabulary("vocab.json", frozenset(["<unk>", *words]), False), table)
    assert found is not None
    assert found.known == 1.0
    assert found.lowered < 0.6
