"""The recipe of docs/training/groups-and-schedules.md: trained, killed, resumed; code that changed stops it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.docs_blocks import python_blocks
from tests.session.killed import assert_survives
from tests.session.test_changes import trueloop


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    text = python_blocks("training/groups-and-schedules.md")[0]
    text = text.replace("log_every=10", 'log_every=1, save_every=3, epochs=2, trackers=(), device="cpu"')
    (tmp_path / "layers.py").write_text(text.replace("epochs=5, ", ""), encoding="utf-8")
    return tmp_path


def test_a_killed_run_ends_with_the_same_bits(folder: Path) -> None:
    assert_survives(folder, "layers.py", (5, 8, 14))
    rows = [json.loads(line) for line in (folder / "runs/killed/metrics.jsonl").read_text("utf-8").splitlines()]
    rates = [row for row in rows if row["kind"] == "train"]
    assert all(values["lr/backbone"] == pytest.approx(values["lr"] * 0.1) for values in rates)
    assert not any("lr/head" in values for values in rates)


@pytest.mark.parametrize(("before", "after"), [('"lr_scale": 0.1', '"lr_scale": 0.2'), ("0.5 * (1 +", "0.4 * (1 +")])
def test_a_change_of_the_function_stops_a_resume(folder: Path, before: str, after: str) -> None:
    assert trueloop(folder, "train", "layers.py", "--name", "a")[0] == 0
    file = folder / "layers.py"
    file.write_text(file.read_text(encoding="utf-8").replace(before, after), encoding="utf-8")
    code, printed = trueloop(folder, "resume", "a", "--set", "epochs=3")
    assert (code, "different code" in printed) == (4, True), printed
    code, printed = trueloop(folder, "resume", "a", "--set", "epochs=3", "--accept-changes")
    assert code == 0, printed
    rows = [json.loads(line) for line in (folder / "runs/a/metrics.jsonl").read_text("utf-8").splitlines()]
    last = [row for row in rows if row["kind"] == "train"][-1]
    assert last["lr/backbone"] / last["lr"] == pytest.approx(0.2 if "lr_scale" in after else 0.1)
