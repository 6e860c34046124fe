"""From Python, a signal that ended the run ends the program too, once the run is saved."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """\
import os, signal, sys
import torch
from torch import nn
import trueloop
from trueloop import Hook, Recipe, Splits, Tensors

class Asked(Hook):
    def logged(self, row):
        if row.step == 7:
            os.kill(os.getpid(), signal.{signal})

def read(request):
    inputs = torch.randn(64, 4, generator=torch.Generator().manual_seed(0))
    return Splits(Tensors(inputs, (inputs[:, 0] > 0).long()))

def model():
    return nn.Linear(4, 2)

hooks = (Asked(),) if {ask} else ()
recipe = Recipe(
    name="r", model=model, data=read, steps=20, batch=8, log_every=1, trackers=(), device="cpu", hooks=hooks
)
{before}
{call}
print("went on")
"""


def ran(folder: Path, name: str, call: str, *, ask: bool = True, before: str = "") -> subprocess.CompletedProcess[str]:
    text = SCRIPT.format(signal=name, call=call, ask=ask, before=before)
    return subprocess.run([sys.executable, "-c", text], cwd=folder, capture_output=True, text=True, timeout=120)


def status(folder: Path) -> tuple[str, int]:
    about = json.loads((folder / "runs" / "r" / "run.json").read_text(encoding="utf-8"))
    return about["status"], about["step"]


@pytest.mark.long
def test_sigterm_saves_and_ends_the_program(tmp_path: Path) -> None:
    done = ran(tmp_path, "SIGTERM", "trueloop.train(recipe)")
    assert done.returncode == -signal.SIGTERM
    assert "went on" not in done.stdout
    assert "trueloop resume" in done.stdout
    assert status(tmp_path) == ("signal", 7)
    later = ran(tmp_path, "SIGTERM", "trueloop.resume(recipe, 'runs/r')", ask=False)
    assert later.returncode == 0, later.stderr
    assert status(tmp_path) == ("finished", 20)


def test_ctrl_c_is_the_programs_to_handle_once_the_run_is_saved(tmp_path: Path) -> None:
    call = "try:\n    trueloop.train(recipe)\nexcept KeyboardInterrupt:\n    sys.exit(17)"
    assert ran(tmp_path, "SIGINT", call).returncode == 17
    assert status(tmp_path) == ("signal", 7)


@pytest.mark.parametrize("name", ["SIGTERM"])
def test_a_handler_of_the_programs_own_is_called(tmp_path: Path, name: str) -> None:
    before = f"signal.signal(signal.{name}, lambda *_: print('heard'))"
    done = ran(tmp_path, name, "trueloop.train(recipe)", before=before)
    assert done.returncode == 0, done.stderr
    assert "heard\nwent on" in done.stdout


def test_listeners_that_cannot_be_opened_are_told_of_in_their_own_words(tmp_path: Path) -> None:
    before = (
        "from trueloop.errors import CannotSave\nfrom trueloop.session import train as session\n"
        "def full(*_): raise CannotSave('The disk is full.')\nsession.open_listeners = full"
    )
    call = "try:\n    trueloop.train(recipe)\nexcept CannotSave as error:\n    print(error)"
    done = ran(tmp_path, "SIGTERM", call, ask=False, before=before)
    assert done.stdout == "The disk is full.\nwent on\n", done.stderr
    about = json.loads((tmp_path / "runs" / "r" / "run.json").read_text(encoding="utf-8"))
    assert (about["status"], about["message"]) == ("failed", "CannotSave: The disk is full.")
