"""Scripts that really crash, checked as a user's would be; what is said of each is compared with what is known of
it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

import pytest
import torch

from tests.conftest import in_child
from trueloop.crash.explain import all_kinds
from trueloop.crash.scene import Scene
from trueloop.doctor.examine import examine
from trueloop.doctor.launch import find_script
from trueloop.doctor.watch import Watch
from trueloop.results.check import CrashExplanation, Verdict
from trueloop.usercode.source import set_base_folder

IMPORTS = "import torch\nfrom torch import nn\nimport torch.nn.functional as F\n"
"""Before every script; its lines are counted with the script's."""


@dataclass(frozen=True)
class Crash:
    """A script that crashed, and what was said of it."""

    script: str
    verdict: Verdict
    kinds: tuple[str, ...]
    """Every kind that would have explained it: there must not be two."""

    @property
    def said(self) -> CrashExplanation:
        assert self.verdict.crash is not None, f"nothing was said of {self.verdict.outcome.exception}"
        assert self.kinds == (self.verdict.crash.kind,)
        return self.verdict.crash

    @property
    def details(self) -> str:
        return "\n".join(self.said.details)

    @property
    def line(self) -> int:
        assert self.said.place is not None
        return self.said.place.line

    def at(self, mark: str) -> int:
        """The line of the script that holds the mark."""
        return next(number for number, line in enumerate(self.script.splitlines(), 1) if mark in line)


def crash_in(folder: Path, script: str) -> Crash:
    """Check a script in a child, and ask every kind about its exception."""
    script = IMPORTS + dedent(script)
    (folder / "train.py").write_text(script, encoding="utf-8")

    def work() -> Crash:
        os.chdir(folder)
        set_base_folder(str(folder))
        sys.stderr = sys.stdout = (folder / "printed.txt").open("w", encoding="utf-8")
        torch.manual_seed(0)
        verdict, error = examine(find_script("train.py", ()), Watch(script="train.py"))
        assert error is not None, "the script did not crash"
        scene = Scene.of(error, torch.is_grad_enabled())
        with torch.no_grad():
            kinds = tuple(name for name, kind in all_kinds().items() if scene is not None and kind(scene) is not None)
        return Crash(script, verdict, kinds)

    crash: Crash = in_child(work)
    assert not crash.verdict.failures, crash.verdict.failures
    return crash


@pytest.fixture
def crash(tmp_path: Path) -> Callable[[str], Crash]:
    """`crash(text)` -> what the check says of the script's crash."""
    return lambda script: crash_in(tmp_path, script)
