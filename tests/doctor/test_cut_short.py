"""A run that is ended early, by --steps or --fail-fast, ends at that step, and that is no failure of the script."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import check_script
from trueloop.finding import Finding, Severity

SCRIPT = """
import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)
model = nn.Linear(4, 2)
optimizer = torch.optim.{optimizer}(model.parameters(), lr=0.1)
try:
    for step in range(30):
        try:
            def closure():
                {clear}
                loss = F.cross_entropy(model(torch.randn(6, 4)), torch.randint(0, 2, (6,)))
                loss.backward()
                return loss
            {take}
        except Exception as error:
            print("swallowed", type(error).__name__)
        print("after", step)
finally:
    print("cleaned up")
"""
PLAIN = {"optimizer": "SGD", "clear": "optimizer.zero_grad()", "take": "closure(); optimizer.step()"}
CLOSURE = {"optimizer": "LBFGS", "clear": "optimizer.zero_grad()", "take": "optimizer.step(closure)"}


@pytest.mark.parametrize("words", [PLAIN, CLOSURE], ids=["plain", "closure"])
def test_steps_ends_the_run_after_that_many_and_no_handler_of_the_script_keeps_it(
    tmp_path: Path, words: dict[str, str]
) -> None:
    checked = check_script(tmp_path, SCRIPT.format(**words), last_step=5)
    assert checked.output == "".join(f"after {step}\n" for step in range(4)) + "cleaned up\n"
    assert checked.verdict.outcome.reason == "cut"
    assert checked.verdict.watched.steps == 5
    assert checked.verdict.exit_code(Severity.ERROR) == 0
    assert checked.findings == ()


def test_a_bare_except_is_asked_again_at_every_step(tmp_path: Path) -> None:
    text = SCRIPT.format(**PLAIN).replace("except Exception as error", "except BaseException as error")
    checked = check_script(tmp_path, text, last_step=28)
    assert checked.output.count("swallowed StopTheRun") == 3
    assert checked.verdict.outcome.reason == "finished"


def test_fail_fast_ends_the_run_at_the_first_error(tmp_path: Path) -> None:
    told: list[Finding] = []

    def on_error(finding: Finding) -> bool:
        told.append(finding)
        (tmp_path / "told.txt").write_text("\n".join(f.code for f in told), encoding="utf-8")
        return True

    checked = check_script(tmp_path, SCRIPT.format(**{**PLAIN, "clear": "pass"}), on_error=on_error)
    assert checked.verdict.outcome.reason == "cut"
    assert checked.verdict.watched.steps < 30
    assert "gradients-never-cleared" in checked.names()
    assert checked.verdict.exit_code(Severity.ERROR) == 1
    assert checked.verdict.exit_code(None) == 0
    assert (tmp_path / "told.txt").read_text(encoding="utf-8") == "GRD101"


def test_an_error_that_is_allowed_does_not_end_it(tmp_path: Path) -> None:
    text = SCRIPT.format(**{**PLAIN, "clear": "pass"}).replace(
        "loss.backward()", "loss.backward()  # trueloop: allow[GRD101]"
    )
    checked = check_script(tmp_path, text, on_error=lambda _: True)
    assert checked.verdict.outcome.reason == "finished"
    assert checked.verdict.allowed == 1
