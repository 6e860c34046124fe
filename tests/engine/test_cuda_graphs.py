"""Steps that are played several at once, on the CPU with the recorder that does the work again: the same numbers as one
by one.

What only a real CUDA graph can show is in tests/gpu/test_cuda_graphs.py.
"""

from __future__ import annotations

import math
import signal
from dataclasses import replace
from typing import Any, Literal

import pytest
import torch
from torch import Tensor, nn

from trueloop.checkpoint.store import Memory
from trueloop.data.dataset import Dataset
from trueloop.data.source import Facts, Splits
from trueloop.data.tensors import Tensors
from trueloop.engine.assemble import assemble
from trueloop.engine.batches import EvaluationBatches
from trueloop.engine.fused_adam import FusedStep
from trueloop.engine.loop import Loop
from trueloop.engine.programs.cuda_graphs import CudaGraphs, replay_lengths
from trueloop.engine.programs.device_update import DeviceUpdate, adam_step
from trueloop.engine.programs.graph_recorder import GraphRecorder, RepeatRecorder, Work
from trueloop.engine.train import train
from trueloop.errors import BadRecipe
from trueloop.hook import Hook, Row
from trueloop.parallel.peers import Alone
from trueloop.recipe.recipe import DataRequest, Recipe

CLOSE = 2e-5
"""Played steps take their rate as a 32-bit number, and the average of the weights is followed by another formula:
rounding, no more."""


class Kept(Hook):
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.notes: list[str] = []

    def logged(self, row: Row) -> None:
        self.rows.append(row)

    def noted(self, sentence: str) -> None:
        self.notes.append(sentence)


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(8, 16, bias=False), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 3))


def samples(count: int = 330) -> tuple[Tensor, Tensor]:
    draws = torch.Generator().manual_seed(1)
    labels = torch.randint(0, 3, (count,), generator=draws)
    return torch.randn(3, 8, generator=draws)[labels] + torch.randn(count, 8, generator=draws), labels


def read(request: DataRequest) -> Splits:
    inputs, labels = samples()
    return Splits(Tensors(inputs[:300], labels[:300]), Tensors(inputs[300:], labels[300:]))


RECIPE = Recipe(
    name="small", model=network, data=read, epochs=6, batch=16, lr=1e-2, weight_decay=0.1, clip=1.0, schedule="cosine",
    log_every=10, device="cpu", statistics_every=0, steps_per_replay=4, trackers=(),
)  # fmt: skip
"""19 steps an epoch, the last of 12 samples: 114 steps, of which the first 16 are looked into."""


class Counting(GraphRecorder):
    """Does the work again, and counts what was played."""

    def __init__(self) -> None:
        self.recorded = self.played = 0

    def warm_up(self, work: Work) -> None:
        RepeatRecorder().warm_up(work)

    def record(self, work: Work) -> Work:
        self.recorded += 1

        def play() -> None:
            self.played += 1
            work()

        return play


def played(recipe: Recipe, recorder: GraphRecorder | None = None, store: Memory | None = None) -> tuple[Loop, Kept]:
    """As `program=cuda_graphs` does on a device that has graphs."""
    kept = Kept()
    parts = assemble(replace(recipe, hooks=(kept,)), store=store)
    parts.guard.on_device = True
    return Loop(parts, lambda parts, state: CudaGraphs(parts, state, recorder or RepeatRecorder())), kept


def one_by_one(recipe: Recipe, store: Memory | None = None) -> tuple[Loop, Kept]:
    kept = Kept()
    return Loop.of(replace(recipe, hooks=(kept,)), store=store), kept


def furthest(first: nn.Module, second: nn.Module) -> float:
    pairs = zip(first.state_dict().values(), second.state_dict().values(), strict=True)
    return float(max((a.double() - b.double()).abs().max().item() for a, b in pairs))


VARIANTS: dict[str, dict[str, Any]] = {
    "adamw": {},
    "adam with decay": {"optimizer": "adam", "weight_decay": 0.05},
    "sgd": {"optimizer": "sgd", "lr": 0.1},
    "nesterov": {"optimizer": "momentum", "optimizer_options": {"nesterov": True}, "lr": 0.05},
    "moving average": {"ema": 0.95},
    "micro-batches": {"accumulate": 4},
    "no partial batch": {"drop_last": True},
    "classes drawn alike": {"balanced": True},
    "one-cycle": {"schedule": "one-cycle", "warmup": 5},
    "plateau": {"schedule": "plateau", "plateau": 1, "gamma": 0.5},
    "bf16": {"precision": "bf16"},
    "looked into now and then": {"statistics_every": 20},
    "data from a loader": {"where": "loader"},
    "data from a loader, micro-batches": {"where": "loader", "accumulate": 4, "drop_last": True},
    "data from a loader with workers": {"where": "loader", "workers": 2, "epochs": 2},
    "one process of ddp": {"parallel": "ddp"},
}


@pytest.mark.parametrize("change", VARIANTS.values(), ids=VARIANTS.keys())
def test_played_steps_give_the_numbers_of_steps_one_by_one(change: dict[str, Any]) -> None:
    recipe = replace(RECIPE, **change)
    plain, plain_kept = one_by_one(recipe)
    train(plain)
    loop, kept = played(recipe)
    assert train(loop).reason == "finished"
    assert furthest(plain.parts.model, loop.parts.model) < (CLOSE if recipe.precision == "fp32" else 1e-3)
    if plain.parts.ema is not None and loop.parts.ema is not None:
        assert furthest(plain.parts.ema.model, loop.parts.ema.model) < CLOSE
    ordered = [sorted(rows, key=lambda row: (row.kind, row.step)) for rows in (kept.rows, plain_kept.rows)]
    for mine, other in zip(*ordered, strict=True):
        assert (mine.kind, mine.step) == (other.kind, other.step)
        if mine.kind != "layers":
            assert mine.values["loss"] == pytest.approx(other.values["loss"], rel=1e-3)
        if mine.kind == "train":
            assert mine.values["lr"] == pytest.approx(other.values["lr"], rel=1e-6)
            assert mine.values["gradient_norm"] == pytest.approx(other.values["gradient_norm"], rel=1e-3)


def test_most_steps_are_played_and_in_stretches() -> None:
    recorder = Counting()
    loop, _ = played(RECIPE, recorder)
    train(loop)
    assert recorder.recorded == 4  # one step, two, four, the small last batch
    proofs = recorder.recorded
    # Of 114 steps, sixteen at the beginning and the last one are looked into; lines of metrics and epochs' ends cut
    # stretches short.
    assert 97 / 4 < recorder.played - proofs < 97 / 2


@pytest.mark.parametrize(
    ("most", "log_every", "lengths"),
    [
        (16, 50, (1, 2, 5, 10)),
        (16, 48, (1, 2, 4, 8, 16)),
        (16, 1, (1, 2, 4, 8, 16)),
        (1, 50, (1,)),
        (25, 50, (1, 3, 6, 12, 25)),
        (4, 7, (1, 2, 4)),
    ],
)
def test_stretches_fill_the_time_between_two_lines_of_metrics(
    most: int, log_every: int, lengths: tuple[int, ...]
) -> None:
    assert replay_lengths(most, log_every) == lengths


def test_recording_changes_no_number_of_the_run() -> None:
    loop, _ = played(replace(RECIPE, ema=0.9))
    before = [value.clone() for value in loop.parts.model.state_dict().values()]
    random = torch.get_rng_state()
    loop.program.prepare()
    assert all(torch.equal(a, b) for a, b in zip(before, loop.parts.model.state_dict().values(), strict=True))
    assert torch.equal(random, torch.get_rng_state())
    assert all(parameter.grad is None for parameter in loop.parts.parameters)
    steps = [state["step"].item() for state in loop.parts.optimizer.state.values()]
    assert steps == [0.0] * len(loop.parts.parameters)


def augmented(request: DataRequest) -> Splits:
    return replace(
        read(request), augment=lambda inputs, draws: inputs + 0.1 * torch.randn(inputs.shape, generator=draws)
    )


@pytest.mark.parametrize("where", ["auto", "loader"])
def test_augmentation_draws_what_it_draws_one_by_one(where: Literal["auto", "loader"]) -> None:
    recipe = replace(RECIPE, data=augmented, where=where)
    plain, _ = one_by_one(recipe)
    train(plain)
    loop, _ = played(recipe)
    assert isinstance(loop.program, CudaGraphs)
    assert not loop.program.gathers_inside
    train(loop)
    assert furthest(plain.parts.model, loop.parts.model) < CLOSE


@pytest.mark.parametrize("where", ["auto", "loader"])
def test_a_run_that_was_stopped_goes_on_to_the_same_bits(where: Literal["auto", "loader"]) -> None:
    recipe = replace(RECIPE, where=where)
    whole, _ = played(recipe, store=Memory())
    train(whole)
    store = Memory()
    first, _ = played(replace(recipe, save_every=10), store=store)
    calls = 0

    def stop_after(row: Row) -> None:
        nonlocal calls
        calls += row.kind == "train"
        if calls == 5:
            first.stop.signal = signal.SIGTERM

    first.parts.hooks.logged = stop_after  # type: ignore[method-assign]
    assert train(first).reason == "signal"
    again, _ = played(recipe, store=store)
    assert again.recovery.go_back()
    assert again.state.step == 50
    train(again)
    assert furthest(whole.parts.model, again.parts.model) == 0.0


def poisoned(request: DataRequest) -> Splits:
    inputs, labels = samples()
    inputs[137] = math.nan
    return Splits(Tensors(inputs[:300], labels[:300]), Tensors(inputs[300:], labels[300:]))


def test_a_batch_that_is_no_number_reaches_no_weight_and_is_named() -> None:
    loop, kept = played(replace(RECIPE, data=poisoned, on_nonfinite="skip", max_nonfinite=20))
    assert train(loop).reason == "finished"
    assert all(torch.isfinite(value).all() for value in loop.parts.model.state_dict().values())
    assert loop.state.skipped == 6  # once an epoch
    assert any("The step was skipped" in note for note in kept.notes)


@pytest.mark.parametrize("where", ["auto", "loader"])
def test_a_run_that_goes_back_to_a_checkpoint_records_anew(where: Literal["auto", "loader"]) -> None:
    recorder = Counting()
    recipe = replace(RECIPE, data=poisoned, on_nonfinite="rollback", max_nonfinite=20, where=where)
    loop, _ = played(recipe, recorder, Memory())
    assert train(loop).reason == "finished"
    assert loop.state.rollbacks > 0
    assert recorder.recorded > 4
    assert all(torch.isfinite(value).all() for value in loop.parts.model.state_dict().values())


# -- what is refused --


def longer_later(samples: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    """Batches with the sample 137 are one number wider."""
    inputs, labels = (torch.stack(part) for part in zip(*samples, strict=True))
    wide = bool((inputs[:, 0] == 99.0).any())
    return torch.nn.functional.pad(inputs, (0, int(wide))), labels


class AnyWidth(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = network()

    def forward(self, inputs: Tensor) -> Tensor:
        answer: Tensor = self.inner(inputs[:, :8])
        return answer


def test_batches_of_several_shapes_are_refused_at_the_first_that_differs() -> None:
    def ragged(request: DataRequest) -> Splits:
        inputs, labels = samples()
        inputs[137, 0] = 99.0
        rows = [(inputs[number], labels[number]) for number in range(300)]
        return Splits(Dataset(rows, collate=longer_later), Tensors(inputs[300:], labels[300:]))

    loop, _ = played(replace(RECIPE, model=AnyWidth, data=ragged))
    with pytest.raises(BadRecipe, match=r"replays batches of one shape: .*\(1[26], 8\).* of .*\(1[26], 9\)"):
        train(loop)


class Counts(nn.Module):
    """Computes something else each time."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.calls = network(), 0

    def forward(self, inputs: Tensor) -> Tensor:
        self.calls += 1
        answer: Tensor = self.inner(inputs) * self.calls
        return answer


def test_a_model_that_plays_another_number_than_it_computes_is_refused() -> None:
    loop, _ = played(replace(RECIPE, model=Counts))
    with pytest.raises(
        BadRecipe, match=r"replayed as a CUDA graph, the first batch has loss .* Nothing was trained: set program=eager"
    ):
        train(loop)
    assert loop.state.step == 0


class Unrecordable(GraphRecorder):
    """What CUDA says of a model that asks the host, in the order in which it says it."""

    def warm_up(self, work: Work) -> None:
        RepeatRecorder().warm_up(work)

    def record(self, work: Work) -> Work:
        try:
            raise RuntimeError("CUDA error: operation not permitted when stream is capturing\nmore lines")
        finally:
            raise RuntimeError("CUDA error: operation failed due to a previous error during capture")


def test_what_cannot_be_recorded_is_refused_with_the_first_reason() -> None:
    loop, _ = played(RECIPE, Unrecordable())
    with pytest.raises(
        BadRecipe, match=r"not permitted when stream is capturing\. A CUDA graph holds device work only"
    ) as said:
        train(loop)
    assert "more lines" not in str(said.value)
    assert loop.state.step == 0


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"optimizer": "rmsprop"}, "supports SGD, Adam and AdamW, not RMSprop"),
        ({"optimizer_options": {"amsgrad": True}}, "does not support AdamW with amsgrad"),
        ({"optimizer_options": {"fused": False}}, "does not support AdamW with fused=False"),
        (
            {"optimizer": "momentum", "optimizer_options": {"dampening": 0.1}},
            "does not support SGD with dampening",
        ),
    ],
)
def test_what_cannot_be_played_is_refused_before_anything_runs(change: dict[str, Any], said: str) -> None:
    loop, _ = one_by_one(replace(RECIPE, **change))
    with pytest.raises(BadRecipe, match=said):
        CudaGraphs(loop.parts, loop.state, RepeatRecorder())


def test_without_a_device_that_has_graphs_the_recipe_is_refused() -> None:
    with pytest.raises(BadRecipe, match="program=cuda_graphs needs a CUDA device, not device=cpu"):
        Loop.of(replace(RECIPE, program="cuda_graphs"))
    if not torch.cuda.is_available():
        with pytest.raises(BadRecipe, match="program=cuda_graphs needs a CUDA device, and device=auto finds"):
            Loop.of(replace(RECIPE, program="cuda_graphs", device="auto"))


# -- the update --


def updated(
    kind: type[torch.optim.Optimizer], steps: int, *, compiled: bool, held: int | None = None, **options: Any
) -> list[Tensor]:
    """Weights after steps whose rate is a tensor; one of them held back, with a gradient that is no number."""
    draws = torch.Generator().manual_seed(2)
    parameters = [nn.Parameter(torch.randn(shape, generator=draws)) for shape in ((5, 3), (7,))]
    optimizer = kind([{"params": parameters}], lr=1.0, fused=True, **options)  # type: ignore[call-arg]
    update = DeviceUpdate(optimizer, FusedStep(optimizer), compiled=False)
    update._compiled = compiled
    update.create_state(torch.ones(()))
    for step in range(steps):
        bad = step == held
        for parameter in parameters:
            parameter.grad = (
                torch.full_like(parameter, math.nan) if bad else torch.randn(parameter.shape, generator=draws)
            )
        update.step(torch.tensor(1e-2 * (step + 1)), torch.tensor(float(bad)))
    return [parameter.detach() for parameter in parameters]


def by_hand(kind: type[torch.optim.Optimizer], steps: int, held: int | None = None, **options: Any) -> list[Tensor]:
    draws = torch.Generator().manual_seed(2)
    parameters = [nn.Parameter(torch.randn(shape, generator=draws)) for shape in ((5, 3), (7,))]
    optimizer = kind(parameters, lr=1.0, **options)  # type: ignore[call-arg]
    for step in range(steps):
        if step == held:
            continue
        optimizer.param_groups[0]["lr"] = 1e-2 * (step + 1)
        for parameter in parameters:
            parameter.grad = torch.randn(parameter.shape, generator=draws)
        optimizer.step()
    return [parameter.detach() for parameter in parameters]


KINDS: dict[str, tuple[type[torch.optim.Optimizer], dict[str, Any]]] = {
    "adam": (torch.optim.Adam, {"weight_decay": 0.1}),
    "adamw": (torch.optim.AdamW, {"weight_decay": 0.1}),
    "plain sgd": (torch.optim.SGD, {"weight_decay": 0.1}),
    "momentum": (torch.optim.SGD, {"momentum": 0.9}),
    "nesterov": (torch.optim.SGD, {"momentum": 0.9, "nesterov": True}),
}


@pytest.mark.parametrize("held", [None, 0, 3])
@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("name", KINDS)
def test_an_update_is_the_optimizers_own_and_one_that_is_held_back_leaves_no_trace(
    name: str, compiled: bool, held: int | None
) -> None:
    kind, options = KINDS[name]
    mine = updated(kind, 6, compiled=compiled, held=held, **options)
    for own, other in zip(mine, by_hand(kind, 6, held, **options), strict=True):
        torch.testing.assert_close(own, other, rtol=1e-5, atol=1e-6)


def test_the_formula_changes_nothing_when_held_back() -> None:
    given = [torch.randn(4), torch.full((4,), math.inf), torch.randn(4), torch.rand(4)]
    before = [tensor.clone() for tensor in given]
    weights, gradients, averages, squares = ([tensor] for tensor in given)
    adam_step(
        weights,
        gradients,
        averages,
        squares,
        torch.zeros(1),
        torch.tensor(0.1),
        torch.ones(()),
        (0.9, 0.99),
        1e-8,
        0.1,
        True,
    )
    assert all(torch.equal(a, b) for a, b in zip(before, given, strict=True))


# -- evaluation --


@pytest.mark.parametrize(
    ("change", "inputs", "at_once"),
    [
        ({}, (8,), 2),
        ({"program": "cuda_graphs"}, (8,), 16),
        ({"program": "cuda_graphs"}, (3, 224, 224), 2),
        ({"program": "cuda_graphs"}, (), 2),
        ({"program": "cuda_graphs", "task": "language"}, (8,), 2),
    ],
    ids=["one by one", "small inputs", "images", "unknown inputs", "language"],
)
def test_small_inputs_are_evaluated_many_at_once_where_steps_are_played(
    change: dict[str, Any], inputs: tuple[int, ...], at_once: int
) -> None:
    splits = replace(read(DataRequest()), facts=Facts(inputs=inputs))
    in_order = EvaluationBatches(splits.train, splits, replace(RECIPE, **change), torch.device("cpu"), Alone())
    assert in_order.batch == at_once * RECIPE.batch
