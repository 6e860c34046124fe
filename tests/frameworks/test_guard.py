"""The callbacks of `trueloop.lightning` and `trueloop.hf` in the frameworks themselves."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.frameworks.running import run_in, write
from tests.frameworks.test_broken import BUGS, needs_frameworks, program

GUARDS = {"lightning": "lightning", "transformers": "hf"}


def _program(framework: str, *, broken: bool) -> str:
    bug = BUGS[framework, "softmax"]
    text = program(framework, bug.broken if broken else bug.healthy)
    guard = f'trueloop.{GUARDS[framework]}.Guard(fail_on="error", run=False)'
    if framework == "lightning":
        guarded = text.replace("L.Trainer(", f"L.Trainer(callbacks=[{guard}], ")
    else:
        guarded = text.replace("trainer.train()", f"trainer.add_callback({guard})\ntrainer.train()")
    assert guard in guarded
    return f"import trueloop\n{guarded}"


@pytest.mark.long
@needs_frameworks
@pytest.mark.parametrize("framework", GUARDS)
def test_a_bug_in_a_guarded_training_fails_it_and_a_healthy_one_passes(tmp_path: Path, framework: str) -> None:
    text = write(tmp_path, _program(framework, broken=True))
    line = next(number for number, each in enumerate(text.splitlines(), 1) if "# error: [softmax" in each)
    ran = run_in(tmp_path, "train.py")
    assert ran.returncode == 1
    assert f"error LOS101 softmax-before-cross-entropy  train.py:{line}" in ran.stderr
    assert "GuardFailed: Guard(fail_on='error'): the training has 1 finding" in ran.stderr
    write(tmp_path, _program(framework, broken=False))
    ran = run_in(tmp_path, "train.py")
    assert ran.returncode == 0, ran.stderr
    assert "nothing found in" in ran.stderr
