"""What the loop tells of itself: true, complete for the rules that read it, and without any effect on the training."""

from __future__ import annotations

import gc
import math
import sys
import weakref
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any, TypeVar

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - as everybody writes it
from torch import Tensor, nn

import trueloop.engine.train as loop_file
from tests.engine.small import with_parts
from trueloop.data.source import Facts, Splits
from trueloop.data.tensors import Tensors
from trueloop.engine.accounts import Accounts, Units
from trueloop.engine.facts import APART, EARLY, MEASURED_APART, EngineObserver, _next_due, _place_of
from trueloop.engine.loop import Loop
from trueloop.engine.loss_facts import Activation, loss_facts
from trueloop.engine.parts import Parts
from trueloop.engine.state import State
from trueloop.engine.task import Binary, Language, Multiclass, Multilabel, OwnLoss, Regression, Task
from trueloop.event import (
    Backward,
    EpochStarted,
    Event,
    GradientsMeasured,
    IdenticalUnits,
    LossComputed,
    ModelSeen,
    ParametersAccounted,
    RunStarted,
    Stepped,
)
from trueloop.hook import Hook
from trueloop.recipe.recipe import DataRequest, Recipe

E = TypeVar("E", bound=Event)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 12), nn.BatchNorm1d(12), nn.ReLU(), nn.Dropout(0.2))
        self.head = nn.Linear(12, 3)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.head(self.body(x))
        return out


class Spare(Net):
    """With parameters that nothing reaches, each for a reason of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.unused = nn.Linear(2, 2)
        self.aside = nn.Linear(6, 2)
        self.frozen = nn.Linear(6, 2).requires_grad_(False)
        self.scale = nn.Parameter(torch.ones(3))
        self.average = nn.Parameter(torch.zeros(3))

    def forward(self, x: Tensor) -> Tensor:
        self.aside(x)
        with torch.no_grad():
            self.average.add_(1)
        return super().forward(x)


def read(request: DataRequest) -> Splits:
    draws = torch.Generator().manual_seed(0)
    inputs = torch.randn(60, 6, generator=draws)
    return Splits(train=Tensors(inputs, inputs[:, :3].argmax(1)), facts=Facts(classes=("a", "b", "c")))


RECIPE = Recipe(
    name="told", model=Net, data=read, steps=60, batch=20, lr=0.05, optimizer="sgd", log_every=20, trackers=()
)


class Ear(Hook):
    def __init__(self) -> None:
        self.events: list[Event] = []

    def event_emitted(self, event: Event) -> None:
        self.events.append(event)

    def of(self, kind: type[E]) -> list[E]:
        return [event for event in self.events if isinstance(event, kind)]


def told(recipe: Recipe = RECIPE, **changes: Any) -> Ear:
    ear = Ear()
    Loop.of(replace(recipe, **changes), hooks=ear).train()
    return ear


# -- which steps --


def test_the_first_steps_are_told_one_by_one_and_then_the_lines_of_metrics() -> None:
    ear = told()
    steps = [event.step for event in ear.of(Backward)]
    assert steps == [*range(EARLY), 39, 59]
    assert [event.step for event in ear.of(Stepped)] == steps
    assert [event.step for event in ear.of(GradientsMeasured)] == [0, 1, 2, 39, 59]


def test_looks_stay_apart_however_often_metrics_are_logged() -> None:
    steps = [event.step for event in told(log_every=1).of(Backward)][EARLY:]
    assert all(later - earlier >= APART for earlier, later in pairwise(steps[:-1]))
    measured = [event.step for event in told(log_every=1).of(GradientsMeasured)][3:]
    assert all(later - earlier >= MEASURED_APART for earlier, later in pairwise(measured[:-1]))


def test_other_steps_are_only_compared_with_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[int] = []
    plain = EngineObserver._begin

    def counting(self: EngineObserver, window: Any) -> None:
        looked.append(self.state.step)
        plain(self, window)

    monkeypatch.setattr(EngineObserver, "_begin", counting)
    told(steps=200, log_every=50, statistics_every=70)
    assert looked == [*range(EARLY), 49, 69, 99, 139, 149, 199]


def test_facts_that_wait_on_the_device_are_told_at_the_next_line_of_metrics(monkeypatch: pytest.MonkeyPatch) -> None:
    at_once = told(statistics_every=0)
    waited: list[int] = []

    def only_at_lines(self: EngineObserver, step: int) -> bool:
        waited.append(step)
        return (step + 1) % 20 == 0

    monkeypatch.setattr(EngineObserver, "_may_wait", only_at_lines)
    ear = told(steps=60, statistics_every=0)
    assert ear.events == at_once.events
    assert waited == [*range(EARLY), 39, 59]


def test_facts_that_still_wait_at_the_end_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(EngineObserver, "_may_wait", lambda *_: False)
    assert [event.step for event in told(steps=7).of(Backward)] == [*range(7)]


@pytest.mark.parametrize(("every", "first", "due"), [(5, 0, 4), (5, 4, 4), (5, 5, 9), (1, 7, 7), (50, 17, 49)])
def test_the_next_step_that_is_due(every: int, first: int, due: int) -> None:
    assert _next_due(every, first) == due


def test_a_run_of_one_step_is_told_too() -> None:
    ear = told(steps=1)
    assert [type(event).__name__ for event in ear.events] == [
        "RunStarted", "ModelSeen", "LossComputed", "EpochStarted", "Backward", "GradientsMeasured", "Stepped",
        "ParametersAccounted",
    ]  # fmt: skip


def test_a_loop_that_goes_on_tells_of_its_own_steps_only() -> None:
    ear = Ear()
    loop = Loop.of(replace(RECIPE, steps=60), hooks=ear)
    loop.state.step, loop.state.epoch = 30, 10
    loop.train()
    steps = [event.step for event in ear.of(Backward)]
    assert steps == [*range(30, 40), 59]
    assert [event.steps for event in ear.of(ParametersAccounted)] == [5, 10]
    assert [event.passes for event in ear.of(EpochStarted)] == [*range(11, 21)]
    assert ear.of(IdenticalUnits) == []


# -- what is told --


def test_the_run_and_the_model_introduce_themselves() -> None:
    ear = told(steps=1)
    (run,), (model,) = ear.of(RunStarted), ear.of(ModelSeen)
    assert (run.script, run.rank, run.world_size, run.torch) == ("told", 0, 1, torch.__version__)
    assert (model.name, model.dropouts, model.batch_norms, model.compiled) == ("Net", 1, 1, False)
    assert model.parameters == sum(parameter.numel() for parameter in Net().parameters())
    assert model.defined is not None
    assert model.defined.path == __file__
    assert model.place == model.defined


def build(width: int = 12) -> nn.Module:
    return nn.Sequential(nn.Linear(6, width), nn.Linear(width, 3))


def test_a_model_that_a_function_builds_stands_at_that_function() -> None:
    place = _place_of(partial(build, width=4))
    assert place is not None
    assert (place.path, place.line, place.function) == (__file__, build.__code__.co_firstlineno, "build")
    assert _place_of(nn.Linear) is None
    assert _place_of(torch.nn.functional.linear) is None
    (model,) = told(model=build, steps=1).of(ModelSeen)
    assert model.defined is None
    assert model.place is not None


@pytest.mark.parametrize("accumulate", [1, 4])
def test_the_loss_is_that_of_the_whole_step(accumulate: int) -> None:
    def plain() -> nn.Module:
        return nn.Linear(6, 3)

    ear = Ear()
    loop = Loop.of(replace(RECIPE, model=plain, steps=1, batch=60, accumulate=accumulate), hooks=ear)
    source = read(DataRequest()).train
    assert isinstance(source, Tensors)
    expected = F.cross_entropy(loop.parts.model(source.inputs), source.targets).item()
    loop.train()
    (backward,), (step,) = ear.of(Backward), ear.of(Stepped)
    assert backward.loss == pytest.approx(expected, rel=1e-5)
    assert (backward.reached, backward.optimized) == (2, 2)
    assert (step.backwards, step.averaged, step.cleared, step.gradients) == (accumulate, True, True, "new")


def test_gradients_are_measured_before_they_are_clipped_in_the_order_of_the_layers() -> None:
    class Backwards(nn.Module):
        """Written last to first."""

        def __init__(self) -> None:
            super().__init__()
            self.last, self.first = nn.Linear(12, 3), nn.Linear(6, 12)

        def forward(self, x: Tensor) -> Tensor:
            out: Tensor = self.last(self.first(x).relu())
            return out

    clipped, free = (told(model=Backwards, steps=1, clip=clip).of(GradientsMeasured)[0] for clip in (1e-3, None))
    assert [layer.name for layer in clipped.layers] == ["first.weight", "last.weight"]
    assert clipped.total == pytest.approx(free.total)
    assert (clipped.clipped, free.clipped) == (True, False)
    assert clipped.learning_rate == 0.05
    assert math.dist([0, 0], [layer.norm for layer in free.layers]) <= free.total
    assert all(layer.weight_norm > 0 for layer in free.layers)


def test_adam_is_told_to_be_free_of_scale() -> None:
    assert told(steps=1, optimizer="adamw").of(Stepped)[0].scale_free
    assert not told(steps=1).of(Stepped)[0].scale_free


def test_each_pass_over_the_data_is_told_once() -> None:
    assert [(event.step, event.passes, event.batches) for event in told(steps=8).of(EpochStarted)] == [
        (0, 1, 3),
        (3, 2, 3),
        (6, 3, 3),
    ]


def test_a_step_that_was_held_back_is_no_step() -> None:
    def spoilt(request: DataRequest) -> Splits:
        return Splits(
            train=Tensors(torch.full((60, 6), math.nan), torch.zeros(60).long()), facts=Facts(classes=("a", "b", "c"))
        )

    ear = told(data=spoilt, on_nonfinite="skip", max_nonfinite=2)
    assert not ear.of(Stepped)
    assert not ear.of(GradientsMeasured)
    assert all(event.loss is not None and math.isnan(event.loss) for event in ear.of(Backward))


# -- without effect --


class Blind:
    """An observer that inspects no step."""

    looking = False

    def __init__(self, parts: Parts, state: State, *, replays: bool) -> None:
        """Nothing is kept."""

    def begin(self, *_: Any) -> None:
        """Inspects nothing."""

    gradients = updated = begin

    def next_look(self) -> int:
        """Never."""
        return sys.maxsize

    def tell(self) -> None:
        """There is nothing to tell."""


def test_training_is_bit_identical_without_an_observer(monkeypatch: pytest.MonkeyPatch) -> None:
    def weights() -> dict[str, Tensor]:
        loop = Loop.of(replace(RECIPE, accumulate=2, clip=0.5, ema=0.9, optimizer="adamw"))
        loop.train()
        assert loop.parts.ema is not None
        return {
            **loop.parts.model.state_dict(),
            **{f"ema.{name}": value for name, value in loop.parts.ema.model.state_dict().items()},
        }

    seen = weights()
    monkeypatch.setattr(loop_file, "EngineObserver", Blind)
    unseen = weights()
    assert all(torch.equal(seen[name], unseen[name]) for name in unseen)


def test_no_output_and_no_gradient_outlives_its_step() -> None:
    outputs: list[weakref.ref[Tensor]] = []

    class Watched(Net):
        def forward(self, x: Tensor) -> Tensor:
            out = super().forward(x)
            outputs.append(weakref.ref(out))
            return out

    loop = Loop.of(replace(RECIPE, model=Watched, steps=3))
    loop.train()
    gc.collect()
    assert len(outputs) >= 3
    assert not any(ref() is not None for ref in outputs)
    assert not any(module._forward_hooks for module in loop.parts.model.modules())


def test_looking_at_a_compiled_model_from_outside_compiles_it_once() -> None:
    from torch._dynamo.testing import CompileCounter

    counter = CompileCounter()
    ear = Ear()
    loop = Loop.of(replace(RECIPE, steps=10, batch=20), hooks=ear)
    loop = with_parts(loop, forward=torch.compile(loop.parts.model, backend=counter))
    loop.train()
    assert counter.frame_count == 1
    assert ear.of(ModelSeen)[0].compiled
    assert len(ear.of(LossComputed)) == 6
    assert [account.name for event in ear.of(ParametersAccounted) for account in event.accounts] == []


# -- the loss --


def softmaxed() -> Tensor:
    return torch.randn(8, 3, requires_grad=True).softmax(1)


@pytest.mark.parametrize(
    ("task", "output", "targets", "function", "shape"),
    [
        (Multiclass(), torch.randn(8, 3), torch.randint(3, (8,)), "cross_entropy", (8, 3)),
        (Multiclass(), torch.randn(8, 3, 2, 2), torch.randint(3, (8, 2, 2)), "cross_entropy", (8, 3, 2, 2)),
        (Language(), torch.randn(4, 5, 7), torch.randint(7, (4, 5)), "cross_entropy", (20, 7)),
        (Binary(), torch.randn(8, 1), torch.randint(2, (8,)), "binary_cross_entropy_with_logits", (8,)),
        (Multilabel(), torch.randn(8, 4), torch.randint(2, (8, 4)), "binary_cross_entropy_with_logits", (8, 4)),
        (Regression(), torch.randn(8, 1), torch.randn(8), "mse_loss", (8,)),
        (OwnLoss(nn.NLLLoss()), torch.randn(8, 3), torch.randint(3, (8,)), "nll_loss", (8, 3)),
        (OwnLoss(F.l1_loss), torch.randn(8, 1), torch.randn(8), "l1_loss", (8, 1)),
    ],
)
def test_what_each_task_gives_to_torch(
    task: Task, output: Tensor, targets: Tensor, function: str, shape: tuple[int, ...]
) -> None:
    fact = loss_facts(task, output, targets, 0, 0)
    assert fact is not None
    assert (fact.function, fact.input_shape) == (function, shape)
    assert fact.input_range == pytest.approx((output.min().item(), output.max().item()))
    assert fact.target_range == pytest.approx((targets.min().item(), targets.max().item()))
    assert fact.rows == ("scores" if function in ("cross_entropy", "nll_loss") else "unknown")


def test_probabilities_are_known_by_their_rows_in_each_precision() -> None:
    targets = torch.randint(3, (8,))
    for kind in (torch.float32, torch.float64, torch.bfloat16, torch.float16):
        fact = loss_facts(Multiclass(), softmaxed().to(kind), targets, 0, 0)
        assert fact is not None
        assert fact.rows == "probabilities", kind
        assert "SoftmaxBackward0" in fact.preceding
    fact = loss_facts(Multiclass(), softmaxed().log(), targets, 0, 0)
    assert fact is not None
    assert fact.rows == "log-probabilities"


def test_a_softmax_layer_is_named_only_if_its_result_is_what_the_loss_gets() -> None:
    output, other = softmaxed(), softmaxed()
    notes = [Activation("Softmax", None, other.grad_fn), Activation("LogSoftmax", None, output.grad_fn)]
    fact = loss_facts(Multiclass(), output.view(8, 3), torch.zeros(8).long(), 0, 0, notes)
    assert fact is not None
    assert fact.preceding_module == "LogSoftmax"
    unknown = loss_facts(Multiclass(), torch.randn(8, 3), torch.zeros(8).long(), 0, 0, notes)
    assert unknown is not None
    assert (unknown.preceding, unknown.preceding_module) == ((), "")


def test_targets_that_do_not_count_are_left_out_of_their_range() -> None:
    fact = loss_facts(Multiclass(Facts(ignore=-1)), torch.randn(4, 3), torch.tensor([-1, 1, -1, 2]), 0, 0)
    assert fact is not None
    assert (fact.target_range, fact.target_distinct, fact.target_integral) == ((1.0, 2.0), 2, True)


@pytest.mark.parametrize(
    ("task", "output", "targets"),
    [
        (OwnLoss(lambda output, _: output.sum()), torch.randn(4, 3), torch.zeros(4).long()),
        (Multiclass(), {"scores": torch.randn(4, 3)}, torch.zeros(4).long()),
        (Multiclass(), torch.randn(0, 3), torch.zeros(0).long()),
        (Regression(), torch.randn(4, 2), torch.randn(4)),
    ],
)
def test_nothing_is_told_of_a_loss_that_we_cannot_see(task: Task, output: Any, targets: Tensor) -> None:
    assert loss_facts(task, output, targets, 0, 0) is None


# -- the parameters --


def test_each_parameter_that_is_not_in_order_is_told_with_its_reason() -> None:
    last = told(model=Spare, steps=12).of(ParametersAccounted)[-1]
    accounts = {account.name: account for account in last.accounts}
    assert set(accounts) == {"unused.weight", "unused.bias", "aside.weight", "aside.bias", "scale"}
    assert last.steps == 10
    assert not accounts["unused.weight"].ran
    assert accounts["aside.weight"].ran
    assert accounts["aside.weight"].ran_with_graph
    assert not accounts["scale"].ran
    assert all(account.held and not account.has_gradient for account in accounts.values())
    assert all(account.defined is not None and account.defined.path == __file__ for account in accounts.values())
    assert last.complete == len(list(Net().parameters())) + 1, "the average that is written by hand is in order too"


def test_what_the_optimizer_leaves_out_and_what_it_holds_besides_is_told() -> None:
    stray = torch.nn.Parameter(torch.zeros(7))

    def some(groups: Any, lr: float) -> torch.optim.Optimizer:
        return torch.optim.SGD([*groups[0]["params"][1:], stray], lr=lr)

    last = told(optimizer=some, steps=6).of(ParametersAccounted)[-1]
    assert [(account.name, account.held, account.has_gradient) for account in last.accounts] == [
        ("body.0.weight", False, True)
    ]
    assert (last.orphans, last.orphan_sizes) == (1, (7,))


def test_attention_is_one_layer_though_it_never_calls_its_output_layer() -> None:
    class Attending(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attention = nn.MultiheadAttention(6, 2, batch_first=True)
            self.idle = nn.MultiheadAttention(6, 2, batch_first=True)
            self.head = nn.Linear(6, 3)

        def forward(self, x: Tensor) -> Tensor:
            row = x.unsqueeze(1)
            out: Tensor = self.head(self.attention(row, row, row)[0].squeeze(1))
            return out

    last = told(model=Attending, steps=10).of(ParametersAccounted)[-1]
    assert {account.name.split(".")[0] for account in last.accounts} == {"idle"}
    assert not any(account.ran for account in last.accounts)


def test_accounts_keep_no_tensor() -> None:
    model = Net()
    accounts = Accounts(model, torch.optim.SGD(model.parameters(), lr=0.1), compiled=False)
    output = model(torch.randn(4, 6))
    accounts.saw_output(output)
    output.sum().backward()
    accounts.look()
    ref = weakref.ref(output)
    del output
    gc.collect()
    assert ref() is None


# -- the units --


def compared(model: nn.Sequential, inputs: Tensor, targets: Tensor) -> Iterator[IdenticalUnits]:
    """Six steps of plain SGD under the looks."""
    units, optimizer = Units(model), torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(Units.LAST + 1):
        if step == Units.LAST:
            for name, layer in model.named_children():
                layer.register_forward_hook(lambda _, given, __, name=name: units.saw(name, given))
        F.cross_entropy(model(inputs), targets).backward()  # type: ignore[no-untyped-call]
        if step in (Units.FIRST, Units.SECOND, Units.LAST):
            yield from units.look(step)
        optimizer.step()
        optimizer.zero_grad()


def mlp(**fills: float) -> nn.Sequential:
    """Three layers; those named are filled with a constant."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 3))
    for name, value in fills.items():
        layer = model.get_submodule(name.removeprefix("layer"))
        assert isinstance(layer, nn.Linear)
        nn.init.constant_(layer.weight, value)
        nn.init.zeros_(layer.bias)
    return model


@pytest.mark.parametrize(
    ("fills", "found"),
    [
        pytest.param({}, set(), id="random"),
        pytest.param({"layer4": 0.0}, set(), id="zero head"),
        pytest.param({"layer0": 0.3, "layer2": 0.3, "layer4": 0.3}, {"0.weight", "2.weight"}, id="constant"),
        pytest.param(
            {"layer0": 0.0, "layer2": 0.0, "layer4": 0.0}, {"0.weight", "2.weight", "4.weight"}, id="zeros throughout"
        ),
        pytest.param({"layer0": 0.3}, set(), id="constant before random"),
    ],
)
def test_units_that_cannot_part_are_told_and_no_others(fills: dict[str, float], found: set[str]) -> None:
    inputs, targets = torch.randn(30, 6).abs(), torch.arange(30) % 3
    assert {event.parameter for event in compared(mlp(**fills), inputs, targets)} == found


def test_a_compared_unit_has_its_numbers() -> None:
    inputs, targets = torch.rand(30, 6), torch.arange(30) % 3
    event = next(compared(mlp(layer0=0.3, layer2=0.3, layer4=0.3), inputs, targets))
    assert (event.units, event.steps) == (5, 3)
    assert event.gradient_norm > 0
