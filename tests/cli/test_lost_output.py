"""`trueloop train ... 2>&1 | head -1`: the reader leaves, the run goes on."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.cli.test_train import RECIPE
from tests.torture.bits import differences, remains

TALKS = RECIPE.replace("return self.layer(x)", "print('forward')\n        return self.layer(x)")


def begin(folder: Path, name: str) -> subprocess.Popen[str]:
    words = [sys.executable, "-m", "trueloop", "train", "talks.py", "--name", name, "--set", "log_every=1"]
    return subprocess.Popen(words, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def test_a_closed_pipe_does_not_end_a_run(tmp_path: Path) -> None:
    """Neither for the log nor for what the user's own model prints."""
    (tmp_path / "talks.py").write_text(TALKS)
    heard, unheard = begin(tmp_path, "heard"), begin(tmp_path, "unheard")
    assert unheard.stdout is not None
    assert unheard.stdout.readline()
    unheard.stdout.close()
    out, _ = heard.communicate(timeout=240)
    assert "forward" in out
    assert heard.returncode == 0
    assert unheard.wait(timeout=240) == 0
    about = json.loads((tmp_path / "runs" / "unheard" / "run.json").read_text())
    assert about["status"] == "finished"
    assert not list(differences(remains(tmp_path / "runs" / "heard"), remains(tmp_path / "runs" / "unheard")))
