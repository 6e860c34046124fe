"""resume-is-exact on scripts: killed by SIGKILL, started again in the same copy, compared with an undisturbed run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.claims.subjects import try_script
from trueloop.claims.resume_is_exact import (
    BATCHES_LOST,
    BUFFERS_LOST,
    OF_SCRIPTS,
    OPTIMIZER_LOST,
    POSITION_LOST,
    RATE_LOST,
    WEIGHTS_LOST,
)
from trueloop.claims.script_resume import NotTested, _difference, _kill_step
from trueloop.claims.script_steps import ScriptSteps, StepDigest
from trueloop.results.proof import Cause

NAME = "resume-is-exact"
SCRIPT = """\
import argparse, os
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=6)
args = parser.parse_args()
torch.manual_seed(0)
x = torch.randn(64, 4)
data = TensorDataset(x, (x.sum(1) > 0).long())
loader = DataLoader(data, batch_size=16, shuffle=True)
model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.1), nn.Linear(8, 2))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2)
first = 0
os.makedirs("ckpt", exist_ok=True)
if os.path.exists("ckpt/last.pt"):
    state = torch.load("ckpt/last.pt")
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])  # OPT
    scheduler.load_state_dict(state["scheduler"])  # SCHED
    torch.set_rng_state(state["random"])  # RNG
    first = state["epoch"]
for epoch in range(first, args.epochs):
    for a, b in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(a), b).backward()
        optimizer.step()
    scheduler.step()
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "scheduler": scheduler.state_dict()}
    torch.save({**state, "random": torch.get_rng_state(), "epoch": epoch + 1}, "ckpt/last.pt")
"""


def without(mark: str) -> str:
    kept = [line for line in SCRIPT.splitlines(keepends=True) if f"# {mark}" not in line]
    assert len(kept) < len(SCRIPT.splitlines())
    return "".join(kept)


def test_a_script_that_resumes_itself(tmp_path: Path) -> None:
    proof = try_script(NAME, tmp_path, SCRIPT, "--epochs", "4")
    assert proof.result == "holds", proof
    assert [path.name for path in tmp_path.iterdir()] == ["train.py"]


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (without("RNG"), BATCHES_LOST),
        pytest.param(without("OPT"), OPTIMIZER_LOST, marks=pytest.mark.long),
        pytest.param(SCRIPT.replace('state["epoch"]', "0"), POSITION_LOST, marks=pytest.mark.long),
        pytest.param(
            SCRIPT.replace("first = state", "model[0].weight.data.mul_(0.5)  # lossy\n    first = state"),
            WEIGHTS_LOST,
            marks=pytest.mark.long,
        ),
    ],
)
def test_what_is_not_restored_is_named_with_the_line_that_loads(tmp_path: Path, text: str, cause: Cause) -> None:
    proof = try_script(NAME, tmp_path, text, "--epochs", "4")
    assert (proof.result, proof.causes) == ("fails", (cause,)), proof
    assert proof.place is not None
    assert proof.place.path == str(tmp_path / "train.py")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            SCRIPT.replace('if os.path.exists("ckpt/last.pt")', "if False"),
            "it does not resume; to be tested it must load",
        ),
        pytest.param(SCRIPT.replace("    torch.save", "torch.save"), "saves only at its end", marks=pytest.mark.long),
        pytest.param(SCRIPT[: SCRIPT.index("    torch.save")], "saves nothing", marks=pytest.mark.long),
    ],
)
def test_a_script_that_cannot_resume_is_not_tested(tmp_path: Path, text: str, said: str) -> None:
    proof = try_script(NAME, tmp_path, text, "--epochs", "4")
    assert proof.result == "unproved", proof
    assert said in proof.measured


# -- the comparison alone --


def steps(*numbers: int, ended: str = "finished", **more: object) -> ScriptSteps:
    return ScriptSteps([StepDigest(n, n, str(n), n, n + 1) for n in numbers], ended=ended, **more)  # type: ignore[arg-type]


def test_steps_that_are_equal_to_the_end() -> None:
    assert _difference(steps(0, 1, 2, 3), steps(2, 3), 2) is None
    assert _difference(steps(0, 1, 2, 3, ended="cut"), steps(1, 2, ended="cut"), 1) is None


@pytest.mark.parametrize(
    ("resumed", "part"),
    [
        (steps(2), "length"),
        (steps(2, 3, 4, 5), "length"),
        (steps(), "length"),
        (steps(2, 9), "weights"),
        (steps(2, 3, buffers=[7]), "buffers"),
        (steps(2, ended="exception", error="KeyError: 'model'"), "error"),
    ],
)
def test_the_first_difference(resumed: ScriptSteps, part: str) -> None:
    found = _difference(steps(0, 1, 2, 3), resumed, 2)
    assert found is not None
    assert found.part == part


def test_a_schedule_that_starts_again() -> None:
    other = ScriptSteps([StepDigest(2, 2, "lr 0.1", 2, 3), StepDigest(3, 3, "lr 0.1", 3, 9)], ended="finished")
    found = _difference(steps(0, 1, 2, 3), other, 2)
    assert found is not None
    assert found.part == "rates"
    assert (OF_SCRIPTS["rates"], OF_SCRIPTS["buffers"]) == (RATE_LOST, BUFFERS_LOST)


@pytest.mark.parametrize("saved", [[4], [2, 4, 6], [1, 8], [0, 5]])
def test_the_kill_is_after_a_checkpoint_and_before_the_last_step(saved: list[int]) -> None:
    for _ in range(20):
        at = _kill_step(steps(*range(10), saved=saved), True, None)
        assert min(filter(None, saved)) < at < 10
    with pytest.raises(NotTested, match="only at its end"):
        _kill_step(steps(*range(10), saved=[10]), True, None)
