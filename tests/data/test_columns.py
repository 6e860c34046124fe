"""Tables as columns, and every way in which a file can be wrong: one sentence with the file, the row and the column."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from trueloop.data import columns
from trueloop.data.columns import NO_WORD, Columns, Numbers, Words, read_cells, read_columns
from trueloop.errors import BadData, MissingExtra

GOOD = "age,town,y\n" + "".join(f"{20 + n},{'Ulm' if n % 2 else 'Bonn'},{n % 2}\n" for n in range(12))


def written(folder: Path, text: str, name: str = "t.csv", encoding: str = "utf-8") -> Path:
    path = folder / name
    path.write_bytes(text.encode(encoding))
    return path


def read(folder: Path, text: str, target: str = "y", **options: bool) -> Columns:
    return read_columns(written(folder, text), target, **options)


def refusal(folder: Path, text: str, target: str = "y", **options: bool) -> str:
    with pytest.raises(BadData) as raised:
        read(folder, text, target, **options)
    sentence = str(raised.value)
    assert "\n" not in sentence
    assert str(folder / "t.csv") in sentence
    return sentence.replace(str(folder / "t.csv"), "t.csv")


def numbers(found: Columns, name: str) -> list[float]:
    column = found.columns[name]
    assert isinstance(column, Numbers)
    return list(map(float, column.values))


def words(found: Columns, name: str) -> list[str]:
    column = found.columns[name]
    assert isinstance(column, Words)
    return [column.names[code] for code in column.codes]


# -- what is read --


def test_columns_of_numbers_and_of_words_are_told_apart(tmp_path: Path) -> None:
    found = read(tmp_path, GOOD)
    assert numbers(found, "age") == [20 + n for n in range(12)]
    assert words(found, "town") == ["Bonn", "Ulm"] * 6
    assert found.rows.tolist() == list(range(2, 14))


@pytest.mark.parametrize("delimiter", [";", "\t", "|"])
def test_the_separator_is_the_header_s(tmp_path: Path, delimiter: str) -> None:
    found = read(tmp_path, GOOD.replace(",", delimiter))
    assert words(found, "town")[:2] == ["Bonn", "Ulm"]


def test_quotes_spaces_a_mark_at_the_beginning_and_windows_lines_are_taken_in_stride(tmp_path: Path) -> None:
    text = '\ufeff"age", "town",y\r\n1,"Ulm, Donau",0\r\n 2 , Bonn ,1\r\n'
    found = read(tmp_path, text)
    assert numbers(found, "age") == [1, 2]
    assert words(found, "town") == ["Ulm, Donau", "Bonn"]


def test_blank_lines_are_passed_over_and_cells_of_several_lines_counted(tmp_path: Path) -> None:
    found = read(tmp_path, 'a,y\n\n"x\nz",1\n\nw,2\n')
    assert found.rows.tolist() == [3, 6]
    assert words(found, "a") == ["x\nz", "w"]


def test_only_the_target_is_kept_when_only_it_is_asked_for(tmp_path: Path) -> None:
    assert list(read(tmp_path, GOOD.replace("20,", "oops,"), only_target=True).columns) == ["y"]


def test_a_column_without_a_name_is_left_out_with_a_word(tmp_path: Path) -> None:
    found = read(tmp_path, ",a,y\n0,5,1\n1,6,2\n")
    assert list(found.columns) == ["a", "y"]
    assert found.left_out == {"column 1": "it has no name"}


def test_a_table_longer_than_one_piece_is_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = read(tmp_path, GOOD)
    monkeypatch.setattr(columns, "PIECE", 5)
    pieces = read(tmp_path, GOOD)
    assert numbers(whole, "age") == numbers(pieces, "age")
    assert words(whole, "town") == words(pieces, "town")
    assert whole.rows.tolist() == pieces.rows.tolist()


# -- cells that do not fit --


def test_an_empty_cell_among_numbers(tmp_path: Path) -> None:
    said = refusal(tmp_path, GOOD.replace("\n23,", "\n,"))
    assert said == (
        "t.csv, row 5: column 'age' is empty. Nothing was trained: fill in the value, remove the row, or allow "
        "missing values: read_table(..., missing='fill')."
    )


@pytest.mark.parametrize("cell", ["nan", "NaN", "NA", "n/a", "null", "None", "?", " "])
def test_whatever_people_write_for_a_missing_number(tmp_path: Path, cell: str) -> None:
    said = refusal(tmp_path, GOOD.replace("\n23,", f"\n{cell},"))
    shown = f"holds {cell!r}" if cell.strip() else "is empty"
    assert said.startswith(f"t.csv, row 5: column 'age' {shown}.")


def test_missing_cells_are_kept_where_they_are_allowed(tmp_path: Path) -> None:
    found = read(tmp_path, "a,b,y\n1,x,0\nNA,,1\n3,y,1\n", fill=True)
    assert np.isnan(numbers(found, "a")).tolist() == [False, True, False]
    assert words(found, "b") == ["x", NO_WORD, "y"]


def test_a_target_that_is_missing_is_never_allowed(tmp_path: Path) -> None:
    said = refusal(tmp_path, "a,y\n1,0\n2,\n3,1\n", fill=True)
    assert said == "t.csv, row 3: the target column 'y' is empty. Remove this row from the file."


def test_an_empty_cell_among_words(tmp_path: Path) -> None:
    assert refusal(tmp_path, GOOD.replace(",Ulm,", ",,", 1)).startswith("t.csv, row 3: column 'town' is empty.")


def test_words_that_look_like_missing_numbers_are_words_among_words(tmp_path: Path) -> None:
    assert words(read(tmp_path, "a,y\nNA,1\nEx,2\nNone,3\n"), "a") == ["NA", "Ex", "None"]


def test_text_among_numbers(tmp_path: Path) -> None:
    said = refusal(tmp_path, GOOD.replace("\n27,", "\ntwenty,"))
    assert said == (
        "t.csv, row 9: column 'age' holds 'twenty', but its other values are numbers. Nothing was trained: write a "
        "number there, or "
        "remove the row."
    )


def test_text_among_numbers_far_down_in_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "PIECE", 4)
    assert "row 9: column 'age' holds 'twenty'" in refusal(tmp_path, GOOD.replace("\n27,", "\ntwenty,"))


def test_digits_that_only_python_takes_for_a_number(tmp_path: Path) -> None:
    assert "holds '2_7'" in refusal(tmp_path, GOOD.replace("\n27,", "\n2_7,"))


def test_many_texts_make_it_a_column_of_words(tmp_path: Path) -> None:
    assert words(read(tmp_path, "a,y\n1,0\n2,0\n3+,1\n3+,1\n"), "a") == ["1", "2", "3+", "3+"]


@pytest.mark.parametrize("cell", ["inf", "-Infinity", "1e999"])
def test_a_number_without_end(tmp_path: Path, cell: str) -> None:
    said = refusal(tmp_path, GOOD.replace("\n23,", f"\n{cell},"), fill=True)
    assert said == f"t.csv, row 5: column 'age' holds {cell!r}, which is not finite. Nothing was trained."


def test_numbers_with_a_comma(tmp_path: Path) -> None:
    said = refusal(tmp_path, "a;y\n1,5;0\n2,5;1\n")
    assert said.startswith("t.csv, row 2: column 'a' holds '1,5', a decimal comma.")


# -- rows and headers that do not fit --


@pytest.mark.parametrize(("row", "cells"), [("1,2", 2), ("1,2,3,4", 4)])
def test_a_row_of_another_length(tmp_path: Path, row: str, cells: int) -> None:
    said = refusal(tmp_path, f"a,b,y\n1,2,3\n{row}\n")
    assert said.startswith(f"t.csv, row 3: {cells} cells, but the header has 3.")


def test_a_column_that_is_not_there(tmp_path: Path) -> None:
    said = refusal(tmp_path, GOOD, target="twon")
    assert said == "t.csv has no column 'twon'. Did you mean town? Nothing was trained: its columns are age, town, y."


def test_a_file_without_a_header(tmp_path: Path) -> None:
    assert "The first row looks like data: is the header missing?" in refusal(tmp_path, "1,2,x\n3,4,y\n")


def test_a_name_that_stands_twice(tmp_path: Path) -> None:
    assert refusal(tmp_path, "a,y,a\n1,2,3\n").startswith("t.csv, row 1: columns 1 and 3 are both called 'a'.")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "t.csv is empty."),
        ("\n1,2\n", "t.csv, row 1: the header is empty."),
        ("a,y\n", "t.csv has a header but no rows."),
    ],
)
def test_files_with_nothing_in_them(tmp_path: Path, text: str, said: str) -> None:
    assert refusal(tmp_path, text) == f"{said} Nothing was trained."


def test_a_quote_that_is_not_closed(tmp_path: Path) -> None:
    said = refusal(tmp_path, 'a,y\n"1,2\n3,4\n')
    assert "unexpected end of data" in said
    assert "look for a quote that is not closed" in said


def test_text_that_is_not_utf8(tmp_path: Path) -> None:
    path = written(tmp_path, "a,y\nKöln,1\n", encoding="latin1")
    with pytest.raises(BadData, match=r"t\.csv is not UTF-8 text \(byte 0xf6 after 0 rows\)\. .*iconv -f latin1"):
        read_columns(path, "y")


def test_a_file_that_is_not_there_or_no_table(tmp_path: Path) -> None:
    with pytest.raises(BadData, match=r"There is no file .*none\.csv"):
        read_columns(tmp_path / "none.csv", "y")
    with pytest.raises(BadData, match=r"t\.xlsx is not a \.csv, \.tsv or \.parquet"):
        read_columns(written(tmp_path, GOOD, "t.xlsx"), "y")


# -- Parquet --


def parquet(folder: Path, **given: object) -> Path:
    path = folder / "t.parquet"
    pq.write_table(pa.table(given), path)
    return path


def test_parquet_says_the_same_as_csv(tmp_path: Path) -> None:
    from_csv = read(tmp_path, GOOD)
    given = {name: numbers(from_csv, name) if name != "town" else words(from_csv, name) for name in from_csv.columns}
    found = read_columns(parquet(tmp_path, **given), "y")
    assert numbers(found, "age") == numbers(from_csv, "age")
    assert words(found, "town") == words(from_csv, "town")
    assert found.rows.tolist() == list(range(1, 13))


def test_the_kinds_of_parquet(tmp_path: Path) -> None:
    path = parquet(
        tmp_path,
        small=pa.array([1, 2, 3], pa.int8()),
        truth=[True, False, True],
        coded=pa.array(["a ", "b", "a"]).dictionary_encode(),
        exact=pa.array([1, 2, 3], pa.decimal128(5, 2)),
        when=pa.array([1, 2, 3], pa.timestamp("ms")),
        __index_level_0__=[0, 1, 2],
        y=[1.5, 2.5, 3.5],
    )
    found = read_columns(path, "y")
    assert numbers(found, "small") == numbers(found, "exact") == [1, 2, 3]
    assert words(found, "truth") == ["true", "false", "true"]
    assert words(found, "coded") == ["a", "b", "a"]
    assert found.left_out == {
        "when": "timestamp[ms] is neither numbers nor text",
        "__index_level_0__": "it is a row index",
    }
    assert list(read_columns(path, "y", only_target=True).columns) == ["y"]


@pytest.mark.parametrize("values", [[1.0, None, 3.0], [1.0, float("nan"), 3.0], ["a", None, "b"], ["a", "", "b"]])
def test_an_empty_cell_of_parquet(tmp_path: Path, values: list[object]) -> None:
    path = parquet(tmp_path, a=values, y=[0, 1, 2])
    with pytest.raises(BadData, match=r"t\.parquet, row 2: column 'a' is empty\. Nothing was trained"):
        read_columns(path, "y")
    assert len(read_columns(path, "y", fill=True)) == 3
    with pytest.raises(BadData, match="row 2: the target column 'a' is empty"):
        read_columns(path, "a", fill=True)


ENCODINGS: dict[str, dict[str, Any]] = {
    "dictionary": {},
    "plain": {"use_dictionary": False},
    "prefixes": {"use_dictionary": False, "column_encoding": {"town": "DELTA_BYTE_ARRAY", "y": "PLAIN"}},
    "lengths": {"use_dictionary": False, "column_encoding": {"town": "DELTA_LENGTH_BYTE_ARRAY", "y": "PLAIN"}},
    "row groups": {"row_group_size": 4},
}


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.dictionary(pa.int8(), pa.string())])
@pytest.mark.parametrize("batch", [3, 1 << 16])
def test_words_are_the_same_in_every_encoding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, encoding: str, kind: pa.DataType, batch: int
) -> None:
    if pa.types.is_dictionary(kind) and encoding in ("prefixes", "lengths"):
        pytest.skip("pyarrow writes such a file and does not read it")
    monkeypatch.setattr("trueloop.data.parquet.BATCH", batch)
    towns = ["Ulm", " Bonn ", None, "Ulm", "Bonn", "", "Jena", "Ulm ", None, "Jena"]
    table = pa.table({"town": pa.array(towns).cast(kind), "y": pa.array(range(10), pa.int64())})
    pq.write_table(table, tmp_path / "t.parquet", **ENCODINGS[encoding])
    found = read_columns(tmp_path / "t.parquet", "y", fill=True)
    column = found.columns["town"]
    assert isinstance(column, Words)
    assert column.names == ("Ulm", "Bonn", NO_WORD, "Jena")  # in the order in which they first occur
    assert column.codes.tolist() == [0, 1, 2, 0, 1, 2, 3, 0, 2, 3]
    names, rows = read_cells(tmp_path / "t.parquet")
    assert names == ["town", "y"]
    assert rows == [(line, [town or "", str(line - 1)]) for line, town in enumerate(towns, start=1)]


def test_columns_of_other_types_are_not_unpacked_for_cells(tmp_path: Path) -> None:
    path = parquet(tmp_path, many=[[1, 2], [3]], truth=[True, None], y=[1, 2])
    assert read_cells(path) == (
        ["many", "truth", "y"],
        [(1, ["list<element: int64>", "true", "1"]), (2, ["list<element: int64>", "", "2"])],
    )


def test_a_parquet_file_without_rows_is_a_sentence(tmp_path: Path) -> None:
    path = parquet(tmp_path, a=pa.array([], pa.string()), y=pa.array([], pa.int64()))
    with pytest.raises(BadData, match="has a header but no rows"):
        read_columns(path, "y")
    assert read_cells(path) == (["a", "y"], [])


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not enforce RLIMIT_DATA")
def test_a_footer_that_hides_what_a_page_unpacks_to_does_not_help(tmp_path: Path) -> None:
    """1,000 rows that repeat a word of 500 kB, whose footer says 500 kB, in a process that has no freed memory."""
    table = pa.table({"town": pa.array(["a" * 500_000] * 1_000), "y": range(1_000)})
    encodings = {"town": "DELTA_BYTE_ARRAY", "y": "PLAIN"}
    pq.write_table(table, tmp_path / "t.parquet", use_dictionary=False, column_encoding=encodings, compression="zstd")
    code = (
        "from pathlib import Path; from trueloop.data import columns, parquet;"
        "parquet.memory_budget = lambda: 200_000_000;"
        "columns.read_columns(Path('t.parquet'), 'y')"
    )
    ended = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "BadData: t.parquet (" in ended.stderr
    assert "too large for this machine: unpacking it took more than this process may allocate" in ended.stderr


def test_parquet_that_cannot_be_learned_from(tmp_path: Path) -> None:
    with pytest.raises(BadData, match="row 3: column 'a' holds inf, which is not finite"):
        read_columns(parquet(tmp_path, a=[1.0, 2.0, float("inf")], y=[0, 1, 2]), "y")
    with pytest.raises(BadData, match=r"target column 'y' is list<.*>, neither numbers nor text"):
        read_columns(parquet(tmp_path, a=[1], y=[[1, 2]]), "y")
    with pytest.raises(BadData, match="has no column 'z'"):
        read_columns(parquet(tmp_path, a=[1], y=[1]), "z")
    pq.write_table(pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["y", "y"]), tmp_path / "t.parquet")
    with pytest.raises(BadData, match="two columns are called 'y'"):
        read_columns(tmp_path / "t.parquet", "y")
    with pytest.raises(BadData, match=r"t\.parquet cannot be read as Parquet"):
        read_columns(written(tmp_path, "age,y\n1,2\n", "t.parquet"), "y")


def test_without_pyarrow_the_sentence_is_the_command_to_type(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = parquet(tmp_path, y=[1])
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtra, match=r"pip install 'trueloop\[tables\]'"):
        read_columns(path, "y")
