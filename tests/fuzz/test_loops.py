"""Made-up loops against the oracle: no disagreement."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given

from tests.conftest import check_script
from tests.fuzz.loops import Enough, Loop, loops, must_be_found, script
from trueloop.rules.gradient.accumulation_not_averaged import ENOUGH as WINDOWS
from trueloop.rules.gradient.step_without_gradient import ENOUGH as BARE_STEPS
from trueloop.rules.mode.trained_in_eval_mode import STEPS

JUDGED = (
    "gradients-never-cleared",
    "gradients-cleared-before-step",
    "step-without-gradient",
    "accumulation-not-averaged",
    "evaluated-in-train-mode",
    "trained-in-eval-mode",
)


@given(loops())
def test_the_rules_say_what_the_oracle_says(loop: Loop) -> None:
    with TemporaryDirectory() as folder:
        checked = check_script(Path(folder), script(loop), select=JUDGED)
    assert checked.verdict.outcome.reason == "finished", checked.output
    assert not checked.verdict.failures, checked.verdict.failures
    assert checked.at() == must_be_found(loop, Enough(BARE_STEPS, WINDOWS, STEPS)), script(loop)
