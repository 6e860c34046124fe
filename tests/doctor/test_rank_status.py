"""What a rank leaves of where it stands."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from trueloop.doctor.rank_status import RankStatus, read_status
from trueloop.doctor.ranks import Rank
from trueloop.event import Place

STAND = RankStatus(
    12.5, 2.5, "loading", (Place("/train.py", 7, "Images.__getitem__"), Place("/train.py", 20)), "Images", 4711
)


def test_what_is_left_for_the_others_can_be_read_by_them(tmp_path: Path) -> None:
    assert read_status(STAND.to_json()) == STAND
    assert STAND.seconds() == 10
    one = Rank(1, 0, 2, tmp_path)
    assert one.status_of(1) is None, "it has not looked yet"
    one.put("1.status", STAND.to_json())
    assert Rank(0, 0, 2, tmp_path).status_of(1) == STAND


def test_reading_it_loads_no_torch() -> None:
    """`trueloop train` of one process asks the ranks who is first, and must not load the compiler for that."""
    code = "import sys, trueloop.doctor.ranks, trueloop.cli.options; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
