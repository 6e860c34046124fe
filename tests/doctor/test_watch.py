"""`trueloop.watch()`: the same rules from inside a script or a notebook, without the command."""

from __future__ import annotations

import linecache
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional

import trueloop
from tests.conftest import check_script, in_child
from trueloop.doctor.watch import Watch
from trueloop.errors import Misuse

MODEL = """
import torch
from torch import nn
from torch.nn import functional
model = nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""
LOOP = """
for _ in range({steps}):
    loss = functional.cross_entropy(model(torch.randn(6, 4)), torch.randint(0, 2, (6,)))
    loss.backward()
    optimizer.step()
"""
"""Gradients are never cleared."""


def _model_and_optimizer() -> tuple[nn.Module, torch.optim.Optimizer]:
    model = nn.Linear(4, 2)
    return model, torch.optim.SGD(model.parameters(), lr=0.1)


def _train(model: nn.Module, optimizer: torch.optim.Optimizer, steps: int = 8) -> None:
    for _ in range(steps):
        loss = functional.cross_entropy(model(torch.randn(6, 4)), torch.randint(0, 2, (6,)))
        torch.autograd.backward(loss)
        optimizer.step()


def test_a_block_that_begins_when_model_and_optimizer_exist_already(capsys: pytest.CaptureFixture[str]) -> None:
    def work() -> tuple[set[str], set[str], int]:
        model, optimizer = _model_and_optimizer()
        _train(model, optimizer, 2)
        with trueloop.watch() as watch:
            _train(model, optimizer)
            inside = {finding.name for finding in watch.findings}
        _train(model, optimizer, 2)
        assert watch.verdict is not None
        return inside, {finding.name for finding in watch.findings}, watch.verdict.watched.steps

    inside, after, steps = in_child(work)
    assert "gradients-never-cleared" in inside
    assert inside <= after
    assert steps == 8


def test_a_second_watch_is_refused_with_a_sentence() -> None:
    def work() -> tuple[str, str]:
        with trueloop.watch() as watch:
            with pytest.raises(Misuse) as refused, trueloop.watch():
                pass
            assert watch.start() is watch
        with pytest.raises(Misuse) as ended:
            watch.start()
        with trueloop.watch():
            pass
        return str(refused.value), str(ended.value)

    refused, ended = in_child(work)
    assert "already watched" in refused
    assert "has ended" in ended


def test_under_the_command_the_line_in_the_script_gives_way(tmp_path: Path) -> None:
    text = "import torch, trueloop\nfrom torch import nn\nfrom torch.nn import functional\nwatch = trueloop.watch()\n"
    text += "model = nn.Linear(4, 2)\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
    text += (
        "with trueloop.watch() as inner:"
        + LOOP.format(steps=8).replace("\n", "\n    ")
        + "\nprint(len(inner.findings), watch.verdict)\n"
    )
    checked = check_script(tmp_path, text)
    assert checked.verdict.outcome.reason == "finished", checked.output
    assert "gradients-never-cleared" in checked.names()
    assert checked.output == f"{len(checked.findings)} None\n"


def test_in_a_worker_it_does_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def work() -> tuple[bool, tuple[object, ...]]:
        monkeypatch.setattr("multiprocessing.parent_process", object)
        with trueloop.watch() as watch:
            _train(*_model_and_optimizer())
        return watch.verdict is None, watch.findings

    assert in_child(work) == (True, ())


@pytest.mark.parametrize("cell", ["/tmp/ipykernel_1/123.py", "<ipython-input-1-abc>"])
def test_in_a_notebook_the_line_of_the_cell_is_shown(cell: str) -> None:
    def work() -> list[tuple[str, int, str]]:
        text = LOOP.format(steps=8)
        linecache.cache[cell] = (len(text), None, text.splitlines(keepends=True), cell)
        model, optimizer = _model_and_optimizer()
        with trueloop.watch(select=["GRD101"]) as watch:
            exec(
                compile(text, cell, "exec"),
                {"torch": torch, "functional": functional, "model": model, "optimizer": optimizer},
            )
        return [(f.place.path, f.place.line, f.source.strip()) for f in watch.findings if f.place]

    assert in_child(work) == [(cell, 4, "loss.backward()")]


def test_an_error_inside_the_block_is_passed_on_without_our_frames() -> None:
    def work() -> list[str]:
        try:
            with trueloop.watch() as watch:
                nn.Sequential(nn.Linear(4, 2))(torch.ones(1, 5))
        except RuntimeError as error:
            assert watch.verdict is not None
            assert watch.verdict.outcome.reason == "exception"
            trace, names = error.__traceback__, []
            while trace is not None:
                names.append(trace.tb_frame.f_code.co_filename)
                trace = trace.tb_next
            return names
        return []

    names = in_child(work)
    assert names
    assert not [name for name in names if "trueloop" in name and "tests" not in name]


def test_as_a_first_line_it_reports_at_the_end_even_after_a_crash(tmp_path: Path) -> None:
    text = (
        "import trueloop\ntrueloop.watch()\nimport torch\nfrom torch import nn\nfrom torch.nn import "
        "functional\nmodel = nn.Linear(4, 2)\n"
    )
    text += (
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n" + LOOP.format(steps=8) + "model(torch.ones(1, 5))\n"
    )
    (tmp_path / "train.py").write_text(text, encoding="utf-8")
    done = subprocess.run([sys.executable, "train.py"], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert done.stdout == ""
    crash, _, report = done.stderr.partition("GRD101")
    assert crash.count("Traceback") == 1
    assert "src/trueloop" not in crash
    assert "gradients-never-cleared" in report
    assert "The script itself failed: RuntimeError: mat1 and mat2" in report


def test_a_watch_that_was_never_started_has_found_nothing() -> None:
    assert Watch(script="train.py").findings == ()
