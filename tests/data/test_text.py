"""Sentences as numbers: known words, unknown words with known pieces, and rows of one length."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from trueloop.data.text import PADDING, UNKNOWN, Vocabulary, padded_rows, read_lines, words_in
from trueloop.errors import BadData


def test_words_keep_their_apostrophes_and_hyphens_and_signs_stand_alone() -> None:
    assert words_in("It isn't a well-made film , is it?") == [
        "it",
        "isn't",
        "a",
        "well-made",
        "film",
        ",",
        "is",
        "it",
        "?",
    ]
    assert words_in("L'Été à Gênes") == ["l'été", "à", "gênes"]
    assert words_in("  ") == []


def test_the_most_frequent_word_has_the_first_number_and_equal_ones_go_by_the_alphabet() -> None:
    vocabulary = Vocabulary.of(["b a a", "c a b d"])
    assert vocabulary.numbers == {"a": 2, "b": 3, "c": 4, "d": 5}
    assert len(vocabulary) == 6


def test_rare_words_may_be_left_out() -> None:
    assert set(Vocabulary.of(["b a a", "c a b d"], least=2).numbers) == {"a", "b"}


def test_a_word_that_the_training_lines_do_not_have_is_unknown() -> None:
    vocabulary = Vocabulary.of(["a good film"])
    assert vocabulary.row("a bad film") == [vocabulary.numbers["a"], UNKNOWN, vocabulary.numbers["film"]]


def test_an_unknown_word_shares_pieces_with_known_ones() -> None:
    vocabulary = Vocabulary.of(["brilliant"], buckets=2**20)
    known, unknown, other = (set(vocabulary.row(word)[1:]) for word in ("brilliant", "brilliantly", "xyz"))
    assert len(known & unknown) > 10
    assert not known & other


def test_pairs_of_words_tell_the_order() -> None:
    vocabulary = Vocabulary.of(["not good but bad"], buckets=2**20)
    one, other = set(vocabulary.row("not good but bad")), set(vocabulary.row("not bad but good"))
    assert one != other


def test_all_numbers_are_within_the_vocabulary_and_none_is_padding() -> None:
    vocabulary = Vocabulary.of(["one two three"], buckets=7)
    row = vocabulary.row("three four five two one and many words more")
    assert max(row) < len(vocabulary)
    assert min(row) > PADDING


def test_buckets_are_the_same_in_every_process() -> None:
    code = "from trueloop.data.text import Vocabulary; print(Vocabulary.of(['a film'], buckets=999).row('a fine film'))"
    rows = set()
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        rows.add(
            subprocess.run(
                [sys.executable, "-c", code], env=environment, capture_output=True, check=True, text=True
            ).stdout
        )
    assert rows == {f"{Vocabulary.of(['a film'], buckets=999).row('a fine film')}\n"}


def test_rows_are_padded_to_the_longest() -> None:
    rows = padded_rows([[5], [6, 7, 8], [9, 9]])
    assert rows.tolist() == [[5, 0, 0], [6, 7, 8], [9, 9, 0]]
    assert rows.dtype == torch.int32


def test_lines_are_read_without_empty_ones_and_only_at_line_ends(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_bytes("one\x85still one\r\n\n  two \n".encode("latin-1"))
    assert read_lines(path, "latin-1") == ["one\x85still one", "two"]


def test_text_in_another_encoding_is_refused_with_file_and_line(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_bytes("good\nné\n".encode("latin-1"))
    with pytest.raises(BadData, match=f"{path}, line 2: not utf-8 text"):
        read_lines(path)


@pytest.mark.parametrize("content", [b"", b"\n \n"])
def test_a_file_without_text_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "lines").write_bytes(content)
    with pytest.raises(BadData, match="holds no text"):
        read_lines(tmp_path / "lines")


def test_a_file_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(BadData, match=r"gone cannot be read \(No such file"):
        read_lines(tmp_path / "gone")
