"""The bundled broken script shows what the README says it shows; the same job written in three ways learns the same."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

import pytest

from tests.conftest import Checked, check_script, in_child

EXAMPLES = Path(__file__).parent.parent / "examples"
SCRIPT = EXAMPLES / "broken_training.py"

EXPECTED = {
    "layers-in-a-plain-list": "self.hidden = [",
    "softmax-before-cross-entropy": "torch.softmax",
    "gradients-never-cleared": "loss.backward()",
    "graph-never-freed": "losses.append(loss)",
    "evaluated-in-train-mode": "model(x).argmax(1)",
}


def test_the_broken_example_has_its_five_bugs_at_their_lines_and_no_other(tmp_path: Path) -> None:
    checked: Checked = check_script(tmp_path, SCRIPT.read_text(encoding="utf-8"))
    found = {finding.name: finding.source for finding in checked.findings}
    assert set(found) == set(EXPECTED)
    for name, text in EXPECTED.items():
        assert text in found[name], name


def curve_of(example: str, folder: Path) -> list[float]:
    """The losses of the epochs, as an example's main() returns them."""

    def work() -> list[float]:
        sys.path.insert(0, str(EXAMPLES))
        curve: list[float] = import_module(example).main(str(folder))
        return curve

    losses: list[float] = in_child(work)
    return losses


def test_the_same_job_with_zero_some_and_all_pieces_learns_the_same(tmp_path: Path) -> None:
    zero = curve_of("loop_with_zero_pieces", tmp_path / "zero")
    assert len(zero) == 5
    assert zero[-1] < 0.25 < 1.0 < zero[0]
    assert curve_of("loop_with_some_pieces", tmp_path / "some") == pytest.approx(zero, rel=1e-4)
    assert curve_of("loop_with_all_pieces", tmp_path / "all") == pytest.approx(zero, rel=1e-4)


@pytest.mark.parametrize("example", ["loop_with_zero_pieces", "loop_with_some_pieces"])
def test_a_loop_by_hand_that_ran_before_has_nothing_left_to_do(example: str, tmp_path: Path) -> None:
    first = curve_of(example, tmp_path)
    assert curve_of(example, tmp_path) == first


def test_the_loop_by_hand_passes_our_own_rules(tmp_path: Path) -> None:
    text = (EXAMPLES / "loop_with_zero_pieces.py").read_text(encoding="utf-8")
    checked = check_script(
        tmp_path, text.replace("import math\n", f"import math, sys; sys.path.insert(0, {str(EXAMPLES)!r})\n")
    )
    assert "epoch 5  loss" in checked.output
    assert checked.findings == ()
