"""The recipe of docs/training/hooks.md: samples, unfreezing and stopping; killed and resumed, bit-identical."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs_blocks import python_blocks
from tests.session.killed import assert_survives
from tests.session.test_changes import about, trueloop


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    text = python_blocks("training/hooks.md")[0]
    text = text.replace("lr=1e-2", 'lr=1e-2, log_every=1, save_every=3, trackers=(), device="cpu"')
    (tmp_path / "hooked.py").write_text(text, encoding="utf-8")
    return tmp_path


def test_a_killed_run_ends_at_the_same_step_with_the_same_bits(folder: Path) -> None:
    assert_survives(folder, "hooked.py", (11, 20, 30, 45))
    found = about(folder, "killed")
    assert found["status"] == "early-stopped"
    assert found["message"] == "The validation loss was below 0.4 twice."
    assert (folder / "runs/killed/samples-1.txt").read_text() == (folder / "runs/undisturbed/samples-1.txt").read_text()


@pytest.mark.parametrize(
    ("before", "after"), [("Unfreeze(2)", "Unfreeze(3)"), ("loop.epoch == self.after", "loop.epoch >= self.after")]
)
def test_a_changed_hook_stops_a_resume(folder: Path, before: str, after: str) -> None:
    assert trueloop(folder, "train", "hooked.py", "--name", "a", "--set", "epochs=1")[0] == 0
    file = folder / "hooked.py"
    file.write_text(file.read_text(encoding="utf-8").replace(before, after), encoding="utf-8")
    code, printed = trueloop(folder, "resume", "a", "--set", "epochs=2")
    assert (code, "different code" in printed) == (4, True), printed
