"""The step program: what sampled steps and evaluation calls computed."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from trueloop.doctor.watch import Watch
from trueloop.event import Event, StepProgram
from trueloop.observers.step_program import StepProgramObserver
from trueloop.results.check import Tally
from trueloop.rules.program_view import ProgramView
from trueloop.taps.calls import OperationCall
from trueloop.taps.operation import MOST_OPERATIONS
from trueloop.torch_private.modes import function_modes


def programs_of(train: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> list[StepProgram]:
    seen: list[StepProgram] = []
    monkeypatch.setattr(Tally, "hear", lambda _, event: _keep(seen, event))
    with Watch(select=["shapes-broadcast-in-loss"]):
        train()
    return seen


def _keep(seen: list[StepProgram], event: Event) -> None:
    if isinstance(event, StepProgram):
        seen.append(event)


def train(steps: int = 6, device: object = None) -> list[float]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Dropout(0.1), nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    rows, targets = torch.randn(64, 4), torch.randn(64)
    losses = []
    for _ in range(steps):
        picked = torch.randint(64, (16,))
        out = model(rows[picked])[:, 0]
        loss = ((out - targets[picked]) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    model.eval()
    with torch.no_grad():
        for begin in range(0, 64, 16):
            model(rows[begin : begin + 16]).abs().mean().item()
    return losses


def test_a_training_step_is_recorded_from_the_batch_to_the_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    found = programs_of(train, monkeypatch)
    training = [program for program in found if program.phase == "training"]
    assert [program.step for program in training] == [1, 2, 3]
    program = training[0]
    names = [operation.name for operation in program.operations]
    assert [name for name in names if name in ("randint", "linear", "tanh", "sub", "pow", "mean")] == [
        "randint", "linear", "tanh", "linear", "sub", "pow", "mean",
    ]  # fmt: skip
    view = ProgramView(program)
    (loss,) = program.losses
    assert view.values[loss].shape == ()
    assert view.values[loss].grad
    parameters = {view.values[index].name for index in view.on_loss_path if view.values[index].origin == "parameter"}
    assert parameters == {"0.weight", "0.bias", "3.weight", "3.bias"}
    (use,) = program.models
    assert view.sample_dim(use.inputs[0]) == 0
    ((operation, prediction, target),) = [c for c in view.comparisons if c[0].name in ("sub", "__sub__")]
    assert view.values[prediction].shape == view.values[target].shape == (16,)
    assert operation.place is not None
    assert operation.place.path == __file__


def test_an_evaluation_is_recorded_for_three_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    found = programs_of(train, monkeypatch)
    (evaluation,) = [program for program in found if program.phase == "evaluation"]
    assert len(evaluation.models) == 3
    assert not any(use.grad or use.training for use in evaluation.models)
    numbers = [operation.number for operation in evaluation.operations if operation.name == "item"]
    assert len(numbers) == 3
    assert all(number is not None for number in numbers)


def test_an_evaluation_that_begins_with_a_call_knows_what_it_was_given(monkeypatch: pytest.MonkeyPatch) -> None:
    def run() -> None:
        torch.manual_seed(0)
        model = nn.Linear(4, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(6):
            loss = model(torch.randn(16, 4) + 1).square().mean()
            loss.backward()
            optimizer.step()
        with torch.no_grad():  # and no eval()
            model(torch.randn(5, 4)).abs().mean().item()

    (evaluation,) = [program for program in programs_of(run, monkeypatch) if program.phase == "evaluation"]
    assert evaluation.values[evaluation.models[0].inputs[0]].shape == (5, 4)


def test_the_losses_of_a_recorded_run_are_bit_identical(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = train()
    recorded: list[float] = []
    assert programs_of(lambda: recorded.extend(train()), monkeypatch)
    assert recorded == plain
    assert function_modes() == []


def test_operations_between_two_calls_are_not_recorded_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[str] = []
    observe = StepProgramObserver.operation_ended

    def hear(self: StepProgramObserver, call: OperationCall) -> None:
        heard.append(call.name)
        observe(self, call)

    monkeypatch.setattr(StepProgramObserver, "operation_ended", hear)

    def run() -> None:
        torch.manual_seed(0)
        model = nn.Linear(4, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(6):
            model(torch.randn(16, 4)).square().mean().backward()
            optimizer.step()
        model.eval()
        table = torch.zeros(10)
        for index in range(MOST_OPERATIONS):  # while the evaluation is recorded: its data are made
            table[index % 10] += 1

    programs_of(run, monkeypatch)
    assert MOST_OPERATIONS <= len(heard) < MOST_OPERATIONS + 1000


class Counting(TorchFunctionMode):
    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def __torch_function__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        self.calls += 1
        return func(*args, **(kwargs or {}))


def test_modes_of_the_user_are_left_in_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mode around the loop keeps the recorder out; one inside a step is left before it."""

    def inside() -> None:
        with Counting() as mode:
            train()
        assert mode.calls > 100

    assert programs_of(inside, monkeypatch) == []
    assert function_modes() == []


def test_a_loss_function_is_counted_once_while_it_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    from trueloop.event import LossComputed

    calls: list[int] = []

    def hear(_: object, event: Event) -> None:
        if isinstance(event, LossComputed):
            calls.append(event.call)

    monkeypatch.setattr(Tally, "hear", hear)
    with Watch(select=["shapes-broadcast-in-loss"]):
        torch.manual_seed(0)
        model = nn.Linear(4, 3)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(5):
            loss = nn.functional.cross_entropy(model(torch.randn(8, 4)), torch.randint(3, (8,)))
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            optimizer.zero_grad()
    assert calls == [0, 1, 2, 3, 4]


def test_a_mode_that_a_users_mode_covers_is_left_when_that_has_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    covering = Counting()

    def entered_inside_a_recorded_step() -> None:
        model = nn.Linear(4, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for step in range(4):
            if step == 1:
                covering.__enter__()  # type: ignore[no-untyped-call]
            model(torch.randn(8, 4)).mean().backward()
            optimizer.step()
            if step == 2:
                covering.__exit__(None, None, None)  # type: ignore[no-untyped-call]
                assert covering.calls
                assert len(function_modes()) == 1
        assert function_modes() == [], "left at the step after"

    assert programs_of(entered_inside_a_recorded_step, monkeypatch)
    assert function_modes() == []


def test_code_that_was_compiled_before_the_watch_does_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.compile(lambda x: x + 1, backend="eager")(torch.zeros(2))
    assert programs_of(train, monkeypatch)
