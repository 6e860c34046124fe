"""The journal of a rank: what it holds can be read by others at any moment, also after its rank has died."""

from __future__ import annotations

import os
import time
from pathlib import Path

from tests.conftest import in_child
from trueloop.event import Place
from trueloop.taps.collective_log import SLOTS, CollectiveLog, read_collective_log

WORLD = ("0", (0, 1))
LINE, CALLER = Place("/train.py", 7, "main"), Place("/train.py", 40, "")


def enter(
    journal: CollectiveLog, name: str = "all_reduce", group: tuple[str, tuple[int, ...]] = WORLD, *, direct: bool = True
) -> tuple[object, ...]:
    return journal.enter(name, group, (LINE, CALLER), size=3, dtype="torch.float32", direct=direct)


def test_another_process_reads_what_was_entered_left_and_failed(tmp_path: Path) -> None:
    journal = CollectiveLog(1, tmp_path)
    journal.leave(enter(journal), failed=False)
    journal.leave(enter(journal, "barrier"), failed=True)
    enter(journal, "broadcast")
    calls = in_child(lambda: read_collective_log(1, tmp_path))
    assert [(call.name, call.number, call.state) for call in calls] == [
        ("all_reduce", 1, "left"),
        ("barrier", 2, "failed"),
        ("broadcast", 3, "inside"),
    ]
    assert calls[0].members == (0, 1)
    assert calls[0].places == (LINE, CALLER)
    assert (calls[0].size, calls[0].dtype) == (3, "torch.float32")
    assert [(call.name, call.state) for call in journal.calls()] == [(call.name, call.state) for call in calls]


def test_a_rank_that_was_killed_inside_a_call_has_written_it_down(tmp_path: Path) -> None:
    child = os.fork()
    if child == 0:
        enter(CollectiveLog(0, tmp_path))
        os.kill(os.getpid(), 9)
    os.waitpid(child, 0)
    (call,) = read_collective_log(0, tmp_path)
    assert (call.name, call.state) == ("all_reduce", "inside")


def test_groups_and_calls_of_ones_own_are_counted_apart(tmp_path: Path) -> None:
    journal = CollectiveLog(0, tmp_path)
    for name, group, direct in (("a", WORLD, True), ("b", ("1", (0,)), True), ("c", WORLD, False), ("d", WORLD, True)):
        enter(journal, name, group, direct=direct)
    assert [(call.name, call.number, call.direct) for call in journal.calls()] == [
        ("a", 1, 1),
        ("b", 1, 1),
        ("c", 2, 0),
        ("d", 3, 2),
    ]


def test_the_oldest_calls_make_room(tmp_path: Path) -> None:
    journal = CollectiveLog(0, tmp_path)
    for _ in range(SLOTS + 10):
        journal.leave(enter(journal), failed=False)
    calls = read_collective_log(0, tmp_path)
    assert [call.number for call in calls] == list(range(11, SLOTS + 11))
    assert (tmp_path / "0.calls").stat().st_size < 64 * 1024
    assert len((tmp_path / "0.names").read_text().splitlines()) == 5, "group, two lines, name and dtype: once each"


def test_seconds_are_those_inside_the_call(tmp_path: Path) -> None:
    journal = CollectiveLog(0, tmp_path)
    record = enter(journal)
    time.sleep(0.05)
    assert read_collective_log(0, tmp_path)[0].seconds >= 0.05
    journal.leave(record, failed=False)
    left = read_collective_log(0, tmp_path)[0].seconds
    time.sleep(0.05)
    assert read_collective_log(0, tmp_path)[0].seconds == left


def test_without_a_folder_it_is_kept_all_the_same() -> None:
    journal = CollectiveLog(0, None)
    enter(journal)
    assert [call.name for call in journal.calls()] == ["all_reduce"]


def test_nobody_has_begun(tmp_path: Path) -> None:
    assert read_collective_log(3, tmp_path) == ()


def test_a_half_written_record_is_not_read(tmp_path: Path) -> None:
    journal = CollectiveLog(0, tmp_path)
    enter(journal)
    data = bytearray((tmp_path / "0.calls").read_bytes())
    data[-1] ^= 0xFF
    (tmp_path / "0.calls").write_bytes(data)
    assert read_collective_log(0, tmp_path) == ()
