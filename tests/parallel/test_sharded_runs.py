"""Runs whose weights are spread over processes: stopped, they go on to the same bits; at another number or way, to the
same losses."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from torch import Tensor, nn

from tests.checkpoint.disks import limit_files
from tests.conftest import in_child
from tests.engine.small import CLASSES, WIDTH, Read, begin, ran
from tests.parallel.ranks import on_ranks
from tests.parallel.test_two_ranks import UNEVEN, spoil
from trueloop.checkpoint.contents import read_contents
from trueloop.checkpoint.sharded import is_sharded
from trueloop.checkpoint.store import Folder, Memory
from trueloop.cli.main import main
from trueloop.engine import stop
from trueloop.errors import BadCheckpoint, CannotSave
from trueloop.recipe.recipe import Recipe
from trueloop.session.train import resume, train


def net() -> nn.Module:
    """With layers that can be split, and one whose rows do not divide evenly."""
    return nn.Sequential(nn.Linear(WIDTH, 8), nn.Tanh(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, CLASSES))


def dropping() -> nn.Module:
    return nn.Sequential(nn.Linear(WIDTH, 15), nn.ReLU(), nn.Dropout(0.5), nn.Linear(15, CLASSES))


STEPS = 20
RECIPE = replace(UNEVEN, model=net, data=Read(samples=49, valid=21), ema=0.9)
WORLDS = {"alone": 1, "ddp": 2, "fsdp": 2, "tp": 2, "fsdp+tp": 4}
"""How a run is spread, and over how many processes."""
WAYS = [way for way in WORLDS if way != "fsdp+tp"]


def spread(recipe: Recipe, way: str) -> Recipe:
    changes: dict[str, Any] = {} if way == "alone" else {"parallel": way}
    return replace(recipe, **changes)


@cache
def undisturbed(way: str) -> list[float]:
    losses: list[float] = on_ways(way, lambda _: ran(spread(RECIPE, way)).losses)[0]
    return losses


def on_ways(way: str, work: Callable[[int], Any], world: int | None = None) -> list[Any]:
    world = world or WORLDS[way]
    return on_ranks(work, world) if world > 1 else [in_child(lambda: work(0))]


def cut(recipe: Recipe, way: str, folder: Path) -> int:
    """A run whose last process is asked to stop in its tenth step, at which all agree; the step of its checkpoint."""

    def work(rank: int) -> int:
        loop, _, _ = begin(spread(recipe, way), Folder(folder))
        asked = rank + 1 == WORLDS[way]
        stop.ASK_AFTER_AT_MOST = 1  # type: ignore[misc]  # at every step, however fast they are
        loop.parts.optimizer.register_step_post_hook(
            lambda *_: loop.stop.ask(15) if asked and loop.state.step + 1 == 10 else None
        )
        return loop.train().step

    return int(on_ways(way, work)[0])


Cuts = Callable[[str], tuple[Path, int]]


@pytest.fixture(scope="module")
def cuts(tmp_path_factory: pytest.TempPathFactory) -> Cuts:
    """A stopped run of each way: its checkpoints, and the step."""

    @cache
    def make(way: str) -> tuple[Path, int]:
        folder = tmp_path_factory.mktemp("cut")
        return folder, cut(replace(RECIPE, save_every=1000), way, folder)

    return make


def gone_on(way: str, folder: Path, world: int | None = None) -> tuple[list[float], list[str]]:
    def work(_: int) -> Any:
        over = ran(spread(RECIPE, way), Folder(folder), go_on=True)
        return over.losses, over.kept.notes

    answer: tuple[list[float], list[str]] = on_ways(way, work, world)[0]
    return answer


QUICK = {("fsdp", "fsdp"), ("fsdp", "alone"), ("ddp", "fsdp"), ("fsdp", "ddp"), ("alone", "tp"), ("tp", "fsdp")}
PAIRS = [
    pytest.param(one, other, marks=() if (one, other) in QUICK else pytest.mark.long, id=f"{one} to {other}")
    for one in WORLDS
    for other in WORLDS
]


@pytest.mark.parametrize(("before", "after"), PAIRS)
def test_a_stopped_run_goes_on_in_every_way(cuts: Cuts, tmp_path: Path, before: str, after: str) -> None:
    folder, step = copied(cuts(before), tmp_path)
    losses, _ = gone_on(after, folder)
    expected = undisturbed(after)[step:]
    assert 0 < len(losses) == STEPS - step
    if before == after:
        assert losses == expected, "the same bits"
    assert losses == pytest.approx(expected, abs=1e-5)


def copied(made: tuple[Path, int], into: Path) -> tuple[Path, int]:
    shutil.copytree(made[0], into / "checkpoints")
    return into / "checkpoints", made[1]


@pytest.mark.parametrize("after", ["fsdp", pytest.param("ddp", marks=pytest.mark.long)])
def test_a_run_of_two_goes_on_with_three(cuts: Cuts, tmp_path: Path, after: str) -> None:
    folder, step = copied(cuts("fsdp"), tmp_path)
    losses, notes = gone_on(after, folder, 3)
    assert losses == pytest.approx(undisturbed("alone")[step:], abs=1e-5)
    assert any("2 processes saved this checkpoint and 3 resume it" in note for note in notes)


def test_what_is_in_parts_is_saved_in_pieces_and_what_is_not_is_saved_whole(cuts: Cuts) -> None:
    forms = {
        way: is_sharded(Folder(folder).manifest(Folder(folder).names()[-1]))
        for way in WAYS
        for folder, _ in [cuts(way)]
    }
    assert forms == {"alone": False, "ddp": False, "fsdp": True, "tp": True}


@pytest.mark.parametrize("way", ["fsdp", "tp"])
def test_one_process_reads_from_pieces_what_it_would_have_saved_itself(cuts: Cuts, way: str) -> None:
    ours, theirs = (
        read_contents(Folder(folder), Folder(folder).names()[-1]) for folder, _ in (cuts("alone"), cuts(way))
    )
    assert ours.about["step"] == theirs.about["step"] == 10
    for model in ("model", "ema"):
        assert ours.weights[model].keys() == theirs.weights[model].keys()
        assert all(
            torch.allclose(value, theirs.weights[model][name], atol=1e-5) for name, value in ours.weights[model].items()
        )
    one, other = ours.training["optimizer"], theirs.training["optimizer"]
    assert one["param_groups"] == other["param_groups"]
    assert all(torch.allclose(value, other["state"][number][word], atol=1e-5) for number, word, value in states(one))
    assert ours.training.keys() == theirs.training.keys()


def states(optimizer: dict[str, Any]) -> list[tuple[int, str, Tensor]]:
    return [(number, word, value) for number, state in optimizer["state"].items() for word, value in state.items()]


def uneven() -> nn.Module:
    """Layers that are split into threes and fives, which are sharded into twos, threes and ones."""
    return nn.Sequential(nn.Linear(WIDTH, 6), nn.Tanh(), nn.Linear(6, 10), nn.Tanh(), nn.Linear(10, CLASSES))


@pytest.mark.long
def test_uneven_parts_of_parts_are_put_together(tmp_path: Path) -> None:
    recipe = replace(RECIPE, model=uneven)
    in_child(lambda: bool(ran(recipe, Folder(tmp_path / "alone"))))
    on_ranks(lambda _: bool(ran(replace(recipe, parallel="fsdp+tp"), Folder(tmp_path / "both"))), 4)
    stores = Folder(tmp_path / "alone"), Folder(tmp_path / "both")
    ours, theirs = (read_contents(store, store.names()[-1]) for store in stores)
    blocks = stores[1].manifest(stores[1].names()[-1])["pieces"]["model/0.weight"]["pieces"].values()
    assert sorted(blocks) == ["0+2 0+6", "2+1 0+6", "3+2 0+6", "5+1 0+6"]
    assert all(
        torch.allclose(value, theirs.weights["model"][name], atol=1e-5) for name, value in ours.weights["model"].items()
    )


@pytest.mark.parametrize("way", ["fsdp", pytest.param("tp", marks=pytest.mark.long)])
def test_dropout_draws_on_as_if_nobody_had_stopped(tmp_path: Path, way: str) -> None:
    recipe = spread(replace(RECIPE, model=dropping if way == "fsdp" else net), way)
    whole = on_ranks(lambda _: ran(recipe).losses)[0]
    cut(replace(recipe, save_every=1000), way, tmp_path)
    again = on_ranks(lambda _: ran(recipe, Folder(tmp_path), go_on=True).losses)[0]
    assert again == whole[-len(again) :]
    assert len(again) < len(whole)


def test_all_go_back_together(tmp_path: Path) -> None:
    recipe = replace(RECIPE, data=Read(samples=49, change=spoil), on_nonfinite="rollback", save_every=3)
    alone = ran(recipe)
    first, second = on_ranks(lambda _: rolled(replace(recipe, parallel="fsdp"), tmp_path))
    assert first[0] == pytest.approx(alone.losses, abs=1e-5, nan_ok=True)
    assert first[1] == second[1] == "finished"
    assert first[2] > 0


def rolled(recipe: Recipe, folder: Path) -> tuple[list[float], str, int]:
    over = ran(recipe, Folder(folder))
    return over.losses, over.ending.reason, over.loop.state.rollbacks


def test_a_run_that_leaves_nothing_behind_keeps_whole_checkpoints_in_memory() -> None:
    def work(rank: int) -> Any:
        over = ran(replace(RECIPE, parallel="fsdp"))
        assert isinstance(over.store, Memory)
        return [sorted(over.store.manifest(name)["files"]) for name in over.store.names()]

    first, second = on_ranks(work)
    assert first[-1] == ["ema.safetensors", "model.safetensors", "training.pt"]
    assert second == []


def test_processes_that_see_other_checkpoints_are_told_so(tmp_path: Path) -> None:
    on_ranks(lambda _: ran(replace(RECIPE, parallel="fsdp"), Folder(tmp_path / "0")).losses)

    def work(rank: int) -> str:
        loop, _, _ = begin(replace(RECIPE, parallel="fsdp"), Folder(tmp_path / str(rank)))
        with pytest.raises(BadCheckpoint) as refusal:
            loop.recovery.go_back()
        return str(refusal.value)

    first, second = on_ranks(work)
    assert first == second
    assert first.startswith("The ranks see different checkpoints: they need one shared folder.")


def test_a_full_disk_on_one_process_ends_the_run_of_all_and_it_goes_on_later(tmp_path: Path) -> None:
    recipe = replace(RECIPE, parallel="fsdp", save_every=5)
    whole = on_ranks(lambda _: ran(recipe).losses)[0]

    def full(rank: int) -> Any:
        loop, _, _ = begin(recipe, Folder(tmp_path))
        loop.parts.optimizer.register_step_post_hook(
            lambda *_: limit_files(100) if rank == 1 and loop.state.step + 1 == 8 else None
        )
        with pytest.raises(CannotSave) as refusal:
            loop.train()
        limit_files(None)
        return str(refusal.value), loop.state.step

    first, second = on_ranks(full)
    assert first == second
    assert "process 1: File too large" in first[0]
    again = on_ranks(lambda _: ran(recipe, Folder(tmp_path), go_on=True).losses)[0]
    assert again == whole[-len(again) :]


# -- as a person sees it --


def trained(recipe: Recipe, runs: Path, _: int) -> Any:
    return train(recipe, name="run", runs=runs, hooks=[], hand_on_signals=False).ending.reason


@pytest.fixture
def finished(tmp_path: Path) -> Path:
    assert on_ranks(partial(trained, replace(RECIPE, parallel="fsdp"), tmp_path)) == ["finished"] * 2
    return tmp_path / "run"


def test_a_finished_run_has_its_best_weights_and_one_process_can_ship_them(finished: Path, tmp_path: Path) -> None:
    about = json.loads((finished / "run.json").read_text(encoding="utf-8"))
    assert about["status"] == "finished"
    assert math.isfinite(about["best"])
    to = tmp_path / "weights.safetensors"
    assert main(["checkpoint", "convert", str(finished), "--to", str(to), "--weights", "ema"]) == 0
    model = net()
    model.load_state_dict(safetensors.torch.load_file(to))
    assert main(["checkpoint", "verify", str(finished)]) == 0
    assert main(["checkpoint", "show", str(finished)]) == 0
    assert main(["runs", str(finished.parent)]) == 0
    assert main(["inspect", "checkpoint", str(finished)]) == 0


def test_another_run_begins_from_weights_in_pieces(finished: Path) -> None:
    over = in_child(lambda: ran(replace(RECIPE, start_from=str(finished), steps=1)).kept.notes)
    assert any(
        note.startswith(f"start_from {finished / 'checkpoints'}") and "6 of the model's 6 tensors loaded" in note
        for note in over
    )


def test_a_longer_recipe_goes_on_where_the_run_ended_in_one_process(finished: Path) -> None:
    longer = replace(RECIPE, steps=STEPS + 3)
    assert in_child(lambda: resume(longer, finished, hooks=[], hand_on_signals=False).ending.step) == STEPS + 3
    store = Folder(finished / "checkpoints")
    assert not is_sharded(store.manifest(store.names()[-1]))
