"""A loss of the user's own: its parts, its divisor, and what it may see."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - as everybody writes it
from torch import Tensor

from tests.engine.small import PADDING, SMALL, Ran, Read, begin, furthest, ran, reading
from tests.parallel.ranks import on_ranks
from trueloop.checkpoint.plan import name_of
from trueloop.checkpoint.store import Memory
from trueloop.data.source import Batch
from trueloop.engine.accumulation_note import accumulation_note
from trueloop.engine.loop import Loop
from trueloop.engine.nonfinite_origin import find_origin
from trueloop.engine.own_loss import OwnLoss
from trueloop.engine.preflight import check_before_training
from trueloop.engine.task_kind import LossState
from trueloop.errors import BadData, BadRecipe

LENGTHS = (1, 2, 4, 32, 7, 3, 11)


def token_mean(output: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(output.flatten(0, 1), targets.flatten(), ignore_index=PADDING)


def token_sum(output: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    total = F.cross_entropy(output.flatten(0, 1), targets.flatten(), ignore_index=PADDING, reduction="sum")
    return total, (targets != PADDING).sum()


def sum_and_parts(output: Tensor, targets: Tensor) -> tuple[Tensor, Tensor, dict[str, Any]]:
    total, count = token_sum(output, targets)
    return total, count, {"half": total / 2, "tokens": int(count)}


def in_two_parts(output: Tensor, targets: Tensor) -> tuple[Tensor, dict[str, Any]]:
    """One loss per sample; a part per sample, a mean, and a plain number."""
    losses, penalty = F.cross_entropy(output, targets, reduction="none"), output.square().mean(1)
    return losses + 0.1 * penalty, {"entropy": losses, "penalty": penalty.mean(), "weight": 0.1}


TOKENS = replace(reading(*LENGTHS), batch=4, epochs=None, steps=20)
PARTS = replace(SMALL, data=Read(samples=49, valid=21), loss=in_two_parts, epochs=None, steps=12, optimizer="sgd")


# -- a sum and its divisor --


@pytest.mark.parametrize("accumulate", [1, 2, 4])
def test_a_token_sum_with_its_count_is_the_mean_over_tokens_of_the_one_big_batch(accumulate: int) -> None:
    """The task `language` does the same with a divisor that it knows beforehand."""
    whole, own = ran(TOKENS), ran(replace(TOKENS, loss=token_sum, accumulate=accumulate, clip=None))
    assert own.losses == pytest.approx(whole.losses, abs=1e-5)
    assert furthest(whole.weights, own.weights) < 1e-5


def test_the_mean_of_the_micro_batches_means_would_be_far_off() -> None:
    """That the test above can fail."""
    whole, wrong = ran(TOKENS), ran(replace(TOKENS, loss=token_mean, accumulate=4))
    assert furthest(whole.weights, wrong.weights) > 0.01
    loop, _, _ = begin(replace(TOKENS, loss=token_mean, accumulate=4))
    assert "`total, count`" in accumulation_note(loop.parts)
    loop, _, _ = begin(replace(TOKENS, loss=token_sum, accumulate=4))
    assert accumulation_note(loop.parts) == ""


@pytest.mark.parametrize("options", [{}, {"accumulate": 4}], ids=str)
def test_two_processes_divide_by_the_count_of_both(options: dict[str, Any]) -> None:
    recipe = replace(TOKENS, loss=sum_and_parts, steps=8)
    alone = ran(recipe)
    told = on_ranks(lambda _: _told(ran(replace(recipe, **options)), "half", "tokens"))
    assert told[0]["losses"] == pytest.approx(alone.losses, abs=1e-5)
    assert told[0]["half"] == pytest.approx(alone.kept.values("half"), abs=1e-5)
    assert told[0]["tokens"] == alone.kept.values("tokens") == [1.0] * 8


def weighted_sum(output: Tensor, targets: Tensor) -> tuple[Tensor, Tensor, dict[str, Any]]:
    weights = 1.0 + targets
    total = (F.cross_entropy(output, targets, reduction="none") * weights).sum()
    return total, weights.sum(), {"whole": total}


def test_sharded_gradients_are_divided_too() -> None:
    recipe = replace(PARTS, loss=weighted_sum, steps=6)
    alone = ran(recipe)
    first, _ = on_ranks(lambda _: _told(ran(replace(recipe, parallel="fsdp")), "whole"))
    assert first["losses"] == pytest.approx(alone.losses, abs=1e-5)
    assert first["whole"] == pytest.approx(alone.losses, abs=1e-5)


def _told(over: Ran, *names: str) -> dict[str, Any]:
    return {"losses": over.losses} | {name: over.kept.values(name) for name in names if over.kept.rows}


def test_a_step_without_a_token_changes_nothing() -> None:
    over = ran(replace(reading(0, 0, 0, 0), loss=token_sum, batch=4, accumulate=2, epochs=2))
    assert over.losses == [0.0, 0.0]


def test_an_evaluation_divides_by_all_counts() -> None:
    loop, _, _ = begin(replace(TOKENS, loss=sum_and_parts, evaluation_batch=3))
    train = loop.parts.splits.train
    found = loop.validation.measure(loop.parts.model, train)
    inputs, targets = train.fetch(torch.arange(len(train)))
    with torch.no_grad():
        expected = float(token_mean(loop.parts.model(inputs), targets))
    assert found == pytest.approx({"loss": expected, "half": expected / 2, "tokens": 1.0}, rel=1e-5)


# -- parts --


def by_hand(recipe: Any, steps: int) -> list[dict[str, float]]:
    """The same training in plain PyTorch: what each step's whole batch gives."""
    loop, _, _ = begin(replace(recipe, accumulate=1))
    rows = []
    optimizer = torch.optim.SGD(loop.parts.model.parameters(), lr=recipe.lr)
    for window in loop.windows():
        inputs, targets = window.micros[0]
        losses, parts = in_two_parts(loop.parts.model(inputs), targets)
        means = {name: float(torch.as_tensor(part).detach().mean()) for name, part in parts.items()}
        rows.append({"loss": float(losses.detach().mean()), **means})
        optimizer.zero_grad()
        losses.mean().backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        loop.state.advance(window.ends_epoch)
        if len(rows) == steps:
            break
    return rows


@pytest.mark.parametrize("accumulate", [1, 4])
def test_parts_are_logged_as_means_over_the_step_and_over_the_rows(accumulate: int) -> None:
    expected = by_hand(PARTS, 12)
    over = ran(replace(PARTS, accumulate=accumulate, log_every=3))
    for name in ("loss", "entropy", "penalty", "weight"):
        means = [sum(row[name] for row in expected[first : first + 3]) / 3 for first in range(0, 12, 3)]
        assert over.kept.values(name) == pytest.approx(means, rel=1e-5), name


def test_parts_stand_in_the_validation_rows() -> None:
    over = ran(PARTS)
    valid = over.loop.parts.splits.valid
    assert valid is not None
    inputs, targets = valid.fetch(torch.arange(len(valid)))
    with torch.no_grad():
        losses, parts = in_two_parts(over.loop.parts.model(inputs), targets)
    found = over.loop.validation.measure(over.loop.parts.model, valid)
    means = {name: float(torch.as_tensor(part).mean()) for name, part in parts.items()}
    assert found == pytest.approx({"loss": float(losses.mean()), **means}, rel=1e-5)


def test_two_processes_log_the_parts_of_one() -> None:
    """49 samples in batches of 16: each fourth step holds one sample, and one process none."""
    alone = ran(PARTS)
    first, _ = on_ranks(lambda _: _told(ran(PARTS), "entropy", "penalty"))
    for name in ("entropy", "penalty"):
        assert first[name] == pytest.approx(alone.kept.values(name), rel=1e-4)


def test_a_skipped_step_is_in_no_mean() -> None:
    def poison(inputs: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        inputs[0] = torch.nan
        return inputs, labels

    recipe = replace(PARTS, data=Read(samples=48, change=poison), on_nonfinite="skip", log_every=3, steps=6)
    over = ran(recipe)
    assert over.loop.state.skipped == 2
    assert all(value == value for name in ("loss", "entropy") for value in over.kept.values(name))


def test_a_resumed_run_writes_the_same_rows() -> None:
    """The checkpoint falls between two rows: what was added up since the last one is in it."""
    recipe = replace(PARTS, log_every=5, save_every=7, evaluate_every=100, steps=12)
    store = Memory()
    ran(recipe, store)
    store.remove(store.names()[-1])
    assert store.names() == [name_of(7)]
    again, whole = ran(recipe, store, go_on=True), ran(recipe)
    assert again.kept.values("entropy") == whole.kept.values("entropy")[1:]
    assert again.kept.values() == whole.kept.values()[1:]


def test_parts_that_come_and_go_are_one_sentence() -> None:
    calls = []

    def loss(output: Tensor, targets: Tensor) -> Any:
        calls.append(1)
        return F.cross_entropy(output, targets), {"a": 1.0} if len(calls) < 3 else {"b": 1.0}

    with pytest.raises(BadRecipe, match="the parts a and no count, and now the parts b and no count"):
        ran(replace(PARTS, loss=loss, evaluate_every=100))


# -- what it may see --


def test_a_loss_of_three_parameters_sees_the_batch_and_where_the_run_stands() -> None:
    seen: list[tuple[LossState, int]] = []

    def loss(output: Tensor, batch: Batch, state: LossState) -> Tensor:
        seen.append((state, len(batch.inputs)))
        assert torch.equal(output.detach(), output)
        return F.cross_entropy(output, batch.targets) * (1 + state.step / state.total_steps)

    over = ran(replace(SMALL, loss=loss, epochs=2, accumulate=2))
    training = [state for state, _ in seen if state.training]
    assert sorted({state.step for state in training}) == list(range(8))
    assert {state.total_steps for state in training} == {8}
    assert [state.epoch for state in training] == sorted(state.epoch for state in training)
    assert {state.step for state, _ in seen if not state.training} == {4, 8}
    assert over.ending.reason == "finished"
    plain_run = ran(replace(SMALL, loss=lambda output, targets: F.cross_entropy(output, targets), epochs=2))
    assert over.losses[0] == pytest.approx(plain_run.losses[0], rel=1e-5)
    assert over.losses[-1] != pytest.approx(plain_run.losses[-1], rel=1e-2)


@pytest.mark.parametrize(
    ("loss", "takes"),
    [
        (F.cross_entropy, False),
        (torch.nn.CrossEntropyLoss(), False),
        (lambda output, targets, smoothing=0.1: output, False),  # noqa: ARG005
        (lambda *arguments: arguments, False),
        (lambda output, batch, state: output, True),  # noqa: ARG005
    ],
)
def test_the_number_of_required_parameters_decides(loss: Callable[..., Any], takes: bool) -> None:
    assert OwnLoss(loss).takes_state is takes


def test_the_search_for_a_nonfinite_value_computes_the_loss_of_that_step() -> None:
    def loss(output: Tensor, batch: Batch, state: LossState) -> Tensor:
        nothing = 0.0 if state.step == 5 else 1.0
        return F.cross_entropy(output, batch.targets, reduction="none") / nothing

    over = ran(replace(SMALL, loss=loss, epochs=None, steps=9))
    assert over.ending.reason == "nonfinite"
    assert over.ending.step == 6
    (event,) = over.kept.not_finite()
    assert (event.step, event.origin) == (5, "loss")
    loop, _, _ = begin(replace(SMALL, loss=loss))
    batch = loop.parts.batches.batch_at(0, 0)
    told = find_origin(loop.parts.model, loop.parts.task, batch, 0, (), loop.parts.precision.autocast)
    assert told.origin == "unknown"


@pytest.mark.parametrize(
    ("loss", "what"),
    [
        (lambda output, batch, state: F.cross_entropy(output, batch.targets), "takes the state"),  # noqa: ARG005
        (in_two_parts, "has parts"),
        (lambda output, targets: (F.cross_entropy(output, targets, reduction="sum"), len(targets)), "has a count"),
    ],
)
def test_a_program_that_repeats_one_step_refuses_it(loss: Any, what: str) -> None:
    loop = Loop.of(replace(SMALL, loss=loss, program="compiled_step"))
    with pytest.raises(BadRecipe, match=f"program=compiled_step repeats .* the recipe's loss {what}.*program=eager"):
        loop.program.prepare()


# -- mistakes --


@pytest.mark.parametrize(
    ("loss", "said"),
    [
        (lambda output, _: (output.mean(), "kl"), "returns (float32 of shape [], a str)"),
        (lambda output, _: (output.mean(), {}, 3), "returns (float32 of shape [], a dict, a int)"),
        (lambda output, _: (output.sum(), torch.ones(16)), "returns (float32 of shape [], float32 of shape [16])"),
        (lambda *_: (), "returns None"),
        (lambda *_: {"loss": 1}, "returns a dict"),
        (lambda output, _: (output.mean(), {"lr": 1.0}), "a part with the name 'lr'"),
        (lambda output, _: (output.mean(), {3: 1.0}), "a part with the name 3"),
        (lambda output, _: (output.mean(), {"iou": 1.0}), "a part with the name 'iou'"),
        (lambda output, _: (output.mean(), {"kl": "low"}), "the part 'kl' of the recipe's loss is a str"),
        (lambda output, _: (output.mean(), {"kl": output[:3, 0]}), "the part 'kl' of the recipe's loss is float32"),
        (lambda output, targets: F.cross_entropy(output, targets, reduction="sum"), "`return total, count`"),
    ],
)
def test_a_mistake_in_what_it_returns_is_one_sentence(loss: Any, said: str) -> None:
    loop = Loop.of(replace(SMALL, loss=loss, metrics={"iou": lambda output, _: output.mean()}))
    with pytest.raises(BadData) as caught:
        check_before_training(loop.parts)
    assert said in str(caught.value)
    assert "Nothing was trained" in str(caught.value)


def test_two_divisors_are_one_too_many() -> None:
    loop = Loop.of(replace(TOKENS, loss=token_sum, loss_count=lambda targets: (targets != PADDING).sum()))
    with pytest.raises(BadData, match="leave loss_count out"):
        check_before_training(loop.parts)


def test_a_wrong_signature_names_both_forms() -> None:
    loop = Loop.of(replace(SMALL, loss=lambda output: output.mean()))
    with pytest.raises(BadRecipe, match=r"loss\(output, targets\)` or `def loss\(output, batch, state\)"):
        check_before_training(loop.parts)


# -- killed --

SCRIPT = """
import os, signal
import torch
import torch.nn.functional as F
from torch import nn
from trueloop import Hook, Recipe, Splits, Tensors

def data(request):
    draws = torch.Generator().manual_seed(5)
    inputs = torch.randn(53, 6, generator=draws)
    return Splits(Tensors(inputs[:40], inputs[:40, :3].argmax(1)), Tensors(inputs[40:], inputs[40:, :3].argmax(1)))

def net():
    return nn.Sequential(nn.Linear(6, 16), nn.Dropout(0.3), nn.ReLU(), nn.Linear(16, 3))

def loss(output, batch, state):
    beta = state.step / state.total_steps
    penalty = (output.square().sum(1) + batch.inputs.square().sum(1)) * beta
    total = (F.cross_entropy(output, batch.targets, reduction="none") + penalty).sum()
    return total, len(batch.targets), {"penalty": penalty.sum()}

class Killer(Hook):
    def saved(self, *_):
        self.saves = getattr(self, "saves", 0) + 1
        if self.saves == int(os.environ.get("KILL_AT", 0)):
            os.kill(os.getpid(), signal.SIGKILL)

recipe = Recipe("mine", net, data, loss=loss, epochs=4, batch=8, accumulate=2, log_every=3, save_every=2, device="cpu",
    trackers=(), hooks=(Killer(),), metrics={"hit": lambda output, targets: output.argmax(1) == targets}, metric="hit")
"""


def test_a_run_that_was_killed_and_resumed_ends_bit_identical(tmp_path: Path) -> None:
    def start(folder: Path, *arguments: str, kill: int = 0) -> int:
        folder.mkdir(exist_ok=True)
        (folder / "mine.py").write_text(SCRIPT, encoding="utf-8")
        environment = os.environ | {"KILL_AT": str(kill), "OMP_NUM_THREADS": "1"}
        command = [sys.executable, "-m", "trueloop", *arguments]
        return subprocess.run(command, cwd=folder, env=environment, capture_output=True, check=False).returncode

    def rows(folder: Path) -> list[Any]:
        lines = (folder / "runs" / "a" / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
        timed = ("samples_per_second", "data_wait", "memory_mb", "seconds")
        return [{k: v for k, v in json.loads(line).items() if k not in timed} for line in lines]

    whole, killed = tmp_path / "whole", tmp_path / "killed"
    assert start(whole, "train", "mine.py", "--name", "a") == 0
    assert start(killed, "train", "mine.py", "--name", "a", kill=4) == -signal.SIGKILL
    assert start(killed, "resume", "runs/a") == 0
    assert rows(killed) == rows(whole)
    assert all("penalty" in row for row in rows(whole) if row["kind"] == "train")
    weights = Path("runs", "a", "checkpoints", name_of(20), "model.safetensors")
    assert (killed / weights).read_bytes() == (whole / weights).read_bytes()


def _regression(loss: Any) -> Any:
    def change(inputs: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        return inputs, inputs.sum(1)

    return replace(SMALL, model=lambda: torch.nn.Linear(6, 1), data=Read(valid=0, change=change), loss=loss)


@pytest.mark.parametrize(
    "loss",
    [
        lambda output, targets: (output - targets).square(),
        lambda output, targets: (output - targets).square().mean(),
        lambda output, targets: (output - targets).abs().mean(),
    ],
)
def test_a_loss_that_compares_every_output_with_every_target_is_refused(loss: Any) -> None:
    with pytest.raises(BadData, match=r"broadcast to \[16, 16\]"):
        check_before_training(Loop.of(_regression(loss)).parts)


def _ranked(output: Tensor, targets: Tensor) -> Tensor:
    order = (targets[:, None] > targets[None]).float()
    return F.binary_cross_entropy_with_logits(output - output.T, order)


@pytest.mark.parametrize("loss", [lambda output, targets: (output.squeeze(1) - targets).square(), _ranked])
def test_losses_that_pair_or_rank_are_not(loss: Any) -> None:
    check_before_training(Loop.of(_regression(loss)).parts)


def test_an_evaluation_belongs_to_the_epoch_that_it_ends() -> None:
    seen: list[tuple[bool, int]] = []

    def loss(output: Tensor, batch: Batch, state: LossState) -> Tensor:
        seen.append((state.training, state.epoch))
        return F.cross_entropy(output, batch.targets, reduction="none")

    ran(replace(SMALL, loss=loss))
    assert {epoch for training, epoch in seen if not training} == {0, 1, 2}
