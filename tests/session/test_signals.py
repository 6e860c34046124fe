"""Signals in the middle of an evaluation, and a terminal that is closed: the run stops at once, has saved, and its
resume ends with the bits of a run that nobody disturbed."""

from __future__ import annotations

import functools
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest
from torch import nn

from tests.conftest import in_child
from tests.session.stopping import at_forward, recipe_of, signalling
from tests.torture.bits import differences, remains
from tests.torture.recipes import SCENARIOS, network
from tests.waiting import until
from trueloop.cli.train import exit_code
from trueloop.recipe.recipe import Recipe
from trueloop.session.folder import read_about
from trueloop.session.train import resume, train

BATCHES = 10  # of each evaluation
OWN = ("own-step", "carry", "stream")  # scenarios with models or a length of their own
PLAIN = [each.name for each in SCENARIOS if each.name not in OWN]


def settled(scenario: str) -> Recipe:
    return recipe_of(scenario, evaluation_batch=16, evaluate_every=None)


def at_evaluation(
    recipe: Recipe, number: int, work: Callable[[], object], seen_file: Path, resumed: bool = False
) -> Recipe:
    """Something happens in the model's nth evaluation forward; the file counts all of them."""

    @functools.wraps(network)
    def build() -> nn.Module:
        model, seen, begun = network(), 0, resumed

        def count(module: nn.Module, inputs: Any) -> None:
            nonlocal seen, begun
            begun = begun or module.training  # before the first step the model is tried
            if begun and not module.training:
                seen += 1
                seen_file.write_text(str(seen))
                if seen == number:
                    work()

        model.register_forward_pre_hook(count)
        return model

    return replace(recipe, model=build)


def trained(recipe: Recipe, run: Path) -> tuple[int, str]:
    def work() -> tuple[int, str]:
        if run.exists():
            done = resume(recipe, run, hooks=[], hand_on_signals=False)
        else:
            done = train(recipe, name=run.name, runs=run.parent, hooks=[], hand_on_signals=False)
        return exit_code(done.ending), done.ending.message

    code, words = in_child(work)
    return code, words


@cache
def undisturbed(scenario: str) -> dict[str, Any]:
    run = Path(mkdtemp()) / "undisturbed"
    assert trained(settled(scenario), run)[0] == 0
    return remains(run)


@pytest.mark.parametrize("scenario", PLAIN)
@pytest.mark.parametrize("forward", [3, 2 * BATCHES + 4, 3 * BATCHES + 4], ids=["first", "last", "test"])
def test_a_signal_during_an_evaluation_does_not_wait_for_its_end(tmp_path: Path, scenario: str, forward: int) -> None:
    run, seen = tmp_path / "run", tmp_path / "seen"
    code, words = trained(at_evaluation(settled(scenario), forward, signalling(signal.SIGTERM), seen), run)
    assert code == 143
    assert f"trueloop resume {run}" in words
    assert int(seen.read_text()) == forward, "it evaluated on after the signal"
    about = read_about(run)
    assert about["status"] == "signal"
    assert about["step"] == remains(run)["last checkpoint"]["about"]["step"] > 0
    assert trained(settled(scenario), run)[0] == 0
    assert not list(differences(undisturbed(scenario), remains(run)))


def test_an_interrupted_evaluation_may_be_interrupted_again(tmp_path: Path) -> None:
    run, seen = tmp_path / "run", tmp_path / "seen"
    for forward in (13, 2):
        stopped = at_evaluation(settled("resident"), forward, signalling(signal.SIGTERM), seen, resumed=forward == 2)
        assert trained(stopped, run)[0] == 143
        assert read_about(run)["step"] == remains(run)["last checkpoint"]["about"]["step"]
    assert trained(settled("resident"), run)[0] == 0
    assert not list(differences(undisturbed("resident"), remains(run)))


@pytest.mark.parametrize("to", ["process", "group"])
def test_a_closed_terminal_saves_and_ends_the_run(tmp_path: Path, to: str) -> None:
    run = tmp_path / "run"
    hang_up = signalling(signal.SIGHUP) if to == "process" else functools.partial(os.killpg, 0, signal.SIGHUP)

    def work() -> int:
        os.setsid()
        recipe = at_forward(settled("workers"), 26, hang_up)
        return exit_code(train(recipe, name=run.name, runs=run.parent, hooks=[], hand_on_signals=False).ending)

    assert in_child(work) == 128 + signal.SIGHUP
    assert read_about(run)["status"] == "signal"
    assert trained(settled("workers"), run)[0] == 0
    assert not list(differences(undisturbed("workers"), remains(run)))


def test_a_run_shielded_from_a_closed_terminal_stays_shielded(tmp_path: Path) -> None:
    """nohup ignores SIGHUP for it."""
    run = tmp_path / "run"

    def work() -> int:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        recipe = at_forward(settled("resident"), 26, signalling(signal.SIGHUP))
        return exit_code(train(recipe, name=run.name, runs=run.parent, hooks=[], hand_on_signals=False).ending)

    assert in_child(work) == 0


PLAYING = """
import os, pathlib, signal, time
import torch
from torch import nn
import trueloop

def data(request):
    inputs = torch.randn(64, 4, generator=torch.Generator().manual_seed(0))
    return trueloop.Splits(trueloop.Tensors(inputs, inputs[:, :2].argmax(1)))

def step(loop, batch):
    loss = nn.functional.cross_entropy(loop.model(batch.inputs), batch.targets)
    loop.update(loss)
    return loss

def evaluate(models):
    with torch.no_grad():
        models[0].weight.mul_(2)  # as if other weights were swapped in
    torch.randn(5)
    if pathlib.Path("ask").exists():
        pathlib.Path("evaluating").touch()
        try:
            while pathlib.Path("ask").exists():
                pathlib.Path("alive").touch()
        except Exception:
            pass
    with torch.no_grad():
        models[0].weight.div_(2)
    return {"score": models[0].weight.sum().item()}

recipe = trueloop.Recipe("playing", model=lambda: nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 2)),
    data=data, step=step, evaluate=evaluate, metric="score", steps=12, batch=16, lr=0.01, evaluate_every=5,
    save_every=100, log_every=1, device="cpu", trackers=())
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_evaluation_of_your_own_without_data_ends_at_a_signal(tmp_path: Path, number: signal.Signals) -> None:
    """In a real process, whose `evaluate(models)` would not end: saved, with the weights before it, and exact."""
    (tmp_path / "playing.py").write_text(PLAYING, encoding="utf-8")
    command = [sys.executable, "-m", "trueloop"]
    subprocess.run([*command, "train", "playing.py", "--name", "undisturbed"], cwd=tmp_path, check=True)
    (tmp_path / "ask").touch()
    with subprocess.Popen([*command, "train", "playing.py", "--name", "stopped"], cwd=tmp_path) as process:
        try:
            until(lambda: (tmp_path / "evaluating").exists() or process.poll() is not None, "it evaluates")
            process.send_signal(number)
            assert process.wait(60) == 128 + number
        finally:
            process.kill()
    run = tmp_path / "runs" / "stopped"
    about = read_about(run)
    assert (about["status"], about["step"]) == ("signal", 5)
    assert remains(run)["last checkpoint"]["about"]["step"] == 5
    (tmp_path / "ask").unlink()
    subprocess.run([*command, "resume", "runs/stopped"], cwd=tmp_path, check=True)
    assert not list(differences(remains(tmp_path / "runs" / "undisturbed"), remains(run)))
