"""One word changes, the numbers do not: a run over several processes is the run of one, however its weights are
spread."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from torch import Tensor, nn

from tests.engine.small import (
    CLASSES,
    LENGTH,
    SMALL,
    VOCABULARY,
    WIDTH,
    Ran,
    Read,
    begin,
    furthest,
    plain,
    ran,
    reading,
    same_bits,
    with_parts,
)
from tests.parallel.ranks import on_ranks
from trueloop.checkpoint.store import Folder
from trueloop.engine.train import train
from trueloop.errors import BadRecipe
from trueloop.recipe.recipe import Recipe
from trueloop.recipes.shakespeare import GPT

WAYS = ["ddp", "fsdp", "tp"]


def blocks() -> nn.Module:
    """Two blocks with a pair to split in each, a norm, and a head that no pair can be made of."""
    first = nn.Sequential(nn.Linear(WIDTH, 8), nn.Tanh(), nn.Linear(8, 8))
    second = nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8))
    return nn.Sequential(first, second, nn.Linear(8, CLASSES))


FIFTY = replace(
    SMALL,
    model=blocks,
    data=Read(samples=49, valid=21),
    epochs=None,
    steps=50,
    evaluate_every=10,
    schedule="linear",
    clip=0.5,
    weight_decay=0.1,
)
"""49 samples in batches of 16: each fourth step holds one sample, and one of two processes none."""


def told(over: Ran) -> dict[str, Any]:
    """What can be sent through a pipe."""
    strategy = over.loop.parts.strategy
    return {
        "losses": over.losses,
        "norms": over.kept.values("gradient_norm"),
        "valid": over.kept.values(kind="valid"),
        "weights": {name: value.numpy() for name, value in strategy.model_state(over.loop.parts.model).items()},
        "ending": over.ending,
        "notes": over.kept.notes,
        "note": strategy.note,
        "held": sum(part.numel() for part in strategy.mine(over.loop.parts.model.parameters())),
    }


def spread(recipe: Recipe, way: str, world: int = 2) -> list[dict[str, Any]]:
    return on_ranks(lambda _: told(ran(replace(recipe, parallel=cast("Any", way)))), world)


def weights(said: dict[str, Any]) -> dict[str, Tensor]:
    return {name: torch.from_numpy(value) for name, value in said["weights"].items()}


def assert_the_run_of_one(said: dict[str, Any], alone: Ran, steps: int = 50) -> None:
    assert len(said["losses"]) == steps
    assert said["losses"] == pytest.approx(alone.losses, abs=1e-5)
    assert said["norms"] == pytest.approx(alone.kept.values("gradient_norm"), rel=1e-4), (
        "the norm is of the whole gradient"
    )
    assert said["valid"] == pytest.approx(alone.kept.values(kind="valid"), abs=1e-5)
    assert furthest(alone.weights, weights(said)) < 1e-4


# -- the same numbers --


@pytest.mark.parametrize("accumulate", [1, pytest.param(2, marks=pytest.mark.long)])
@pytest.mark.parametrize("way", WAYS)
def test_two_processes_give_the_losses_of_one_over_fifty_steps(way: str, accumulate: int) -> None:
    recipe = replace(FIFTY, accumulate=accumulate)
    first, second = spread(recipe, way)
    assert_the_run_of_one(first, ran(recipe))
    assert same_bits(weights(first), weights(second))


def test_weights_in_the_memory_of_the_host_give_the_losses_of_one_over_fifty_steps() -> None:
    first, second = spread(replace(FIFTY, offload=True), "fsdp")
    assert_the_run_of_one(first, ran(FIFTY))
    assert same_bits(weights(first), weights(second))
    assert "in 2 parts, in the memory of the host" in first["note"]


@pytest.mark.parametrize("accumulate", [1, pytest.param(2, marks=pytest.mark.long)])
def test_two_copies_of_two_parts_give_the_losses_of_one_over_fifty_steps(accumulate: int) -> None:
    recipe = replace(FIFTY, accumulate=accumulate, shard_ranks=2)
    said = spread(recipe, "hsdp", 4)
    assert_the_run_of_one(said[0], ran(recipe))
    assert all(same_bits(weights(said[0]), weights(other)) for other in said[1:])
    assert said[0]["held"] + said[1]["held"] == sum(value.numel() for value in weights(said[0]).values())
    assert [each["held"] for each in said[:2]] == [each["held"] for each in said[2:]], "the copies are the same"
    assert "in 2 parts, 2 copies of them" in said[0]["note"]


@pytest.mark.long
@pytest.mark.parametrize("options", [{}, {"accumulate": 2, "ema": 0.9}], ids=["plain", "accumulated, averaged"])
def test_four_processes_that_split_layers_and_weights_give_the_losses_of_one(options: dict[str, Any]) -> None:
    recipe = replace(FIFTY, **options)
    said = spread(recipe, "fsdp+tp", 4)
    assert_the_run_of_one(said[0], ran(recipe))
    assert all(same_bits(weights(said[0]), weights(other)) for other in said[1:])


@pytest.mark.parametrize("way", ["fsdp", "tp"])
def test_the_moving_average_is_of_the_whole_model_and_is_what_is_evaluated(way: str) -> None:
    recipe = replace(FIFTY, steps=20, ema=0.9, evaluate_every=4)
    assert_the_run_of_one(spread(recipe, way)[0], ran(recipe), steps=20)


@pytest.mark.parametrize("way", ["fsdp", "tp"])
def test_an_optimizer_without_a_fused_step_for_parts_is_used_as_it_is(way: str) -> None:
    recipe = replace(FIFTY, steps=12, optimizer="momentum", lr=0.1)
    assert_the_run_of_one(spread(recipe, way)[0], ran(recipe), steps=12)


@pytest.mark.parametrize("way", ["fsdp", "tp"])
def test_blocks_that_are_computed_again_give_the_same_numbers(way: str) -> None:
    recipe = replace(FIFTY, steps=8, activation_checkpointing=True)
    assert_the_run_of_one(spread(recipe, way)[0], ran(recipe), steps=8)


@pytest.mark.parametrize("way", ["fsdp", "tp"])
def test_bf16_is_the_same_to_its_own_rounding(way: str) -> None:
    recipe = replace(FIFTY, steps=12, precision="bf16")
    first, _ = spread(recipe, way)
    assert first["losses"] == pytest.approx(ran(recipe).losses, abs=3e-2)


def one_by_one(samples: int) -> Recipe:
    """The last batch of each epoch holds a single sample; three processes do not even fill a whole one evenly."""
    return replace(FIFTY, data=Read(samples=samples, valid=2), batch=4, steps=9, evaluate_every=3, accumulate=2)


@pytest.mark.parametrize("way", ["ddp", "fsdp"])
def test_three_processes_and_a_last_batch_that_is_smaller_than_they_are(way: str) -> None:
    """Neither does anybody wait for the processes without samples, nor is a sample counted twice; the same where they
    evaluate two."""
    recipe = one_by_one(9)
    assert_the_run_of_one(spread(recipe, way, 3)[0], ran(recipe), steps=9)


def dropping() -> nn.Module:
    return nn.Sequential(
        nn.Linear(WIDTH, 16), nn.ReLU(), nn.Dropout(0.5), nn.Linear(16, 8), nn.Dropout(0.2), nn.Linear(8, CLASSES)
    )


def test_processes_that_split_layers_draw_the_dropout_of_one() -> None:
    """Where activations are whole they draw the same, and in between each takes its part."""
    recipe = replace(FIFTY, model=dropping, steps=20)
    assert_the_run_of_one(spread(recipe, "tp")[0], ran(recipe), steps=20)


def attending() -> nn.Module:
    return GPT(VOCABULARY, block=LENGTH, depth=2, heads=4, width=8, dropout=0.0)


FUSED = {"blocks.*.attention.qkv": "qkv", "blocks.*.attention.out": "row", "blocks.*.mlp.0": "column",
         "blocks.*.mlp.2": "row"}  # fmt: skip


@pytest.mark.parametrize(("way", "world"), [("tp", 2), pytest.param("fsdp+tp", 4, marks=pytest.mark.long)])
def test_a_fused_projection_of_queries_keys_and_values_is_split_by_heads(way: str, world: int) -> None:
    recipe = replace(
        reading(1, 2, 4, 32, 9), model=attending, batch=4, epochs=None, steps=50, lr=0.05, tensor_plan=FUSED
    )
    said = spread(recipe, way, world)
    alone = ran(recipe)
    assert said[0]["losses"] == pytest.approx(alone.losses, abs=1e-5)
    assert furthest(alone.weights, weights(said[0])) < 1e-4
    assert said[0]["held"] < 0.7 * sum(value.numel() for value in alone.weights.values())
    assert "8 of 9 linear layers split over 2" in said[0]["note"]


def test_heads_that_cannot_be_shared_are_refused() -> None:
    def said(_: int) -> str:
        with pytest.raises(BadRecipe) as refused:
            begin(replace(reading(1, 2, 4), model=attending, batch=4, parallel="tp", tensor_plan=FUSED))
        return str(refused.value)

    assert "3 processes cannot share evenly" in on_ranks(said, 3)[0]


def writer() -> nn.Module:
    return GPT(VOCABULARY, block=LENGTH, depth=2, heads=2, width=8, dropout=0.0)


@pytest.mark.parametrize("way", ["fsdp", "tp"])
def test_a_gpt_learns_the_same_with_what_counts_spread_unevenly(way: str) -> None:
    """Tied embeddings, attention, padding that does not count, and pairs in its blocks that are found."""
    recipe = replace(reading(1, 2, 4, 32, 9), model=writer, batch=4, epochs=None, steps=10, lr=0.1)
    first, _ = spread(recipe, way)
    assert first["losses"] == pytest.approx(ran(recipe).losses, abs=1e-5)
    assert way == "fsdp" or "4 of 9 linear layers split over 2 (blocks.0.mlp.0" in first["note"]


@pytest.mark.long
@pytest.mark.filterwarnings(
    "ignore:The .grad attribute of a Tensor that is not a leaf"
)  # torch's compiler looks at gathered weights
@pytest.mark.parametrize("way", ["ddp", "fsdp"])
def test_compiled_blocks_give_the_same_numbers(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_COMPILE_THREADS", "1")  # processes that are forked from a pool of compilers hang
    recipe = replace(FIFTY, steps=6, compile="default")
    assert_the_run_of_one(spread(recipe, way)[0], ran(replace(recipe, compile="off")), steps=6)


# -- who holds what --


def test_each_process_of_fsdp_holds_half_and_each_of_tp_half_of_what_is_split() -> None:
    recipe = replace(FIFTY, steps=1)
    alone = sum(parameter.numel() for parameter in blocks().parameters())
    held = {way: spread(recipe, way)[0]["held"] for way in WAYS}
    assert held["ddp"] == alone
    assert held["fsdp"] < 0.6 * alone
    assert 0.5 * alone < held["tp"] < 0.7 * alone


def test_what_was_chosen_is_said() -> None:
    recipe = replace(FIFTY, steps=1)
    notes = {way: spread(recipe, way)[0]["note"] for way in ("auto", "fsdp", "tp")}
    assert notes["auto"] == ("parallel: ddp (auto) over 2 processes, which share each batch of 16")
    unseen = "the rules that look into layers, and their statistics, see nothing of weights in parts"
    assert (
        notes["fsdp"] == f"parallel: fsdp over 2 processes, weights, gradients and optimizer state in 2 parts; {unseen}"
    )
    assert notes["tp"] == (
        "parallel: tp over 2 processes, 4 of 5 linear layers split over 2 (0.0, 0.2, 1.1 and 1 more); replicated: 2; "
        f"{unseen}"
    )


def test_gradients_are_sent_once_per_step_and_while_the_backward_goes_on() -> None:
    """With ddp: torch's reducer is asked only for the last micro-batch, and a step that leaves a process out does
    without it."""

    def work(rank: int) -> Any:
        loop, _, _ = begin(replace(FIFTY, parallel="ddp", accumulate=4, steps=4))
        asked: list[list[bool]] = [[] for _ in range(4)]
        inner = loop.parts.forward.module.forward

        def look(inputs: Tensor) -> Any:
            asked[loop.state.step].append(loop.parts.forward.require_backward_grad_sync)
            return inner(inputs)

        loop.parts.forward.module.forward = look
        loop = with_parts(loop, splits=replace(loop.parts.splits, valid=None))
        train(loop)
        return asked

    first, second = on_ranks(work)
    assert first[:3] == [[False, False, False, True]] * 3
    assert (first[3], second[3]) == ([False], [])


# -- refusals --


def refusal(work: Callable[[], Any]) -> str:
    with pytest.raises(BadRecipe) as caught:
        work()
    return str(caught.value)


def refused(options: dict[str, Any], world: int = 2) -> str:
    return str(on_ranks(lambda _: refusal(lambda: begin(replace(FIFTY, **options))), world)[0])


def odd() -> nn.Module:
    return nn.Sequential(nn.Linear(WIDTH, 7), nn.Tanh(), nn.Linear(7, CLASSES))


class Heads(nn.Module):
    """Counts its heads from the whole width: split by a plan, it would be another function, silently."""

    def __init__(self) -> None:
        super().__init__()
        self.ask, self.out = nn.Linear(WIDTH, 12), nn.Linear(12, CLASSES)

    def forward(self, inputs: Tensor) -> Tensor:
        parts = self.ask(inputs).unflatten(-1, (3, -1))
        answer: Tensor = self.out((parts.softmax(-1) * parts).flatten(-2))
        return answer


class Pair(Heads):
    """The same two layers, with a function of single numbers between them."""

    def forward(self, inputs: Tensor) -> Tensor:
        answer: Tensor = self.out(self.ask(inputs).tanh())
        return answer


PLAN = {"ask": "column", "o*t": "row"}


def test_what_cannot_be_shared_is_refused_with_what_to_write() -> None:
    assert "parallel=none needs one process, and there are 2" in refused({"parallel": "none"})
    assert "0 gives 7 numbers, which 2 processes cannot share evenly" in refused({"parallel": "tp", "model": odd})
    assert "tensor_plan={'blocks.*.up': 'column'" in refused({"parallel": "tp", "model": Pair})
    assert "no layer is called 'up'. Nothing was run: there are 0.0, 0.2" in refused(
        {"parallel": "tp", "tensor_plan": {"up": "column"}}
    )
    assert "a Tanh, not an nn.Linear" in refused({"parallel": "tp", "tensor_plan": {"0.1": "column"}})
    assert "2.bias" not in refused({"parallel": "tp", "tensor_plan": {"2": "column"}})
    assert "needs 4, 6, ... processes, and there are 2" in refused({"parallel": "fsdp+tp"})


def test_a_plan_that_would_make_another_function_of_the_model_is_refused() -> None:
    assert "changes the outputs" in refused({"parallel": "tp", "model": Heads, "tensor_plan": PLAN})


def test_a_plan_of_the_recipes_own_is_followed() -> None:
    recipe = replace(FIFTY, model=Pair, tensor_plan=PLAN, steps=10)
    first, _ = spread(recipe, "tp")
    assert_the_run_of_one(first, ran(recipe), steps=10)
    assert "2 of 2 linear layers split" in first["note"]


def test_one_process_trains_alone_whatever_is_asked_and_says_so() -> None:
    recipe = replace(FIFTY, steps=3)
    over = ran(replace(recipe, parallel="fsdp"))
    assert over.losses == ran(recipe).losses
    assert over.loop.parts.strategy.note == "parallel: none instead of fsdp: there is one process (use --nproc N)"
    assert ran(recipe).loop.parts.strategy.note == ""


# -- copies that drift apart --


def drifting(way: str, rank: int, push_by: float = 0.5, **options: Any) -> Any:
    """The second process changes a weight of its own in its third step."""
    loop, kept, store = begin(replace(FIFTY, steps=12, evaluate_every=4, parallel=cast("Any", way), **options))

    def push(*_: Any) -> None:
        if rank == 1 and loop.state.step == 2:
            with torch.no_grad():
                dict(loop.parts.model.named_parameters())["2.weight"].view(-1)[0].add_(push_by)

    loop.parts.optimizer.register_step_post_hook(push)
    ending = train(loop)
    return ending, [row.step for row in kept.rows if row.kind == "valid"], store.names(), loop.state.step


@pytest.mark.parametrize("way", ["ddp", "tp"])
def test_copies_that_drift_apart_end_the_run_with_the_words_of_par103(way: str) -> None:
    (ending, evaluated, saved, step), (other, *_) = on_ranks(partial(drifting, way))
    assert ending == other
    assert (ending.reason, step) == ("failed", 4)
    assert ending.message.startswith("PAR103 parameters-differ-across-ranks: after 4 steps, 2.weight differs by 0.")
    assert "of its norm between rank 0 and rank 1" in ending.message
    assert (evaluated, saved) == ([], []), "neither evaluated nor saved"


def test_a_difference_in_the_last_digits_is_none() -> None:
    """Kernels that add up in no fixed order leave it."""
    assert on_ranks(lambda rank: drifting("ddp", rank, push_by=1e-7))[0][0].reason == "finished"


def test_the_digest_is_looked_at_as_often_as_asked() -> None:
    assert on_ranks(lambda rank: drifting("tp", rank, digest_every=3))[0][3] == 3
    assert on_ranks(lambda rank: drifting("tp", rank, digest_every=0))[0][0].reason == "finished"


# -- faults, checkpoints --


def spoil(inputs: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    inputs[7] = math.nan
    return inputs, labels


@pytest.mark.parametrize("way", ["fsdp", "tp"])
def test_a_gradient_that_is_no_number_stops_all_before_any_weight_has_seen_it(way: str) -> None:
    recipe = replace(FIFTY, data=Read(samples=49, change=spoil))
    alone = ran(recipe)
    first, second = spread(recipe, way)
    assert first["ending"] == second["ending"] == alone.ending
    assert furthest(alone.weights, weights(first)) < 1e-4


def gone_on(recipe: Recipe, folder: Path, _: int) -> Any:
    return told(ran(recipe, Folder(folder), go_on=True))


@pytest.mark.parametrize("way", ["fsdp", "tp"])
def test_a_checkpoint_is_whole_and_another_strategy_goes_on_with_it(tmp_path: Path, way: str) -> None:
    short, recipe = (
        replace(FIFTY, steps=8, schedule="constant", save_every=4),
        replace(FIFTY, steps=12, schedule="constant"),
    )
    whole = ran(recipe)
    on_ranks(lambda _: ran(replace(short, parallel=cast("Any", way)), Folder(tmp_path / "spread")).ending)
    over = ran(recipe, Folder(tmp_path / "spread"), go_on=True)
    assert over.losses == pytest.approx(whole.losses[8:], abs=1e-5)
    for other in (way, "ddp"):
        ran(short, Folder(tmp_path / other))
        back, _ = on_ranks(partial(gone_on, replace(recipe, parallel=cast("Any", other)), tmp_path / other))
        assert back["losses"] == pytest.approx(whole.losses[8:], abs=1e-5)


def test_copies_of_parts_save_what_one_process_resumes_and_resume_what_it_saved(tmp_path: Path) -> None:
    recipe = replace(FIFTY, steps=12, schedule="constant", shard_ranks=2)
    short, spread_so = replace(recipe, steps=8, save_every=4), cast("Any", "hsdp")
    whole = ran(recipe)
    on_ranks(lambda _: ran(replace(short, parallel=spread_so), Folder(tmp_path / "spread")).ending, 4)
    assert ran(recipe, Folder(tmp_path / "spread"), go_on=True).losses == pytest.approx(whole.losses[8:], abs=1e-5)
    ran(short, Folder(tmp_path / "one"))
    back = on_ranks(partial(gone_on, replace(recipe, parallel=spread_so), tmp_path / "one"), 4)
    assert back[0]["losses"] == pytest.approx(whole.losses[8:], abs=1e-5)


def test_a_plain_model_needs_no_blocks_to_be_sharded() -> None:
    recipe = replace(FIFTY, model=plain, steps=6)
    assert_the_run_of_one(spread(recipe, "fsdp")[0], ran(recipe), steps=6)
