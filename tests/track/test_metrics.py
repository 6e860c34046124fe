"""metrics.jsonl: what is written is read back, whatever happens to the process, the numbers or the disk."""

from __future__ import annotations

import json
import math
import resource
from pathlib import Path

import pytest

from tests.conftest import in_child
from tests.track.rows import finished, on_test, start, told, trained, validated
from trueloop.errors import CannotSave, NotARun
from trueloop.hook import Row
from trueloop.track.metrics import FILE, MetricsFile, current_rows, last_row, read_rows


def steps(folder: Path, kind: str = "train") -> list[int]:
    return [row.step for row in read_rows(folder) if row.kind == kind]


def test_rows_come_back_as_they_were_told(tmp_path: Path) -> None:
    rows = [trained(50, 1 / 3), validated(57, 0.96, best=True), on_test(57, 0.95)]
    told(MetricsFile(tmp_path), rows)
    back = list(read_rows(tmp_path))
    assert [(row.kind, row.step, row.best) for row in back] == [
        ("train", 50, False),
        ("valid", 57, True),
        ("test", 57, False),
    ]
    assert back[0].values["loss"] == 1 / 3  # to the last bit
    for before, after in zip(rows, back, strict=True):
        assert {name: value for name, value in after.values.items() if name != "seconds"} == before.values


def test_the_file_is_strict_json_also_with_nan_and_inf(tmp_path: Path) -> None:
    told(MetricsFile(tmp_path), [trained(50, math.nan, gradient_norm=math.inf), trained(100, -math.inf)])

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is no JSON")

    lines = (tmp_path / FILE).read_text(encoding="utf-8").splitlines()
    assert [json.loads(line, parse_constant=refuse)["loss"] for line in lines] == ["nan", "-inf"]
    first, second = read_rows(tmp_path)
    assert math.isnan(first.values["loss"])
    assert first.values["gradient_norm"] == math.inf
    assert second.values["loss"] == -math.inf


def test_some_kinds_can_be_asked_for(tmp_path: Path) -> None:
    told(MetricsFile(tmp_path), [trained(50), validated(57, 0.9), trained(100), on_test(57, 0.9)])
    assert [row.kind for row in read_rows(tmp_path, ("valid", "test"))] == ["valid", "test"]


def test_no_file_means_no_rows(tmp_path: Path) -> None:
    assert list(read_rows(tmp_path)) == []
    assert last_row(tmp_path) is None


# -- killed --


@pytest.mark.parametrize("rest", ['{"kind": "train", "st', "\0\0\0\0", '{"kind": "train"}', '{"kind": "train"}\n', "["])
def test_what_a_kill_left_of_the_last_line_is_left_out(rest: str, tmp_path: Path) -> None:
    told(MetricsFile(tmp_path), [trained(50), trained(100)])
    with (tmp_path / FILE).open("a", encoding="utf-8") as file:
        file.write(rest)
    assert steps(tmp_path) == [50, 100]
    newest = last_row(tmp_path)
    assert newest is not None
    assert newest.step == 100


def test_damage_in_the_middle_is_named_with_its_line(tmp_path: Path) -> None:
    told(MetricsFile(tmp_path), [trained(50), trained(100), trained(150)])
    lines = (tmp_path / FILE).read_text(encoding="utf-8").splitlines(keepends=True)
    (tmp_path / FILE).write_text(lines[0] + "what is this\n" + lines[2], encoding="utf-8")
    with pytest.raises(NotARun, match=r"metrics\.jsonl:2 is damaged"):
        list(read_rows(tmp_path))


def test_each_row_is_in_the_file_before_the_next_is_told(tmp_path: Path) -> None:
    metrics = MetricsFile(tmp_path)
    metrics.started(start())
    for step in (50, 100, 150):
        metrics.logged(trained(step))
        assert steps(tmp_path)[-1] == step  # nothing waits in a buffer for a process that may be killed
    metrics.ended(finished())


# -- resumed --


def test_a_resumed_run_drops_the_rows_it_will_write_again(tmp_path: Path) -> None:
    told(MetricsFile(tmp_path), [trained(50), validated(60, 0.9), trained(100), validated(120, 0.95), trained(150)])
    told(MetricsFile(tmp_path), [trained(150, 0.25)], from_step=120)
    assert steps(tmp_path) == [50, 100, 150]
    assert steps(tmp_path, "valid") == [60, 120]
    assert [row.values["loss"] for row in read_rows(tmp_path)][-1] == 0.25


def test_a_run_that_begins_again_keeps_nothing(tmp_path: Path) -> None:
    told(MetricsFile(tmp_path), [trained(50), trained(100)])
    told(MetricsFile(tmp_path), [trained(50)])
    assert steps(tmp_path) == [50]


def test_seconds_go_on_where_the_kept_rows_end(tmp_path: Path) -> None:
    line = '{"kind": "train", "step": 100, "epoch": 5.0, "loss": 0.5, "seconds": 3600.0}\n'
    (tmp_path / FILE).write_text(line, encoding="utf-8")
    told(MetricsFile(tmp_path), [trained(150)], from_step=100)
    first, second = (row.values["seconds"] for row in read_rows(tmp_path))
    assert first == 3600.0
    assert 3600.0 <= second < 3660.0  # the break in between does not count


def test_rows_that_a_run_took_back_do_not_stand(tmp_path: Path) -> None:
    rows = [
        trained(50),
        trained(100),
        validated(100, 0.9),
        trained(150, 9.0),
        trained(100, 0.4),
        validated(100, 0.91),
        trained(150, 0.3),
    ]
    told(MetricsFile(tmp_path), [*rows, on_test(100, 0.9)])
    kept = current_rows(read_rows(tmp_path))
    assert [(row.kind, row.step) for row in kept] == [
        ("train", 50),
        ("train", 100),
        ("valid", 100),
        ("test", 100),
        ("train", 150),
    ]
    assert [row.values["loss"] for row in kept if row.kind == "train"] == [0.5, 0.4, 0.3]


def test_the_newest_row_is_where_the_run_is_not_what_was_tested(tmp_path: Path) -> None:
    told(MetricsFile(tmp_path), [trained(150), Row("layers", 160, 8.0, {"0.weight": 1.0}), on_test(57, 0.9)])
    newest = last_row(tmp_path)
    assert newest is not None
    assert newest.step == 160


# -- a disk that takes no more --


def test_a_row_that_cannot_be_written_is_a_sentence_and_the_rows_before_it_are_whole(tmp_path: Path) -> None:
    def work() -> tuple[str, list[int]]:
        metrics = MetricsFile(tmp_path)
        metrics.started(start())
        metrics.logged(trained(50))
        room = (tmp_path / FILE).stat().st_size + 20
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))
        with pytest.raises(CannotSave) as refused:
            metrics.logged(trained(100))
        metrics.ended(finished())  # and closing does not try once more
        return str(refused.value), steps(tmp_path)

    said, kept = in_child(work)
    assert said == f"{tmp_path / FILE} could not be written (File too large)."
    assert kept == [50]


def test_a_folder_that_cannot_be_written_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(CannotSave, match="could not be written"):
        MetricsFile(tmp_path / "gone").started(start())


def test_a_resume_on_a_full_disk_keeps_the_rows_there_are(tmp_path: Path) -> None:
    told(MetricsFile(tmp_path), [trained(50), trained(100)])

    def work() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (20, 20))
        with pytest.raises(CannotSave):
            MetricsFile(tmp_path).started(start(from_step=100))

    in_child(work)
    assert steps(tmp_path) == [50, 100]
