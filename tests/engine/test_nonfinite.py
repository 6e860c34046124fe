"""One loss or gradient that is no number: named, and stopped, skipped or rolled back; no weight and no statistic ever
sees it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.engine.small import (
    CLASSES,
    SMALL,
    WIDTH,
    Ran,
    Read,
    begin,
    blobs,
    plain,
    ran,
    same_bits,
    with_norm,
    with_parts,
)
from trueloop.checkpoint.store import Memory
from trueloop.data.source import Splits
from trueloop.data.tensors import Tensors
from trueloop.engine import nonfinite_guard
from trueloop.engine.buffers import BufferSnapshot
from trueloop.engine.cadence import Cadence
from trueloop.engine.loop import Loop
from trueloop.engine.nonfinite_guard import Guard
from trueloop.engine.nonfinite_origin import describe_origin, find_origin
from trueloop.engine.sample_order import epoch_order
from trueloop.engine.task import Multiclass
from trueloop.parallel.gradient import clip, norm_of

NAN = math.nan


def spoiled(value: float = NAN, epoch: int = 0, step: int = 5, samples: int = 50, batch: int = 8) -> Callable[..., Any]:
    """Puts a value into a sample of that step of that epoch. It comes in other epochs too, in other steps."""
    number = int(epoch_order(samples, 0, epoch)[step * batch])

    def change(inputs: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        inputs[number, 0] = value
        return inputs, labels

    return change


ONCE = replace(SMALL, data=Read(change=spoiled()), batch=8, epochs=1, clip=1.0)
"""Seven steps; the sixth, (epoch 0, batch 5), meets the value."""


def on_device(loop: Loop) -> None:
    """As on an accelerator: the optimizer is told on the device, the host asks later."""
    loop.parts.guard.on_device = True


DEVICES = pytest.mark.parametrize("before", [None, on_device], ids=["asked on the host", "held on the device"])


def finite(over: Ran) -> bool:
    return all(torch.isfinite(value).all() for value in over.weights.values())


# -- stop --


def test_stop_names_the_data_and_leaves_the_weights_as_they_were() -> None:
    over = ran(ONCE)
    before = ran(replace(ONCE, epochs=None, steps=5, schedule="constant"))
    assert over.ending.reason == "nonfinite"
    assert "The data of the batch at step 6 (epoch 0, batch 5) hold nan" in over.ending.message
    assert "It did not reach the weights" in over.ending.message
    assert same_bits(over.weights, before.weights)
    assert over.kept.not_finite()[0].origin == "input"
    assert not over.kept.not_finite()[0].skipped


def test_a_run_that_stopped_is_not_saved_past_the_batch_that_stopped_it() -> None:
    store = Memory()
    over = ran(replace(ONCE, save_every=1), store)
    assert store.names()[-1] == "step-00000005"
    again = ran(replace(ONCE, save_every=1), store, go_on=True)
    assert again.ending.message == over.ending.message, "a resume meets the same batch and says the same"


@DEVICES
def test_stop_on_either_path_keeps_the_weights_finite(before: Any) -> None:
    over = ran(replace(ONCE, log_every=50), before=before)
    assert over.ending.reason == "nonfinite"
    assert finite(over)
    assert "at step 6 (epoch 0, batch 5)" in over.ending.message


# -- skip --


@DEVICES
@pytest.mark.parametrize("model", [plain, with_norm])
@pytest.mark.parametrize("optimizer", ["adamw", "adam", "sgd", "momentum", "Adagrad"])
def test_skip_learns_from_all_the_others(before: Any, model: Any, optimizer: str) -> None:
    over = ran(replace(ONCE, model=model, epochs=3, on_nonfinite="skip", optimizer=optimizer), before=before)
    assert over.ending.reason == "finished"
    assert finite(over), "neither weights nor running statistics"
    assert over.loop.state.skipped == 3, "the sample comes once an epoch"
    assert len(over.kept.not_finite()) == 3
    assert all(event.skipped for event in over.kept.not_finite())
    assert sum("skipped" in note for note in over.kept.notes) == 3
    assert over.loop.state.step == 21


@DEVICES
def test_a_skipped_step_is_as_if_it_had_not_been(before: Any) -> None:
    """By hand: the same steps without the one."""
    recipe = replace(ONCE, model=with_norm, on_nonfinite="skip", optimizer="sgd")
    over = ran(recipe, before=before)
    loop, _, _ = begin(recipe)
    inputs, labels = blobs(50)
    model = loop.parts.model
    for step, number in enumerate(torch.split(epoch_order(50, 0, 0), 8)):
        if step == 5:
            continue
        model.zero_grad()
        nn.functional.cross_entropy(model(inputs[number]), labels[number]).backward()  # type: ignore[no-untyped-call]
        parameters = list(model.parameters())
        clip(parameters, norm_of(parameters), 1.0)
        with torch.no_grad():
            for parameter in parameters:
                parameter.sub_(SMALL.lr * torch.as_tensor(parameter.grad))
    expected = model.state_dict()
    learned = {name: value for name, value in over.weights.items() if before is None or name.startswith(("0", "3"))}
    for name, value in learned.items():
        assert torch.allclose(value, expected[name], atol=1e-6), name


@DEVICES
def test_losses_in_the_log_are_those_of_the_steps_that_were_taken(before: Any) -> None:
    each = ran(replace(ONCE, on_nonfinite="skip", log_every=1), before=before)
    one = ran(replace(ONCE, on_nonfinite="skip", log_every=7), before=before)
    taken = [loss for step, loss in enumerate(each.losses) if step != 5]
    assert math.isnan(each.losses[5])
    assert one.losses == [pytest.approx(sum(taken) / 6, rel=1e-5)]


def test_the_count_is_bounded() -> None:
    over = ran(replace(ONCE, epochs=9, on_nonfinite="skip", max_nonfinite=4))
    assert over.ending.reason == "nonfinite"
    assert "more than max_nonfinite=4" in over.ending.message
    assert over.loop.state.skipped == 5
    assert finite(over)


def test_the_moving_average_does_not_follow_a_step_that_was_not_taken() -> None:
    for before in (None, on_device):
        over = ran(replace(ONCE, model=with_norm, on_nonfinite="skip", ema=0.5, evaluate_every=1), before=before)
        assert over.loop.parts.ema is not None
        assert all(torch.isfinite(value).all() for value in over.loop.parts.ema.model.state_dict().values())
        assert all(math.isfinite(value) for value in over.kept.values(kind="valid"))


def test_evaluation_after_a_held_step_is_not_poisoned_by_statistics() -> None:
    """On the device nobody knows yet, when the evaluation comes before the log line."""
    over = ran(replace(ONCE, model=with_norm, on_nonfinite="skip", log_every=50, evaluate_every=6), before=on_device)
    assert all(math.isfinite(value) for value in over.kept.values(kind="valid"))


# -- roll back --


@DEVICES
def test_rollback_goes_back_and_leaves_that_batch_out_when_it_comes_again(before: Any) -> None:
    over = ran(replace(ONCE, on_nonfinite="rollback", save_every=2, log_every=2), before=before)
    assert over.ending.reason == "finished"
    assert finite(over)
    assert (over.loop.state.rollbacks, over.loop.state.skipped, over.loop.state.step) == (1, 1, 7)
    assert over.loop.state.avoided == [(0, 5)]
    assert any("Rolled back to the checkpoint of step" in note for note in over.kept.notes)
    skipped = ran(replace(ONCE, on_nonfinite="skip", save_every=2, log_every=2), before=before)
    assert same_bits(over.weights, skipped.weights), (
        "in the end, that batch was not learned from, and all others were, once"
    )


def test_rollback_without_a_checkpoint_skips_and_says_so() -> None:
    over = ran(replace(ONCE, on_nonfinite="rollback"))
    assert over.ending.reason == "finished"
    assert "There is no checkpoint to roll back to yet." in over.kept.notes


def test_rollbacks_are_bounded_too() -> None:
    over = ran(
        replace(
            ONCE, data=Read(change=lambda x, y: (x * NAN, y)), on_nonfinite="rollback", max_nonfinite=3, save_every=1
        )
    )
    assert over.ending.reason == "nonfinite"
    assert over.loop.state.skipped == 4


def test_a_resumed_run_still_avoids_what_it_went_back_for() -> None:
    store = Memory()
    recipe = replace(ONCE, on_nonfinite="rollback", save_every=2, epochs=2)
    whole = ran(recipe, Memory())
    ran(replace(recipe, epochs=None, steps=8), store)
    resumed = ran(recipe, store, go_on=True)
    assert resumed.loop.parts.guard.avoided >= {(0, 5)}
    assert same_bits(whole.weights, resumed.weights)


# -- who is named --


class Roots(nn.Module):
    """A square root: at zero its slope has no end."""

    def forward(self, inputs: Tensor) -> Tensor:
        return inputs.abs().sqrt()


class Exponent(nn.Module):
    def forward(self, inputs: Tensor) -> Tensor:
        return (inputs * 100).exp()


def zeros(samples: int = 50) -> Read:
    return Read(change=lambda inputs, labels: (inputs * 0, labels))


def test_a_gradient_that_is_no_number_only_in_the_backward_is_stopped_and_its_layer_named() -> None:
    model = lambda: nn.Sequential(nn.Linear(WIDTH, 8, bias=False), Roots(), nn.Linear(8, CLASSES))  # noqa: E731
    over = ran(replace(ONCE, model=model, data=zeros()))
    assert over.ending.reason == "nonfinite"
    assert "layers and loss are finite, but the backward of 1 (Roots) is not" in over.ending.message
    assert over.kept.not_finite()[0].what == "gradient"
    assert finite(over)


def test_infinity_from_an_exponent_names_that_layer_and_its_inputs() -> None:
    model = lambda: nn.Sequential(nn.Linear(WIDTH, 8), Exponent(), nn.Linear(8, CLASSES))  # noqa: E731
    over = ran(replace(ONCE, model=model, data=Read(change=lambda x, y: (x * 50, y))))
    assert over.ending.reason == "nonfinite"
    assert "The layer 1 (Exponent) gives inf from finite inputs in [" in over.ending.message


def test_a_loss_that_is_no_number_with_a_gradient_that_is_one_is_stopped_as_well() -> None:
    """Its gradient is finite, so that whoever looks at gradients alone would go on for ever."""
    recipe = replace(ONCE, data=Read(), loss=lambda output, _: output.square().mean(1) + math.inf)
    over = ran(recipe)
    assert over.ending.reason == "nonfinite"
    assert "The loss is inf" in over.ending.message


def test_a_weight_that_is_none_already_is_named() -> None:
    def break_weight(loop: Loop) -> None:
        with torch.no_grad():
            loop.parts.parameters[0][0, 0] = NAN

    over = ran(replace(ONCE, data=Read()), before=break_weight)
    assert "The weight 0.weight holds nan" in over.ending.message


def test_the_root_is_named_when_it_happens_between_its_parts() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.last = nn.Linear(WIDTH, 8, bias=False), nn.Linear(8, CLASSES)

        def forward(self, inputs: Tensor) -> Tensor:
            answer: Tensor = self.last(self.first(inputs).abs().sqrt())
            return answer

    over = ran(replace(ONCE, model=Net, data=zeros()))
    assert "the backward of Net (Net) is not" in over.ending.message


def test_an_autopsy_changes_nothing() -> None:
    model = nn.Sequential(nn.Linear(WIDTH, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, CLASSES))
    before = {name: value.clone() for name, value in model.state_dict().items()}
    splits = Splits(Tensors(*blobs(8)))
    torch.manual_seed(4)
    event = find_origin(
        model,
        Multiclass(),
        splits.train.fetch(torch.arange(8)),
        3,
        (0.1,),
        lambda: torch.autocast("cpu", enabled=False),
    )
    drawn = torch.rand(1)
    torch.manual_seed(4)
    assert torch.equal(drawn, torch.rand(1))
    assert same_bits(before, model.state_dict())
    assert all(parameter.grad is None for parameter in model.parameters())
    assert event.origin == "unknown", "nothing is wrong with this batch"
    assert "it comes from the backward" in describe_origin(event, 0, 3)


def test_an_autopsy_of_accumulated_steps_looks_at_micro_batches() -> None:
    over = ran(replace(ONCE, accumulate=4))
    assert "The data of the batch at step 6" in over.ending.message


# -- the guard alone --


def guarded(**options: Any) -> tuple[nn.Parameter, Guard]:
    weight = nn.Parameter(torch.ones(3))
    return weight, Guard(torch.optim.SGD([weight], lr=1.0, fused=True), torch.device("cpu"), **options)


def test_flags_on_the_device_tell_later_which_batches_were_held_back() -> None:
    weight, keeper = guarded()
    keeper.on_device = True
    for number, norm in enumerate([1.0, NAN, 2.0, math.inf]):
        weight.grad = torch.full((3,), norm)
        assert keeper.step(torch.tensor(1.0), torch.tensor(norm), (0, number)), "nobody knows yet"
    assert torch.equal(weight.detach(), torch.full((3,), 1.0 - 1.0 - 2.0))
    assert keeper.losses()[0] == 2.0
    assert keeper.take_skipped() == [(0, 1), (0, 3)]
    assert keeper.losses() == (2.0, 2)
    assert keeper.take_skipped() == []


def test_the_flags_are_read_before_there_is_no_room_for_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nonfinite_guard, "FLAGS", 4)
    over = ran(replace(ONCE, log_every=100, epochs=3, evaluate_every=100, on_nonfinite="skip"), before=on_device)
    assert over.ending.reason == "finished"
    assert (over.loop.state.step, over.loop.state.skipped) == (21, 3)


def test_what_the_device_held_back_survives_a_checkpoint_in_between() -> None:
    """Saved after the bad step and before anybody asked: the resumed run must still tell."""
    store = Memory()
    recipe = replace(ONCE, model=with_norm, on_nonfinite="skip", log_every=7, save_every=6, epochs=2)
    whole = ran(recipe, Memory(), before=on_device)
    cut = with_parts(begin(recipe, store)[0], total_steps=6)
    on_device(cut)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Cadence, "time_to_log", lambda self: False)  # noqa: ARG005
        patch.setattr(Cadence, "time_to_evaluate", lambda self, ends_epoch: False)  # noqa: ARG005
        cut.train()
    resumed = ran(recipe, store, go_on=True, before=on_device)
    assert resumed.loop.state.skipped == whole.loop.state.skipped == 2
    assert same_bits(resumed.weights, whole.weights)
    assert resumed.losses == whole.losses


def test_statistics_go_back_to_the_last_good_step() -> None:
    norm, table = nn.BatchNorm1d(2), torch.ones(1000)
    norm.register_buffer("table", table)
    statistics = BufferSnapshot(norm)
    norm(torch.randn(4, 2) * NAN)
    assert norm.running_mean is not None
    assert torch.isnan(norm.running_mean).all()
    statistics.restore()
    assert torch.equal(norm.running_mean, torch.zeros(2))
    assert int(torch.as_tensor(norm.num_batches_tracked)) == 0
    table.add_(1)
    statistics.restore()
    assert torch.equal(table, torch.ones(1000)), "what does change is put back, whoever changes it"


def test_a_table_that_nobody_changes_is_not_copied() -> None:
    model = nn.Module()
    model.register_buffer("table", table := torch.ones(1000))
    statistics = BufferSnapshot(model)
    assert statistics._changed() == []
    table.add_(1)
    assert statistics._changed() == [0]
    statistics.take()
    assert statistics._changed() == []


def test_the_guard_holds_back_what_it_is_asked_about_on_the_host() -> None:
    weight, keeper = guarded()
    weight.grad = torch.full((3,), NAN)
    assert not keeper.step(torch.tensor(1.0), torch.tensor(NAN), (2, 3))
    assert keeper.take_skipped() == [(2, 3)]
    assert torch.equal(weight.detach(), torch.ones(3))
