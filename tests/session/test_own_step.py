"""The rules of `check` observe a step of the user's own inside a run, and find its bugs there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - as everybody writes it
from torch import Tensor, nn

import trueloop
from trueloop.data.source import Splits
from trueloop.data.tensors import Tensors
from trueloop.errors import CannotExport
from trueloop.session.train import Trained


def read(request: Any) -> Splits:
    draws = torch.Generator().manual_seed(0)
    inputs = torch.randn(256, 6, generator=draws)
    labels = inputs[:, :3].argmax(1)
    return Splits(Tensors(inputs[:192], labels[:192]), Tensors(inputs[192:], labels[192:]))


def net() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 3))


def healthy(loop: trueloop.Loop, batch: Any) -> Tensor:
    loss = F.cross_entropy(loop.model(batch.inputs), batch.targets)
    loop.update(loss)
    return loss


def twice(loop: trueloop.Loop, batch: Any) -> Tensor:
    loss = F.cross_entropy(loop.model(batch.inputs).softmax(1), batch.targets)
    loop.update(loss)
    return loss


def trained(step: Any, folder: Path) -> Trained:
    recipe = trueloop.Recipe(
        name="own", model=net, data=read, step=step, epochs=8, batch=32, lr=1e-2, trackers=(), device="cpu"
    )
    return trueloop.train(recipe, runs=folder, hooks=())


def test_a_healthy_step_has_no_findings(tmp_path: Path) -> None:
    over = trained(healthy, tmp_path)
    assert over.findings == ()
    assert (over.folder / "report.json").is_file()


def test_a_bug_inside_the_step_is_found_at_its_line(tmp_path: Path) -> None:
    over = trained(twice, tmp_path)
    found = next(each for each in over.findings if each.name == "softmax-before-cross-entropy")
    assert found.place is not None
    assert (Path(found.place.path).name, found.place.function) == (Path(__file__).name, "twice")


@pytest.mark.parametrize("step", [healthy, twice])
def test_being_observed_changes_nothing(step: Any, tmp_path: Path) -> None:
    from tests.engine.small import ran, same_bits
    from trueloop.recipe.recipe import Recipe

    over = trained(step, tmp_path)
    plain = ran(Recipe(name="own", model=net, data=read, step=step, epochs=8, batch=32, lr=1e-2, trackers=()))
    best = Path(over.best_checkpoint or "")
    assert best.name == f"step-{plain.loop.state.best_step:08d}"
    last = torch.load(over.folder / "checkpoints" / "step-00000048" / "training.pt", weights_only=True)
    ours, theirs = last["optimizer"]["optimizer"]["state"], plain.loop.optimizers["optimizer"].state_dict()["state"]
    for key, state in ours.items():
        assert same_bits(state, {name: value for name, value in theirs[key].items() if name in state})


def logarithm(loop: trueloop.Loop, batch: Any) -> Tensor:
    """Non-finite in the fourth step."""
    outputs = loop.model(batch.inputs)
    loss = F.cross_entropy(outputs, batch.targets)
    loss = loss + (outputs.square().sum() * -1).log() if loop.step == 3 else loss
    loop.update(loss)
    return loss


def unguarded(loop: trueloop.Loop, batch: Any) -> None:
    loop.optimizers["optimizer"].zero_grad()
    loss = F.cross_entropy(loop.model(batch.inputs), batch.targets)
    (loss + (loss * -1).log() if loop.step == 3 else loss).backward()  # type: ignore[no-untyped-call]
    loop.optimizers["optimizer"].step()


@pytest.mark.parametrize(
    ("step", "on_nonfinite", "severity"),
    [(logarithm, "stop", "error"), (logarithm, "skip", "warning"), (unguarded, "stop", "error")],
)
def test_a_non_finite_step_is_reported_once(step: Any, on_nonfinite: Any, severity: str, tmp_path: Path) -> None:
    """The engine keeps it away from the weights and the observers see it in the user's code: that is one fault."""
    recipe = trueloop.Recipe(
        name="own", model=net, data=read, step=step, steps=6, batch=32, lr=1e-2, trackers=(), device="cpu",
        on_nonfinite=on_nonfinite,
    )  # fmt: skip
    over = trueloop.train(recipe, runs=tmp_path, hooks=())
    (found,) = [each for each in over.findings if each.name == "nan-or-inf"]
    assert found.severity.word == severity
    assert found.place is not None
    assert (found.place.function, found.evidence["step"]) == (step.__name__, 3)
    events = (over.folder / "events.jsonl").read_text(encoding="utf-8").splitlines()
    assert sum('"event": "NotFinite"' in line for line in events) == 1


def test_several_models_are_not_exported_but_loaded(tmp_path: Path) -> None:
    def both(loop: trueloop.Loop, batch: Any) -> Tensor:
        for part, share in loop.micros(batch):
            loss = F.cross_entropy(loop.models["student"](part.inputs), part.targets)
            loop.backward(loss * share)
        loop.apply()
        return loss

    def score(models: Any, batch: Any) -> dict[str, Tensor]:
        return {"accuracy": (models["student"](batch.inputs).argmax(1) == batch.targets).float().mean()}

    recipe = trueloop.Recipe(
        name="two", model=lambda: {"teacher": net().requires_grad_(False), "student": net()}, data=read, step=both,
        evaluate=score, metric="accuracy", epochs=4, batch=32, lr=1e-2, trackers=(), device="cpu", accumulate=2,
    )  # fmt: skip
    over = trueloop.train(recipe, runs=tmp_path, hooks=())
    loaded = trueloop.load(over.folder, recipe=recipe)
    assert isinstance(loaded.model, nn.ModuleDict)
    assert loaded.evaluate("valid")["accuracy"] == pytest.approx(over.ending.best)
    assert loaded.trained is not None
    with pytest.raises(CannotExport, match="holds several models: teacher, student"):
        loaded.trained.program()
