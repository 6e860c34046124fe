"""The bundled broken script shows what the README says it shows."""

from __future__ import annotations

from pathlib import Path

from tests.conftest import Checked, check_script

SCRIPT = Path(__file__).parent.parent / "examples" / "broken_training.py"

EXPECTED = {
    "layers-in-a-plain-list": "self.hidden = [",
    "softmax-before-cross-entropy": "torch.softmax",
    "gradients-never-cleared": "loss.backward()",
    "graph-kept-alive": "losses.append(loss)",
    "evaluated-in-train-mode": "model(x).argmax(1)",
}


def test_the_broken_example_has_its_five_bugs_at_their_lines_and_no_other(tmp_path: Path) -> None:
    checked: Checked = check_script(tmp_path, SCRIPT.read_text(encoding="utf-8"))
    found = {finding.name: finding.source for finding in checked.findings}
    assert set(found) == set(EXPECTED)
    for name, text in EXPECTED.items():
        assert text in found[name], name
