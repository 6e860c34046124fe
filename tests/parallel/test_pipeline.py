"""parallel=pp: blocks in stages, and the numbers of one process."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.engine.small import (
    CLASSES,
    LENGTH,
    VOCABULARY,
    WIDTH,
    Of,
    Read,
    blobs,
    furthest,
    plain,
    ran,
    reading,
    same_bits,
)
from tests.parallel.ranks import on_ranks
from tests.parallel.test_strategies import FIFTY, assert_the_run_of_one, blocks, refused, spoil, spread, told, weights
from trueloop.checkpoint.store import Folder
from trueloop.data.dataset import Dataset
from trueloop.data.source import Splits
from trueloop.engine.model_facts import facts_of
from trueloop.parallel.pipeline_schedule import PipelineSchedule
from trueloop.recipe.recipe import DataRequest, Recipe
from trueloop.recipe.validate import find_problems
from trueloop.recipes.shakespeare import GPT

PP = replace(FIFTY, accumulate=2)
WARM = PipelineSchedule  # torch takes its time to load this: here once, not in each process


# -- the same numbers --


@pytest.mark.parametrize("accumulate", [2, 3])
def test_two_stages_give_the_losses_of_one_process_over_fifty_steps(accumulate: int) -> None:
    """Three micro-batches of 16 samples have two sizes; each fourth step has one sample, and so one micro-batch."""
    recipe = replace(FIFTY, accumulate=accumulate)
    first, second = spread(recipe, "pp")
    assert_the_run_of_one(first, ran(recipe))
    assert first["ending"] == second["ending"]
    assert "2 blocks in 2 stages, 1F1B with" in first["note"]


def tied(depth: int = 2, dropout: float = 0.0) -> nn.Module:
    return GPT(VOCABULARY, block=LENGTH, depth=depth, heads=2, width=8, dropout=dropout)


TOKENS = replace(reading(1, 2, 4, 32, 9, 7), batch=4, accumulate=4, epochs=None, steps=8, lr=0.1, clip=1.0)


@pytest.mark.parametrize(("world", "options"), [(2, {}), (4, {"activation_checkpointing": True})])
def test_a_gpt_with_tied_embeddings_learns_the_same(world: int, options: dict[str, Any]) -> None:
    """The first stage looks tokens up in the matrix with which the last one scores them."""
    recipe = replace(TOKENS, model=partial(tied, 4), **options)
    alone, said = ran(recipe), spread(recipe, "pp", world)
    assert said[0]["losses"] == pytest.approx(alone.losses, abs=1e-5)
    assert furthest(alone.weights, weights(said[0])) < 1e-4
    assert max(each["held"] for each in said) < sum(value.numel() for value in alone.weights.values())


def test_the_moving_average_and_another_optimizer_are_those_of_one_process() -> None:
    recipe = replace(PP, steps=12, ema=0.9, evaluate_every=4, optimizer="momentum", lr=0.1)
    assert_the_run_of_one(spread(recipe, "pp")[0], ran(recipe), steps=12)


def test_bf16_is_the_same_to_its_own_rounding() -> None:
    recipe = replace(PP, steps=12, precision="bf16")
    assert spread(recipe, "pp")[0]["losses"] == pytest.approx(ran(recipe).losses, abs=3e-2)


class Masked(nn.Module):
    """Blocks get a second argument that a weight outside of them makes; the sum past all blocks is of that kind too."""

    def __init__(self) -> None:
        super().__init__()
        self.enter, self.bias, self.leave = nn.Linear(WIDTH, 8), nn.Linear(WIDTH, 8), nn.Linear(8, CLASSES)
        self.blocks = nn.ModuleList(Added() for _ in range(2))

    def forward(self, image: Tensor, scale: Tensor) -> dict[str, Tensor]:
        start = self.enter(image) * scale
        hidden = start.clone()
        for block in self.blocks:
            hidden = block(hidden, self.bias(image))
        return {"scores": self.leave(hidden + start), "start": start}


class Added(nn.Module):
    """Changes what it is given in place."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, 8), nn.Tanh())

    def forward(self, hidden: Tensor, bias: Tensor) -> Tensor:
        hidden += self.layers(hidden + bias)
        return hidden


def own_loss(output: dict[str, Tensor], targets: Tensor) -> Any:
    each = nn.functional.cross_entropy(output["scores"], targets, reduction="none")
    weight = 1.0 + targets
    return (each * weight).sum() + output["start"].square().sum(), weight.sum()


def test_named_inputs_a_dict_of_outputs_and_a_loss_with_its_own_divisor() -> None:
    images, labels = blobs(20)
    samples = [({"image": image, "scale": image[:1]}, label) for image, label in zip(images, labels, strict=True)]
    splits = Splits(Dataset(samples), Dataset(samples))
    recipe = replace(PP, model=Masked, data=Of(splits), loss=own_loss, steps=12, batch=8, evaluate_every=4)
    assert_the_run_of_one(spread(recipe, "pp")[0], ran(recipe), steps=12)


# -- faults, checkpoints --


def test_a_gradient_that_is_no_number_stops_all_before_any_weight_has_seen_it() -> None:
    recipe = replace(PP, data=Read(samples=49, change=spoil))
    alone, (first, second) = ran(recipe), spread(recipe, "pp")
    assert first["ending"] == second["ending"] == alone.ending
    assert furthest(alone.weights, weights(first)) < 1e-4


def gone_on(recipe: Recipe, folder: Path, _: int) -> Any:
    return told(ran(recipe, Folder(folder), go_on=True))


def test_a_checkpoint_is_complete_and_one_process_resumes_it_and_the_other_way_round(tmp_path: Path) -> None:
    recipe = replace(PP, steps=12, schedule="constant", ema=0.9)
    short, whole = replace(recipe, steps=8, save_every=4), ran(recipe)
    on_ranks(lambda _: ran(replace(short, parallel="pp"), Folder(tmp_path / "pp")).ending)
    over = ran(recipe, Folder(tmp_path / "pp"), go_on=True)
    assert over.losses == pytest.approx(whole.losses[8:], abs=1e-5)
    assert over.kept.values(kind="valid") == pytest.approx(whole.kept.values(kind="valid")[-2:], abs=1e-5)
    ran(short, Folder(tmp_path / "one"))
    back = on_ranks(partial(gone_on, replace(recipe, parallel="pp"), tmp_path / "one"))
    assert back[0]["losses"] == pytest.approx(whole.losses[8:], abs=1e-5)


def test_a_resumed_run_ends_with_the_same_bits_with_dropout_too(tmp_path: Path) -> None:
    recipe = replace(TOKENS, model=partial(tied, 2, 0.3), steps=9, parallel="pp", save_every=4, evaluate_every=4)
    whole = on_ranks(lambda _: told(ran(recipe)))
    on_ranks(lambda _: ran(replace(recipe, steps=4), Folder(tmp_path)).ending)
    back = on_ranks(partial(gone_on, recipe, tmp_path))
    assert back[0]["losses"] == whole[0]["losses"][4:]
    assert same_bits(weights(back[0]), weights(whole[0]))


# -- refusals --


class Skipping(nn.Module):
    """What the first block gives is used again after the last."""

    def __init__(self) -> None:
        super().__init__()
        self.enter, self.leave = nn.Linear(WIDTH, 8), nn.Linear(8, CLASSES)
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(8, 8), nn.Tanh()) for _ in range(2))
        self.gate = nn.Parameter(torch.zeros(()))  # no output shows it

    def forward(self, inputs: Tensor) -> Tensor:
        first = self.blocks[0](self.enter(inputs))
        answer: Tensor = self.leave(self.blocks[1](first) + self.gate * first)
        return answer


class Changing(nn.Module):
    """The blocks change what is used after them."""

    def __init__(self) -> None:
        super().__init__()
        self.enter, self.leave = nn.Linear(WIDTH, 8), nn.Linear(8, CLASSES)
        self.blocks = nn.ModuleList(Added() for _ in range(2))

    def forward(self, inputs: Tensor) -> Tensor:
        start = hidden = self.enter(inputs)
        for block in self.blocks:
            hidden = block(hidden, inputs.mean())
        answer: Tensor = self.leave(hidden + start)
        return answer


class Dropping(nn.Module):
    """What dropout leaves goes through the blocks and past them."""

    def __init__(self) -> None:
        super().__init__()
        self.enter, self.leave = nn.Linear(WIDTH, 8), nn.Linear(8, CLASSES)
        self.dropout = nn.Dropout(0.5)
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5)) for _ in range(2))

    def forward(self, inputs: Tensor) -> Tensor:
        start = self.dropout(self.enter(inputs))
        answer: Tensor = self.leave(start + self.blocks[1](self.blocks[0](start)))
        return answer


class Backwards(Skipping):
    def forward(self, inputs: Tensor) -> Tensor:
        answer: Tensor = self.leave(self.blocks[0](self.blocks[1](self.enter(inputs))))
        return answer


class Half(Skipping):
    def forward(self, inputs: Tensor) -> Tensor:
        answer: Tensor = self.leave(self.blocks[0](self.enter(inputs)))
        return answer


def normed() -> nn.Module:
    return nn.Sequential(*(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.BatchNorm1d(WIDTH)) for _ in range(2)))


class Counting(Skipping):
    calls: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, inputs: Tensor) -> Tensor:
        self.calls += 1
        answer: Tensor = self.leave(self.blocks[1](self.blocks[0](self.enter(inputs))))
        return answer


def test_what_is_no_chain_of_blocks_is_refused_with_what_to_type() -> None:
    cases: dict[str, dict[str, Any]] = {
        "stage 1 uses outputs of blocks of earlier stages": {"model": Skipping},
        "random numbers drawn before the blocks are used after them": {"model": Dropping},
        "block 1 is not called in its order": {"model": Backwards},
        "its forward called 1 of its 2 blocks": {"model": Half},
        "BatchNorm, or another norm with running statistics": {"model": normed},
        "the buffer calls, which its forward changes": {"model": Counting},
        "parallel=pp changes the outputs of Changing: a stage needs more": {"model": Changing},
        "needs 2 micro-batches or more": {"accumulate": 1},
    }
    for said, options in cases.items():
        message = refused({"parallel": "pp", "accumulate": 2, **options})
        assert said in message
        assert "use parallel=fsdp" in message or "use --set accumulate=2" in message


def test_blocks_that_cannot_be_split_evenly_are_refused() -> None:
    assert "cannot split the 2 repeated blocks of Sequential into 3 equal stages" in refused(
        {"parallel": "pp", "accumulate": 3}, 3
    )
    assert "Sequential has none" in refused({"parallel": "pp", "accumulate": 2, "model": plain})


def buffered() -> nn.Module:
    """With a buffer that stays as it is."""
    model = blocks()
    model.register_buffer("table", torch.arange(3))
    return model


@pytest.mark.parametrize(("model", "said"), [(Skipping, "stage 1 uses outputs"), (Half, "1 of its 2"), (buffered, "")])
def test_a_plan_knows_what_would_be_refused(model: Any, said: str) -> None:
    """On tensors without memory."""
    found = facts_of(replace(PP, model=model), Read()(DataRequest()))
    assert said in found.problems.get("pp", "")
    assert bool(said) is ("pp" in found.problems)
    assert "without memory" in found.how


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"compile": "default"}, "does not support parallel=pp"),
        ({"precision": "fp16", "device": "cuda"}, "precision=fp16 needs a gradient scaler"),
        ({"step": print}, "cannot split the models of a step of your own"),
        ({"offload": True}, "offload=True is for parallel=fsdp and hsdp, not pp"),
    ],
)
def test_what_goes_with_no_pipeline_is_refused_by_its_recipe(options: dict[str, Any], said: str) -> None:
    assert any(said in problem for problem in find_problems(replace(PP, parallel="pp", **options)))


def test_one_process_trains_alone_and_says_so() -> None:
    over = ran(replace(PP, steps=3, parallel="pp"))
    assert over.losses == ran(replace(PP, steps=3)).losses
    assert "none instead of pp" in over.loop.parts.strategy.note
