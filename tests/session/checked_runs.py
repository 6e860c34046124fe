"""Scripts that are checked with a run folder, each in a child forked from this warm process."""

from __future__ import annotations

import json
import os
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch

from tests.conftest import in_child
from trueloop.doctor.examine import examine
from trueloop.doctor.launch import find_script
from trueloop.doctor.watch import Watch
from trueloop.hook import Row
from trueloop.observers.assemble import all_observers
from trueloop.rules.catalogue import all_rules
from trueloop.session.check_run import CheckRun
from trueloop.track.metrics import read_rows
from trueloop.usercode.settings import Settings

HEAD = """
import torch
from torch import nn
from torch.nn import functional
torch.manual_seed(0)
"""


def checked_run(folder: Path, text: str, *arguments: str, file_limit: int = 0, keep_run: bool = True) -> str:
    """Check a script in the folder, with its run in runs/train; what it printed, and the sentence about its folder."""
    (folder / "train.py").write_text(HEAD + text, encoding="utf-8")

    def work() -> str:
        os.chdir(folder)
        printed = folder / "printed.txt"
        sys.stdout = sys.stderr = printed.open("w", encoding="utf-8")
        run, why = (
            CheckRun.create(Path("runs"), "train", "train.py", arguments, named=False) if keep_run else (None, "")
        )
        if file_limit:
            import resource

            resource.setrlimit(resource.RLIMIT_FSIZE, (file_limit, file_limit))
        with nullcontext() if run is None else run.console():  # as `trueloop check` does
            verdict, _ = examine(find_script("train.py", arguments), Watch(settings=Settings(), run=run))
        assert verdict.failures == (), verdict.failures
        sentence = why
        if run is not None:
            run.conclude(verdict, verdict.outcome.exit_code)
            sentence = run.failure() or run.shown
        sys.stdout.flush()
        return printed.read_text(encoding="utf-8") + sentence

    all_observers()
    all_rules()
    torch.manual_seed(0)
    answer: str = in_child(work)
    return answer


def rows_of(folder: Path, kind: str = "train") -> list[Row]:
    return list(read_rows(folder / "runs" / "train", (kind,)))


def file_of(folder: Path, name: str) -> Any:
    return json.loads((folder / "runs" / "train" / name).read_text(encoding="utf-8"))
