"""Rows become columns, by offset: only what was appended is read, and damage stays out."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from tests.ui.folders import make_run, row
from trueloop.track.metrics import current_rows, read_rows
from trueloop.ui.metric_columns import LONGEST_LINE, MetricColumns, sampled


def read(folder: Path) -> MetricColumns:
    columns = MetricColumns(folder)
    columns.refresh()
    return columns


def pairs(columns: MetricColumns, kind: str = "train", name: str = "loss") -> list[tuple[int, float]]:
    found = columns.column(kind, name)
    return list(zip(*found, strict=True)) if found else []


def test_columns_hold_what_the_rows_say(tmp_path: Path) -> None:
    run = make_run(tmp_path, "a", [row(1, 2.0), row(1, 1.5, "valid", accuracy=0.5), row(2, 1.0, lr=0.1)])
    columns = read(run)
    assert pairs(columns) == [(1, 2.0), (2, 1.0)]
    assert pairs(columns, "valid", "accuracy") == [(1, 0.5)]
    assert pairs(columns, "train", "lr") == [(2, 0.1)]
    assert list(columns.at_rows("train", "loss", "lr") or [])[1] == 0.1


def test_only_what_was_appended_is_read(tmp_path: Path) -> None:
    run = make_run(tmp_path, "a", [row(1)])
    columns = read(run)
    with (run / "metrics.jsonl").open("a") as file:
        file.write(row(2)[:20])
        file.flush()
        columns.refresh()
        assert len(pairs(columns)) == 1, "half a line is no row yet"
        file.write(row(2)[20:] + "\n")
    columns.refresh()
    assert [step for step, _ in pairs(columns)] == [1, 2]
    assert columns.offset == (run / "metrics.jsonl").stat().st_size
    assert columns.skipped == 0


def test_a_file_that_is_replaced_or_cut_is_read_again(tmp_path: Path) -> None:
    run = make_run(tmp_path, "a", [row(1), row(2), row(3)])
    columns = read(run)
    aside = run / "aside"
    aside.write_text(row(1, 7.0) + "\n")
    aside.replace(run / "metrics.jsonl")
    columns.refresh()
    assert pairs(columns) == [(1, 7.0)]
    (run / "metrics.jsonl").write_text("")
    columns.refresh()
    assert pairs(columns) == []
    (run / "metrics.jsonl").unlink()
    columns.refresh()
    assert columns.tables == {}


def test_steps_that_were_trained_again_take_the_place_of_the_older_ones(tmp_path: Path) -> None:
    lines = [row(1, 1.0), row(2, 2.0), row(2, 5.0, "valid"), row(3, 3.0), row(2, 4.0), row(3, 5.0)]
    run = make_run(tmp_path, "a", lines)
    columns = read(run)
    expected = [(each.step, each.values["loss"]) for each in current_rows(read_rows(run, ("train",)))]
    assert pairs(columns) == expected == [(1, 1.0), (2, 4.0), (3, 5.0)]
    assert pairs(columns, "valid") == [(2, 5.0)]


def test_not_a_number_is_kept(tmp_path: Path) -> None:
    run = make_run(
        tmp_path, "a", ['{"kind": "train", "step": 1, "loss": "nan"}', '{"kind": "train", "step": 2, "loss": "inf"}']
    )
    (_, first), (_, second) = pairs(read(run))
    assert math.isnan(first)
    assert second == math.inf


@pytest.mark.parametrize(
    "line",
    [
        "", "{", "null", "[1, 2]", '"text"', '{"kind": "train"}', '{"kind": "train", "step": "1", "loss": 1}',
        '{"kind": "train", "step": -1, "loss": 1}', '{"kind": "train", "step": 1e99, "loss": 1}',
        '{"kind": 3, "step": 1}',
        '{"kind": "train", "step": true, "loss": 1}', "[" * 100_000, '1], [{"kind": "train", "step": 9, "loss": 1}',
        '{"kind": "train", "step": 99999999999999999999999, "loss": 1}', "\0\0\0",
        '{"kind": "' + "k" * 1000 + '", "step": 1}',
    ],
)  # fmt: skip
def test_damaged_lines_are_left_out(tmp_path: Path, line: str) -> None:
    run = make_run(tmp_path, "a", [row(1, 1.0), line, row(2, 2.0)])
    columns = read(run)
    assert pairs(columns) == [(1, 1.0), (2, 2.0)]
    assert columns.skipped == (1 if line else 0)


def test_values_that_are_no_numbers_are_left_out(tmp_path: Path) -> None:
    values: dict[str, object] = {
        "text": "hello",
        "list": [1],
        "map": {},
        "none": None,
        "flag": True,
        "huge": 10**400,
        "fine": 3,
    }
    columns = read(make_run(tmp_path, "a", [json.dumps({"kind": "train", "step": 1, "loss": 1.0, **values})]))
    assert set(columns.tables["train"].columns) == {"loss", "fine"}


def test_a_huge_line_is_skipped_and_not_kept(tmp_path: Path) -> None:
    run = make_run(tmp_path, "a", [])
    with (run / "metrics.jsonl").open("wb") as file:
        file.write(f"{row(1)}\n".encode())
        file.write(b"x" * (12 << 20))
        file.write(f"\n{row(2)}\n".encode())
        file.write(b'{"a": "' + b"y" * LONGEST_LINE + b'"}\n')
        file.write(f"{row(3)}\n".encode())
    columns = read(run)
    assert [step for step, _ in pairs(columns)] == [1, 2, 3]
    assert columns.skipped == 2


def test_a_sample_of_a_long_file_spans_it(tmp_path: Path) -> None:
    run = make_run(tmp_path, "a", [row(step) for step in range(1, 20_001)])
    some = pairs(sampled(run, 20, 1000))
    assert 20 < len(some) < 400
    assert some[0][0] == 1
    assert some[-1][0] == 20_000
    assert pairs(sampled(run, 4000, 1000)) == pairs(read(run))
