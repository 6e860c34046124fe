"""Made-up loops against the oracle: no disagreement."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given

from tests.fuzz.loops import Enough, Loop, loops, may_be_found, must_be_found, script
from trueloop.doctor.watch import Watch
from trueloop.results.check import Verdict
from trueloop.rules.gradient.accumulation_not_averaged import ENOUGH as WINDOWS
from trueloop.rules.gradient.step_without_gradient import ENOUGH as BARE_STEPS
from trueloop.rules.mode.trained_in_eval_mode import STEPS
from trueloop.usercode.settings import Settings

JUDGED = (
    "gradients-never-cleared",
    "gradients-cleared-before-step",
    "step-without-gradient",
    "accumulation-not-averaged",
    "evaluated-in-train-mode",
    "trained-in-eval-mode",
)
_number = count()


def checked(text: str, folder: Path) -> Verdict:
    """Run a loop in this process, under watch: two thousand of them are too many for a process each."""
    path = folder / f"loop_{next(_number)}.py"  # sources are remembered by their path
    path.write_text(text, encoding="utf-8")
    code = compile(text, str(path), "exec")
    with Watch(select=JUDGED, settings=Settings()) as watch:
        exec(code, {"__name__": "loop"})
    assert watch.verdict is not None
    return watch.verdict


@given(loops())
def test_the_rules_say_what_the_oracle_says(loop: Loop) -> None:
    with TemporaryDirectory() as folder:
        verdict = checked(script(loop), Path(folder))
    assert not verdict.failures, verdict.failures
    found = {(finding.name, finding.place.line if finding.place else 0) for finding in verdict.findings}
    expected = must_be_found(loop, Enough(BARE_STEPS, WINDOWS, STEPS))
    assert expected <= found <= expected | may_be_found(loop), script(loop)
